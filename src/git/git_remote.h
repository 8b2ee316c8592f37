/*
 * How a git child gets what only it may know of the other side: by a file in memory.
 */
#ifndef GIT_GIT_REMOTE_H
#define GIT_GIT_REMOTE_H

#include "git/git_child.h"

/* Whether it is reached by HTTP: not a path. NULL is allowed. */
bool git_remote_is_http(const struct git_remote *remote);

/* A sealed file in memory with git's configuration for this remote, which must be one
 * reached by HTTP; the caller closes it. -1 with *err filled: ERR_CONFIG if the header
 * is none. */
int git_remote_open(const struct git_remote *remote, struct err *err);

#endif
