/*
 * libmicrohttpd has timeouts of its own, but as of 0.9.75 it sleeps in whole seconds and
 * so spins through the last one before each connection ends; nor can it tell a client
 * that is silent from an answer that takes us long. So it is given none.
 *
 * Deadlines of connections mostly move away: therefore the thread is not woken when one
 * moves, unless it sleeps beyond it. Who moves one
 * stores it before it looks when the thread wakes; the thread says that it never wakes
 * before it looks at deadlines. So one of them sees the other.
 */
#include "web/idle.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/thread.h"

enum {
	PROGRESS = 64 << 10,
	LINGER_MS = 2000,
	IDLE_LEAST_MS = 1000,    /* who is silent for less has not been idle */
	PRESSED_MS = 5000,       /* for so long a reader's rate is measured ... */
	PRESSED_RATE = 16 << 10, /* ... and must be this, in bytes a second */
	LOOK_MS = 1000, /* how often is looked for clients that have ended their side */
};

struct idle_conn {
	TAILQ_ENTRY(idle_conn) entry;
	struct idle_watch *watch;
	int fd;
	uint64_t
		sent; /* to the client, when it was last looked at; watch's thread only */
	/* Since when its rate is measured, as there are too many; 0: it is not; and what
	 * it had then; watch's thread only */
	int64_t pressed_at;
	uint64_t pressed_sent;
	bool is_cut;              /* watch's thread only */
	_Atomic int64_t deadline; /* INT64_MAX: held */
	_Atomic int64_t turn_at;  /* since when it is the client's turn */
	atomic_bool is_sending;   /* the client, or it should */
	int64_t ended_at; /* the deadline with which it was seen at its end; watch's
			     thread only */
};

struct idle_watch {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	pthread_t thread;
	int64_t idle_ms, head_ms;
	TAILQ_HEAD(, idle_conn) conns; /* guarded by mutex */
	size_t count, most;            /* guarded by mutex; of them; 0: any number */
	bool is_stopping;              /* guarded by mutex */
	bool is_pressed;               /* there are so many; watch's thread only */
	_Atomic int64_t wakes_at;
};

/* Bytes that the other side has acknowledged. */
static uint64_t bytes_sent(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) ? 0
								  : info.tcpi_bytes_acked;
}

/* Whether the client took so much of a long answer meanwhile that it may go on. */
static bool is_taking(struct idle_conn *conn)
{
	uint64_t before = conn->sent;

	conn->sent = bytes_sent(conn->fd);
	return conn->sent - before >= PROGRESS;
}

/* What it has sent may just be on its way to be answered: so it counts from the second
 * time on, if the client's turn was the same one then. */
static bool idle_has_ended(struct idle_conn *conn, int64_t deadline)
{
	char byte;

	if (recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0)
		return false;
	if (conn->ended_at == deadline)
		return true;
	conn->ended_at = deadline;
	return false;
}

/* Returns when to look again at one whose turn it is to send. */
static int64_t idle_check_for_end(struct idle_conn *conn, int64_t deadline, int64_t now)
{
	if (idle_has_ended(conn, deadline) && atomic_load(&conn->is_sending) &&
	    atomic_load(&conn->deadline) == deadline)
		shutdown(conn->fd, SHUT_RDWR);
	return now + LOOK_MS;
}

static void idle_cut_connection(struct idle_conn *conn)
{
	shutdown(conn->fd, SHUT_RDWR); /* the server sees that */
	conn->is_cut = true;
}

/* Whose turn it is to send, for longest. */
static struct idle_conn *longest_silent_locked(struct idle_watch *watch, int64_t now)
{
	struct idle_conn *conn, *longest = NULL;
	int64_t since = now - IDLE_LEAST_MS;

	TAILQ_FOREACH(conn, &watch->conns, entry)
	{
		int64_t turn_at = atomic_load(&conn->turn_at);
		if (conn->is_cut || !atomic_load(&conn->is_sending) || turn_at > since)
			continue;
		longest = conn;
		since = turn_at - 1;
	}
	return longest;
}

/* Whether it takes next to nothing of an answer. */
static bool is_slow_reader(struct idle_conn *conn, int64_t now)
{
	uint64_t sent, least;

	if (conn->is_cut || atomic_load(&conn->is_sending) ||
	    atomic_load(&conn->deadline) == INT64_MAX) {
		conn->pressed_at = 0;
		return false;
	}
	if (conn->pressed_at > 0 && now - conn->pressed_at < PRESSED_MS)
		return false;
	sent = bytes_sent(conn->fd);
	least = (uint64_t)(now - conn->pressed_at) * PRESSED_RATE / 1000;
	bool is_slow = conn->pressed_at > 0 && sent - conn->pressed_sent < least;
	conn->pressed_at = now;
	conn->pressed_sent = sent;
	return is_slow;
}

static struct idle_conn *slow_reader_locked(struct idle_watch *watch, int64_t now)
{
	struct idle_conn *conn, *slow = NULL;

	TAILQ_FOREACH(conn, &watch->conns, entry)
	if (is_slow_reader(conn, now))
		slow = conn;
	return slow;
}

static void forget_rates_locked(struct idle_watch *watch)
{
	struct idle_conn *conn;

	TAILQ_FOREACH(conn, &watch->conns, entry)
	conn->pressed_at = 0;
}

static size_t count_uncut_locked(const struct idle_watch *watch)
{
	const struct idle_conn *conn;
	size_t count = 0;

	TAILQ_FOREACH(conn, &watch->conns, entry)
	count += !conn->is_cut;
	return count;
}

