/*
 * The directory of a kind's replicables at the primary: its identity, and the mount
 * points below it. If a file system is not mounted, there is an empty directory instead:
 * it must not look like a tree in which everything was deleted. So the root's identity is
 * recorded, and each complete scan records which folders are mount points. A recorded
 * folder that is empty now, on the file system of its parent, is not mounted: its former
 * content is not deleted. It is forgotten when it is removed, or contains something
 * itself. Any thread.
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

/* Whether it is the directory in which the rows were seen. 0: yes; -1: ERR_DISK: no. */
int origin_root_check(const struct origin_root *root, struct err *err);

/* The same, but any directory is right if a root was never recorded. */
int origin_root_check_known(const struct origin_root *root, struct err *err);

/* Records it as the root from now on. */
int origin_root_accept(const struct origin_root *root, struct err *err);

/* Likewise, if a root was never recorded. Inside store_write(). identity: identity_of()
 * of the directory. */
int origin_root_accept_first(struct store_tx *tx, const char *kind, const char *identity,
			     struct err *err);

/* Paths of folders below it on which file systems are, or were, mounted: a JSON array;
 * NULL: not recorded. The caller owns *mounts. */
int origin_root_mounts(const struct origin_root *root, json_t **mounts, struct err *err);

/* Records the mount points found by a complete scan, in addition to unmounted ones. */
int origin_root_keep_mounts(const struct origin_root *root, const json_t *found,
			    struct err *err);

/* The unmounted mount point at this path or above it, or NULL. Borrowed. */
const char *mounts_find_away(const json_t *mounts, int root, const char *path);

/* Fills *err (ERR_DISK); -1. */
int mounts_say_away(const char *mount, struct err *err);

/* Adds the folder to *found if it is on another file system than its parent. */
void mounts_note(json_t **found, int root, const char *path);

/*
 * Distinguishes a file or directory from all others that ever had its path: its inode and
 * its birth time. The device number is used only if the birth time is not available,
 * since it may change with each boot.
 */

/* path "": the directory itself. NULL, errno set: it cannot be determined. The caller
 * frees. */
char *identity_of(int dir, const char *path);

/* False: a later directory may have the same one. */
bool identity_has_birth(const char *identity);

#endif
