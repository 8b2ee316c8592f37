#include "wire/wire_event.h"

#include "replicable/kind.h"
#include "replicable/name.h"

/* Members. */
#define ID "id"
#define MARK "mark"
#define AT "at"
#define KIND "kind"
#define NAME "name"
#define WHAT "event"
#define TIMELINE "timeline"
#define GENERATION "generation"
#define SIZE "size"
#define CHECKSUM "checksum"
#define CHANGES "changes"

static const struct json_limits line_limits = { (size_t)1 << 20, 20000 };

static const char *const names[EVENT_WHATS] = { "created", "updated", "deleted",
						"checksum_succeeded" };

const char *event_what_name(enum event_what what)
{
	return names[what];
}

void event_clear(struct event *event)
{
	free(event->kind);
	free(event->name);
	free(event->checksum);
	free(event->changes);
	*event = (struct event){ 0 };
}

void event_list_clear(event_list *events)
{
	vec_clear_each(events, event_clear);
}

static bool wire_event_is_repository(const struct event *event)
{
	return kind_is_repository(event->kind);
}

void wire_ends_render(const struct event_ends *ends, char text[WIRE_LAST_EVENT_SIZE])
{
	snprintf(text, WIRE_LAST_EVENT_SIZE, "%" PRIu64 "%s%s", ends->last,
		 ends->last > 0 ? " " : "", ends->last > 0 ? ends->mark : "");
}

static int wire_event_parse_last(const char *text, struct event_ends *ends)
{
	const char *space = strchr(text, ' ');
	AUTO_FREE char *number =
		xstrndup(text, space ? (size_t)(space - text) : strlen(text));

	if (!text_to_uint64(number, &ends->last) || ends->last > INT64_MAX ||
	    (ends->last > 0) != (space != NULL))
		return -1;
	if (!space)
		return 0;
	if (!wire_is_id(space + 1))
		return -1;
	memcpy(ends->mark, space + 1, EVENT_MARK_SIZE);
	return 0;
}

int wire_ends_parse(const char *timeline, const char *last_event, struct event_ends *ends,
		    struct err *err)
{
	*ends = (struct event_ends){ 0 };
	if (!wire_is_id(timeline))
		return wire_lied(err, WIRE_TIMELINE " is \"%s\"", timeline);
	memcpy(ends->timeline, timeline, TIMELINE_SIZE);
	if (wire_event_parse_last(last_event, ends) != 0)
		return wire_lied(err, WIRE_LAST_EVENT " is \"%s\"", last_event);
	return 0;
}

/* key: "old" or "new". Nothing for a ref that is not there. */
static void wire_event_put_value(json_t *change, const char *key, const char *target,
				 const struct oid *oid)
{
	AUTO_FREE char *target_key = xasprintf("%s_target", key);
	char text[OID_MAX_TEXT];

	if (target)
		json_put_text(change, target_key, target);
	else if (oid->len > 0)
		json_put_text(change, key, oid_text(oid, text));
}

static json_t *wire_event_change_json(const struct ref_change *change)
{
	json_t *object = json_object();

	json_put_text(object, "ref", change->name);
	if (change->before)
		wire_event_put_value(object, "old", change->before->target,
				     &change->before->oid);
	if (change->after)
		wire_event_put_value(object, "new", change->after->target,
				     &change->after->oid);
	return object;
}

static json_t *wire_event_head_json(const struct ref_snapshot *before,
				    const struct ref_snapshot *after)
{
	json_t *object = json_object();

	json_put_text(object, "ref", "HEAD");
	wire_event_put_value(object, "old", before->head_target, &before->head_oid);
	wire_event_put_value(object, "new", after->head_target, &after->head_oid);
	return object;
}

char *wire_event_changes(const struct ref_diff *diff, const struct ref_snapshot *before,
			 const struct ref_snapshot *after)
{
	AUTO_STR struct str text = STR_INIT;
	json_auto_t *changes = json_array();

	if (diff->changes.count + diff->head_changed > EVENT_CHANGES_MAX)
		return NULL;
	for (size_t i = 0; i < diff->changes.count; i++)
		json_array_append_new(changes,
				      wire_event_change_json(&diff->changes.items[i]));
	if (diff->head_changed)
		json_array_append_new(changes, wire_event_head_json(before, after));
	json_render(changes, &text);
	return text.len > EVENT_CHANGES_BYTES ? NULL : str_take(&text);
}

