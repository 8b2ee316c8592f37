/*
 * Checks the input of libmicrohttpd: each byte of a connection is judged when the library
 * reads it, and bad input never reaches the library: the gate answers it and ends the
 * connection. It works the same with and without TLS. Reasons: docs/design/0019.
 *
 * A connection's gate is used only by the library's thread of that connection.
 */
#ifndef WEB_GATE_H
#define WEB_GATE_H

#include "base/base.h"

struct gate;

struct gate_client {
	/* Called once, when something was refused and answered: the client has a moment
	 * to read the answer. */
	void (*refused)(void *arg, int status, const char *why);
	void *arg;
	bool is_secure; /* it speaks TLS */
};

/* For the connection on fd, which must stay open until gate_leave. */
struct gate *gate_enter(int fd, const struct gate_client *client);
void gate_leave(struct gate *gate);

/* Call for each request before using anything of it. False: its head did not pass through
 * the gate, so it was not judged. */
bool gate_take_head(struct gate *gate);

/* A request with a taken head has ended. */
void gate_end_request(struct gate *gate);

/* Whether something was refused, or will be when the library reads on. */
bool gate_is_shut(const struct gate *gate);

/*
 * Judges a client's input byte by byte before any other code sees it: the heads of
 * requests, and where their bodies end. Stricter than required (RFC 9112): it rejects
 * input that two readers could understand differently. Plain data; does not wait or
 * allocate.
 */

#define JUDGE_NAME_SIZE 20 /* longer names are unknown to it */

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
	unsigned char field; /* the field whose value is being read */
	unsigned char seen[JUDGE_FIELDS];
	bool is_trailer;
	bool is_old;    /* HTTP/1.0 */
	uint16_t len;   /* bytes collected or counted in this state */
	uint32_t cost;  /* of this head: its bytes, plus a cost per field */
	uint64_t left;  /* of the body, or of a chunk */
	uint64_t begun; /* requests, including the bad one */
	uint64_t heads; /* complete and good heads */
	char text[JUDGE_NAME_SIZE];
	int status;      /* 0, or the status for bad input: 400, 414, 431, 501, 505 */
	const char *why; /* with a status: the end of a sentence; static */
};

/* A new connection is all zero. */
#define JUDGE_INIT                                                                       \
	{                                                                                \
		0                                                                        \
	}

/* Takes received bytes. Returns how many may be passed on: all; or, once something is
 * bad, those before the bad request (0 if that began earlier). Then `status` is set, and
 * this must not be called again. */
size_t judge_take(struct judge *judge, const char *bytes, size_t len);

/* Whether a request has arrived only in part. */
bool judge_is_within(const struct judge *judge);

#endif
