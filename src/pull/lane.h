/*
 * A lane of the scheduler: workers of one sort, and the kinds of rows that they work on,
 * in turn. For the scheduler's thread.
 */
#ifndef PULL_LANE_H
#define PULL_LANE_H

#include "pull/copy_kind.h"

/* The rows of a kind that are due. */
struct lane_queue {
	struct kind kind;
	int64_t due_at; /* of the first, wall ms; INT64_MAX: none */
	size_t many;    /* small rows to claim for one worker, as far as the last claim
			   tells; 0: a row each */
	int64_t claimed_at; /* boot ms: the last claim began */
};

struct lane {
	struct pull *pull;
	struct pool *pool; /* NULL: the site has nothing for this lane */
	size_t *running;   /* guarded by pull->mutex */
	size_t capacity;
	const char *claimed; /* failpoint */
	bool is_verification;
	int (*claim)(struct store *store, const char *kind, size_t limit,
		     int64_t timeout_ms, registry_rows *rows, struct err *err);
	VEC(struct lane_queue) queues;
	size_t turn;
	/* Claimed among small ones: each goes to the next free worker, before anything
	 * is claimed. */
	VEC(struct pull_job *) waiting;
};

/* Gives the free workers what is due. *next_at: when to look again at the latest, wall
 * ms; INT64_MAX while no worker is free: one that ends tells. */
int lane_fill(struct lane *lane, int64_t timeout_ms, int64_t *next_at, struct err *err);

/* 0: none. */
void lane_set_capacity(struct lane *lane, uint64_t capacity);

/* What waits is given back. */
void lane_clear(struct lane *lane);

#endif
