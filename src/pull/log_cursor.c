/*
 * The log cursor: reads the primary's events in order and asks for what they name. Rows
 * and position are committed together, so that no event is lost or forgotten by a crash;
 * one that is taken over twice does no harm.
 *
 * Where events cannot be had (none was ever read, they are no longer kept, or it is
 * another log), the whole inventory is compared instead. The log's end is noted *before*
 * that begins: what happens later is an event behind it, what happened earlier is in
 * the inventory. The position is absent from the database until the comparison is
 * through, so that a crash repeats it.
 */
#include "pull/log_cursor.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/retry.h"
#include "pull/copy_kind.h"
#include "pull/decisions.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"
#include "store/site_value.h"

typedef VEC(struct registry_ask) registry_asks;

/* Kinds of newer versions, and those that are not configured here. */
static void report_unknown(struct pull *pull, const struct event *event)
{
	bool is_new;

	lock(&pull->mutex);
	is_new = !map_put(&pull->unknown_kinds, event->kind, pull);
	unlock(&pull->mutex);
	if (is_new)
		log_info("event.kind_skipped", LOG_TEXT("kind", event->kind),
			 LOG_NUMBER("event", event->id));
}

/* arg: where the event is borrowed. */
static int write_skipped_one(struct store_tx *tx, void *arg, struct err *err)
{
	const struct event *event = *(const struct event **)arg;
	struct scan_record skipped = { .left_out = 1 };

	snprintf(skipped.example, sizeof(skipped.example), "a name in event %" PRIu64,
		 event->id);
	return pull_skipped_write(tx, event->kind, &skipped, err);
}

/* A comparison will say what is left out, but it takes its time: until then one is known,
 * or a site that passed over an event would be in sync. One that began before cannot
 * know of it (consistency.c); one that has counted meanwhile is asked again. */
static int events_take_note_skipped(struct pull *pull, const struct event *event,
				    struct err *err)
{
	struct store *store = pull->options.store;
	struct scan_record known;

	comparison_ask(pull);
	if (pull_skipped_read(store, event->kind, &known, err) != 0)
		return -1;
	if (known.left_out > 0)
		return 0;
	if (store_write(store, write_skipped_one, &event, err) != 0)
		return -1;
	comparison_ask(pull);
	return 0;
}

/* A name becomes a path here: whoever let a bad one through, it goes no further. 1, 0,
 * -1. */
static int events_take_is_ours(struct pull *pull, const struct event *event,
			       struct err *err)
{
	const struct kind *kind = kinds_find(pull->options.here, event->kind);
	struct err why;

	if (!kind || !kind->copies) {
		report_unknown(pull, event);
		return 0;
	}
	if (kind->check_name(kind, event->name, &why) == 0)
		return 1;
	log_warn("event.skipped", LOG_ERR(&why), LOG_NUMBER("event", event->id),
		 LOG_TEXT("kind", event->kind));
	return events_take_note_skipped(pull, event, err);
}

int events_judge(struct pull *pull, folded_events *folded, struct err *err)
{
	size_t kept = 0;

	for (size_t i = 0; i < folded->count; i++) {
		int is_ours = events_take_is_ours(pull, folded->items[i].last, err);
		if (is_ours < 0)
			return -1;
		if (is_ours)
			folded->items[kept++] = folded->items[i];
	}
	folded->count = kept;
	return 0;
}

/* Of the one that was deleted last, or of one that was before it in the same answer:
 * deleted, created anew and deleted again. */
static bool is_of_deleted(const struct folded_event *folded,
			  const struct registry_row *row)
{
	return !row->timeline[0] || strcmp(row->timeline, folded->last->timeline) == 0 ||
	       strcmp(row->timeline, folded->first->timeline) == 0;
}

static int take_deleted(struct store_tx *tx, const struct folded_event *folded,
			struct events_taking *taking, struct err *err)
{
	const struct event *event = folded->last;
	struct registry_move move = { .id = replicable_id(event->kind, event->name),
				      .event = REGISTRY_GONE,
				      .timeline = event->timeline,
				      .changed_at = folded->since };
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	int found = registry_get_in(tx, event->kind, event->name, &row, err);