/* Earlier versions recorded more than a reader takes. */
static json_t *wire_event_changes_json(const struct event *event)
{
	return event->changes && strlen(event->changes) <= EVENT_CHANGES_BYTES
		       ? json_loads(event->changes, 0, NULL)
		       : NULL;
}

json_t *wire_event_json(const struct event *event)
{
	json_t *object = json_object();
	json_t *changes = wire_event_changes_json(event);

	json_put_number(object, ID, (int64_t)event->id);
	json_put_text(object, MARK, event->mark);
	json_put_time(object, AT, event->at);
	json_put_text(object, KIND, event->kind);
	json_put_text(object, NAME, event->name);
	json_put_text(object, WHAT, event_what_name(event->what));
	json_put_text(object, TIMELINE, event->timeline);
	json_put_number(object, GENERATION, (int64_t)event->generation);
	if (!wire_event_is_repository(event))
		json_put_number(object, SIZE, (int64_t)event->size);
	if (event->checksum)
		json_put_text(object, CHECKSUM, event->checksum);
	if (changes)
		json_put(object, CHANGES, changes);
	return object;
}

static bool wire_event_get_what(const json_t *object, enum event_what *what)
{
	const char *text = json_string_value(json_object_get(object, WHAT));

	for (int i = 0; text && i < EVENT_WHATS; i++) {
		*what = (enum event_what)i;
		if (strcmp(text, event_what_name(*what)) == 0)
			return true;
	}
	return false;
}

/* Kinds that this version does not know may have names of other forms; whoever works on a
 * kind looks whether it is one. */
static bool wire_event_get_name(const json_t *object, struct event *event)
{
	const char *kind = json_string_value(json_object_get(object, KIND));
	const char *name = json_string_value(json_object_get(object, NAME));

	if (!kind || !kind[0] || !name)
		return false;
	event->kind = xstrdup(kind);
	event->name = xstrdup(name);
	return true;
}

/* Absent, or no array of a sane size: not known, so that refs are compared. */
static char *wire_event_get_changes(const json_t *object)
{
	const json_t *changes = json_object_get(object, CHANGES);
	AUTO_STR struct str text = STR_INIT;

	if (!json_is_array(changes) || json_array_size(changes) > EVENT_CHANGES_MAX)
		return NULL;
	json_render(changes, &text);
	return str_take(&text);
}

/* A deleted one has none, and one whose checksum became known has one. */
static bool wire_event_get_checksum(const json_t *object, struct event *event)
{
	bool is_right = wire_get_checksum(
		object, CHECKSUM, !wire_event_is_repository(event), &event->checksum);

	return is_right && !(event->what == EVENT_DELETED && event->checksum) &&
	       !(event->what == EVENT_CHECKSUMMED && !event->checksum);
}

/* Not there: not known. */
static bool wire_event_get_size(const json_t *object, struct event *event)
{
	return !json_object_get(object, SIZE) ||
	       wire_get_number(object, SIZE, &event->size);
}

/* NULL, or the member that is wrong. */
static const char *wire_event_fill(const json_t *object, struct event *event)
{
	if (!wire_get_number(object, ID, &event->id) || event->id == 0)
		return ID;
	if (!wire_get_id(object, MARK, event->mark))
		return MARK;
	if (!wire_get_time(object, AT, &event->at))
		return AT;
	if (!wire_event_get_what(object, &event->what))
		return WHAT;
	if (!wire_event_get_name(object, event))
		return NAME;
	if (!wire_get_id(object, TIMELINE, event->timeline))
		return TIMELINE;
	if (!wire_get_number(object, GENERATION, &event->generation) ||
	    event->generation == 0)
		return GENERATION;
	if (!wire_event_get_checksum(object, event))
		return CHECKSUM;
	if (!wire_event_get_size(object, event))
		return SIZE;
	event->changes = wire_event_get_changes(object);
	return NULL;
}

