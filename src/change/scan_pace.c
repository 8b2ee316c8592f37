#include "change/scan_pace.h"

#include <time.h>

#include "base/clock.h"

#define SHARE 0.004 /* of one core */
#define KEEP_EVERY_MS 10000

int64_t scan_cpu_ms(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return used.tv_sec * INT64_C(1000) + used.tv_nsec / 1000000;
}

int64_t scan_pause_ms(int64_t used_ms, int64_t interval_ms)
{
	int64_t needed = (int64_t)((double)used_ms / SHARE);

	return needed > interval_ms ? needed : interval_ms;
}

bool scan_is_news(const struct scan_kept *kept, const struct scan_record *now)
{
	const struct scan_record *before = &kept->record;

	return kept->at == 0 || before->failure.class != now->failure.class ||
	       strcmp(before->failure.text, now->failure.text) != 0 ||
	       before->left_out != now->left_out ||
	       strcmp(before->example, now->example) != 0 ||
	       memcmp(before->hooks.states, now->hooks.states,
		      sizeof(now->hooks.states)) != 0 ||
	       clock_boot_ms() - kept->at >= KEEP_EVERY_MS;
}

void scan_note_kept(struct scan_kept *kept, const struct scan_record *now)
{
	kept->record = *now;
	kept->at = clock_boot_ms();
}