/* So that there is room for others: those that are silent first, then one that is slow.
 * Returns when to look again. */
static int64_t idle_make_room_locked(struct idle_watch *watch, int64_t now)
{
	size_t count = watch->most ? count_uncut_locked(watch) : 0;
	struct idle_conn *conn;

	if (watch->most == 0 || count < watch->most) {
		if (watch->is_pressed)
			forget_rates_locked(watch);
		watch->is_pressed = false;
		return INT64_MAX;
	}
	watch->is_pressed = true;
	while (count >= watch->most && (conn = longest_silent_locked(watch, now))) {
		idle_cut_connection(conn);
		count--;
	}
	if (count >= watch->most && (conn = slow_reader_locked(watch, now)))
		idle_cut_connection(conn);
	return now + LOOK_MS;
}

static int64_t close_silent_locked(struct idle_watch *watch)
{
	int64_t now = clock_boot_ms();
	int64_t first = INT64_MAX;
	struct idle_conn *conn;

	atomic_store(&watch->wakes_at, INT64_MAX);
	TAILQ_FOREACH(conn, &watch->conns, entry)
	{
		int64_t deadline = atomic_load(&conn->deadline);
		if (deadline <= now) {
			bool may_go_on = is_taking(conn);
			if (!may_go_on)
				idle_cut_connection(conn);
			int64_t next = may_go_on ? now + watch->idle_ms : INT64_MAX;
			/* If it was moved meanwhile, that counts. */
			if (atomic_compare_exchange_strong(&conn->deadline, &deadline,
							   next))
				deadline = next;
		}
		if (deadline != INT64_MAX && atomic_load(&conn->is_sending))
			deadline = idle_check_for_end(conn, deadline, now);
		if (deadline < first)
			first = deadline;
	}
	int64_t room_at = idle_make_room_locked(watch, now);
	if (room_at < first)
		first = room_at;
	atomic_store(&watch->wakes_at, first);
	return first;
}

static void *idle_run_thread(void *arg)
{
	struct idle_watch *watch = arg;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	while (!watch->is_stopping) {
		int64_t wakes_at = close_silent_locked(watch);
		cond_wait_until(&watch->changed, held, wakes_at);
	}
	return NULL;
}

struct idle_watch *idle_start(int64_t idle_ms, int64_t head_ms, size_t most)
{
	struct idle_watch *watch = xcalloc(1, sizeof(*watch));

	watch->idle_ms = idle_ms;
	watch->most = most;
	watch->head_ms = head_ms < idle_ms ? head_ms : idle_ms;
	atomic_init(&watch->wakes_at, INT64_MAX);
	TAILQ_INIT(&watch->conns);
	mutex_init(&watch->mutex);
	cond_init(&watch->changed);
	thread_start(&watch->thread, "http-idle", idle_run_thread, watch);
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

struct idle_conn *idle_enter(struct idle_watch *watch, int fd)
{
	struct idle_conn *conn = xcalloc(1, sizeof(*conn));

	conn->watch = watch;
	conn->fd = fd;
	atomic_init(&conn->deadline, INT64_MAX);
	atomic_init(&conn->turn_at, INT64_MAX);
	lock(&watch->mutex);
	TAILQ_INSERT_TAIL(&watch->conns, conn, entry);
	if (++watch->count == watch->most)
		pthread_cond_signal(&watch->changed);
	unlock(&watch->mutex);
	idle_await_head(conn);
	return conn;
}

void idle_leave(struct idle_conn *conn)
{
	lock(&conn->watch->mutex);
	TAILQ_REMOVE(&conn->watch->conns, conn, entry);
	conn->watch->count--;
	unlock(&conn->watch->mutex);
	free(conn);
}

void idle_cut(struct idle_watch *watch)
{
	struct idle_conn *conn;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);

	TAILQ_FOREACH(conn, &watch->conns, entry)
	shutdown(conn->fd, SHUT_RDWR);
}

static void set_deadline(struct idle_conn *conn, int64_t within_ms, int64_t look_in_ms)
{
	struct idle_watch *watch = conn->watch;
	int64_t now = clock_boot_ms();

	atomic_store(&conn->turn_at, now);
	atomic_store(&conn->deadline, now + within_ms);
	if (now + look_in_ms >= atomic_load(&watch->wakes_at))
		return;
	lock(&watch->mutex);
	pthread_cond_signal(&watch->changed);
	unlock(&watch->mutex);
}

void idle_expect(struct idle_conn *conn)
{
	atomic_store(&conn->is_sending, false);
	set_deadline(conn, conn->watch->idle_ms, conn->watch->idle_ms);
}

static void await(struct idle_conn *conn, int64_t within_ms)
{
	atomic_store(&conn->is_sending, true);
	set_deadline(conn, within_ms, within_ms < LOOK_MS ? within_ms : LOOK_MS);
}

void idle_await(struct idle_conn *conn)
{
	await(conn, conn->watch->idle_ms);
}

void idle_await_head(struct idle_conn *conn)
{
	await(conn, conn->watch->head_ms);
}

void idle_linger(struct idle_conn *conn)
{
	atomic_store(&conn->is_sending, false);
	set_deadline(conn, LINGER_MS, LINGER_MS);
}

void idle_hold(struct idle_conn *conn)
{
	atomic_store(&conn->is_sending, false);
	atomic_store(&conn->turn_at, INT64_MAX);
	atomic_store(&conn->deadline, INT64_MAX);
}