static int wire_event_parse_line(const char *line, size_t len, struct event *event,
				 struct err *err)
{
	json_auto_t *object = json_parse_foreign(line, len, &line_limits, err);
	const char *wrong;

	if (!object)
		return wire_lied(err, "an event is not a JSON object");
	wrong = wire_event_fill(object, event);
	if (!wrong)
		return 0;
	wire_lied(err, "event %" PRIu64 " has no right \"%s\"", event->id, wrong);
	event_clear(event);
	return -1;
}

void wire_events_target(const struct wire_events_question *question, struct str *target)
{
	str_addf(target, "events?limit=%zu&wait=%" PRId64, question->limit,
		 question->wait_s);
	if (!question->has_cursor)
		return;
	str_addf(target, "&after=%" PRIu64, question->after);
	if (question->mark && question->mark[0])
		str_addf(target, "&mark=%s", question->mark);
	if (question->timeline && question->timeline[0])
		str_addf(target, "&timeline=%s", question->timeline);
}

void wire_events_render(const event_list *events, struct str *body)
{
	for (size_t i = 0; i < events->count; i++) {
		json_auto_t *event = wire_event_json(&events->items[i]);
		json_render(event, body);
		str_add_char(body, '\n');
	}
}

/* `events` are those before it. */
static int wire_events_check_place(const struct wire_events_question *question,
				   const event_list *events, const struct event *event,
				   struct err *err)
{
	uint64_t before = question->has_cursor ? question->after : 0;

	if (events->count > 0)
		before = events->items[events->count - 1].id;
	else if (!question->has_cursor)
		return 0;
	if (event->id != before + 1)
		return wire_lied(err,
				 "event %" PRIu64 " stands where %" PRIu64 " should be",
				 event->id, before + 1);
	return 0;
}

static int wire_events_check_end(const struct wire_events_question *question,
				 const struct event_ends *ends, const event_list *events,
				 struct err *err)
{
	const struct event *newest;

	if (events->count == 0) {
		if (question->has_cursor && ends->last != question->after)
			return wire_lied(err,
					 "no event above %" PRIu64
					 ", and yet the newest is %" PRIu64,
					 question->after, ends->last);
		return 0;
	}
	newest = &events->items[events->count - 1];
	if (newest->id > ends->last ||
	    (newest->id == ends->last && strcmp(newest->mark, ends->mark) != 0))
		return wire_lied(err,
				 "event %" PRIu64 " and " WIRE_LAST_EVENT " disagree",
				 newest->id);
	return 0;
}

static int wire_events_add_line(const char *line, size_t len,
				const struct wire_events_question *question,
				event_list *events, struct err *err)
{
	struct event event = { 0 };

	if (question->limit > 0 && events->count == question->limit)
		return wire_lied(err, "more events than were asked for");
	if (wire_event_parse_line(line, len, &event, err) != 0)
		return -1;
	if (wire_events_check_place(question, events, &event, err) != 0) {
		event_clear(&event);
		return -1;
	}
	vec_add(events, event);
	return 0;
}

static int wire_events_parse_lines(const struct str *body,
				   const struct wire_events_question *question,
				   event_list *events, struct err *err)
{
	const char *line = body->data, *end = body->data + body->len;

	while (line < end) {
		const char *stop = memchr(line, '\n', (size_t)(end - line));
		if (!stop)
			return wire_lied(err, "the last event is cut off");
		if (wire_events_add_line(line, (size_t)(stop - line), question, events,
					 err) != 0)
			return -1;
		line = stop + 1;
	}
	return 0;
}

int wire_events_parse(const struct str *body, const struct wire_events_question *question,
		      const struct event_ends *ends, event_list *events, struct err *err)
{
	*events = (event_list){ 0 };
	if (wire_events_parse_lines(body, question, events, err) == 0 &&
	    wire_events_check_end(question, ends, events, err) == 0)
		return 0;
	event_list_clear(events);
	return -1;
}
