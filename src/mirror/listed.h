/*
 * The content of the lists of [mirrors], kept in the database: so the mirrors exist
 * before a list is read again, and commands know them. Only a complete list changes
 * anything. A repository missing from one list is still mirrored; one missing from two in
 * a row, read with the same settings, is gone: its row is treated as if deleted at a
 * primary, under the deletion limit (upkeep/removal.h). Any thread.
 */
#ifndef MIRROR_LISTED_H
#define MIRROR_LISTED_H

#include "mirror/mirrors.h"
#include "store/store.h"

/* At a node's start: records the configured lists. Others are no longer expected to be
 * read. */
int listed_begin(struct store *store, const struct mirrors *mirrors, struct err *err);

/* Sets the mirrors to those of the sections and of the last lists; `taken` as for
 * mirrors_replace_told(). listed_load_in() runs inside store_write(), for callers that
 * write further rows in the same transaction, before another list is taken. */
typedef void (*listed_taken)(void *arg, const struct mirror_told *one,
			     const struct mirror *by);
int listed_load_in(struct store_tx *tx, const struct mirrors *mirrors, listed_taken taken,
		   struct err *err);
int listed_load(struct store *store, const struct mirrors *mirrors, struct err *err);

struct listed_change {
	size_t added, moved;  /* moved: with another URL */
	size_t missing, gone; /* missing for the first, or the second time */
};

/* Takes over a list that was read completely. */
int listed_take(struct store *store, const struct mirrors *mirrors,
		const struct mirror_list *list, const struct upstream_list *said,
		struct listed_change *change, struct err *err);

/* Sets *mounts to the upstream_list.mounts of the last one that was taken over, by
 * whichever node, before a restart or after it. */
int listed_read_mounts(struct store *store, const struct mirror_list *list,
		       text_list *mounts, struct err *err);

/* Records that it could not be read. */
int listed_fail(struct store *store, const struct mirror_list *list,
		const struct err *why, struct err *err);

/* A mirror was removed on a person's request: it is dropped from its list, until a new
 * list has it. */
int listed_forget(struct store *store, const char *name, struct err *err);

/* The outcome of one list's readings; for commands. */
struct listed_state {
	int64_t read_at;                /* wall ms, of the last whole one; 0: never */
	int64_t failed_at;              /* 0: the last one did not fail */
	int64_t count;                  /* of its entries */
	char *class, *message, *remedy; /* owned; of the failure, or NULL */
};

#define AUTO_LISTED_STATE __attribute__((cleanup(listed_state_clear)))
int listed_read_state(struct store *store, const struct mirror_list *list,
		      struct listed_state *state, struct err *err);
void listed_state_clear(struct listed_state *state);

#endif
