/*
 * Connections to Redis whose every step has a deadline: name, connect, TLS, greeting,
 * commands, replies. hiredis writes the commands and reads the replies; the transport is
 * ours (docs/design/0026 says why).
 *
 * A request is one pipeline of commands on one connection. Several requests, each on its
 * own connection, run at the same time in one poll. A connection opens itself when a
 * request needs it, and stays open. It is closed when a request fails on it, so that a
 * late reply is not taken for that of another request.
 *
 * A connection and its request are for one thread at a time. Errors have the reason
 * REASON_LOCK_UNAVAILABLE and name the server, never a password.
 */
#ifndef LEASE_REDIS_CLIENT_H
#define LEASE_REDIS_CLIENT_H

#include <poll.h>

#include "base/base.h"
#include "base/str.h"
#include "base/vec.h"

struct redisReply;
struct redis_address;

/* redis://HOST[:PORT][/DATABASE], rediss:// with TLS, unix:///PATH[?db=DATABASE]. */
struct redis_address {
	char *text; /* owned; as given, for people */
	char *host; /* owned; NULL: path is used */
	char *path; /* owned; of a Unix socket */
	char port[8];
	int database;
	bool has_tls;
};

/* ERR_CONFIG: not of these forms, or contains a user name or a password. */
int redis_address_parse(const char *url, struct redis_address *address, struct err *err);
void redis_address_clear(struct redis_address *address);

/* How to log in. The files are read at each connect. */
struct redis_access {
	const char *user;          /* NULL: the server's default one */
	const char *password_file; /* NULL: none */
	const char *ca_file;       /* NULL: the system's */
	bool is_one_of_several;    /* learn its age; after a failure rest for a while */
	/* Checks each server, by its INFO, before it is sent anything else; -1, with the
	 * reason in *err: it must not be used. NULL: any server is used. */
	int (*judge)(void *arg, const struct redis_address *server,
		     const struct redisReply *info, struct err *err);
	void *judge_arg;
};

struct redis_connection;

/* Both are kept until redis_connection_free(). Does not connect yet. */
struct redis_connection *redis_connection_new(const struct redis_address *address,
					      const struct redis_access *access);
void redis_connection_free(struct redis_connection *connection);

/* Closes it so that data sent but not yet received will not arrive. */
void redis_connection_cut(struct redis_connection *connection);

/* Ends its rest after a failure, for when the other servers do not suffice. */
void redis_connection_rouse(struct redis_connection *connection);

/* When the server started, by clock_boot_ms(), or later; INT64_MAX: unknown. */
int64_t redis_connection_born_at(const struct redis_connection *connection);

enum redis_progress { REDIS_NEW, REDIS_UNDER_WAY, REDIS_ANSWERED, REDIS_FAILED };

struct redis_request {
	struct redis_connection *connection;
	struct str commands;
	size_t wanted;                    /* replies */
	VEC(struct redisReply *) replies; /* owned; include errors of single commands */
	enum redis_progress progress;
	struct err err;  /* of REDIS_FAILED */
	bool was_sent;   /* a part may have reached the server */
	bool is_reused;  /* the connection was already open */
	bool is_resting; /* failed because another just did */
	int64_t until;   /* by clock_boot_ms() */
	size_t sent;
};

void redis_request_init(struct redis_request *request,
			struct redis_connection *connection);
void redis_request_clear(struct redis_request *request);

/* Adds a command. */
void redis_request_add(struct redis_request *request, int count,
		       const char *const *words);

/* Starts it; it fails at `until`. */
void redis_request_begin(struct redis_request *request, int64_t until);

/* What to poll for; returns by when to step in any case. */
int64_t redis_request_watch(const struct redis_request *request, struct pollfd *watched);

/* Advances as far as possible without waiting. */
void redis_request_step(struct redis_request *request);

/* Runs the new ones to their end, by `until` at the latest. Once `enough` are answered,
 * the others have `grace_ms` more. */
void redis_exchange(struct redis_request *requests, size_t count, size_t enough,
		    int64_t until, int64_t grace_ms);

/* If the reply is an error, reports it and the remedy. Returns -1 then, else 0. */
int redis_reply_check(const struct redisReply *reply, const char *server,
		      struct err *err);

#endif
