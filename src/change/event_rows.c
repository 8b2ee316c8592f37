/*
 * Writes are one after another, whoever makes them, so the next id is the last one and
 * one more: dense, in the order of commits, and a reader who sees id N sees all below
 * it. What the newest and the newest dropped event were stands in site values, so that
 * a log without any event goes on where it was and can still tell a reader whether its
 * position is of this very log.
 */
#include "change/event_rows.h"

#include "base/clock.h"
#include "base/file.h"
#include "store/site_value.h"

/* A page ends when it has so much of changes, whatever its limit: at least one event. */
#define PAGE_BYTES ((size_t)4 << 20)

struct position {
	uint64_t id;
	char mark[EVENT_MARK_SIZE];
	int64_t at;
};

/* Zeroes when there is none. */
static int read_position(struct store_tx *tx, const char *key, struct position *position,
			 struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	int found = site_value_get(tx, key, &text, err);

	*position = (struct position){ 0 };
	if (found <= 0)
		return found;
	if (sscanf(text.data, "%" SCNu64 " %16s %" SCNd64, &position->id, position->mark,
		   &position->at) >= 2)
		return 0;
	return err_set(err, ERR_CORRUPT, "the database's value %s is damaged", key);
}

static int write_position(struct store_tx *tx, const char *key, uint64_t id,
			  const char *mark, int64_t at, struct err *err)
{
	char text[80];

	snprintf(text, sizeof(text), "%" PRIu64 " %s %" PRId64, id, mark, at);
	return site_value_set(tx, key, text, err);
}

static int event_rows_insert(struct store_tx *tx, const struct event *event,
			     struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx,
		       "INSERT INTO event (id, mark, at, kind, name, what, timeline,"
		       " generation, checksum, changes, size)"
		       " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
		       &query, err) != 0)
		return -1;
	query_bind_int(query, 1, (int64_t)event->id);
	query_bind_text(query, 2, event->mark);
	query_bind_int(query, 3, event->at);
	query_bind_text(query, 4, event->kind);
	query_bind_text(query, 5, event->name);
	query_bind_int(query, 6, event->what);
	query_bind_text(query, 7, event->timeline);
	query_bind_int(query, 8, (int64_t)event->generation);
	query_bind_text(query, 9, event->checksum);
	query_bind_text(query, 10, event->changes);
	query_bind_int(query, 11, (int64_t)event->size);
	return query_run(query, NULL, err);
}

int event_log_append(struct store_tx *tx, struct event *event, struct err *err)
{
	struct position last;

	if (read_position(tx, EVENT_LAST_KEY, &last, err) != 0)
		return -1;
	event->id = last.id + 1;
	event->at = clock_wall_ms();
	random_hex(event->mark, (EVENT_MARK_SIZE - 1) / 2);
	if (event_rows_insert(tx, event, err) != 0)
		return -1;
	return write_position(tx, EVENT_LAST_KEY, event->id, event->mark, event->at, err);
}

int event_log_ends(struct store_tx *tx, struct event_ends *ends, struct err *err)
{
	AUTO_STR struct str timeline = STR_INIT;
	struct position last, pruned;

	*ends = (struct event_ends){ 0 };
	if (read_position(tx, EVENT_LAST_KEY, &last, err) != 0 ||
	    read_position(tx, EVENT_PRUNED_KEY, &pruned, err) != 0 ||
	    site_value_get(tx, EVENT_TIMELINE_KEY, &timeline, err) < 0)
		return -1;
	ends->first = pruned.id + 1;
	ends->last = last.id;
	ends->last_at = last.at;
	memcpy(ends->mark, last.mark, sizeof(ends->mark));
	snprintf(ends->timeline, sizeof(ends->timeline), "%s", timeline.data);
	return 0;
}

/* 1: event `id` has this mark; 0: not. It is kept, or the newest that was dropped. */
static int has_mark(struct store_tx *tx, uint64_t id, const char *mark, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct position pruned;
	int found;

	if (read_position(tx, EVENT_PRUNED_KEY, &pruned, err) != 0)
		return -1;
	if (pruned.id == id)
		return strcmp(pruned.mark, mark) == 0;
	if (query_open(tx, "SELECT mark FROM event WHERE id = ?1", &query, err) != 0)
		return -1;
	query_bind_int(query, 1, (int64_t)id);
	found = query_step(query, err);
	return found > 0 ? strcmp(query_text(query, 0), mark) == 0 : found;
}

