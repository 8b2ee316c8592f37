/*
 * What is claimed runs at once, and what is due first is chosen last: so no more rows are
 * claimed than there are free workers. But a claim is a transaction, and small blobs are
 * brought many in one request: of a kind whose last claim had only such, many are
 * claimed for one worker. Large ones among them wait here, and go first.
 */
#include "pull/lane.h"

#include "base/clock.h"
#include "base/failpoint.h"

#define LOOK_AGAIN_MS 100
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
	job->kind = queue->blob;
	job->claimed_at = queue->claimed_at;
	job->work = queue->blob ? lane->blobs_work : lane->work;
	job->forget = queue->blob ? lane->blobs_forget : lane->forget;
	return job;
}

static void submit_repositories(struct lane *lane, const struct lane_queue *queue,
				registry_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		struct pull_job *job = new_job(lane, queue);
		job->row = rows->items[i]; /* with all that it owns */
		submit(lane, job);
	}
}

static bool is_large(const struct lane *lane, const struct registry_row *row)
{
	return lane->sorts_by_size && row->size > BLOB_SMALL_MOST && !row->is_gone;
}

/* What the next claim's sizes are likely to be. Jobs of few bytes keep the network and
 * the disk at work side by side: one is brought while another is flushed. */
static size_t many_of(const struct lane *lane, const registry_rows *rows)
{
	uint64_t bytes = 1;

	for (size_t i = 0; i < rows->count; i++) {
		if (is_large(lane, &rows->items[i]))
			return 0;
		bytes += rows->items[i].size;
	}
	uint64_t many = JOB_BYTES * rows->count / bytes;
	return many < lane->blobs_a_job ? (size_t)many : lane->blobs_a_job;
}

/* Takes the rows with all that they own. */
static void submit_blobs(struct lane *lane, struct lane_queue *queue, registry_rows *rows)
{
	struct pull_job *job = NULL;

	queue->many = many_of(lane, rows);
	for (size_t i = 0; i < rows->count; i++) {
		struct registry_row *row = &rows->items[i];
		if (is_large(lane, row)) {
			struct pull_job *large = new_job(lane, queue);
			vec_add(&large->rows, *row);
			vec_add(&lane->waiting, large);
			continue;
		}
		if (!job)
			job = new_job(lane, queue);
		vec_add(&job->rows, *row);
		if (job->rows.count == lane->blobs_a_job)
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

	if (!queue->blob)
		return share;
	if (!lane->sorts_by_size)
		return share * lane->blobs_a_job;
	return queue->many > 0 ? queue->many : workers;
}

static int claim(struct lane *lane, struct lane_queue *queue, size_t limit,
		 int64_t timeout_ms, struct err *err)
{
	registry_rows rows = { 0 };

	queue->claimed_at = clock_boot_ms();
	if (lane->claim(lane->pull->options.store, queue->kind, limit, timeout_ms, &rows,
			err) != 0) {
		vec_clear(&rows);
		return -1;
	}
	if (rows.count > 0)
		failpoint(lane->claimed);
	if (rows.count < limit)
		queue->due_at = clock_wall_ms() + LOOK_AGAIN_MS;
	if (queue->blob)
		submit_blobs(lane, queue, &rows);
	else
		submit_repositories(lane, queue, &rows);
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
	const int64_t now = clock_wall_ms();
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
		lane->waiting.items[i]->forget(lane->waiting.items[i]);
	}
	vec_clear(&lane->waiting);
	vec_clear(&lane->queues);
}
