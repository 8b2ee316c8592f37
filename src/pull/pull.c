/*
 * Starting and stopping, and what the threads tell each other.
 *
 * Stopping has two tokens. `stop` ends the three loops and begins nothing new; what the
 * pools run goes on until it is done or the grace is over. Then `kill` ends requests and
 * children, and each job gives its row back. So no row is left to a timeout.
 */
#include "pull/pull.h"

#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "pull/blob_copy_watch.h"
#include "pull/copy_watch.h"
#include "pull/pull_job.h"
#include "upkeep/copies_root.h"
#include "upkeep/trash.h"

#define AT(kind, member) SETTING_AT(kind, struct pull_settings, member)
#define CAPACITY_MOST 256

static const struct setting rows[] = {
	{ "repositoryCapacity", AT(NUMBER, repository_capacity), "10",
	  .max = CAPACITY_MOST },
	{ "blobCapacity", AT(NUMBER, blob_capacity), "10", .max = CAPACITY_MOST },
	{ "verificationCapacity", AT(NUMBER, verification_capacity), "2",
	  .max = CAPACITY_MOST },
	{ "scanInterval", AT(DURATION, scan_interval_ms), "1m", .min = 100,
	  .at_start = true },
	{ "consistencyInterval", AT(DURATION, consistency_interval_ms), "1m",
	  .min = CONF_SECOND },
	{ "timeout", AT(DURATION, timeout_ms), "3h", .min = CONF_SECOND },
	{ "reverifyInterval", AT(DURATION, reverify_ms), "7d", .min = CONF_SECOND,
	  .unit = CONF_DAY },
	{ "bandwidth", AT(SIZE, bandwidth), "0" },
	{ "deleteBrake", AT(SHARE, delete_brake), "5%" },
	{ 0 },
};

const struct setting_table pull_settings_table = { .section = "sync", .rows = rows };

unsigned random_roll(void)
{
	unsigned roll;

	if (getrandom(&roll, sizeof(roll), 0) != sizeof(roll))
		roll = (unsigned)clock_wall_ns();
	return roll;
}

void pull_signal(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->woken = true;
	pthread_cond_broadcast(&pull->changed);
}

void pull_wake(struct pull *pull)
{
	pull_signal(pull);
}

struct pull_settings pull_settings_now(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	return pull->settings;
}

void pull_set(struct pull *pull, const struct pull_settings *settings)
{
	lock(&pull->mutex);
	pull->settings = *settings;
	pull->hurries++;
	pthread_cond_broadcast(&pull->changed);
	unlock(&pull->mutex);
	peer_retry_rows(pull);
}

void pull_look(struct pull *pull, struct pull_state *state)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	*state = pull->state;
	state->is_comparing = pull->compared < pull->asked;
	state->heard_boot = pull->news.heard_at;
	state->news_void = pull->news.is_void;
}

#define LEASE_PATIENCE_MS ((int64_t)3600 * 1000)
#define LEASE_RETRY_MS 5000

bool site_lease_hold(struct pull *pull, const char *name, struct lease **lease)
{
	AUTO_FREE char *key = xasprintf("site:%s", name);
	struct err err;

	if (*lease && lease_check(*lease, &err) == 0)
		return !stop_is_requested(&pull->stop);
	lease_release(TAKE(*lease));
	while (!stop_is_requested(&pull->stop)) {
		if (lease_acquire(pull->options.leases,
				  &(struct lease_request){ .key = key,
							   .operation = name,
							   .wait_ms = LEASE_PATIENCE_MS,
							   .stop = &pull->stop },
				  lease, &err) == 0)
			return true;
		if (err.class == ERR_BUSY || err.class == ERR_CANCELED)
			continue;
		log_error("pull.no_lease", LOG_ERR(&err), LOG_TEXT("lease_key", key));
		stop_wait(&pull->stop, LEASE_RETRY_MS);
	}
	return false;
}

uint64_t comparison_ask(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->asked++;
	pthread_cond_broadcast(&pull->changed);
	return pull->asked;
}

bool comparison_wait(struct pull *pull, uint64_t number, int64_t ms)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	int64_t until = clock_boot_ms() + ms;

	while (!pull->stopping && pull->compared < number)
		if (!cond_wait_until(&pull->changed, &pull->mutex, until))
			break;
	return pull->compared >= number;
}

void names_record(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	map_clear(&pull->touched);
	pull->records_names = true;
}

void names_forget(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	map_clear(&pull->touched);
	pull->records_names = false;
}

void names_touch(struct pull *pull, const char *kind, const char *name)
{
	AUTO_FREE char *key = xasprintf("%s:%s", kind, name);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	if (pull->records_names)
		map_put(&pull->touched, key, pull);
}

