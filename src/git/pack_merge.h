/*
 * Merges small packs of a copy into one, in this process: each delta leaves one, and a
 * search for an object goes through all of them. Under the repository's lease.
 */
#ifndef GIT_PACK_MERGE_H
#define GIT_PACK_MERGE_H

#include "base/base.h"
#include "git/repo.h"

/* Larger ones are left to git repack. */
#define PACK_MERGE_SMALL ((uint64_t)256 << 10)

/* The number of small packs. */
size_t pack_merge_count(const struct repo *repo);

/* Merges small packs that hold whole objects only, as small_pack_take() leaves them;
 * others are left alone, and so are those with other files beside them, and those that a
 * multi-pack-index may name. Each is proved by its digests on the way. The new pack has
 * all their objects, and is durable before they are removed. Returns how many were
 * merged; 0: fewer than two could be. -1: ERR_DISK and the like. */
MUST_CHECK int pack_merge(const struct repo *repo, struct err *err);

#endif
