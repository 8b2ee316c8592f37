#include "base/process.h"

#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/metrics.h"

/*
 * /proc/self/stat: the name of the program, in parentheses, may hold anything, so fields
 * are counted from the last one; the first behind it is the third of proc(5).
 */

enum {
	STAT_USER_TICKS = 14,
	STAT_SYSTEM_TICKS = 15,
	STAT_THREADS = 20,
	STAT_STARTED_TICKS = 22,
	STAT_VIRTUAL_BYTES = 23,
	STAT_RESIDENT_PAGES = 24,
	STAT_FIELDS = 25,
};

static void read_stat(double fields[STAT_FIELDS])
{
	AUTO_STR struct str text = STR_INIT;
	char *at = NULL, *field;
	struct err err;

	for (size_t i = 0; i < STAT_FIELDS; i++)
		fields[i] = (double)NAN;
	if (file_read(AT_FDCWD, "/proc/self/stat", 4096, &text, &err) == 0)
		at = strrchr(text.data, ')');
	if (at)
		at++;
	for (size_t i = 3; at && i < STAT_FIELDS && (field = strsep(&at, " ")) != NULL;) {
		if (*field == '\0')
			continue;
		fields[i++] = strtod(field, NULL);
	}
}

static double machine_started;

/* Seconds since 1970. Who sees the start of a process move, since the clock was set,
 * takes that for a restart. So it is read once. */
static void find_machine_started(void)
{
	machine_started = (double)clock_boot_wall_s();
}

static double count_open_files(void)
{
	DIR *directory = opendir("/proc/self/fd");
	double count = -3; /* ".", "..", and what it is read by */

	if (!directory)
		return (double)NAN;
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static double most_open_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return (double)NAN;
	return limit.rlim_cur == RLIM_INFINITY ? (double)INFINITY
					       : (double)limit.rlim_cur;
}

static void set_process_gauge(const char *name, const char *help, double value)
{
	metric_set(metric_at(metric_gauge(name, help)), value);
}

void process_set_metrics(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	double ticks = (double)sysconf(_SC_CLK_TCK), fields[STAT_FIELDS];

	pthread_once(&once, find_machine_started);
	read_stat(fields);
	metric_copy(metric_at(metric_counter("process_cpu_seconds_total",
					     "Processor time that was spent.")),
		    (fields[STAT_USER_TICKS] + fields[STAT_SYSTEM_TICKS]) / ticks);
	set_process_gauge("process_threads", "Threads.", fields[STAT_THREADS]);
	set_process_gauge("process_virtual_memory_bytes", "Virtual memory.",
			  fields[STAT_VIRTUAL_BYTES]);
	set_process_gauge("process_resident_memory_bytes", "Resident memory.",
			  fields[STAT_RESIDENT_PAGES] * (double)sysconf(_SC_PAGESIZE));
	set_process_gauge("process_start_time_seconds",
			  "When the process started, since 1970.",
			  machine_started + fields[STAT_STARTED_TICKS] / ticks);
	set_process_gauge("process_open_fds", "File descriptors that are open.",
			  count_open_files());
	set_process_gauge("process_max_fds", "File descriptors that may be open.",
			  most_open_files());
}

/*
 * Memory.
 */

#define GROUPS_LIMIT ((size_t)65536)

static void process_read_limit(const char *path, uint64_t *least)
{
	AUTO_STR struct str text = STR_INIT;
	uint64_t limit;

	if (file_read(AT_FDCWD, path, 64, &text, ERR_IGNORED) != 0)
		return;
	text.data[strcspn(text.data, "\n")] = '\0';
	if (text_to_uint64(text.data, &limit) && limit > 0 && limit < *least)
		*least = limit;
}

/* A limit of an outer group counts for all in it. */
static void process_read_limits(const char *mount, const char *group, const char *file,
				uint64_t *least)
{
	AUTO_FREE char *inner = xstrdup(group);
	char *slash;

	do {
		AUTO_FREE char *path = xasprintf("%s%s/%s", mount, inner, file);
		process_read_limit(path, least);
		slash = strrchr(inner, '/');
		if (slash)
			*slash = '\0';
	} while (slash);
}

/* "0::/PATH" is of version 2, "4:cpu,memory:/PATH" of version 1. */
uint64_t process_group_limit(const char *groups, const char *mount)
{
	AUTO_FREE char *text = xstrdup(groups);
	AUTO_FREE char *memory = xasprintf("%s/memory", mount);
	AUTO_FREE char *unified = xasprintf("%s/unified", mount);
	uint64_t least = UINT64_MAX;
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")) != NULL) {
		const char *kinds = strchr(line, ':');
		char *group = kinds ? strstr(kinds, ":/") : NULL;
		if (!group)
			continue;
		bool is_memory = memmem(kinds, (size_t)(group - kinds), "memory", 6);
		group += 1 + (strcmp(group, ":/") == 0);
		if (text_starts_with(kinds, "::")) {
			process_read_limits(mount, group, "memory.max", &least);
			process_read_limits(unified, group, "memory.max", &least);
		} else if (is_memory) {
			process_read_limits(memory, group, "memory.limit_in_bytes",
					    &least);
		}
	}
	return least;
}

uint64_t process_memory_limit(void)
{
	const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	const uint64_t all = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
	AUTO_STR struct str groups = STR_INIT;
	uint64_t limit;

	if (file_read(AT_FDCWD, "/proc/self/cgroup", GROUPS_LIMIT, &groups,
		      ERR_IGNORED) != 0)
		return all;
	limit = process_group_limit(groups.data, "/sys/fs/cgroup");
	return limit < all ? limit : all;
}
