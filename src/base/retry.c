#include "base/retry.h"

#include <assert.h>
#include <sys/random.h>

#include "base/clock.h"

/* No overflow: only called where n^4 is small. */
static int64_t formula(int64_t n, unsigned roll)
{
	return n * n * n * n + 15 + (int64_t)roll * (n + 1);
}

int64_t retry_delay(uint64_t n, enum retry_cap cap, unsigned roll)
{
	assert(n >= 1 && roll < RETRY_ROLLS);

	const uint64_t surely_capped = 100;
	int64_t most = (int64_t)cap + formula(1, roll);
	int64_t delay = n < surely_capped ? formula((int64_t)n, roll) : most;
	return delay < most ? delay : most;
}

static uint64_t retry_roll(void)
{
	uint64_t roll;

	if (getrandom(&roll, sizeof(roll), 0) != (ssize_t)sizeof(roll))
		roll = (uint64_t)clock_wall_ns();
	return roll;
}

uint32_t random_roll(void)
{
	return (uint32_t)retry_roll();
}

int64_t random_between(int64_t least, int64_t most)
{
	return least + (int64_t)(retry_roll() % (uint64_t)(most - least + 1));
}

int64_t retry_random_delay_ms(uint64_t n, enum retry_cap cap)
{
	return 1000 * retry_delay(n, cap, random_roll() % RETRY_ROLLS);
}

int64_t retry_doubled_ms(uint64_t failures, int64_t first_ms, int64_t last_ms)
{
	int64_t ms = first_ms;

	for (uint64_t i = 1; i < failures && ms < last_ms; i++)
		ms *= 2;
	ms = int64_min(ms, last_ms);
	return ms - random_between(0, ms / 4 - 1);
}
