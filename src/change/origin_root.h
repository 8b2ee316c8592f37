/*
 * The directory that a kind's replicables stand in at the primary: which one it is, and
 * what is mounted below it. Where a file system is not mounted, the directory below is
 * another, empty one: it must not pass for a tree in which everything was deleted. So the
 * root is remembered by its identity, and each whole scan writes down which folders are
 * mount points. A folder that was one, is empty now, and lies on the file system of what
 * it stands in, is not mounted: what was below it is not deleted. It is forgotten when it
 * is removed, or holds something itself. Any thread.
 */
#ifndef CHANGE_ORIGIN_ROOT_H
#define CHANGE_ORIGIN_ROOT_H

#include "base/base.h"
#include "base/json.h"
#include "store/store.h"

/* Borrowed, as all in it. */
struct origin_root {
	struct store *store;
	const char *kind; /* KIND_REPOSITORY, or a type of blobs */
	const char *path;
	int fd;
};

/* Whether it is the directory that the rows were seen in. 0; -1: ERR_DISK if not. */
int origin_root_check(const struct origin_root *root, struct err *err);

/* The same, but a directory is right if none was seen before. */
int origin_root_check_known(const struct origin_root *root, struct err *err);

/* It is the one from now on. */
int origin_root_accept(const struct origin_root *root, struct err *err);

/* Likewise, if none was known before. Inside store_write(). identity: identity_of() of
 * the directory. */
int origin_root_accept_first(struct store_tx *tx, const char *kind, const char *identity,
			     struct err *err);

/* Paths of folders below it that file systems are, or were, mounted on: a JSON array, or
 * NULL: none is known. The caller owns *mounts. */
int origin_root_mounts(const struct origin_root *root, json_t **mounts, struct err *err);

/* What a whole scan found mounted is known from now on, beside those that are away. */
int origin_root_keep_mounts(const struct origin_root *root, const json_t *found,
			    struct err *err);

/* The mount point at this path or above it that is away, or NULL. Borrowed. */
const char *mounts_find_away(const json_t *mounts, int root, const char *path);

/* Fills *err (ERR_DISK); -1. */
int mounts_say_away(const char *mount, struct err *err);

/* Adds the folder to *found if it is on another file system than what it stands in. */
void mounts_note(json_t **found, int root, const char *path);

/* Whether there is nothing in a directory; false if that cannot be told. */
bool mounts_is_empty(int dir, const char *path);

/*
 * What tells a file or directory from every other that ever stood there: its inode and
 * the time of its birth. The number of its device counts only where there is no time of
 * birth, since it may be another after each boot.
 */

/* path "": the directory itself. NULL, errno set: it cannot be told. The caller frees. */
char *identity_of(int dir, const char *path);

/* Walks the tree below root for the repository of that identity. 1, and its name, which
 * the caller frees; 0: there is none; -1: the root cannot be read. */
int identity_find(const char *root, const char *identity, char **name, struct err *err);

#endif
