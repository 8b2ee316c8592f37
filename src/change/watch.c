#include "change/watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "change/event_log.h"
#include "change/notice_parts.h"
#include "change/owed.h"
#include "change/spool.h"
#include "change/watcher.h"

#define TEND_EVERY_MS 10000
#define TEND_KIND_EVERY_MS ((int64_t)24 * 3600 * 1000)
#define PRUNE_EVERY_MS (10 * 60 * 1000)

/* Its thread only, but for the state. */
struct watched_kind {
	struct origin_kind kind;
	struct map troubles;
	struct scan_kept kept;
	int64_t tended_at;        /* boot ms; 0: never */
	struct watch_state state; /* guarded by watch.mutex */
};

struct watch {
	pthread_mutex_t mutex;
	struct watch_options options;
	char *data;                     /* owned; NULL: none */
	int64_t prune_at, tend_at;      /* boot ms; its thread only */
	bool is_spool_told;             /* for spool_work() */
	VEC(struct watched_kind) kinds; /* fixed */
	struct watcher *watcher;
};

static void watch_log_failure(const struct watched_kind *one, const char *what,
			      const struct err *err)
{
	log_warn(what, LOG_ERR(err), LOG_TEXT("kind", one->kind.of.type));
}

static void watch_work_spool(struct watch *watch)
{
	struct err err;
	size_t count;

	if (spool_is_empty(watch->data)) {
		watch->is_spool_told = false;
		return;
	}
	if (spool_work(watch->options.notice, watch->data, &watch->is_spool_told, &count,
		       &err) != 0)
		log_warn("spool.failed", LOG_ERR(&err));
	else if (count > 0)
		log_info("spool.done", LOG_NUMBER("files", count));
}

static void watch_settle_owed(struct watch *watch, const struct stop *stop)
{
	struct err err;
	size_t left;

	if (owed_may_be(watch->options.notice) &&
	    owed_settle(watch->options.notice, stop, &left, &err) != 0)
		log_warn("change.not_settled", LOG_ERR(&err));
}

static void watch_prune_if_due(struct watch *watch)
{
	struct err err;
	uint64_t dropped = 0;

	if (clock_boot_ms() < watch->prune_at)
		return;
	watch->prune_at = clock_boot_ms() + PRUNE_EVERY_MS;
	if (event_log_prune(watch->options.store, watch->options.keep_ms,
			    watch->options.keep_count, &dropped, &err) != 0)
		log_warn("events.prune_failed", LOG_ERR(&err));
	else if (dropped > 0)
		log_info("events.pruned", LOG_NUMBER("events", dropped));
}

static bool watch_tends_kind(const struct watch *watch, const struct watched_kind *one)
{
	/* which may take long: what was found is needed first */
	bool was_tried = one->state.has_scanned || one->state.is_failing;

	return was_tried && (watch->options.tend || one->kind.of.origin->tend);
}

static void watch_tend_kind(const struct watch *watch, struct watched_kind *one)
{
	int64_t now = clock_boot_ms();

	if (!watch_tends_kind(watch, one) ||
	    (one->tended_at != 0 && now - one->tended_at < TEND_KIND_EVERY_MS))
		return;
	one->tended_at = now;
	if (one->kind.of.origin->tend)
		one->kind.of.origin->tend(&one->kind);
	if (watch->options.tend)
		watch->options.tend(&one->kind);
}

static void watch_tend(void *arg, const struct stop *stop)
{
	struct watch *watch = arg;

	for (size_t i = 0; i < watch->kinds.count; i++)
		watch_tend_kind(watch, &watch->kinds.items[i]);
	if (!watch->data)
		return;
	watch->tend_at = clock_boot_ms() + TEND_EVERY_MS;
	watch_work_spool(watch);
	watch_settle_owed(watch, stop);
	watch_prune_if_due(watch);
}

static int64_t watch_due(void *arg)
{
	const struct watch *watch = arg;
	int64_t due = watch->data ? watch->tend_at : INT64_MAX;

	for (size_t i = 0; i < watch->kinds.count; i++) {
		const struct watched_kind *one = &watch->kinds.items[i];
		int64_t next =
			one->tended_at > 0 ? one->tended_at + TEND_KIND_EVERY_MS : 0;
		if (watch_tends_kind(watch, one) && next < due)
			due = next;
	}
	return due;
}

struct watch_scanning {
	struct watched_kind *one;
	const struct watcher_scan *scan;
};

static void watch_enter_directory(void *arg, const char *path)
{
	const struct watch_scanning *scanning = arg;
	const struct watcher_scan *scan = scanning->scan;

	if (!scanning->one->kind.of.origin->is_watched)
		return;
	watcher_add(scan->watcher, scan->kind, path, ERR_IGNORED);
	watcher_breathe(scan->watcher);
}

/* For status, which is another process. */
static void watch_write_record(struct watch *watch, struct watched_kind *one,
			       const struct scan_record *now)
{
	struct err err;

	if (!scan_record_is_news(&one->kept, now))
		return;
	if (scan_record_keep(watch->options.store, one->kind.of.type, now, &err) != 0) {
		watch_log_failure(one, one->kind.of.origin->events.not_kept, &err);
		return;
	}
	scan_record_note_kept(&one->kept, now);
}

static void watch_keep_state(struct watch *watch, struct watched_kind *one,
			     int64_t took_ms)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);
	struct watch_state *state = &one->state;

	state->has_scanned = true;
	state->is_failing = false;
	state->scanned_boot = clock_boot_ms();
	state->took_ms = took_ms;
}

static void watch_keep_failure(struct watch *watch, struct watched_kind *one)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	one->state.is_failing = true;
}

