#include "base/clock.h"

#include <fcntl.h>
#include <pthread.h>

static int64_t clock_read_nanoseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_boot_ms(void)
{
	return clock_read_nanoseconds(CLOCK_BOOTTIME) / 1000000;
}

int64_t clock_wall_ms(void)
{
	return clock_read_nanoseconds(CLOCK_REALTIME) / 1000000;
}

int64_t clock_wall_ns(void)
{
	return clock_read_nanoseconds(CLOCK_REALTIME);
}

/* Adjustments of a clock that goes a little wrong are far below. */
#define SET_BACK_MS 60000

bool clock_was_set_back(int64_t *lead_ms, int64_t wall_ms, int64_t boot_ms)
{
	int64_t lead = wall_ms - boot_ms;
	bool is_back = lead < *lead_ms - SET_BACK_MS;

	if (is_back || lead > *lead_ms)
		*lead_ms = lead;
	return is_back;
}

void clock_format(int64_t wall_ms, char text[CLOCK_TEXT_SIZE])
{
	time_t seconds = (time_t)(wall_ms / 1000);
	struct tm parts;
	char day[24];

	gmtime_r(&seconds, &parts);
	strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(text, CLOCK_TEXT_SIZE, "%s.%03dZ", day, (int)(wall_ms % 1000));
}

bool clock_parse(const char *text, int64_t *wall_ms)
{
	struct tm tm = { 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	int64_t ms = 0;

	if (rest && rest[0] == '.') {
		rest++;
		for (int scale = 100; scale > 0; scale /= 10, rest++) {
			if (*rest < '0' || *rest > '9')
				return false;
			ms += scale * (*rest - '0');
		}
	}
	if (!rest || strcmp(rest, "Z") != 0)
		return false;
	*wall_ms = (int64_t)timegm(&tm) * 1000 + ms;
	return true;
}

void clock_format_http(int64_t wall_ms, char text[CLOCK_HTTP_SIZE])
{
	static const char days[] = "SunMonTueWedThuFriSat";
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	time_t seconds = (time_t)(wall_ms / 1000);
	struct tm tm = { .tm_mday = 1, .tm_year = 70 };

	gmtime_r(&seconds, &tm);
	snprintf(text, CLOCK_HTTP_SIZE, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
		 days + 3 * tm.tm_wday, tm.tm_mday, months + 3 * tm.tm_mon,
		 tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

static char boot_id[40];

static void read_boot_id(void)
{
	AUTO_CLOSE int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, boot_id, sizeof(boot_id) - 1);

	if (got < 36) { /* no /proc: never equal to another boot's */
		snprintf(boot_id, sizeof(boot_id), "unknown-%" PRId64, clock_wall_ns());
		return;
	}
	boot_id[36] = '\0';
}

const char *clock_boot_id(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_boot_id);
	return boot_id;
}
