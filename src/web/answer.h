/*
 * An answer under construction. Plain data, for one thread at a time.
 */
#ifndef WEB_ANSWER_H
#define WEB_ANSWER_H

#include "base/base.h"
#include "web/web.h"

/* Makes it an empty 200, closing its stream, if any. */
void answer_reset(struct web_response *response);

/* Makes it a problem from *err, with its reason if it has one; status 0: by its class. */
void answer_err(struct web_response *response, int status, const struct err *err);

/* Turns a problem into two lines of text: git shows its user text, not JSON. */
void answer_as_text(struct web_response *response);

/* Turns a problem, with its members, into the form used before RFC 9457. */
void answer_as_json(struct web_response *response);

/* Turns a problem into git-lfs's form: git-lfs shows its user only the message. */
void answer_as_lfs(struct web_response *response);

/* Releases the shared bytes, if any. */
void answer_release(struct web_shared *shared);

bool answer_has_header(const struct web_response *response, const char *name);

/*
 * Which encodings, versions and parts a client accepts, has or wants: the headers
 * Accept-Encoding, If-None-Match, If-Match, If-Range and Range. Plain functions; they
 * never fail, whatever a header contains.
 *
 * Source: RFC 9110, 12.5.3, 13.1 and 14.1.2.
 */

/* Whether gzip may be sent. NULL (no header): false. */
bool negotiate_gzip(const char *accept_encoding);

/* Whether the client has the version of this tag (with its quotes, strong). NULL, or not
 * a list of tags: false. */
bool negotiate_matches(const char *if_none_match, const char *etag);

/* Whether If-Match allows the version of this tag: it must match byte for byte, so a weak
 * tag never does. NULL: true. */
bool negotiate_allows(const char *if_match, const char *etag);

/* Whether If-Range asks for a part of exactly this version. NULL: true; a date: false, as
 * a file may change twice a second. */
bool negotiate_is_part_of(const char *if_range, const char *etag);

/* Range, for something of `size` bytes. */
enum negotiated_range {
	RANGE_ALL,  /* no header, or one that may be ignored: several parts, no bytes */
	RANGE_PART, /* *begin and *length, above 0 */
	RANGE_NONE, /* it does not have this part */
};
enum negotiated_range negotiate_range(const char *range, uint64_t size, uint64_t *begin,
				      uint64_t *length);

#endif
