/*
 * What git reads of a repository that is not below its directory: what links lead to, and
 * the objects that it borrows. A child that is confined to the repository needs these
 * too.
 */
#ifndef GIT_GIT_REACH_H
#define GIT_GIT_REACH_H

#include "base/base.h"
#include "base/vec.h"
#include "git/repo.h"

enum git_reach {
	GIT_REACH_FREE,
	GIT_REACH_READS,    /* confined (base/proc.h): it reads the repository, and what
			     * that borrows and links to */
	GIT_REACH_READS_ALL /* ... and all else that we may read */
};

/* Of a child that only reads this repository: all, if its config includes files. */
enum git_reach git_reach_of(const struct repo *repo);

typedef VEC(char *) git_reach_paths;

/* Fills an empty list with paths that it owns; relative ones begin at the repository. "/"
 * alone if they are too many, or cannot be known. What cannot be looked at adds nothing:
 * git will say why. */
void git_reach_find(int repository, git_reach_paths *paths);

#endif
