/*
 * Inflates gzip as it comes, with as much memory as the reader's buffer. One thread at a
 * time.
 */
#ifndef BASE_GUNZIP_H
#define BASE_GUNZIP_H

#include <zlib.h>

#include "base/base.h"

struct gunzip {
	z_stream stream;
	bool is_ended;     /* behind the last byte of a member */
	bool may_hold_out; /* the last buffer was full */
};

int gunzip_begin(struct gunzip *gunzip, struct err *err);
void gunzip_clear(struct gunzip *gunzip);

/* The next bytes as they came; borrowed until gunzip_read gives 0. */
void gunzip_feed(struct gunzip *gunzip, const void *bytes, size_t len);

/* What they stand for, a buffer at a time; 0: more must be fed. -1: ERR_CONFIG, it is no
 * gzip. */
ssize_t gunzip_read(struct gunzip *gunzip, void *buffer, size_t size, struct err *err);

/* There are no more. -1: ERR_CONFIG, it was cut. */
int gunzip_end(const struct gunzip *gunzip, struct err *err);

#endif
