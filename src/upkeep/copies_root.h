/*
 * The directory of a secondary's copies of a kind, e.g. site.repositories: its identity
 * is recorded, so that an empty mount point or an older disk is not mistaken for the tree
 * of the registry's rows. Any thread, any process.
 */
#ifndef UPKEEP_COPIES_ROOT_H
#define UPKEEP_COPIES_ROOT_H

#include "base/json.h"
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

/*
 * File systems mounted below it are recorded, and forgotten, as at a primary
 * (change/origin_root.h). If one is not mounted, nothing is copied into its empty folder,
 * and what it held is not taken for missing or removed.
 */

/* Records those that are mounted. Called by each scan of copies: what fails, the next one
 * repeats. ERR_DISK: as copies_root_check(); the recorded ones are kept. */
int copies_root_keep_mounts(struct store *store, const char *kind, const char *path,
			    struct err *err);

/* The recorded ones. The caller owns *mounts. */
int copies_root_read_mounts(struct store *store, const char *kind, json_t **mounts,
			    struct err *err);

/* -1, ERR_DISK: that name, or NULL: any, is on one that is not mounted. */
int copies_root_check_mounts(const json_t *mounts, const char *path, const char *name,
			     struct err *err);
int copies_root_say_away(const char *mount, struct err *err); /* -1 */

/* copies_root_check(), and that for one copy. */
int copies_root_check_copy(struct store *store, const char *kind, const char *path,
			   const char *name, struct err *err);

/* The same for one, or NULL: any, but only those count below which there are copies.
 * Others may have nothing to do with them; and no repository can come on one that is
 * mounted, so one that never came may be meant for the folder itself. */
int copies_root_check_place(struct store *store, const char *kind, const char *path,
			    const char *name, struct err *err);

/* Whether a node would find its copies there: for `status` and `check`. */
int copies_root_judge(struct store *store, const char *kind, const char *path,
		      struct err *err);

#endif