	if (found <= 0)
		return found; /* it was never here */
	/* An older one of that name; should it be otherwise, the inventory tells. */
	if (!is_of_deleted(folded, &row)) {
		taking->has_doubtful |= !row.is_gone;
		return 0;
	}
	return registry_move_in(tx, &move, err) < 0 ? -1 : 0;
}

static struct registry_move events_take_make_asked_move(const struct folded_event *folded,
							struct pull *pull)
{
	const struct event *event = folded->last;
	uint64_t id = replicable_id(event->kind, event->name);

	return (struct registry_move){ .id = id,
				       .event = REGISTRY_ASKED,
				       .generation = event->generation,
				       .timeline = event->timeline,
				       .checksum = event->checksum,
				       .size = event->size,
				       .changed_at = folded->since,
				       .delay_ms = pace_delay_ms(pull, id) };
}

/* 1: what it is of is not known here yet. */
static int events_take_reported(struct store_tx *tx, const struct folded_event *folded,
				struct pull *pull, struct err *err)
{
	struct registry_move move = events_take_make_asked_move(folded, pull);
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	const struct event *event = folded->last;
	int found = registry_get_in(tx, event->kind, event->name, &row, err);

	if (found < 0)
		return -1;
	if (found == 0 || row.is_gone || strcmp(row.timeline, event->timeline) != 0 ||
	    row.generation_wanted < event->generation)
		return 1;
	move.event = REGISTRY_REPORTED;
	return registry_move_in(tx, &move, err) < 0 ? -1 : 0;
}

/* What is to be brought is only gathered, to be asked for in one go. */
static int events_take_event(struct store_tx *tx, const struct folded_event *folded,
			     struct events_taking *taking, registry_asks *asks,
			     struct err *err)
{
	int result = 1;

	if (folded->last->what == EVENT_DELETED)
		result = take_deleted(tx, folded, taking, err);
	else if (folded->is_reported_only)
		result = events_take_reported(tx, folded, taking->pull, err);
	if (result == 1)
		vec_add(asks, ((struct registry_ask){ folded->last->name,
						      events_take_make_asked_move(
							      folded, taking->pull) }));
	if (result < 0)
		return err_prefix(err, "event %" PRIu64, folded->last->id);
	return 0;
}

static int take_kind(struct store_tx *tx, struct events_taking *taking, const char *kind,
		     struct err *err)
{
	registry_asks asks = { 0 };
	int result = 0;

	for (size_t i = 0; result == 0 && i < taking->folded->count; i++) {
		const struct folded_event *folded = &taking->folded->items[i];
		if (strcmp(folded->last->kind, kind) == 0)
			result = events_take_event(tx, folded, taking, &asks, err);
	}
	if (result == 0)
		result = registry_ask_many_in(tx, kind, asks.items, asks.count, err);
	vec_clear(&asks);
	return result;
}

static int take_kinds(struct store_tx *tx, struct events_taking *taking, struct err *err)
{
	const struct kind *kind = NULL;

	while ((kind = kinds_next_copied(taking->pull->options.here, kind)) != NULL)
		if (take_kind(tx, taking, kind->type, err) != 0)
			return -1;
	return 0;
}

int events_take(struct store_tx *tx, void *arg, struct err *err)
{
	struct events_taking *taking = arg;
	char text[PULL_CURSOR_SIZE];

	taking->has_doubtful = false; /* a work may run again */
	if (taking->folded && taking->folded->count > 0 &&
	    take_kinds(tx, taking, err) != 0)
		return -1;
	if (taking->last_event &&
	    site_value_set(tx, PULL_LAST_EVENT, taking->last_event, err) != 0)
		return -1;
	if (!taking->to)
		return site_value_remove(tx, PULL_CURSOR, err);
	pull_cursor_format(taking->to, text);
	return site_value_set(tx, PULL_CURSOR, text, err);
}

#define EVENTS_LIMIT 1000
/* While there is work the primary is told how it goes. */
#define WAIT_AT_WORK_S 1
/* ... and soon, when what it was told last is no longer so. */
#define WAIT_NOT_GOOD_S 3
/* What the way of an answer takes at most, else it is late. */
#define LATE_MS 2000
#define COMPARISON_LOOK_MS 10000

