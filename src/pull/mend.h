/*
 * What can be mended of a copy in its place, and whether the rest is whole. Under the
 * repository's lease, at a secondary: nobody but refrelay changes a copy.
 */
#ifndef PULL_MEND_H
#define PULL_MEND_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/repo.h"

/* Our own files in the copy that cannot be used are removed: they are made again. The
 * fence begins anew from the lease's, which is above all grants before it. */
int mend_own_files(int dir, struct err *err);

/* What git would obey in place of the copy's own content (repo_diversions) goes. 1: there
 * was such. ERR_CORRUPT: in a repository that is no copy yet, where it may be somebody's,
 * or behind a link. */
int mend_diversions(int dir, struct err *err);

/* Below refs/, links and special files go: refrelay makes none in a copy. Git takes a ref
 * for broken that is one, even if packed-refs has it, too. ERR_CORRUPT: there are some in
 * a repository that is no copy yet, where they may be somebody's. */
int mend_refs(int dir, struct err *err);

/* That there is none: ERR_CORRUPT. */
int mend_check_refs(int dir, struct err *err);

/* That it has a config, which says how to read the rest: refrelay gives each copy one.
 * And that git does not take objects that are missing for what it may fetch later. */
int mend_check_config(const struct repo *copy, struct err *err);

/* Locks that somebody left there go; what a living process of ours holds stays. */
void mend_locks(int dir);

/* Reads all of the copy, and nothing else. -1: it is not whole, or copy_is_at_fault()
 * says otherwise. What git can do without is removed if it is damaged. */
int mend_look_through(const struct git_work *work, const struct repo *copy,
		      struct err *err);

#endif
