/*
 * What the lists of [mirrors] have told, kept in the database: so the mirrors are there
 * before a list was read again, and commands know them. Only a whole list changes
 * anything. What one lacks is still mirrored; what two in a row lack is gone, if both
 * were read by the same settings: its row goes the way of what was deleted at a primary,
 * under the deletion limit (upkeep/removal.h). Any thread.
 */
#ifndef MIRROR_LISTED_H
#define MIRROR_LISTED_H

#include "mirror/mirrors.h"
#include "store/store.h"

/* At a node's start: which lists there are. Others are not expected to be read. */
int listed_begin(struct store *store, const struct mirrors *mirrors, struct err *err);

/* The mirrors are from now on those of the sections, and what the lists had last;
 * `taken` as for mirrors_replace_told(). The first inside store_write(), for who writes
 * what follows from it: so no list is taken in between. */
typedef void (*listed_taken)(void *arg, const struct mirror_told *one,
			     const struct mirror *by);
int listed_load_in(struct store_tx *tx, const struct mirrors *mirrors, listed_taken taken,
		   struct err *err);
int listed_load(struct store *store, const struct mirrors *mirrors, struct err *err);

struct listed_change {
	size_t added, moved;  /* moved: has another URL */
	size_t missing, gone; /* lacked for the first time, and for the second */
};

/* A list was read, and is whole. */
int listed_take(struct store *store, const struct mirrors *mirrors,
		const struct mirror_list *list, const struct upstream_list *said,
		struct listed_change *change, struct err *err);

/* It could not be read. */
int listed_fail(struct store *store, const struct mirror_list *list,
		const struct err *why, struct err *err);

/* A mirror was removed by a person's word: no list tells of it, until one is read that
 * has it. */
int listed_forget(struct store *store, const char *name, struct err *err);

/* How readings of one ended; for commands. */
struct listed_state {
	int64_t read_at;                /* wall ms, of the last whole one; 0: never */
	int64_t failed_at;              /* 0: the last one did not fail */
	int64_t count;                  /* of what it has */
	char *class, *message, *remedy; /* owned; of the failure, or NULL */
};

#define AUTO_LISTED_STATE __attribute__((cleanup(listed_state_clear)))
int listed_read_state(struct store *store, const struct mirror_list *list,
		      struct listed_state *state, struct err *err);
void listed_state_clear(struct listed_state *state);

#endif