struct log_cursor {
	struct pull *pull;
	struct primary_line *line; /* NULL: not open yet */
	struct lease *lease;
	struct pull_cursor at;
	bool is_known;     /* `at` was read from the database */
	bool has_at;       /* there is a position */
	bool is_heard;     /* the last answer led to the log's end: waiting is worth it */
	bool was_spared;   /* a lost connection was not counted since */
	bool has_news;     /* the last answer gave the scheduler work */
	bool has_doubtful; /* a comparison is to be asked for at the log's end */
	bool is_broken;    /* our own database fails; told in the log */
	bool is_good;      /* the primary was last told that this site is in sync */
	unsigned failures;
	uint64_t last_event; /* newest at the primary, as written */
	uint64_t finished;   /* jobs, when the primary was told last */
	uint64_t hurries;    /* of pull, when it last paused */
	/* The last request. */
	uint64_t request; /* its number */
	int64_t asked_at; /* boot ms */
	int64_t wait_ms;
};

static void log_cursor_publish_position(struct log_cursor *cursor)
{
	struct pull *pull = cursor->pull;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	if (cursor->has_at && strcmp(pull->news.timeline, cursor->at.timeline) != 0)
		pull->waits_since = 0;
	pull->state.has_cursor = cursor->has_at;
	pull->state.cursor = cursor->has_at ? cursor->at.id : 0;
	memcpy(pull->news.timeline, cursor->at.timeline, TIMELINE_SIZE);
}

/* "ID AT_MS"; when the newest was is known of those that came along, else now. */
static char *last_event_text(const struct log_cursor *cursor,
			     const struct primary_events *answer)
{
	int64_t at = answer->time_ms;

	if (answer->ends.last == cursor->last_event)
		return NULL;
	if (answer->ends.last_at > 0)
		at = answer->ends.last_at;
	else if (answer->events.count > 0 &&
		 answer->events.items[answer->events.count - 1].id == answer->ends.last)
		at = answer->events.items[answer->events.count - 1].at;
	return xasprintf("%" PRIu64 " %" PRId64, answer->ends.last, at);
}

/* A power cut takes rows and position back together, and the events come again. But a
 * copy is moved away only if it is on disk that its row is gone. */
static bool log_cursor_may_come_again(const struct events_taking *taking)
{
	for (size_t i = 0; i < taking->folded->count; i++)
		if (taking->folded->items[i].last->what == EVENT_DELETED)
			return false;
	return taking->to != NULL;
}

static int log_cursor_commit_answer(struct log_cursor *cursor,
				    const struct primary_events *answer,
				    const struct pull_cursor *to, struct err *err)
{
	AUTO_FREE char *last_event = last_event_text(cursor, answer);
	struct store *store = cursor->pull->options.store;
	folded_events folded = { 0 };
	struct events_taking taking = { .folded = &folded,
					.to = to,
					.last_event = last_event,
					.pull = cursor->pull };
	int result;

	if (to)
		fold_events(&answer->events, &folded);
	if (events_judge(cursor->pull, &folded, err) != 0) {
		vec_clear(&folded);
		return -1;
	}
	for (size_t i = 0; i < folded.count; i++)
		names_touch(cursor->pull, folded.items[i].last->kind,
			    folded.items[i].last->name);
	failpoint("cursor.read");
	result = log_cursor_may_come_again(&taking)
			 ? store_write_unsynced(store, events_take, &taking, err)
			 : store_write(store, events_take, &taking, err);
	failpoint("cursor.taken");
	cursor->has_news = result == 0 && folded.count > 0;
	if (cursor->has_news)
		pull_signal(cursor->pull);
	vec_clear(&folded);
	if (result != 0)
		return -1;
	cursor->has_doubtful |= taking.has_doubtful;
	cursor->last_event = answer->ends.last;
	cursor->has_at = to != NULL;
	if (to)
		cursor->at = *to;
	log_cursor_publish_position(cursor);
	return 0;
}

