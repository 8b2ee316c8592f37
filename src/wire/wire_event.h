/*
 * Events of a primary's log, and the log's ends.
 */
#ifndef WIRE_WIRE_EVENT_H
#define WIRE_WIRE_EVENT_H

#include "base/vec.h"
#include "git/refs.h"
#include "wire/wire.h"

#define EVENT_MARK_SIZE 17
#define EVENT_CHANGES_MAX 200
#define EVENT_CHANGES_BYTES ((size_t)256 << 10)

/* EVENT_CHECKSUMMED ("checksum_succeeded"): the checksum of a generation reported before
 * has become known; never for repositories. */
enum event_what { EVENT_CREATED, EVENT_UPDATED, EVENT_DELETED, EVENT_CHECKSUMMED };
#define EVENT_WHATS 4
const char *event_what_name(enum event_what what);

struct event {
	uint64_t id;
	char mark[EVENT_MARK_SIZE];
	int64_t at;        /* wall ms */
	char *kind, *name; /* owned */
	enum event_what what;
	char timeline[TIMELINE_SIZE]; /* of the replicable */
	uint64_t generation;
	uint64_t size;  /* bytes; 0 for repositories */
	char *checksum; /* owned; NULL with EVENT_DELETED, if it cannot be read, and for
			   kinds other than repositories if it is not known yet */
	char *changes;  /* JSON array as text; owned; NULL: unknown */
};

typedef VEC(struct event) event_list;
#define AUTO_EVENTS __attribute__((cleanup(event_list_clear)))
void event_clear(struct event *event);
void event_list_clear(event_list *events);

/* The log's ends at one moment. */
struct event_ends {
	char timeline[TIMELINE_SIZE];
	uint64_t first;             /* the oldest one kept; last + 1: the log is empty */
	uint64_t last;              /* the newest ever; 0: never one */
	char mark[EVENT_MARK_SIZE]; /* of the newest; "" without one */
	int64_t last_at;
};

/* The headers WIRE_TIMELINE and WIRE_LAST_EVENT of an answer with events; `first` and
 * `last_at` are not sent. */
#define WIRE_LAST_EVENT_SIZE 48
void wire_ends_render(const struct event_ends *ends, char text[WIRE_LAST_EVENT_SIZE]);
int wire_ends_parse(const char *timeline, const char *last_event, struct event_ends *ends,
		    struct err *err);

/* The changes between two snapshots of refs, including HEAD: a JSON array as text, for
 * event.changes; diff is their difference. NULL: more than EVENT_CHANGES_MAX, or more
 * text than EVENT_CHANGES_BYTES, so that names of refs cannot make a line that no reader
 * takes. The caller frees. */
char *wire_event_changes(const struct ref_diff *diff, const struct ref_snapshot *before,
			 const struct ref_snapshot *after);

/* One event as sent, and as printed by `refrelay events`. The caller owns it. */
json_t *wire_event_json(const struct event *event);

/* A secondary's request for events. */
struct wire_events_question {
	bool has_cursor; /* false: without a position */
	uint64_t after;
	const char *mark, *timeline; /* of event `after`, of its log */
	size_t limit;
	int64_t wait_s;
	const char *report; /* JSON of wire/wire_report.h; may be NULL */
};

/* Appends the request's target, below the API's. */
void wire_events_target(const struct wire_events_question *question, struct str *target);

/* The answer's body: one event per line. */
void wire_events_render(const event_list *events, struct str *body);

/* Checks: at most question->limit events, ids dense from the position on and not above
 * ends->last, the newest with ends->mark. After a failure nothing needs clearing. */
int wire_events_parse(const struct str *body, const struct wire_events_question *question,
		      const struct event_ends *ends, event_list *events, struct err *err);

#endif
