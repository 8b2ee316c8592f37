#include "change/watcher.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "change/scan_record.h"

#define HURRIED_SHARE 0.1 /* of one core, for scans because inotify lost something */
#define GATHER_MS 50

struct watcher_turn {
	int64_t scan_at;    /* boot ms */
	int64_t not_before; /* boot ms, not even in a hurry */
	bool has_scanned;
};

/* All of its thread but the stop, and `woken`. */
struct watcher {
	struct watcher_options options;
	struct blob_directories directories;
	VEC(struct watcher_turn) turns; /* by kind */
	blob_hints_list hints;          /* by kind */
	int64_t looked_at;              /* boot ms */
	bool reported_limit;
	int woken; /* an eventfd */
	atomic_bool scans_now;
	struct stop stop;
	pthread_t thread;
};

size_t watcher_count(const struct watcher *watcher)
{
	return watcher->directories.items.count;
}

const struct stop *watcher_stop_of(const struct watcher *watcher)
{
	return &watcher->stop;
}

static void watcher_log_limit(struct watcher *watcher, const struct err *err)
{
	watcher->reported_limit = true;
	log_warn(watcher->options.ops->limit, LOG_ERR(err),
		 LOG_NUMBER("directories", watcher_count(watcher)),
		 LOG_TEXT("remedy", err->remedy));
}

int watcher_add(struct watcher *watcher, size_t kind, const char *path, struct err *err)
{
	if (blob_directories_add(&watcher->directories, kind,
				 watcher->hints.items[kind].root, path, err) == 0)
		return 0;
	if (err->class == ERR_INTERNAL && !watcher->reported_limit)
		watcher_log_limit(watcher, err);
	return -1;
}

static void watcher_fail(struct watcher *watcher, size_t kind, const struct err *err)
{
	watcher->options.ops->failed(watcher->options.arg, kind, err);
	watcher->hints.items[kind].is_lost = true;
}

static void watcher_look(struct watcher *watcher)
{
	const struct watcher_options *options = &watcher->options;
	struct err err;

	for (size_t i = 0; i < watcher->hints.count; i++) {
		struct blob_hints *hints = &watcher->hints.items[i];
		if (hints->ids.count == 0)
			continue;
		blob_hints_settle(hints);
		if (options->ops->look(options->arg, i, &hints->ids, &err) != 0)
			watcher_fail(watcher, i, &err);
		text_list_clear(&hints->ids);
	}
	watcher->looked_at = clock_boot_ms();
}

void watcher_breathe(struct watcher *watcher)
{
	blob_hints_read(&watcher->directories, &watcher->hints);
	if (clock_boot_ms() - watcher->looked_at >= GATHER_MS)
		watcher_look(watcher);
}

static void watcher_scan_directories(struct watcher *watcher, size_t kind)
{
	const struct watcher_options *options = &watcher->options;
	struct blob_hints *hints = &watcher->hints.items[kind];
	const char *last = NULL;
	struct err err;

	blob_hints_settle(hints);
	text_list paths = hints->directories;
	hints->directories = (text_list){ 0 };
	for (size_t i = 0; i < paths.count && !stop_is_requested(&watcher->stop); i++) {
		if (last && path_is_within(paths.items[i], last))
			continue;
		last = paths.items[i];
		const struct watcher_scan scan = { watcher, kind, last, false };
		if (options->ops->scan(options->arg, &scan, &err) != 0)
			watcher_fail(watcher, kind, &err);
		watcher_breathe(watcher);
	}
	text_list_clear(&paths);
}

/* How long to wait now, so that scans stay within their share. The first has looked at
 * everything, which says nothing of the next. After one that failed the next is hurried,
 * since what it would have found is unknown. */
static void watcher_pace(struct watcher *watcher, size_t kind, int status,
			 int64_t used_ms)
{
	const struct watcher_options *options = &watcher->options;
	struct watcher_turn *turn = &watcher->turns.items[kind];
	int64_t now = clock_boot_ms();
	int64_t hurried = (int64_t)((double)used_ms / HURRIED_SHARE);
	int64_t interval =
		scan_pause_ms(turn->has_scanned ? used_ms : 0, options->interval_ms);

	if (status != 0 && hurried < options->interval_ms)
		hurried = options->interval_ms;
	if (status != 0)
		interval = hurried;
	turn->scan_at = now + interval;
	turn->not_before = now + hurried;
	if (options->ops->paced)
		options->ops->paced(options->arg, kind, interval);
}

static void watcher_scan(struct watcher *watcher, size_t kind)
{
	const struct watcher_options *options = &watcher->options;
	struct watcher_turn *turn = &watcher->turns.items[kind];
	struct blob_hints *hints = &watcher->hints.items[kind];
	const struct watcher_scan scan = { watcher, kind, NULL, hints->is_lost };
	int64_t used = scan_cpu_ms();
	struct err err;

	hints->is_lost = false;
	int status = options->ops->scan(options->arg, &scan, &err);
	if (status != 0) {
		options->ops->failed(options->arg, kind, &err);
		hints->is_lost |= scan.was_lost;
	}
	watcher_pace(watcher, kind, status, scan_cpu_ms() - used);
	turn->has_scanned |= status == 0;
}

