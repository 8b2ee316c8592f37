/*
 * Where hooks and commands reach the node: the Unix socket data/node.sock. One message a
 * connection (SOCK_SEQPACKET): a word, a space, and bytes.
 *
 *	changed <path or name>		-> ok <event id or 0> | no <sentence>
 *	wake				-> ok		something was put into the
 *database
 *
 * A hook waits a second for the answer, then appends a line to data/spool/changed (see
 * change/spool.h). Linux: unix(7).
 */
#ifndef CHANGE_HOOK_SOCKET_H
#define CHANGE_HOOK_SOCKET_H

#include "base/base.h"
#include "change/notice.h"

struct hook_socket;

struct hook_socket_options {
	const char
		*data; /* the socket's directory, mode 0700 or as the operator set it */
	struct notice *notice;   /* NULL: a site without changes of its own: "changed" is
				    refused */
	void (*wake)(void *arg); /* any thread; short */
	void *arg;
};

/* Starts its threads (an accepting one, and up to 8 at work, on demand). A stale socket
 * is replaced: the caller holds the data directory's lock. */
int hook_socket_start(const struct hook_socket_options *options,
		      struct hook_socket **socket, struct err *err);
void hook_socket_stop(struct hook_socket *socket);

/* A command's side: sends and waits up to wait_ms. 1: answered (answer filled, without
 * "ok "); 0: no node runs; -1: it said no, or nothing in time. */
int hook_socket_tell(const char *data, const char *message, int64_t wait_ms, char *answer,
		     size_t size, struct err *err);

#endif
