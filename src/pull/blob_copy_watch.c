/*
 * The directories are those that rows name: nothing is listed, and what has no row is
 * nobody's concern. Each is watched before the files in it are looked at. So from then on
 * its files are as their rows say, or somebody tells; scans look at the others alone.
 *
 * Our own renames are told as well: a look finds the row at work, or written later than
 * the file. Whoever works on a row compares the file once more after the row is written
 * (blob_record.c, blob_verify.c), and so sees what others did until then.
 *
 * Kinds whose files may change are watched first. Objects of Git LFS are many, and who
 * reads them compares them with their names.
 */
#include "pull/blob_copy_watch.h"

#include <poll.h>

#include "base/clock.h"
#include "base/log.h"
#include "change/blob_hearsay.h"
#include "change/scan_pace.h"
#include "pull/glance.h"

#define GATHER_MS 50
#define HURRIED_SHARE 0.1 /* of one core, for scans because inotify lost something */
#define SCAN_INTERVAL_MS 60000

struct kind_watch {
	size_t index;                /* of pull's kinds */
	int64_t scan_at, not_before; /* boot ms; the latter not even in a hurry */
	bool has_scanned;
	bool looks_at_all; /* inotify has lost something, or the last scan failed */
	bool is_failing;
};

struct blob_copy_watch {
	struct pull *pull;
	struct blob_directories directories;
	VEC(struct kind_watch) kinds; /* in the order of their turns */
	VEC(struct blob_heard) heard; /* by index */
	int64_t looked_at;            /* boot ms */
	bool told_limit;
	struct stop stop;
	pthread_t thread;
};

static const struct blob_kind *blob_copy_watch_kind_of(
	const struct blob_copy_watch *watch, const struct kind_watch *one)
{
	return &watch->pull->options.kinds->items.items[one->index];
}

static void blob_copy_watch_report_failure(const struct blob_copy_watch *watch,
					   struct kind_watch *one, const struct err *err)
{
	if (!one->is_failing && err->class != ERR_CANCELED)
		log_warn("copies.not_looked_at", LOG_ERR(err),
			 LOG_TEXT("kind", blob_copy_watch_kind_of(watch, one)->type));
	one->is_failing = err->class != ERR_CANCELED;
}

/* One that cannot be watched is scanned. */
static bool blob_copy_watch_watch_directory(struct blob_copy_watch *watch,
					    struct kind_watch *one, const char *path)
{
	struct err err;

	if (blob_directories_add(&watch->directories, one->index,
				 blob_copy_watch_kind_of(watch, one), path, &err) == 0)
		return true;
	if (err.class == ERR_INTERNAL && !watch->told_limit) {
		watch->told_limit = true;
		log_warn("blob_copy_watch.limit", LOG_ERR(&err),
			 LOG_NUMBER("directories", watch->directories.items.count),
			 LOG_TEXT("remedy", err.remedy));
	}
	return false;
}

struct scanning {
	struct blob_copy_watch *watch;
	struct kind_watch *one;
	bool looks_at_all;
	char *watched; /* owned; the last directory, if it is watched with all above */
};

static bool is_at_or_below(const char *path, const char *above)
{
	size_t len = strlen(above);

	return len == 0 ||
	       (strncmp(path, above, len) == 0 && (path[len] == '/' || !path[len]));
}

/* With all above it: where one of these goes, those below hear nothing. */
static bool watch_with_above(struct scanning *scanning, const char *directory)
{
	AUTO_FREE char *before = TAKE(scanning->watched);
	size_t len = 0;
	bool goes_on = true;

	while (goes_on) {
		AUTO_FREE char *path = xstrndup(directory, len);
		if ((!before || !is_at_or_below(before, path)) &&
		    !blob_copy_watch_watch_directory(scanning->watch, scanning->one,
						     path))
			return false;
		goes_on = directory[len];
		len += directory[len] == '/';
		len += strcspn(directory + len, "/");
	}
	scanning->watched = xstrdup(directory);
	return true;
}

/* What was watched before needs no look. */
static bool enters(void *arg, const char *directory)
{
	struct scanning *scanning = arg;
	const struct blob_directories *all = &scanning->watch->directories;
	size_t before = all->items.count;

	return !watch_with_above(scanning, directory) || all->items.count != before ||
	       scanning->looks_at_all;
}

