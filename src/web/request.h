/*
 * The body of a request: kept in memory, or spooled into an unnamed file, and inflated
 * when it is complete. For WEB_BODY_STREAM struct body only describes the encoding; its
 * bytes go through struct upload. One thread at a time.
 */
#ifndef WEB_REQUEST_H
#define WEB_REQUEST_H

#include <microhttpd.h>

#include "base/base.h"
#include "base/gunzip.h"
#include "base/str.h"
#include "base/thread.h"
#include "web/listen.h"
#include "web/route.h"
#include "web/web.h"

#define WEB_BODY_MEMORY_MAX ((uint64_t)1 << 20)
#define WEB_BODY_FILE_MAX ((uint64_t)256 << 20)
#define WEB_BODY_HOOK_MAX ((uint64_t)32 << 20)
#define WEB_BODIES_MAX ((uint64_t)1 << 30) /* on disk, of all requests */

struct body {
	enum web_body kind;
	const char *data; /* site.data; borrowed */
	uint64_t limit;   /* of the inflated bytes */
	uint64_t size;    /* so far */
	uint64_t held;    /* its bytes on disk, as counted for all requests */
	char client[ADDRESS_TEXT_SIZE]; /* its network, for the share; "": none */
	bool is_let_in;                 /* its share was judged when it began */
	struct str memory;              /* all of it, unless it has a file */
	int fd; /* of WEB_BODY_FILE and HOOK, once it is large; or -1 */
	bool is_packed;
	struct gunzip gunzip; /* if is_packed */
	int refusal;          /* the status for a failed call here */
};

/* Sets the limit for all files together; returns the old one. For tests. */
uint64_t body_bound_files(uint64_t bytes);

/* `encoding` is the header Content-Encoding, or NULL. -1: refusal 415. The body must be
 * cleared in any case. */
int body_begin(struct body *body, enum web_body kind, const char *encoding,
	       const char *data, struct err *err);
void body_clear(struct body *body);

/* The next bytes as received. -1: refusal 413 (above limit), 503 (too much is on disk for
 * all requests), 507, 500. */
int body_add(struct body *body, const void *bytes, size_t len, struct err *err);

/* The body has ended. It is now in memory, or in a file positioned at its start. May take
 * a while. -1: refusal 400 (invalid or truncated gzip), and as body_add. */
int body_end(struct body *body, struct err *err);

/*
 * A body on its way from the client to a handler that reads it as it arrives: the
 * receiving thread puts bytes here, at most a block ahead of the worker that reads them,
 * and never waits for it. Its owner frees it when both have left.
 */

struct upload;

#define UPLOAD_BLOCK (128 << 10) /* two of them are held */

struct upload_path {
	struct MHD_Connection *connection; /* suspended while the blocks are full */
	struct idle_conn *idle;
	const struct stop *cut;
	struct gunzip *gunzip; /* the reader's; NULL: not compressed */
};

/* The objects in `path` are borrowed: connection and idle until the sender leaves. */
struct upload *upload_new(const struct upload_path *path);
void upload_free(struct upload *upload);

/* Suspends the connection until the worker wants the body, or has ended without it. Call
 * before the worker begins. */
void upload_await_reader(struct upload *upload);

/* The worker's part. See web_set_patience. */
void upload_set_patience(struct upload *upload, const struct web_patience *patience);

/* See web_read_upload. */
ssize_t upload_read(struct upload *upload, void *buffer, size_t size, struct err *err);

/* The worker stops reading: the rest is discarded as it arrives. False: the sender has
 * left. The sender sees everything done before this call. */
bool upload_finish(struct upload *upload);

/* The sender's part, as libmicrohttpd's callbacks. Returns how many bytes were taken; if
 * not all, the connection is suspended. */
size_t upload_give(struct upload *upload, const char *bytes, size_t len);

/* The body has ended. False: the worker has not finished; the connection is suspended
 * until it has. */
bool upload_end(struct upload *upload);

bool upload_is_finished(struct upload *upload);

/* The request has ended. Returns whether the worker had finished before. */
bool upload_leave(struct upload *upload);

#endif
