#include "cli/cli.h"

#include <getopt.h>

#include "base/json.h"
#include "base/str.h"

static const char options_text[] = "  --json  print one JSON object\n";

static const struct option long_options[] = {
	{ "json", no_argument, NULL, 'J' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
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
	json_put_text(object, "file", entry->file);
	json_put_number(object, "line", entry->line);
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
		fprintf(stderr,
			"refrelay: %s:%u: %s is not built yet: serve refuses it\n",
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
	if (!entry && is_key)
		err_set(err, ERR_MISSING, "%s is not set", name);
	if (!entry && !is_key) {
		err_set(err, ERR_MISSING, "there is no key %s", name);
		err_remedy(err, "see refrelay.conf(5) for all keys");
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

int cli_config(struct cli *cli, int argc, char **argv)
{
	AUTO_CONF struct conf *conf = NULL;
	struct err err;
	bool is_json = false;
	int option;

	while ((option = cli_getopt(argc, argv, "", long_options)) != -1) {
		if (option == 'h') {
			cli_help("config", options_text);
			return EXIT_DONE;
		}
		if (option != 'J')
			return cli_usage("config", "wrong option %s", argv[optind - 1]);
		is_json = true;
	}
	bool is_list = argc - optind == 1 && strcmp(argv[optind], "list") == 0;
	bool is_get = argc - optind == 2 && strcmp(argv[optind], "get") == 0;
	if (!is_list && !is_get)
		return cli_usage("config", "it takes list, or get NAME");
	if (cli_load_config(cli, &conf, &err) != 0)
		return cli_fail(&err);
	if (is_list)
		report_unbuilt(cli, conf);
	return is_list ? cli_config_list_entries(conf, is_json)
		       : cli_config_get_entry(cli, conf, argv[optind + 1], is_json);
}
