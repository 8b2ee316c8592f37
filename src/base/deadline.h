/*
 * A moving point in time after which work is void, shared by the threads that move
 * it (the keeper of a lease, a job's runner) and the children that must be dead by then.
 * Each running child's supervisor receives each move over its control pipe, so it obeys
 * even while this process is stopped or dead. Safe from any thread.
 */
#ifndef BASE_DEADLINE_H
#define BASE_DEADLINE_H

#include <pthread.h>

#include "base/base.h"
#include "base/vec.h"

struct deadline {
	pthread_mutex_t mutex;
	int64_t at;       /* guarded by mutex; clock_boot_ms(), INT64_MAX: none */
	bool lost;        /* guarded by mutex; expired for good by deadline_expire() */
	int64_t grace_ms; /* the most that its children have between SIGTERM and SIGKILL;
			     0: no limit; set before it is shared */
	VEC(int)
	pipes; /* guarded by mutex; control pipes of running children, borrowed */
};

/* Starts at `at`, by clock_boot_ms(); INT64_MAX: none. */
void deadline_init(struct deadline *deadline, int64_t at);
void deadline_clear(struct deadline *deadline);

/* Moves it, and notifies the running children. Ignored after deadline_expire(). */
void deadline_move(struct deadline *deadline, int64_t at);

/* Ends it now and for good: children are killed at once, without grace. */
void deadline_expire(struct deadline *deadline);

/* The present value; 0 once expired. */
int64_t deadline_at(struct deadline *deadline);

/* For base/proc only: a child's control pipe gets the moves between these two calls. */
void deadline_attach(struct deadline *deadline, int pipe);
void deadline_detach(struct deadline *deadline, int pipe);

#endif
