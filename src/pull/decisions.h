/*
 * The decisions of pull's threads, separate from how they get their input and how they
 * act on the result: pure functions.
 */
#ifndef PULL_DECISIONS_H
#define PULL_DECISIONS_H

#include "base/base.h"
#include "base/vec.h"
#include "change/event_log.h"
#include "pull/primary.h"
#include "replicable/registry.h"

/* The position in the primary's log that this site has taken over. */
struct pull_cursor {
	uint64_t id;
	char mark[EVENT_MARK_SIZE]; /* "" with id 0 */
	char timeline[TIMELINE_SIZE];
};

#define PULL_CURSOR_SIZE 64

/* As stored in the database: "ID MARK TIMELINE", a "-" for no mark. */
void pull_cursor_format(const struct pull_cursor *cursor, char text[PULL_CURSOR_SIZE]);
bool pull_cursor_parse(const char *text, struct pull_cursor *cursor);
void pull_cursor_set(struct pull_cursor *cursor, const struct event_ends *ends);

/* The combined effect of several events of one replicable. */
struct folded_event {
	const struct event *first, *last; /* borrowed */
	int64_t since;                    /* time of the first of them */
	bool is_reported_only;            /* nothing changed: a checksum became known */
};
typedef VEC(struct folded_event) folded_events;

/* The last event of each replicable, in the order of their ids. */
void fold_events(const event_list *events, folded_events *folded);

enum compare_action {
	COMPARE_ASK,    /* not the same, or no row */
	COMPARE_ADOPT,  /* proved to be the same content under another identity */
	COMPARE_GONE,   /* the primary no longer has it */
	COMPARE_REPORT, /* the same, but a checksum has become known */
};

struct compare_step {
	enum compare_action action;
	const struct inventory_item *item; /* borrowed; NULL with COMPARE_GONE */
	const struct registry_row *row;    /* borrowed; NULL: there is none */
};
typedef VEC(struct compare_step) compare_steps;

/* A part of an inventory page, and the registry's rows of the very same range of names,
 * both complete and in byte order. Appends a step for each difference. */
struct compare_range {
	const struct inventory_item *items;
	size_t item_count;
	const struct registry_row *rows;
	size_t row_count;
	bool reports_checksums; /* checksums become known later than the change */
	int64_t asked_at;       /* wall ms: the page is no older */
};
void compare_range(const struct compare_range *range, compare_steps *steps);

/* How many of the first names are not above `end` (NULL: all). */
size_t count_items_until(const struct inventory_item *items, size_t count,
			 const char *end);
size_t count_rows_until(const struct registry_row *rows, size_t count, const char *end);

/* The pause before the next page of a comparison is requested, when a page found nothing:
 * the pages of all rows are spread over an interval, but the pause is at least four times
 * as long as the page took, and never longer than the interval. */
struct page_pace {
	int64_t interval_ms, took_ms;
	int64_t rows, page_rows; /* in the registry; of these on the page */
};
int64_t page_pause_ms(const struct page_pace *pace);

/* How long a pass of these pages takes, including the pauses. */
int64_t pass_takes_ms(const struct page_pace *pace);

/* The wait after this many failures in a row: 1 s, 2, 4 ... 30 s, a quarter more or less.
 * `roll` is any number. */
int64_t backoff_ms(unsigned failures, unsigned roll);

/* Whether a failed request is repeated at once before it counts: proxies and firewalls
 * drop connections that were idle for long. */
bool is_idle_loss(const struct err *err, int64_t waited_ms);

/* In how long a row that was proved is to be verified again: by `roll`, between half the
 * interval and all of it, so that rows do not fall due together. 0: never. */
int64_t next_reverify_ms(int64_t reverify_ms, unsigned roll);

/* How a row is to be brought. */
struct sync_manner {
	bool is_forced, is_suspect, is_rebuild;
};
struct sync_manner sync_manner_of(const struct registry_row *row);

/* The event to record for a verification. of_copy: it ended while only the copy's own
 * files were read. */
enum registry_event verification_end(const struct err *err, bool of_copy);

/* ... and when it is due again, if it was neither proved nor disproved. */
int64_t verification_again_ms(enum err_class class);

#endif
