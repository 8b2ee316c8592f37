/*
 * The registry: a row for each replicable with the state of its copy, when it is due
 * again, and its error. All changes of state are moves (replicable/registry_move.h).
 *
 * States and transitions are Geo's, except that rows do not stay `started` for ever: a
 * started row has due_at in the future, when it can be claimed again.
 *
 *	pending  <- any			something is to be brought
 *	started  <- pending, synced, failed, started whose time has passed
 *	synced   <- started, and only if nothing newer was asked for meanwhile
 *	failed   <- started, synced	retry_at by base/retry.h
 *	missing_on_primary <- started	likewise
 *
 * Source: seeds 000 and 002.
 */
#ifndef REPLICABLE_REGISTRY_H
#define REPLICABLE_REGISTRY_H

#include "base/base.h"
#include "replicable/kind_names.h"
#include "replicable/registry_claim.h"
#include "replicable/registry_move.h"
#include "replicable/registry_types.h"
#include "store/store.h"

/* Adds pending rows for these names; existing ones are not changed. */
int registry_add_in(struct store_tx *tx, const char *kind, const char *const *names,
		    size_t count, struct err *err);

/* Removes the row: its copy was removed. 1: the row is not gone (any more), as it was
 * requested meanwhile: it stays, pending, as if never copied. A missing row is fine. */
int registry_remove_in(struct store_tx *tx, uint64_t id, struct err *err);

/* Counts the rows of a kind ever removed on request. The primary may still have these
 * replicables: a comparison that began before says nothing about them. */
int registry_note_ordered(struct store_tx *tx, const char *kind, struct err *err);
int registry_ordered_in(struct store_tx *tx, const char *kind, int64_t *count,
			struct err *err);

/* The files here may be others' by now: no blob counts as brought any more. */
int registry_disown_blobs_in(struct store_tx *tx, struct err *err);

/* Reads a row; the caller clears it. ERR_MISSING: not found. */
int registry_get(struct store *store, const char *kind, const char *name,
		 struct registry_row *row, struct err *err);
int registry_get_in(struct store_tx *tx, const char *kind, const char *name,
		    struct registry_row *row, struct err *err); /* 1, 0: not found, -1 */

/* A repository keeps one timeline for its whole life: another row with the timeline of
 * *row is the same repository under its former or its next name. Reads that row, of
 * several the one that is not gone, or has a copy; the caller clears. A timeline that
 * more than three have says nothing: earlier versions gave all repositories of a restored
 * primary the same. 1: found; 0: not; -1: error. */
int registry_twin_in(struct store_tx *tx, const struct registry_row *row,
		     struct registry_row *twin, struct err *err);

/* Whether *row is gone, and the same repository continues under another name, so that it
 * was not deleted. 1, 0, -1. */
int registry_was_renamed_in(struct store_tx *tx, const struct registry_row *row,
			    struct err *err); /* 1, 0, -1 */

struct registry_filter {
	const char *kind;
	const char *after; /* names above it; NULL: all */
	size_t limit;
	int state;              /* enum registry_state, or REGISTRY_ANY */
	bool with_unverifiable; /* state: failed; synced ones whose verification fails,
				   too */
	bool held_only;         /* with held_reason */
	bool unheld_only;       /* without */
	bool gone_only;         /* deleted at the primary */
	const char *search;     /* only names that contain it; NULL: all */
};
#define REGISTRY_ANY (-1)

/* In byte order of names, added to *rows; the caller clears them. */
int registry_list(struct store *store, const struct registry_filter *filter,
		  registry_rows *rows, struct err *err);
int registry_list_in(struct store_tx *tx, const struct registry_filter *filter,
		     registry_rows *rows, struct err *err);

/* All rows of the filter, whatever its limit, read by pages of 500; `visit` may move its
 * row. If it returns other than 0 the walk ends and returns that. */
typedef int (*registry_visit)(struct store_tx *tx, const struct registry_row *row,
			      void *arg, struct err *err);
int registry_each_in(struct store_tx *tx, const struct registry_filter *filter,
		     registry_visit visit, void *arg, struct err *err);

/* Counted on writing, so that reading them costs the same for any number of rows. All but
 * `here`. */
int registry_counts(struct store *store, const char *kind, struct registry_counts *counts,
		    struct err *err);

/* Only two of these. */
int registry_count_all_in(struct store_tx *tx, const char *kind, int64_t *all,
			  int64_t *gone, struct err *err);

/* The kinds that have rows. */
int registry_kinds_in(struct store_tx *tx, kind_names *kinds, struct err *err);

/* How many rows of a kind have a copy here that no person has asked to bring again. */
int registry_count_here(struct store_tx *tx, const char *kind, int64_t *count,
			struct err *err);

/* Whether any name below that folder was ever copied here. 1, 0, -1. */
int registry_has_copies_below(struct store *store, const char *kind, const char *folder,
			      struct err *err);

#endif
