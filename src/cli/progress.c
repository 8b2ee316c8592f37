#include "cli/progress.h"

#include <sys/ioctl.h>

#include "base/clock.h"
#include "cli/cli.h"

#define INTERVAL_MS 200

void format_bytes(uint64_t bytes, char text[32])
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit + 1 < ARRAY_SIZE(units)) {
		value /= 1024;
		unit++;
	}
	snprintf(text, 32, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

void format_duration(int64_t ms, char text[32])
{
	if (ms < 60 * 1000)
		snprintf(text, 32, "%.1f s", (double)ms / 1000);
	else if (ms < 3600 * 1000)
		snprintf(text, 32, "%d min %d s", (int)(ms / 60000),
			 (int)(ms / 1000 % 60));
	else
		snprintf(text, 32, "%d h %d min", (int)(ms / 3600000),
			 (int)(ms / 60000 % 60));
}

/* One less than the terminal has, so that the line never wraps. */
static int columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
		return 79;
	return size.ws_col - 1;
}

static void progress_show_line(struct progress *progress)
{
	size_t done = atomic_load(&progress->done);
	uint64_t bytes = atomic_load(&progress->bytes);
	int64_t took = clock_boot_ms() - progress->started_at;
	char size[32], all[32], rate[32], left[32] = "?", line[160];

	if (took <= 0)
		took = 1;
	format_bytes(bytes, size);
	format_bytes(progress->total_bytes, all);
	format_bytes((uint64_t)((double)bytes * 1000 / (double)took), rate);
	if (done > 0)
		format_duration(took * (int64_t)(progress->total - done) / (int64_t)done,
				left);
	if (progress->total_bytes > 0 && bytes > 0 && bytes <= progress->total_bytes)
		format_duration(
			(int64_t)((double)took * (double)(progress->total_bytes - bytes) /
				  (double)bytes),
			left);
	if (progress->total_bytes > 0)
		snprintf(line, sizeof(line), "%s of %s, %s/s, %s left", size, all, rate,
			 left);
	else
		snprintf(line, sizeof(line), "%zu of %zu repositories, %s, %s/s, %s left",
			 done, progress->total, size, rate, left);
	fprintf(stderr, "\r\033[K%.*s", columns(), line);
}

static void *progress_run_thread(void *arg)
{
	struct progress *progress = arg;

	while (!stop_wait(&progress->stop, INTERVAL_MS))
		progress_show_line(progress);
	fputs("\r\033[K", stderr);
	return NULL;
}

static bool progress_can_be_shown(void)
{
	const char *terminal = getenv("TERM");

	return !cli_is_quiet() && isatty(STDERR_FILENO) &&
	       (!terminal || strcmp(terminal, "dumb") != 0);
}

void progress_start(struct progress *progress, size_t total, uint64_t total_bytes,
		    bool is_wanted)
{
	*progress = (struct progress){ .total = total,
				       .total_bytes = total_bytes,
				       .started_at = clock_boot_ms(),
				       .is_shown = is_wanted && progress_can_be_shown() };
	if (!progress->is_shown)
		return;
	stop_init(&progress->stop);
	thread_start(&progress->thread, "progress", progress_run_thread, progress);
}

void progress_add(struct progress *progress)
{
	atomic_fetch_add(&progress->done, 1);
}

void progress_stop(struct progress *progress)
{
	if (!progress->is_shown)
		return;
	stop_request(&progress->stop);
	thread_join(progress->thread);
	stop_clear(&progress->stop);
	progress->is_shown = false;
}
