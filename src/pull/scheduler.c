/*
 * The scheduler: due rows to workers, in three lanes (lane.c): repositories, blobs, and
 * the verification of both. It sleeps until somebody says that rows have changed, a
 * worker is free, or the next row is due.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/retry.h"
#include "blob/incoming.h"
#include "pull/lane.h"
#include "replicable/name.h"
#include "upkeep/trash.h"

#define LOOK_LEAST_MS 100
#define LOOK_MOST_MS 60000
#define UPKEEP_MS ((int64_t)24 * 3600 * 1000)
/* Work ends by its timeout, and then says so; a row of which nothing is heard even then
 * is anybody's. */
#define GRACE_MS 60000
#define BLOBS_A_JOB 128
#define VERIFICATIONS_A_JOB 10

struct scheduler {
	struct pull *pull;
	struct lease *lease;
	struct lane repositories, blobs, verification;
	int64_t timeout_ms, reverify_ms;
	int64_t clock_lead_ms; /* clock_was_set_back() */
	bool is_broken;        /* told in the log */
};

static void set_due(struct lane *lane, const char *kind, int64_t due_at)
{
	for (size_t i = 0; i < lane->queues.count; i++)
		if (strcmp(lane->queues.items[i].kind, kind) == 0)
			lane->queues.items[i].due_at = due_at;
}

static int look_at_kinds(struct scheduler *scheduler, struct err *err)
{
	for (size_t i = 0; i < scheduler->verification.queues.count; i++) {
		const char *kind = scheduler->verification.queues.items[i].kind;
		int64_t sync_at, verification_at;
		if (registry_next_due(scheduler->pull->options.store, kind, &sync_at,
				      &verification_at, err) != 0)
			return -1;
		set_due(&scheduler->repositories, kind, sync_at);
		set_due(&scheduler->blobs, kind, sync_at);
		set_due(&scheduler->verification, kind, verification_at);
	}
	return 0;
}

/* When to look again at the latest, wall ms. */
static int scheduler_fill_lanes(struct scheduler *scheduler, int64_t *next_at,
				struct err *err)
{
	struct lane *lanes[] = { &scheduler->repositories, &scheduler->blobs,
				 &scheduler->verification };

	*next_at = INT64_MAX;
	if (look_at_kinds(scheduler, err) != 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(lanes); i++) {
		int64_t at;
		if (lane_fill(lanes[i], scheduler->timeout_ms, &at, err) != 0)
			return -1;
		if (at < *next_at)
			*next_at = at;
	}
	return 0;
}

static void obey_settings(struct scheduler *scheduler)
{
	struct pull_settings settings = pull_settings_now(scheduler->pull);

	scheduler->timeout_ms = settings.timeout_ms + GRACE_MS;
	scheduler->reverify_ms = settings.reverify_ms;
	lane_set_capacity(&scheduler->repositories, settings.repository_capacity);
	lane_set_capacity(&scheduler->blobs, settings.blob_capacity);
	lane_set_capacity(&scheduler->verification, settings.verification_capacity);
}

/* Wall time may be set; so it is only asked for how long, and not for very long. */
static int64_t scheduler_sleep_until(int64_t next_at)
{
	int64_t ms = LOOK_MOST_MS, now = clock_wall_ms();

	if (next_at < now + LOOK_LEAST_MS)
		ms = LOOK_LEAST_MS;
	else if (next_at < now + LOOK_MOST_MS)
		ms = next_at - now;
	return clock_boot_ms() + ms;
}

static void scheduler_wait_for_work(struct pull *pull, int64_t until)
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

static void tidy_blobs(const struct blob_kind *kind)
{
	blob_incoming_expire(kind, BLOB_INCOMING_KEEP_MS);
	trash_expire(kind->path);
}

static void upkeep_work(void *arg)
{
	struct pull_job *job = arg;
	const struct pull_options *options = &job->pull->options;

	trash_expire(options->root);
	for (size_t i = 0; options->kinds && i < options->kinds->items.count; i++)
		tidy_blobs(&options->kinds->items.items[i]);
	free(job);
}

