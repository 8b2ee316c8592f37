/*
 * The scheduler: due rows to workers, in lanes (lane.h): one a sort of workers that
 * bring, and the verification of all. It sleeps until somebody says that rows have
 * changed, a worker is free, or the next row is due.
 */
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/retry.h"
#include "mirror/heal.h"
#include "pull/lane.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"

/*
 * A repository that is pushed to again and again is synced at once a number of times,
 * then at intervals, so that each sync brings many changes. The generic cell rate
 * algorithm: of each repository one number is kept, the time at which it would be due if
 * it had kept to the intervals from the first. Two that share a place share their number;
 * that costs a moment and nothing else.
 */

#define INTERVAL_MS 250
#define AT_ONCE 20

void pace_take(struct pull *pull, uint64_t id)
{
	int64_t now = clock_boot_ms();
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	int64_t *at = &pull->paces[id % ARRAY_SIZE(pull->paces)];

	*at = (*at > now ? *at : now) + INTERVAL_MS;
}

int64_t pace_delay_ms(struct pull *pull, uint64_t id)
{
	int64_t now = clock_boot_ms();
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	int64_t from = pull->paces[id % ARRAY_SIZE(pull->paces)] -
		       (int64_t)AT_ONCE * INTERVAL_MS;

	return from > now ? from - now : 0;
}

/*
 * What is claimed runs at once, and what is due first is chosen last: so no more rows are
 * claimed than there are free workers. But a claim is a transaction, and small blobs are
 * brought many in one request: of a kind whose last claim had only such, many are
 * claimed for one worker. Large ones among them wait here, and go first.
 */

#define LOOK_AGAIN_MS 100
#define FILL_MOST_MS 1000
#define JOB_BYTES ((uint64_t)16 << 20)

static size_t free_workers(const struct lane *lane)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&lane->pull->mutex);

	return lane->capacity > *lane->running ? lane->capacity - *lane->running : 0;
}

static void submit(struct lane *lane, struct pull_job *job)
{
	lock(&lane->pull->mutex);
	(*lane->running)++;
	unlock(&lane->pull->mutex);
	pool_submit(lane->pool, pull_job_run, job);
}

static struct pull_job *new_job(const struct lane *lane, const struct lane_queue *queue)
{
	struct pull_job *job = xcalloc(1, sizeof(*job));

	job->pull = lane->pull;
	job->kind = queue->kind;
	job->is_verification = lane->is_verification;
	job->running = lane->running;
	job->claimed_at = queue->claimed_at;
	return job;
}

/* How many rows one worker is given. */
static size_t rows_most(const struct lane *lane, const struct lane_queue *queue)
{
	return lane->is_verification ? queue->kind.copies->verify_most
				     : queue->kind.copies->bring_most;
}

static bool sorts_by_size(const struct lane *lane, const struct lane_queue *queue)
{
	return !lane->is_verification && queue->kind.copies->small_most > 0;
}

static bool is_large(const struct lane *lane, const struct lane_queue *queue,
		     const struct registry_row *row)
{
	return sorts_by_size(lane, queue) && row->size > queue->kind.copies->small_most &&
	       !row->is_gone;
}

/* What the next claim's sizes are likely to be. Jobs of few bytes keep the network and
 * the disk at work side by side: one is brought while another is flushed. */
static size_t many_of(const struct lane *lane, const struct lane_queue *queue,
		      const registry_rows *rows)
{
	uint64_t bytes = 1;

	for (size_t i = 0; i < rows->count; i++) {
		if (is_large(lane, queue, &rows->items[i]))
			return 0;
		bytes += rows->items[i].size;
	}
	uint64_t many = JOB_BYTES * rows->count / bytes;
	return many < rows_most(lane, queue) ? (size_t)many : rows_most(lane, queue);
}

/* Takes the rows with all that they own. */
static void submit_rows(struct lane *lane, struct lane_queue *queue, registry_rows *rows)
{
	struct pull_job *job = NULL;

	queue->many = many_of(lane, queue, rows);
	for (size_t i = 0; i < rows->count; i++) {
		struct registry_row *row = &rows->items[i];
		if (is_large(lane, queue, row)) {
			struct pull_job *large = new_job(lane, queue);
			vec_add(&large->rows, *row);
			vec_add(&lane->waiting, large);
			continue;
		}
		if (!job)
			job = new_job(lane, queue);
		vec_add(&job->rows, *row);
		if (job->rows.count == rows_most(lane, queue))
			submit(lane, TAKE(job));
	}
	if (job)
		submit(lane, job);
}

