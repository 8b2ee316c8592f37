/*
 * Files of a repository that git reads outside its directory: targets of links, and
 * borrowed objects. A child confined to the repository needs these too.
 */
#ifndef GIT_GIT_REACH_H
#define GIT_GIT_REACH_H

#include "base/base.h"
#include "base/vec.h"
#include "git/repo.h"

enum git_reach {
	GIT_REACH_FREE,
	GIT_REACH_READS,    /* confined (base/proc.h): reads the repository, and what it
			       borrows and links to */
	GIT_REACH_READS_ALL /* ... and everything else we may read */
};

/* For a child that only reads this repository: all, if its config includes files. */
enum git_reach git_reach_of(const struct repo *repo);

typedef VEC(char *) git_reach_paths;

/* Fills an empty list with paths that it owns; relative ones begin at the repository. "/"
 * alone if there are too many, or they are unknown. Unreadable places are skipped: git
 * will say why. */
void git_reach_find(int repository, git_reach_paths *paths);

/* Appends the object directories that it borrows from. "/" for those that are unknown: a
 * name in quotes, or too many. */
void git_reach_list_alternates(int repository, git_reach_paths *paths);

#endif
