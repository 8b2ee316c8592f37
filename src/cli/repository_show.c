#include "base/clock.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/repository.h"
#include "origin/inventory.h"
#include "replicable/name.h"
#include "report/report.h"

static void print_line(const char *name, const char *word, const char *rest)
{
	AUTO_STR struct str line = STR_INIT;

	str_add_printable(&line, name);
	if (rest) {
		str_add(&line, "  (");
		str_add_printable(&line, rest);
		str_add(&line, ")");
	}
	printf("%-18s  %s\n", word, line.data);
}

static int add_row(struct repository_call *call, struct registry_row *row, void *arg,
		   struct err *err)
{
	(void)err;
	if (call->is_json)
		json_array_append_new(arg, report_row_json(row, clock_wall_ms()));
	else
		print_line(row->name, report_row_word(row),
			   row->held_reason ? row->held_reason : row->failure);
	return 0;
}

int repository_list(struct repository_call *call, struct err *err)
{
	json_auto_t *object = json_object();
	json_t *array = json_array();
	int status;

	json_put(object, "repositories", array);
	status = repository_walk(call, add_row, array, err);
	if (status >= 0 && call->is_json)
		json_write(stdout, object);
	return status;
}

/* All members of the JSON object that say something, a line each. */
static void print_members(const json_t *object)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		AUTO_STR struct str text = STR_INIT;
		AUTO_STR struct str printable = STR_INIT;
		if (json_is_null(value))
			continue;
		if (json_is_string(value))
			str_add(&text, json_string_value(value));
		else
			json_render(value, &text);
		str_add_printable(&printable, text.data);
		printf("%-26s %s\n", key, printable.data);
	}
}

static void print_object(const struct repository_call *call, const json_t *object)
{
	if (call->is_json)
		json_write(stdout, object);
	else
		print_members(object);
}

static int show_row(struct repository_call *call, struct registry_row *row, void *arg,
		    struct err *err)
{
	json_auto_t *object = report_row_json(row, clock_wall_ms());

	(void)arg;
	(void)err;
	print_object(call, object);
	return 0;
}

int repository_show(struct repository_call *call, struct err *err)
{
	return repository_walk(call, show_row, NULL, err);
}

static void list_origin_row(const struct repository_call *call, json_t *row,
			    json_t *array)
{
	const char *failure = json_string_value(json_object_get(row, "failure"));

	if (call->state && !failure)
		return;
	if (call->is_json)
		json_array_append(array, row);
	else
		print_line(json_string_value(json_object_get(row, "name")),
			   failure ? "failing" : "readable", failure);
}

static int list_origin_named(struct repository_call *call, json_t *array, struct err *err)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < call->name_count; i++) {
		AUTO_FREE char *name = name_of_path(call->names[i]);
		json_auto_t *row = inventory_row(call->data.store, name, err);
		if (row)
			list_origin_row(call, row, array);
		else if (err->class == ERR_MISSING)
			status = cli_fail(err);
		else
			return -1;
	}
	return status;
}

static int list_origin_all(struct repository_call *call, json_t *array, struct err *err)
{
	char etag[INVENTORY_ETAG_SIZE];
	AUTO_FREE char *after = NULL;
	bool has_more = true;
	size_t i;
	json_t *row;

	while (has_more) {
		json_auto_t *page =
			inventory_page(call->data.store, after, 1000, etag, err);
		if (!page)
			return -1;
		json_array_foreach(json_object_get(page, "repositories"), i, row)
			list_origin_row(call, row, array);
		const char *next = json_string_value(json_object_get(page, "next"));
		free(TAKE(after));
		after = next ? xstrdup(next) : NULL;
		has_more = next != NULL;
	}
	return EXIT_DONE;
}

static int list_origin(struct repository_call *call, struct err *err)
{
	json_auto_t *object = json_object();
	json_t *array = json_array();
	int status;

	json_put(object, "repositories", array);
	status = call->name_count > 0 ? list_origin_named(call, array, err)
				      : list_origin_all(call, array, err);
	if (status >= 0 && call->is_json)
		json_write(stdout, object);
	return status;
}

/* A primary has no copies: nothing to sync or to remove. */
int repository_origin(struct repository_call *call, struct err *err)
{
	if (strcmp(call->verb, "list") == 0) {
		if (call->state && strcmp(call->state, "failed") != 0)
			return cli_usage("repository", "a primary's rows have no state "
						       "but failed");
		return list_origin(call, err);
	}
	if (strcmp(call->verb, "show") == 0) {
		AUTO_FREE char *name = name_of_path(call->names[0]);
		json_auto_t *row = inventory_row(call->data.store, name, err);
		if (!row)
			return -1;
		print_object(call, row);
		return EXIT_DONE;
	}
	if (strcmp(call->verb, "reverify") != 0 || call->name_count == 0) {
		err_set(err, ERR_CONFIG,
			"%s is for secondaries: this site is the primary", call->verb);
		return err_remedy(err, "at a primary there are list, show and reverify "
				       "NAME...");
	}
	return repository_reverify_origin(call, err);
}
