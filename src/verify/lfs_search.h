/*
 * The pointers of Git LFS in a repository's history.
 */
#ifndef VERIFY_LFS_SEARCH_H
#define VERIFY_LFS_SEARCH_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/objects.h"
#include "git/repo.h"
#include "replicable/lfs_rows.h"

/* Adds, in no order and maybe more than once, what the pointers name that are reached
 * from `tips` and not from `known`. It fails, too, if one of `known` is not there any
 * more; tips that are not there are passed over if nothing is known. */
int lfs_search(const struct git_work *work, const struct repo *repo, const oid_list *tips,
	       const oid_list *known, lfs_rows *rows, struct err *err);

/* How many of `known` are not there any more. */
int lfs_search_gone(const struct git_work *work, const struct repo *repo,
		    const oid_list *known, size_t *count, struct err *err);

/* Whether a commit is reached from `known` and not from `tips`: 1, 0 or -1. */
int lfs_search_lost(const struct git_work *work, const struct repo *repo,
		    const oid_list *tips, const oid_list *known, struct err *err);

#endif
