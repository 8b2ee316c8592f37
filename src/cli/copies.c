#include "cli/copies.h"

#include <getopt.h>

#include "cli/cli.h"
#include "replicable/name.h"

static const struct option long_options[] = {
	{ "state", required_argument, NULL, 's' },
	{ "failed", no_argument, NULL, 'f' },
	{ "all", no_argument, NULL, 'a' },
	{ "type", required_argument, NULL, 't' },
	{ "force", no_argument, NULL, 'F' },
	{ "wait", no_argument, NULL, 'w' },
	{ "dry-run", no_argument, NULL, 'n' },
	{ "json", no_argument, NULL, 'J' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static bool is_state(const char *word)
{
	for (int i = 0; i < REGISTRY_STATES; i++)
		if (strcmp(word, registry_state_name((enum registry_state)i)) == 0)
			return true;
	return strcmp(word, "held") == 0 || strcmp(word, "gone") == 0;
}

/* -1: go on. */
static int copies_read_option(struct copies_call *call, int option, const char *word)
{
	switch (option) {
	case 's':
		call->state = optarg;
		break;
	case 'f':
		call->state = "failed";
		break;
	case 'a':
		call->takes_all = true;
		break;
	case 't':
		call->type = optarg;
		if (call->command->has_types)
			break;
		return cli_usage(call->command->name, "repositories have no types");
	case 'F':
		call->is_forced = true;
		break;
	case 'w':
		call->waits = true;
		break;
	case 'n':
		call->is_dry = true;
		break;
	case 'J':
		call->is_json = true;
		break;
	case 'h':
		cli_help(call->command->name, call->command->options);
		return EXIT_DONE;
	default:
		return cli_usage(call->command->name, "wrong option %s", word);
	}
	return -1;
}

/* -1: go on. */
static int copies_check_call(const struct copies_call *call)
{
	static const char *const verbs[] = { "list",     "show",   "sync", "resync",
					     "reverify", "remove", NULL };
	bool is_reading = strcmp(call->verb, "list") == 0, is_known = false;

	for (size_t i = 0; verbs[i]; i++)
		is_known |= strcmp(call->verb, verbs[i]) == 0;
	if (!is_known)
		return cli_usage(call->command->name, "%s is none of its verbs",
				 call->verb);
	if (call->state && !is_state(call->state))
		return cli_usage(call->command->name, "%s is no state", call->state);
	if (strcmp(call->verb, "show") == 0 && call->name_count != 1)
		return cli_usage(call->command->name, "show takes one %s",
				 call->command->word);
	if (call->name_count > 0 && (call->state || call->takes_all))
		return cli_usage(call->command->name,
				 "%s... or --state, --failed or --all, not both",
				 call->command->word);
	if (!is_reading && call->name_count == 0 && !call->state && !call->takes_all)
		return cli_usage(call->command->name,
				 "%s takes %s..., --state, --failed or --all", call->verb,
				 call->command->word);
	if (call->state && call->takes_all)
		return cli_usage(call->command->name, "--all or a state, not both");
	return -1;
}

/* The kinds that the call is about. */
static int choose_kinds(struct copies_call *call, struct err *err)
{
	if (!call->command->has_types) {
		vec_add(&call->kinds, KIND_REPOSITORY);
		return 0;
	}
	for (size_t i = 0; i < call->types.items.count; i++) {
		const char *type = call->types.items.items[i].type;
		if (!call->type || strcmp(call->type, type) == 0)
			vec_add(&call->kinds, type);
	}
	if (call->kinds.count == 1 || (call->kinds.count > 1 && call->name_count == 0))
		return 0;
	if (call->kinds.count > 1) {
		AUTO_STR struct str all = STR_INIT;
		for (size_t i = 0; i < call->kinds.count; i++)
			str_addf(&all, "%s%s", i == 0 ? "" : ", ", call->kinds.items[i]);
		err_set(err, ERR_CONFIG, "there are several kinds of blobs here: %s",
			all.data);
		return err_remedy(err, "say by --type which of them it is");
	}
	if (call->type)
		err_set(err, ERR_CONFIG, "there are no blobs of kind \"%s\" here",
			call->type);
	else
		err_set(err, ERR_CONFIG, "this site has no blobs");
	return err_remedy(err, "each kind is a section [blob \"TYPE\"] of the "
			       "configuration");
}

static int copies_open_all(const struct cli *cli, struct copies_call *call,
			   struct err *err)
{
	AUTO_CONF struct conf *conf = NULL;

	if (cli_load_config(cli, &conf, err) != 0 ||
	    site_from_conf(conf, &call->site, err) != 0 ||
	    blob_kinds_read(conf, &call->types, err) != 0 || choose_kinds(call, err) != 0)
		return -1;
	if (call->is_dry || strcmp(call->verb, "list") == 0 ||
	    strcmp(call->verb, "show") == 0)
		return site_data_open_to_read(call->site.data, &call->data, err);
	return site_data_open(call->site.data, &call->data, err);
}

static int copies_run_verb(struct copies_call *call, struct err *err)
{
	if (call->site.role == SITE_PRIMARY)
		return copies_origin(call, err);
	if (strcmp(call->verb, "list") == 0)
		return copies_list(call, err);
	if (strcmp(call->verb, "show") == 0)
		return copies_show(call, err);
	return copies_ask(call, err);
}

int copies_run(struct cli *cli, const struct copies_command *command, int argc,
	       char **argv)
{
	struct copies_call call = { .command = command };
	struct err err;
	int option, status = -1;

	while ((option = cli_getopt(argc, argv, "", long_options)) != -1) {
		int end = copies_read_option(&call, option, argv[optind - 1]);
		if (end >= 0)
			return end;
	}
	if (optind >= argc)
		return cli_usage(command->name, "it takes list, show, sync, resync, "
						"reverify or remove");
	call.verb = argv[optind];
	call.names = (const char *const *)argv + optind + 1;
	call.name_count = (size_t)(argc - optind - 1);
	status = copies_check_call(&call);
	if (status >= 0)
		return status;
	if (copies_open_all(cli, &call, &err) == 0)
		status = copies_run_verb(&call, &err);
	site_data_close(&call.data);
	vec_clear(&call.kinds);
	blob_kinds_clear(&call.types);
	site_clear(&call.site);
	return status < 0 ? cli_fail(&err) : status;
}

static int walk_named(struct copies_call *call, copies_each each, void *arg,
		      struct err *err)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < call->name_count; i++) {
		AUTO_REGISTRY_ROW struct registry_row row = { 0 };
		AUTO_FREE char *name = call->command->name_of(call->names[i]);
		if (registry_get(call->data.store, call->kinds.items[0], name, &row,
				 err) == 0) {
			if (each(call, &row, arg, err) != 0)
				return -1;
		} else if (err->class == ERR_MISSING) {
			status = cli_fail(err);
		} else {
			return -1;
		}
	}
	return status;
}

