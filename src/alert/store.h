/*
 * The state of each [alert] in the database, so that it outlives the node, and others can
 * read it. What is in memory counts: a disk that is full keeps nobody from being told.
 * Any thread.
 */
#ifndef ALERT_STORE_H
#define ALERT_STORE_H

#include "alert/state.h"
#include "store/store.h"

/* How sending fares. Times are wall ms; 0: never, or not. */
struct alert_sending {
	int64_t sent_at;
	int64_t failing_since, failed_at;
	int64_t failures; /* in a row */
	struct err why;
	int64_t beat_at, beat_failing_since; /* heartbeats */
	char beat_why[256];
};

/* Zeros, and no entries, where nothing is kept. The caller clears the state in any case.
 */
int alert_store_read(struct store *store, const char *name, struct alert_state *state,
		     struct alert_sending *sending, struct err *err);

int alert_store_write(struct store *store, const char *name,
		      const struct alert_state *state,
		      const struct alert_sending *sending, struct err *err);

/* Removes what is kept of others than these. */
int alert_store_forget_others(struct store *store, const struct alerts *alerts,
			      struct err *err);

#endif
