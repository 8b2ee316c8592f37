/*
 * The dispatcher knows what is at work by its id; a row stays due until its result is
 * written, so that a crash costs nothing but the work.
 *
 * Kinds take turns: a repository is a piece of work, ten blobs of one kind are one. What
 * was never verified before goes before the rest of its kind; and where there are blobs,
 * one thread is kept free of the slow work (repositories, and what is only read again),
 * so that a new blob's checksum does not wait for it.
 *
 * A repository that somebody met damage of waits for none of them: it has a thread of its
 * own beside the others, one at a time, which does not rest.
 */
#include "verify/verify_origin.h"

#include <assert.h>

#include "base/clock.h"
#include "base/log.h"
#include "replicable/name.h"
#include "verify/verify_origin_parts.h"

/* A worker rests for so many times of what its work took. */
#define REST 3
#define REST_MAX_MS ((int64_t)10 * 60 * 1000)
/* After what was never read before, for a share of it: secondaries wait for it. */
#define REST_NEW_SHARE 4

struct task {
	struct verify_origin *verify;
	struct verify_lane *lane;
	bool is_slow;
	bool is_look;
	size_t count;
	uint64_t ids[VERIFY_BLOBS_MAX];
	char *names[VERIFY_BLOBS_MAX]; /* owned */
};

static void forget_busy_locked(struct verify_origin *verify, uint64_t id)
{
	for (size_t i = 0; i < verify->busy.count; i++) {
		if (verify->busy.items[i] != id)
			continue;
		verify->busy.items[i] = verify->busy.items[--verify->busy.count];
		return;
	}
}

static void verify_origin_rest(struct verify_origin *verify, const struct task *task,
			       int64_t took_ms)
{
	int64_t ms = task->is_slow ? REST * took_ms : took_ms / REST_NEW_SHARE;

	stop_wait(&verify->stop, ms < REST_MAX_MS ? ms : REST_MAX_MS);
}

static void forget_task(void *arg)
{
	struct task *task = arg;

	for (size_t i = 0; i < task->count; i++)
		free(task->names[i]);
	free(task);
}

static bool verify_one(struct verify_origin *verify, const struct task *task)
{
	struct log_context before = log_set_context(
		(struct log_context){ .repo = task->names[0], .job = "verify" });
	bool is_done = verify_origin_repository(verify, task->names[0]);

	log_set_context(before);
	return is_done;
}

static bool verify_origin_run_batch(struct verify_origin *verify, const struct task *task)
{
	struct log_context before =
		log_set_context((struct log_context){ .job = "verify" });
	bool is_done = verify_blobs(&(struct blob_batch){ .notice = verify->options.blobs,
							  .kind = task->lane->blob,
							  .names = task->names,
							  .count = task->count,
							  .stop = &verify->stop });

	log_set_context(before);
	return is_done;
}

static void end_work(struct verify_origin *verify, const struct task *task, bool is_done)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);

	for (size_t i = 0; i < task->count; i++)
		forget_busy_locked(verify, task->ids[i]);
	task->lane->is_stale = true;
	if (!is_done && task->lane->blob)
		task->lane->paused_until = clock_boot_ms() + VERIFY_PATIENCE_MS;
}

static void end_doubt(struct verify_origin *verify, struct task *task)
{
	lock(&verify->mutex);
	forget_busy_locked(verify, task->ids[0]);
	task->lane->is_stale = true;
	verify->is_doubt_at_work = false;
	verify->is_woken = true;
	pthread_cond_broadcast(&verify->changed);
	unlock(&verify->mutex);
	forget_task(task);
}

static void work_on_doubt(void *arg)
{
	struct task *task = arg;

	if (task->is_look)
		verify_origin_look_now(task->verify, task->names[0]);
	else
		verify_one(task->verify, task);
	end_doubt(task->verify, task);
}

static void verify_origin_run_task(void *arg)
{
	struct task *task = arg;
	struct verify_origin *verify = task->verify;
	int64_t started = clock_boot_ms();
	bool is_done = task->lane->blob ? verify_origin_run_batch(verify, task)
					: verify_one(verify, task);

	end_work(verify, task, is_done);
	if (!is_done && !task->lane->blob)
		stop_wait(&verify->stop, VERIFY_PATIENCE_MS);
	verify_origin_rest(verify, task, clock_boot_ms() - started);
	lock(&verify->mutex);
	verify->threads--;
	verify->slow -= task->is_slow;
	verify->is_woken = true;
	pthread_cond_broadcast(&verify->changed);
	unlock(&verify->mutex);
	forget_task(task);
}

/* One repository, or some blobs that are all new, or all not. */
static void submit_locked(struct verify_origin *verify, struct verify_lane *lane)
{
	size_t most = lane->blob ? VERIFY_BLOBS_MAX : 1;
	bool is_new = lane->dues.items[lane->at].is_new;
	struct task *task = xcalloc(1, sizeof(*task));

	task->verify = verify;
	task->lane = lane;
	task->is_slow = !lane->blob || !is_new;
	while (lane->at < lane->dues.count && task->count < most &&
	       lane->dues.items[lane->at].is_new == is_new) {
		struct verify_due *due = &lane->dues.items[lane->at++];
		vec_add(&verify->busy, due->id);
		task->ids[task->count] = due->id;
		task->names[task->count++] = TAKE(due->name);
	}
	verify->threads++;
	verify->slow += task->is_slow;
	pool_submit(verify->pool, verify_origin_run_task, task);
}

