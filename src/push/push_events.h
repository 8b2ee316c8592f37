/*
 * Results of pushes, as events with the names and fields of Gerrit's replication plugin:
 * `ref-replicated`, `ref-replication-done`. They are lines of JSON in
 * <site.data>/push-events, in the order of their ids, and are sent to replication.webhook
 * from there. This log is separate from the one that secondaries follow, which does not
 * have these events.
 *
 * Limited by size: the previous file is push-events.old. push-events.sent has the last id
 * that the webhook accepted. The files are not synced: an event may be lost in a crash of
 * the machine, or be sent twice. Any thread.
 */
#ifndef PUSH_PUSH_EVENTS_H
#define PUSH_PUSH_EVENTS_H

#include "base/base.h"
#include "base/json.h"
#include "change/event_log.h"
#include "push/settings.h"

struct push_events;

/* Opens the log, and begins to deliver events that the webhook has not accepted yet. */
int push_events_open(const char *data, struct push_settings *settings,
		     struct push_events **events, struct err *err);
/* Undelivered events are delivered after the next start. NULL is allowed. */
void push_events_close(struct push_events *events);
void push_events_set(struct push_events *events, struct push_settings *settings);

/* Takes the object's reference; adds "id" and "eventCreatedOn". Never waits for the
 * webhook; a failure to write is only logged. */
void push_events_add(struct push_events *events, json_t *object);

struct push_events_page {
	uint64_t after;    /* moves on with what is read; EVENTS_FROM_OLDEST: at first */
	size_t limit;      /* at most so many */
	struct str *lines; /* are appended to it */
	enum event_read how;    /* whether they are available, as of event_log_read() */
	struct event_ends ends; /* only first and last */
};

/* The kept lines with ids above page->after. Without a log, none. */
int push_events_read(const char *data, struct push_events_page *page, struct err *err);

#endif
