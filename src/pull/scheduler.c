/*
 * The scheduler: due rows to workers. It claims as many rows as there are free workers,
 * never more, so that what is claimed runs at once and what is due first is chosen
 * last. It sleeps until somebody says that rows have changed, a worker is free, or the
 * next row is due.
 */
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/retry.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"
#include "upkeep/trash.h"

#define LOOK_LEAST_MS 100
#define LOOK_MOST_MS 60000
#define UPKEEP_MS ((int64_t)24 * 3600 * 1000)
/* Work ends by its timeout, and then says so; a row of which nothing is heard even then
 * is anybody's. */
#define GRACE_MS 60000

/* One of the two kinds of work. */
struct lane {
	struct pool *pool;
	size_t *running; /* guarded by pull->mutex */
	size_t capacity;
	pool_work work;
	const char *claimed; /* failpoint */
	int (*claim)(struct store *store, const char *kind, size_t limit,
		     int64_t timeout_ms, registry_rows *rows, struct err *err);
};

struct scheduler {
	struct pull *pull;
	struct lease *lease;
	struct lane sync, verification;
	int64_t timeout_ms, reverify_ms;
	int64_t clock_lead_ms; /* clock_was_set_back() */
	bool is_broken;        /* told in the log */
};

static size_t free_workers(struct scheduler *scheduler, const struct lane *lane)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&scheduler->pull->mutex);

	return lane->capacity > *lane->running ? lane->capacity - *lane->running : 0;
}

static void submit(struct scheduler *scheduler, const struct lane *lane,
		   registry_rows *rows)
{
	struct pull *pull = scheduler->pull;

	lock(&pull->mutex);
	*lane->running += rows->count;
	unlock(&pull->mutex);
	for (size_t i = 0; i < rows->count; i++) {
		struct pull_job *job = xcalloc(1, sizeof(*job));
		job->pull = pull;
		job->row = rows->items[i]; /* with all that it owns */
		pool_submit(lane->pool, lane->work, job);
	}
	vec_clear(rows);
}

/* *due_at becomes INT64_MAX when no worker is free: one that ends tells. */
static int fill(struct scheduler *scheduler, const struct lane *lane, int64_t *due_at,
		struct err *err)
{
	registry_rows rows = { 0 };
	size_t limit = free_workers(scheduler, lane);

	if (limit > 0 && *due_at > clock_wall_ms())
		return 0;
	if (limit > 0) {
		if (lane->claim(scheduler->pull->options.store, KIND_REPOSITORY, limit,
				scheduler->timeout_ms, &rows, err) != 0)
			return -1;
		if (rows.count > 0)
			failpoint(lane->claimed);
		limit -= rows.count;
		submit(scheduler, lane, &rows);
	}
	if (limit == 0)
		*due_at = INT64_MAX;
	return 0;
}

/* When to look again at the latest, wall ms. */
static int fill_both(struct scheduler *scheduler, int64_t *next_at, struct err *err)
{
	int64_t sync_at, verification_at;

	if (registry_next_due(scheduler->pull->options.store, &sync_at, &verification_at,
			      err) != 0 ||
	    fill(scheduler, &scheduler->sync, &sync_at, err) != 0 ||
	    fill(scheduler, &scheduler->verification, &verification_at, err) != 0)
		return -1;
	*next_at = sync_at < verification_at ? sync_at : verification_at;
	return 0;
}

static void set_capacity(struct lane *lane, uint64_t capacity)
{
	if (lane->capacity != capacity)
		pool_set_capacity(lane->pool, capacity > 0 ? (size_t)capacity : 1);
	lane->capacity = (size_t)capacity;
}

static void obey_settings(struct scheduler *scheduler)
{
	struct pull_settings settings = pull_settings_now(scheduler->pull);

	scheduler->timeout_ms = settings.timeout_ms + GRACE_MS;
	scheduler->reverify_ms = settings.reverify_ms;
	set_capacity(&scheduler->sync, settings.repository_capacity);
	set_capacity(&scheduler->verification, settings.verification_capacity);
}

