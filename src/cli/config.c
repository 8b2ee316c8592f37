#include "cli/cli.h"

#include "base/json.h"
#include "base/str.h"

struct config_call {
	bool is_json;
};

static const struct cli_option rows[] = {
	CLI_JSON(struct config_call),
	{ 0 },
};

static const struct cli_verb verbs[] = {
	{ .name = "list" },
	{ "get", 1, 1, .operands = "NAME" },
	{ 0 },
};

const struct cli_options config_options = {
	.rows = rows, .verbs = verbs, .takes = "list, or get NAME", .column = 10
};

static json_t *to_json(const struct conf_entry *entry)
{
	AUTO_STR struct str name = STR_INIT;
	AUTO_STR struct str value = STR_INIT;
	json_t *object = json_object();

	conf_render_name(entry, &name);
	conf_render_value(entry, &value);
	json_put_text(object, "name", name.data);
	json_put_text(object, "value", value.data);
	json_put(object, "file", entry->file ? json_string(entry->file) : json_null());
	json_put(object, "line", entry->file ? json_integer(entry->line) : json_null());
	return object;
}

static void cli_config_print_json(const struct conf_list *entries)
{
	json_auto_t *object = json_object();
	json_t *array = json_array();

	for (size_t i = 0; i < entries->count; i++)
		json_array_append_new(array, to_json(entries->items[i]));
	json_put(object, "entries", array);
	json_write(stdout, object);
}

static void report_unbuilt(const struct cli *cli, const struct conf *conf)
{
	const struct conf_list *all = conf_entries(conf);

	for (size_t i = 0; i < all->count; i++) {
		const struct conf_entry *entry = all->items[i];
		AUTO_STR struct str name = STR_INIT;
		if (setting_is_built(cli->settings, entry))
			continue;
		conf_render_name(entry, &name);
		cli_note("%s:%u: %s is not implemented yet: other commands refuse it",
			 entry->file, entry->line, name.data);
	}
}

static int cli_config_list_entries(const struct conf *conf, bool is_json)
{
	AUTO_STR struct str text = STR_INIT;

	if (is_json) {
		cli_config_print_json(conf_entries(conf));
		return EXIT_DONE;
	}
	conf_render(conf, &text);
	fputs(text.data, stdout);
	return EXIT_DONE;
}

/* "section.key" or "section.subsection.key"; the subsection may have dots. */
static const struct conf_entry *cli_config_find_entry(const struct cli *cli,
						      const struct conf *conf,
						      const char *name, struct err *err)
{
	AUTO_FREE char *parts = xstrdup(name);
	char *first = strchr(parts, '.'), *last = strrchr(parts, '.');
	const struct conf_entry *entry = NULL;
	bool is_key = false;

	if (first) {
		const struct conf_entry wanted = {
			.section = parts,
			.subsection = first == last ? NULL : first + 1,
			.key = last + 1,
		};
		*first = *last = '\0';
		entry = conf_get(conf, wanted.section, wanted.subsection, wanted.key);
		is_key = settings_find(cli->settings, &wanted) != NULL;
	}
	if (!entry) {
		err_set(err, ERR_MISSING, is_key ? "%s is not set" : "no such key: %s",
			name);
		err_remedy(err, "see refrelay.conf(5)");
	}
	return entry;
}

static int cli_config_get_entry(const struct cli *cli, const struct conf *conf,
				const char *name, bool is_json)
{
	AUTO_STR struct str value = STR_INIT;
	struct err err;
	const struct conf_entry *entry = cli_config_find_entry(cli, conf, name, &err);

	if (!entry)
		return cli_fail(&err);
	if (is_json) {
		json_auto_t *object = to_json(entry);
		json_write(stdout, object);
		return EXIT_DONE;
	}
	conf_render_value(entry, &value);
	puts(value.data);
	return EXIT_DONE;
}

int cli_config(struct cli *cli, char **argv)
{
	AUTO_CONF struct conf *conf = NULL;
	struct config_call call = { 0 };
	struct cli_operands operands;
	struct err err;
	int status = cli_read_options(cli->command, argv, &call, &operands);

	if (status >= 0)
		return status;
	if (cli_read_config(cli, &conf, &err) != 0)
		return cli_fail(&err);
	if (operands.count == 0)
		report_unbuilt(cli, conf);
	settings_add_defaults(cli->settings, conf);
	if (operands.count > 0)
		return cli_config_get_entry(cli, conf, operands.items[0], call.is_json);
	return cli_config_list_entries(conf, call.is_json);
}
