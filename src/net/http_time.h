/*
 * Times as they stand in headers and bodies of docs/protocol.md. Pure; any thread.
 */
#ifndef NET_HTTP_TIME_H
#define NET_HTTP_TIME_H

#include "base/base.h"

/* Reads "2026-11-21T09:14:03.120Z", the milliseconds may be absent; false if the text is
 * anything else. */
bool http_time_parse_iso(const char *text, int64_t *wall_ms);

#define HTTP_TIME_SIZE 40

/* "Sat, 21 Nov 2026 09:14:03 GMT": RFC 9110, 5.6.7. */
void http_time_format(int64_t wall_ms, char text[HTTP_TIME_SIZE]);

#endif
