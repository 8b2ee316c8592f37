#include "cli/push.h"

#include "cli/site.h"
#include "lease/directory.h"

static int push_site_open_leases(const char *path, struct lease_manager **leases,
				 struct err *err)
{
	return lease_manager_open_directory(&(struct lease_options){ .directory = path },
					    leases, err);
}

int push_site_look(const struct push_settings *settings, const char *data,
		   struct push_observation *observation, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/leases", settings->directory);

	*observation = (struct push_observation){ 0 };
	if (task_store_open_to_read(settings->directory, data, &observation->tasks,
				    err) != 0) {
		push_observation_close(observation);
		return -1;
	}
	if (access(path, F_OK) == 0 &&
	    push_site_open_leases(path, &observation->leases, &observation->why_not) != 0)
		observation->leases = NULL;
	return 0;
}

void push_observation_close(struct push_observation *observation)
{
	lease_manager_close(observation->leases);
	task_store_close(observation->tasks);
	*observation = (struct push_observation){ 0 };
}

/* The default directory of the store is in site.data, which may not be there yet. */
static int open_to_change(struct push_site *push, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/leases", push->settings->directory);

	if (site_data_check_owner(push->site.data, err) != 0 ||
	    site_data_make(push->site.data, err) != 0 ||
	    task_store_recognize(push->settings->directory, push->site.data, err) != 0 ||
	    task_store_open(push->settings->directory, &push->tasks, err) != 0)
		return -1;
	return push_site_open_leases(path, &push->leases, err);
}

static int push_site_read_settings(const struct cli *cli, struct push_site *push,
				   struct err *err)
{
	AUTO_CONF struct conf *conf = NULL;

	if (cli_load_config(cli, &conf, err) != 0 ||
	    site_from_conf(conf, &push->site, err) != 0 ||
	    push_settings_read(conf, push->site.data, &push->settings, err) != 0)
		return -1;
	return 0;
}

int push_site_check_remotes(const struct site *site, const struct push_settings *settings,
			    struct err *err)
{
	if (settings && settings->remotes.count > 0)
		return 0;
	err_set(err, ERR_CONFIG, "site \"%s\" has no remotes to push to", site->name);
	return err_remedy(err,
			  "add a section [remote \"NAME\"], or name Gerrit's file in "
			  "replication.config");
}

/* Who does not change the store makes nothing of it. Close it in any case. Without any
 * remote it succeeds. */
static int push_site_open(const struct cli *cli, bool changes, struct push_site *push,
			  struct err *err)
{
	struct push_observation observation;

	*push = (struct push_site){ 0 };
	if (push_site_read_settings(cli, push, err) != 0)
		return -1;
	if (changes)
		return open_to_change(push, err);
	if (push_site_look(push->settings, push->site.data, &observation, err) != 0)
		return -1;
	push->tasks = observation.tasks;
	push->leases = observation.leases;
	return 0;
}

static void push_site_close(struct push_site *push)
{
	lease_manager_close(push->leases);
	task_store_close(push->tasks);
	push_settings_unref(push->settings);
	site_clear(&push->site);
	*push = (struct push_site){ 0 };
}

#define AT(kind, member) CLI_AT(kind, struct push_call, member)

static const struct cli_option rows[] = {
	{ "all", 0, NULL, "every repository", AT(FLAG, takes_all), .verbs = "start" },
	{ "all", 0, NULL, NULL, AT(FLAG, takes_all), .verbs = "retry discard" },
	{ "remote", 0, "NAME", "only to this remote; may be repeated", AT(LIST, remotes),
	  .verbs = "start" },
	{ "url", 0, "PART", "only to URLs that contain it", AT(TEXT, url),
	  .verbs = "start" },
	{ "now", 0, NULL, "do not wait for the remote's replicationDelay",
	  AT(FLAG, is_now), .verbs = "start" },
	{ "wait", 0, NULL, "wait until everything is done or given up", AT(FLAG, waits),
	  .verbs = "start" },
	{ "timeout", 0, "T", "--wait: at most this long (90s, 10m, 2h)",
	  AT(DURATION, timeout_ms), .min = 1, .verbs = "start", .needs = "wait" },
	{ "no-progress", 0, NULL, "accepted for scripts: no progress is shown",
	  AT(FLAG, is_quiet), .verbs = "start", .needs = "wait" },
	{ "remote", 0, "PART", "only remotes whose name contains PART", AT(LIST, remotes),
	  .verbs = "list" },
	{ "detail", 0, NULL, "also projects, refs and tasks", AT(FLAG, is_detailed),
	  .verbs = "list" },
	{ "remote", 0, "NAME", "only to this remote", AT(LIST, remotes),
	  .verbs = "queue" },
	{ "failed", 0, NULL, "only what is failing or was given up", AT(FLAG, is_failed),
	  .verbs = "queue" },
	{ "remote", 0, "NAME", NULL, AT(LIST, remotes), .verbs = "retry discard wait" },
	{ "force", 0, NULL, "allow the deletions for which a push was held",
	  AT(FLAG, is_forced), .verbs = "retry" },
	{ "dry-run", 0, NULL, "only print what would be done", AT(FLAG, is_dry),
	  .verbs = "discard" },
	{ "orphans", 0, NULL, NULL, AT(FLAG, is_orphans), .verbs = "discard" },
	{ "unreadable", 0, NULL, NULL, AT(FLAG, is_unreadable), .verbs = "discard" },
	{ "repository", 0, "NAME",
	  "in this repository (default: every repository that has it)",
	  AT(TEXT, repository), .verbs = "wait" },
	{ "timeout", 0, "T", "at most this long", AT(DURATION, timeout_ms), .min = 1,
	  .verbs = "wait" },
	{ "no-progress", 0, NULL, NULL, AT(FLAG, is_quiet), .verbs = "wait" },
	{ "json", 0, NULL, "list, queue: print one JSON object", AT(FLAG, is_json),
	  .verbs = "list queue", .heading = "\n" },
	{ "verbose", 'v', NULL, "start: print each task that is created",
	  AT(FLAG, is_verbose), .verbs = "start retry discard" },
	{ 0 },
};

