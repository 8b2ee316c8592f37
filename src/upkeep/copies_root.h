/*
 * The directory of a secondary's copies of a kind, e.g. site.repositories: its identity
 * is recorded, so that an empty mount point or an older disk is not mistaken for the tree
 * of the registry's rows. Any thread, any process.
 */
#ifndef UPKEEP_COPIES_ROOT_H
#define UPKEEP_COPIES_ROOT_H

#include "base/base.h"
#include "store/store.h"

/* At the start of a node, before any use of it. Makes it if it should be empty. ERR_DISK:
 * it is empty, although copies should be there. If it is another directory than before,
 * requests all rows, like `repository resync --all`, and records it from now on. */
int copies_root_open(struct store *store, const char *kind, const char *path,
		     struct err *err);

/* In store_write(), before a node opens its directories: makes the recorded ones count as
 * different, so that all rows are requested. */
int copies_root_doubt(struct store_tx *tx, struct err *err);

/* Whether it still is the recorded directory; also true if one was never opened.
 * ERR_DISK: no. Costs one stat and one read of the database. */
int copies_root_check(struct store *store, const char *kind, const char *path,
		      struct err *err);

/* Whether a node would find its copies there: for `status` and `check`. */
int copies_root_judge(struct store *store, const char *kind, const char *path,
		      struct err *err);

#endif
