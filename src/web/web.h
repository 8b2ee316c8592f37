/*
 * The HTTP server's frame: a request as its handler sees it, the answer it fills in, and
 * the table of routes. Handlers run on the connection's own thread and may wait; they
 * start no long work.
 *
 * Only web/server.c and web/exchange.c know libmicrohttpd.
 */
#ifndef WEB_WEB_H
#define WEB_WEB_H

#include "base/base.h"
#include "base/json.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/vec.h"
#include "net/site_token.h"

struct web_services; /* web/services.h */

/* What a request needs to be let through; who asks has one of these at most. */
enum web_right {
	WEB_ANYBODY,    /* /healthz, /readyz */
	WEB_READER,     /* a site, an operator, or loopback as interface says */
	WEB_SITE,       /* a site or an operator */
	WEB_OPERATOR,   /* an operator only */
	WEB_GIT_READER, /* a git child, an operator, or anybody if anonymousRead */
};

struct web_request {
	const struct web_services *services;
	const char *method;
	const char *target; /* path and query as sent */
	const char *name;   /* what {name} of the route matched, decoded; or NULL */
	char site[SITE_NAME_SIZE]; /* whose token it was; "" otherwise */
	const struct str *body;    /* of API requests: whole, at most 1 MiB */
	int body_fd; /* of Git requests: a file, inflated, at its start; or -1 */
	const struct stop *stop; /* requested when the server ends: for waits */
	const struct stop *cut;  /* ... when its grace is over: for streams */
	void *connection;        /* for web/exchange.c */
};

/* The last value of a query parameter, decoded, or NULL. Borrowed for the request. */
const char *web_query(const struct web_request *request, const char *key);
const char *web_header(const struct web_request *request, const char *name);

/* A number of the query; *value stays if it is absent. ERR_CONFIG: not within 0..max. */
int web_query_number(const struct web_request *request, const char *key, uint64_t max,
		     uint64_t *value, struct err *err);

struct web_header_field {
	char name[32];
	char value[160];
};

struct web_response {
	int status;       /* 200 if the handler does not say */
	bool is_expected; /* even if 500 or more: it is what was asked for */
	const char *content_type;
	struct str body;
	VEC(struct web_header_field) headers;
	/* Instead of body: read is called until it gives 0 (end) or -1 (drop). */
	ssize_t (*read)(void *stream, void *buffer, size_t size);
	void (*close)(void *stream);
	void *stream;
};

PRINTF_LIKE(3, 4)
void web_add_header(struct web_response *response, const char *name, const char *fmt,
		    ...);

/* The body becomes this JSON, whose reference is taken. */
void web_answer_json(struct web_response *response, int status, json_t *object);

/* {"code", "message", "remedy"}. */
void web_answer_problem(struct web_response *response, int status, const char *code,
			const char *message, const char *remedy);

/* -1 makes the answer a problem; its code is the class of *err in upper case, its status:
 * missing 404, conflict and busy 409, config 400, auth 403, disk 507, timeout 504,
 * canceled 503, others 500. */
typedef int (*web_handler)(const struct web_request *request,
			   struct web_response *response, struct err *err);

enum web_body { WEB_BODY_NONE, WEB_BODY_MEMORY, WEB_BODY_FILE };

struct web_route {
	const char *method; /* GET also stands for HEAD */
	/* "{name}" alone in a segment is one percent-encoded segment; "{path}" at the
	 * start is everything up to what follows: "/{path}/info/refs". */
	const char *pattern;
	enum web_right right;
	enum web_body body;
	web_handler handle;
};

/* All routes, by files; each ends with a handler of NULL. web/routes.c joins them. */
extern const struct web_route web_git_routes[];
extern const struct web_route web_health_routes[];
extern const struct web_route web_event_routes[];
extern const struct web_route web_repository_routes[];
extern const struct web_route web_lease_routes[];
extern const struct web_route web_push_routes[];
extern const struct web_route *const web_routes[];

struct web_server;
struct web_server_options {
	const char *listen; /* "127.0.0.1:8418", "[::1]:8418", "*:8418"; port 0: any */
	const struct web_services *services;
	unsigned connections; /* at most; 0: 256 */
	int64_t idle_ms;      /* how long a client may be silent; 0: two minutes */
	const struct web_route *const *routes; /* NULL: web_routes */
};

/* A thread a connection. ERR_CONFIG: no such address; ERR_BUSY: it is taken. */
int web_server_start(const struct web_server_options *options, struct web_server **server,
		     struct err *err);
uint16_t web_server_port(const struct web_server *server);

/* NULL is allowed. No new connections; waiting requests are answered; streams have until
 * `grace_ms`. */
void web_server_stop(struct web_server *server, int64_t grace_ms);

#endif
