/*
 * Refuses pushes of refs so deep that the repository could not be read any more: nobody
 * follows directories without end, and git would make 2000 of them. Fed with the body as
 * it comes; looks no further than to the end of the commands. Plain data, zero at first.
 */
#ifndef SERVE_RECEIVE_DEPTH_H
#define SERVE_RECEIVE_DEPTH_H

#include "base/base.h"

enum {
	RECEIVE_SLASHES_MAX = 60, /* in a ref's name; refs are read to a depth of 64 */
	RECEIVE_DEPTH_BEGIN = 16,
};

struct receive_depth {
	char head[4 + 1];                /* of the packet: its length */
	char begin[RECEIVE_DEPTH_BEGIN]; /* ... and what it begins with */
	size_t head_len, begin_len, left, slashes;
	bool is_in_certificate, is_over;
};

/* False: there is such a ref. Nothing is taken after that. */
bool receive_depth_take(struct receive_depth *depth, const char *bytes, size_t len);

#endif
