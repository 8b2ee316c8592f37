/*
 * An answer while it is made up. Plain data, for one thread at a time.
 */
#ifndef WEB_ANSWER_H
#define WEB_ANSWER_H

#include "base/base.h"
#include "web/web.h"

/* Makes it an empty 200, closing the stream that it may have. */
void answer_reset(struct web_response *response);

/* Makes it the problem that *err is, with its reason if it has one; status 0: by its
 * class. */
void answer_err(struct web_response *response, int status, const struct err *err);

/* A problem as two lines of text: git shows its user text and no JSON. */
void answer_as_text(struct web_response *response);

/* A problem, with its members, as what it was called before RFC 9457. */
void answer_as_json(struct web_response *response);

/* A problem as git-lfs wants it: it shows its user the message alone. */
void answer_as_lfs(struct web_response *response);

/* Gives shared bytes back, if there are any. */
void answer_release(struct web_shared *shared);

bool answer_has_header(const struct web_response *response, const char *name);

/*
 * What a client can take, what it has already, and what it wants of it: the headers
 * Accept-Encoding, If-None-Match, If-Match, If-Range and Range. Plain functions; they
 * never fail, whatever is in a header.
 *
 * Source: RFC 9110, 12.5.3, 13.1 and 14.1.2.
 */

/* Whether gzip may be sent. NULL: no such header, no gzip. */
bool negotiate_gzip(const char *accept_encoding);

/* Whether the client has what the tag (with its quotes, strong) stands for. NULL, and
 * what is no list of tags: no. */
bool negotiate_matches(const char *if_none_match, const char *etag);

/* Whether If-Match allows what the tag stands for: there it must be the same byte for
 * byte, so a weak tag never is. NULL: it does. */
bool negotiate_allows(const char *if_match, const char *etag);

/* Whether If-Range asks for a part of just this. NULL: it does; a date never does, as a
 * file may change twice a second. */
bool negotiate_is_part_of(const char *if_range, const char *etag);

/* Range, for something of `size` bytes. */
enum negotiated_range {
	RANGE_ALL,  /* no such header, or one that may be ignored: several parts, no bytes
		     */
	RANGE_PART, /* *begin and *length, above 0 */
	RANGE_NONE, /* it has no such part */
};
enum negotiated_range negotiate_range(const char *range, uint64_t size, uint64_t *begin,
				      uint64_t *length);

#endif
