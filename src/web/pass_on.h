/*
 * What is asked of the primary in place of this secondary, whatever it is: the parts that
 * do not depend on it. Internal to web/.
 */
#ifndef WEB_PASS_ON_H
#define WEB_PASS_ON_H

#include "net/forward.h"
#include "web/web.h"

enum { PASS_ON_HEADERS = 8 };

/* Those that are given on; the list ends with a NULL name. Values are borrowed. */
struct pass_on_headers {
	struct http_header list[PASS_ON_HEADERS];
	size_t count;
};

/* NULL: there is none. */
void pass_on_add(struct pass_on_headers *headers, const char *name, const char *value);

/* The client's own header of that name. */
void pass_on_copy(struct pass_on_headers *headers, const struct web_request *request,
		  const char *name);

/* With the answer made (508): the request went through this very site before. */
bool pass_on_is_loop(const struct web_request *request, struct web_response *response);

/* A problem between the sites. With 503 the client may try again. */
void pass_on_refuse(struct web_response *response, int status, const char *code,
		    const char *message, const char *remedy);

/* The primary answered us with what is none for the client: 502. */
void pass_on_refuse_status(struct web_response *response, int status);

/* Status and headers of the answer. */
void pass_on_head(const struct forward_answer *answer, struct web_response *response);

/* The primary answered before all of the body was asked for: what a reader of it says. */
int pass_on_answered_early(struct err *err);

#endif
