/*
 * Left-overs of killed processes, git's or ours, in a repository: temporary files,
 * locks, halves of packs. Each is removed when it is old, and there is no sign that its
 * owner lives:
 *
 *	an hour		locks of refs, packed-refs.lock; ours at once if their owner
 *			is dead
 *	15 minutes	other locks, packed-refs.new unless packed-refs.lock is held
 *	a day		temporary files and packs without an index, since they were
 *			last written
 *	7 days		.keep files of a fetch or a push; objects of a push that never
 *			ended
 *	14 days		our entries in reflogs (git/reflog.h)
 *
 * Under the repository's lease; other processes may be active all the same. Source:
 * Gitaly's ages (internal/git/housekeeping/clean_stale_data.go), and a day for what a
 * slow fetch writes.
 */
#ifndef UPKEEP_STALE_H
#define UPKEEP_STALE_H

#include "base/base.h"
#include "git/repo.h"

/* How many there are at that time, seconds since 1970. Checks only the usual places, not
 * the folders of loose objects or refs. */
size_t stale_count(const struct repo *repo, int64_t now);

/* Removes them, everywhere. *removed grows. */
int stale_remove(const struct repo *repo, int64_t now, size_t *removed, struct err *err);

/* A row of what may be stale in a folder. */
struct stale_rule {
	const char *folder; /* NULL: those of loose objects */
	int64_t age_s;      /* it was written longer ago; INT64_MIN: of any age */
	bool (*is)(int folder, const char *name);
};

/* A git that is at work touches its temporary file all the time. */
#define STALE_TEMPORARY_S (24 * 3600)

/* Git's, objects being received or written, and ours, of file_replace(). */
bool stale_is_any_of_git(int folder, const char *name);
bool stale_is_own_temporary(int folder, const char *name);

/* Removes what these rules name. *removed grows. */
int stale_sweep(const struct repo *repo, const struct stale_rule *rules, size_t count,
		size_t *removed, struct err *err);

#endif
