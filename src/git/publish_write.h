/*
 * The writing half of publish: under all locks, after all checks. For git/publish.c.
 */
#ifndef GIT_PUBLISH_WRITE_H
#define GIT_PUBLISH_WRITE_H

#include "base/base.h"
#include "git/lock_file.h"
#include "git/ref_diff.h"
#include "git/refs.h"

struct publish_write {
	int dir;
	const struct lock_owner *writer;
	const struct ref_snapshot *now; /* the refs as they are, all peels known */
	const struct ref_snapshot *to;
	const struct ref_diff *diff;
};

/* Moves the values of loose refs into packed-refs; no value changes. Needs only
 * packed-refs.lock; `to` and `diff` are not looked at. */
int publish_fold(const struct publish_write *write, struct err *err);

/* Folds loose refs, then changes packed-refs, HEAD and symbolic refs in the order that
 * publish.h describes. Durable when it returns 0. */
int publish_write(const struct publish_write *write, struct err *err);

#endif
