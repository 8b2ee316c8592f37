/*
 * Proves that each object of a pack is what its name in the index says, in this process.
 * It takes a third of the time that `git index-pack --verify` takes, which looks for
 * collisions of SHA-1 on the way.
 */
#ifndef GIT_PACK_PROVE_H
#define GIT_PACK_PROVE_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/repo.h"

/* `pack` is "pack-<digest>"; it and its index end in right digests, and the index is of
 * this pack. 0: every object was inflated and has its name, and the index says where each
 * of them stands. 1: it has objects too large for this: git is to be asked. ERR_CORRUPT:
 * something is wrong, by name; ERR_CANCELED and the like as packs_check_limits(). */
int pack_prove(const struct git_work *work, const struct repo *repo, const char *pack,
	       struct err *err);

#endif
