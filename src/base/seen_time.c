/*
 * The file: "<what it says> <boot time> <wall time> <boot id>\n", all of one moment, in
 * milliseconds. Whoever writes it last is right: within a boot every such line leads to
 * the same clock.
 */
#include "base/seen_time.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"

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

int64_t seen_time_keep(int dir, const char *path, int64_t least)
{
	struct line line;
	char text[128];
	struct err err;
	int64_t wall = clock_wall_ms();
	int64_t seen = wall > least ? wall : least;

	if (seen_time_read_line(dir, path, &line))
		seen = line.seen + passed_since(&line);
	snprintf(text, sizeof(text), "%" PRId64 " %" PRId64 " %" PRId64 " %s\n", seen,
		 clock_boot_ms(), wall, clock_boot_id());
	if (file_replace_private(dir, path, text, strlen(text), FILE_SYNC, &err) != 0)
		log_warn("upkeep.failed", LOG_ERR(&err), LOG_TEXT("path", path));
	return seen;
}
