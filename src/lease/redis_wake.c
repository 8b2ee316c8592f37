/*
 * One connection a server, and a thread that hears on them of leases which are free: it
 * waits in BLPOP for a second at a time. Before that, it removes what answers that did
 * not come may have left behind.
 *
 * Such a removal counts only when the server answered it twice, a second apart, or did
 * remove something: what was sent on a connection that broke may arrive after the first.
 * Nothing is sent again on a broken connection, and what it had not delivered is dropped
 * (redis_connection_cut()).
 *
 * When a connection breaks, and when it is there again, all who wait ask for themselves:
 * what was told meanwhile is lost.
 *
 * At the close, removals that no server has answered yet have as long as a command.
 */
#include "lease/redis_round.h"

#include <sys/eventfd.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/thread.h"

#define LISTEN_MS 1000
#define REST_MS 200
#define AGAIN_MS 1000
#define REMOVE_MOST 50

static void redis_turn_add_removals(struct redis_backend *backend, size_t place,
				    struct redis_turn *turn)
{
	struct lease_server *server = &backend->server;
	int64_t now = clock_boot_ms();
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	for (size_t i = 0; i < server->leftovers.count; i++) {
		const struct server_leftover *leftover = &server->leftovers.items[i];
		const struct redis_call call = { .script = REDIS_RELEASE,
						 .key = leftover->key,
						 .arguments = { leftover->nonce },
						 .count = 1 };
		if (leftover->place != place || leftover->next_at > now ||
		    turn->nonces.count >= REMOVE_MOST)
			continue;
		redis_call_add(backend, &call, false, &turn->request);
		vec_add(&turn->nonces, xstrdup(leftover->nonce));
	}
}

static bool redis_wake_is_waited_for(struct redis_backend *backend)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&backend->server.mutex);

	return backend->server.hints.count > 0 && !atomic_load(&backend->wake.is_closing);
}

/* Removals come first, and do not wait for the end of a BLPOP. */
static void redis_turn_begin(struct redis_backend *backend, size_t place)
{
	struct redis_turn *turn = &backend->wake.turns[place];
	AUTO_FREE char *list =
		xasprintf("%s#wake:%s", backend->prefix, backend->server.me);
	int64_t until = clock_boot_ms() + REDIS_COMMAND_MS;

	redis_request_init(&turn->request, backend->wake.connections[place]);
	redis_turn_add_removals(backend, place, turn);
	if (redis_wake_is_waited_for(backend) && turn->nonces.count > 0) {
		redis_request_add(&turn->request, 2, (const char *[]){ "LPOP", list });
	} else if (redis_wake_is_waited_for(backend)) {
		redis_request_add(&turn->request, 3,
				  (const char *[]){ "BLPOP", list, "1" });
		until += LISTEN_MS;
	}
	turn->is_under_way = turn->request.wanted > 0;
	if (turn->is_under_way)
		redis_request_begin(&turn->request, until);
}

/* ------------------------------------------------------------------ answers */

static void redis_leftover_answered_locked(struct lease_server *server, size_t place,
					   const char *nonce, int64_t answer)
{
	int64_t now = clock_boot_ms();

	for (size_t i = 0; i < server->leftovers.count; i++) {
		struct server_leftover *leftover = &server->leftovers.items[i];
		if (leftover->place != place || strcmp(leftover->nonce, nonce) != 0)
			continue;
		if (answer == 1 || leftover->was_absent || leftover->until < now) {
			free(leftover->key);
			*leftover = server->leftovers.items[--server->leftovers.count];
			return;
		}
		leftover->was_absent = true;
		leftover->next_at = now + AGAIN_MS;
		return;
	}
}

static void redis_turn_take_answer(struct redis_backend *backend, size_t place, size_t at,
				   const struct redisReply *reply)
{
	const struct redis_turn *turn = &backend->wake.turns[place];

	if (at < turn->nonces.count && reply->type == REDIS_REPLY_INTEGER) {
		AUTO_UNLOCK pthread_mutex_t *held = lock(&backend->server.mutex);
		redis_leftover_answered_locked(&backend->server, place,
					       turn->nonces.items[at], reply->integer);
	} else if (reply->type == REDIS_REPLY_STRING) {
		lease_server_signal(&backend->server, reply->str);
	} else if (reply->type == REDIS_REPLY_ARRAY) {
		lease_server_signal(&backend->server, redis_reply_text(reply, 1));
	}
}

/* Whoever refuses is not asked at once again. */
static void redis_turn_end(struct redis_backend *backend, size_t place)
{
	struct redis_turn *turn = &backend->wake.turns[place];
	bool had_failed = turn->has_failed;

	turn->has_failed = turn->request.progress == REDIS_FAILED;
	for (size_t i = 0; i < turn->request.replies.count && !turn->has_failed; i++) {
		const redisReply *reply = turn->request.replies.items[i];
		turn->has_failed = reply->type == REDIS_REPLY_ERROR;
		redis_turn_take_answer(backend, place, i, reply);
	}
	turn->rest_until = turn->has_failed ? clock_boot_ms() + REST_MS : 0;
	if (turn->has_failed != had_failed)
		lease_server_signal(&backend->server, NULL);
	redis_request_clear(&turn->request);
	vec_clear_owned(&turn->nonces);
	turn->is_under_way = false;
}

