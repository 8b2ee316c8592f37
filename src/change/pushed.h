/*
 * How many refs were deleted by pushes that this site took: those are no accident, so the
 * brake of a secondary (pull/hold.h) does not count them. Any thread.
 *
 * A number that only rises, durable before git can delete anything; and how many of them
 * belong to pushes that are not over, which a picture of refs may or may not show. What
 * was announced when the refs were read, less what was settled when those of the copy
 * were, is at least what pushes have deleted in between.
 */
#ifndef CHANGE_PUSHED_H
#define CHANGE_PUSHED_H

#include "change/notice.h"

/* A push is about to delete so many refs of that repository. */
int pushed_begin(struct notice *notice, const char *name, size_t deletions,
		 struct err *err);

/* It is over, and so many of them were refused. Each _begin that returned 0 has one. */
void pushed_end(struct notice *notice, const char *name, size_t deletions,
		size_t refused);

struct pushed {
	uint64_t announced, settled;
};
int pushed_read(struct notice *notice, const char *name, struct pushed *pushed,
		struct err *err);

/* The repository is gone: in the transaction that says so. */
int pushed_forget(struct store_tx *tx, const char *name, struct err *err);

#endif
