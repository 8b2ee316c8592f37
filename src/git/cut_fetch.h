/*
 * Objects of a history that is cut short, brought by `git fetch --depth`. Git writes the
 * new cuts into the repository that it fetches into; here that is a scratch folder with
 * the refs and cuts to start from, while the objects go into the repository. So the fetch
 * does not change refs or cuts of the repository: git/publish.h does that.
 */
#ifndef GIT_CUT_FETCH_H
#define GIT_CUT_FETCH_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/refs.h"
#include "git/repo.h"

/* "All there is", for git. */
#define CUT_FETCH_ALL 2147483647u

struct cut_fetch {
	const struct git_work *work;
	const struct repo *repo; /* gets the objects */
	const struct git_remote *from;
	const oid_list *wanted; /* everything its refs will name */
	/* Refs whose objects are here with all they reach, up to the cuts; NULL: none
	 * known. */
	const struct ref_snapshot *have;
	unsigned depth;      /* commits from each of the wanted on, or CUT_FETCH_ALL */
	const char *scratch; /* a folder below the repository's; must not exist yet */
};

/* Adds the commits at which the history of the wanted is then cut, tidy: none if it is
 * whole. The objects up to there are complete and durable when it returns 0. The caller
 * removes the folder in any case. ERR_CONFIG: the other side does not support shallow
 * clones. */
int cut_fetch(const struct cut_fetch *fetch, oid_list *cuts, struct err *err);

#endif
