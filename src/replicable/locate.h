/*
 * Where one repository stands: what discover() would find for that one name, without
 * walking the tree.
 */
#ifndef REPLICABLE_LOCATE_H
#define REPLICABLE_LOCATE_H

#include "base/base.h"

/* Fills *path (below the root, whose directory is open; the caller frees). The name has
 * passed name_check. 1: there is one, maybe a damaged one; 0: there is none, and the
 * directories in which it could stand were read; -1: that cannot be told. */
int locate_repository(int root, const char *name, char **path, struct err *err);

#endif
