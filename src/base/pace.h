/*
 * How fast the other side is, while it is waited for: what we take ourselves does not
 * count. For one thread at a time.
 */
#ifndef BASE_PACE_H
#define BASE_PACE_H

#include "base/base.h"

struct pace {
	uint64_t least; /* bytes a second that are enough; 0: any */
	uint64_t bytes; /* since it was first waited for */
	int64_t waited_ms;
	int64_t since; /* boot ms; 0: nobody waits now */
};

void pace_begin_wait(struct pace *pace);
void pace_end_wait(struct pace *pace);

/* So many bytes it has taken, or sent. */
void pace_add(struct pace *pace, size_t bytes);

/* Whether it was waited for some seconds, and was slower than that. */
bool pace_is_too_slow(const struct pace *pace);

#endif