/* Once for a timeline. One that is drawn during the scan is of the same database. What is
 * there without a row would be missing from the inventory of "all", and secondaries would
 * remove their copies. */
static void watch_record_scan(struct watch *watch, const struct watched_kind *one,
			      const struct scan_result *result)
{
	bool is_all = result->is_complete && !result->lacks_rows;
	enum event_scanned scanned = is_all ? SCANNED_ALL : SCANNED_PART;
	struct store *store = watch->options.store;
	struct err err;
	enum event_scanned recorded;

	if (event_log_scanned(store, one->kind.of.type, &recorded, &err) != 0 ||
	    (recorded < scanned &&
	     event_log_set_scanned(store, one->kind.of.type, scanned, &err) != 0))
		watch_log_failure(one, one->kind.of.origin->events.not_kept, &err);
}

static void watch_finish_scan(struct watch *watch, struct watched_kind *one,
			      const struct scan_result *result, int64_t took_ms)
{
	struct scan_record record = {
		.whole_at = result->is_complete ? clock_wall_ms() : 0,
		.left_out = (int64_t)result->left_out,
		.has_hooks = result->has_hooks,
		.hooks = result->hooks,
	};

	watch_record_scan(watch, one, result);
	watch_keep_state(watch, one, took_ms);
	memcpy(record.example, result->example, sizeof(record.example));
	watch_write_record(watch, one, &record);
	one->kind.of.origin->finish(&one->kind, result, took_ms);
}

/* A scan that failed is no scan: who waits for the first must know what is there. */
static void watch_fail_scan(struct watch *watch, struct watched_kind *one,
			    const struct err *err)
{
	watch_keep_failure(watch, one);
	watch_write_record(watch, one,
			   &(struct scan_record){ .failing_since = clock_wall_ms(),
						  .failure = *err });
}

static int watch_scan(void *arg, const struct watcher_scan *scan, struct err *err)
{
	struct watch *watch = arg;
	struct watched_kind *one = &watch->kinds.items[scan->kind];
	struct watch_scanning scanning = { one, scan };
	const struct scan_request request = { .kind = &one->kind,
					      .stop = watcher_stop_of(scan->watcher),
					      .troubles = &one->troubles,
					      .directory = watch_enter_directory,
					      .arg = &scanning };
	struct scan_result result;
	int64_t started = clock_boot_ms();

	if (scan->below)
		return scan_below(&request, scan->below, &result, err);
	int status = scan_all(&request, &result, err);
	if (status == 0)
		watch_finish_scan(watch, one, &result, clock_boot_ms() - started);
	else if (err->class != ERR_CANCELED)
		watch_fail_scan(watch, one, err);
	return status;
}

static void watch_failed(void *arg, size_t kind, const struct err *err)
{
	struct watch *watch = arg;
	const struct watched_kind *one = &watch->kinds.items[kind];

	if (err->class != ERR_CANCELED)
		watch_log_failure(one, one->kind.of.origin->events.failed, err);
}

static int watch_look_at(void *arg, size_t kind, const text_list *ids, struct err *err)
{
	struct watch *watch = arg;
	const struct origin_kind *origin = &watch->kinds.items[kind].kind;

	return notice_hinted(origin, ids->items, ids->count, err);
}

static void watch_note_pace(void *arg, size_t kind, int64_t interval_ms)
{
	struct watch *watch = arg;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	watch->kinds.items[kind].state.interval_ms = interval_ms;
}

struct watch *watch_start(const struct watch_options *options)
{
	static const struct watcher_ops ops = {
		.scan = watch_scan,
		.look = watch_look_at,
		.failed = watch_failed,
		.paced = watch_note_pace,
		.tend = watch_tend,
		.due = watch_due,
		.limit = "blob_watch.limit",
		.scope = BLOB_ORIGIN,
	};
	AUTO_FREE const char **roots = xcalloc(options->kind_count, sizeof(*roots));
	struct watch *watch = xcalloc(1, sizeof(*watch));

	mutex_init(&watch->mutex);
	watch->options = *options;
	watch->options.kinds = NULL;
	watch->data = options->data ? xstrdup(options->data) : NULL;
	for (size_t i = 0; i < options->kind_count; i++) {
		struct watched_kind one = { .kind = options->kinds[i] };
		one.state.interval_ms = options->scan_interval_ms;
		roots[i] = one.kind.of.origin->is_watched ? one.kind.of.path : NULL;
		vec_add(&watch->kinds, one);
	}
	watch->watcher = watcher_start(
		&(struct watcher_options){ .ops = &ops,
					   .arg = watch,
					   .thread = options->thread,
					   .interval_ms = options->scan_interval_ms,
					   .roots = roots,
					   .root_count = options->kind_count,
					   .directories = options->directories,
					   .descriptor = -1 });
	return watch;
}

void watch_stop(struct watch *watch)
{
	if (!watch)
		return;
	watcher_stop(watch->watcher);
	for (size_t i = 0; i < watch->kinds.count; i++)
		map_clear_owned(&watch->kinds.items[i].troubles);
	vec_clear(&watch->kinds);
	pthread_mutex_destroy(&watch->mutex);
	free(watch->data);
	free(watch);
}

void watch_wake(struct watch *watch)
{
	watcher_wake(watch->watcher);
}

bool watch_look(struct watch *watch, const char *type, struct watch_state *state)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	for (size_t i = 0; i < watch->kinds.count; i++) {
		if (strcmp(watch->kinds.items[i].kind.of.type, type) != 0)
			continue;
		*state = watch->kinds.items[i].state;
		return true;
	}
	return false;
}
