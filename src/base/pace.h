/*
 * The speed of the other side while we wait for it: our own time does not count. For one
 * thread at a time.
 */
#ifndef BASE_PACE_H
#define BASE_PACE_H

#include "base/base.h"

struct pace {
	uint64_t least; /* bytes a second required; 0: any */
	uint64_t bytes; /* since the first wait */
	int64_t waited_ms;
	int64_t since; /* boot ms; 0: not waiting now */
};

void pace_begin_wait(struct pace *pace);
void pace_end_wait(struct pace *pace);

/* Adds bytes that it has taken, or sent. */
void pace_add(struct pace *pace, size_t bytes);

/* Whether we waited for some seconds, and it was slower than `least`. */
bool pace_is_too_slow(const struct pace *pace);

#endif
