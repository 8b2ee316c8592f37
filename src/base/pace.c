#include "base/pace.h"

#include "base/clock.h"

enum { JUDGED_AFTER_MS = 5000 };

static int64_t waited(const struct pace *pace)
{
	return pace->waited_ms + (pace->since ? clock_boot_ms() - pace->since : 0);
}

void pace_begin_wait(struct pace *pace)
{
	pace->since = clock_boot_ms();
}

/* Who was fast enough is judged anew: he may become slow. */
void pace_end_wait(struct pace *pace)
{
	pace->waited_ms = waited(pace);
	pace->since = 0;
	if (pace->waited_ms < JUDGED_AFTER_MS || pace_is_too_slow(pace))
		return;
	pace->waited_ms = 0;
	pace->bytes = 0;
}

/* What came before the first wait lay in buffers. */
void pace_add(struct pace *pace, size_t bytes)
{
	if (pace->waited_ms > 0 || pace->since)
		pace->bytes += bytes;
}

bool pace_is_too_slow(const struct pace *pace)
{
	int64_t ms = waited(pace);

	return pace->least > 0 && ms >= JUDGED_AFTER_MS &&
	       pace->bytes / (uint64_t)ms * 1000 +
			       pace->bytes % (uint64_t)ms * 1000 / (uint64_t)ms <
		       pace->least;
}
