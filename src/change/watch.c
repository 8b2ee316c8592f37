#include "change/watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "change/owed.h"
#include "change/scan_pace.h"
#include "change/spool.h"

#define SETTLE_EVERY_MS 10000
#define PRUNE_EVERY_MS (10 * 60 * 1000)

struct watch {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool is_woken;            /* guarded by mutex */
	struct watch_state state; /* guarded by mutex */
	struct watch_options options;
	char *data;            /* owned */
	int64_t prune_at;      /* its thread only */
	struct scan_kept kept; /* its thread only */
	int64_t lacking_hooks; /* its thread only; as logged last */
	struct stop stop;
	pthread_t thread;
};

static void work_spool(struct watch *watch)
{
	struct err err;
	size_t count;

	if (spool_is_empty(watch->data))
		return;
	if (spool_work(watch->options.notice, watch->data, &count, &err) != 0)
		log_warn("spool.failed", LOG_ERR(&err));
	else if (count > 0)
		log_info("spool.done", LOG_NUMBER("files", count));
}

static void settle_owed(struct watch *watch)
{
	struct err err;
	size_t left;

	if (owed_may_be(watch->options.notice) &&
	    owed_settle(watch->options.notice, &watch->stop, &left, &err) != 0)
		log_warn("change.not_settled", LOG_ERR(&err));
}

static void watch_keep_state(struct watch *watch, const struct notice_scan_result *result,
			     int64_t took_ms)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	watch->state.has_scanned = true;
	watch->state.is_failing = false;
	watch->state.last_scan_at = clock_wall_ms();
	watch->state.scanned_boot = clock_boot_ms();
	watch->state.took_ms = took_ms;
	watch->state.repositories = result->repositories;
}

static void watch_keep_failure(struct watch *watch)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	watch->state.is_failing = true;
}

/* For status, which is another process. */
static void watch_write_record(struct watch *watch, const struct scan_record *now)
{
	struct err err;

	if (!scan_is_news(&watch->kept, now))
		return;
	if (scan_record_keep(watch->options.store, now, &err) != 0) {
		log_warn("watch.not_kept", LOG_ERR(&err));
		return;
	}
	scan_note_kept(&watch->kept, now);
}

/* Once for a timeline. One that is drawn during the scan is of the same database. */
static void record_scan(struct watch *watch, const struct notice_scan_result *result)
{
	enum event_scanned scanned = result->is_complete ? SCANNED_ALL : SCANNED_PART;
	struct err err;
	enum event_scanned recorded;

	if (event_log_scanned(watch->options.store, &recorded, &err) != 0 ||
	    (recorded < scanned &&
	     event_log_set_scanned(watch->options.store, scanned, &err) != 0))
		log_warn("watch.failed", LOG_ERR(&err));
}

/* Only that they have become fewer or more. */
static void log_hooks(struct watch *watch, const struct hook_counts *counts)
{
	int64_t lacking = hook_counts_lacking(counts);
	int64_t before = watch->lacking_hooks;

	watch->lacking_hooks = lacking;
	if (lacking > before)
		log_warn("hooks.lacking", LOG_NUMBER("repositories", lacking),
			 LOG_TEXT("example", counts->example),
			 LOG_TEXT("remedy", "run refrelay hooks install"));
	else if (lacking < before && lacking == 0)
		log_info("hooks.whole",
			 LOG_NUMBER("repositories", counts->states[HOOK_INSTALLED]));
}

static void watch_report_hooks(struct watch *watch, const struct hook_counts *counts)
{
	if (!watch->options.looks_at_hooks)
		return;
	struct metric *gauge = metric_gauge(
		"refrelay_hooks", "Repositories by the state of their hooks.", "state");
	for (size_t i = 0; i < HOOK_STATES; i++)
		metric_set(metric_at(gauge, hook_state_name((enum hook_state)i)),
			   (double)counts->states[i]);
	log_hooks(watch, counts);
}

