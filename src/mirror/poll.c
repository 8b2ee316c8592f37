#include "mirror/poll.h"

#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "git/checksum.h"
#include "job/pool.h"
#include "mirror/requests.h"
#include "mirror/upstream.h"
#include "replicable/name.h"
#include "replicable/registry.h"

#define ASKERS 8
#define TIMEOUT_MS 60000
#define FIRST_MOST_MS 30000 /* after a start the upstreams are asked within this time */
#define REQUESTS_MS 2000    /* requests that are to be tried again are looked for */
#define WRITE_MS 10000      /* when upstreams were asked is written */
#define AT_WORK_MS 1000     /* whether a job has ended is looked at */
#define AT_WORK (-1)

struct mirror_polled {
	struct mirror_poll *poll;
	const struct mirror *mirror;
	/* Guarded by the mutex. */
	int64_t next_at;    /* boot ms */
	int64_t checked_at; /* wall ms, not written yet; 0: it is */
	bool is_asked;
	bool is_hurried; /* by news that no question was asked after yet */
	bool is_urgent;  /* the question under way is asked after such news */
};

struct mirror_poll {
	struct mirror_poll_options options;
	pthread_mutex_t mutex; /* nothing is taken while it is held */
	pthread_cond_t changed;
	struct stop stop;
	int64_t started_at; /* wall ms */
	struct pool *askers;
	pthread_t thread;
	struct mirror_polled *polled; /* as the mirrors */
	bool stopping;
	VEC(struct http_line) resting; /* connections */
	int64_t requests_at, write_at; /* boot ms; of the thread alone */
};

static int64_t mirror_random_ms(int64_t most)
{
	uint32_t roll;

	if (getrandom(&roll, sizeof(roll), 0) != sizeof(roll))
		roll = (uint32_t)clock_wall_ns();
	return most > 0 ? (int64_t)(roll % (uint64_t)most) : 0;
}

/* Give or take a tenth, so that many do not coincide. */
static int64_t mirror_interval_ms(const struct mirror *mirror)
{
	int64_t tenth = mirror->interval_ms / 10;

	return mirror->interval_ms - tenth + mirror_random_ms(2 * tenth + 1);
}

static struct http_line mirror_poll_take_line(struct mirror_poll *poll)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);

	return poll->resting.count > 0 ? poll->resting.items[--poll->resting.count]
				       : http_line_open();
}

static void mirror_poll_rest_line(struct mirror_poll *poll, struct http_line line)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);

	vec_add(&poll->resting, line);
}

static int mirror_poll_ask_row(struct store_tx *tx, void *arg, struct err *err)
{
	const struct mirror *mirror = arg;
	const struct registry_move asked = { .event = REGISTRY_ASKED,
					     .changed_at = clock_wall_ms() };

	return registry_ask_in(tx, KIND_MIRROR, mirror->name, &asked, err);
}

static void mirror_poll_have_brought(struct mirror_poll *poll,
				     const struct mirror *mirror)
{
	struct mirror asked = *mirror; /* a work's argument is not const */
	struct err err;

	if (store_write(poll->options.store, mirror_poll_ask_row, &asked, &err) != 0)
		log_error("registry.failed", LOG_ERR(&err));
	else
		poll->options.wake(poll->options.arg);
}

static void mirror_poll_count(const char *result)
{
	struct metric *polls = metric_counter("refrelay_mirror_polls_total",
					      "Upstreams asked for their refs.", "state");

	metric_add(metric_at(polls, result), 1);
}

/* Whether they are what was brought last. */
static bool mirror_poll_is_same(const struct upstream_view *view,
				const struct registry_row *row)
{
	char text[CHECKSUM_TEXT_SIZE];
	struct checksum sum;

	checksum_of(&view->refs, &sum);
	checksum_format(&sum, text);
	return row->checksum && strcmp(row->checksum, text) == 0;
}

