/*
 * Objects of a history that is cut short, brought by `git fetch --depth`. Git writes the
 * new cuts into the repository that it fetches into; here that is a folder of ours with
 * the refs and cuts from which it may go on, while the objects go to where they belong.
 * So no ref and no cut of the repository changes by it: git/publish.h does that.
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
	const oid_list *wanted; /* what all its refs will name */
	/* What is here with all it reaches, up to its cuts; NULL: nothing is known to be.
	 */
	const struct ref_snapshot *have;
	unsigned depth;      /* commits from each of the wanted on, or CUT_FETCH_ALL */
	const char *scratch; /* a folder below the repository's; there is none yet */
};

/* Adds the commits at which the history of the wanted is cut then, tidy: none if there is
 * all of it. What they reach up to there is complete and durable when it returns 0.
 * The caller removes the folder in any case. ERR_CONFIG: the other side knows no
 * shallow clones. */
int cut_fetch(const struct cut_fetch *fetch, oid_list *cuts, struct err *err);

#endif