bool names_has(struct pull *pull, const char *kind, const char *name)
{
	AUTO_FREE char *key = xasprintf("%s:%s", kind, name);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	return map_get(&pull->touched, key) != NULL;
}

const struct blob_kind *pull_kind(const struct pull *pull, const char *type)
{
	return pull->options.kinds ? blob_kinds_find(pull->options.kinds, type) : NULL;
}

void pull_copy_changed(struct pull *pull, const char *name)
{
	copy_watch_tell(pull->copy_watch, name);
}

static void pull_free(struct pull *pull)
{
	copy_watch_free(pull->copy_watch);
	source_free(pull->source);
	lines_clear(&pull->lines);
	doubts_clear(pull);
	map_clear(&pull->touched);
	map_clear(&pull->unknown_kinds);
	map_clear(&pull->reverified);
	map_clear(&pull->at_work);
	vec_clear(&pull->given_back);
	stop_clear(&pull->stop);
	stop_clear(&pull->kill);
	pthread_cond_destroy(&pull->changed);
	pthread_mutex_destroy(&pull->mutex);
	free(pull);
}

static struct pull *pull_new(const struct pull_options *options)
{
	struct pull *pull = xcalloc(1, sizeof(*pull));

	mutex_init(&pull->mutex);
	cond_init(&pull->changed);
	stop_init(&pull->stop);
	stop_init(&pull->kill);
	pull->options = *options;
	pull->settings = options->settings;
	news_set_fresh_for(pull, options->fresh_for_ms);
	pull->source = source_new_primary(options->primary, options->settings.timeout_ms,
					  &pull->kill);
	lines_init(&pull->lines, options->primary, &pull->kill);
	return pull;
}

static size_t threads_of(uint64_t capacity)
{
	return capacity > 0 ? (size_t)capacity : 1;
}

/* A kind whose directory is away fails by itself: the others go on. */
static void open_blob_roots(const struct pull_options *options)
{
	struct err err;

	for (size_t i = 0; options->kinds && i < options->kinds->items.count; i++)
		if (copies_root_open_blobs(options->store,
					   &options->kinds->items.items[i], &err) != 0)
			log_error("root.failed", LOG_ERR(&err),
				  LOG_TEXT("remedy", err.remedy));
}

static void start_pools(struct pull *pull)
{
	const struct pull_settings *settings = &pull->options.settings;

	pull->sync_pool = pool_start("sync", threads_of(settings->repository_capacity));
	if (pull->options.kinds && pull->options.kinds->items.count > 0)
		pull->blob_pool = pool_start("blob", threads_of(settings->blob_capacity));
	pull->verify_pool =
		pool_start("verify", threads_of(settings->verification_capacity));
}

int pull_start(const struct pull_options *options, struct pull **pull, struct err *err)
{
	struct pull *started;

	if (registry_reset_started(options->store, err) != 0 ||
	    copies_root_open(options->store, options->root, err) != 0)
		return -1;
	staging_clear(options->leases, options->root);
	open_blob_roots(options);
	started = pull_new(options);
	start_pools(started);
	started->copy_watch = copy_watch_start(started);
	started->blob_copy_watch = blob_copy_watch_start(started, 0);
	thread_start(&started->scheduler_thread, "scheduler", scheduler_run, started);
	thread_start(&started->consistency_thread, "consistency", consistency_run,
		     started);
	thread_start(&started->glance_thread, "glance", glance_run, started);
	thread_start(&started->cursor_thread, "log-cursor", log_cursor_run, started);
	*pull = started;
	return 0;
}

static void wait_for_jobs(struct pull *pull, int64_t grace_ms)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	int64_t until = clock_boot_ms() + grace_ms;

	while (pull->state.syncing + pull->state.blobbing + pull->state.verifying > 0)
		if (!cond_wait_until(&pull->changed, &pull->mutex, until))
			return;
}

static void leave_loops(struct pull *pull)
{
	lock(&pull->mutex);
	pull->stopping = true;
	pthread_cond_broadcast(&pull->changed);
	unlock(&pull->mutex);
	stop_request(&pull->stop);
	thread_join(pull->scheduler_thread);
	thread_join(pull->glance_thread);
}

void pull_stop(struct pull *pull, int64_t grace_ms)
{
	if (!pull)
		return;
	copy_watch_stop(pull->copy_watch); /* workers still tell it */
	blob_copy_watch_stop(pull->blob_copy_watch);
	leave_loops(pull);
	wait_for_jobs(pull, grace_ms);
	stop_request(&pull->kill);
	pool_stop(pull->sync_pool, pull_job_forget);
	pool_stop(pull->blob_pool, pull_job_forget);
	pool_stop(pull->verify_pool, pull_job_forget);
	thread_join(pull->cursor_thread);
	thread_join(pull->consistency_thread);
	pull_free(pull);
}