/* Of the next poll, in so many ms. */
static int64_t mirror_poll_take_answer(struct mirror_polled *one,
				       const struct registry_row *row, int result,
				       const struct upstream_view *view,
				       const struct err *err)
{
	int64_t interval_ms = mirror_interval_ms(one->mirror);

	if (result == 0 && mirror_poll_is_same(view, row)) {
		mirror_poll_count("unchanged");
		AUTO_UNLOCK pthread_mutex_t *held = lock(&one->poll->mutex);
		one->checked_at = clock_wall_ms();
		return interval_ms;
	}
	if (result != 0 && err->class == ERR_CANCELED)
		return interval_ms;
	if (result != 0 && view->retry_after_ms > 0) {
		log_warn("mirror.limited", LOG_TEXT("name", one->mirror->name),
			 LOG_ERR(err), LOG_NUMBER("wait_ms", view->retry_after_ms));
		mirror_poll_count("limited");
		return view->retry_after_ms > interval_ms ? view->retry_after_ms
							  : interval_ms;
	}
	mirror_poll_count(result == 0 ? "changed" : "failed");
	mirror_poll_have_brought(one->poll, one->mirror);
	return interval_ms;
}

/* What a job of this node has brought was asked for by it: so long there is nothing to
 * ask. A webhook knows of something newer. */
static int64_t mirror_poll_rest_ms(const struct mirror_polled *one,
				   const struct registry_row *row)
{
	int64_t age_ms = clock_wall_ms() - row->last_success_at, rest_ms;

	if (one->is_urgent || row->last_success_at < one->poll->started_at || age_ms < 0)
		return 0;
	rest_ms = mirror_interval_ms(one->mirror) - age_ms;
	return rest_ms > 0 ? rest_ms : 0;
}

/* One that is being brought, or waits for that, is asked by its job. In how many ms it is
 * asked again, or AT_WORK. */
static int64_t mirror_poll_ask_upstream(struct mirror_polled *one)
{
	struct mirror_poll *poll = one->poll;
	AUTO_UPSTREAM struct upstream_view view = { 0 };
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct http_line line;
	struct err err;
	int64_t rest_ms;
	int result;

	if (registry_get(poll->options.store, KIND_MIRROR, one->mirror->name, &row,
			 &err) != 0) {
		if (err.class != ERR_MISSING) /* it was removed */
			log_error("registry.failed", LOG_ERR(&err));
		return mirror_interval_ms(one->mirror);
	}
	if (row.state == REGISTRY_FAILED &&
	    credential_was_replaced(poll->options.marks, poll->options.mirrors,
				    one->mirror))
		mirror_poll_have_brought(poll, one->mirror);
	if (row.state == REGISTRY_STARTED && one->is_urgent)
		return AT_WORK; /* it may have asked before the news */
	if (row.state != REGISTRY_SYNCED || row.is_gone)
		return mirror_interval_ms(one->mirror);
	rest_ms = mirror_poll_rest_ms(one, &row);
	if (rest_ms > 0)
		return rest_ms;
	line = mirror_poll_take_line(poll);
	result = upstream_read(&(struct upstream_call){ .mirrors = poll->options.mirrors,
							.mirror = one->mirror,
							.marks = poll->options.marks,
							.timeout_ms = TIMEOUT_MS,
							.stop = &poll->stop,
							.line = &line },
			       &view, &err);
	mirror_poll_rest_line(poll, line);
	return mirror_poll_take_answer(one, &row, result, &view, &err);
}

static void mirror_poll_place_locked(struct mirror_polled *one, int64_t next_ms)
{
	one->is_asked = false;
	one->next_at = clock_boot_ms() + (next_ms == AT_WORK ? AT_WORK_MS : next_ms);
	if (one->is_hurried)
		one->next_at = 0; /* there was news meanwhile */
	else
		one->is_hurried = next_ms == AT_WORK;
}

static void mirror_poll_run_one(void *arg)
{
	struct mirror_polled *one = arg;
	struct mirror_poll *poll = one->poll;
	int64_t next_ms =
		stop_is_requested(&poll->stop) ? 0 : mirror_poll_ask_upstream(one);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);

	mirror_poll_place_locked(one, next_ms);
	pthread_cond_broadcast(&poll->changed);
}

