/*
 * Events: GET /api/v1/events, a JSON object a line.
 */
#include "pull/primary_parse.h"

#include "replicable/name.h"

static const struct json_limits line_limits = { (size_t)1 << 20, 20000 };

static int parse_last(const char *text, struct event_ends *ends)
{
	const char *space = strchr(text, ' ');
	AUTO_FREE char *number =
		xstrndup(text, space ? (size_t)(space - text) : strlen(text));

	if (!text_to_uint64(number, &ends->last) || ends->last > INT64_MAX ||
	    (ends->last > 0) != (space != NULL))
		return -1;
	if (!space)
		return 0;
	if (!primary_is_id(space + 1))
		return -1;
	memcpy(ends->mark, space + 1, EVENT_MARK_SIZE);
	return 0;
}

int primary_parse_ends(const char *timeline, const char *last_event,
		       struct event_ends *ends, struct err *err)
{
	*ends = (struct event_ends){ 0 };
	if (!primary_is_id(timeline))
		return primary_lied(err, "Refrelay-Timeline is \"%s\"", timeline);
	memcpy(ends->timeline, timeline, TIMELINE_SIZE);
	if (parse_last(last_event, ends) != 0)
		return primary_lied(err, "Refrelay-Last-Event is \"%s\"", last_event);
	return 0;
}

static bool get_what(const json_t *object, enum event_what *what)
{
	const char *text = json_string_value(json_object_get(object, "event"));

	for (int i = 0; text && i < EVENT_WHATS; i++) {
		*what = (enum event_what)i;
		if (strcmp(text, event_what_name(*what)) == 0)
			return true;
	}
	return false;
}

/* Kinds that this version does not know may have names of other forms. */
static bool get_name(const json_t *object, struct event *event)
{
	const char *kind = json_string_value(json_object_get(object, "kind"));
	const char *name = json_string_value(json_object_get(object, "name"));

	if (!kind || !kind[0] || !name)
		return false;
	if (strcmp(kind, KIND_REPOSITORY) == 0 && name_check(name, ERR_IGNORED) != 0)
		return false;
	event->kind = xstrdup(kind);
	event->name = xstrdup(name);
	return true;
}

/* Absent, or no array of a sane size: not known, so that refs are compared. */
static char *get_changes(const json_t *object)
{
	const json_t *changes = json_object_get(object, "changes");
	AUTO_STR struct str text = STR_INIT;

	if (!json_is_array(changes) || json_array_size(changes) > EVENT_CHANGES_MAX)
		return NULL;
	json_render(changes, &text);
	return str_take(&text);
}

/* A deleted one has none, and one whose checksum became known has one. */
static bool get_checksum(const json_t *object, struct event *event)
{
	bool is_right = strcmp(event->kind, KIND_REPOSITORY) == 0
				? primary_get_checksum(object, &event->checksum)
				: primary_get_digest(object, &event->checksum);

	return is_right && !(event->what == EVENT_DELETED && event->checksum) &&
	       !(event->what == EVENT_CHECKSUMMED && !event->checksum);
}

/* Not there: not known. */
static bool get_size(const json_t *object, struct event *event)
{
	return !json_object_get(object, "size") ||
	       primary_get_number(object, "size", &event->size);
}

/* NULL, or the member that is wrong. */
static const char *primary_events_fill_event(const json_t *object, struct event *event)
{
	if (!primary_get_number(object, "id", &event->id) || event->id == 0)
		return "id";
	if (!primary_get_id(object, "mark", event->mark))
		return "mark";
	if (!primary_get_time(object, "at", &event->at))
		return "at";
	if (!get_what(object, &event->what))
		return "event";
	if (!get_name(object, event))
		return "name";
	if (!primary_get_id(object, "timeline", event->timeline))
		return "timeline";
	if (!primary_get_number(object, "generation", &event->generation) ||
	    event->generation == 0)
		return "generation";
	if (!get_checksum(object, event))
		return "checksum";
	if (!get_size(object, event))
		return "size";
	event->changes = get_changes(object);
	return NULL;
}

static int parse_event(const char *line, size_t len, struct event *event, struct err *err)
{
	json_auto_t *object = json_parse_foreign(line, len, &line_limits, err);
	const char *wrong;

	if (!object)
		return primary_lied(err, "an event is not a JSON object");
	wrong = primary_events_fill_event(object, event);
	if (!wrong)
		return 0;
	primary_lied(err, "event %" PRIu64 " has no right \"%s\"", event->id, wrong);
	event_clear(event);
	return -1;
}

/* `events` are those before it. */
static int primary_events_check_place(const struct primary_events_question *question,
				      const event_list *events, const struct event *event,
				      struct err *err)
{
	uint64_t before = question->has_cursor ? question->after : 0;

	if (events->count > 0)
		before = events->items[events->count - 1].id;
	else if (!question->has_cursor)
		return 0;
	if (event->id != before + 1)
		return primary_lied(
			err, "event %" PRIu64 " stands where %" PRIu64 " should be",
			event->id, before + 1);
	return 0;
}

static int check_end(const struct primary_events_question *question,
		     const struct primary_events *answer, struct err *err)
{
	const struct event *newest;

	if (answer->events.count == 0) {
		if (question->has_cursor && answer->ends.last != question->after)
			return primary_lied(err,
					    "no event above %" PRIu64
					    ", and yet the newest is %" PRIu64,
					    question->after, answer->ends.last);
		return 0;
	}
	newest = &answer->events.items[answer->events.count - 1];
	if (newest->id > answer->ends.last ||
	    (newest->id == answer->ends.last &&
	     strcmp(newest->mark, answer->ends.mark) != 0))
		return primary_lied(err,
				    "event %" PRIu64 " and Refrelay-Last-Event disagree",
				    newest->id);
	return 0;
}

static int primary_events_add_line(const char *line, size_t len,
				   const struct primary_events_question *question,
				   event_list *events, struct err *err)
{
	struct event event = { 0 };

	if (question->limit > 0 && events->count == question->limit)
		return primary_lied(err, "more events than were asked for");
	if (parse_event(line, len, &event, err) != 0)
		return -1;
	if (primary_events_check_place(question, events, &event, err) != 0) {
		event_clear(&event);
		return -1;
	}
	vec_add(events, event);
	return 0;
}

static int primary_events_parse_lines(const struct str *body,
				      const struct primary_events_question *question,
				      event_list *events, struct err *err)
{
	const char *line = body->data, *end = body->data + body->len;

	while (line < end) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		if (!stop)
			return primary_lied(err, "the last event is cut off");
		if (primary_events_add_line(line, (size_t)(stop - line), question, events,
					    err) != 0)
			return -1;
		line = stop + 1;
	}
	return 0;
}

int primary_parse_events(const struct str *body,
			 const struct primary_events_question *question,
			 struct primary_events *answer, struct err *err)
{
	if (primary_events_parse_lines(body, question, &answer->events, err) == 0 &&
	    check_end(question, answer, err) == 0)
		return 0;
	event_list_clear(&answer->events);
	return -1;
}

void primary_events_clear(struct primary_events *answer)
{
	event_list_clear(&answer->events);
	*answer = (struct primary_events){ 0 };
}
