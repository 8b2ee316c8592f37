#include "change/scan_record.h"

#include <time.h>

#include "base/clock.h"
#include "base/json.h"
#include "replicable/kind.h"
#include "store/site_value.h"

#define RECORD_KEY "origin.scan"
#define KEY_SIZE 64
#define SHARE 0.004 /* of one core, for scans */
#define KEEP_EVERY_MS 10000

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

/* That of repositories names no kind: it is from before there were others. */
static void scan_record_make_key(const char *kind, char key[KEY_SIZE])
{
	if (kind_is_repository(kind))
		snprintf(key, KEY_SIZE, RECORD_KEY);
	else
		snprintf(key, KEY_SIZE, RECORD_KEY ".%s", kind);
}

/* One that cannot be understood is none. */
int scan_record_read(struct store_tx *tx, const char *kind, struct scan_record *record,
		     struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	char key[KEY_SIZE];

	scan_record_make_key(kind, key);
	int found = site_value_get(tx, key, &text, err);
	json_auto_t *object = found > 0 ? json_loads(text.data, 0, NULL) : NULL;

	scan_record_parse(object, record);
	return found < 0 ? -1 : 0;
}

struct scan_keeping {
	const char *kind;
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
	const struct scan_keeping *keeping = arg;
	struct scan_record before, now = *keeping->now;
	char key[KEY_SIZE];

	if (scan_record_read(tx, keeping->kind, &before, err) != 0)
		return -1;
	if (now.whole_at == 0)
		now.whole_at = before.whole_at;
	if (now.failing_since > 0)
		keep_left_out(&now, &before);
	if (now.failing_since > 0 && before.failing_since > 0)
		now.failing_since = before.failing_since;
	scan_record_render(&now, &text);
	scan_record_make_key(keeping->kind, key);
	return site_value_set(tx, key, text.data, err);
}

int scan_record_keep(struct store *store, const char *kind, const struct scan_record *now,
		     struct err *err)
{
	struct scan_keeping keeping = { kind, now };

	return store_write(store, scan_record_keep_work, &keeping, err);
}

int64_t scan_cpu_ms(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return used.tv_sec * INT64_C(1000) + used.tv_nsec / 1000000;
}

int64_t scan_pause_ms(int64_t used_ms, int64_t interval_ms)
{
	int64_t needed = (int64_t)((double)used_ms / SHARE);

	return needed > interval_ms ? needed : interval_ms;
}

bool scan_record_is_news(const struct scan_kept *kept, const struct scan_record *now)
{
	const struct scan_record *before = &kept->record;

	return kept->at == 0 || before->failure.class != now->failure.class ||
	       strcmp(before->failure.text, now->failure.text) != 0 ||
	       before->left_out != now->left_out ||
	       strcmp(before->example, now->example) != 0 ||
	       memcmp(before->hooks.states, now->hooks.states,
		      sizeof(now->hooks.states)) != 0 ||
	       clock_boot_ms() - kept->at >= KEEP_EVERY_MS;
}

void scan_record_note_kept(struct scan_kept *kept, const struct scan_record *now)
{
	kept->record = *now;
	kept->at = clock_boot_ms();
}
