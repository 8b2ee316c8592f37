/*
 * What the log cursor read becomes of the registry's rows: one transaction. For
 * pull/log_cursor.c.
 */
#ifndef PULL_LOG_CURSOR_H
#define PULL_LOG_CURSOR_H

#include "pull/decisions.h"
#include "pull/pull_parts.h"

/* Takes out what this site does not have: kinds that it was not told of, names that are
 * none. Told in the log, a kind once; names also as left out (pull_skipped_read()), until
 * a comparison, which is asked for, has counted them. -1: that could not be written. */
int events_judge(struct pull *pull, folded_events *folded, struct err *err);

struct events_taking {
	const folded_events *folded;  /* judged; may be NULL */
	const struct pull_cursor *to; /* NULL: the position is forgotten */
	const char *last_event;       /* NULL: as it was */
	struct pull *pull;
};

/* A store_work; arg is a struct events_taking. */
int events_take(struct store_tx *tx, void *arg, struct err *err);

#endif