static void start_waiting(struct lane *lane)
{
	size_t count = free_workers(lane);

	if (count > lane->waiting.count)
		count = lane->waiting.count;
	for (size_t i = 0; i < count; i++)
		submit(lane, lane->waiting.items[i]);
	lane->waiting.count -= count;
	if (count > 0)
		memmove(lane->waiting.items, lane->waiting.items + count,
			lane->waiting.count * sizeof(*lane->waiting.items));
}

static size_t count_due(const struct lane *lane, int64_t now)
{
	size_t count = 0;

	for (size_t i = 0; i < lane->queues.count; i++)
		count += lane->queues.items[i].due_at <= now;
	return count;
}

/* The next in turn. NULL: nothing is due. */
static struct lane_queue *next_queue(struct lane *lane, int64_t now)
{
	for (size_t i = 0; i < lane->queues.count; i++) {
		size_t at = (lane->turn + i) % lane->queues.count;
		if (lane->queues.items[at].due_at <= now) {
			lane->turn = at + 1;
			return &lane->queues.items[at];
		}
	}
	return NULL;
}

/* How many rows for so many workers, if so many kinds have something due. */
static size_t claim_limit(const struct lane *lane, const struct lane_queue *queue,
			  size_t workers, size_t kinds)
{
	size_t share = workers / kinds > 0 ? workers / kinds : 1;

	if (!sorts_by_size(lane, queue))
		return share * rows_most(lane, queue);
	return queue->many > 0 ? queue->many : workers;
}

static int claim(struct lane *lane, struct lane_queue *queue, size_t limit,
		 int64_t timeout_ms, struct err *err)
{
	registry_rows rows = { 0 };

	queue->claimed_at = clock_boot_ms();
	if (lane->claim(lane->pull->options.store, queue->kind.type, limit, timeout_ms,
			&rows, err) != 0) {
		vec_clear(&rows);
		return -1;
	}
	if (rows.count > 0)
		failpoint(lane->claimed);
	if (rows.count < limit)
		queue->due_at = clock_wall_ms() + LOOK_AGAIN_MS;
	submit_rows(lane, queue, &rows);
	vec_clear(&rows);
	return 0;
}

static int64_t earliest(const struct lane *lane)
{
	int64_t at = INT64_MAX;

	for (size_t i = 0; i < lane->queues.count; i++)
		if (lane->queues.items[i].due_at < at)
			at = lane->queues.items[i].due_at;
	return at;
}

int lane_fill(struct lane *lane, int64_t timeout_ms, int64_t *next_at, struct err *err)
{
	const int64_t now = clock_wall_ms(), until = clock_boot_ms() + FILL_MOST_MS;
	struct lane_queue *queue;
	size_t workers;

	*next_at = INT64_MAX;
	for (;;) {
		start_waiting(lane);
		workers = free_workers(lane);
		if (workers == 0)
			return 0;
		queue = next_queue(lane, now);
		if (!queue)
			break;
		if (claim(lane, queue,
			  claim_limit(lane, queue, workers, count_due(lane, now)),
			  timeout_ms, err) != 0)
			return -1;
		if (clock_boot_ms() >= until)
			break;
	}
	*next_at = earliest(lane);
	return 0;
}

void lane_set_capacity(struct lane *lane, uint64_t capacity)
{
	if (lane->capacity != capacity && lane->pool)
		pool_set_capacity(lane->pool, capacity > 0 ? (size_t)capacity : 1);
	lane->capacity = (size_t)capacity;
}

void lane_clear(struct lane *lane)
{
	for (size_t i = 0; i < lane->waiting.count; i++) {
		lock(&lane->pull->mutex);
		(*lane->running)++; /* its end takes it off again */
		unlock(&lane->pull->mutex);
		pull_job_forget(lane->waiting.items[i]);
	}
	vec_clear(&lane->waiting);
	vec_clear(&lane->queues);
}

#define LOOK_LEAST_MS 100
#define LOOK_MOST_MS 60000
#define BROKEN_MOST_MS 5000
#define UPKEEP_MS ((int64_t)24 * 3600 * 1000)
/* Work ends by its timeout, and then says so; a row of which nothing is heard even then
 * is anybody's. */
#define GRACE_MS 60000

/* One of each sort of workers that bring, and the one that verifies all kinds. */
enum { VERIFICATION = PULL_WORKERS, LANES };

struct scheduler {
	struct pull *pull;
	struct lease *lease;
	struct lane lanes[LANES];
	int64_t timeout_ms, reverify_ms;
	int64_t clock_lead_ms; /* clock_was_set_back() */
	bool is_more_often;    /* verifications than what is due was told */
	struct proofs_ageing proofs;
	int64_t broken_ms;    /* the pause after failures; 0: none since a success */
	int64_t give_back_ms; /* the same of rows that could not be given back, ... */
	int64_t give_back_at; /* ... and its end, boot ms */
};

