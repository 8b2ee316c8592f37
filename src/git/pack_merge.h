/*
 * Small packs of a copy become one, in this process: each delta leaves one, and whoever
 * looks for an object looks into all of them. Under the repository's lease.
 */
#ifndef GIT_PACK_MERGE_H
#define GIT_PACK_MERGE_H

#include "base/base.h"
#include "git/repo.h"

/* Larger ones are left to git repack. */
#define PACK_MERGE_SMALL ((uint64_t)256 << 10)

/* How many there are that are small. */
size_t pack_merge_count(const struct repo *repo);

/* Merges those that are small and hold whole objects only, as small_pack_take() leaves
 * them; others are left alone, and so are those with other files beside them, and those
 * that a multi-pack-index may name. Each is proved by its digests on the way. The new
 * pack has all that they had, and is durable before they go. Returns how many became one;
 * 0: fewer than two could be merged. -1: ERR_DISK and the like. */
MUST_CHECK int pack_merge(const struct repo *repo, struct err *err);

#endif
