/*
 * The directory of a secondary's copies of a kind, as site.repositories: remembered by
 * its identity, so that neither an empty mount point nor an older disk passes for the
 * tree that the registry's rows tell of. Any thread, any process.
 */
#ifndef UPKEEP_COPIES_ROOT_H
#define UPKEEP_COPIES_ROOT_H

#include "base/base.h"
#include "store/store.h"

/* At the start of a node, before anything is done there. Makes it if nothing is expected
 * in it. ERR_DISK: it is empty, but copies should be there. If it is another directory
 * than before, all rows are asked for, as `repository resync --all` does, and it counts
 * from now on. */
int copies_root_open(struct store *store, const char *kind, const char *path,
		     struct err *err);

/* In store_write(), before a node opens its directories: those that were known count as
 * others, so that all rows are asked for. */
int copies_root_doubt(struct store_tx *tx, struct err *err);

/* Whether it still is the directory that counts; so it is where none was ever opened.
 * ERR_DISK: no. Costs one stat and one read of the database. */
int copies_root_check(struct store *store, const char *kind, const char *path,
		      struct err *err);

/* Whether a node would find its copies there: for `status` and `check`. */
int copies_root_judge(struct store *store, const char *kind, const char *path,
		      struct err *err);

#endif
