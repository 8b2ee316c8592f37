/*
 * A repository that is pushed to again and again is synced at once a number of times,
 * then at intervals, so that each sync brings many changes. The generic cell rate
 * algorithm: of each repository one number is kept, the time at which it would be due if
 * it had kept to the intervals from the first. Two that share a place share their number;
 * that costs a moment and nothing else.
 */
#include "base/clock.h"
#include "pull/pull_parts.h"

#define INTERVAL_MS 250
#define AT_ONCE 20

void pace_take(struct pull *pull, uint64_t id)
{
	int64_t now = clock_boot_ms();
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	int64_t *at = &pull->paces[id % ARRAY_SIZE(pull->paces)];

	*at = (*at > now ? *at : now) + INTERVAL_MS;
}

int64_t pace_delay_ms(struct pull *pull, uint64_t id)
{
	int64_t now = clock_boot_ms();
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	int64_t from = pull->paces[id % ARRAY_SIZE(pull->paces)] -
		       (int64_t)AT_ONCE * INTERVAL_MS;

	return from > now ? from - now : 0;
}
