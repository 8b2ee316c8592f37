/*
 * Where a repository of the site stands on disk: as replicable/discover.h would find it,
 * so that nothing is served that is not replicated. NAME.git is looked for first, then
 * NAME; no symbolic link and no other repository may be on the way. The root itself may
 * be a link.
 *
 * What is then done is to be done in the directory that was opened: what stands at its
 * path may be another by then, or a link to somewhere else.
 */
#ifndef SERVE_FIND_H
#define SERVE_FIND_H

#include "base/base.h"

/* Opens its directory; *path, for messages, begins with root and is the caller's to free.
 * The name is checked here. -1: ERR_MISSING: there is none, or none can have that name;
 * *path is NULL. */
int find_repository(const char *root, const char *name, char **path, struct err *err);

/* Whether it was found as NAME, not as NAME.git, so that a NAME.git that comes would be
 * found instead. */
bool find_is_plain(const char *path);

#endif
