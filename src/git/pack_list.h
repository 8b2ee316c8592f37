/*
 * The packs of a repository, as a list: their sizes, what a geometric repack would fold,
 * and whether one is redundant because others have all its objects.
 */
#ifndef GIT_PACK_LIST_H
#define GIT_PACK_LIST_H

#include "base/base.h"
#include "base/vec.h"
#include "git/repo.h"

struct pack_item {
	char *name; /* "pack-<digest>"; owned */
	uint64_t objects, bytes;
	int64_t changed_ns; /* mtime */
	uint64_t inode, index_inode;
	bool is_kept; /* has a .keep file beside it, or is a cruft pack: git repack leaves
			 it alone, and so do we */
};

typedef VEC(struct pack_item) pack_list;
#define AUTO_PACK_LIST __attribute__((cleanup(pack_list_clear)))

/* Those with an index, the smallest first; of equal size in the order of their names. */
int pack_list_read(const struct repo *repo, pack_list *list, struct err *err);
void pack_list_clear(pack_list *list);

/* NULL: not found. */
const struct pack_item *pack_list_find(const pack_list *list, const char *name);

/* How many of the smallest must become one, so that each of the others has twice the
 * objects of all smaller ones; 0: they already have. Kept ones do not count. As git
 * repack --geometric=2 decides. */
size_t pack_list_count_folds(const pack_list *list);

/* Whether each object of `pack` is in one of `others`, by their indexes: 1, 0 with a
 * missing one in `lacks`, or -1. */
int pack_list_covers(const struct repo *repo, const pack_list *others, const char *pack,
		     char lacks[65], struct err *err);

/* Checks that the index belongs to this pack: it names the pack's own digest. Contents
 * are not read. */
int pack_list_check_index(const struct repo *repo, const char *pack, struct err *err);

/* Removes it with all files beside it, the index first: from then on git does not see the
 * pack. Not durable by itself. */
int pack_list_remove(const struct repo *repo, const char *pack, struct err *err);

#endif
