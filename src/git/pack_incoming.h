/*
 * One file of a pack, or its index, as it arrives: each ends in a digest of everything
 * before it, which is computed on the way. It is written under a temporary name as git
 * makes them, which housekeeping recognises, and gets its final name when it is whole and
 * durable. One thread at a time.
 */
#ifndef GIT_PACK_INCOMING_H
#define GIT_PACK_INCOMING_H

#include "base/base.h"
#include "git/repo.h"

struct pack_incoming;

/* `name` is that of a file in the repository's objects/pack; size in bytes. */
int pack_incoming_open(const struct repo *to, const char *name, uint64_t size,
		       struct pack_incoming **incoming, struct err *err);

/* How many bytes of it have arrived. */
uint64_t pack_incoming_here(const struct pack_incoming *incoming);

/* Writes the next ones. ERR_CORRUPT: it is longer than it should be. */
int pack_incoming_write(struct pack_incoming *incoming, const void *bytes, size_t len,
			struct err *err);

/* Syncs it and renames it into place. ERR_CORRUPT: it is not whole, or its digest is
 * wrong. The caller syncs the directory. */
int pack_incoming_finish(struct pack_incoming *incoming, struct err *err);

/* Removes an unfinished file. NULL is allowed. */
void pack_incoming_close(struct pack_incoming *incoming);

#endif