/* When the kind's next scan is: sooner if something was lost. */
static int64_t watcher_next_scan(const struct watcher *watcher, size_t kind)
{
	const struct watcher_turn *turn = &watcher->turns.items[kind];

	if (watcher->hints.items[kind].is_lost && turn->not_before < turn->scan_at)
		return turn->not_before;
	return turn->scan_at;
}

static void watcher_work(struct watcher *watcher)
{
	if (watcher->options.ops->tend)
		watcher->options.ops->tend(watcher->options.arg, &watcher->stop);
	watcher_look(watcher);
	for (size_t i = 0; i < watcher->turns.count; i++) {
		if (stop_is_requested(&watcher->stop))
			return;
		watcher_scan_directories(watcher, i);
		if (watcher_next_scan(watcher, i) <= clock_boot_ms())
			watcher_scan(watcher, i);
	}
}

static int watcher_time_left(const struct watcher *watcher)
{
	const struct watcher_options *options = &watcher->options;
	int64_t now = clock_boot_ms(), left = INT32_MAX;

	if (options->ops->due && options->ops->due(options->arg) - now < left)
		left = options->ops->due(options->arg) - now;

	for (size_t i = 0; i < watcher->turns.count; i++) {
		const struct blob_hints *hints = &watcher->hints.items[i];
		int64_t next = watcher_next_scan(watcher, i) - now;
		if (hints->ids.count > 0 || hints->directories.count > 0)
			return 0;
		left = next < left ? next : left;
	}
	return left > 0 ? (int)left : 0;
}

static void watcher_take_wake(struct watcher *watcher)
{
	eventfd_t count;

	eventfd_read(watcher->woken, &count);
	if (!atomic_exchange(&watcher->scans_now, false))
		return;
	for (size_t i = 0; i < watcher->turns.count; i++)
		watcher->turns.items[i].scan_at = 0;
}

static void watcher_wait(struct watcher *watcher)
{
	struct pollfd fds[] = { { .fd = watcher->stop.fd, .events = POLLIN },
				{ .fd = watcher->woken, .events = POLLIN },
				{ .fd = watcher->directories.fd, .events = POLLIN },
				{ .fd = watcher->options.descriptor, .events = POLLIN } };

	if (poll(fds, ARRAY_SIZE(fds), watcher_time_left(watcher)) <= 0 || fds[0].revents)
		return;
	if (fds[1].revents)
		watcher_take_wake(watcher);
	if (fds[2].revents && !stop_wait(&watcher->stop, GATHER_MS))
		blob_hints_read(&watcher->directories, &watcher->hints);
	if (fds[3].revents)
		watcher->options.ops->hear(watcher->options.arg, &watcher->stop);
}

static void *watcher_run(void *arg)
{
	struct watcher *watcher = arg;

	while (!stop_is_requested(&watcher->stop)) {
		watcher_work(watcher);
		watcher_wait(watcher);
	}
	return NULL;
}

static void watcher_open_directories(struct watcher *watcher)
{
	const struct watcher_options *options = &watcher->options;
	bool is_needed = false;
	struct err err;

	for (size_t i = 0; i < options->root_count; i++) {
		is_needed |= options->roots[i] != NULL;
		vec_add(&watcher->turns, ((struct watcher_turn){ 0 }));
		vec_add(&watcher->hints,
			((struct blob_hints){ .root = options->roots[i] }));
	}
	watcher->directories.fd = -1;
	if (is_needed && blob_directories_open(&watcher->directories, options->ops->scope,
					       options->directories, &err) != 0)
		watcher_log_limit(watcher, &err);
	watcher->options.roots = NULL;
}

struct watcher *watcher_start(const struct watcher_options *options)
{
	struct watcher *watcher = xcalloc(1, sizeof(*watcher));

	stop_init(&watcher->stop);
	watcher->options = *options;
	watcher->woken = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	watcher_open_directories(watcher);
	thread_start(&watcher->thread, options->thread, watcher_run, watcher);
	return watcher;
}

void watcher_stop(struct watcher *watcher)
{
	if (!watcher)
		return;
	stop_request(&watcher->stop);
	thread_join(watcher->thread);
	blob_directories_close(&watcher->directories);
	vec_clear_each(&watcher->hints, blob_hints_clear);
	vec_clear(&watcher->turns);
	if (watcher->woken >= 0)
		close(watcher->woken);
	stop_clear(&watcher->stop);
	free(watcher);
}

void watcher_nudge(struct watcher *watcher)
{
	eventfd_write(watcher->woken, 1);
}

void watcher_wake(struct watcher *watcher)
{
	watcher->scans_now = true;
	watcher_nudge(watcher);
}
