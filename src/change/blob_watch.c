/*
 * A directory is watched before it is listed: what comes into it meanwhile is either
 * listed or told. The scan is the truth; inotify only makes it soon: so what it tells is
 * gathered for a moment, looked at in groups, and where it has lost something a scan
 * follows.
 */
#include "change/blob_watch.h"

#include <poll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "blob/incoming.h"
#include "change/blob_hearsay.h"
#include "change/blob_scan.h"
#include "change/scan_pace.h"

#define HURRIED_SHARE 0.1 /* of one core, for scans because inotify lost something */
#define GATHER_MS 50
#define TIDY_EVERY_MS ((int64_t)24 * 3600 * 1000)

struct kind_watch {
	const struct blob_kind *kind;
	struct map troubles; /* its thread only, as all but state */
	int64_t scan_at;     /* boot ms */
	int64_t not_before;  /* boot ms, not even in a hurry */
	size_t unwatched;    /* directories, since the last scan began */
	struct scan_kept kept;
	int64_t tidied_at;             /* boot ms; 0: never */
	struct blob_watch_state state; /* guarded by blob_watch.mutex */
};

struct blob_watch {
	pthread_mutex_t mutex;
	struct blob_watch_options options;
	struct blob_directories directories; /* its thread only */
	VEC(struct kind_watch) kinds;        /* fixed */
	VEC(struct blob_heard) heard;        /* by kind; its thread only */
	int64_t looked_at;                   /* boot ms; its thread only */
	bool told_limit;                     /* its thread only */
	int woken;                           /* an eventfd */
	struct stop stop;
	pthread_t thread;
};

static void blob_watch_log_failure(struct kind_watch *one, const char *what,
				   const struct err *err)
{
	log_warn(what, LOG_ERR(err), LOG_TEXT("kind", one->kind->type));
}

/* One that cannot be watched is scanned. */
static void blob_watch_add_directory(struct blob_watch *watch, struct kind_watch *one,
				     const char *path)
{
	struct err err;
	size_t index = (size_t)(one - watch->kinds.items);

	if (blob_directories_add(&watch->directories, index, one->kind, path, &err) ==
		    0 ||
	    err.class == ERR_MISSING)
		return;
	one->unwatched++;
	if (err.class != ERR_INTERNAL || watch->told_limit)
		return;
	watch->told_limit = true;
	log_warn("blob_watch.limit", LOG_ERR(&err),
		 LOG_NUMBER("directories", watch->directories.items.count),
		 LOG_TEXT("remedy", err.remedy));
}

static int blob_watch_compare_ids(struct blob_watch *watch, const struct kind_watch *one,
				  const blob_paths *ids, struct err *err)
{
	AUTO_FREE struct blob_look *looks = xcalloc(ids->count, sizeof(*looks));

	for (size_t i = 0; i < ids->count; i++)
		looks[i].id = ids->items[i];
	int result = blob_notice_compare(watch->options.notice, one->kind, looks,
					 ids->count, err);
	for (size_t i = 0; i < ids->count; i++)
		blob_look_clear(&looks[i]);
	return result;
}

static void blob_watch_look_at_ids(struct blob_watch *watch)
{
	struct err err;

	for (size_t i = 0; i < watch->kinds.count; i++) {
		struct kind_watch *one = &watch->kinds.items[i];
		struct blob_heard *heard = &watch->heard.items[i];
		if (heard->ids.count == 0)
			continue;
		blob_hearsay_settle(heard);
		if (blob_watch_compare_ids(watch, one, &heard->ids, &err) != 0) {
			blob_watch_log_failure(one, "blob_watch.failed", &err);
			heard->is_lost = true;
		}
		blob_paths_clear(&heard->ids);
	}
	watch->looked_at = clock_boot_ms();
}

static void blob_watch_read_events(struct blob_watch *watch)
{
	blob_hearsay_read(&watch->directories, watch->options.kinds, watch->heard.items);
}

