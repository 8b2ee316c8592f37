/*
 * The index of a pack, mapped: the objects in the pack. One thread at a time an index.
 *
 * Source: gitformat-pack(5); version 2: 8 bytes of magic and version; 256 counts, of
 * objects whose first byte is at most that index; their names, sorted; more; the digest
 * of the pack and that of the index.
 */
#ifndef GIT_PACK_INDEX_H
#define GIT_PACK_INDEX_H

#include "base/base.h"

#define PACK_INDEX_NAMES (8 + 256 * 4) /* where names begin */

struct pack_index {
	const unsigned char *data; /* mapped */
	size_t size;
	size_t count;
	size_t oid_len;
};

/* Opens the file `name` in the directory `folder`. ERR_CORRUPT: it is not an index of
 * version 2; other errors: it could not be opened. */
int pack_index_open(int folder, const char *name, size_t oid_len,
		    struct pack_index *index, struct err *err);
void pack_index_close(struct pack_index *index);

/* The name of the object at that place. */
const unsigned char *pack_index_oid(const struct pack_index *index, size_t place);

/* Whether it has the object; *place is its place. */
bool pack_index_find(const struct pack_index *index, const unsigned char *oid,
		     size_t *place);

/* The CRC-32 of that object's entry, and where the entry begins. False: out of bounds. */
uint32_t pack_index_crc(const struct pack_index *index, size_t place);
bool pack_index_offset(const struct pack_index *index, size_t place, uint64_t *offset);

/* The trailer of the pack as recorded in the index: oid_len bytes. */
const unsigned char *pack_index_pack_digest(const struct pack_index *index);

/* The 4-byte number at that address. */
uint32_t pack_index_number(const unsigned char *at);

#endif