/* The position is forgotten first, and set to the log's end when all was compared. */
static int log_cursor_start_over(struct log_cursor *cursor,
				 const struct primary_events *answer, struct err *err)
{
	static const char *const reasons[] = { [EVENTS_READ] = "no position",
					       [EVENTS_GONE] = "events gone",
					       [EVENTS_OTHER_TIMELINE] =
						       "another timeline" };
	static const enum news_void voids[] = { [EVENTS_READ] = NEWS_FIRST,
						[EVENTS_GONE] = NEWS_LOST,
						[EVENTS_OTHER_TIMELINE] =
							NEWS_OF_ANOTHER_LOG };
	struct pull_cursor end = { 0 };
	uint64_t number;

	log_info("cursor.compares", LOG_TEXT("reason", reasons[answer->how]),
		 LOG_NUMBER("event", answer->ends.last));
	pull_cursor_set(&end, &answer->ends);
	news_none(cursor->pull, voids[answer->how]);
	if (log_cursor_commit_answer(cursor, answer, NULL, err) != 0)
		return -1;
	number = comparison_ask(cursor->pull);
	cursor->has_doubtful = false;
	while (!comparison_wait(cursor->pull, number, COMPARISON_LOOK_MS))
		if (stop_is_requested(&cursor->pull->stop) ||
		    lease_check(cursor->lease, err) != 0)
			return err_set(err, ERR_CANCELED, "the comparison was left");
	failpoint("cursor.compared");
	return store_write(cursor->pull->options.store, events_take,
			   &(struct events_taking){ .to = &end }, err);
}

static int log_cursor_take_over(struct log_cursor *cursor, struct primary_events *answer,
				struct err *err)
{
	struct pull_cursor to = cursor->at;
	const struct event *last;

	if (cursor->has_at && answer->how == EVENTS_READ &&
	    strcmp(cursor->at.timeline, answer->ends.timeline) != 0)
		answer->how = EVENTS_OTHER_TIMELINE;
	if (!cursor->has_at || answer->how != EVENTS_READ) {
		cursor->is_known = false; /* read again, whatever comes of it */
		return log_cursor_start_over(cursor, answer, err);
	}
	if (answer->events.count == 0)
		return 0;
	last = &answer->events.items[answer->events.count - 1];
	to.id = last->id;
	memcpy(to.mark, last->mark, sizeof(to.mark));
	return log_cursor_commit_answer(cursor, answer, &to, err);
}

static bool is_at_work(struct log_cursor *cursor)
{
	struct pull *pull = cursor->pull;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	bool is_news = cursor->has_news || pull->finished != cursor->finished;

	cursor->has_news = false;
	cursor->finished = pull->finished;
	return is_news || pull_is_bringing_locked(pull);
}

static int64_t wait_s(struct log_cursor *cursor)
{
	bool works = is_at_work(cursor);

	if (!cursor->is_heard || !cursor->has_at)
		return 0;
	if (works)
		return WAIT_AT_WORK_S;
	int64_t most = news_wait_s(cursor->pull);
	return cursor->is_good || most < WAIT_NOT_GOOD_S ? most : WAIT_NOT_GOOD_S;
}

/* False: there is nothing to tell. */
static bool make_report(struct log_cursor *cursor, struct str *report)
{
	const struct pull_options *options = &cursor->pull->options;

	cursor->is_good = true;
	return options->report &&
	       options->report(options->report_arg, report, &cursor->is_good,
			       ERR_IGNORED) == 0 &&
	       report->len > 0;
}

static int log_cursor_ask_events(struct log_cursor *cursor, struct primary_events *answer,
				 struct err *err)
{
	struct pull *pull = cursor->pull;
	AUTO_STR struct str report = STR_INIT;
	bool has_report = make_report(cursor, &report);
	struct wire_events_question question = {
		.report = has_report ? report.data : NULL,
		.has_cursor = cursor->has_at,
		.after = cursor->at.id,
		.mark = cursor->at.mark,
		.timeline = cursor->at.timeline,
		.limit = cursor->has_at ? EVENTS_LIMIT : 1,
		.wait_s = wait_s(cursor),
	};

	if (!cursor->line && primary_line_open(pull->options.primary, &pull->stop,
					       &cursor->line, err) != 0)
		return -1;
	cursor->wait_ms = question.wait_s * 1000;
	cursor->asked_at = clock_boot_ms();
	cursor->request = news_asked(pull);
	return primary_events(cursor->line, &question, answer, err);
}