/* ------------------------------------------------------------------ the thread */

static int64_t redis_wake_next_removal(struct lease_server *server, size_t place)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);
	int64_t next = INT64_MAX;

	for (size_t i = 0; i < server->leftovers.count; i++) {
		const struct server_leftover *leftover = &server->leftovers.items[i];
		if (leftover->place == place && leftover->next_at < next)
			next = leftover->next_at;
	}
	return next;
}

/* Begins a turn if there is cause. By when to look again. */
static int64_t redis_wake_prepare(struct redis_backend *backend, size_t place,
				  struct pollfd *watched)
{
	struct redis_turn *turn = &backend->wake.turns[place];
	int64_t now = clock_boot_ms();

	*watched = (struct pollfd){ .fd = -1 };
	if (!turn->is_under_way && turn->rest_until <= now)
		redis_turn_begin(backend, place);
	if (turn->is_under_way)
		return redis_request_watch(&turn->request, watched);
	int64_t next = redis_wake_next_removal(&backend->server, place);
	if (turn->rest_until > now &&
	    (next < INT64_MAX || redis_wake_is_waited_for(backend)))
		next = turn->rest_until;
	return next;
}

static void redis_wake_wait(struct redis_backend *backend, int64_t wake_at)
{
	struct pollfd watched[REDIS_SERVERS_MOST + 2];
	size_t count = backend->count;
	eventfd_t ignored;

	for (size_t i = 0; i < count; i++) {
		int64_t at = redis_wake_prepare(backend, i, &watched[i]);
		if (at < wake_at)
			wake_at = at;
		const struct redis_turn *turn = &backend->wake.turns[i];
		if (turn->is_under_way && turn->request.progress != REDIS_UNDER_WAY)
			wake_at = 0;
	}
	watched[count] = (struct pollfd){ backend->server.control_fd, POLLIN, 0 };
	watched[count + 1] = (struct pollfd){ backend->server.inotify_fd, POLLIN, 0 };
	int64_t left = wake_at - clock_boot_ms();
	poll(watched, (nfds_t)count + 2,
	     left <= 0      ? 0
	     : left > 60000 ? 60000
			    : (int)left);
	eventfd_read(backend->server.control_fd, &ignored);
	if (watched[count + 1].revents)
		lease_server_take_deaths(&backend->server);
}

/* Until somebody answers, something comes to be done, or it is `until`. */
static void redis_wake_step(struct redis_backend *backend, int64_t until)
{
	redis_wake_wait(backend, until);
	for (size_t i = 0; i < backend->count; i++) {
		struct redis_turn *turn = &backend->wake.turns[i];
		if (!turn->is_under_way)
			continue;
		redis_request_step(&turn->request);
		if (turn->request.progress != REDIS_UNDER_WAY)
			redis_turn_end(backend, i);
	}
}

static bool redis_wake_has_removals(struct lease_server *server)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	for (size_t i = 0; i < server->leftovers.count; i++) {
		if (!server->leftovers.items[i].was_absent)
			return true;
	}
	return false;
}

/* A connection in BLPOP takes no removal before that ends. */
static void redis_wake_finish(struct redis_backend *backend)
{
	int64_t until = clock_boot_ms() + REDIS_COMMAND_MS;

	for (size_t i = 0; i < backend->count; i++) {
		struct redis_turn *turn = &backend->wake.turns[i];
		if (!turn->is_under_way || turn->nonces.count > 0)
			continue;
		redis_request_clear(&turn->request);
		redis_connection_cut(backend->wake.connections[i]);
		turn->is_under_way = false;
	}
	while (redis_wake_has_removals(&backend->server) && clock_boot_ms() < until)
		redis_wake_step(backend, until);
}

static void *redis_wake_run(void *arg)
{
	struct redis_backend *backend = arg;

	while (!atomic_load(&backend->wake.is_closing))
		redis_wake_step(backend, INT64_MAX);
	redis_wake_finish(backend);
	return NULL;
}

void redis_wake_start(struct redis_backend *backend)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&backend->server.mutex);

	if (backend->wake.is_started)
		return;
	backend->wake.is_started = true;
	thread_start(&backend->wake.thread, "lease-wake", redis_wake_run, backend);
}

void redis_wake_stop(struct redis_backend *backend)
{
	struct redis_wake *wake = &backend->wake;

	if (wake->is_started) {
		atomic_store(&wake->is_closing, true);
		lease_server_poke(&backend->server);
		thread_join(wake->thread);
	}
	for (size_t i = 0; i < backend->count; i++) {
		if (wake->turns[i].is_under_way) {
			redis_request_clear(&wake->turns[i].request);
			vec_clear_owned(&wake->turns[i].nonces);
		}
		redis_connection_free(wake->connections[i]);
	}
}