/* When the next is due. */
static int64_t mirror_poll_submit_due_locked(struct mirror_poll *poll)
{
	int64_t now = clock_boot_ms(), next_at = INT64_MAX;

	for (size_t i = 0; i < poll->options.mirrors->items.count; i++) {
		struct mirror_polled *one = &poll->polled[i];
		if (!one->is_asked && one->next_at <= now) {
			one->is_asked = true;
			one->is_urgent = one->is_hurried;
			one->is_hurried = false;
			pool_submit(poll->askers, mirror_poll_run_one, one);
		}
		if (!one->is_asked && one->next_at < next_at)
			next_at = one->next_at;
	}
	return next_at;
}

static int mirror_poll_write_checked(struct store_tx *tx, void *arg, struct err *err)
{
	const struct mirror_poll *poll = arg;

	for (size_t i = 0; i < poll->options.mirrors->items.count; i++) {
		const struct mirror_polled *one = &poll->polled[i];
		if (one->checked_at != 0 &&
		    query_write(tx, err,
				"UPDATE mirror SET checked_at = ?2 WHERE name = ?1",
				QUERY_TEXT(one->mirror->name),
				QUERY_INT(one->checked_at)) != 0)
			return -1;
	}
	return 0;
}

/* The times of a moment, apart from those that are polled meanwhile. What a power cut
 * takes is asked again. */
static void mirror_poll_keep_checked(struct mirror_poll *poll)
{
	const size_t count = poll->options.mirrors->items.count;
	AUTO_FREE struct mirror_polled *now = xcalloc(count, sizeof(*now));
	struct mirror_poll copy = { .options = poll->options, .polled = now };
	bool any = false;
	struct err err;

	lock(&poll->mutex);
	memcpy(now, poll->polled, count * sizeof(*now));
	for (size_t i = 0; i < count; i++) {
		any |= now[i].checked_at != 0;
		poll->polled[i].checked_at = 0;
	}
	unlock(&poll->mutex);
	if (any && store_write_unsynced(poll->options.store, mirror_poll_write_checked,
					&copy, &err) != 0)
		log_error("registry.failed", LOG_ERR(&err));
}

static void mirror_poll_look_after_requests(struct mirror_poll *poll)
{
	struct err err;
	bool any;

	if (mirror_requests_hurry(poll->options.store, &any, &err) != 0)
		log_error("registry.failed", LOG_ERR(&err));
	else if (any)
		poll->options.wake(poll->options.arg);
}

static int64_t mirror_poll_sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void mirror_poll_wait(struct mirror_poll *poll)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);
	int64_t until = mirror_poll_submit_due_locked(poll);

	until = mirror_poll_sooner(until, poll->requests_at);
	if (!poll->stopping)
		cond_wait_until(&poll->changed, &poll->mutex,
				mirror_poll_sooner(until, poll->write_at));
}

static void *mirror_poll_run(void *arg)
{
	struct mirror_poll *poll = arg;

	while (!stop_is_requested(&poll->stop)) {
		int64_t now = clock_boot_ms();
		if (now >= poll->requests_at) {
			mirror_poll_look_after_requests(poll);
			poll->requests_at = now + REQUESTS_MS;
		}
		if (now >= poll->write_at) {
			mirror_poll_keep_checked(poll);
			poll->write_at = now + WRITE_MS;
		}
		mirror_poll_wait(poll);
	}
	return NULL;
}

/* Of those that are no more, nothing is known any more. */
static int mirror_poll_write_mirrors(struct store_tx *tx, void *arg, struct err *err)
{
	const struct mirrors *mirrors = arg;

	if (store_exec(tx, "UPDATE mirror SET interval_ms = 0", err) != 0)
		return -1;
	for (size_t i = 0; i < mirrors->items.count; i++) {
		const struct mirror *mirror = &mirrors->items.items[i];
		if (query_write(tx, err,
				"INSERT INTO mirror (name, interval_ms, checked_at)"
				" VALUES (?1, ?2, 0) ON CONFLICT (name)"
				" DO UPDATE SET interval_ms = ?2",
				QUERY_TEXT(mirror->name),
				QUERY_INT(mirror->interval_ms)) != 0)
			return -1;
	}
	return store_exec(tx, "DELETE FROM mirror WHERE interval_ms = 0", err);
}

