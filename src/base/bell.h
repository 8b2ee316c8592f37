/*
 * A version of all that people may be shown, which is another after each change: so who
 * watches need not ask again and again. Of this process; any thread.
 */
#ifndef BASE_BELL_H
#define BASE_BELL_H

#include "base/base.h"
#include "base/thread.h"

#define BELL_VERSION_SIZE 40

/* Something has changed, and whoever looks now sees it. Costs next to nothing while
 * nobody waits; never waits. */
void bell_ring(void);

/* The version of this moment: no other process, and no other run of this one, has the
 * same. */
void bell_version(char version[BELL_VERSION_SIZE]);

/* Waits until the version is another than `seen`, or so long, or until stop (may be
 * NULL). Where very many wait already it returns at once. ERR_SYSTEM: no descriptor is to
 * be had. */
int bell_wait(const char *seen, int64_t wait_ms, const struct stop *stop,
	      struct err *err);

#endif
