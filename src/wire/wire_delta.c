#include "wire/wire_delta.h"

#define QUESTION_LIMIT ((size_t)4096)

static const struct json_limits change_limits = { .bytes = (size_t)4 << 20,
						  .values = 10000 };

void wire_delta_ask(const struct wire_delta_question *question, struct str *body)
{
	json_auto_t *object = json_object();

	json_put_text(object, "timeline", question->timeline);
	json_put_number(object, "generation", (int64_t)question->generation);
	json_put_text(object, "checksum", question->checksum);
	json_put_number(object, "limit", (int64_t)question->limit);
	json_render(object, body);
}

static bool wire_delta_read_timeline(const json_t *object,
				     struct wire_delta_question *question)
{
	const char *text = json_string_value(json_object_get(object, "timeline"));

	return (text && !text[0] && question->generation == 0) ||
	       wire_get_id(object, "timeline", question->timeline);
}

int wire_delta_read_question(const struct str *body, struct wire_delta_question *question,
			     struct err *err)
{
	json_auto_t *object =
		json_parse_object(body->data, body->len, QUESTION_LIMIT, err);
	const char *checksum = json_string_value(json_object_get(object, "checksum"));
	struct checksum sum;

	*question = (struct wire_delta_question){ 0 };
	if (object && checksum && checksum_parse(checksum, &sum) &&
	    wire_get_number(object, "generation", &question->generation) &&
	    wire_delta_read_timeline(object, question) &&
	    wire_get_number(object, "limit", &question->limit)) {
		memcpy(question->checksum, checksum, CHECKSUM_TEXT_SIZE);
		return 0;
	}
	err_set(err, ERR_CONFIG, "the body is no question for a delta");
	return err_remedy(err, "send timeline, generation, checksum and limit");
}

static void wire_ref_change_clear(struct wire_ref_change *change)
{
	free(change->name);
	free(change->before.target);
	free(change->after.target);
}

void wire_ref_changes_clear(wire_ref_changes *changes)
{
	vec_clear_each(changes, wire_ref_change_clear);
}

/* Absent members: the ref is not there. */
static bool wire_ref_value_read(const json_t *object, const char *key, size_t oid_len,
				struct wire_ref_value *value)
{
	AUTO_FREE char *target_key = xasprintf("%s_target", key);
	AUTO_FREE char *encoded_key = xasprintf("%s_base64", target_key);
	const char *oid = json_string_value(json_object_get(object, key));
	AUTO_STR struct str target = STR_INIT;

	if (oid)
		return strlen(oid) == 2 * oid_len && oid_parse(oid, oid_len, &value->oid);
	if (!json_object_get(object, target_key) && !json_object_get(object, encoded_key))
		return true;
	if (json_get_bytes(object, target_key, &target, ERR_IGNORED) != 0)
		return false;
	value->target = str_take(&target);
	return true;
}

static bool wire_ref_change_read(const json_t *object, size_t oid_len,
				 struct wire_ref_change *change)
{
	AUTO_STR struct str name = STR_INIT;

	if (json_get_bytes(object, "ref", &name, ERR_IGNORED) != 0)
		return false;
	change->name = str_take(&name);
	return wire_ref_value_read(object, "old", oid_len, &change->before) &&
	       wire_ref_value_read(object, "new", oid_len, &change->after);
}

int wire_ref_changes_add(wire_ref_changes *changes, const char *text, size_t oid_len,
			 struct err *err)
{
	AUTO_FREE char *object_text = xasprintf("{\"changes\":%s}", text);
	json_auto_t *object =
		json_parse_foreign(object_text, strlen(object_text), &change_limits, err);
	const json_t *array = json_object_get(object, "changes");

	if (!json_is_array(array))
		return wire_lied(err, "the changes of an event are no list");
	for (size_t i = 0; i < json_array_size(array); i++) {
		struct wire_ref_change change = { .order = changes->count };
		bool is_right =
			wire_ref_change_read(json_array_get(array, i), oid_len, &change);
		vec_add(changes, change);
		if (!is_right)
			return wire_lied(err, "a change of an event cannot be read");
	}
	return 0;
}

static int wire_ref_changes_order(const void *a, const void *b)
{
	const struct wire_ref_change *one = a, *other = b;
	int order = strcmp(one->name, other->name);

	return order ? order : one->order < other->order ? -1 : 1;
}

void wire_ref_changes_fold(wire_ref_changes *changes)
{
	size_t kept = 0;

	vec_sort(changes, wire_ref_changes_order);
	for (size_t i = 0; i < changes->count; i++) {
		struct wire_ref_change *one = &changes->items[i];
		struct wire_ref_change *last = kept ? &changes->items[kept - 1] : NULL;
		if (!last || strcmp(last->name, one->name) != 0) {
			changes->items[kept++] = *one;
			continue;
		}
		free(last->after.target);
		last->after = one->after;
		one->after.target = NULL;
		wire_ref_change_clear(one);
	}
	changes->count = kept;
}

static bool wire_ref_value_is_there(const struct wire_ref_value *value)
{
	return value->target || value->oid.len > 0;
}

void wire_ref_changes_apply(const wire_ref_changes *changes, struct checksum *sum)
{
	for (size_t i = 0; i < changes->count; i++) {
		const struct wire_ref_change *one = &changes->items[i];
		if (wire_ref_value_is_there(&one->before))
			checksum_take(sum, one->name, one->before.target,
				      &one->before.oid);
		if (wire_ref_value_is_there(&one->after))
			checksum_put(sum, one->name, one->after.target, &one->after.oid);
	}
}
