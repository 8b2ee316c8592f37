/*
 * The headers that the server itself looks at, found in one pass over all of them: most
 * requests have none of these. Borrowed from the connection for the request. That they do
 * not contradict each other web/judge.h has seen to.
 */
#ifndef WEB_HEAD_H
#define WEB_HEAD_H

#include <microhttpd.h>

#include "base/base.h"
#include "base/str.h"

/* The first of each name counts. */
struct head_value {
	const char *text; /* NULL: there is none */
	unsigned count;
};

struct head {
	struct head_value authorization, content_encoding, content_length, host,
		transfer_encoding;
	struct head_value forwarded_proto;
	bool is_forwarded; /* it has Forwarded, X-Forwarded-For or -Proto, X-Real-IP, Via
			    */
};

void head_read(struct MHD_Connection *connection, struct head *head);

/* Appends all X-Forwarded-For in their order, with commas between. */
void head_add_forwarded_for(struct MHD_Connection *connection, struct str *out);

/* The length that the client announced: UINT64_MAX if it comes in chunks. */
uint64_t head_length(const struct head *head);

/* Whether the client asks for this machine by an address or as localhost. A browser that
 * was given our address for some other name, by whoever owns that name, does not. */
bool head_host_is_plain(const struct head *head);

#endif