enum verb { START, LIST, QUEUE, RETRY, DISCARD, WAIT, HAND_BACK };

static const struct cli_verb verbs[] = {
	[START] = { "start", .most = CLI_ANY_NUMBER, .operands = "[PATTERN...]",
		    .help = "push all refs of the repositories that match a "
			    "PATTERN\n(NAME, PREFIX*, ^REGEX), or of all" },
	[LIST] = { "list", .takes = "no arguments",
		   .help = "list the remotes with their running and waiting pushes" },
	[QUEUE] = { "queue", .takes = "no arguments",
		    .help = "what the whole cluster has to push or has given up" },
	[RETRY] = { "retry", .most = CLI_ANY_NUMBER,
		    .operands = "KEY... | --all | --remote NAME",
		    .help = "retry now what was given up or waits for its next attempt" },
	[DISCARD] = { "discard", .most = CLI_ANY_NUMBER,
		      .operands = "KEY... | --all --remote NAME | --orphans | "
				  "--unreadable",
		      .help = "drop tasks: they will not be pushed" },
	[WAIT] = { "wait", 1, 1, "COMMIT --remote NAME", "COMMIT --remote NAME",
		   "wait until the remote's destinations have that commit" },
	[HAND_BACK] = { "hand-back", .takes = "no arguments",
			.help = "hand all tasks back to Gerrit's plugin; stop every node "
				"first" },
	{ 0 },
};

const struct cli_options push_options = {
	.rows = rows,
	.verbs = verbs,
	.takes = "start, list, queue, retry, discard, wait or hand-back",
	.column = 22,
	.end = "KEY is a key printed by queue, or at least its first 6 digits: of a "
	       "destination, of\na task that was given up, or (with --json) of any "
	       "task.\n",
};

void push_add_refs(const struct push_settings *settings, const text_list *refs,
		   struct str *out)
{
	size_t shown = settings->max_refs_to_show;

	if (shown == 0 || shown > refs->count)
		shown = refs->count;
	for (size_t i = 0; i < shown; i++)
		str_addf(out, "%s%s", i > 0 ? ", " : "", refs->items[i]);
	if (shown < refs->count)
		str_addf(out, " (+%zu)", refs->count - shown);
}

/* -1: go on. */
static int check_discard(const struct push_call *call)
{
	bool has_words = call->word_count > 0, has_remotes = call->remotes.count > 0;
	bool is_good;

	if (call->is_unreadable)
		is_good = !has_words && !call->takes_all && !has_remotes &&
			  !call->is_orphans;
	else if (call->is_orphans)
		is_good = !has_words && !call->takes_all;
	else
		is_good = has_words || (call->takes_all && has_remotes);
	return is_good ? -1
		       : cli_usage("push", "discard takes KEY..., --all --remote NAME, "
					   "--orphans, or --unreadable");
}

/* -1: go on. */
static int check_words(const struct push_call *call, enum verb verb)
{
	bool has_words = call->word_count > 0;
	bool is_named = has_words || call->takes_all || call->remotes.count > 0;

	if (verb == START && has_words && call->takes_all)
		return cli_usage("push", "start takes --all or PATTERN..., not both");
	if (verb == WAIT && call->remotes.count == 0)
		return cli_usage("push", "wait takes %s", verbs[WAIT].takes);
	if (verb == RETRY && !is_named)
		return cli_usage("push", "retry takes KEY..., --all or --remote NAME");
	if (has_words && call->takes_all)
		return cli_usage("push", "KEY... or --all, not both");
	return verb == DISCARD ? check_discard(call) : -1;
}

/* What is left of remotes that were taken away can still be seen, and discarded. */
static int cli_push_check_remotes(const struct push_call *call, enum verb verb,
				  struct err *err)
{
	if (push_site_check_remotes(&call->push.site, call->push.settings, err) == 0)
		return 0;
	if (verb == START || verb == WAIT)
		return -1;
	cli_fail(err);
	return 0;
}

static int cli_push_run_verb(struct cli *cli, struct push_call *call, enum verb verb)
{
	static int (*const runs[])(struct push_call * call, struct err * err) = {
		[START] = push_start_run,         [LIST] = push_list_run,
		[QUEUE] = push_queue_run,         [RETRY] = push_retry_run,
		[DISCARD] = push_discard_run,     [WAIT] = push_wait_run,
		[HAND_BACK] = push_hand_back_run,
	};
	struct err err;
	int status = -1;

	if (push_site_open(cli, verb != LIST && verb != QUEUE, &call->push, &err) == 0 &&
	    cli_push_check_remotes(call, verb, &err) == 0)
		status = runs[verb](call, &err);
	push_site_close(&call->push);
	return status < 0 ? cli_fail(&err) : status;
}

int cli_push(struct cli *cli, char **argv)
{
	struct push_call call = { .is_verbose = cli->is_verbose };
	struct cli_operands operands;
	int status = cli_read_options(cli->command, argv, &call, &operands);
	enum verb verb = (enum verb)operands.verb_at;

	call.verb = operands.verb;
	call.words = operands.items;
	call.word_count = operands.count;
	if (status < 0)
		status = check_words(&call, verb);
	if (status < 0)
		status = cli_push_run_verb(cli, &call, verb);
	vec_clear(&call.remotes);
	return status;
}
