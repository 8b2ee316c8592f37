/*
 * A pool of worker threads with one queue. Capacity is how many jobs run at once; it can
 * be changed while they run. Safe from any thread.
 */
#ifndef JOB_POOL_H
#define JOB_POOL_H

#include "base/base.h"

struct pool;

typedef void (*pool_work)(void *arg);

/* Starts `capacity` (at least 1) threads named after the pool (at most 11
 * characters). */
struct pool *pool_start(const char *name, size_t capacity);

/* Queues work; it runs in the order queued. */
void pool_submit(struct pool *pool, pool_work work, void *arg);

/* Missing threads are started at once; surplus ones end after their present job. */
void pool_set_capacity(struct pool *pool, size_t capacity);

/* Waits until the queue is empty and all jobs have ended. */
void pool_drain(struct pool *pool);

/* Drops queued jobs (calling `forget`, which may be NULL, with the arg of each), waits
 * for running ones, joins the threads, frees. NULL is allowed. */
void pool_stop(struct pool *pool, pool_work forget);

#endif
