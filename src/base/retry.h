/*
 * Delays by chance, and those after failures. That of a sync or verification is as in
 * GitLab Geo (taken from Sidekiq): n^4 + 15 + rand(0..29) * (n + 1) seconds, n including
 * this failure, but not much more than a cap. Tries continue for ever. Pure functions;
 * any thread.
 */
#ifndef BASE_RETRY_H
#define BASE_RETRY_H

#include "base/base.h"

enum retry_cap {
	RETRY_CAP = 3600,             /* seconds */
	RETRY_CAP_MISSING = 4 * 3600, /* the primary does not have it either */
};

#define RETRY_ROLLS 30 /* rolls are 0 .. RETRY_ROLLS - 1 */

/* Seconds until try n + 1, after n >= 1 failures in a row: n^4 + 15 + roll * (n + 1),
 * at most cap + 16 + 2 * roll, so that even capped tries of many do not coincide. */
int64_t retry_delay(uint64_t n, enum retry_cap cap, unsigned roll);

/* The same in milliseconds with a random roll. */
int64_t retry_random_delay_ms(uint64_t n, enum retry_cap cap);

/* first_ms after one failure or none, doubled with each further one up to last_ms, less a
 * random part of up to a quarter. */
int64_t retry_doubled_ms(uint64_t failures, int64_t first_ms, int64_t last_ms);

/* Where many would do the same at once; not for secrets. Never fails. */
uint32_t random_roll(void);

/* least <= result <= most. */
int64_t random_between(int64_t least, int64_t most);

#endif