static struct registry_filter filter_of(const struct copies_call *call, const char *kind)
{
	struct registry_filter filter = { .kind = kind,
					  .limit = 1000,
					  .state = REGISTRY_ANY };

	for (int i = 0; i < REGISTRY_STATES && call->state; i++)
		if (strcmp(call->state, registry_state_name((enum registry_state)i)) == 0)
			filter.state = i;
	filter.held_only = call->state && strcmp(call->state, "held") == 0;
	filter.gone_only = call->state && strcmp(call->state, "gone") == 0;
	return filter;
}

struct visit {
	copies_each each;
	void *arg;
};

static int walk_kind(struct copies_call *call, const char *kind,
		     const struct visit *visit, struct err *err)
{
	struct registry_filter filter = filter_of(call, kind);
	AUTO_FREE char *after = NULL;
	size_t count = filter.limit;

	while (count == filter.limit) {
		AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
		filter.after = after;
		if (registry_list(call->data.store, &filter, &rows, err) != 0)
			return -1;
		count = rows.count;
		for (size_t i = 0; i < count; i++)
			if (visit->each(call, &rows.items[i], visit->arg, err) != 0)
				return -1;
		free(TAKE(after));
		after = count > 0 ? xstrdup(rows.items[count - 1].name) : NULL;
	}
	return 0;
}

int copies_walk(struct copies_call *call, copies_each each, void *arg, struct err *err)
{
	const struct visit visit = { each, arg };

	if (call->name_count > 0)
		return walk_named(call, each, arg, err);
	for (size_t i = 0; i < call->kinds.count; i++)
		if (walk_kind(call, call->kinds.items[i], &visit, err) != 0)
			return -1;
	return EXIT_DONE;
}
