/*
 * Writes a pack from memory to a file, with its index. Any thread.
 *
 * Failpoints: small_pack.indexed (pack and index are on disk, under temporary names),
 * small_pack.packed (the pack has its name, the index has not).
 */
#ifndef GIT_PACK_PUT_H
#define GIT_PACK_PUT_H

#include "base/base.h"
#include "base/str.h"
#include "git/oid.h"
#include "git/repo.h"

#define PACK_PUT_HEAD 12
#define PACK_PUT_TRAILER 20

/* The header and trailer around the objects of a pack; `begin` is where the pack
 * begins. */
void pack_put_head(uint32_t count, struct str *pack);
void pack_put_trailer(struct str *pack, size_t begin);

/* Whether it looks like a pack of that many bytes, and its number of objects; whether it
 * ends in its own digest. */
bool pack_put_is_pack(const void *pack, size_t len, uint32_t *count);
bool pack_put_is_whole(const void *pack, size_t len);

struct pack_put_entry {
	struct oid oid;
	uint32_t offset, crc;
};

struct pack_put {
	const void *pack; /* whole, of SHA-1, of less than 2 GiB */
	size_t len;
	const struct pack_put_entry *entries; /* in the order of oid_compare() */
	size_t count;
};

/* Durable when it returns 0. Leaves no files after an error; after a crash at most
 * temporary files as git makes them, or a pack without index (upkeep/stale.h). */
MUST_CHECK int pack_put(const struct repo *repo, const struct pack_put *put,
			struct err *err);

#endif
