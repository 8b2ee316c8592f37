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

#endif
