/*
 * One HTTP request, the base of all requests of this program: its transport, its body,
 * its answer as it arrives, its deadlines, and the meaning of libcurl's errors. The
 * callers decide what to ask and what to do with the answer (net/site_client.h,
 * net/forward.h, net/http_ask.h). One thread at a time per call.
 *
 * It connects directly by HTTP/1.1, without libcurl's use of the environment: redirects
 * are not followed, cookies not kept, proxies of the environment not used, and content
 * not decoded.
 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include "base/base.h"
#include "base/deadline.h"
#include "base/str.h"
#include "base/thread.h"

/* A handle of libcurl with at most one connection, which is kept between calls. */
struct http_line {
	void *multi;
	int64_t idle_since; /* boot ms; for the owner */
};

struct http_line http_line_open(void);
void http_line_close(struct http_line *line);

struct http_header {
	const char *name;
	const char *value; /* NULL: not sent, even if libcurl has a default */
};

struct http_request {
	const char *method;                /* "GET", "HEAD", "POST", "PUT", "DELETE" */
	const char *url;                   /* whole */
	const struct http_header *headers; /* ends with a NULL name; NULL: no headers */
	const char *user, *password;       /* for Basic; NULL: no credentials */
	const char *ca_file; /* authorities instead of the system's; may be NULL */
	/* The body: in memory; or streamed by `read`: at least one byte, 0: its end, -1
	 * with *err: broken. `read` may wait, but must then obey the stop by itself; it
	 * is not called before the other side, asked by Expect: 100-continue, wants the
	 * body (if its size is unknown, or above 1 MiB), nor after it has answered with
	 * 300 or more. Both NULL: a POST or PUT has an empty body, others are without
	 * one. */
	const void *body;
	ssize_t (*read)(void *arg, void *buffer, size_t size, struct err *err);
	void *arg;
	uint64_t body_size;  /* UINT64_MAX: unknown, sent in chunks */
	int64_t continue_ms; /* how long it is waited for that word, which not every
				server says; 0: 2 s */
	int64_t connect_ms;  /* 0: libcurl's own */
	int64_t silence_ms;  /* longest time in which the other side may neither take nor
				send anything while it is waited for; 0: no limit */
	int64_t until;       /* boot ms; 0: never */
	const struct stop *stop;   /* may be NULL; borrowed until the end, as read, arg */
	struct deadline *deadline; /* one that may move; may be NULL */
};

/* Buffered bytes. */
struct http_bytes {
	char *data; /* owned */
	size_t at, len;
};

struct http_call {
	/* Set by the caller before the beginning. */
	struct http_line line;
	struct http_request request; /* URL, headers: only read by http_begin */
	const char *peer;            /* the other side in messages; borrowed */
	const char *remedy;          /* for errors without a specific one; static */
	/* Takes bytes of the answer's body; -1 ends the call with that error. NULL: they
	 * are buffered for http_read(). */
	int (*take)(void *taker, const char *bytes, size_t count, struct err *err);
	void *taker;
	long buffer_size;       /* for libcurl's reads; 0: its default */
	bool wants_certificate; /* for http_get_certificate_end() */
	long kept_s; /* longest idle time of a reused connection; 0: libcurl's default */

	/* State of the call. */
	void *easy;            /* the handle of libcurl */
	long status;           /* 0: none yet above 199 */
	bool has_whole_head;   /* the empty line after it has arrived */
	bool is_head_too_long; /* the reason for its end */
	bool has_ended;        /* with `code` */
	int code;              /* libcurl's */
	int64_t arrived_at;    /* wall ms of the answer's first line */
	struct err failure;    /* with a class: the reason why it broke off */

	/* Internal. */
	struct curl_slist *headers;
	struct http_bytes piece; /* of the body: read, but not yet taken by libcurl */
	struct http_bytes held;  /* of the answer: arrived, but not yet read */
	uint64_t body_read;      /* bytes */
	uint64_t body_taken;     /* by libcurl: if above 0 the request cannot be
				    repeated */
	bool is_head;            /* the method */
	bool has_body_ended;
	bool wants_body;   /* libcurl paused the body: the piece was empty */
	bool is_held_back; /* libcurl paused the answer: the buffer was full */
	bool is_woken;     /* something may have happened since the last check */
	size_t head_bytes;
	int64_t begun_at, moved_at; /* boot ms */
	int64_t moved;              /* bytes of both directions, when they last moved */
	char detail[256];           /* libcurl's error text */
};

