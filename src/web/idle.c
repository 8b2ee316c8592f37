/*
 * libmicrohttpd has timeouts of its own, but as of 0.9.75 it sleeps in whole seconds and
 * so spins through the last one before each connection ends; nor can it tell a client
 * that is silent from an answer that takes us long. So it is given none.
 *
 * Deadlines of connections only move away, but for one that was held: therefore the
 * thread need not be woken when one moves, unless it sleeps beyond it.
 */
#include "web/idle.h"

#include <sys/queue.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/thread.h"

struct idle_conn {
	TAILQ_ENTRY(idle_conn) entry;
	struct idle_watch *watch;
	int fd;
	int64_t deadline; /* guarded by the watch's mutex; INT64_MAX: held */
};

struct idle_watch {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	pthread_t thread;
	int64_t idle_ms;
	TAILQ_HEAD(, idle_conn) conns; /* guarded by mutex, as those below */
	int64_t wakes_at;
	bool is_stopping;
};

static int64_t close_silent_locked(struct idle_watch *watch)
{
	int64_t now = clock_boot_ms();
	int64_t first = INT64_MAX;
	struct idle_conn *conn;

	TAILQ_FOREACH(conn, &watch->conns, entry)
	{
		if (conn->deadline <= now) {
			shutdown(conn->fd, SHUT_RDWR); /* its own thread sees that */
			conn->deadline = INT64_MAX;
		}
		if (conn->deadline < first)
			first = conn->deadline;
	}
	return first;
}

static void *run(void *arg)
{
	struct idle_watch *watch = arg;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	while (!watch->is_stopping) {
		watch->wakes_at = close_silent_locked(watch);
		cond_wait_until(&watch->changed, held, watch->wakes_at);
	}
	return NULL;
}

struct idle_watch *idle_start(int64_t idle_ms)
{
	struct idle_watch *watch = xcalloc(1, sizeof(*watch));

	watch->idle_ms = idle_ms;
	watch->wakes_at = INT64_MAX;
	TAILQ_INIT(&watch->conns);
	mutex_init(&watch->mutex);
	cond_init(&watch->changed);
	thread_start(&watch->thread, "http-idle", run, watch);
	return watch;
}

void idle_stop(struct idle_watch *watch)
{
	lock(&watch->mutex);
	watch->is_stopping = true;
	pthread_cond_signal(&watch->changed);
	unlock(&watch->mutex);
	thread_join(watch->thread);
	pthread_cond_destroy(&watch->changed);
	pthread_mutex_destroy(&watch->mutex);
	free(watch);
}

static void expect_locked(struct idle_conn *conn)
{
	struct idle_watch *watch = conn->watch;

	conn->deadline = clock_boot_ms() + watch->idle_ms;
	if (conn->deadline < watch->wakes_at)
		pthread_cond_signal(&watch->changed);
}

struct idle_conn *idle_enter(struct idle_watch *watch, int fd)
{
	struct idle_conn *conn = xcalloc(1, sizeof(*conn));
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	conn->watch = watch;
	conn->fd = fd;
	TAILQ_INSERT_TAIL(&watch->conns, conn, entry);
	expect_locked(conn);
	return conn;
}

void idle_leave(struct idle_conn *conn)
{
	lock(&conn->watch->mutex);
	TAILQ_REMOVE(&conn->watch->conns, conn, entry);
	unlock(&conn->watch->mutex);
	free(conn);
}

void idle_expect(struct idle_conn *conn)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&conn->watch->mutex);

	expect_locked(conn);
}

void idle_hold(struct idle_conn *conn)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&conn->watch->mutex);

	conn->deadline = INT64_MAX;
}