static void watch_finish_scan(struct watch *watch,
			      const struct notice_scan_result *result, int64_t took_ms)
{
	struct scan_record record = {
		.whole_at = result->is_complete ? clock_wall_ms() : 0,
		.left_out = (int64_t)result->left_out,
		.has_hooks = watch->options.looks_at_hooks,
		.hooks = result->hooks,
	};

	watch_report_hooks(watch, &result->hooks);
	record_scan(watch, result);
	watch_keep_state(watch, result, took_ms);
	memcpy(record.example, result->example, sizeof(record.example));
	watch_write_record(watch, &record);
	log_debug("watch.scanned", LOG_NUMBER("dur_ms", took_ms),
		  LOG_NUMBER("repositories", result->repositories),
		  LOG_NUMBER("looked_into", result->looked_into),
		  LOG_NUMBER("changed", result->changed));
}

static void watch_record_failure(struct watch *watch, const struct err *err)
{
	watch_keep_failure(watch);
	watch_write_record(watch, &(struct scan_record){ .failing_since = clock_wall_ms(),
							 .failure = *err });
	log_warn("watch.failed", LOG_ERR(err));
}

/* How long to wait for the next. A scan that failed is no scan: who waits for the first
 * must know what is there. */
static int64_t watch_scan_site(struct watch *watch)
{
	struct notice_scan_result result = { 0 };
	struct err err;
	int64_t started = clock_boot_ms(), used = scan_cpu_ms();
	int status = notice_scan(watch->options.notice, &watch->stop, &result, &err);
	bool is_first = !watch->state.has_scanned; /* only this thread writes it */

	if (status == 0)
		watch_finish_scan(watch, &result, clock_boot_ms() - started);
	else if (err.class != ERR_CANCELED)
		watch_record_failure(watch, &err);
	/* With a new database it has read everything, which says nothing of the next. */
	return scan_pause_ms(is_first && status == 0 ? 0 : scan_cpu_ms() - used,
			     watch->options.scan_interval_ms);
}

static void prune_if_due(struct watch *watch)
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

static void keep_interval(struct watch *watch, int64_t interval_ms)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	watch->state.interval_ms = interval_ms;
}

/* Whether nothing called until then. */
static bool watch_rest_until(struct watch *watch, int64_t until)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	while (!watch->is_woken && !stop_is_requested(&watch->stop))
		if (!cond_wait_until(&watch->changed, &watch->mutex, until))
			return true;
	watch->is_woken = false;
	return false;
}

/* What is owed does not wait for it. */
static void watch_wait_for_next(struct watch *watch, int64_t interval_ms)
{
	int64_t until = clock_boot_ms() + interval_ms, pause;

	keep_interval(watch, interval_ms);
	while ((pause = clock_boot_ms() + SETTLE_EVERY_MS) < until) {
		if (!watch_rest_until(watch, pause))
			return;
		settle_owed(watch);
	}
	watch_rest_until(watch, until);
}

static void *watch_run_thread(void *arg)
{
	struct watch *watch = arg;

	while (!stop_is_requested(&watch->stop)) {
		work_spool(watch);
		settle_owed(watch);
		int64_t interval_ms = watch_scan_site(watch);
		prune_if_due(watch);
		watch_wait_for_next(watch, interval_ms);
	}
	return NULL;
}

struct watch *watch_start(const struct watch_options *options)
{
	struct watch *watch = xcalloc(1, sizeof(*watch));

	mutex_init(&watch->mutex);
	cond_init(&watch->changed);
	stop_init(&watch->stop);
	watch->options = *options;
	watch->data = xstrdup(options->data);
	watch->options.data = watch->data;
	watch->state.interval_ms = options->scan_interval_ms;
	thread_start(&watch->thread, "watch", watch_run_thread, watch);
	return watch;
}

void watch_stop(struct watch *watch)
{
	if (!watch)
		return;
	lock(&watch->mutex);
	stop_request(&watch->stop);
	pthread_cond_broadcast(&watch->changed);
	unlock(&watch->mutex);
	thread_join(watch->thread);
	stop_clear(&watch->stop);
	pthread_cond_destroy(&watch->changed);
	pthread_mutex_destroy(&watch->mutex);
	free(watch->data);
	free(watch);
}

void watch_wake(struct watch *watch)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	watch->is_woken = true;
	pthread_cond_broadcast(&watch->changed);
}

void watch_look(struct watch *watch, struct watch_state *state)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	*state = watch->state;
}