struct scanning {
	struct blob_watch *watch;
	struct kind_watch *one;
};

/* A long scan does not keep others waiting. */
static void blob_watch_enter_directory(void *arg, const char *path)
{
	const struct scanning *scanning = arg;
	struct blob_watch *watch = scanning->watch;

	blob_watch_add_directory(watch, scanning->one, path);
	blob_watch_read_events(watch);
	if (clock_boot_ms() - watch->looked_at >= GATHER_MS)
		blob_watch_look_at_ids(watch);
}

static struct blob_scan_request blob_watch_make_request(struct scanning *scanning)
{
	struct blob_watch *watch = scanning->watch;

	return (struct blob_scan_request){ .notice = watch->options.notice,
					   .store = watch->options.store,
					   .kind = scanning->one->kind,
					   .stop = &watch->stop,
					   .troubles = &scanning->one->troubles,
					   .directory = blob_watch_enter_directory,
					   .arg = scanning };
}

static bool blob_watch_is_below(const char *path, const char *above)
{
	size_t len = strlen(above);

	return strncmp(path, above, len) == 0 && path[len] == '/';
}

static void scan_directory(struct blob_watch *watch, struct kind_watch *one,
			   const char *path)
{
	struct scanning scanning = { watch, one };
	const struct blob_scan_request request = blob_watch_make_request(&scanning);
	struct blob_scan_result result;
	struct err err;

	if (blob_scan_below(&request, path, &result, &err) == 0 ||
	    err.class == ERR_CANCELED)
		return;
	blob_watch_log_failure(one, "blob_watch.failed", &err);
	watch->heard.items[one - watch->kinds.items].is_lost = true;
}

static void blob_watch_scan_directories(struct blob_watch *watch, struct kind_watch *one)
{
	struct blob_heard *heard = &watch->heard.items[one - watch->kinds.items];
	const char *last = NULL;

	blob_hearsay_settle(heard);
	blob_paths paths = heard->directories;
	heard->directories = (blob_paths){ 0 };
	for (size_t i = 0; i < paths.count && !stop_is_requested(&watch->stop); i++) {
		if (last && blob_watch_is_below(paths.items[i], last))
			continue;
		last = paths.items[i];
		scan_directory(watch, one, last);
	}
	blob_paths_clear(&paths);
}

static void blob_watch_keep_state(struct blob_watch *watch, struct kind_watch *one,
				  const struct blob_scan_result *result, int64_t took_ms)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	one->state.has_scanned = true;
	one->state.is_failing = false;
	one->state.last_scan_at = clock_wall_ms();
	one->state.scanned_boot = clock_boot_ms();
	one->state.took_ms = took_ms;
	one->state.files = result->files;
	one->state.is_whole = one->unwatched == 0;
}

static void blob_watch_keep_failure(struct blob_watch *watch, struct kind_watch *one)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	one->state.is_failing = true;
	one->state.is_whole = false;
}

/* For status, which is another process. */
static void blob_watch_write_record(struct blob_watch *watch, struct kind_watch *one,
				    const struct scan_record *now)
{
	struct err err;

	if (!scan_is_news(&one->kept, now))
		return;
	if (scan_record_keep_blobs(watch->options.store, one->kind->type, now, &err) !=
	    0) {
		blob_watch_log_failure(one, "blob_watch.not_kept", &err);
		return;
	}
	scan_note_kept(&one->kept, now);
}

