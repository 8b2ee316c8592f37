/*
 * Mends what can be mended of a copy in its place, and checks whether the rest is whole.
 * Under the repository's lease, at a secondary: only refrelay changes a copy.
 */
#ifndef PULL_MEND_H
#define PULL_MEND_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/repo.h"
#include "job/job.h"

/* Removes our own files in the copy that cannot be used: they are made again. The fence
 * restarts from the lease's, which is above all earlier grants. */
int mend_own_files(int dir, struct err *err);

/* Removes files that make git use something other than the copy's own content
 * (repo_diversions). 1: there were some. ERR_CORRUPT: they are in a repository that is
 * not a copy yet, where they may be somebody's, or behind a link. */
int mend_diversions(int dir, struct err *err);

/* Removes links and special files below refs/: refrelay does not make them in a copy. Git
 * treats such a ref as broken, even if packed-refs has it, too. ERR_CORRUPT: they are in
 * a repository that is not a copy yet, where they may be somebody's. */
int mend_refs(int dir, struct err *err);

/* Checks that there are none. ERR_CORRUPT: there are. */
int mend_check_refs(int dir, struct err *err);

/* Checks that it has a config, which says how to read the rest: refrelay gives each copy
 * one. Also that git does not treat missing objects as ones to be fetched later. */
int mend_check_config(const struct repo *copy, struct err *err);

/* Removes abandoned locks; those that a living process of ours holds stay. */
void mend_locks(int dir);

/* Reads all of the copy, and nothing else. -1: it is not whole, unless err_is_of_data()
 * is false for the error. Damaged files that git can do without are removed. */
int mend_look_through(const struct git_work *work, const struct repo *copy,
		      struct err *err);

/* What others may have put there, nobody may have flushed: all of it, if the copy has no
 * record yet, or is in doubt. Before it gets one. */
int mend_make_durable(int dir, bool is_doubtful, struct err *err);

/*
 * Moves a copy that was built in staging to its place. Under the repository's lease;
 * paths are absolute. For pull/sync_repository.c.
 */

struct placing {
	struct job *job;
	const char *root;    /* of the copies */
	const char *staging; /* the new copy: whole, durable, its fence raised */
	const char *below;   /* where it belongs, below the root: "group/tool.git" */
};

/* Moves it to its place, which must be free. ERR_LOST: a later lease holder cleared it
 * away. */
int place_new(const struct placing *placing, struct err *err);

/* Exchanges it in one step with the copy, or remains of one, in its place, which goes to
 * the trash. A crash leaves one of the two in place and loses neither. ERR_LOST: a later
 * lease holder is at work. */
int place_instead(const struct placing *placing, struct err *err);

/* Flushes the names of the folders above a copy, and its own: a worker that ended in
 * between may have moved it there, and no more. */
int place_sync_left(const char *root, const char *below, struct err *err);

/* The failure may be due to a later lease holder that took `staging` for an abandoned
 * one: then the error becomes ERR_LOST. Returns -1. */
int place_is_cleared(const char *staging, struct err *err);

#endif
