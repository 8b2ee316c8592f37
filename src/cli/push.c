#include "cli/push.h"

#include <getopt.h>
#include <stdarg.h>

#include "change/hook_socket.h"
#include "cli/site.h"
#include "lease/directory.h"

#define WAKE_MS 1000

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

	if (site_data_make(push->site.data, err) != 0 ||
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
	err_set(err, ERR_CONFIG, "site \"%s\" pushes nowhere: it has no remote",
		site->name);
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

void push_site_wake(const struct push_site *push)
{
	char answer[64];

	hook_socket_report(push->site.data, "wake", WAKE_MS, answer, sizeof(answer),
			   ERR_IGNORED);
}

static const char options_text[] =
	"  start [PATTERN...]  push all refs of the repositories that a PATTERN stands "
	"for\n"
	"                      (NAME, PREFIX*, ^REGEX), or of all\n"
	"    --all             all repositories, said aloud\n"
	"    --remote NAME     only to this remote; may be given several times\n"
	"    --url PART        only to URLs that contain it\n"
	"    --now             do not wait for the remote's replicationDelay\n"
	"    --wait            return when all of it is done or given up\n"
	"    --timeout T       --wait: not longer than that (90s, 10m, 2h)\n"
	"  list                remotes, with what runs and waits for each\n"
	"    --remote PART     those whose name contains it\n"
	"    --detail          also projects, refs and the tasks\n"
	"  queue               what the whole cluster has to push, and has given up\n"
	"    --remote NAME     only to this remote\n"
	"    --failed          only what fails and what was given up\n"
	"  retry KEY... | --all | --remote NAME\n"
	"                      try now what was given up, and what waits for its next "
	"try\n"
	"    --force           allow the deletions that a push was held for\n"
	"  discard KEY... | --all --remote NAME | --orphans | --unreadable\n"
	"                      forget tasks: they are not pushed\n"
	"    --dry-run         only say what would be done\n"
	"  wait COMMIT --remote NAME\n"
	"                      return when the remote's destinations have that commit\n"
	"    --repository NAME in this repository (default: in all that have it)\n"
	"    --timeout T       not longer than that\n"
	"  hand-back           have all tasks wait as Gerrit's plugin wants them; no "
	"node "
	"may run\n"
	"\n"
	"  --json              list, queue: print one JSON object\n"
	"  -v, --verbose       start: name each task that is made\n"
	"\n"
	"KEY is what queue prints, or its first 6 digits at least: of a destination, of\n"
	"what was given up, or (with --json) of a task.\n";

enum {
	OPTION_URL = 256,
	OPTION_TIMEOUT,
	OPTION_ORPHANS,
	OPTION_UNREADABLE,
	OPTION_REPOSITORY
};

static const struct option long_options[] = {
	{ "all", no_argument, NULL, 'a' },
	{ "remote", required_argument, NULL, 'r' },
	{ "url", required_argument, NULL, OPTION_URL },
	{ "repository", required_argument, NULL, OPTION_REPOSITORY },
	{ "now", no_argument, NULL, 'n' },
	{ "wait", no_argument, NULL, 'w' },
	{ "timeout", required_argument, NULL, OPTION_TIMEOUT },
	{ "detail", no_argument, NULL, 'd' },
	{ "failed", no_argument, NULL, 'f' },
	{ "force", no_argument, NULL, 'F' },
	{ "dry-run", no_argument, NULL, 'D' },
	{ "orphans", no_argument, NULL, OPTION_ORPHANS },
	{ "unreadable", no_argument, NULL, OPTION_UNREADABLE },
	{ "verbose", no_argument, NULL, 'v' },
	{ "json", no_argument, NULL, 'J' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

/* Which verbs take an option; "*": it can always be given. */
static const struct {
	int option;
	const char *name, *verbs;
} taken[] = {
	{ 'a', "--all", "start retry discard" },
	{ 'r', "--remote", "start list queue retry discard wait" },
	{ OPTION_REPOSITORY, "--repository", "wait" },
	{ OPTION_URL, "--url", "start" },
	{ 'n', "--now", "start" },
	{ 'w', "--wait", "start" },
	{ OPTION_TIMEOUT, "--timeout", "start wait" },
	{ 'd', "--detail", "list" },
	{ 'f', "--failed", "queue" },
	{ 'F', "--force", "retry" },
	{ 'D', "--dry-run", "discard" },
	{ OPTION_ORPHANS, "--orphans", "discard" },
	{ OPTION_UNREADABLE, "--unreadable", "discard" },
	{ 'v', "--verbose", "start retry discard" },
	{ 'J', "--json", "list queue" },
};

struct verb {
	const char *name;
	int (*run)(struct push_call *call, struct err *err);
};

static const struct verb verbs[] = {
	{ "start", push_start_run },         { "list", push_list_run },
	{ "queue", push_queue_run },         { "retry", push_retry_run },
	{ "discard", push_discard_run },     { "wait", push_wait_run },
	{ "hand-back", push_hand_back_run },
};

bool push_key_is(const char *word, const char *key)
{
	return strcmp(word, key) == 0 ||
	       (strlen(word) >= PUSH_KEY_LEAST && text_starts_with(key, word));
}

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

void push_fingerprint(const char *fmt, ...)
{
	AUTO_STR struct str printable = STR_INIT;
	AUTO_FREE char *text = NULL;
	va_list args;
	int len;

	va_start(args, fmt);
	len = vasprintf(&text, fmt, args);
	va_end(args);
	if (len < 0)
		abort();
	str_add_printable(&printable, text);
	puts(printable.data);
}

static int64_t duration_unit(const char *word)
{
	static const struct {
		const char *word;
		int64_t ms;
	} units[] = { { "", 1000 },   { "s", 1000 },    { "ms", 1 },
		      { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 } };

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (strcmp(word, units[i].word) == 0)
			return units[i].ms;
	return 0;
}

/* At most a year. */
static bool cli_push_read_duration(const char *word, int64_t *ms)
{
	size_t digits = strspn(word, "0123456789");
	AUTO_FREE char *number = xstrndup(word, digits);
	int64_t unit = duration_unit(word + digits);
	uint64_t value;

	if (unit == 0 || !text_to_uint64(number, &value) || value == 0 ||
	    value > (uint64_t)(365 * INT64_C(86400000) / unit))
		return false;
	*ms = (int64_t)value * unit;
	return true;
}

static void cli_push_add_remote(struct push_call *call, const char *name)
{
	vec_add(&call->remotes, name);
	vec_add(&call->remotes, NULL);
	call->remotes.count--;
}

static bool *flag_of(struct push_call *call, int option)
{
	switch (option) {
	case 'a':
		return &call->takes_all;
	case 'n':
		return &call->is_now;
	case 'w':
		return &call->waits;
	case 'd':
		return &call->is_detailed;
	case 'f':
		return &call->is_failed;
	case 'F':
		return &call->is_forced;
	case 'D':
		return &call->is_dry;
	case OPTION_ORPHANS:
		return &call->is_orphans;
	case OPTION_UNREADABLE:
		return &call->is_unreadable;
	case 'v':
		return &call->is_verbose;
	case 'J':
		return &call->is_json;
	default:
		return NULL;
	}
}

/* -1: go on. */
static int cli_push_read_option(struct push_call *call, int option, const char *word)
{
	bool *flag = flag_of(call, option);

	if (flag) {
		*flag = true;
		return -1;
	}
	switch (option) {
	case 'r':
		cli_push_add_remote(call, optarg);
		return -1;
	case OPTION_URL:
		call->url = optarg;
		return -1;
	case OPTION_REPOSITORY:
		call->repository = optarg;
		return -1;
	case OPTION_TIMEOUT:
		if (cli_push_read_duration(optarg, &call->timeout_ms))
			return -1;
		return cli_usage("push", "--timeout takes a duration like 90s or 10m");
	case 'h':
		cli_help("push", options_text);
		return EXIT_DONE;
	default:
		return cli_usage("push", "wrong option %s", word);
	}
}

/* -1: go on. */
static int check_options(const struct push_call *call, const bool *is_given)
{
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (is_given[i] && !strstr(taken[i].verbs, call->verb))
			return cli_usage("push", "%s does not take %s", call->verb,
					 taken[i].name);
	return -1;
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
static int check_words(const struct push_call *call)
{
	bool has_words = call->word_count > 0;
	bool is_named = has_words || call->takes_all || call->remotes.count > 0;

	if (strcmp(call->verb, "start") == 0 && has_words && call->takes_all)
		return cli_usage("push", "start takes --all or PATTERN..., not both");
	if (strcmp(call->verb, "wait") == 0)
		return call->word_count == 1 && call->remotes.count > 0
			       ? -1
			       : cli_usage("push", "wait takes COMMIT --remote NAME");
	if (call->timeout_ms > 0 && !call->waits)
		return cli_usage("push", "--timeout needs --wait");
	if (has_words &&
	    (strcmp(call->verb, "list") == 0 || strcmp(call->verb, "queue") == 0 ||
	     strcmp(call->verb, "hand-back") == 0))
		return cli_usage("push", "%s takes no operand", call->verb);
	if (strcmp(call->verb, "retry") == 0 && !is_named)
		return cli_usage("push", "retry takes KEY..., --all or --remote NAME");
	if (has_words && call->takes_all)
		return cli_usage("push", "KEY... or --all, not both");
	if (strcmp(call->verb, "discard") != 0)
		return -1;
	return check_discard(call);
}

/* What was given is looked at once the verb is known: options may stand before it. -1:
 * go on. */
static int cli_push_read_options(int argc, char **argv, struct push_call *call,
				 bool *is_given)
{
	int option;

	while ((option = cli_getopt(argc, argv, "v", long_options)) != -1) {
		int end = cli_push_read_option(call, option, argv[optind - 1]);
		if (end >= 0)
			return end;
		for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
			is_given[i] |= taken[i].option == option;
	}
	return -1;
}

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		if (strcmp(verbs[i].name, name) == 0)
			return &verbs[i];
	return NULL;
}

/* What is left of remotes that were taken away can still be seen, and discarded. */
static int cli_push_check_remotes(const struct push_call *call, const struct verb *verb,
				  struct err *err)
{
	if (push_site_check_remotes(&call->push.site, call->push.settings, err) == 0)
		return 0;
	if (verb->run == push_start_run || verb->run == push_wait_run)
		return -1;
	cli_fail(err);
	return 0;
}

static int cli_push_run_verb(struct cli *cli, struct push_call *call,
			     const struct verb *verb)
{
	bool changes = verb->run != push_list_run && verb->run != push_queue_run;
	struct err err;
	int status = -1;

	if (push_site_open(cli, changes, &call->push, &err) == 0 &&
	    cli_push_check_remotes(call, verb, &err) == 0)
		status = verb->run(call, &err);
	push_site_close(&call->push);
	return status < 0 ? cli_fail(&err) : status;
}

static int read_and_run(struct cli *cli, int argc, char **argv, struct push_call *call)
{
	bool is_given[ARRAY_SIZE(taken)] = { 0 };
	int status = cli_push_read_options(argc, argv, call, is_given);
	const struct verb *verb;

	if (status >= 0)
		return status;
	verb = optind < argc ? find_verb(argv[optind]) : NULL;
	if (!verb)
		return cli_usage("push",
				 "it takes start, list, queue, retry, discard, wait "
				 "or hand-back");
	call->verb = verb->name;
	call->words = (const char *const *)argv + optind + 1;
	call->word_count = (size_t)(argc - optind - 1);
	status = check_options(call, is_given);
	if (status < 0)
		status = check_words(call);
	return status >= 0 ? status : cli_push_run_verb(cli, call, verb);
}

int cli_push(struct cli *cli, int argc, char **argv)
{
	struct push_call call = { .is_verbose = cli->is_verbose };
	int status = read_and_run(cli, argc, argv, &call);

	vec_clear(&call.remotes);
	return status;
}
