/*
 * The Unix socket data/node.sock, through which hooks and commands reach the node. One
 * message per connection (SOCK_SEQPACKET), of at most HOOK_MESSAGE_MAX bytes: a word, a
 * space, and bytes.
 *
 *	changed <path or name>	-> ok <event id, 0: nothing had changed>
 *	changed-blob <type>/<id>[\n<id>...]	-> ok <event id of the last, 0: none>
 *	wake			-> ok mirrors	something was put into the database
 *				   or ok no-mirrors: the node had none when it
 *				   started; or ok no-workers: none for mirrors;
 *				   before 0.2.0 just ok
 *	alive			-> ok <JSON>	how the node is (report/vitals.h)
 *	anything		-> no <error class> <sentence>
 *
 * A hook waits a second for the answer. Without one it leaves a file in data/spool
 * (change/spool.h); also after a no, unless its class is config or missing: asking again
 * would not help then. Any user that may open the data directory may send all of this:
 * git runs as the user that owns repositories and data. Linux: unix(7).
 */
#ifndef CHANGE_HOOK_SOCKET_H
#define CHANGE_HOOK_SOCKET_H

#include "base/base.h"
#include "base/str.h"
#include "change/notice.h"

struct hook_socket;

struct hook_socket_options {
	const char *data;      /* the directory of the socket */
	struct notice *notice; /* NULL: a site without its own changes: "changed" is
				  passed to copy_changed */
	const char *copies;    /* the root of copies; NULL: "changed" is refused. Borrowed
				  until stop */
	void (*copy_changed)(void *arg, const char *name); /* any thread; short */
	struct notice *blobs;              /* NULL: likewise "changed-blob" */
	void (*wake)(void *arg);           /* any thread; short; may be NULL */
	const char *(*mirrors)(void *arg); /* likewise: the word for whoever wakes it */
	void (*alive)(void *arg, struct str *answer); /* likewise: appends the JSON */
	void *arg;
};

/* Starts its threads (an accepting one, and up to 8 at work, on demand). A stale socket
 * is replaced: the caller holds the data directory's lock. */
int hook_socket_start(const struct hook_socket_options *options,
		      struct hook_socket **socket, struct err *err);

/* Messages in work are answered, waiting ones are not. NULL is allowed. */
void hook_socket_stop(struct hook_socket *socket);

/* The client side, for commands: sends and waits up to wait_ms. 1: answered (answer
 * filled, without "ok "); 0: the node is not running, or ended meanwhile; -1: it answered
 * no (with *err), or nothing in time (ERR_TIMEOUT). */
int hook_socket_report(const char *data, const char *message, int64_t wait_ms,
		       char *answer, size_t size, struct err *err);

#endif
