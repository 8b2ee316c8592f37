#include "change/scan_record.h"

#include "base/json.h"
#include "store/site_value.h"

#define RECORD_KEY "origin.scan"

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static void parse(const json_t *object, struct scan_record *record)
{
	*record = (struct scan_record){
		.whole_at = json_integer_value(json_object_get(object, "whole_at")),
		.failing_since =
			json_integer_value(json_object_get(object, "failing_since")),
		.left_out = json_integer_value(json_object_get(object, "left_out")),
	};
	snprintf(record->example, sizeof(record->example), "%s",
		 text_of(object, "example"));
	if (record->failing_since == 0)
		return;
	err_set(&record->failure, err_class_of_name(text_of(object, "code")), "%s",
		text_of(object, "message"));
	err_remedy(&record->failure, "%s", text_of(object, "remedy"));
}

static void render(const struct scan_record *record, struct str *out)
{
	json_auto_t *object = record->failing_since > 0 ? json_from_err(&record->failure)
							: json_object();

	json_put_number(object, "whole_at", record->whole_at);
	json_put_number(object, "failing_since", record->failing_since);
	json_put_number(object, "left_out", record->left_out);
	json_put_message(object, "example", record->example);
	json_render(object, out);
}

/* One that cannot be understood is none. */
int scan_record_read(struct store_tx *tx, struct scan_record *record, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	int found = site_value_get(tx, RECORD_KEY, &text, err);
	json_auto_t *object = found > 0 ? json_loads(text.data, 0, NULL) : NULL;

	parse(object, record);
	return found < 0 ? -1 : 0;
}

static void keep_left_out(struct scan_record *now, const struct scan_record *before)
{
	now->left_out = before->left_out;
	memcpy(now->example, before->example, sizeof(now->example));
}

static int keep(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	struct scan_record before, now = *(const struct scan_record *)arg;

	if (scan_record_read(tx, &before, err) != 0)
		return -1;
	if (now.whole_at == 0)
		now.whole_at = before.whole_at;
	if (now.failing_since > 0)
		keep_left_out(&now, &before);
	if (now.failing_since > 0 && before.failing_since > 0)
		now.failing_since = before.failing_since;
	render(&now, &text);
	return site_value_set(tx, RECORD_KEY, text.data, err);
}

int scan_record_keep(struct store *store, const struct scan_record *now, struct err *err)
{
	struct scan_record copy = *now;

	return store_write(store, keep, &copy, err);
}
