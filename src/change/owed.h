/*
 * Repositories whose change the sink could not take: remembered in the transaction that
 * recorded the change, so that a full or lost task store costs neither event nor task.
 */
#ifndef CHANGE_OWED_H
#define CHANGE_OWED_H

#include "base/base.h"
#include "base/thread.h"
#include "change/notice.h"
#include "store/store.h"

/* Inside store_write(). */
int owed_add(struct store_tx *tx, const char *name, const struct err *why,
	     struct err *err);

/* After the commit. */
void owed_note(struct notice *notice, const char *name, const struct err *why);

struct owed_summary {
	int64_t count, since;
	char example[256]; /* a name */
	struct err why;    /* of it */
};
int owed_look(struct store_tx *tx, struct owed_summary *summary, struct err *err);

/* Tells the sink of each again; what it takes is forgotten. Ends at the first that it
 * does not take (0 all the same), and at stop (may be NULL). *left says how many remain.
 * Without a sink nothing is owed to anybody. */
int owed_settle(struct notice *notice, const struct stop *stop, size_t *left,
		struct err *err);

/* Whether there may be any. Costs nothing. */
bool owed_may_be(struct notice *notice);

#endif
