#include "change/event_json.h"

#include "base/json.h"
#include "change/event_log.h"
#include "git/refs.h"
#include "replicable/name.h"

static const char *const names[EVENT_WHATS] = { "created", "updated", "deleted",
						"checksum_succeeded" };

const char *event_what_name(enum event_what what)
{
	return names[what];
}

/* key: "old" or "new". Nothing for a ref that is not there. */
static void put_value(json_t *change, const char *key, const char *target,
		      const struct oid *oid)
{
	AUTO_FREE char *target_key = xasprintf("%s_target", key);
	char text[OID_MAX_TEXT];

	if (target)
		json_put_text(change, target_key, target);
	else if (oid->len > 0)
		json_put_text(change, key, oid_text(oid, text));
}

static json_t *change_to_json(const struct ref_change *change)
{
	json_t *object = json_object();

	json_put_text(object, "ref", change->name);
	if (change->before)
		put_value(object, "old", change->before->target, &change->before->oid);
	if (change->after)
		put_value(object, "new", change->after->target, &change->after->oid);
	return object;
}

static json_t *head_to_json(const struct ref_snapshot *before,
			    const struct ref_snapshot *after)
{
	json_t *object = json_object();

	json_put_text(object, "ref", "HEAD");
	put_value(object, "old", before->head_target, &before->head_oid);
	put_value(object, "new", after->head_target, &after->head_oid);
	return object;
}

char *event_changes_of(const struct ref_snapshot *before,
		       const struct ref_snapshot *after)
{
	AUTO_DIFF struct ref_diff diff;
	AUTO_STR struct str text = STR_INIT;
	json_auto_t *changes = json_array();

	ref_diff_compute(before, after, &diff);
	if (diff.changes.count + diff.head_changed > EVENT_CHANGES_MAX)
		return NULL;
	for (size_t i = 0; i < diff.changes.count; i++)
		json_array_append_new(changes, change_to_json(&diff.changes.items[i]));
	if (diff.head_changed)
		json_array_append_new(changes, head_to_json(before, after));
	json_render(changes, &text);
	return str_take(&text);
}

json_t *event_to_json(const struct event *event)
{
	json_t *object = json_object();
	json_t *changes = event->changes ? json_loads(event->changes, 0, NULL) : NULL;

	json_put_number(object, "id", (int64_t)event->id);
	json_put_text(object, "mark", event->mark);
	json_put_time(object, "at", event->at);
	json_put_text(object, "kind", event->kind);
	json_put_text(object, "name", event->name);
	json_put_text(object, "event", event_what_name(event->what));
	json_put_text(object, "timeline", event->timeline);
	json_put_number(object, "generation", (int64_t)event->generation);
	if (strcmp(event->kind, KIND_REPOSITORY) != 0)
		json_put_number(object, "size", (int64_t)event->size);
	if (event->checksum)
		json_put_text(object, "checksum", event->checksum);
	if (changes)
		json_put(object, "changes", changes);
	return object;
}