/* Wall time may be set; so it is only asked for how long, and not for very long. */
static int64_t sleep_until(int64_t next_at)
{
	int64_t ms = LOOK_MOST_MS, now = clock_wall_ms();

	if (next_at < now + LOOK_LEAST_MS)
		ms = LOOK_LEAST_MS;
	else if (next_at < now + LOOK_MOST_MS)
		ms = next_at - now;
	return clock_boot_ms() + ms;
}

static void wait_for_work(struct pull *pull, int64_t until)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	while (!pull->woken && !pull->stopping)
		if (!cond_wait_until(&pull->changed, &pull->mutex, until))
			break;
}

/* What is said from now on is another reason to look. */
static void begin_look(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->woken = false;
}

static void upkeep_work(void *arg)
{
	const struct pull *pull = arg;

	trash_expire(pull->options.root);
}

/* Deleting may take long, but nobody waits for it. */
static void begin_upkeep(struct pull *pull)
{
	int64_t now = clock_boot_ms();

	if (now < pull->upkeep_at)
		return;
	pull->upkeep_at = now + UPKEEP_MS;
	pool_submit(pull->verify_pool, upkeep_work, pull);
}

static int64_t longer(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* No verification is due late where none is asked for: those that were put off meanwhile
 * are left alone. */
static struct registry_delays longest_delays(const struct scheduler *scheduler)
{
	int64_t retry_ms =
		1000 * retry_delay(UINT64_MAX, RETRY_CAP_MISSING, RETRY_ROLLS - 1);
	int64_t sync_ms = longer(retry_ms, scheduler->timeout_ms);

	return (struct registry_delays){
		.sync_ms = sync_ms,
		.verification_ms = scheduler->reverify_ms > 0
					   ? longer(sync_ms, scheduler->reverify_ms)
					   : INT64_MAX / 2,
	};
}

/* At the start, and when the clock was set back. */
static int heal_due(struct scheduler *scheduler, struct err *err)
{
	struct registry_delays longest = longest_delays(scheduler);
	int64_t healed;

	if (!clock_was_set_back(&scheduler->clock_lead_ms, clock_wall_ms(),
				clock_boot_ms()))
		return 0;
	if (registry_heal_due(scheduler->pull->options.store, &longest, &healed, err) !=
	    0) {
		scheduler->clock_lead_ms = INT64_MAX; /* again */
		return -1;
	}
	if (healed > 0)
		log_warn("scheduler.clock_set_back", LOG_NUMBER("rows", healed));
	return 0;
}

static void step(struct scheduler *scheduler)
{
	int64_t next_at = 0;
	struct err err;

	begin_look(scheduler->pull);
	obey_settings(scheduler);
	begin_upkeep(scheduler->pull);
	if (heal_due(scheduler, &err) == 0 && fill_both(scheduler, &next_at, &err) == 0) {
		scheduler->is_broken = false;
		wait_for_work(scheduler->pull, sleep_until(next_at));
		return;
	}
	if (!scheduler->is_broken)
		log_error("scheduler.failed", LOG_ERR(&err));
	scheduler->is_broken = true;
	stop_wait(&scheduler->pull->stop, LOOK_LEAST_MS);
}

void *scheduler_run(void *arg)
{
	struct pull *pull = arg;
	struct scheduler scheduler = {
		.pull = pull,
		.clock_lead_ms = INT64_MAX,
		.sync = { .pool = pull->sync_pool,
			  .running = &pull->state.syncing,
			  .capacity = (size_t)pull->options.settings.repository_capacity,
			  .work = sync_row_work,
			  .claimed = "sync.claimed",
			  .claim = registry_claim },
		.verification = { .pool = pull->verify_pool,
				  .running = &pull->state.verifying,
				  .capacity = (size_t)pull->options.settings
						      .verification_capacity,
				  .work = verify_row_work,
				  .claimed = "verify.claimed",
				  .claim = registry_claim_verification },
	};

	while (site_lease_hold(pull, "scheduler", &scheduler.lease))
		step(&scheduler);
	lease_release(scheduler.lease);
	return NULL;
}
