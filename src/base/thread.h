/*
 * Threads, locks, and the stop token that every long wait obeys. A failed pthread call is
 * a bug of ours and aborts; at a limit of the machine, when threads or descriptors run
 * out, the program reports it and ends with status 1.
 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/base.h"

/* Locks, and returns the mutex for AUTO_UNLOCK:
 *	AUTO_UNLOCK pthread_mutex_t *held = lock(&queue->mutex); */
pthread_mutex_t *lock(pthread_mutex_t *mutex);
void unlock(pthread_mutex_t *mutex);

/* An error-checking mutex in debug builds, a plain one otherwise. */
void mutex_init(pthread_mutex_t *mutex);

/* A condition that counts monotonic time. */
void cond_init(pthread_cond_t *cond);

/* Waits until it is signalled or clock_boot_ms() reaches `until` (INT64_MAX: for ever);
 * false at that time. Like any wait on a condition, it may also return early. */
bool cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until);

/* Starts a thread with all signals blocked; `name` has at most 15 characters. The
 * caller joins it. */
void thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg);
void thread_join(pthread_t thread);

/* From now on the calling thread, and what it starts, gives way to others. A wish: a
 * kernel may refuse it. */
void thread_lower_priority(void);

/* Requested once, seen by all: an atomic flag for loops, a descriptor for poll. */
struct stop {
	atomic_bool requested;
	int fd; /* an eventfd, readable once requested */
};

void stop_init(struct stop *stop);
void stop_clear(struct stop *stop);

/* May be called from any thread, and from a signal handler. */
void stop_request(struct stop *stop);
bool stop_is_requested(const struct stop *stop);

/* Sleeps for that long; true, at once, when the stop is requested. */
bool stop_wait(const struct stop *stop, int64_t ms);

#endif
