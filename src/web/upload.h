/*
 * A body on its way from the client to a handler that reads it as it comes: the thread
 * that takes bytes in puts them here, at most a block ahead of the worker that reads
 * them, and never waits for it. Its owner frees it when both have left.
 */
#ifndef WEB_UPLOAD_H
#define WEB_UPLOAD_H

#include <microhttpd.h>

#include "base/thread.h"
#include "web/body.h"
#include "web/idle.h"
#include "web/web.h"

struct upload;

#define UPLOAD_BLOCK (128 << 10) /* two of them are held */

struct upload_path {
	struct MHD_Connection *connection; /* suspended while there is no room */
	struct idle_conn *idle;
	const struct stop *cut;
	struct gunzip *gunzip; /* the reader's; NULL: it comes as it is */
};

/* What the path names is borrowed: connection and idle until the sender leaves. */
struct upload *upload_new(const struct upload_path *path);
void upload_free(struct upload *upload);

/* Suspends the connection until the worker wants the body, or does without it. Before the
 * worker begins. */
void upload_await_reader(struct upload *upload);

/* The worker's part. See web_set_patience. */
void upload_set_patience(struct upload *upload, const struct web_patience *patience);

/* See web_read_upload. */
ssize_t upload_read(struct upload *upload, void *buffer, size_t size, struct err *err);

/* Nothing more is read: the rest is thrown away as it comes. False: the sender has left.
 * The sender sees all that was done before. */
bool upload_finish(struct upload *upload);

/* The sender's part, as libmicrohttpd's callbacks. Returns how much was taken; if that is
 * not all, the connection is suspended. */
size_t upload_give(struct upload *upload, const char *bytes, size_t len);

/* That was the body. False: the worker has not finished, and the connection is suspended
 * until it has. */
bool upload_end(struct upload *upload);

bool upload_is_finished(struct upload *upload);

/* The request has ended. Returns whether the worker had finished before. */
bool upload_leave(struct upload *upload);

#endif
