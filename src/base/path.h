/*
 * Paths below a root that come from elsewhere: checked at the door, and opened so that
 * nothing outside the root is ever reached by them. Any thread.
 */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <fcntl.h>

#include "base/base.h"

/* A folder at the root of a tree of repositories or blobs in which refrelay keeps its own
 * things. Nothing that is replicated can stand there. */
#define OWN_FOLDER ".refrelay"

/* In there: the clock by which the trash ages (base/seen_time.h). */
#define TRASH_CLOCK "trash.clock"

/* What is wrong with it, in words that follow "NAME: "; NULL: it is UTF-8 without control
 * characters, its parts between slashes are not empty, "." or "..", it has at most 1024
 * bytes, and 250 a part, so that ".git" and a lock's ".lock" fit into 255. Static. */
const char *path_fault(const char *path);

/* Opens it without following any symbolic link on the way or at the end. For paths
 * without fault, or "". As open(): -1 with errno; ELOOP: a link is in the way. */
int path_open_beneath(int root, const char *path, int flags);

#endif
