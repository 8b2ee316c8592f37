/*
 * Applies the events that the log cursor read to the registry's rows, in one transaction.
 * For pull/log_cursor.c.
 */
#ifndef PULL_LOG_CURSOR_H
#define PULL_LOG_CURSOR_H

#include "pull/decisions.h"
#include "pull/pull_parts.h"

/* Drops events that this site cannot apply: of kinds that are not configured, or with
 * invalid names. They are logged, a kind once; names are also counted as left out
 * (pull_skipped_read()), until a comparison, which is requested here, has counted them.
 * -1: that could not be written. */
int events_judge(struct pull *pull, folded_events *folded, struct err *err);

struct events_taking {
	const folded_events *folded;  /* judged; may be NULL */
	const struct pull_cursor *to; /* NULL: the position is forgotten */
	const char *last_event;       /* NULL: unchanged */
	struct pull *pull;
	/* Result: a deletion was passed over, as of another replicable of that name than
	 * the one here; a comparison tells. */
	bool has_doubtful;
};

/* A store_work; arg is a struct events_taking. */
int events_take(struct store_tx *tx, void *arg, struct err *err);

#endif