int mirror_poll_forget(struct store *store, struct err *err)
{
	struct mirrors none = { 0 };

	return store_write(store, mirror_poll_write_mirrors, &none, err);
}

static int mirror_poll_add_rows(const struct mirror_poll_options *options,
				struct err *err)
{
	const struct mirrors *mirrors = options->mirrors;
	AUTO_FREE const char **names = xcalloc(mirrors->items.count + 1, sizeof(*names));

	for (size_t i = 0; i < mirrors->items.count; i++)
		names[i] = mirrors->items.items[i].name;
	struct mirrors written = *mirrors; /* a work's argument is not const */
	if (store_write(options->store, mirror_poll_write_mirrors, &written, err) != 0)
		return -1;
	return registry_add(options->store, KIND_MIRROR, names, mirrors->items.count,
			    err);
}

int mirror_poll_start(const struct mirror_poll_options *options,
		      struct mirror_poll **poll, struct err *err)
{
	const size_t count = options->mirrors->items.count;
	struct mirror_poll *started;

	if (mirror_requests_reset(options->store, err) != 0 ||
	    mirror_poll_add_rows(options, err) != 0)
		return -1;
	started = xcalloc(1, sizeof(*started));
	started->options = *options;
	started->started_at = clock_wall_ms();
	mutex_init(&started->mutex);
	cond_init(&started->changed);
	stop_init(&started->stop);
	started->polled = xcalloc(count, sizeof(*started->polled));
	started->write_at = clock_boot_ms() + WRITE_MS;
	for (size_t i = 0; i < count; i++) {
		const struct mirror *mirror = &options->mirrors->items.items[i];
		int64_t first_ms = mirror_poll_sooner(mirror->interval_ms, FIRST_MOST_MS);
		started->polled[i] = (struct mirror_polled){
			.poll = started,
			.mirror = mirror,
			.next_at = clock_boot_ms() + mirror_random_ms(first_ms),
		};
	}
	started->askers = pool_start("mirror", ASKERS);
	thread_start(&started->thread, "mirror-poll", mirror_poll_run, started);
	*poll = started;
	options->wake(options->arg); /* of new rows, and of requests that wait again */
	return 0;
}

void mirror_poll_stop(struct mirror_poll *poll)
{
	if (!poll)
		return;
	lock(&poll->mutex);
	poll->stopping = true;
	pthread_cond_broadcast(&poll->changed);
	unlock(&poll->mutex);
	stop_request(&poll->stop);
	thread_join(poll->thread);
	pool_stop(poll->askers, NULL);
	mirror_poll_keep_checked(poll);
	for (size_t i = 0; i < poll->resting.count; i++)
		http_line_close(&poll->resting.items[i]);
	vec_clear(&poll->resting);
	free(poll->polled);
	stop_clear(&poll->stop);
	pthread_cond_destroy(&poll->changed);
	pthread_mutex_destroy(&poll->mutex);
	free(poll);
}

void mirror_poll_hurry(struct mirror_poll *poll, const struct mirror *mirror)
{
	struct mirror_polled *one =
		&poll->polled[mirror - poll->options.mirrors->items.items];
	AUTO_UNLOCK pthread_mutex_t *held = lock(&poll->mutex);

	one->is_hurried = true;
	one->next_at = 0;
	pthread_cond_broadcast(&poll->changed);
}

struct mirror_checking {
	const char *name;
	int64_t at;
};

static int mirror_poll_read_checked(struct store_tx *tx, void *arg, struct err *err)
{
	struct mirror_checking *checking = arg;
	AUTO_QUERY struct query *query = NULL;
	int found;

	checking->at = 0;
	if (query_ask(tx, &query, err, "SELECT checked_at FROM mirror WHERE name = ?1",
		      QUERY_TEXT(checking->name)) != 0)
		return -1;
	found = query_step(query, err);
	if (found > 0)
		checking->at = query_int(query, 0);
	return found < 0 ? -1 : 0;
}

int mirror_checked_at(struct store *store, const char *name, int64_t *at, struct err *err)
{
	struct mirror_checking checking = { .name = name };
	int result = store_read(store, mirror_poll_read_checked, &checking, err);

	*at = checking.at;
	return result;
}