static void blob_watch_finish_scan(struct blob_watch *watch, struct kind_watch *one,
				   const struct blob_scan_result *result, int64_t took_ms)
{
	struct scan_record record = {
		.whole_at = result->is_complete ? clock_wall_ms() : 0,
		.left_out = (int64_t)result->left_out,
	};
	struct err err;

	if (blob_set_scanned(watch->options.store, one->kind->type,
			     result->is_complete ? SCANNED_ALL : SCANNED_PART, &err) != 0)
		blob_watch_log_failure(one, "blob_watch.not_kept", &err);
	blob_watch_keep_state(watch, one, result, took_ms);
	memcpy(record.example, result->example, sizeof(record.example));
	blob_watch_write_record(watch, one, &record);
	log_debug("blob_watch.scanned", LOG_NUMBER("dur_ms", took_ms),
		  LOG_TEXT("kind", one->kind->type), LOG_NUMBER("files", result->files),
		  LOG_NUMBER("looked_into", result->looked_into),
		  LOG_NUMBER("changed", result->changed));
}

static void scan_failed(struct blob_watch *watch, struct kind_watch *one,
			const struct err *err)
{
	blob_watch_keep_failure(watch, one);
	blob_watch_write_record(watch, one,
				&(struct scan_record){ .failing_since = clock_wall_ms(),
						       .failure = *err });
	blob_watch_log_failure(one, "blob_watch.failed", err);
}

/* How long to wait now, so that scans stay within their share. The first has looked at
 * everything, which says nothing of the next. */
static void set_next(struct blob_watch *watch, struct kind_watch *one, bool is_first,
		     int64_t used_ms)
{
	int64_t now = clock_boot_ms();
	int64_t interval =
		scan_pause_ms(is_first ? 0 : used_ms, watch->options.scan_interval_ms);

	one->scan_at = now + interval;
	one->not_before = now + (int64_t)((double)used_ms / HURRIED_SHARE);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);
	one->state.interval_ms = interval;
}

/* Uploads that a crash cut off: nobody resumes them. Those under way are locked. */
static void blob_watch_expire_uploads(struct kind_watch *one)
{
	int64_t now = clock_boot_ms();

	if (one->tidied_at != 0 && now - one->tidied_at < TIDY_EVERY_MS)
		return;
	one->tidied_at = now;
	blob_incoming_expire(one->kind, TIDY_EVERY_MS);
}

static void blob_watch_scan_kind(struct blob_watch *watch, struct kind_watch *one)
{
	struct scanning scanning = { watch, one };
	const struct blob_scan_request request = blob_watch_make_request(&scanning);
	struct blob_scan_result result;
	struct err err;
	int64_t started = clock_boot_ms(), used = scan_cpu_ms();
	bool is_first = !one->state.has_scanned; /* only this thread writes it */

	one->unwatched = 0;
	watch->heard.items[one - watch->kinds.items].is_lost = false;
	int status = blob_scan(&request, &result, &err);
	if (status == 0)
		blob_watch_finish_scan(watch, one, &result, clock_boot_ms() - started);
	else if (err.class != ERR_CANCELED)
		scan_failed(watch, one, &err);
	set_next(watch, one, is_first && status == 0, scan_cpu_ms() - used);
	blob_watch_expire_uploads(one);
}

/* When the kind's next scan is: sooner if something was lost. */
static int64_t blob_watch_next_scan(const struct blob_watch *watch,
				    const struct kind_watch *one)
{
	if (watch->heard.items[one - watch->kinds.items].is_lost &&
	    one->not_before < one->scan_at)
		return one->not_before;
	return one->scan_at;
}

static void blob_watch_do_work(struct blob_watch *watch)
{
	blob_watch_look_at_ids(watch);
	for (size_t i = 0; i < watch->kinds.count; i++) {
		struct kind_watch *one = &watch->kinds.items[i];
		if (stop_is_requested(&watch->stop))
			return;
		blob_watch_scan_directories(watch, one);
		if (blob_watch_next_scan(watch, one) <= clock_boot_ms())
			blob_watch_scan_kind(watch, one);
	}
}

static bool has_heard(const struct blob_watch *watch)
{
	for (size_t i = 0; i < watch->heard.count; i++)
		if (watch->heard.items[i].ids.count > 0 ||
		    watch->heard.items[i].directories.count > 0)
			return true;
	return false;
}

