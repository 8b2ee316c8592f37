#include "base/retry.h"

#include <assert.h>
#include <sys/random.h>

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

int64_t retry_random_delay_ms(uint64_t n, enum retry_cap cap)
{
	uint32_t random;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		abort();
	return 1000 * retry_delay(n, cap, random % RETRY_ROLLS);
}
