/*
 * Whether one commit descends from another: whether a branch that moved from the one to
 * the other went forward, or was rewritten. Starts no process.
 */
#ifndef GIT_DESCENT_H
#define GIT_DESCENT_H

#include "base/base.h"
#include "git/object_store.h"

enum descent {
	DESCENT_UNKNOWN, /* it is too far to tell, or something cannot be read */
	DESCENT_YES,
	DESCENT_NO, /* also if one of the two is no commit */
};

/* Whether `tip` descends from `old`. Reads *left commits at most, which shrinks: of a
 * branch that went forward, about those that are new. */
enum descent descent_find(struct object_store *store, const struct oid *tip,
			  const struct oid *old, size_t *left);

#endif
