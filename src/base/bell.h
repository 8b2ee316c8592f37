/*
 * A version of everything shown to people, which differs after each change, so that
 * watchers need not poll. Of this process; any thread.
 */
#ifndef BASE_BELL_H
#define BASE_BELL_H

#include "base/base.h"
#include "base/thread.h"

#define BELL_VERSION_SIZE 40

/* Reports a change that is visible now. Costs next to nothing without waiters; never
 * waits. */
void bell_ring(void);

/* The version at this moment: unique across processes and across runs of this program. */
void bell_version(char version[BELL_VERSION_SIZE]);

/* Waits until the version differs from `seen`, at most wait_ms, or until stop (may be
 * NULL). With very many waiters it returns at once. ERR_SYSTEM: out of descriptors. */
int bell_wait(const char *seen, int64_t wait_ms, const struct stop *stop,
	      struct err *err);

#endif
