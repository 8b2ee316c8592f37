/*
 * Real Redis servers for tests: each on a socket in `root`, ended with the test's
 * process, whatever becomes of that. And commands to them, as their operators give them.
 */
#ifndef UNIT_REDIS_TEST_H
#define UNIT_REDIS_TEST_H

#include "test.h"

#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "lease/lease.h"
#include "lease/manager.h"
#include "lease/redis_round.h"

#ifndef KEY
#define KEY "refrelay:paris:geo_sync_ssf_service:repository:7"
#endif
#define TTL 30000

extern char **environ;

struct redis_server {
	pid_t pid;
	char url[160];
	char socket[108];
	int64_t started_at; /* by clock_boot_ms() */
	struct redis_address address;
	struct redis_connection *connection; /* the operator's */
};

static const struct redis_access operator_access __attribute__((unused));

/* The reply's text or number, as text; "(nil)", or an error's own text. */
static inline const char *redis_say(struct redis_server *server, int count,
				    const char *const *words)
{
	static char text[16384];
	struct redis_request request;

	redis_request_init(&request, server->connection);
	redis_request_add(&request, count, words);
	redis_exchange(&request, 1, 1, clock_boot_ms() + 20000, 0);
	if (request.progress != REDIS_ANSWERED) {
		snprintf(text, sizeof(text), "failed: %s", request.err.text);
	} else {
		const redisReply *reply = request.replies.items[0];
		if (reply->type == REDIS_REPLY_INTEGER)
			snprintf(text, sizeof(text), "%lld", reply->integer);
		else
			snprintf(text, sizeof(text), "%s",
				 reply->str ? reply->str : "(nil)");
	}
	redis_request_clear(&request);
	return text;
}

#define WORDS(...) ((const char *[]){ __VA_ARGS__ })
#define redis_cli(server, ...)                                                           \
	redis_say((server), (int)ARRAY_SIZE(WORDS(__VA_ARGS__)), WORDS(__VA_ARGS__))

static inline bool redis_is_up(struct redis_server *server)
{
	const char *said = redis_cli(server, "PING");

	return strcmp(said, "PONG") == 0 || text_starts_with(said, "NOAUTH");
}

/* In front of the server's program: another environment. */
static const char *redis_wrapper = "";

/* Starts it anew with the same socket, and with more of its own arguments, as one text
 * between spaces. */
static inline void redis_run(struct redis_server *server, const char *more)
{
	AUTO_FREE char *command = xasprintf(
		"exec %s setpriv --pdeathsig KILL redis-server --port 0 --unixsocket %s "
		"--dir %s --save '' --daemonize no --loglevel warning --logfile %s.log "
		"%s",
		redis_wrapper, server->socket, root, server->socket, more);
	char shell[] = "sh", flag[] = "-c";
	char *argv[] = { shell, flag, command, NULL };

	server->started_at = clock_boot_ms();
	if (posix_spawnp(&server->pid, shell, NULL, NULL, argv, environ) != 0)
		abort();
}

static inline void redis_start(struct redis_server *server, const char *name,
			       const char *more)
{
	*server = (struct redis_server){ 0 };
	snprintf(server->socket, sizeof(server->socket), "%s/%s", root, name);
	snprintf(server->url, sizeof(server->url), "unix://%s", server->socket);
	assert_ok(redis_address_parse(server->url, &server->address, &err));
	server->connection = redis_connection_new(&server->address, &operator_access);
	redis_run(server, more);
	wait_until(redis_is_up(server));
}

/* What writes its data beside it, too: it would still write while the folder is removed.
 */
static inline void redis_kill_children(const struct redis_server *server)
{
	AUTO_FREE char *path = xasprintf("/proc/%d/task/%d/children", (int)server->pid,
					 (int)server->pid);
	FILE *file = fopen(path, "r");
	int pid;

	while (file && fscanf(file, "%d", &pid) == 1)
		kill(pid, SIGKILL);
	if (file)
		fclose(file);
}