static bool may_submit_locked(const struct verify_origin *verify,
			      const struct verify_lane *lane)
{
	size_t capacity = verify->options.capacity;
	bool keeps_one = verify->lanes.count > 1 && capacity > 1;

	if (lane->at >= lane->dues.count || verify->threads >= capacity ||
	    lane->paused_until > clock_boot_ms())
		return false;
	bool is_slow = !lane->blob || !lane->dues.items[lane->at].is_new;
	return !is_slow || verify->slow < capacity - keeps_one;
}

/* True: something was. */
static bool submit_next_locked(struct verify_origin *verify)
{
	for (size_t i = 0; i < verify->lanes.count; i++) {
		size_t at = (verify->turn + i) % verify->lanes.count;
		struct verify_lane *lane = &verify->lanes.items[at];
		if (!may_submit_locked(verify, lane))
			continue;
		submit_locked(verify, lane);
		verify->turn = at + 1;
		return true;
	}
	return false;
}

static void submit_doubt(struct verify_origin *verify)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
	struct verify_doubted doubted;
	struct task *task;

	if (verify->is_doubt_at_work || verify->options.capacity == 0 ||
	    !verify_doubt_take_locked(verify, &doubted))
		return;
	task = xcalloc(1, sizeof(*task));
	task->verify = verify;
	task->lane = &verify->lanes.items[0];
	task->is_look = doubted.is_look;
	vec_add(&verify->busy, doubted.id);
	task->ids[0] = doubted.id;
	task->names[0] = doubted.name;
	task->count = 1;
	verify->is_doubt_at_work = true;
	pool_submit(verify->pool, work_on_doubt, task);
}

/* Returns in how many milliseconds to look again; INT64_MAX: the end of a work wakes
 * us. */
static int64_t look_for_work(struct verify_origin *verify)
{
	int64_t wait = INT64_MAX;
	bool is_left = true;

	lock(&verify->mutex);
	size_t capacity = verify->options.capacity;
	bool is_full = verify->threads >= capacity;
	unlock(&verify->mutex);
	pool_set_capacity(verify->pool, capacity + 1);
	submit_doubt(verify);
	if (is_full)
		return INT64_MAX;
	while (is_left) {
		wait = INT64_MAX;
		for (size_t i = 0; i < verify->lanes.count; i++) {
			int64_t next = verify_lane_fill(verify, &verify->lanes.items[i]);
			if (next > 0 && next < wait)
				wait = next;
		}
		AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
		is_left = submit_next_locked(verify);
	}
	return wait;
}

static void *dispatch(void *arg)
{
	struct verify_origin *verify = arg;

	while (!stop_is_requested(&verify->stop)) {
		verify_origin_heal(verify);
		int64_t wait = look_for_work(verify);
		int64_t until = wait == INT64_MAX ? wait : clock_boot_ms() + wait;
		AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);
		bool in_time = true;
		while (in_time && !verify->is_woken && !stop_is_requested(&verify->stop))
			in_time =
				cond_wait_until(&verify->changed, &verify->mutex, until);
		verify->is_woken = false;
	}
	return NULL;
}

static void add_lanes(struct verify_origin *verify)
{
	const struct blob_kinds *kinds = verify->options.kinds;
	struct verify_lane repositories = { .kind = KIND_REPOSITORY };

	vec_add(&verify->lanes, repositories);
	for (size_t i = 0; verify->options.blobs && i < kinds->items.count; i++) {
		const struct blob_kind *kind = &kinds->items.items[i];
		struct verify_lane lane = { .kind = kind->type, .blob = kind };
		vec_add(&verify->lanes, lane);
	}
}

struct verify_origin *verify_origin_start(const struct verify_origin_options *options)
{
	struct verify_origin *verify = xcalloc(1, sizeof(*verify));

	mutex_init(&verify->mutex);
	cond_init(&verify->changed);
	stop_init(&verify->stop);
	verify->options = *options;
	verify->clock_lead_ms = INT64_MAX;
	verify->root = xstrdup(options->root);
	add_lanes(verify);
	verify->pool = pool_start("verify", options->capacity + 1);
	thread_start(&verify->dispatcher, "verify-origin", dispatch, verify);
	return verify;
}

void verify_origin_wake(struct verify_origin *verify)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&verify->mutex);

	for (size_t i = 0; i < verify->lanes.count; i++)
		verify->lanes.items[i].is_stale = true;
	verify->is_woken = true;
	pthread_cond_broadcast(&verify->changed);
}

void verify_origin_set(struct verify_origin *verify, size_t capacity, int64_t reverify_ms)
{
	lock(&verify->mutex);
	verify->options.capacity = capacity;
	verify->options.reverify_ms = reverify_ms;
	unlock(&verify->mutex);
	verify_origin_wake(verify);
}

void verify_origin_stop(struct verify_origin *verify)
{
	if (!verify)
		return;
	stop_request(&verify->stop);
	verify_origin_wake(verify);
	thread_join(verify->dispatcher);
	pool_stop(TAKE(verify->pool), forget_task);
}

void verify_origin_free(struct verify_origin *verify)
{
	if (!verify)
		return;
	assert(!verify->pool);
	verify_doubts_clear(verify);
	for (size_t i = 0; i < verify->lanes.count; i++)
		verify_lane_clear(&verify->lanes.items[i]);
	vec_clear(&verify->lanes);
	vec_clear(&verify->busy);
	stop_clear(&verify->stop);
	pthread_cond_destroy(&verify->changed);
	pthread_mutex_destroy(&verify->mutex);
	free(verify->root);
	free(verify);
}