static struct glance_request blob_copy_watch_request_of(struct blob_copy_watch *watch,
							const struct kind_watch *one)
{
	return (struct glance_request){ .store = watch->pull->options.store,
					.kind = blob_copy_watch_kind_of(watch, one),
					.stop = &watch->stop,
					.pull = watch->pull };
}

static void blob_copy_watch_look_at_ids(struct blob_copy_watch *watch,
					struct kind_watch *one)
{
	const struct glance_request request = blob_copy_watch_request_of(watch, one);
	struct blob_heard *heard = &watch->heard.items[one->index];
	int64_t started = clock_boot_ms();
	struct glance_result result;
	struct err err;

	if (heard->ids.count == 0)
		return;
	blob_hearsay_settle(heard);
	if (glance_these(&request, heard->ids.items, heard->ids.count, &result, &err) !=
	    0) {
		blob_copy_watch_report_failure(watch, one, &err);
		heard->is_lost = true;
	}
	blob_paths_clear(&heard->ids);
	glance_tell(&request, &result, clock_boot_ms() - started);
}

static void look_at_all_ids(struct blob_copy_watch *watch)
{
	for (size_t i = 0; i < watch->kinds.count; i++)
		blob_copy_watch_look_at_ids(watch, &watch->kinds.items[i]);
	watch->looked_at = clock_boot_ms();
}

static void blob_copy_watch_read_events(struct blob_copy_watch *watch)
{
	blob_hearsay_read(&watch->directories, watch->pull->options.kinds,
			  watch->heard.items);
}

/* A long scan does not keep others waiting. */
static void paged(void *arg)
{
	struct scanning *scanning = arg;
	struct blob_copy_watch *watch = scanning->watch;

	blob_copy_watch_read_events(watch);
	if (clock_boot_ms() - watch->looked_at >= GATHER_MS)
		look_at_all_ids(watch);
}

/* below NULL: the kind. */
static int scan_below(struct scanning *scanning, const char *below, struct err *err)
{
	struct glance_request request =
		blob_copy_watch_request_of(scanning->watch, scanning->one);
	int64_t started = clock_boot_ms();
	struct glance_result result;

	request.rest_ms = GLANCE_REST_MS;
	request.below = below;
	request.enters = enters;
	request.paged = paged;
	request.arg = scanning;
	int done = glance_all(&request, &result, err);
	free(TAKE(scanning->watched));
	glance_tell(&request, &result, clock_boot_ms() - started);
	return done;
}

static void blob_copy_watch_scan_directories(struct blob_copy_watch *watch,
					     struct kind_watch *one)
{
	struct scanning scanning = { .watch = watch, .one = one, .looks_at_all = true };
	struct blob_heard *heard = &watch->heard.items[one->index];
	const char *last = NULL;
	struct err err;

	blob_hearsay_settle(heard);
	blob_paths paths = heard->directories;
	heard->directories = (blob_paths){ 0 };
	for (size_t i = 0; i < paths.count && !stop_is_requested(&watch->stop); i++) {
		if (last && is_at_or_below(paths.items[i], last))
			continue;
		last = paths.items[i];
		if (scan_below(&scanning, last, &err) != 0) {
			blob_copy_watch_report_failure(watch, one, &err);
			heard->is_lost = true;
		}
		paged(&scanning);
	}
	blob_paths_clear(&paths);
}

static void blob_copy_watch_scan(struct blob_copy_watch *watch, struct kind_watch *one)
{
	struct blob_heard *heard = &watch->heard.items[one->index];
	struct scanning scanning = { .watch = watch,
				     .one = one,
				     .looks_at_all = one->looks_at_all };
	int64_t interval = watch->pull->options.scan_interval_ms;
	int64_t started = clock_boot_ms(), used = scan_cpu_ms();
	const size_t watched = watch->directories.items.count;
	struct err err;

	blob_copy_watch_watch_directory(watch, one,
					""); /* also before there is any row */
	scanning.looks_at_all |=
		heard->is_lost || watch->directories.items.count != watched;
	heard->is_lost = one->looks_at_all = false;
	if (scan_below(&scanning, NULL, &err) == 0) {
		one->is_failing = false;
	} else {
		blob_copy_watch_report_failure(watch, one, &err);
		one->looks_at_all = true;
	}
	int64_t now = clock_boot_ms();
	used = scan_cpu_ms() - used;
	log_debug("blob_copy_watch.scanned", LOG_NUMBER("dur_ms", now - started),
		  LOG_TEXT("kind", blob_copy_watch_kind_of(watch, one)->type),
		  LOG_NUMBER("directories", watch->directories.items.count));
	one->scan_at = now + scan_pause_ms(one->has_scanned ? used : 0,
					   interval > 0 ? interval : SCAN_INTERVAL_MS);
	one->not_before = now + (int64_t)((double)used / HURRIED_SHARE);
	one->has_scanned = true;
}

