/*
 * Which troubles an [alert] has seen, and which of them are to be told of: a trouble must
 * hold for a while before it counts, and be away for a while before it is over. Pure: no
 * clock, no database (alert/store.h). For one thread at a time.
 */
#ifndef ALERT_STATE_H
#define ALERT_STATE_H

#include "alert/rules.h"

/* What is new of an entry since alert_state_take() was called last. */
enum alert_news { ALERT_NO_NEWS, ALERT_BEGAN, ALERT_ENDED };

struct alert_entry {
	enum alert_kind kind;
	char *subject, *text, *remedy; /* owned */
	int64_t since;                 /* wall ms, as those below */
	int64_t seen_at;               /* by us, first */
	int64_t gone_at;               /* since when it is away; 0: it is there */
	int64_t told_at;               /* last; 0: never */
	bool is_due;                   /* it has held for long enough to count */
	bool is_over;                  /* its end is to be told */
	enum alert_news news;
	bool is_found; /* internal to alert_state_take() */
};

struct alert_state {
	VEC(struct alert_entry) entries; /* in the order in which they began */
};

void alert_state_clear(struct alert_state *state);

/* Takes what is wrong now. With is_whole false it is not all that is: nothing ends.
 * Returns whether something is other than before, but for texts. */
bool alert_state_take(struct alert_state *state, const alert_troubles *troubles,
		      bool is_whole, const struct alert *alert, int64_t now);

/* What a message would tell of an entry now; those above come first in it. */
enum alert_telling { ALERT_TELLS_NOTHING, ALERT_BEGINS, ALERT_REPEATS, ALERT_IS_OVER };
enum alert_telling alert_entry_due(const struct alert_entry *entry,
				   const struct alert *alert, int64_t now);

/* Whether there is something to tell. */
bool alert_state_is_due(const struct alert_state *state, const struct alert *alert,
			int64_t now);

/* A message told so many, at most, of what was due at that time, in its order; the others
 * stay due. Ends that were told are forgotten. */
void alert_state_told(struct alert_state *state, const struct alert *alert, int64_t at,
		      size_t most);

#endif
