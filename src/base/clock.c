#include "base/clock.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/deadline.h"
#include "base/file.h"
#include "base/hook_wire.h"
#include "base/log.h"
#include "base/seen_time.h"
#include "base/thread.h"

/* Must neither wait for a supervisor that is stopped nor fail for one that is dead. When
 * its queue of some hundred moves is full, it goes by an older and mostly earlier one. */
static void deadline_report_move(int pipe, int64_t at)
{
	ssize_t ignored = send(pipe, &at, sizeof(at), MSG_NOSIGNAL | MSG_DONTWAIT);

	(void)ignored;
}

static void move_locked(struct deadline *deadline, int64_t at)
{
	deadline->at = at;
	for (size_t i = 0; i < deadline->pipes.count; i++)
		deadline_report_move(deadline->pipes.items[i], at);
}

void deadline_init(struct deadline *deadline, int64_t at)
{
	*deadline = (struct deadline){ .at = at };
	mutex_init(&deadline->mutex);
}

void deadline_clear(struct deadline *deadline)
{
	assert(deadline->pipes.count == 0);
	vec_clear(&deadline->pipes);
	pthread_mutex_destroy(&deadline->mutex);
}

void deadline_move(struct deadline *deadline, int64_t at)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&deadline->mutex);

	if (!deadline->lost)
		move_locked(deadline, at);
}

void deadline_expire(struct deadline *deadline)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&deadline->mutex);

	deadline->lost = true;
	move_locked(deadline, 0);
}

int64_t deadline_at(struct deadline *deadline)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&deadline->mutex);

	return deadline->at;
}

void deadline_attach(struct deadline *deadline, int pipe)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&deadline->mutex);

	deadline_report_move(pipe, deadline->at);
	vec_add(&deadline->pipes, pipe);
}

void deadline_detach(struct deadline *deadline, int pipe)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&deadline->mutex);
	size_t i = 0;

	while (i < deadline->pipes.count && deadline->pipes.items[i] != pipe)
		i++;
	assert(i < deadline->pipes.count);
	deadline->pipes.items[i] = deadline->pipes.items[--deadline->pipes.count];
}

/*
 * The file: "<what it says> <boot time> <wall time> <boot id>\n", all of one moment, in
 * milliseconds. Whoever writes it last is right: within a boot every such line leads to
 * the same clock. A wall time that was written may be ahead of the writer's own.
 */

struct line {
	int64_t seen, boot, wall;
	char boot_id[40];
};

static bool seen_time_read_line(int dir, const char *path, struct line *line)
{
	AUTO_STR struct str text = STR_INIT;

	return file_read(dir, path, 256, &text, ERR_IGNORED) == 0 &&
	       sscanf(text.data, "%" SCNd64 " %" SCNd64 " %" SCNd64 " %39s", &line->seen,
		      &line->boot, &line->wall, line->boot_id) == 4;
}

static int64_t passed_since(const struct line *line)
{
	int64_t passed;

	if (strcmp(line->boot_id, clock_boot_id()) == 0)
		passed = clock_boot_ms() - line->boot;
	else if (__builtin_sub_overflow(clock_wall_ms(), line->wall, &passed) ||
		 passed > SEEN_TIME_GAP_MS)
		passed = SEEN_TIME_GAP_MS;
	return passed > 0 ? passed : 0;
}

int64_t seen_time_ms(int dir, const char *path)
{
	struct line line;

	return seen_time_read_line(dir, path, &line) ? line.seen + passed_since(&line)
						     : clock_wall_ms();
}

/* The wall time up to which time was counted. Machines with different clocks may share
 * the file: if one wrote an earlier time, the next would count the difference again. */
static int64_t seen_time_counted_to(const struct line *line)
{
	const int64_t wall = clock_wall_ms();
	int64_t counted;

	return __builtin_add_overflow(line->wall, passed_since(line), &counted)
		       ? wall
		       : int64_max(wall, counted);
}

int64_t seen_time_keep(int dir, const char *path, int64_t least)
{
	struct line line;
	char text[128];
	struct err err;
	int64_t wall = clock_wall_ms();
	int64_t seen = wall > least ? wall : least;

	if (seen_time_read_line(dir, path, &line)) {
		seen = line.seen + passed_since(&line);
		wall = seen_time_counted_to(&line);
	}
	snprintf(text, sizeof(text), "%" PRId64 " %" PRId64 " %" PRId64 " %s\n", seen,
		 clock_boot_ms(), wall, clock_boot_id());
	if (file_replace_private(dir, path, text, strlen(text), FILE_SYNC, &err) != 0)
		log_warn("upkeep.failed", LOG_ERR(&err), LOG_TEXT("path", path));
	return seen;
}

int64_t clock_ns(const struct timespec *at)
{
	return (int64_t)at->tv_sec * 1000000000 + at->tv_nsec;
}

int64_t clock_ms(const struct timespec *at)
{
	return (int64_t)at->tv_sec * 1000 + at->tv_nsec / 1000000;
}

static int64_t clock_read_nanoseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return clock_ns(&now);
}

int64_t clock_boot_ms(void)
{
	return clock_read_nanoseconds(CLOCK_BOOTTIME) / 1000000;
}

int64_t clock_boot_us(void)
{
	return clock_read_nanoseconds(CLOCK_BOOTTIME) / 1000;
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

bool clock_parse_zoned(const char *text, int64_t *wall_ms)
{
	struct tm tm = { 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	int64_t offset;

	if (rest && *rest == '.')
		rest += 1 + strspn(rest + 1, "0123456789");
	if (rest && *rest)
		rest = strptime(rest, "%z", &tm);
	if (!rest || *rest)
		return false;
	offset = tm.tm_gmtoff; /* timegm() clears it */
	*wall_ms = ((int64_t)timegm(&tm) - offset) * 1000;
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

#define PROC_STAT_MOST ((size_t)1 << 20)

int64_t clock_boot_wall_s(void)
{
	AUTO_STR struct str text = STR_INIT;
	const char *at = NULL;

	if (file_read(AT_FDCWD, "/proc/stat", PROC_STAT_MOST, &text, ERR_IGNORED) == 0)
		at = strstr(text.data, "\nbtime ");
	return at ? strtoll(at + strlen("\nbtime "), NULL, 10)
		  : (clock_wall_ms() - clock_boot_ms()) / 1000;
}

static char boot_id[40];

static void read_boot_id(void)
{
	AUTO_CLOSE int fd = open(BOOT_ID_PATH, O_RDONLY | O_CLOEXEC);
	const char *given = getenv(BOOT_ID_VARIABLE);
	char text[40];
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	text[got > 0 ? got : 0] = '\0';
	if (boot_id_read(text, boot_id) || (given && boot_id_read(given, boot_id)))
		return;
	/* Never equal to another boot's. */
	snprintf(boot_id, sizeof(boot_id), "unknown-%" PRId64, clock_wall_ns());
}

const char *clock_boot_id(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_boot_id);
	return boot_id;
}

bool clock_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}
