/*
 * The HTTP server's frame: a request as its handler sees it, and the answer it fills in
 * (the table of routes is web/route.h's). Handlers run on a thread of the request's own
 * and may wait; they start no long work.
 *
 * Only server.c, exchange*.c, head.c, flow.c, upload.c and tls.c know libmicrohttpd.
 */
#ifndef WEB_WEB_H
#define WEB_WEB_H

#include "base/base.h"
#include "base/json.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/vec.h"
#include "wire/wire_token.h"

struct web_services; /* web/services.h */
struct web_route;    /* web/route.h */

#define WEB_USER_SIZE 128

struct web_request {
	const struct web_services *services;
	const struct web_route *route;
	const char *method;
	const char *target; /* path and query as sent */
	const char *name;   /* what {name} of the route matched, decoded; or NULL */
	const char *kind;   /* ... and {kind} */
	char site[SITE_NAME_SIZE]; /* whose token it was; "" otherwise */
	char user[WEB_USER_SIZE];  /* who asks, by password or token, for logs and hooks;
				      "": nobody said */
	bool may_operate;       /* an operator asks; of routes that let others in, too */
	const char *client;     /* the address of who asks, "192.0.2.7", "2001:db8::7" */
	bool is_secure;         /* it came by TLS, here or to a proxy that is trusted */
	const struct str *body; /* whole, inflated; at most 1 MiB */
	int body_fd;   /* of a larger one of Git's, or a webhook: a file, inflated, at its
			  start; or -1 */
	bool may_wait; /* false: with WEB_QUICK, at first */
	bool has_upload;         /* WEB_BODY_STREAM: the body is to be read as it comes */
	const struct stop *stop; /* requested when the server ends: for waits */
	const struct stop *cut;  /* ... when its grace is over: for streams */
	void *connection;        /* for web/exchange.c */
};

/* The last value of a query parameter, decoded, or NULL. Borrowed for the request. */
const char *web_query(const struct web_request *request, const char *key);
const char *web_header(const struct web_request *request, const char *name);

/* Asked each second while a client is waited for; false: no longer. */
struct web_patience {
	bool (*may_wait)(void *arg);
	void *arg;
};

/* The next bytes of a body of WEB_BODY_STREAM, inflated, at least one; waits for them, on
 * a worker. 0: that was all. ERR_NETWORK: the client is gone, or was too slow and so was
 * cut; ERR_BUSY: patience is over; ERR_CONFIG: it is no gzip, or cut; ERR_CANCELED: the
 * node ends. What a handler
 * leaves unread is read and thrown away before its answer is sent; but a client that asks
 * by Expect is not told to send before the first call of this. */
ssize_t web_read_upload(const struct web_request *request, void *buffer, size_t size,
			struct err *err);

/* From now on; borrowed until the handler returns. NULL: none. */
void web_set_patience(const struct web_request *request,
		      const struct web_patience *patience);

/* A number of the query; *value stays if it is absent. ERR_CONFIG: not within 0..max. */
int web_query_number(const struct web_request *request, const char *key, uint64_t max,
		     uint64_t *value, struct err *err);

struct web_header_field {
	const char *name;  /* static */
	const char *value; /* static, or */
	char *own;         /* ... this; owned, or NULL */
};

/* Bytes that somebody else owns. */
struct web_shared {
	const char *data;
	size_t len;
	void (*release)(void *owner); /* called once, when they are not needed any more */
	void *owner;                  /* NULL: there are none */
};

struct web_response {
	int status;       /* 200 if the handler does not say */
	bool is_expected; /* even if 500 or more: it is what was asked for */
	const char *content_type;
	struct str body;
	struct web_shared shared; /* instead of body */
	VEC(struct web_header_field) headers;
	/* Instead of body: read is called until it gives 0 (end) or -1 (drop). */
	ssize_t (*read)(void *stream, void *buffer, size_t size);
	void (*close)(void *stream);
	void *stream;
	int64_t until; /* boot ms at which the stream is closed; 0: never */
	/* Whether others wait for what the stream holds: then it is closed if its client
	 * takes fewer than so many bytes a second. May be NULL. */
	bool (*is_wanted)(void *stream);
	uint64_t least_rate;
	/* How many bytes the stream gives, if that is known: it is told in the head, and
	 * fewer are a stream that broke. 0: not known. */
	uint64_t length;
	/* Of a stream whose length is known; may be NULL. Gives at most `max` of the next
	 * bytes, never the last one, to a socket that does not block: how many, or -1
	 * with errno. */
	ssize_t (*send)(void *stream, int socket, size_t max);
	bool may_leave_length_out; /* other headers tell it, so that the connection stays
				    */
};

/* `value` is static. */
void web_set_header(struct web_response *response, const char *name, const char *value);

/* `name` is static. */
PRINTF_LIKE(3, 4)
void web_add_header(struct web_response *response, const char *name, const char *fmt,
		    ...);

/* The body becomes this JSON, whose reference is taken. */
void web_answer_json(struct web_response *response, int status, json_t *object);

/* Problem details (RFC 9457): {"code", "message", "remedy", "type", "title", "status",
 * "detail"}. */
#define WEB_PROBLEM_TYPE "application/problem+json"
void web_answer_problem(struct web_response *response, int status, const char *code,
			const char *message, const char *remedy);

/* Says by which tag (with its quotes) a client may ask again, and makes it a 304 without
 * a body if the request shows that tag. */
void web_answer_tagged(const struct web_request *request, struct web_response *response,
		       const char *etag);

#endif
