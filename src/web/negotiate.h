/*
 * What a client can take, and what it has already: the headers Accept-Encoding and
 * If-None-Match. Plain functions; they never fail, whatever is in a header.
 *
 * Source: RFC 9110, 12.5.3 and 13.1.2.
 */
#ifndef WEB_NEGOTIATE_H
#define WEB_NEGOTIATE_H

#include "base/base.h"

/* Whether gzip may be sent. NULL: no such header, no gzip. */
bool negotiate_gzip(const char *accept_encoding);

/* Whether the client has what the tag (with its quotes, strong) stands for. NULL, and
 * what is no list of tags: no. */
bool negotiate_matches(const char *if_none_match, const char *etag);

#endif
