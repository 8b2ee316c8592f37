/*
 * What tells a file or directory from every other that ever stood there: its inode and
 * the time of its birth. The number of its device counts only where there is no time of
 * birth, since it may be another after each boot.
 */
#ifndef CHANGE_IDENTITY_H
#define CHANGE_IDENTITY_H

#include "base/base.h"

/* path "": the directory itself. NULL, errno set: it cannot be told. The caller frees. */
char *identity_of(int dir, const char *path);

/* Walks the tree below root for the repository of that identity. 1, and its name, which
 * the caller frees; 0: there is none; -1: the root cannot be read. */
int identity_find(const char *root, const char *identity, char **name, struct err *err);

#endif
