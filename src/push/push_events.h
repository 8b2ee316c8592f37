/*
 * What came of pushes, as events in the words and fields of Gerrit's replication plugin:
 * `ref-replicated`, `ref-replication-done`. They are lines of JSON in
 * <site.data>/push-events, in the order of their ids, and go to replication.webhook from
 * there. A log of its own: secondaries follow the other one, and know nothing of these.
 *
 * Kept by size: the file before is push-events.old. push-events.sent has the id that the
 * webhook took last. Nothing of it is synced: an event may be lost with the machine, and
 * may come twice. Any thread.
 */
#ifndef PUSH_PUSH_EVENTS_H
#define PUSH_PUSH_EVENTS_H

#include "base/base.h"
#include "base/json.h"
#include "push/settings.h"

struct push_events;

/* Opens the log, and begins to deliver what the webhook did not take yet. */
int push_events_open(const char *data, struct push_settings *settings,
		     struct push_events **events, struct err *err);
/* What was not delivered is, after the next start. NULL is allowed. */
void push_events_close(struct push_events *events);
void push_events_set(struct push_events *events, struct push_settings *settings);

/* Takes the object's reference; gives it "id" and "eventCreatedOn". Never waits for the
 * webhook; that it could not be written is only logged. */
void push_events_add(struct push_events *events, json_t *object);

/* Appends the lines above number *after that are kept, at most `limit`, and moves *after.
 * Without a log there are none. */
int push_events_read(const char *data, uint64_t *after, size_t limit, struct str *lines,
		     struct err *err);

#endif
