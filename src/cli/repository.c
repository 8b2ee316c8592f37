#include "cli/repository.h"

#include <getopt.h>

#include "cli/cli.h"
#include "replicable/name.h"

static const char options_text[] =
	"  list           rows, all or those of --state, --failed\n"
	"  show NAME      one row, with all that is known\n"
	"  sync           copy now, do not wait for the next try\n"
	"  resync         copy now, and trust no record: compare and verify everything\n"
	"  reverify       read the copy again and compare it with the primary\n"
	"  remove         the copy goes to the trash, the row goes; if the primary "
	"still\n"
	"                 has the repository, it is copied anew\n"
	"\n"
	"Which repositories: NAME..., or\n"
	"  --state S      pending, started, synced, failed, missing_on_primary, or held, "
	"gone\n"
	"  --failed       the same as --state failed\n"
	"  --all          all\n"
	"\n"
	"  --force        sync, resync: do what is held, once (deletes refs, drops "
	"commits)\n"
	"  --wait         sync, resync, reverify: return when it is done; status 1 if "
	"it\n"
	"                 failed\n"
	"  --dry-run      only say what would be done\n"
	"  --json         print one JSON object\n";

static const struct option long_options[] = {
	{ "state", required_argument, NULL, 's' },
	{ "failed", no_argument, NULL, 'f' },
	{ "all", no_argument, NULL, 'a' },
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
static int read_option(struct repository_call *call, int option, const char *word)
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
		cli_help("repository", options_text);
		return EXIT_DONE;
	default:
		return cli_usage("repository", "wrong option %s", word);
	}
	return -1;
}

/* -1: go on. */
static int check(const struct repository_call *call)
{
	static const char *const verbs[] = { "list",     "show",   "sync", "resync",
					     "reverify", "remove", NULL };
	bool is_reading = strcmp(call->verb, "list") == 0, is_known = false;

	for (size_t i = 0; verbs[i]; i++)
		is_known |= strcmp(call->verb, verbs[i]) == 0;
	if (!is_known)
		return cli_usage("repository", "%s is none of its verbs", call->verb);
	if (call->state && !is_state(call->state))
		return cli_usage("repository", "%s is no state", call->state);
	if (strcmp(call->verb, "show") == 0 && call->name_count != 1)
		return cli_usage("repository", "show takes one NAME");
	if (call->name_count > 0 && (call->state || call->takes_all))
		return cli_usage("repository",
				 "NAME... or --state, --failed or --all, not both");
	if (!is_reading && call->name_count == 0 && !call->state && !call->takes_all)
		return cli_usage("repository",
				 "%s takes NAME..., --state, --failed or --all",
				 call->verb);
	return -1;
}

static int run(struct repository_call *call, struct err *err)
{
	if (call->site.role == SITE_PRIMARY)
		return repository_origin(call, err);
	if (strcmp(call->verb, "list") == 0)
		return repository_list(call, err);
	if (strcmp(call->verb, "show") == 0)
		return repository_show(call, err);
	return repository_ask(call, err);
}

int cli_repository(struct cli *cli, int argc, char **argv)
{
	struct repository_call call = { 0 };
	struct err err;
	int option, status = -1;

	while ((option = cli_getopt(argc, argv, "", long_options)) != -1) {
		int end = read_option(&call, option, argv[optind - 1]);
		if (end >= 0)
			return end;
	}
	if (optind >= argc)
		return cli_usage("repository", "it takes list, show, sync, resync, "
					       "reverify or remove");
	call.verb = argv[optind];
	call.names = (const char *const *)argv + optind + 1;
	call.name_count = (size_t)(argc - optind - 1);
	status = check(&call);
	if (status >= 0)
		return status;
	if (site_read(cli, NULL, &call.site, &err) != 0)
		return cli_fail(&err);
	if (site_data_open(call.site.data, &call.data, &err) == 0)
		status = run(&call, &err);
	site_data_close(&call.data);
	site_clear(&call.site);
	return status < 0 ? cli_fail(&err) : status;
}

static int walk_named(struct repository_call *call, repository_each each, void *arg,
		      struct err *err)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < call->name_count; i++) {
		AUTO_REGISTRY_ROW struct registry_row row = { 0 };
		AUTO_FREE char *name = name_of_path(call->names[i]);
		if (registry_get(call->data.store, KIND_REPOSITORY, name, &row, err) ==
		    0) {
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

static struct registry_filter filter_of(const struct repository_call *call)
{
	struct registry_filter filter = { .kind = KIND_REPOSITORY,
					  .limit = 1000,
					  .state = REGISTRY_ANY };

	for (int i = 0; i < REGISTRY_STATES && call->state; i++)
		if (strcmp(call->state, registry_state_name((enum registry_state)i)) == 0)
			filter.state = i;
	filter.held_only = call->state && strcmp(call->state, "held") == 0;
	filter.gone_only = call->state && strcmp(call->state, "gone") == 0;
	return filter;
}

static int walk_filtered(struct repository_call *call, repository_each each, void *arg,
			 struct err *err)
{
	struct registry_filter filter = filter_of(call);
	AUTO_FREE char *after = NULL;
	size_t count = filter.limit;

	while (count == filter.limit) {
		AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
		filter.after = after;
		if (registry_list(call->data.store, &filter, &rows, err) != 0)
			return -1;
		count = rows.count;
		for (size_t i = 0; i < count; i++)
			if (each(call, &rows.items[i], arg, err) != 0)
				return -1;
		free(TAKE(after));
		after = count > 0 ? xstrdup(rows.items[count - 1].name) : NULL;
	}
	return EXIT_DONE;
}

int repository_walk(struct repository_call *call, repository_each each, void *arg,
		    struct err *err)
{
	return call->name_count > 0 ? walk_named(call, each, arg, err)
				    : walk_filtered(call, each, arg, err);
}
