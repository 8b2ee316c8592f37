/*
 * Entries of refrelay in the reflogs of a copy, so that what they name stays reachable
 * for git: `git gc` and `git prune` keep it, and `git reflog show NAME` lists it. Entries
 * of others are left as they are. Under the repository's lease.
 *
 * Source: git-reflog(1), gitrepository-layout(5), and git refs/files-backend.c.
 */
#ifndef GIT_REFLOG_H
#define GIT_REFLOG_H

#include "base/base.h"
#include "base/vec.h"
#include "git/refs.h"

#define REFLOG_DAYS 14 /* an entry of ours stays */

struct reflog_move {
	const char *ref; /* borrowed */
	struct oid before, after;
	bool is_kept; /* for the caller's use */
};
typedef VEC(struct reflog_move) reflog_moves;

/* Says in the ref's log that it was rewritten, so that NAME@{1} is its old value; in the
 * log of HEAD if another file stands in the way, or it would become too long. ERR_CONFIG:
 * so would that one. `now`: seconds since 1970. Durable when
 * it returns 0. */
int reflog_keep(int dir, const struct reflog_move *move, int64_t now, struct err *err);

/* The old values of many refs, in the log of HEAD. ERR_CONFIG: it would become too long,
 * and has none of them. */
int reflog_keep_many(int dir, const reflog_moves *moves, int64_t now, struct err *err);

enum reflog_tidying { REFLOG_COUNT, REFLOG_REMOVE };

/* Entries of ours that are too old go, with files that get empty by that. Those of
 * branches that `refs` does not have move to the log of HEAD: git takes no other log
 * without its ref, and another branch may need the place. refs NULL: these stay. So does
 * what we may not write, or has too long a name for that. *found grows by the logs that
 * have some. */
int reflog_tidy(int dir, const struct ref_snapshot *refs, int64_t now,
		enum reflog_tidying tidying, size_t *found, struct err *err);

#endif
