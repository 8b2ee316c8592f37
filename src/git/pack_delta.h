/*
 * What an entry of a pack says of itself, and objects made of deltas. Plain data; nothing
 * is read beyond what is given.
 *
 * Source: gitformat-pack(5).
 */
#ifndef GIT_PACK_DELTA_H
#define GIT_PACK_DELTA_H

#include "base/base.h"

#define PACK_OFS_DELTA 6
#define PACK_REF_DELTA 7

/* An entry's beginning. */
struct pack_head {
	unsigned kind;            /* 1 to 4, or one of the above */
	uint64_t size;            /* of what is inflated */
	uint64_t base;            /* OFS_DELTA: where its base begins, before it */
	const unsigned char *oid; /* REF_DELTA: the base's name; borrowed */
	size_t len;               /* of all this */
};

/* offset: where in the pack it begins. False: it is none, or was cut. */
bool pack_head_read(const unsigned char *bytes, size_t len, uint64_t offset,
		    size_t oid_len, struct pack_head *head);

struct pack_bytes {
	const unsigned char *data;
	size_t len;
};

/* Makes an object of its base and a delta on it. 1: *data, which the caller frees, has
 * room for one byte more than *len; 0: it would have more than `most` bytes; -1: the
 * delta is none, or not one on that base. */
int pack_delta_make(struct pack_bytes base, struct pack_bytes delta, uint64_t most,
		    unsigned char **data, size_t *len);

#endif
