/*
 * libFuzzer: of any answer about events, its headers in the first two lines, nothing is
 * taken, or events that are dense, not more than were asked for, none above the newest,
 * and all of the right form; a bad name is left out by whoever works on the kind. The
 * first byte says what was asked.
 */
#include <assert.h>

#include "wire/wire_event.h"

static const char *cut_line(char **text)
{
	char *line = *text, *end = strchr(line, '\n');

	*text = end ? end + 1 : line + strlen(line);
	if (end)
		*end = '\0';
	return line;
}

static void check_event(const struct event *event)
{
	bool is_repository = strcmp(event->kind, "repository") == 0;

	assert(wire_is_id(event->timeline) && wire_is_id(event->mark));
	assert(event->generation > 0 && event->at > 0);
	assert(event->kind[0] && event->name);
	assert(event->what != EVENT_DELETED || !event->checksum);
	assert(event->what != EVENT_CHECKSUMMED || event->checksum);
	if (event->checksum && !is_repository)
		assert(wire_is_digest(event->checksum));
}

static void check(const event_list *events, const struct event_ends *ends,
		  const struct wire_events_question *question)
{
	assert(events->count <= question->limit);
	for (size_t i = 0; i < events->count; i++) {
		check_event(&events->items[i]);
		assert(events->items[i].id == events->items[0].id + i);
	}
	if (events->count == 0)
		return;
	assert(!question->has_cursor || events->items[0].id == question->after + 1);
	assert(events->items[events->count - 1].id <= ends->last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_STR struct str body = STR_INIT;
	struct event_ends ends;
	event_list events;
	struct err err = { 0 };

	if (len < 1)
		return 0;
	struct wire_events_question question = { .has_cursor = data[0] & 1,
						 .after = data[0] >> 1 & 7,
						 .limit = (data[0] >> 4) + 1u };
	AUTO_FREE char *text = xstrndup((const char *)data + 1, len - 1);
	char *rest = text;
	const char *timeline = cut_line(&rest), *last = cut_line(&rest);
	if (wire_ends_parse(timeline, last, &ends, &err) != 0) {
		assert(err.class == ERR_CORRUPT && err.text[0]);
		return 0;
	}
	assert(wire_is_id(ends.timeline));
	/* A body may hold bytes of zero. */
	str_add_bytes(&body, data + 1 + (rest - text), len - 1 - (size_t)(rest - text));
	if (wire_events_parse(&body, &question, &ends, &events, &err) == 0)
		check(&events, &ends, &question);
	else
		assert(err.class == ERR_CORRUPT && events.count == 0);
	event_list_clear(&events);
	return 0;
}