/* Deleting may take long, but nobody waits for it. */
static void begin_upkeep(struct pull *pull)
{
	int64_t now = clock_boot_ms();
	struct pull_job *job;

	if (now < pull->upkeep_at)
		return;
	pull->upkeep_at = now + UPKEEP_MS;
	job = xcalloc(1, sizeof(*job));
	*job = (struct pull_job){ .pull = pull, .work = upkeep_work, .forget = free };
	pool_submit(pull->verify_pool, pull_job_run, job);
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
static int scheduler_heal_due(struct scheduler *scheduler, struct err *err)
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

static void scheduler_run_step(struct scheduler *scheduler)
{
	int64_t next_at = 0;
	struct err err;

	begin_look(scheduler->pull);
	obey_settings(scheduler);
	begin_upkeep(scheduler->pull);
	if (scheduler_heal_due(scheduler, &err) == 0 &&
	    pull_give_back_now(scheduler->pull, &err) == 0 &&
	    scheduler_fill_lanes(scheduler, &next_at, &err) == 0) {
		scheduler->is_broken = false;
		scheduler_wait_for_work(scheduler->pull, scheduler_sleep_until(next_at));
		return;
	}
	if (!scheduler->is_broken)
		log_error("scheduler.failed", LOG_ERR(&err));
	scheduler->is_broken = true;
	stop_wait(&scheduler->pull->stop, LOOK_LEAST_MS);
}

static void add_queues(struct lane *lane, const struct blob_kinds *kinds)
{
	for (size_t i = 0; kinds && i < kinds->items.count; i++) {
		const struct blob_kind *kind = &kinds->items.items[i];
		vec_add(&lane->queues,
			((struct lane_queue){ .kind = kind->type, .blob = kind }));
	}
}

static void open_lanes(struct scheduler *scheduler)
{
	struct pull *pull = scheduler->pull;
	const struct lane_queue repositories = { .kind = KIND_REPOSITORY };

	scheduler->repositories = (struct lane){ .pull = pull,
						 .pool = pull->sync_pool,
						 .running = &pull->state.syncing,
						 .claimed = "sync.claimed",
						 .claim = registry_claim,
						 .work = sync_row_work,
						 .forget = sync_row_forget };
	scheduler->blobs = (struct lane){ .pull = pull,
					  .pool = pull->blob_pool,
					  .running = &pull->state.blobbing,
					  .claimed = "blob.claimed",
					  .claim = registry_claim,
					  .blobs_work = blob_job_work,
					  .blobs_forget = blob_job_forget,
					  .blobs_a_job = BLOBS_A_JOB,
					  .sorts_by_size = true };
	scheduler->verification = (struct lane){ .pull = pull,
						 .pool = pull->verify_pool,
						 .running = &pull->state.verifying,
						 .claimed = "verify.claimed",
						 .claim = registry_claim_verification,
						 .work = verify_row_work,
						 .forget = verify_row_forget,
						 .blobs_work = blob_verify_work,
						 .blobs_forget = blob_verify_forget,
						 .blobs_a_job = VERIFICATIONS_A_JOB };
	vec_add(&scheduler->repositories.queues, repositories);
	vec_add(&scheduler->verification.queues, repositories);
	add_queues(&scheduler->blobs, pull->options.kinds);
	add_queues(&scheduler->verification, pull->options.kinds);
}

void *scheduler_run(void *arg)
{
	struct scheduler scheduler = { .pull = arg, .clock_lead_ms = INT64_MAX };

	open_lanes(&scheduler);
	while (site_lease_hold(scheduler.pull, "scheduler", &scheduler.lease))
		scheduler_run_step(&scheduler);
	lane_clear(&scheduler.repositories);
	lane_clear(&scheduler.blobs);
	lane_clear(&scheduler.verification);
	lease_release(scheduler.lease);
	return NULL;
}
