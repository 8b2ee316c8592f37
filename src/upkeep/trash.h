/*
 * Deleted copies wait in <root>/.refrelay/trash before they are finally removed, and
 * half-built ones that a crash left in staging are removed.
 */
#ifndef UPKEEP_TRASH_H
#define UPKEEP_TRASH_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/repo.h"
#include "job/job.h"

/* How long a deleted copy waits. */
#define TRASH_KEEP_MS ((int64_t)14 * 24 * 3600 * 1000)

/* The place in the trash, below the root, for the copy at `path`; makes the trash if
 * necessary. The caller frees. NULL: *err. */
char *trash_make_place(const struct job *job, int root, const char *path,
		       struct err *err);

/* Moves the copy at <root>/<path> there, durably, under the job's lease. First raises its
 * fence, so that a paused worker no longer writes to it. *to is its place in the trash;
 * the caller frees. ERR_MISSING: it does not exist, or is not a repository but a folder
 * of some. */
int trash_put(struct job *job, const char *root, const char *path, char **to,
	      struct err *err);

/* Deletes copies older than TRASH_KEEP_MS. Failures are logged and retried next time. */
void trash_expire(const char *root);

/* Removes half-built copies whose builder is dead: those whose lease is free. */
void staging_clear(struct lease_manager *leases, const char *root);

/*
 * Keeps a copy healthy, since git's own housekeeping is off in it: removes left-overs of
 * crashes, folds packs when there are many. Under the repository's lease.
 */

/* With more packs than this a sync merges the small ones, and folds the rest if there are
 * still more. With maintenance (upkeep/maintenance.h) this matters only for repositories
 * that are never idle. */
#define TIDY_PACK_LIMIT 32
#define TIDY_PACK_LIMIT_MAINTAINED 256

enum tidy_after {
	TIDY_AFTER_SUCCESS, /* temporary files may be of another active git: by age */
	TIDY_ALONE,         /* only our git works here, and is not running: remove
			       git's */
	TIDY_AFTER_CRASH,   /* the former lease holder is gone: remove all */
};

/* Removes temporary files of git and of ours, and locks whose owner is dead. Never
 * touches files that a living process may use. */
int tidy_left_overs(const struct repo *repo, enum tidy_after after, struct err *err);

/* Merges the small ones in this process if there are more than TIDY_PACK_LIMIT of them,
 * and lets git fold all if there are then more than `most`. Does not drop objects,
 * reachable or not. Does not start a process if there are few; tidy_packs_are_few():
 * there is nothing to do. */
bool tidy_packs_are_few(const struct repo *repo);
int tidy_packs(const struct git_work *work, const struct repo *repo, size_t most,
	       struct err *err);

#endif
