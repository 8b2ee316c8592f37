/*
 * Counts the refs deleted by pushes that this site accepted: these are not accidents, so
 * the brake of a secondary (pull/hold.h) does not count them. Any thread.
 *
 * A number that only rises, durable before git can delete anything; and how many of them
 * belong to unfinished pushes, whose effect a snapshot of refs may or may not include.
 * The announced number when the refs were read, minus the settled number when the copy's
 * were read, is at least the number of refs that pushes deleted in between.
 */
#ifndef CHANGE_PUSHED_H
#define CHANGE_PUSHED_H

#include "change/notice.h"

/* A push is about to delete `deletions` refs of that repository. */
int pushed_begin(struct notice *notice, const char *name, size_t deletions,
		 struct err *err);

/* It has ended, and `refused` of them were refused. Required after each _begin that
 * returned 0. */
void pushed_end(struct notice *notice, const char *name, size_t deletions,
		size_t refused);

struct pushed {
	uint64_t announced, settled;
};
int pushed_read(struct notice *notice, const char *name, struct pushed *pushed,
		struct err *err);

/* The repository is gone: call it in the transaction that records that. */
int pushed_forget(struct store_tx *tx, const char *name, struct err *err);

#endif