static void set_due(struct lane *lane, const char *kind, int64_t due_at)
{
	for (size_t i = 0; i < lane->queues.count; i++)
		if (strcmp(lane->queues.items[i].kind.type, kind) == 0)
			lane->queues.items[i].due_at = due_at;
}

static int look_at_kinds(struct scheduler *scheduler, struct err *err)
{
	const struct lane *all = &scheduler->lanes[VERIFICATION];

	for (size_t i = 0; i < all->queues.count; i++) {
		const char *kind = all->queues.items[i].kind.type;
		int64_t sync_at, verification_at;
		if (registry_next_due(scheduler->pull->options.store, kind, &sync_at,
				      &verification_at, err) != 0)
			return -1;
		for (size_t j = 0; j < LANES; j++)
			set_due(&scheduler->lanes[j], kind,
				j == VERIFICATION ? verification_at : sync_at);
	}
	return 0;
}

/* When to look again at the latest, wall ms. */
static int scheduler_fill_lanes(struct scheduler *scheduler, int64_t *next_at,
				struct err *err)
{
	*next_at = INT64_MAX;
	if (look_at_kinds(scheduler, err) != 0)
		return -1;
	for (size_t i = 0; i < LANES; i++) {
		int64_t at;
		if (lane_fill(&scheduler->lanes[i], scheduler->timeout_ms, &at, err) != 0)
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
	scheduler->is_more_often |= settings.reverify_ms < scheduler->reverify_ms;
	scheduler->reverify_ms = settings.reverify_ms;
	for (size_t i = 0; i < PULL_WORKERS; i++)
		lane_set_capacity(&scheduler->lanes[i],
				  pull_capacity(&settings, (enum pull_workers)i));
	lane_set_capacity(&scheduler->lanes[VERIFICATION],
			  settings.verification_capacity);
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
		if (!cond_wait_until(&pull->work, &pull->mutex, until))
			break;
}

/* What is said from now on is another reason to look. */
static void begin_look(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	pull->woken = false;
}

/* Deleting may take long, but nobody waits for it. */
static void begin_upkeep(struct pull *pull)
{
	int64_t now = clock_boot_ms();
	struct pull_job *job;

	if (now < pull->upkeep_at || !pull->verify_pool)
		return;
	pull->upkeep_at = now + UPKEEP_MS;
	job = xcalloc(1, sizeof(*job));
	job->pull = pull;
	pool_submit(pull->verify_pool, pull_job_run, job);
}

/* No verification is due late where none is asked for: those that were put off meanwhile
 * are left alone. */
static struct registry_delays longest_delays(const struct scheduler *scheduler)
{
	int64_t retry_ms =
		1000 * retry_delay(UINT64_MAX, RETRY_CAP_MISSING, RETRY_ROLLS - 1);
	int64_t sync_ms = int64_max(retry_ms, scheduler->timeout_ms);

