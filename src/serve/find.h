/*
 * Finds a repository of the site on disk, as replicable/discover.h would, so that only
 * replicated repositories are served. NAME.git is tried first, then NAME; the path must
 * not lead through a symbolic link or another repository. The root itself may be a link.
 *
 * Work in the opened directory afterwards, not by its path: that may be another directory
 * by then, or a link to somewhere else.
 */
#ifndef SERVE_FIND_H
#define SERVE_FIND_H

#include "base/base.h"
#include "git/repo.h"

/* Opens its directory; *path, for messages, begins with root; the caller frees it. The
 * name is checked here. -1: ERR_MISSING: not found, or not a valid name; *path is
 * NULL. */
int find_repository(const char *root, const char *name, char **path, struct err *err);

/* Whether it was found as NAME, not as NAME.git, so that a new NAME.git would be found
 * instead. */
bool find_is_plain(const char *path);

/* Opens the repository of this directory, in which git then runs; `dir` 0: the one at
 * that path, which is else not used. */
int find_open(int dir, const char *path, struct repo *repo, struct err *err);

#endif
