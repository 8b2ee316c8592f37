/*
 * The troubles that an [alert] has seen, and which of them to send: a trouble must last
 * for a while before it counts, and be gone for a while before it has ended. Pure: no
 * clock, no database (alert/store.h). For one thread at a time.
 */
#ifndef ALERT_STATE_H
#define ALERT_STATE_H

#include "alert/rules.h"

/* News of an entry since the last call of alert_state_take(). */
enum alert_news { ALERT_NO_NEWS, ALERT_BEGAN, ALERT_ENDED };

struct alert_entry {
	enum alert_kind kind;
	char *subject, *text, *remedy; /* owned */
	int64_t since;                 /* wall ms, as those below */
	int64_t seen_at;               /* first seen by us */
	int64_t gone_at;               /* since when it is gone; 0: present */
	int64_t told_at;               /* last sent; 0: never */
	bool is_due;                   /* it has lasted long enough to count */
	bool is_over;                  /* its end is to be sent */
	enum alert_news news;
	bool is_found; /* internal to alert_state_take() */
};

struct alert_state {
	VEC(struct alert_entry) entries; /* in the order in which they began */
};

void alert_state_clear(struct alert_state *state);

/* Forgets entries of other kinds (a bit each), without a word: nothing says whether they
 * have ended. Whether there were some. */
bool alert_state_keep_kinds(struct alert_state *state, unsigned kinds);

/* The messages went elsewhere: what is present is told anew, and no end of what was not.
 */
void alert_state_untell(struct alert_state *state);

/* Takes the present troubles. With is_whole false the list is incomplete: nothing ends.
 * Returns whether anything but texts has changed. */
bool alert_state_take(struct alert_state *state, const alert_troubles *troubles,
		      bool is_whole, const struct alert *alert, int64_t now);

/* What a message would say of an entry now; in it entries are in the order of
 * this enum. */
enum alert_telling { ALERT_TELLS_NOTHING, ALERT_BEGINS, ALERT_REPEATS, ALERT_IS_OVER };
enum alert_telling alert_entry_due(const struct alert_entry *entry,
				   const struct alert *alert, int64_t now);

/* Whether there is something to send. */
bool alert_state_is_due(const struct alert_state *state, const struct alert *alert,
			int64_t now);

/* Records that a message had at most `most` entries of those due at that time, in its
 * order; the others stay due. Removes entries whose end was sent. */
void alert_state_told(struct alert_state *state, const struct alert *alert, int64_t at,
		      size_t most);

#endif
