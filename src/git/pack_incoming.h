/*
 * One file of a pack, or its index, as it comes from wherever: each ends in a digest of
 * all that stands before it, which is computed on the way. It is written under git's own
 * kind of temporary name, which housekeeping knows, and gets its own when it is whole and
 * durable. One thread at a time.
 */
#ifndef GIT_PACK_INCOMING_H
#define GIT_PACK_INCOMING_H

#include "base/base.h"
#include "git/repo.h"

struct pack_incoming;

/* `name` is that of a file in the repository's objects/pack, of so many bytes. */
int pack_incoming_open(const struct repo *to, const char *name, uint64_t size,
		       struct pack_incoming **incoming, struct err *err);

/* How many bytes of it are here. */
uint64_t pack_incoming_here(const struct pack_incoming *incoming);

/* The next ones. ERR_CORRUPT: it is longer than it should be. */
int pack_incoming_write(struct pack_incoming *incoming, const void *bytes, size_t len,
			struct err *err);

/* Syncs it and renames it into place. ERR_CORRUPT: it is not whole, or its digest is
 * wrong. The names in the directory are the caller's to sync. */
int pack_incoming_finish(struct pack_incoming *incoming, struct err *err);

/* Removes what was not finished. NULL is allowed. */
void pack_incoming_close(struct pack_incoming *incoming);

#endif