static int blob_watch_time_left(const struct blob_watch *watch)
{
	int64_t now = clock_boot_ms(), left = INT32_MAX;

	if (has_heard(watch))
		return 0;
	for (size_t i = 0; i < watch->kinds.count; i++) {
		int64_t next = blob_watch_next_scan(watch, &watch->kinds.items[i]) - now;
		left = next < left ? next : left;
	}
	return left > 0 ? (int)left : 0;
}

static void scan_all_now(struct blob_watch *watch)
{
	eventfd_t count;

	eventfd_read(watch->woken, &count);
	for (size_t i = 0; i < watch->kinds.count; i++)
		watch->kinds.items[i].scan_at = 0;
}

static void blob_watch_wait_for_work(struct blob_watch *watch)
{
	struct pollfd fds[] = { { .fd = watch->stop.fd, .events = POLLIN },
				{ .fd = watch->woken, .events = POLLIN },
				{ .fd = watch->directories.fd, .events = POLLIN } };

	if (poll(fds, ARRAY_SIZE(fds), blob_watch_time_left(watch)) <= 0 ||
	    fds[0].revents)
		return;
	if (fds[1].revents)
		scan_all_now(watch);
	if (fds[2].revents && !stop_wait(&watch->stop, GATHER_MS))
		blob_watch_read_events(watch);
}

static void *blob_watch_run_thread(void *arg)
{
	struct blob_watch *watch = arg;

	while (!stop_is_requested(&watch->stop)) {
		blob_watch_do_work(watch);
		blob_watch_wait_for_work(watch);
	}
	return NULL;
}

static void blob_watch_add_kinds(struct blob_watch *watch)
{
	const struct blob_kinds *kinds = watch->options.kinds;

	for (size_t i = 0; i < kinds->items.count; i++) {
		struct kind_watch one = { .kind = &kinds->items.items[i] };
		struct blob_heard heard = { 0 };
		one.state.interval_ms = watch->options.scan_interval_ms;
		vec_add(&watch->kinds, one);
		vec_add(&watch->heard, heard);
	}
}

struct blob_watch *blob_watch_start(const struct blob_watch_options *options)
{
	struct blob_watch *watch = xcalloc(1, sizeof(*watch));
	struct err err;

	mutex_init(&watch->mutex);
	stop_init(&watch->stop);
	watch->options = *options;
	watch->woken = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	blob_watch_add_kinds(watch);
	if (blob_directories_open(&watch->directories, BLOB_ORIGIN, options->directories,
				  &err) != 0)
		log_warn("blob_watch.limit", LOG_ERR(&err), LOG_NUMBER("directories", 0),
			 LOG_TEXT("remedy", err.remedy));
	thread_start(&watch->thread, "blob-watch", blob_watch_run_thread, watch);
	return watch;
}

void blob_watch_stop(struct blob_watch *watch)
{
	if (!watch)
		return;
	stop_request(&watch->stop);
	thread_join(watch->thread);
	blob_directories_close(&watch->directories);
	for (size_t i = 0; i < watch->kinds.count; i++) {
		blob_troubles_clear(&watch->kinds.items[i].troubles);
		blob_heard_clear(&watch->heard.items[i]);
	}
	vec_clear(&watch->kinds);
	vec_clear(&watch->heard);
	if (watch->woken >= 0)
		close(watch->woken);
	stop_clear(&watch->stop);
	pthread_mutex_destroy(&watch->mutex);
	free(watch);
}

void blob_watch_wake(struct blob_watch *watch)
{
	eventfd_write(watch->woken, 1);
}

bool blob_watch_look(struct blob_watch *watch, const char *type,
		     struct blob_watch_state *state)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	for (size_t i = 0; i < watch->kinds.count; i++) {
		if (strcmp(watch->kinds.items[i].kind->type, type) != 0)
			continue;
		*state = watch->kinds.items[i].state;
		return true;
	}
	return false;
}
