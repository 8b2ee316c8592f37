#include "web/workers.h"

#include "base/thread.h"
#include "base/vec.h"

struct workers {
	pthread_mutex_t mutex;
	pthread_cond_t changed, settled;
	TAILQ_HEAD(, work) queue; /* guarded by mutex, as those below */
	size_t queued, idle;
	VEC(pthread_t) threads;
	bool is_closed, is_stopping;
};

static struct work *workers_next_locked(struct workers *workers)
{
	struct work *work;

	workers->idle++;
	if (workers->idle == workers->threads.count)
		pthread_cond_broadcast(&workers->settled);
	while (TAILQ_EMPTY(&workers->queue) && !workers->is_stopping)
		cond_wait_until(&workers->changed, &workers->mutex, INT64_MAX);
	work = TAILQ_FIRST(&workers->queue);
	if (!work)
		return NULL;
	TAILQ_REMOVE(&workers->queue, work, entry);
	workers->queued--;
	workers->idle--;
	return work;
}

static void *workers_run_thread(void *arg)
{
	struct workers *workers = arg;
	struct work *work;

	lock(&workers->mutex);
	while ((work = workers_next_locked(workers))) {
		unlock(&workers->mutex);
		work->run(work);
		lock(&workers->mutex);
	}
	unlock(&workers->mutex);
	return NULL;
}

struct workers *workers_start(void)
{
	struct workers *workers = xcalloc(1, sizeof(*workers));

	mutex_init(&workers->mutex);
	cond_init(&workers->changed);
	cond_init(&workers->settled);
	TAILQ_INIT(&workers->queue);
	return workers;
}

/* It counts as idle when it comes to the queue. */
static void add_thread_locked(struct workers *workers)
{
	pthread_t thread;

	thread_start(&thread, "http-worker", workers_run_thread, workers);
	vec_add(&workers->threads, thread);
}

bool workers_add(struct workers *workers, struct work *work)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&workers->mutex);

	if (workers->is_closed)
		return false;
	TAILQ_INSERT_TAIL(&workers->queue, work, entry);
	workers->queued++;
	if (workers->queued > workers->idle)
		add_thread_locked(workers);
	pthread_cond_signal(&workers->changed);
	return true;
}

void workers_close(struct workers *workers)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&workers->mutex);

	workers->is_closed = true;
	while (workers->queued > 0 || workers->idle < workers->threads.count)
		cond_wait_until(&workers->settled, held, INT64_MAX);
}

void workers_stop(struct workers *workers)
{
	workers_close(workers);
	lock(&workers->mutex);
	workers->is_stopping = true;
	pthread_cond_broadcast(&workers->changed);
	unlock(&workers->mutex);
	for (size_t i = 0; i < workers->threads.count; i++)
		thread_join(workers->threads.items[i]);
	vec_clear(&workers->threads);
	pthread_cond_destroy(&workers->changed);
	pthread_cond_destroy(&workers->settled);
	pthread_mutex_destroy(&workers->mutex);
	free(workers);
}