/* A hurry ends it, even one during the request: that may have had the old key. */
static void pause_ms(struct log_cursor *cursor, int64_t ms)
{
	struct pull *pull = cursor->pull;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	int64_t until = clock_boot_ms() + ms;

	while (!pull->stopping && pull->hurries == cursor->hurries)
		if (!cond_wait_until(&pull->changed, &pull->mutex, until))
			break;
	cursor->hurries = pull->hurries;
}

/* The primary did not answer, or not with sense. */
static void back_off(struct log_cursor *cursor, const struct err *err, int64_t took_ms)
{
	cursor->is_heard = false;
	if (err->class == ERR_CANCELED)
		return;
	if (!cursor->was_spared && is_idle_loss(err, took_ms)) {
		cursor->was_spared = true;
		return;
	}
	cursor->failures++;
	peer_bad(cursor->pull, PULL_PART_CURSOR, err);
	pause_ms(cursor, backoff_ms(cursor->failures, random_roll()));
}

/* Our own side failed. */
static void pause_for(struct log_cursor *cursor, const struct err *err)
{
	if (err->class == ERR_CANCELED)
		return;
	if (!cursor->is_broken)
		log_error("cursor.failed", LOG_ERR(err));
	cursor->is_broken = true;
	cursor->is_known = false;
	stop_wait(&cursor->pull->stop, backoff_ms(3, random_roll()));
}

/* Once for all that is read in one go: what is asked for begins anew each time. */
static void ask_about_doubtful(struct log_cursor *cursor)
{
	if (cursor->has_doubtful)
		comparison_ask(cursor->pull);
	cursor->has_doubtful = false;
}

static int know_position(struct log_cursor *cursor, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	if (cursor->is_known)
		return 0;
	ask_about_doubtful(cursor); /* another may have read on from here */
	cursor->at = (struct pull_cursor){ 0 };
	int found = site_value_read(cursor->pull->options.store, PULL_CURSOR, &text, err);
	if (found < 0)
		return -1;
	cursor->has_at = found > 0 && pull_cursor_parse(text.data, &cursor->at);
	cursor->is_known = true;
	log_cursor_publish_position(cursor);
	return 0;
}

/* An answer that comes late may have been under way for long: it counts from when it was
 * asked for. One that comes in time is no older than the wait. */
static void report_news(struct log_cursor *cursor, uint64_t last_event,
			int64_t answered_at)
{
	bool is_late = answered_at - cursor->asked_at > cursor->wait_ms + LATE_MS;

	cursor->is_heard = cursor->has_at && cursor->at.id == last_event;
	if (!cursor->is_heard)
		return;
	ask_about_doubtful(cursor);
	news_all(cursor->pull, cursor->request, is_late ? cursor->asked_at : answered_at);
}

static void log_cursor_run_step(struct log_cursor *cursor)
{
	struct primary_events answer = { 0 };
	int64_t started = clock_boot_ms(), answered_at;
	struct err err;

	if (know_position(cursor, &err) != 0) {
		pause_for(cursor, &err);
		return;
	}
	if (log_cursor_ask_events(cursor, &answer, &err) != 0) {
		back_off(cursor, &err, clock_boot_ms() - started);
		return;
	}
	answered_at = clock_boot_ms();
	cursor->failures = 0;
	cursor->is_heard = false; /* until it is taken over */
	cursor->was_spared = false;
	peer_good(cursor->pull, PULL_PART_CURSOR);
	if (log_cursor_take_over(cursor, &answer, &err) != 0) {
		pause_for(cursor, &err);
	} else {
		report_news(cursor, answer.ends.last, answered_at);
		cursor->is_broken = false;
	}
	event_list_clear(&answer.events);
}

/* Another node may have had the lease in between, and moved the position. */
static bool hold_lease(struct log_cursor *cursor)
{
	uint64_t fence = cursor->lease ? lease_fence(cursor->lease) : 0;

	if (!site_lease_hold(cursor->pull, "log-cursor", &cursor->lease))
		return false;
	if (lease_fence(cursor->lease) != fence)
		cursor->is_known = false;
	return true;
}

void *log_cursor_run(void *arg)
{
	struct log_cursor cursor = { .pull = arg, .last_event = UINT64_MAX };

	while (hold_lease(&cursor))
		log_cursor_run_step(&cursor);
	primary_line_close(cursor.line);
	lease_release(cursor.lease);
	return NULL;
}
