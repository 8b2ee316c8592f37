#include "pull/events_take.h"

#include "base/log.h"
#include "replicable/name.h"
#include "store/site_value.h"

typedef VEC(struct registry_ask) registry_asks;

/* Kinds of newer versions, and those that are not configured here. */
static void tell_unknown(struct pull *pull, const struct event *event)
{
	bool is_new;

	lock(&pull->mutex);
	is_new = !map_put(&pull->unknown_kinds, event->kind, pull);
	unlock(&pull->mutex);
	if (is_new)
		log_info("event.kind_skipped", LOG_TEXT("kind", event->kind),
			 LOG_NUMBER("event", event->id));
}

/* A name becomes a path here: whoever let a bad one through, it goes no further. */
static bool events_take_is_ours(struct pull *pull, const struct event *event)
{
	const struct blob_kind *kind = pull_kind(pull, event->kind);
	struct err why;

	if (!kind && strcmp(event->kind, KIND_REPOSITORY) != 0) {
		tell_unknown(pull, event);
		return false;
	}
	if ((kind ? blob_id_check(kind, event->name, &why)
		  : name_check(event->name, &why)) == 0)
		return true;
	log_warn("event.skipped", LOG_ERR(&why), LOG_NUMBER("event", event->id),
		 LOG_TEXT("kind", event->kind));
	return false;
}

void events_judge(struct pull *pull, folded_events *folded)
{
	size_t kept = 0;

	for (size_t i = 0; i < folded->count; i++)
		if (events_take_is_ours(pull, folded->items[i].last))
			folded->items[kept++] = folded->items[i];
	folded->count = kept;
}

static int take_deleted(struct store_tx *tx, const struct folded_event *folded,
			struct err *err)
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
	if (row.timeline[0] && strcmp(row.timeline, event->timeline) != 0)
		return 0;
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
	move.event = REGISTRY_TOLD;
	return registry_move_in(tx, &move, err) < 0 ? -1 : 0;
}

/* What is to be brought is only gathered, to be asked for in one go. */
static int events_take_event(struct store_tx *tx, const struct folded_event *folded,
			     struct pull *pull, registry_asks *asks, struct err *err)
{
	int result = 1;

	if (folded->last->what == EVENT_DELETED)
		result = take_deleted(tx, folded, err);
	else if (folded->is_told_only)
		result = events_take_reported(tx, folded, pull, err);
	if (result == 1)
		vec_add(asks, ((struct registry_ask){
				      folded->last->name,
				      events_take_make_asked_move(folded, pull) }));
	if (result < 0)
		return err_prefix(err, "event %" PRIu64, folded->last->id);
	return 0;
}

static int take_kind(struct store_tx *tx, const struct events_taking *taking,
		     const char *kind, struct err *err)
{
	registry_asks asks = { 0 };
	int result = 0;

	for (size_t i = 0; result == 0 && i < taking->folded->count; i++) {
		const struct folded_event *folded = &taking->folded->items[i];
		if (strcmp(folded->last->kind, kind) == 0)
			result = events_take_event(tx, folded, taking->pull, &asks, err);
	}
	if (result == 0)
		result = registry_ask_many_in(tx, kind, asks.items, asks.count, err);
	vec_clear(&asks);
	return result;
}

static int take_kinds(struct store_tx *tx, const struct events_taking *taking,
		      struct err *err)
{
	const struct blob_kinds *kinds = taking->pull->options.kinds;

	if (take_kind(tx, taking, KIND_REPOSITORY, err) != 0)
		return -1;
	for (size_t i = 0; kinds && i < kinds->items.count; i++)
		if (take_kind(tx, taking, kinds->items.items[i].type, err) != 0)
			return -1;
	return 0;
}

int events_take(struct store_tx *tx, void *arg, struct err *err)
{
	const struct events_taking *taking = arg;
	char text[PULL_CURSOR_SIZE];

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
