/*
 * What can be mended of a copy in its place, and whether the rest is whole. Under the
 * repository's lease, at a secondary: nobody but refrelay changes a copy.
 */
#ifndef PULL_MEND_H
#define PULL_MEND_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/repo.h"
#include "job/job.h"

/* Our own files in the copy that cannot be used are removed: they are made again. The
 * fence begins anew from the lease's, which is above all grants before it. */
int mend_own_files(int dir, struct err *err);

/* What git would obey in place of the copy's own content (repo_diversions) goes. 1: there
 * was such. ERR_CORRUPT: in a repository that is no copy yet, where it may be somebody's,
 * or behind a link. */
int mend_diversions(int dir, struct err *err);

/* Below refs/, links and special files go: refrelay makes none in a copy. Git takes a ref
 * for broken that is one, even if packed-refs has it, too. ERR_CORRUPT: there are some in
 * a repository that is no copy yet, where they may be somebody's. */
int mend_refs(int dir, struct err *err);

/* That there is none: ERR_CORRUPT. */
int mend_check_refs(int dir, struct err *err);

/* That it has a config, which says how to read the rest: refrelay gives each copy one.
 * And that git does not take objects that are missing for what it may fetch later. */
int mend_check_config(const struct repo *copy, struct err *err);

/* Locks that somebody left there go; what a living process of ours holds stays. */
void mend_locks(int dir);

/* Reads all of the copy, and nothing else. -1: it is not whole, or copy_is_at_fault()
 * says otherwise. What git can do without is removed if it is damaged. */
int mend_look_through(const struct git_work *work, const struct repo *copy,
		      struct err *err);

/*
 * A copy that was built in staging gets its place. Under the repository's lease; paths
 * are absolute. For pull/sync_repository.c.
 */

struct placing {
	struct job *job;
	const char *root;    /* of the copies */
	const char *staging; /* the new copy: whole, durable, its fence raised */
	const char *below;   /* where it is to be, below the root: "group/tool.git" */
};

/* Moves it to its place, where nothing may be. ERR_LOST: a later lease holder cleared it
 * away. */
int place_new(const struct placing *placing, struct err *err);

/* Moves it to its place in one step with what stands there, a copy or what is left of
 * one, which goes to the trash. A crash leaves either in place and none lost. ERR_LOST: a
 * later lease holder is at work. */
int place_instead(const struct placing *placing, struct err *err);

/* What failed may have failed because a later holder of the lease took `staging` for a
 * dead one's: then it becomes ERR_LOST. Returns -1. */
int place_is_cleared(const char *staging, struct err *err);

#endif
