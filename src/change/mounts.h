/*
 * File systems that are mounted on folders below a root. Each scan writes down which
 * there are (a site value, a JSON array of paths). A folder that was one, is empty now,
 * and lies on the file system of what it stands in, is not mounted: what was below it is
 * not deleted. It is forgotten when it is removed, or holds something itself. Any thread.
 */
#ifndef CHANGE_MOUNTS_H
#define CHANGE_MOUNTS_H

#include "base/base.h"
#include "base/json.h"
#include "store/store.h"

/* NULL: none are known. The caller owns *mounts. */
int mounts_read(struct store *store, const char *key, json_t **mounts, struct err *err);
int mounts_write(struct store *store, const char *key, json_t *mounts, struct err *err);

/* The mount point at this path or above it that is away, or NULL. Borrowed. */
const char *mounts_find_away(const json_t *mounts, int root, const char *path);

/* Fills *err (ERR_DISK); -1. */
int mounts_say_away(const char *mount, struct err *err);

/* Whether there is nothing in a directory; false if that cannot be told. */
bool mounts_is_empty(int dir, const char *path);

#endif
