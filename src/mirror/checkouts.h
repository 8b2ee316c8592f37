/*
 * Working trees of mirrors that have `checkout = true`: when one is made, looked after or
 * removed (upkeep/checkout.h does it), and a row each of what came of that. A working
 * tree that fails is told of; the mirror is up to date all the same. Any thread.
 */
#ifndef MIRROR_CHECKOUTS_H
#define MIRROR_CHECKOUTS_H

#include "base/json.h"
#include "job/job.h"
#include "mirror/mirror_set.h"
#include "store/store.h"

struct mirror_checkout {
	char *commit,
		*branch; /* that it shows; NULL: it is not there, or is of no branch */
	int64_t made_at; /* wall ms, as these */
	int64_t due_at;  /* something is to be done; 0: not by itself */
	int64_t failing_since; /* 0: it does not fail; else why: */
	char *class, *reason, *message, *remedy;
};

#define AUTO_MIRROR_CHECKOUT __attribute__((cleanup(mirror_checkout_clear)))
void mirror_checkout_clear(struct mirror_checkout *row);

/* 1: there is a row; 0: none. */
int mirror_checkout_read(struct store *store, const char *name,
			 struct mirror_checkout *row, struct err *err);

/* What it needs of the site; borrowed. */
struct mirror_checkout_site {
	struct store *store;
	struct lease_manager *leases;
	const char *root;
	int64_t timeout_ms;
};

/* Under the lease of the clone, which stands as its upstream was last seen: makes the
 * working tree equal to what HEAD names, or removes it if it is not wanted, and removes
 * what was replaced long ago. The row and the log say how it went. */
void mirror_checkout_keep(const struct mirror_checkout_site *site,
			  const struct mirror *mirror, struct job *leased);

/* Something is due: it failed, was switched on or off, or something replaced can go. */
bool mirror_checkout_is_due(const struct mirror_checkout_site *site,
			    const struct mirror *mirror);

/* The same as mirror_checkout_keep(), if it is due. Takes the lease; held means later. */
void mirror_checkout_look_after(const struct mirror_checkout_site *site,
				const struct mirror *mirror, const struct stop *stop);

/* In a transaction: rows of what is no mirror any more go. */
int mirror_checkouts_forget_in(struct store_tx *tx, struct err *err);

/* For `mirror list`; null where no working tree is wanted, nor any left. */
json_t *mirror_checkout_json(struct store *store, const char *root, const char *name,
			     const struct mirror *mirror);

#endif
