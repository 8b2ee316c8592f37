/*
 * The state of each [alert] in the database, so that it survives the node, and other
 * processes can read it. The state in memory decides: a full disk does not prevent
 * messages. Any thread.
 */
#ifndef ALERT_STORE_H
#define ALERT_STORE_H

#include "alert/state.h"
#include "store/store.h"

/* The state of sending. Times are wall ms; 0: never, or not. */
struct alert_sending {
	int64_t sent_at;
	int64_t failing_since, failed_at;
	int64_t failures; /* in a row */
	struct err why;
	int64_t beat_at, beat_failing_since; /* heartbeats */
	char beat_why[256];
};

/* Zeros, without entries, if nothing is stored. The caller clears the state in any
 * case. */
int alert_store_read(struct store *store, const char *name, struct alert_state *state,
		     struct alert_sending *sending, struct err *err);

/* The same for the one that sends, with its settings of now: what it does not ask for any
 * longer is forgotten; if it sends elsewhere than the last time, all is told anew. */
int alert_store_open(struct store *store, const struct alert *alert,
		     struct alert_state *state, struct alert_sending *sending,
		     struct err *err);

int alert_store_write(struct store *store, const char *name,
		      const struct alert_state *state,
		      const struct alert_sending *sending, struct err *err);

/* Removes the stored state of all others. */
int alert_store_forget_others(struct store *store, const struct alerts *alerts,
			      struct err *err);

#endif
