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
	int64_t due_at;     /* of the first, wall ms; INT64_MAX: none */
	size_t many;        /* small rows to claim for one worker, estimated from the last
			       claim; 0: one row each */
	int64_t claimed_at; /* boot ms: the last claim began */
};

struct lane {
	struct pull *pull;
	struct pool *pool; /* NULL: the site has no work for this lane */
	size_t *running;   /* guarded by pull->mutex */
	size_t capacity;
	const char *claimed; /* failpoint */
	bool is_verification;
	int (*claim)(struct store *store, const char *kind, size_t limit,
		     int64_t timeout_ms, registry_rows *rows, struct err *err);
	VEC(struct lane_queue) queues;
	size_t turn;
	/* Large rows claimed along with small ones: each goes to the next free worker,
	 * before more rows are claimed. */
	VEC(struct pull_job *) waiting;
};

/* Gives due rows to the free workers. *next_at: when to call again at the latest, wall
 * ms; INT64_MAX while all workers are busy: an ending one signals. Returns soon also if
 * work fails as fast as it is given out, so that the scheduler sees what else there is,
 * as a stop. */
int lane_fill(struct lane *lane, int64_t timeout_ms, int64_t *next_at, struct err *err);

/* 0: starts no new work. */
void lane_set_capacity(struct lane *lane, uint64_t capacity);

/* Gives back the waiting rows. */
void lane_clear(struct lane *lane);

#endif
