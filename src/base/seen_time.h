/*
 * A clock for what is deleted by its age: milliseconds since 1970 at first, and from then
 * on only as much more as has passed. It is kept in a file of the directory whose
 * contents it is for. Wall time that jumps does not move it: within a boot the kernel's
 * clock counts, and from one boot to another no more than SEEN_TIME_GAP_MS is believed.
 * So it may be behind, and then more is kept. Any thread, any process.
 */
#ifndef BASE_SEEN_TIME_H
#define BASE_SEEN_TIME_H

#include "base/base.h"

#define SEEN_TIME_GAP_MS ((int64_t)24 * 3600 * 1000)

/* What it says now. Wall time if there is no such file, or none that can be read. */
int64_t seen_time_ms(int dir, const char *path);

/* The same, and it is written down, durably. At first: wall time, but not before `least`.
 */
int64_t seen_time_keep(int dir, const char *path, int64_t least);

#endif
