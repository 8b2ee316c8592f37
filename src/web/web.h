/*
 * The HTTP server's frame: a request as its handler sees it, and the answer it fills in
 * (the table of routes is web/route.h's). Handlers run on a separate thread for each
 * request and may wait; they do not start long work.
 *
 * Only server.c, exchange*.c, head.c, flow.c, upload.c and tls.c use libmicrohttpd.
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
	char site[SITE_NAME_SIZE]; /* the site of the token; "" otherwise */
	char user[WEB_USER_SIZE];  /* the user, by password or token, for logs and hooks;
				      "": unknown */
	bool may_operate;          /* an operator asks; also on routes open to others */
	const char *client;        /* the client's address, "192.0.2.7", "2001:db8::7" */
	bool is_secure;            /* it came by TLS, to here or to a trusted proxy */
	const struct str *body;    /* whole, inflated; at most 1 MiB */
	int body_fd;   /* a larger one of Git's, or a webhook's: a file, inflated, at its
			  start; or -1 */
	bool may_wait; /* false: with WEB_QUICK, at first */
	bool has_upload;         /* WEB_BODY_STREAM: the body is read as it arrives */
	const struct stop *stop; /* requested when the server ends: for waits */
	const struct stop *cut;  /* ... when its grace period ends: for streams */
	void *connection;        /* for web/exchange.c */
};

/* The last value of a query parameter, decoded, or NULL. Borrowed for the request. */
const char *web_query(const struct web_request *request, const char *key);
const char *web_header(const struct web_request *request, const char *name);

/* Called each second while waiting for a client; false: stop waiting. */
struct web_patience {
	bool (*may_wait)(void *arg);
	void *arg;
};

/* The next bytes of a body of WEB_BODY_STREAM, inflated, at least one; waits for them, on
 * a worker. 0: the end. ERR_NETWORK: the client is gone, or was cut off as too slow;
 * ERR_BUSY: patience has run out; ERR_CONFIG: invalid or truncated gzip; ERR_CANCELED:
 * the node ends. Bytes that a handler leaves unread are discarded before its answer is
 * sent; but a client that sends Expect is asked to continue only by the first call of
 * this. */
ssize_t web_read_upload(const struct web_request *request, void *buffer, size_t size,
			struct err *err);

/* Applies from now on; borrowed until the handler returns. NULL: unlimited patience. */
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

/* Bytes with another owner. */
struct web_shared {
	const char *data;
	size_t len;
	void (*release)(void *owner); /* called once, when they are no longer needed */
	void *owner;                  /* NULL: no shared bytes */
};

struct web_response {
	int status;       /* 200 unless the handler sets it */
	bool is_expected; /* even if 500 or more: a normal answer to the request */
	const char *content_type;
	struct str body;
	struct web_shared shared; /* instead of body */
	VEC(struct web_header_field) headers;
	/* Instead of body: read is called until it returns 0 (end) or -1 (drop). */
	ssize_t (*read)(void *stream, void *buffer, size_t size);
	void (*close)(void *stream);
	void *stream;
	int64_t until; /* boot ms at which the stream is closed; 0: never */
	/* Whether others wait for the resource that the stream holds: then it is closed
	 * if its client takes fewer than least_rate bytes a second. May be NULL. */
	bool (*is_wanted)(void *stream);
	uint64_t least_rate;
	/* How many bytes the stream gives, if known: sent in the head; if fewer come, the
	 * stream broke. 0: unknown. */
	uint64_t length;
	/* For a stream of known length; may be NULL. Writes at most `max` of the next
	 * bytes, never the last one, to a non-blocking socket; returns how many, or -1
	 * with errno. */
	ssize_t (*send)(void *stream, int socket, size_t max);
	bool may_leave_length_out; /* other headers give it, so the connection can stay */
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

/* Sets the tag (with its quotes) by which a client may ask again, and makes it a 304
 * without a body if the request has that tag. */
void web_answer_tagged(const struct web_request *request, struct web_response *response,
		       const char *etag);

#endif
