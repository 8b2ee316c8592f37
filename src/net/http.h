/*
 * One HTTP request, as all of this program are made: how it travels, its body, its answer
 * as it comes, when it ends, and what an error of libcurl means. What is asked, and what
 * becomes of the answer, is the callers' (net/site_client.h, net/forward.h,
 * net/http_ask.h). One thread at a time a call.
 *
 * It goes straight there by HTTP/1.1, with nothing that libcurl would take from its
 * surroundings: redirects are not followed, cookies not kept, no proxy of the environment
 * used, and no content is decoded.
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
	int64_t idle_since; /* boot ms; the keeper's */
};

struct http_line http_line_open(void);
void http_line_close(struct http_line *line);

struct http_header {
	const char *name;
	const char *value; /* NULL: it is not sent, even if libcurl has one */
};

struct http_request {
	const char *method;                /* "GET", "HEAD", "POST", "PUT", "DELETE" */
	const char *url;                   /* whole */
	const struct http_header *headers; /* ends with a NULL name; NULL: none */
	const char *user, *password;       /* by Basic; NULL: no credentials */
	const char *ca_file; /* of authorities, in place of the system's; may be NULL */
	/* The body: in memory; or as it comes: at least one byte, 0: its end, -1 with
	 * *err: it broke. That may wait, then it has to obey the stop by itself; it is
	 * not called before the other side, asked by Expect: 100-continue, wants the body
	 * (a body of unknown size, or above 1 MiB), nor after it has answered with 300
	 * or more. Both NULL: a POST or PUT has an empty one, others have none. */
	const void *body;
	ssize_t (*read)(void *arg, void *buffer, size_t size, struct err *err);
	void *arg;
	uint64_t body_size; /* UINT64_MAX: not known, then it is sent in chunks */
	int64_t connect_ms; /* 0: libcurl's own */
	int64_t silence_ms; /* the other side neither takes nor says anything for so long
			       while it is waited for; 0: no limit */
	int64_t until;      /* boot ms; 0: never */
	const struct stop *stop;   /* may be NULL; borrowed until the end, as read, arg */
	struct deadline *deadline; /* that may move; may be NULL */
};

/* Bytes that wait for their taker. */
struct http_bytes {
	char *data; /* owned */
	size_t at, len;
};

struct http_call {
	/* The caller's, before it begins. */
	struct http_line line;
	struct http_request request; /* URL, headers: only read by http_begin */
	const char *peer;            /* the other side in messages; borrowed */
	const char *remedy;          /* of errors that have none of their own; static */
	/* Takes bytes of the answer's body; -1 ends the call with that error. NULL: they
	 * are held for http_read. */
	int (*take)(void *taker, const char *bytes, size_t count, struct err *err);
	void *taker;
	long buffer_size;       /* of what libcurl reads at once; 0: its own */
	bool wants_certificate; /* for http_get_certificate_end() */
	long kept_s; /* a kept connection is not used after such a rest; 0: as above */

	/* How it goes. */
	void *easy;            /* the handle of libcurl */
	long status;           /* 0: none yet, but of 100 to 199 */
	bool has_whole_head;   /* the empty line after it came */
	bool is_head_too_long; /* why it ended */
	bool has_ended;        /* with `code` */
	int code;              /* libcurl's */
	int64_t arrived_at;    /* wall ms of the answer's first line */
	struct err failure;    /* with a class: it broke off, for this reason */

	/* Internal. */
	struct curl_slist *headers;
	struct http_bytes piece; /* of the body: read, and not yet taken by libcurl */
	struct http_bytes held;  /* of the answer: come, and not yet read */
	uint64_t body_read;      /* bytes */
	uint64_t body_taken;     /* by libcurl: from then on it cannot be repeated */
	bool is_head;            /* the method */
	bool has_body_ended;
	bool wants_body;   /* libcurl paused the body: the piece was empty */
	bool is_held_back; /* libcurl paused the answer: there was no room */
	bool is_woken;     /* something may have happened since the last look */
	size_t head_bytes;
	int64_t begun_at, moved_at; /* boot ms */
	int64_t moved;              /* bytes of both ways, when they moved last */
	char detail[256];           /* libcurl's, of an error */
};

/* Why it is not an http(s) URL without user and fragment, or NULL; appends to `host` (may
 * be NULL) what messages may name: it without path and query. */
const char *http_check_url(const char *url, bool may_have_query, struct str *host);

/* Where `location`, which may be relative, leads from that URL. NULL: it leads nowhere.
 * The caller frees. */
char *http_resolve_url(const char *url, const char *location);

/* "Authorization: Basic ...", secret. NULL is "". The caller wipes and frees. */
char *http_make_basic_header(const char *user, const char *password);

/* After this http_end is due, also after an error. ERR_CONFIG: a header is none. */
int http_begin(struct http_call *call, struct err *err);

/* Goes on until `is_enough`, which is asked after each move and true of what has ended.
 * A request on a kept connection that the other side had closed meanwhile is repeated
 * once, if no byte of its body was sent. ERR_CANCELED: stop; ERR_LOST: the deadline;
 * ERR_TIMEOUT: until, or silence; or what `read` failed with. How the call itself ended
 * is not said here. */
int http_run(struct http_call *call, bool (*is_enough)(const struct http_call *),
	     struct err *err);

/* For http_run: all of the answer is here; its head is. */
bool http_has_ended(const struct http_call *call);
bool http_has_answer(const struct http_call *call);

/* Whether it is whole: 0, or why not. ERR_NETWORK: no connection, it broke, or it was no
 * HTTP; ERR_TIMEOUT; ERR_CONFIG: no such URL; or what `take` said. */
int http_check_end(const struct http_call *call, struct err *err);
int http_fail(const struct http_call *call, struct err *err); /* it is not */
const char *http_describe_end(const struct http_call *call);
enum err_class http_classify_status(int status); /* of 400 or more */
bool http_is_no_http(const struct http_call *call);
bool http_is_bad_certificate(const struct http_call *call);

/* With the head: the index-th value of that header, or NULL. Borrowed for the call. */
const char *http_find_header(const struct http_call *call, const char *name,
			     size_t index);

/* Of the answer's body; -1: not said. */
int64_t http_get_length(const struct http_call *call);
int64_t http_get_date(const struct http_call *call); /* wall ms; 0: not said */

/* Likewise: when it changed last. NULL: it is not said, or cannot be relied on, as within
 * a minute it may change again and have the same time. */
const char *http_find_modified(const struct http_call *call);

bool http_has_no_body(const struct http_call *call);

/* When the certificate that the other side has shown expires, wall ms; 0: it has shown
 * none, or this is not known. */
int64_t http_get_certificate_end(const struct http_call *call);

/* For so long the other side wants not to be asked again: by Retry-After, or since its
 * quota of requests is used up (as GitHub and GitLab say it); at most a day. A 429 that
 * says no more: a minute. 0: nothing is said. */
int64_t http_get_rest_ms(const struct http_call *call);

/* Whether the head says where the answer ends; for libcurl, where its connection does. */
int http_check_length(const struct http_call *call, const char *remedy, struct err *err);

bool http_is_sent(const struct http_call *call); /* a byte of it, maybe */

/* The next bytes that are held, at least one; 0: its end; -1: it broke off. */
ssize_t http_read(struct http_call *call, void *buffer, size_t size, struct err *err);

/* Before the end of the answer it breaks the connection. The line is the caller's again;
 * false: it has no connection that is worth being kept. */
bool http_end(struct http_call *call);

#endif