/* Whether the reader's position is one of this log, and what follows is still kept. */
static int check_position(struct store_tx *tx, const struct event_question *question,
			  const struct event_ends *ends, enum event_read *how,
			  struct err *err)
{
	bool is_marked = question->mark && *question->mark && question->after > 0;
	int is_ours = 1;

	*how = EVENTS_READ;
	if (question->after > ends->last)
		*how = EVENTS_OTHER_TIMELINE;
	else if (question->after + 1 < ends->first)
		*how = EVENTS_GONE;
	else if (is_marked)
		is_ours = has_mark(tx, question->after, question->mark, err);
	if (is_ours == 0)
		*how = EVENTS_OTHER_TIMELINE;
	return is_ours < 0 ? -1 : 0;
}

static void event_rows_fill_event(struct query *query, struct event *event)
{
	*event = (struct event){
		.id = (uint64_t)query_int(query, 0),
		.at = query_int(query, 2),
		.kind = query_copy_text(query, 3),
		.name = query_copy_text(query, 4),
		.what = (enum event_what)query_int(query, 5),
		.generation = (uint64_t)query_int(query, 7),
		.checksum = query_copy_text(query, 8),
		.changes = query_copy_text(query, 9),
		.size = (uint64_t)query_int(query, 10),
	};
	snprintf(event->mark, sizeof(event->mark), "%s", query_text(query, 1));
	snprintf(event->timeline, sizeof(event->timeline), "%s", query_text(query, 6));
}

static int read_after(struct store_tx *tx, uint64_t after, size_t limit,
		      event_list *events, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct event event;
	size_t bytes = 0;
	int found = 0;

	if (query_open(tx,
		       "SELECT id, mark, at, kind, name, what, timeline, generation,"
		       " checksum, changes, size FROM event WHERE id > ?1 ORDER BY id "
		       "LIMIT ?2",
		       &query, err) != 0)
		return -1;
	query_bind_int(query, 1, (int64_t)after);
	query_bind_int(query, 2, (int64_t)limit);
	while (bytes < PAGE_BYTES && (found = query_step(query, err)) > 0) {
		event_rows_fill_event(query, &event);
		bytes += event.changes ? strlen(event.changes) : 0;
		vec_add(events, event);
	}
	return found < 0 ? -1 : 0;
}

int event_rows_read(struct store_tx *tx, struct event_page *page, struct err *err)
{
	struct event_question question = *page->question;

	event_list_clear(page->events);
	if (event_log_ends(tx, page->ends, err) != 0)
		return -1;
	if (question.after == EVENTS_FROM_OLDEST)
		question.after = page->ends->first - 1;
	if (check_position(tx, &question, page->ends, &page->how, err) != 0)
		return -1;
	if (page->how != EVENTS_READ || question.after == page->ends->last)
		return 0;
	return read_after(tx, question.after, question.limit, page->events, err);
}

/* The newest of the events that go, in one batch; id 0: none goes. Only what is oldest
 * can go, so that ids stay dense: an event with a time of a wrong clock waits for the
 * count. */
static int find_last_to_go(struct store_tx *tx, struct event_pruning *pruning,
			   struct position *to_go, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct position last;
	int found = 0;

	*to_go = (struct position){ 0 };
	pruning->dropped = 0;
	if (read_position(tx, EVENT_LAST_KEY, &last, err) != 0 ||
	    query_open(tx, "SELECT id, mark, at FROM event ORDER BY id LIMIT ?1", &query,
		       err) != 0)
		return -1;
	query_bind_int(query, 1, EVENT_PRUNE_BATCH);
	while ((found = query_step(query, err)) > 0) {
		uint64_t id = (uint64_t)query_int(query, 0);
		int64_t at = query_int(query, 2);
		if (at >= pruning->before && last.id - id < pruning->keep_count)
			break;
		*to_go = (struct position){ .id = id, .at = at };
		snprintf(to_go->mark, sizeof(to_go->mark), "%s", query_text(query, 1));
		pruning->dropped++;
	}
	return found < 0 ? -1 : 0;
}

int event_rows_prune(struct store_tx *tx, struct event_pruning *pruning, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct position to_go;

	if (find_last_to_go(tx, pruning, &to_go, err) != 0)
		return -1;
	if (to_go.id == 0)
		return 0;
	if (query_open(tx, "DELETE FROM event WHERE id <= ?1", &query, err) != 0)
		return -1;
	query_bind_int(query, 1, (int64_t)to_go.id);
	if (query_run(query, NULL, err) != 0)
		return -1;
	return write_position(tx, EVENT_PRUNED_KEY, to_go.id, to_go.mark, to_go.at, err);
}
