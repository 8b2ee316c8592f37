/*
 * Stands between libmicrohttpd and what its clients send: each byte of a connection is
 * judged (web/gate.h) when the library reads it, and what is bad the library never sees:
 * the gate answers it and ends the connection. Before and after TLS is all the same to
 * it. Why so is said in docs/design/0019.
 *
 * A connection's gate is used by the library's thread that has the connection.
 */
#ifndef WEB_GATE_H
#define WEB_GATE_H

#include "base/base.h"

struct gate;

struct gate_client {
	/* Once, when something was refused and answered: the client has a moment to read
	 * that. */
	void (*refused)(void *arg, int status, const char *why);
	void *arg;
	bool is_secure; /* it speaks TLS */
};

/* For the connection on fd, which must stay open until gate_leave. */
struct gate *gate_enter(int fd, const struct gate_client *client);
void gate_leave(struct gate *gate);

/* To be called for each request before anything of it is believed. False: its head did
 * not come through the gate, so that nobody has judged it. */
bool gate_take_head(struct gate *gate);

/* Such a request has ended. */
void gate_end_request(struct gate *gate);

/* Whether something was refused, or will be when the library reads on. */
bool gate_is_shut(const struct gate *gate);

/*
 * What a client sends, judged byte by byte before anything else sees it: the heads of
 * requests, and where their bodies end. Stricter than a server must be (RFC 9112): what
 * two readers could understand in two ways is no request. Plain data; it waits for
 * nothing and allocates nothing.
 */

#define JUDGE_NAME_SIZE 20 /* longer names are none that it knows */

enum judge_field {
	JUDGE_OTHER,
	JUDGE_HOST,
	JUDGE_LENGTH,
	JUDGE_CODING,
	JUDGE_AUTHORIZATION,
	JUDGE_COOKIE,
	JUDGE_FIELDS
};

struct judge {
	unsigned char state; /* see judge.c */
	unsigned char field; /* whose value it is in */
	unsigned char seen[JUDGE_FIELDS];
	bool is_trailer;
	bool is_old;    /* HTTP/1.0 */
	uint16_t len;   /* of what is collected or counted in this state */
	uint32_t cost;  /* of this head: its bytes, and what its fields take beside */
	uint64_t left;  /* of the body, or of a chunk */
	uint64_t begun; /* requests, the bad one among them */
	uint64_t heads; /* that were whole and good */
	char text[JUDGE_NAME_SIZE];
	int status;      /* 0, or the answer to what is bad: 400, 414, 431, 501, 505 */
	const char *why; /* then: static, a sentence's end */
};

/* A new connection is all zero. */
#define JUDGE_INIT                                                                       \
	{                                                                                \
		0                                                                        \
	}

/* Takes what has come. Returns how much of it may be passed on: all; or, once something
 * is bad, what is before the request that it is in (0 if that began earlier). Then
 * `status` is set, and nothing more may be given. */
size_t judge_take(struct judge *judge, const char *bytes, size_t len);

/* Whether bytes of a request are here that is not whole. */
bool judge_is_within(const struct judge *judge);

#endif
