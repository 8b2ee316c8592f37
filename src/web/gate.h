/*
 * Stands between libmicrohttpd and what its clients send: each byte of a connection is
 * judged (web/judge.h) when the library reads it, and what is bad the library never sees:
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

#endif
