/*
 * What keeps a copy healthy, since git's own housekeeping is off in it: left-overs of
 * crashes go, packs are folded when there are many. Under the repository's lease.
 */
#ifndef UPKEEP_TIDY_H
#define UPKEEP_TIDY_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/repo.h"

/* More packs than this are folded into fewer. */
#define TIDY_PACK_LIMIT 32

enum tidy_after {
	TIDY_AFTER_SUCCESS, /* temporary files may be a foreign git's, at work: by age */
	TIDY_ALONE,         /* no git but ours works here, and none does now: git's go */
	TIDY_AFTER_CRASH,   /* whoever had the lease before us is gone: all go */
};

/* Removes temporary files of git and of ours, and locks whose owner is dead. Never
 * touches what a living process may be using. */
int tidy_left_overs(const struct repo *repo, enum tidy_after after, struct err *err);

/* Folds packs if there are more than TIDY_PACK_LIMIT. No object is dropped, reachable or
 * not. Starts no process when there are few. */
int tidy_packs(const struct git_work *work, const struct repo *repo, struct err *err);

#endif
