/*
 * Working trees of mirrors with `checkout = true`: decides when one is made, maintained
 * or removed (upkeep/checkout.h does it), with one row each for the outcome. A failing
 * working tree is reported; the mirror is up to date all the same. Any thread.
 */
#ifndef MIRROR_CHECKOUTS_H
#define MIRROR_CHECKOUTS_H

#include "base/json.h"
#include "job/job.h"
#include "mirror/mirror_set.h"
#include "store/store.h"

struct mirror_checkout {
	char *commit,
		*branch; /* that it shows; NULL: it does not exist, or HEAD is detached */
	int64_t made_at; /* wall ms, as these */
	int64_t due_at;  /* when work is due; 0: not scheduled */
	int64_t failing_since; /* 0: it does not fail; else the reason: */
	char *class, *reason, *message, *remedy;
};

#define AUTO_MIRROR_CHECKOUT __attribute__((cleanup(mirror_checkout_clear)))
void mirror_checkout_clear(struct mirror_checkout *row);

/* 1: found; 0: not found; -1: error. */
int mirror_checkout_read(struct store *store, const char *name,
			 struct mirror_checkout *row, struct err *err);

/* The parts of the site that it needs; borrowed. */
struct mirror_checkout_site {
	struct store *store;
	struct lease_manager *leases;
	const char *root;
	int64_t timeout_ms;
};

/* Under the lease of the clone, which equals its upstream as last seen: makes the working
 * tree equal to HEAD's commit, or removes an unwanted one, and removes trees that were
 * replaced long ago. Records the outcome in the row and the log. */
void mirror_checkout_keep(const struct mirror_checkout_site *site,
			  const struct mirror *mirror, struct job *leased);

/* Whether work is due: it failed, was switched on or off, or a replaced tree can be
 * removed. */
bool mirror_checkout_is_due(const struct mirror_checkout_site *site,
			    const struct mirror *mirror);

/* The same as mirror_checkout_keep(), if it is due. Takes the lease; if it is held,
 * later. */
void mirror_checkout_look_after(const struct mirror_checkout_site *site,
				const struct mirror *mirror, const struct stop *stop);

/* At the start of a secondary, which keeps no mirrors: removes the links, which would
 * lead to the same commit for ever, and moves the trees to the trash, in a thread of its
 * own. What cannot be moved is logged, and left for the next start. The root must have
 * been judged (upkeep/copies_root.h). */
struct checkouts_trash;
int checkouts_trash_start(const struct mirror_checkout_site *site,
			  struct checkouts_trash **trash, struct err *err);

/* Joins it; NULL is allowed. */
void checkouts_trash_stop(struct checkouts_trash *trash);

/* In a transaction: removes rows without a mirror. */
int mirror_checkouts_forget_in(struct store_tx *tx, struct err *err);

/* For `mirror list`; null if a working tree is neither wanted nor left. */
json_t *mirror_checkout_json(struct store *store, const char *root, const char *name,
			     const struct mirror *mirror);

#endif
