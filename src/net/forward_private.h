/*
 * What the files of net/forward share: a forward under way, and the connections that are
 * kept between forwards.
 */
#ifndef NET_FORWARD_PRIVATE_H
#define NET_FORWARD_PRIVATE_H

#include <curl/curl.h>

#include "net/forward.h"

#define FORWARD_LINES_KEPT 8

/* A pair of handles with at most one connection. */
struct forward_line {
	CURL *easy;
	CURLM *multi;
	int64_t idle_since; /* boot ms */
};

const char *forwarder_site(const struct forwarder *forwarder);
/* When a request was left without an answer, in boot ms; 0: one was answered. */
void forwarder_note(struct forwarder *forwarder, int64_t unanswered_at);

/* A kept one, the newest; else a fresh one. Any thread. */
struct forward_line forward_line_take(struct forwarder *forwarder);
/* Its easy handle has been taken out of the multi handle. Any thread. */
void forward_line_keep(struct forwarder *forwarder, struct forward_line line);
void forward_line_clear(struct forward_line *line);

/* Bytes between curl and us; at most FORWARD_PIECE of a body, or FORWARD_HELD of an
 * answer. */
struct forward_bytes {
	char *data; /* owned */
	size_t at, len;
};

#define FORWARD_PIECE (64u << 10)
#define FORWARD_HELD (256u << 10)

struct forward {
	struct forwarder *forwarder;
	struct forward_request request; /* strings and headers: only in forward_open */
	char *host;                     /* of the URL, for messages; owned */
	struct forward_line line;
	struct curl_slist *headers;
	char detail[CURL_ERROR_SIZE];

	/* The body. */
	struct forward_bytes piece; /* read, and not yet taken by curl */
	uint64_t body_read;         /* bytes */
	bool has_body_ended;
	bool wants_body;     /* curl paused the body: the piece was empty */
	uint64_t body_taken; /* bytes that curl took of it: from then on it cannot be
				repeated */

	/* The answer. */
	struct forward_bytes held; /* come, and not yet read */
	size_t head_bytes;
	long status;         /* 0: none yet, but of 100 to 199 */
	bool has_whole_head; /* the empty line after it came */
	bool is_head_too_long;
	bool is_held_back; /* curl paused the answer: there was no room */

	bool is_woken;  /* something may have happened since the last look */
	bool has_ended; /* with `code` */
	CURLcode code;
	curl_off_t moved;   /* bytes of both ways, when they moved last */
	int64_t moved_at;   /* boot ms */
	struct err failure; /* with a class: it broke off, for this reason */
};

/* Fills line and headers. ERR_CONFIG: a header is none. */
int forward_set_up(struct forward *forward, const char *site, struct err *err);

/* What a header Via of our own adds; the caller frees. `via`: what came, or NULL. */
char *forward_via(const char *via, const char *site);

/* Whether the other site has answered so that the rest of the body is of no use. */
static inline bool forward_is_refused(const struct forward *forward)
{
	return forward->has_whole_head && forward->status >= 300;
}

/* The one place where libcurl's errors become ours. */
int forward_curl_error(const struct forward *forward, struct err *err);

#endif
