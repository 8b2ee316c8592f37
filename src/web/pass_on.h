/*
 * A client's request that a secondary forwards to the primary: request and answer are
 * passed on as they arrive. The callers decide which requests are forwarded, and by whose
 * right (web/git_forward.c, web/lfs.c, web/blob_put.c). Internal to web/.
 */
#ifndef WEB_PASS_ON_H
#define WEB_PASS_ON_H

#include "base/log.h"
#include "base/pace.h"
#include "net/forward.h"
#include "web/services.h"
#include "web/web.h"

struct pass_on;

/* The differences between kinds of forwarded requests. */
struct pass_on_kind {
	/* For the log: events, the field for the name, and the value of "kind" (NULL: the
	 * type of the blobs, if they have one). */
	const char *forwarded, *not_forwarded, *broken;
	const char *name_field, *type;
	/* For a 503: "blobs are put at the primary", and the remedy. */
	const char *unreached, *remedy;
	const char *const *headers; /* the client's headers to forward; ends with NULL */
	/* Requested by this site's right, with a token valid for token_s (0: as long as
	 * serving may take): 401 and 403 are not passed on, unless, with reports_closed,
	 * the repository itself keeps clients out; nor is a 409 without a reason. */
	bool is_own_right;
	int64_t token_s;
	bool reports_closed;
	bool knows_front; /* errors of a server in front of the primary are recognized */
	/* Called before the first byte of the client's body is sent. -1: nothing of it
	 * is. May be NULL. */
	int (*begin_body)(struct pass_on *passing, struct err *err);
	/* Called with the outcome, before the answer is made; 0: there is an answer. May
	 * be NULL. */
	void (*settle)(struct pass_on *passing, int result, bool is_sent);
	void (*finish_answer)(struct web_response *response); /* may be NULL */
	/* Called when the client has its answer, or will never get it. May be NULL. */
	void (*end)(struct pass_on *passing);
};

struct pass_on {
	const struct pass_on_kind *kind;
	const struct web_services *services;
	const struct web_request *request; /* NULL: its body can no longer be read */
	struct forward *forward;
	struct fair *places; /* shared ones, or NULL */
	struct fair_place place;
	struct pace pace; /* of a sending client */
	struct web_patience patience;
	const struct str *body; /* instead of the request's, or NULL */
	size_t at;              /* position in a body that is here */
	char *name, *type;      /* owned; type: for the log, or NULL */
	bool has_begun_body;
	/* For git_forward.c: */
	bool shows_refs; /* of a read: its answer may be newer than the copy */
	bool is_spared;  /* the copy does if the primary has nothing to say */
	bool is_marked;  /* the same of a push that has begun */
	bool *is_noted;  /* false: the mark of a push could not be written */
};

/* True, with the answer made (508): the request has passed through this site before. */
bool pass_on_is_loop(const struct web_request *request, struct web_response *response);

/* Waits for one of the `places`, if they are limited (NULL: they are not). Returns NULL:
 * all are taken; the answer tells the client to come again. */
struct pass_on *pass_on_new(const struct pass_on_kind *kind,
			    const struct web_request *request, const char *name,
			    struct fair *places, struct web_response *response);

/* What that says. */
#define PASS_ON_BUSY "too many requests are being passed on to the primary"

void pass_on_close(struct pass_on *passing);

/* Size of the request's body; UINT64_MAX: unknown before its end. */
uint64_t pass_on_body_size(const struct pass_on *passing);

/* Sends the client's request to the primary, and waits for the head of its answer.
 * `asked` gives body_size, silence_ms, until; also the URL if url_end is NULL; otherwise
 * url_end is appended to the repository's. -1: ERR_NETWORK, ERR_TIMEOUT, ... */
int pass_on_open(struct pass_on *passing, struct http_request asked, const char *url_end,
		 struct err *err);

/* Makes the answer from the primary's, or a 502 if that is not for the client; takes
 * `passing`. */
void pass_on_hand_on(struct pass_on *passing, struct web_response *response);

/* Both, with a line in the log with its status and the fields in `said` (ends with a NULL
 * name); takes `passing` in any case. -1: the answer is not made yet. */
int pass_on_send(struct pass_on *passing, struct http_request asked, const char *url_end,
		 const struct log_field *said, struct web_response *response,
		 struct err *err);

/* The primary was not reached (503), with a line in the log. */
void pass_on_refuse_unreached(const struct pass_on_kind *kind,
			      const struct web_request *request, const char *name,
			      const struct err *err, struct web_response *response);

/* A problem between the sites. With 503 the client may try again. */
void pass_on_refuse(struct web_response *response, int status, const char *code,
		    const char *message, const char *remedy);

#endif
