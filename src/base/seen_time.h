/*
 * A clock for deletion by age: milliseconds since 1970 at first, and from then on
 * advanced only by the time that has passed. It is kept in a file of the directory whose
 * contents it is for. Jumps of wall time do not move it: within a boot the kernel's clock
 * counts, and between two boots at most SEEN_TIME_GAP_MS is added. Machines that share
 * the directory may have different clocks: between two of them nothing is added that one
 * ahead has counted. So it may be behind, and then more is kept. Any thread, any process.
 */
#ifndef BASE_SEEN_TIME_H
#define BASE_SEEN_TIME_H

#include "base/base.h"

#define SEEN_TIME_GAP_MS ((int64_t)24 * 3600 * 1000)

/* Its present time. Wall time if the file is missing or unreadable. */
int64_t seen_time_ms(int dir, const char *path);

/* The same, and saves it durably. At first: wall time, but not before `least`. */
int64_t seen_time_keep(int dir, const char *path, int64_t least);

#endif
