/*
 * Which primary's inventory a kind was last wholly compared with. A secondary may be
 * pointed at another primary, as after a promotion: what that one lacks was not
 * necessarily deleted, it may never have come there.
 */
#ifndef PULL_FOLLOWED_H
#define PULL_FOLLOWED_H

#include "store/store.h"

/* What a row is held for that such a primary lacks. */
#define FOLLOWED_LACKS "the primary is another one than before and lacks it"

struct followed {
	const char *kind;
	const char *timeline; /* of its log */
	const char *address;  /* primary_address() */
};

/* Whether the last whole comparison was with another primary: at another address, with
 * another log. The same one may move, or begin a new log. 1, 0, or -1. */
int followed_was_another(struct store *store, const struct followed *now,
			 struct err *err);

/* This site was a primary itself: whichever it follows next is another one. */
int followed_forget_in(struct store_tx *tx, struct err *err);

/* All of that inventory was compared. */
int followed_keep(struct store *store, const struct followed *now, struct err *err);

#endif
