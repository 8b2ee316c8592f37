/*
 * The directory that rows were seen in is remembered by its identity, in a site value.
 * Where a file system is not mounted, the directory below it is another one: an empty
 * mount point shall not pass for a tree in which everything was deleted. Any thread.
 */
#ifndef CHANGE_KNOWN_ROOT_H
#define CHANGE_KNOWN_ROOT_H

#include "base/base.h"
#include "store/store.h"

struct known_root {
	const char *key;      /* the site value */
	const char *identity; /* as the directory is now (change/identity.h) */
	bool is_known, is_same;
};

/* Fills is_known and is_same. */
int known_root_ask(struct store *store, struct known_root *root, struct err *err);

/* It is the one from now on. */
int known_root_accept(struct store *store, struct known_root *root, struct err *err);

/* Likewise, if none was known before. Inside store_write(). */
int known_root_accept_first(struct store_tx *tx, const struct known_root *root,
			    struct err *err);

#endif
