/*
 * The log of the primary whose inventory a kind was last wholly compared with. Another
 * log is that of another primary, as after a promotion, or of one that was restored or
 * has lost its database: what it lacks was not necessarily deleted, it may never have
 * come there. The address tells nothing: a name may lead to whichever site is the
 * primary.
 */
#ifndef PULL_FOLLOWED_H
#define PULL_FOLLOWED_H

#include "store/store.h"

/* What a row is held for that such a primary lacks. */
#define FOLLOWED_LACKS                                                                   \
	"the primary is another one than before, or was restored, and lacks it"

/* Whether the last whole comparison of that kind was with another log than that of
 * `timeline`: 1, 0, or -1. */
int followed_was_another(struct store *store, const char *kind, const char *timeline,
			 struct err *err);

/* Whether all of that kind was ever compared, since this site is a secondary: 1, 0, -1.
 */
int followed_was_compared(struct store *store, const char *kind, struct err *err);

/* This site was a primary itself: whichever it follows next is another one. */
int followed_forget_in(struct store_tx *tx, struct err *err);

/* All of the inventory was compared with that log; or, if is_part, but for what the
 * primary could not read: if nothing was compared before, it is that log that is followed
 * from now on, but not all was compared. */
int followed_keep(struct store *store, const char *kind, const char *timeline,
		  bool is_part, struct err *err);

#endif
