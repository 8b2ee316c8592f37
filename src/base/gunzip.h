/*
 * Inflates gzip as it arrives, with as much memory as the reader's buffer. One thread at
 * a time.
 */
#ifndef BASE_GUNZIP_H
#define BASE_GUNZIP_H

#include <zlib.h>

#include "base/base.h"

struct gunzip {
	z_stream stream;
	bool is_ended;     /* after the last byte of a member */
	bool may_hold_out; /* the last buffer was full */
};

int gunzip_begin(struct gunzip *gunzip, struct err *err);
void gunzip_clear(struct gunzip *gunzip);

/* Feeds the next compressed bytes; borrowed until gunzip_read returns 0. */
void gunzip_feed(struct gunzip *gunzip, const void *bytes, size_t len);

/* Reads the inflated bytes, a buffer at a time; 0: more must be fed. -1: ERR_CONFIG, not
 * gzip. */
ssize_t gunzip_read(struct gunzip *gunzip, void *buffer, size_t size, struct err *err);

/* Ends the input. -1: ERR_CONFIG, it was truncated. */
int gunzip_end(const struct gunzip *gunzip, struct err *err);

#endif
