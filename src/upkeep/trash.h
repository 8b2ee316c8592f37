/*
 * Deleted copies wait in <root>/.refrelay/trash before they are gone for good, and
 * half-built ones that a crash left in staging are cleared away.
 */
#ifndef UPKEEP_TRASH_H
#define UPKEEP_TRASH_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/repo.h"
#include "job/job.h"

/* How long a deleted copy waits. */
#define TRASH_KEEP_MS ((int64_t)14 * 24 * 3600 * 1000)

/* Where below the root the copy at `path` would wait, in a trash that exists by then. The
 * caller frees. NULL: *err. */
char *trash_make_place(const struct job *job, int root, const char *path,
		       struct err *err);

/* Moves the copy at <root>/<path>, durably, under the job's lease. Its fence is raised
 * first, so that no paused worker writes to it any more. *to is where it waits; the
 * caller frees. ERR_MISSING: it is not there, or is no repository but a folder of some.
 */
int trash_put(struct job *job, const char *root, const char *path, char **to,
	      struct err *err);

/* Removes the folders above <root>/<path> that are empty, now that nothing stands there.
 */
void trash_remove_folders(int root, const char *path);

/* Deletes what has waited longer than TRASH_KEEP_MS. What cannot be deleted is logged
 * and tried again next time. */
void trash_expire(const char *root);

/* Removes half-built copies whose builder is dead: those of which the lease can be had
 * at once. */
void staging_clear(struct lease_manager *leases, const char *root);

/*
 * What keeps a copy healthy, since git's own housekeeping is off in it: left-overs of
 * crashes go, packs are folded when there are many. Under the repository's lease.
 */

/* With more packs than this a sync merges those that are small, and folds what remains if
 * that is more still. Where there is maintenance
 * (upkeep/maintenance.h) that is for repositories only that never rest. */
#define TIDY_PACK_LIMIT 32
#define TIDY_PACK_LIMIT_MAINTAINED 256

enum tidy_after {
	TIDY_AFTER_SUCCESS, /* temporary files may be a foreign git's, at work: by age */
	TIDY_ALONE,         /* no git but ours works here, and none does now: git's go */
	TIDY_AFTER_CRASH,   /* whoever had the lease before us is gone: all go */
};

/* Removes temporary files of git and of ours, and locks whose owner is dead. Never
 * touches what a living process may be using. */
int tidy_left_overs(const struct repo *repo, enum tidy_after after, struct err *err);

/* Merges the small ones in this process if there are more than TIDY_PACK_LIMIT of them,
 * and has git fold all if there are more than `most` then. No object is dropped,
 * reachable or not. Starts no process when there are few; tidy_packs_are_few() says that
 * there is nothing to do. */
bool tidy_packs_are_few(const struct repo *repo);
int tidy_packs(const struct git_work *work, const struct repo *repo, size_t most,
	       struct err *err);

#endif