static int64_t blob_copy_watch_next_scan(const struct blob_copy_watch *watch,
					 const struct kind_watch *one)
{
	if (watch->heard.items[one->index].is_lost && one->not_before < one->scan_at)
		return one->not_before;
	return one->scan_at;
}

static int blob_copy_watch_time_left(const struct blob_copy_watch *watch)
{
	int64_t now = clock_boot_ms(), left = INT32_MAX;

	for (size_t i = 0; i < watch->kinds.count; i++) {
		const struct kind_watch *one = &watch->kinds.items[i];
		const struct blob_heard *heard = &watch->heard.items[one->index];
		int64_t next = blob_copy_watch_next_scan(watch, one) - now;
		if (heard->ids.count > 0 || heard->directories.count > 0)
			return 0;
		left = next < left ? next : left;
	}
	return left > 0 ? (int)left : 0;
}

static void blob_copy_watch_wait_for_work(struct blob_copy_watch *watch)
{
	struct pollfd fds[] = { { .fd = watch->stop.fd, .events = POLLIN },
				{ .fd = watch->directories.fd, .events = POLLIN } };

	if (poll(fds, ARRAY_SIZE(fds), blob_copy_watch_time_left(watch)) <= 0 ||
	    fds[0].revents)
		return;
	if (fds[1].revents && !stop_wait(&watch->stop, GATHER_MS))
		blob_copy_watch_read_events(watch);
}

static void *blob_copy_watch_run(void *arg)
{
	struct blob_copy_watch *watch = arg;

	while (!stop_is_requested(&watch->stop)) {
		look_at_all_ids(watch);
		for (size_t i = 0; i < watch->kinds.count; i++) {
			struct kind_watch *one = &watch->kinds.items[i];
			if (stop_is_requested(&watch->stop))
				return NULL;
			blob_copy_watch_scan_directories(watch, one);
			if (blob_copy_watch_next_scan(watch, one) <= clock_boot_ms())
				blob_copy_watch_scan(watch, one);
		}
		blob_copy_watch_wait_for_work(watch);
	}
	return NULL;
}

static void blob_copy_watch_add_kinds(struct blob_copy_watch *watch,
				      enum blob_layout layout)
{
	const struct blob_kinds *kinds = watch->pull->options.kinds;

	for (size_t i = 0; i < kinds->items.count; i++)
		if (kinds->items.items[i].layout == layout)
			vec_add(&watch->kinds,
				((struct kind_watch){ .index = i,
						      .looks_at_all = true }));
}

struct blob_copy_watch *blob_copy_watch_start(struct pull *pull, size_t directories)
{
	const struct blob_kinds *kinds = pull->options.kinds;
	struct blob_copy_watch *watch;
	struct err err;

	if (!kinds || kinds->items.count == 0)
		return NULL;
	watch = xcalloc(1, sizeof(*watch));
	watch->pull = pull;
	stop_init(&watch->stop);
	blob_copy_watch_add_kinds(watch, BLOB_PLAIN);
	blob_copy_watch_add_kinds(watch, BLOB_LFS);
	for (size_t i = 0; i < kinds->items.count; i++)
		vec_add(&watch->heard, ((struct blob_heard){ 0 }));
	if (blob_directories_open(&watch->directories, BLOB_COPY, directories, &err) != 0)
		log_warn("blob_copy_watch.limit", LOG_ERR(&err),
			 LOG_NUMBER("directories", 0), LOG_TEXT("remedy", err.remedy));
	thread_start(&watch->thread, "blob-copy-watch", blob_copy_watch_run, watch);
	return watch;
}

void blob_copy_watch_stop(struct blob_copy_watch *watch)
{
	if (!watch)
		return;
	stop_request(&watch->stop);
	thread_join(watch->thread);
	blob_directories_close(&watch->directories);
	for (size_t i = 0; i < watch->heard.count; i++)
		blob_heard_clear(&watch->heard.items[i]);
	vec_clear(&watch->heard);
	vec_clear(&watch->kinds);
	stop_clear(&watch->stop);
	free(watch);
}
