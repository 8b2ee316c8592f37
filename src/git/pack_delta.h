/*
 * The header of a pack's entry, and objects made of deltas. Plain data; never reads
 * beyond the given bytes.
 *
 * Source: gitformat-pack(5).
 */
#ifndef GIT_PACK_DELTA_H
#define GIT_PACK_DELTA_H

#include "base/base.h"

#define PACK_OFS_DELTA 6
#define PACK_REF_DELTA 7

/* An entry's header. */
struct pack_head {
	unsigned kind;            /* 1 to 4, or one of the above */
	uint64_t size;            /* inflated */
	uint64_t base;            /* OFS_DELTA: where its base begins, in front of it */
	const unsigned char *oid; /* REF_DELTA: the base's name; borrowed */
	size_t len;               /* of all this */
};

/* offset: where in the pack it begins. False: invalid or truncated. */
bool pack_head_read(const unsigned char *bytes, size_t len, uint64_t offset,
		    size_t oid_len, struct pack_head *head);

struct pack_bytes {
	const unsigned char *data;
	size_t len;
};

/* Makes an object from its base and a delta. 1: *data, which the caller frees, has room
 * for one byte more than *len; 0: it would have more than `most` bytes; -1: the delta is
 * invalid, or for another base. */
int pack_delta_make(struct pack_bytes base, struct pack_bytes delta, uint64_t most,
		    unsigned char **data, size_t *len);

#endif