	return (struct registry_delays){
		.sync_ms = sync_ms,
		.verification_ms = scheduler->reverify_ms > 0
					   ? int64_max(sync_ms, scheduler->reverify_ms)
					   : INT64_MAX / 2,
	};
}

/* At the start, when the clock was set back, and when verifications shall be more often.
 */
static int scheduler_heal_due(struct scheduler *scheduler, struct err *err)
{
	struct store *store = scheduler->pull->options.store;
	struct registry_delays longest = longest_delays(scheduler);
	int64_t healed, healed_of_mirrors;

	if (!clock_was_set_back(&scheduler->clock_lead_ms, clock_wall_ms(),
				clock_boot_ms())) {
		if (!scheduler->is_more_often)
			return 0;
		longest.sync_ms = INT64_MAX / 2; /* a host may have asked for a rest */
	}
	if (registry_heal_due(store, &longest, &healed, err) != 0 ||
	    mirror_heal_due(store, longest.sync_ms, &healed_of_mirrors, err) != 0) {
		scheduler->clock_lead_ms = INT64_MAX; /* again */
		return -1;
	}
	scheduler->is_more_often = false;
	healed += healed_of_mirrors;
	if (healed > 0)
		log_warn("scheduler.clock_set_back", LOG_NUMBER("rows", healed));
	return 0;
}

/* A mirror is judged by when its upstream was asked. */
static int scheduler_age_proofs(struct scheduler *scheduler, struct err *err)
{
	const struct lane *all = &scheduler->lanes[VERIFICATION];
	int64_t aged, sum = 0;

	if (!proofs_are_to_age(scheduler->reverify_ms, &scheduler->proofs))
		return 0;
	for (size_t i = 0; i < all->queues.count; i++) {
		const char *kind = all->queues.items[i].kind.type;
		if (strcmp(kind, KIND_MIRROR) == 0)
			continue;
		if (registry_age_proofs(scheduler->pull->options.store, kind,
					&scheduler->proofs, &aged, err) != 0) {
			proofs_age_again(&scheduler->proofs);
			return -1;
		}
		sum += aged;
	}
	if (sum > 0)
		log_warn("verify.overdue", LOG_NUMBER("rows", sum));
	return 0;
}

static int64_t scheduler_lengthen(int64_t pause_ms)
{
	return pause_ms == 0 ? LOOK_LEAST_MS : int64_min(2 * pause_ms, BROKEN_MOST_MS);
}

static void scheduler_note_broken(int64_t *pause_ms, const struct err *err)
{
	if (*pause_ms == 0)
		log_error("scheduler.failed", LOG_ERR(err));
	*pause_ms = scheduler_lengthen(*pause_ms);
	failpoint("scheduler.failed");
}

/* One row that fails, as on a damaged page, must not keep others from being claimed. */
static void scheduler_give_back(struct scheduler *scheduler)
{
	struct err err;

	if (clock_boot_ms() < scheduler->give_back_at)
		return;
	if (pull_give_back_now(scheduler->pull, &err) == 0) {
		scheduler->give_back_ms = scheduler->give_back_at = 0;
		return;
	}
	scheduler_note_broken(&scheduler->give_back_ms, &err);
	scheduler->give_back_at = clock_boot_ms() + scheduler->give_back_ms;
}

static void scheduler_run_step(struct scheduler *scheduler)
{
	int64_t next_at = 0;
	struct err err;

	begin_look(scheduler->pull);
	obey_settings(scheduler);
	begin_upkeep(scheduler->pull);
	scheduler_give_back(scheduler);
	if (scheduler_heal_due(scheduler, &err) != 0 ||
	    scheduler_age_proofs(scheduler, &err) != 0 ||
	    scheduler_fill_lanes(scheduler, &next_at, &err) != 0) {
		scheduler_note_broken(&scheduler->broken_ms, &err);
		stop_wait(&scheduler->pull->stop, scheduler->broken_ms);
		return;
	}
	int64_t until = scheduler_sleep_until(next_at);
	if (scheduler->give_back_at > 0)
		until = int64_min(until, scheduler->give_back_at);
	scheduler->broken_ms = 0;
	scheduler_wait_for_work(scheduler->pull, until);
}

static void open_lanes(struct scheduler *scheduler)
{
	static const char *const claimed[PULL_WORKERS] = {
		[PULL_SYNC_WORKERS] = "sync.claimed", [PULL_BLOB_WORKERS] = "blob.claimed"
	};
	struct pull *pull = scheduler->pull;
	const struct kind *kind = NULL;

	for (size_t i = 0; i < PULL_WORKERS; i++)
		scheduler->lanes[i] = (struct lane){ .pull = pull,
						     .pool = pull->pools[i],
						     .running = &pull->state.bringing[i],
						     .claimed = claimed[i],
						     .claim = registry_claim };
	scheduler->lanes[VERIFICATION] =
		(struct lane){ .pull = pull,
			       .pool = pull->verify_pool,
			       .running = &pull->state.verifying,
			       .claimed = "verify.claimed",
			       .is_verification = true,
			       .claim = registry_claim_verification };
	while ((kind = kinds_next_copied(pull->options.here, kind)) != NULL) {
		const struct lane_queue queue = { .kind = *kind };
		vec_add(&scheduler->lanes[kind->copies->workers].queues, queue);
		vec_add(&scheduler->lanes[VERIFICATION].queues, queue);
	}
}

/* One run has rows of its own, that no other node knows of. */
static bool scheduler_may_run(struct scheduler *scheduler)
{
	struct pull *pull = scheduler->pull;

	return pull->options.once ? !stop_is_requested(&pull->stop)
				  : site_lease_hold(pull, "scheduler", &scheduler->lease);
}

void *scheduler_run(void *arg)
{
	struct scheduler scheduler = { .pull = arg, .clock_lead_ms = INT64_MAX };

	open_lanes(&scheduler);
	while (scheduler_may_run(&scheduler))
		scheduler_run_step(&scheduler);
	for (size_t i = 0; i < LANES; i++)
		lane_clear(&scheduler.lanes[i]);
	lease_release(scheduler.lease);
	return NULL;
}
