/*
 * The event log: what changed at this primary, in the order of commits, ids dense,
 * limited by age and number. Format and meaning: docs/protocol.md. Any thread, any
 * process: a process other than the node pokes it after appending, so that its readers
 * wake.
 */
#ifndef CHANGE_EVENT_LOG_H
#define CHANGE_EVENT_LOG_H

#include "base/base.h"
#include "base/thread.h"
#include "base/vec.h"
#include "store/store.h"
#include "wire/wire_event.h"

struct event_log;

/* Opens it. data: the node's directory; NULL: without that check, e.g. for a database in
 * memory. If the database is not the one last seen from there, or an older state of it
 * (copied, restored from a backup), the log and all origin rows get a new timeline. */
int event_log_open(struct store *store, const char *data, struct event_log **log,
		   struct err *err);
void event_log_close(struct event_log *log);

/* For a reader that proved to have read, on this timeline, an event that the log does not
 * have: the database went back to an older state in place, e.g. by a snapshot of the file
 * system. Log and rows get a new timeline, unless another thread already did this. At
 * most once in ten minutes, since a liar could have all secondaries compare without end:
 * else ERR_BUSY. */
int event_log_went_back(struct event_log *log, const char *timeline, struct err *err);

/* Gives log and rows a new timeline instead of this one, because changes made while the
 * log was not kept are missing from it. */
int event_log_renew(struct store *store, const char *timeline, struct err *err);

int event_log_look(struct store *store, struct event_ends *ends, struct err *err);

/* Identifies an event. */
struct event_mark {
	uint64_t id; /* 0: no event */
	char mark[EVENT_MARK_SIZE];
};

/* Inside store_write(): gives event->id, mark and at. After the write has returned, call
 * event_log_wake. */
int event_log_append(struct store_tx *tx, struct event *event, struct err *err);
/* newest: the appended event; NULL: another process may have appended some. */
void event_log_wake(struct event_log *log, const struct event_mark *newest);

/* Inside store_write() or store_read(). */
int event_log_ends(struct store_tx *tx, struct event_ends *ends, struct err *err);

/* How much of a kind has been scanned since the log began. Until everything was, e.g.
 * with a new or restored database, or because of something unreadable, a replicable
 * without a row may exist all the same. */
enum event_scanned { SCANNED_NOTHING, SCANNED_PART, SCANNED_ALL };

/* Never lowers it. */
int event_log_set_scanned(struct store *store, const char *kind,
			  enum event_scanned scanned, struct err *err);
int event_log_scanned(struct store *store, const char *kind, enum event_scanned *scanned,
		      struct err *err);
int event_log_scanned_in(struct store_tx *tx, const char *kind,
			 enum event_scanned *scanned, struct err *err);
/* On this timeline or a former one. */
int event_log_was_scanned(struct store *store, const char *kind, bool *was_scanned,
			  struct err *err);

enum event_read { EVENTS_READ, EVENTS_GONE, EVENTS_OTHER_TIMELINE };

/* Events above `after`, at most `limit` (fewer if they are large); waits up to wait_ms
 * for one (or until stop). mark: of event `after`, "" or NULL: not checked. *how says
 * whether they are available; ends is always filled. */
#define EVENTS_FROM_OLDEST UINT64_MAX
struct event_question {
	uint64_t after; /* EVENTS_FROM_OLDEST: from the oldest one kept */
	const char *mark;
	size_t limit;
	int64_t wait_ms;
	const struct stop *stop; /* may be NULL */
};
int event_log_read(struct event_log *log, const struct event_question *question,
		   enum event_read *how, event_list *events, struct event_ends *ends,
		   struct err *err);

/* The same without a node: reads once, without waiting. */
int event_log_read_once(struct store *store, const struct event_question *question,
			enum event_read *how, event_list *events, struct event_ends *ends,
			struct err *err);

/* What changed of one repository between two generations of its timeline: event.changes
 * of each, in order; the caller clears the list. 1: the list is complete; 0: an event is
 * gone, or its changes are unknown, or there are more than `most`; -1: error. */
struct event_span {
	const char *name, *timeline;
	uint64_t after, until; /* generations: above `after`, up to `until` */
	size_t most;
};
int event_log_changes(struct store *store, const struct event_span *span,
		      text_list *changes, struct err *err);

/* Adds the newest events of one repository that have lists of changed refs, newest first,
 * to *events; the caller clears them. */
int event_log_latest(struct store *store, const char *name, size_t most,
		     event_list *events, struct err *err);

/* Drops events older than keep_ms, and the oldest above keep_count, whether read or not.
 * In small transactions. */
int event_log_prune(struct store *store, int64_t keep_ms, uint64_t keep_count,
		    uint64_t *dropped, struct err *err);

#endif
