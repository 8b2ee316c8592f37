#include "change/scan_record.h"

#include "base/json.h"
#include "store/site_value.h"

#define RECORD_KEY "origin.scan"
#define KEY_SIZE 64

static const char *scan_record_get_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static void parse_hooks(const json_t *hooks, struct scan_record *record)
{
	record->has_hooks = json_is_object(hooks);
	for (size_t i = 0; i < HOOK_STATES; i++)
		record->hooks.states[i] = json_integer_value(
			json_object_get(hooks, hook_state_name((enum hook_state)i)));
	snprintf(record->hooks.example, sizeof(record->hooks.example), "%s",
		 scan_record_get_text(hooks, "example"));
}

static void scan_record_parse(const json_t *object, struct scan_record *record)
{
	*record = (struct scan_record){
		.whole_at = json_integer_value(json_object_get(object, "whole_at")),
		.failing_since =
			json_integer_value(json_object_get(object, "failing_since")),
		.left_out = json_integer_value(json_object_get(object, "left_out")),
	};
	snprintf(record->example, sizeof(record->example), "%s",
		 scan_record_get_text(object, "example"));
	parse_hooks(json_object_get(object, "hooks"), record);
	if (record->failing_since == 0)
		return;
	err_set(&record->failure, err_class_of_name(scan_record_get_text(object, "code")),
		"%s", scan_record_get_text(object, "message"));
	err_remedy(&record->failure, "%s", scan_record_get_text(object, "remedy"));
}

static json_t *hooks_to_json(const struct hook_counts *counts)
{
	json_t *hooks = json_object();

	for (size_t i = 0; i < HOOK_STATES; i++)
		json_put_number(hooks, hook_state_name((enum hook_state)i),
				counts->states[i]);
	json_put_message(hooks, "example", counts->example);
	return hooks;
}

static void scan_record_render(const struct scan_record *record, struct str *out)
{
	json_auto_t *object = record->failing_since > 0 ? json_from_err(&record->failure)
							: json_object();

	json_put_number(object, "whole_at", record->whole_at);
	json_put_number(object, "failing_since", record->failing_since);
	json_put_number(object, "left_out", record->left_out);
	json_put_message(object, "example", record->example);
	if (record->has_hooks)
		json_put(object, "hooks", hooks_to_json(&record->hooks));
	json_render(object, out);
}

static void scan_record_make_key(const char *type, char key[KEY_SIZE])
{
	snprintf(key, KEY_SIZE, RECORD_KEY ".%s", type);
}

/* One that cannot be understood is none. */
static int read_at(struct store_tx *tx, const char *key, struct scan_record *record,
		   struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	int found = site_value_get(tx, key, &text, err);
	json_auto_t *object = found > 0 ? json_loads(text.data, 0, NULL) : NULL;

	scan_record_parse(object, record);
	return found < 0 ? -1 : 0;
}

int scan_record_read(struct store_tx *tx, struct scan_record *record, struct err *err)
{
	return read_at(tx, RECORD_KEY, record, err);
}

int scan_record_read_blobs(struct store_tx *tx, const char *type,
			   struct scan_record *record, struct err *err)
{
	char key[KEY_SIZE];

	scan_record_make_key(type, key);
	return read_at(tx, key, record, err);
}

struct keeping {
	const char *key;
	const struct scan_record *now;
};

static void keep_left_out(struct scan_record *now, const struct scan_record *before)
{
	now->left_out = before->left_out;
	memcpy(now->example, before->example, sizeof(now->example));
	now->has_hooks = before->has_hooks;
	now->hooks = before->hooks;
}

static int scan_record_keep_work(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	const struct keeping *keeping = arg;
	struct scan_record before, now = *keeping->now;

	if (read_at(tx, keeping->key, &before, err) != 0)
		return -1;
	if (now.whole_at == 0)
		now.whole_at = before.whole_at;
	if (now.failing_since > 0)
		keep_left_out(&now, &before);
	if (now.failing_since > 0 && before.failing_since > 0)
		now.failing_since = before.failing_since;
	scan_record_render(&now, &text);
	return site_value_set(tx, keeping->key, text.data, err);
}

int scan_record_keep(struct store *store, const struct scan_record *now, struct err *err)
{
	struct keeping keeping = { RECORD_KEY, now };

	return store_write(store, scan_record_keep_work, &keeping, err);
}

int scan_record_keep_blobs(struct store *store, const char *type,
			   const struct scan_record *now, struct err *err)
{
	char key[KEY_SIZE];
	struct keeping keeping = { key, now };

	scan_record_make_key(type, key);
	return store_write(store, scan_record_keep_work, &keeping, err);
}
