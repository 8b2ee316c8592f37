#include "job/pool.h"

#include <assert.h>
#include <sys/queue.h>

#include "base/thread.h"
#include "base/vec.h"

struct task {
	TAILQ_ENTRY(task) link;
	pool_work work;
	void *arg;
};

TAILQ_HEAD(task_queue, task);

struct pool {
	pthread_mutex_t mutex;
	pthread_cond_t
		work; /* queued, which is one thread's; for all: capacity, stopping */
	pthread_cond_t idle;     /* nothing queued or running */
	struct task_queue queue; /* guarded by mutex */
	size_t capacity;         /* guarded by mutex; threads that should be */
	size_t threads;          /* guarded by mutex; threads that are */
	size_t running;          /* guarded by mutex; threads at work */
	bool stopping;           /* guarded by mutex */
	VEC(pthread_t) handles;  /* guarded by mutex; every thread ever started */
	char name[12];
};

/* The next task, or NULL when this thread is one too many. */
static struct task *pool_take_task_locked(struct pool *pool)
{
	for (;;) {
		struct task *task = TAILQ_FIRST(&pool->queue);
		if (pool->threads > pool->capacity || (pool->stopping && !task))
			return NULL;
		if (task) {
			TAILQ_REMOVE(&pool->queue, task, link);
			return task;
		}
		cond_wait_until(&pool->work, &pool->mutex, INT64_MAX);
	}
}

static bool pool_is_idle_locked(const struct pool *pool)
{
	return TAILQ_EMPTY(&pool->queue) && pool->running == 0;
}

static void *pool_run_worker(void *arg)
{
	struct pool *pool = arg;
	struct task *task;

	lock(&pool->mutex);
	while ((task = pool_take_task_locked(pool)) != NULL) {
		pool->running++;
		unlock(&pool->mutex);
		task->work(task->arg);
		free(task);
		lock(&pool->mutex);
		pool->running--;
		if (pool_is_idle_locked(pool))
			pthread_cond_broadcast(&pool->idle);
	}
	pool->threads--;
	unlock(&pool->mutex);
	return NULL;
}

static void start_threads_locked(struct pool *pool)
{
	while (pool->threads < pool->capacity) {
		pthread_t handle;
		thread_start(&handle, pool->name, pool_run_worker, pool);
		vec_add(&pool->handles, handle);
		pool->threads++;
	}
}

struct pool *pool_start(const char *name, size_t capacity)
{
	struct pool *pool = xcalloc(1, sizeof(*pool));

	assert(capacity > 0 && strlen(name) < sizeof(pool->name));
	mutex_init(&pool->mutex);
	cond_init(&pool->work);
	cond_init(&pool->idle);
	TAILQ_INIT(&pool->queue);
	memcpy(pool->name, name, strlen(name) + 1);
	pool_set_capacity(pool, capacity);
	return pool;
}

void pool_submit(struct pool *pool, pool_work work, void *arg)
{
	struct task *task = xmalloc(sizeof(*task));
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pool->mutex);

	assert(!pool->stopping);
	task->work = work;
	task->arg = arg;
	TAILQ_INSERT_TAIL(&pool->queue, task, link);
	pthread_cond_signal(&pool->work);
}

void pool_set_capacity(struct pool *pool, size_t capacity)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pool->mutex);

	pool->capacity = capacity;
	start_threads_locked(pool);
	pthread_cond_broadcast(&pool->work);
}

void pool_drain(struct pool *pool)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pool->mutex);

	while (!pool_is_idle_locked(pool))
		cond_wait_until(&pool->idle, &pool->mutex, INT64_MAX);
}

static void forget_tasks(struct task_queue *tasks, pool_work forget)
{
	struct task *task;

	while ((task = TAILQ_FIRST(tasks)) != NULL) {
		TAILQ_REMOVE(tasks, task, link);
		if (forget)
			forget(task->arg);
		free(task);
	}
}

void pool_stop(struct pool *pool, pool_work forget)
{
	struct task_queue dropped = TAILQ_HEAD_INITIALIZER(dropped);

	if (!pool)
		return;
	lock(&pool->mutex);
	pool->stopping = true;
	TAILQ_CONCAT(&dropped, &pool->queue, link);
	pthread_cond_broadcast(&pool->work);
	pthread_cond_broadcast(&pool->idle);
	unlock(&pool->mutex);
	forget_tasks(&dropped, forget); /* it may write rows */
	for (size_t i = 0; i < pool->handles.count; i++)
		thread_join(pool->handles.items[i]);
	vec_clear(&pool->handles);
	pthread_cond_destroy(&pool->work);
	pthread_cond_destroy(&pool->idle);
	pthread_mutex_destroy(&pool->mutex);
	free(pool);
}
