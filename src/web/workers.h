/*
 * Threads for requests that must wait for something: for a disk, a child, a change. There
 * are as many as there ever were such requests at a time, which the server bounds. Any
 * thread.
 */
#ifndef WEB_WORKERS_H
#define WEB_WORKERS_H

#include <sys/queue.h>

#include "base/base.h"

struct workers;

/* Embedded in what it is about; the caller's until run has been called. */
struct work {
	TAILQ_ENTRY(work) entry;
	void (*run)(struct work *work);
};

struct workers *workers_start(void);

/* False: they are closing, and it will not be run. */
bool workers_add(struct workers *workers, struct work *work);

/* Takes no more, and waits until all that was added has ended. */
void workers_close(struct workers *workers);

/* Closes and frees. */
void workers_stop(struct workers *workers);

#endif
