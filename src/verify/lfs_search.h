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
 * from `tips` and not from `known`, of which some may not be there any more. */
int lfs_search(const struct git_work *work, const struct repo *repo, const oid_list *tips,
	       const oid_list *known, lfs_rows *rows, struct err *err);

#endif
