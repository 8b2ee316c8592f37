/*
 * The event log's rows: what event_log.h says, for works inside a transaction. Private
 * to change/.
 */
#ifndef CHANGE_EVENT_ROWS_H
#define CHANGE_EVENT_ROWS_H

#include "change/event_log.h"

/* Site values of the log. */
#define EVENT_TIMELINE_KEY "log.timeline"
#define EVENT_SCANNED_KEY "log.scanned"         /* the timeline in which it was */
#define EVENT_SCANNED_ALL_KEY "log.scanned_all" /* likewise, with nothing hidden */
#define EVENT_FILE_KEY "log.file"               /* which file the database was */
#define EVENT_LAST_KEY "log.last"     /* "ID MARK AT" of the newest event ever */
#define EVENT_PRUNED_KEY "log.pruned" /* "ID MARK" of the newest that was dropped */

/* One answer, from one picture of the database. `how` and `events` as event_log_read. */
struct event_page {
	const struct event_question *question;
	enum event_read how;
	event_list *events;
	struct event_ends *ends;
};

int event_rows_read(struct store_tx *tx, struct event_page *page, struct err *err);

/* Drops the oldest, some at a time, as long as they are older than `before` or at most
 * `up_to`; *dropped: how many; fewer than EVENT_PRUNE_BATCH: it is done. */
#define EVENT_PRUNE_BATCH 1000
struct event_pruning {
	int64_t before;
	uint64_t keep_count;
	size_t dropped;
};
int event_rows_prune(struct store_tx *tx, struct event_pruning *pruning, struct err *err);

#endif
