/*
 * Locates one repository: as discover() would find it, without walking the tree.
 */
#ifndef REPLICABLE_LOCATE_H
#define REPLICABLE_LOCATE_H

#include "base/base.h"

/* Fills *path (below the root, whose directory is open; the caller frees). The name has
 * passed name_check. 1: found, perhaps damaged; 0: not found, and the directories in
 * which it could be were read; -1: that cannot be determined. */
int locate_repository(int root, const char *name, char **path, struct err *err);

#endif