static inline void redis_kill(struct redis_server *server)
{
	if (server->pid <= 0)
		return;
	kill(server->pid, SIGSTOP); /* from here on it starts no child, and reaps none */
	redis_kill_children(server);
	kill(server->pid, SIGKILL);
	waitpid(server->pid, NULL, 0);
	server->pid = 0;
	unlink(server->socket);
}

static inline void redis_end(struct redis_server *server)
{
	redis_kill(server);
	redis_connection_free(server->connection);
	redis_address_clear(&server->address);
}

/* Below those that the kernel gives to connections, which might be quicker than the
 * server, and those of the site tests. */
static inline int redis_free_port(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	bool is_free = false;
	uint16_t number;

	while (!is_free) {
		AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (getrandom(&number, sizeof(number), 0) != sizeof(number))
			abort();
		any.sin_port = htons((uint16_t)(10000 + number % 2000));
		is_free = bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0;
	}
	return ntohs(any.sin_port);
}

/* What servers have to answer; 0: as in real life. More of it for tests that are not
 * about a server which stands still. */
static int64_t redis_limit_ms __attribute__((unused));

static inline void redis_set_limit(struct lease_manager *manager, int64_t limit_ms)
{
	redis_of(manager->backend)->command_ms = limit_ms;
}

static inline struct lease_manager *open_redis(const struct lease_options *options)
{
	struct lease_manager *manager;

	assert_ok(lease_manager_open_redis(options, &manager, &err));
	if (redis_limit_ms > 0)
		redis_set_limit(manager, redis_limit_ms);
	return manager;
}

/* Two of the same process are to each other as two hosts' are, without `directory`. */
static inline struct lease_manager *open_on(const char *const *urls, size_t count,
					    const char *directory, int64_t ttl_ms)
{
	return open_redis(&(struct lease_options){ .urls = urls,
						   .url_count = count,
						   .directory = directory,
						   .node = "here",
						   .prefix = "refrelay:paris:",
						   .ttl_ms = ttl_ms });
}

#define SERVER_KEY KEY

static inline int acquire_for(struct lease_manager *manager, int64_t wait_ms,
			      struct lease **lease)
{
	return lease_acquire(manager,
			     &(struct lease_request){ .key = KEY,
						      .operation = "sync",
						      .job = "deadbeef00000001",
						      .wait_ms = wait_ms },
			     lease, &err);
}

static inline struct lease *must_acquire(struct lease_manager *manager, int64_t wait_ms)
{
	struct lease *lease;

	assert_ok(acquire_for(manager, wait_ms, &lease));
	return lease;
}

static inline void assert_denied(struct lease_manager *manager)
{
	struct lease *lease;

	assert_fails(acquire_for(manager, 0, &lease), ERR_BUSY);
	assert_null(lease);
}

/* Servers have half a second to answer, several of them a twentieth of the ttl, which a
 * busy machine may need: that says nothing of the lease. */
static inline bool is_late(void)
{
	return err.reason == REASON_LOCK_UNAVAILABLE &&
	       (err.class == ERR_NETWORK || err.class == ERR_TIMEOUT);
}

static inline struct lease *must_acquire_at_last(struct lease_manager *manager,
						 int64_t wait_ms)
{
	struct lease *lease;

	wait_until(acquire_for(manager, wait_ms, &lease) == 0 || !is_late());
	if (!lease)
		fail_msg("%s", err.text);
	return lease;
}

static inline void assert_denied_at_last(struct lease_manager *manager)
{
	struct lease *lease;

	wait_until(acquire_for(manager, 0, &lease) == 0 || !is_late());
	assert_null(lease);
	assert_int_equal(err.class, ERR_BUSY);
}

/* It cannot be had, which says nothing about who has it. */
static inline void assert_unavailable(struct lease_manager *manager, enum err_class class)
{
	struct lease *lease;

	assert_fails(acquire_for(manager, 0, &lease), class);
	assert_int_equal(err.reason, REASON_LOCK_UNAVAILABLE);
	assert_true(err.remedy[0]);
}

#endif
