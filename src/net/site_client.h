/*
 * The HTTP client for requests from one site to another: signed requests, one connection
 * kept open, every wait with a limit. One thread at a time per client.
 */
#ifndef NET_SITE_CLIENT_H
#define NET_SITE_CLIENT_H

#include "base/base.h"
#include "base/str.h"
#include "base/thread.h"
#include "wire/wire_token.h"

struct site_client;

struct site_answer;

/* Receives the body of an answer with status 200 or 206, piece by piece, instead of
 * memory; its head is known by then. -1 ends the request with that error. */
struct site_sink {
	int (*take)(void *arg, const struct site_answer *head, const void *bytes,
		    size_t len, struct err *err);
	void *arg;
};

struct site_request {
	const char *method; /* NULL: GET */
	const char *target; /* below the base URL: "/api/v1/...", percent-encoded */
	const void *body;
	size_t body_len;
	const char *content_type;
	const char *if_none_match;    /* may be NULL */
	const char *if_match;         /* may be NULL */
	const char *range;            /* "bytes=0-99"; may be NULL */
	const char *report;           /* value of Refrelay-Report; may be NULL */
	bool reports_bandwidth;       /* by Refrelay-Bandwidth */
	uint64_t bandwidth;           /* requested bytes a second; 0: no limit */
	int64_t timeout_ms;           /* for all of it; 0: 30 s */
	int64_t stall_ms;             /* without a byte of the answer; 0: timeout_ms */
	size_t limit;                 /* of the answer's body; 0: 64 MiB */
	const struct site_sink *sink; /* NULL: into site_answer.body */
	/* Called when the first bytes of the answer's body come; if it ends after its
	 * head, or breaks there, then. May be NULL. */
	void (*begun)(void *arg);
	void *begun_arg;
	const struct stop *stop; /* may be NULL */
};

struct site_answer {
	int status;
	struct str body;
	char etag[128];
	char timeline[40];   /* Refrelay-Timeline, or "" */
	char last_event[80]; /* Refrelay-Last-Event, or "" */
	char checksum[72];   /* Refrelay-Checksum, or "" */
	char range[80];      /* Content-Range, or "" */
	int64_t length;      /* Content-Length; -1: not given */
	int64_t time_ms;     /* Refrelay-Time, or else Date; 0: neither */
	int64_t skew_ms;     /* their clock minus ours, measured here; 0 without time */
	bool is_time_exact;  /* to the millisecond, not to the second */
	char code[64];       /* of an error answer, or "" */
};

#define AUTO_ANSWER __attribute__((cleanup(site_answer_clear)))

/* `url`: http or https, may have a path (of a proxy in front, which strips it: the target
 * is signed without it); `key` may be NULL (unsigned); both are copied. ERR_CONFIG: the
 * URL is invalid, or has a user's name, a query or a fragment. */
int site_client_open(const char *url, const struct site_key *key,
		     struct site_client **client, struct err *err);
void site_client_close(struct site_client *client);

/* Checks certificates of https against the authorities of that file only (NULL: of the
 * system). Copied; call it before the first request. */
void site_client_trust(struct site_client *client, const char *ca_file);

/* Any answer but a redirect is a success here, whatever its status. A request on a kept
 * connection that the other side had closed meanwhile is repeated once. ERR_NETWORK: no
 * connection, or it broke; ERR_TIMEOUT; ERR_CANCELED: stop; ERR_CORRUPT: more than limit
 * bytes, or not HTTP; ERR_CONFIG: a redirect, which is not followed; or the sink's error.
 * The caller clears the answer, also after an error. A sink may have received a part of
 * the body, or all of it, when the request fails; it never gets two answers in a call. */
int site_client_call(struct site_client *client, const struct site_request *request,
		     struct site_answer *answer, struct err *err);
void site_answer_clear(struct site_answer *answer);

/* The error for an answer with status 400 or more: message and remedy of its JSON; class
 * auth (401, 403), missing (404), conflict (409), timeout (408, 504), config (other 4xx),
 * network (429, 5xx, or an answer that is not from refrelay: then it says so). If the
 * clocks differ, it gives the measured difference. Returns -1. */
int site_answer_error(const struct site_answer *answer, struct err *err);

/* Appends text, percent-encoded as a path segment or a query value. */
void url_add_encoded(struct str *url, const char *text);

/* Appends "/" and each "/"-separated segment of `name`, percent-encoded. */
void url_add_path(struct str *url, const char *name);

#endif
