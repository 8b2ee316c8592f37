/*
 * Changes that need a person's decision: dropping commits that only the copy has, and
 * deleting very many refs at once.
 */
#ifndef PULL_HOLD_H
#define PULL_HOLD_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/refs.h"
#include "git/repo.h"
#include "pull/source.h"

/* The brake stops deletions that exceed both a share of all and a number. */
struct hold_limit {
	double share; /* 0.05: five percent */
	size_t more_than;
};

#define HOLD_SHARE 0.05 /* where no setting says another */
#define HOLD_REFS(part) ((struct hold_limit){ .share = (part), .more_than = 20 })
#define HOLD_REPLICABLES ((struct hold_limit){ .share = HOLD_SHARE, .more_than = 10 })

bool hold_limit_stops(struct hold_limit deletion_limit, size_t deletions, size_t all);

struct hold_question {
	const struct git_work *work;
	const struct repo *copy;         /* has the objects of the view's refs already */
	const struct ref_snapshot *from; /* its refs */
	const struct source_view *view;
	const struct ref_diff *diff; /* leads from them to the view's */
	bool is_ours;    /* they are those that we published last, from this very source,
			    so that commits which it dropped were dropped on purpose */
	uint64_t pushed; /* this many deletions were pushed at the source, thus decided by
			    a person */
	uint64_t permitted;  /* a person has permitted this many of the others */
	double delete_share; /* more are held, if they are many */
};

/* How many are not pushed ones. */
uint64_t hold_deletions(const struct hold_question *question);

/* 1 if the copy must be left as it is (*reason says why, one sentence; the caller
 * frees), 0 if not, -1 on errors. */
int hold_decide(const struct hold_question *question, char **reason, struct err *err);

/* Whether some object that a ref of the damaged copy `old` names can be read there, but
 * is missing from `new`: 1 (then *reason as above), 0, or -1 if that could not be found
 * out and `old` is not to blame. */
int hold_lost_tips(const struct git_work *work, const struct repo *old,
		   const struct repo *new, const struct ref_snapshot *refs, char **reason,
		   struct err *err);

#endif
