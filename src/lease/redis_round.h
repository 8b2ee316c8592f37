/*
 * The inside of the Redis backend, shared by redis.c, redis_round.c and redis_wake.c: its
 * scripts, and rounds, in which one pipeline of them goes to all servers at once.
 *
 * Keys, for a lease K (prefix included):
 *	K		"<nonce> fence=43 ttl=... job=..." (lease/owner.h); in the format
 *			of other programs the nonce alone. Lives for the ttl
 *	K#fence		"<fence> held|released|forced <the same>": the latest grant,
 *			for 7 days
 *	K#line		a sorted set: the waiters, by the time since when
 *	K#wait:<id>	the owner text of one of them, for 3 seconds after it asked
 *	P#wake:<id>	a list: keys it waits for that may be free (P: prefix)
 */
#ifndef LEASE_REDIS_ROUND_H
#define LEASE_REDIS_ROUND_H

#include "lease/lease_server.h"
#include "lease/redis_client.h"

#define REDIS_SERVERS_MOST 7
#define REDIS_COMMAND_MS 500
#define REDIS_ARGUMENTS_MOST 10

enum redis_script {
	REDIS_ACQUIRE,
	REDIS_CONFIRM,
	REDIS_PASS,
	REDIS_EXTEND,
	REDIS_RELEASE,
	REDIS_LEAVE,
	REDIS_FORCE,
	REDIS_INSPECT,
	REDIS_WANTED,
	REDIS_SCRIPTS,
};

struct redis_turn {
	struct redis_request request;
	text_list nonces;   /* of the leftovers it covers */
	int64_t rest_until; /* after a failure */
	bool is_under_way;
	bool has_failed;
};

struct redis_wake {
	pthread_t thread;
	bool is_started; /* guarded by the server's mutex */
	atomic_bool is_closing;
	struct redis_connection *connections[REDIS_SERVERS_MOST];
	struct redis_turn turns[REDIS_SERVERS_MOST];
};

struct redis_backend {
	struct lease_backend base;
	struct lease_server server;
	struct redis_address addresses[REDIS_SERVERS_MOST];
	size_t count, quorum;
	struct redis_access access;
	char *user, *password_file, *ca_file, *prefix, *pattern; /* owned */
	bool logs_doubts;
	text_list doubts; /* guarded by the server's mutex; already logged */
	bool is_redlock_format;
	int64_t poll_ms, poll_jitter_ms; /* for that format */
	_Atomic int64_t command_ms;
	char digests[REDIS_SCRIPTS][41];
	struct redis_connection *channels[LEASE_SERVER_CHANNELS][REDIS_SERVERS_MOST];
	struct redis_wake wake;
};

static inline struct redis_backend *redis_of(struct lease_backend *backend)
{
	return (struct redis_backend *)backend;
}

/* One call of a script for one lease. */
struct redis_call {
	enum redis_script script;
	const char *key;
	const char *arguments[REDIS_ARGUMENTS_MOST];
	size_t count;
};

struct redis_round {
	struct redis_request requests[REDIS_SERVERS_MOST];
	/* Its votes count: one of several servers that started a moment ago may have
	 * forgotten to whom it gave its vote. */
	bool may_vote[REDIS_SERVERS_MOST];
	size_t count;
	size_t answered;
	struct err err; /* of a server that failed to answer */
};

void redis_scripts_init(struct redis_backend *backend);

/* Adds the call as EVAL, for connections that do not use rounds. */
void redis_call_add(const struct redis_backend *backend, const struct redis_call *call,
		    bool is_by_digest, struct redis_request *request);

/* Sends all calls to all servers and waits for their answers, or `until`. */
void redis_round_run(struct redis_backend *backend, struct redis_round *round,
		     const struct redis_call *calls, size_t count, int64_t until);
void redis_round_clear(struct redis_round *round);

/* The answer of a server to the call of that number; NULL: no answer, or an error. */
const struct redisReply *redis_round_reply(const struct redis_round *round, size_t server,
					   size_t call);

/* An element of the array in it, text or a number as text; "" if there is none. */
const char *redis_reply_text(const struct redisReply *reply, size_t at);
int64_t redis_reply_number(const struct redisReply *reply, size_t at);

/* By when a round that begins now is to end. */
int64_t redis_until(const struct redis_backend *backend);

/* 1: a majority answers the call with 1; 0: so many with another number that a majority
 * is impossible; -1: unknown. */
int redis_round_decide(const struct redis_backend *backend,
		       const struct redis_round *round, size_t call);

/* Reports that too few have answered. Returns -1. */
int redis_unavailable(const struct redis_backend *backend,
		      const struct redis_round *round, struct err *err);

/* A copy; NULL: names with this ending are reserved for the backend. */
char *redis_server_key(const char *key, struct err *err);

/* A lease as one server, or a majority, reports it. */
struct redis_view {
	char nonce[512]; /* of another program: its whole value */
	struct owner owner;
	bool is_foreign;
	int64_t ttl_left_ms;
};

void redis_view_read(const char *value, int64_t ttl_left_ms, struct redis_view *view);

/* As the functions of struct lease_backend_ops (redis_look.c). */
int redis_list(struct lease_backend *base, lease_holders *holders, struct err *err);
int redis_inspect(struct lease_backend *base, const char *key,
		  struct lease_holder *holder, struct err *err);
int redis_force_release(struct lease_backend *base, const char *key, uint64_t fence,
			struct err *err);

/* Reports problems of a server with this answer to INFO. -1: at least one is an error. */
typedef void (*redis_finding)(void *arg, bool is_error, const char *what,
			      const char *remedy);
int redis_judge_info(const char *server, const struct redisReply *info, redis_finding say,
		     void *arg);

/* For struct redis_access, with the backend as arg: ERR_CONFIG for a server that would
 * lose leases, or cannot keep them; warnings are logged, once each (redis_check.c). */
int redis_judge(void *arg, const struct redis_address *server,
		const struct redisReply *info, struct err *err);

/* The thread that receives notices of free leases, and removes leftovers. It is started
 * when needed. */
void redis_wake_start(struct redis_backend *backend);
void redis_wake_stop(struct redis_backend *backend);

#endif