/* Why it is not an http(s) URL without user and fragment, or NULL; appends to `host` (may
 * be NULL) the part for messages: the URL without path and query. */
const char *http_check_url(const char *url, bool may_have_query, struct str *host);

/* Resolves `location`, which may be relative, against that URL. NULL: invalid. The caller
 * frees. */
char *http_resolve_url(const char *url, const char *location);

/* "Authorization: Basic ...", secret. NULL is "". The caller wipes and frees. */
char *http_make_basic_header(const char *user, const char *password);

/* A `take`, of a struct http_limit: appends the body to `body`; more than `most` bytes
 * are an error of this class and text. */
struct http_limit {
	struct str *body;
	size_t most;
	enum err_class class;
	const char *too_long;
};
int http_take_limited(void *limit, const char *bytes, size_t count, struct err *err);

/* The headers of a request like git's, and their end: `authorization` is a whole line,
 * `type` that of a body; both may be NULL. Returns their number without the end. */
#define HTTP_GIT_HEADERS 6
size_t http_fill_git_headers(const char *authorization, const char *type,
			     struct http_header *headers);

/* Call http_end() after this, also after an error. ERR_CONFIG: a header is invalid. */
int http_begin(struct http_call *call, struct err *err);

/* Continues until `is_enough`, which is called after each progress and true for an ended
 * call. A request on a kept connection that the other side had closed meanwhile is
 * repeated once, if no byte of its body was sent. ERR_CANCELED: stop; ERR_LOST: the
 * deadline; ERR_TIMEOUT: until, or silence; or the error of `read`. How the call itself
 * ended is not reported here. */
int http_run(struct http_call *call, bool (*is_enough)(const struct http_call *),
	     struct err *err);

/* For http_run(): the whole answer has arrived; its head has. */
bool http_has_ended(const struct http_call *call);
bool http_has_answer(const struct http_call *call);

/* Whether the answer is complete: 0, or the error. ERR_NETWORK: no connection, it broke,
 * or it was not HTTP; ERR_TIMEOUT; ERR_CONFIG: invalid URL; or the error of `take`. */
int http_check_end(const struct http_call *call, struct err *err);

/* All of it: begins, runs until the whole answer has arrived, and checks that. */
int http_complete(struct http_call *call, struct err *err);
int http_fail(const struct http_call *call, struct err *err); /* it is not */
const char *http_describe_end(const struct http_call *call);
enum err_class http_classify_status(int status); /* of 400 or more */
bool http_is_no_http(const struct http_call *call);
bool http_is_bad_certificate(const struct http_call *call);

/* From the head: the index-th value of that header, or NULL. Borrowed for the call. */
const char *http_find_header(const struct http_call *call, const char *name,
			     size_t index);

/* Of the answer's body; -1: not given. */
int64_t http_get_length(const struct http_call *call);
int64_t http_get_date(const struct http_call *call); /* wall ms; 0: not given */

/* Likewise: Last-Modified. NULL: not given, or unreliable: within a minute it may change
 * again and keep the same time. */
const char *http_find_modified(const struct http_call *call);

bool http_has_no_body(const struct http_call *call);

/* When the other side's certificate expires, wall ms; 0: not shown, or unknown. */
int64_t http_get_certificate_end(const struct http_call *call);

/* How long the other side asked to be left alone: by Retry-After, or since its quota of
 * requests is used up (as reported by GitHub and GitLab); at most a day. A 429 without
 * further information: a minute. 0: it did not ask. */
int64_t http_get_rest_ms(const struct http_call *call);

/* Checks that the head says where the answer ends; for libcurl it may end with the
 * connection. */
int http_check_length(const struct http_call *call, const char *remedy, struct err *err);

bool http_is_sent(const struct http_call *call); /* perhaps only a byte of it */

/* The next buffered bytes, at least one; 0: its end; -1: it broke off. */
ssize_t http_read(struct http_call *call, void *buffer, size_t size, struct err *err);

/* Called before the end of the answer it breaks the connection. The line is the caller's
 * again; false: its connection is not worth keeping. */
bool http_end(struct http_call *call);

#endif
