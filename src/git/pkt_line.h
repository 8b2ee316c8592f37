/*
 * pkt-lines, in memory. Plain data.
 *
 * Source: gitprotocol-common(5), gitprotocol-v2(5).
 */
#ifndef GIT_PKT_LINE_H
#define GIT_PKT_LINE_H

#include "base/base.h"
#include "base/str.h"

#define PKT_LINE_MAX 65520 /* with its four digits */

enum pkt {
	PKT_LINE,
	PKT_FLUSH,     /* 0000 */
	PKT_DELIMITER, /* 0001 */
	PKT_END,       /* 0002, the end of a response */
	PKT_NO_MORE,   /* no bytes left */
	PKT_BROKEN,    /* not a pkt-line, or truncated */
};

struct pkt_reader {
	const char *at;
	size_t left;
};

/* The next one. With PKT_LINE, *line and *len are its content, a "\n" at its end
 * included; borrowed from the reader's bytes. */
enum pkt pkt_next(struct pkt_reader *reader, const char **line, size_t *len);

/* Whether more bytes can make a packet of the `left` at which it came to that: a line
 * that is cut looks broken, until there are more bytes than a line can have. */
bool pkt_is_cut(enum pkt pkt, size_t left);

/* Appends a line; len at most PKT_LINE_MAX - 4. */
void pkt_add(struct str *out, const char *line, size_t len);
PRINTF_LIKE(2, 3) void pkt_addf(struct str *out, const char *fmt, ...);

/* A line in parts: its content is appended between the two. begin: from pkt_begin. */
size_t pkt_begin(struct str *out);
void pkt_end(struct str *out, size_t begin);

void pkt_add_flush(struct str *out);

#endif
