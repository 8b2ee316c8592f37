/*
 * A secondary's request to the primary in place of its client: sent on as it comes, and
 * its answer handed on as it comes. What may be asked so, and by whose right, the callers
 * know (web/git_forward.c, web/lfs.c, web/blob_put.c). Internal to web/.
 */
#ifndef WEB_PASS_ON_H
#define WEB_PASS_ON_H

#include "base/log.h"
#include "base/pace.h"
#include "net/forward.h"
#include "web/services.h"
#include "web/web.h"

struct pass_on;

/* What differs by what is passed on. */
struct pass_on_kind {
	/* Of the log: events, the field that the name has, and what "kind" says (NULL:
	 * the type of the blobs, if it is one). */
	const char *forwarded, *not_forwarded, *broken;
	const char *name_field, *type;
	/* For a 503: "blobs are put at the primary", and what to do then. */
	const char *unreached, *remedy;
	const char *const *headers; /* the client's that are given on; ends with NULL */
	/* Asked for by this site's right, which is shown for so long (0: as long as
	 * serving may take): 401 and 403 are no answers, unless, with reports_closed, the
	 * repository itself keeps clients out. */
	bool is_own_right;
	int64_t token_s;
	bool reports_closed;
	bool knows_front; /* a server in front of the primary is not taken for it */
	/* How it went, before the answer is made; 0: there is one. May be NULL. */
	void (*settle)(struct pass_on *passing, int result, bool is_sent);
	void (*finish_answer)(struct web_response *response); /* may be NULL */
	/* The client has its answer, or never will have it. May be NULL. */
	void (*end)(struct pass_on *passing);
};

struct pass_on {
	const struct pass_on_kind *kind;
	const struct web_services *services;
	const struct web_request *request; /* NULL: its body is not to be had any more */
	struct forward *forward;
	struct fair *places; /* that are shared, or NULL */
	struct fair_place place;
	struct pace pace; /* of a client that sends */
	struct web_patience patience;
	const struct str *body; /* in place of the request's, or NULL */
	size_t at;              /* of a body that is here */
	char *name, *type;      /* owned; type: for the log, or NULL */
	bool is_marked;         /* git_forward.c's: what is handed on may be newer */
};

/* With the answer made (508): the request went through this very site before. */
bool pass_on_is_loop(const struct web_request *request, struct web_response *response);

/* Waits for one of the `places`, where they are limited (NULL: they are not). NULL: there
 * is none, and the client is told to come again. */
struct pass_on *pass_on_new(const struct pass_on_kind *kind,
			    const struct web_request *request, const char *name,
			    struct fair *places, struct web_response *response);

void pass_on_close(struct pass_on *passing);

/* Of the request's body; UINT64_MAX: not known before its end. */
uint64_t pass_on_body_size(const struct pass_on *passing);

/* Asks the primary for what the client asked, and waits for the head of its answer.
 * `asked` says body_size, silence_ms, until; and the URL, if url_end is NULL, which
 * otherwise stands behind the repository's. -1: ERR_NETWORK, ERR_TIMEOUT, ... */
int pass_on_open(struct pass_on *passing, struct http_request asked, const char *url_end,
		 struct err *err);

/* Makes the answer of what the primary said, or of that it said what is not for the
 * client (502); takes `passing`. */
void pass_on_hand_on(struct pass_on *passing, struct web_response *response);

/* Both, with a line in the log that says besides its status also what is in `said` (ends
 * with a NULL name); takes `passing` in any case. -1: nothing is answered yet. */
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
