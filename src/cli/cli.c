#include "cli/cli.h"

#include <getopt.h>
#include <signal.h>
#include <stdarg.h>

#include "base/conf_check.h"
#include "base/log.h"

static const struct command *find(const char *name)
{
	for (const struct command *command = commands; command->name; command++)
		if (strcmp(command->name, name) == 0)
			return command;
	return NULL;
}

static int status_of(enum err_class class)
{
	switch (class) {
	case ERR_CONFIG:
		return EXIT_USAGE;
	case ERR_MISSING:
		return EXIT_NOT_FOUND;
	case ERR_BUSY:
		return EXIT_NOT_OBTAINED;
	case ERR_CANCELED:
		return EXIT_INTERRUPTED;
	default:
		return EXIT_FAILED;
	}
}

int cli_fail(const struct err *err)
{
	AUTO_STR struct str masked = STR_INIT;
	AUTO_STR struct str text = STR_INIT;

	log_redact(err->text, &masked);
	str_add_printable(&text, masked.data);
	fprintf(stderr, "refrelay: %s\n", text.data);
	if (err->remedy[0])
		fprintf(stderr, "  what to do: %s\n", err->remedy);
	return status_of(err->class);
}

int cli_usage(const char *command, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "refrelay%s%s: ", command ? " " : "", command ? command : "");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\n  what to do: see refrelay %s%s--help\n",
		command ? command : "", command ? " " : "");
	return EXIT_USAGE;
}

/* The word that getopt_long will read next, if it is a long option. */
static bool is_abbreviated(const char *word, const struct option *long_options)
{
	size_t len = strcspn(word, "=");

	if (!text_starts_with(word, "--") || len == 2)
		return false;
	for (; long_options->name; long_options++)
		if (strlen(long_options->name) == len - 2 &&
		    strncmp(word + 2, long_options->name, len - 2) == 0)
			return false;
	return true;
}

int cli_getopt(int argc, char **argv, const char *short_options,
	       const struct option *long_options)
{
	opterr = 0; /* the command says it */
	/* Operands may stand before options: getopt_long moves them behind. */
	for (int i = optind; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (is_abbreviated(argv[i], long_options)) {
			optind = i + 1;
			return '?';
		}
	return getopt_long(argc, argv, short_options, long_options, NULL);
}

void cli_help(const char *command, const char *options)
{
	const struct command *found = find(command);

	printf("usage: refrelay %s %s\n\n%s\n%s%s", found->name, found->synopsis,
	       found->summary, options[0] ? "\n" : "", options);
}

static const char *const site_keys[] = { "name", "role", "repositories", "data", NULL };
static const char *const lease_keys[] = { "backend", "url", "path", "ttl", "wait", NULL };
static const struct conf_section site = { "site", false, CONF_STRICT, site_keys };

/* Sections of parts that are not built yet: their names are fixed, so they are no
 * mistakes; that they do nothing is told. */
static const char *const http_keys[] = {
	"listen", "url", "anonymousRead", "passwordFile", "operatorTokenFile", NULL
};
static const char *const primary_keys[] = { "url", "secretFile", NULL };
static const char *const secondary_keys[] = { "secretFile", "enabled", NULL };
static const char *const sync_keys[] = {
	"repositoryCapacity", "blobCapacity",        "verificationCapacity",
	"scanInterval",       "consistencyInterval", "timeout",
	"reverifyInterval",   "deleteBrake",         NULL
};
static const char *const blob_keys[] = { "path", NULL };
static const char *const database_keys[] = { "url", NULL };
static const char *const mirror_keys[] = { "url", "interval", "depth", NULL };
static const char *const watcher_keys[] = { "mirror", "tokenFile", NULL };
static const char *const no_keys[] = { NULL };
static const struct conf_section later[] = {
	{ "http", false, CONF_STRICT, http_keys },
	{ "primary", false, CONF_STRICT, primary_keys },
	{ "secondary", true, CONF_STRICT, secondary_keys },
	{ "sync", false, CONF_STRICT, sync_keys },
	{ "blob", true, CONF_STRICT, blob_keys },
	{ "database", false, CONF_STRICT, database_keys },
	{ "lease", false, CONF_STRICT, lease_keys },
	{ "mirror", true, CONF_STRICT, mirror_keys },
	{ "watcher", true, CONF_STRICT, watcher_keys },
	{ "remote", true, CONF_LENIENT, no_keys },
	{ "replication", false, CONF_LENIENT, no_keys },
	{ "gerrit", false, CONF_LENIENT, no_keys },
};

/* [remote] and the like may bear Gerrit's keys; the whole section is not built yet. */
static void ignore(void *data, const char *text)
{
	(void)data;
	(void)text;
}

static bool is_built(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(later); i++)
		if (strcasecmp(later[i].name, name) == 0)
			return false;
	return true;
}

void cli_tell_unbuilt(const struct conf *conf)
{
	const struct conf_list *all = conf_entries(conf);
	const char *told = "";

	for (size_t i = 0; i < all->count; i++) {
		const struct conf_entry *entry = all->items[i];
		if (is_built(entry->section) || strcasecmp(told, entry->section) == 0)
			continue;
		told = entry->section;
		fprintf(stderr,
			"refrelay: %s:%u: [%s] is not built yet and has no "
			"effect\n",
			entry->file, entry->line, entry->section);
	}
}

static int check(const struct conf *conf, struct err *err)
{
	const struct conf_section *known[1 + ARRAY_SIZE(later)] = { &site };
	const struct conf_report report = { .warn = ignore };

	for (size_t i = 0; i < ARRAY_SIZE(later); i++)
		known[1 + i] = &later[i];
	if (conf_check(conf, known, ARRAY_SIZE(known), &report, err) != 0)
		return -1;
	return 0;
}

int cli_load_config(const struct cli *cli, struct conf **conf, struct err *err)
{
	if (conf_load(cli->config_path, conf, err) != 0) {
		if (err->class == ERR_MISSING) {
			err->class = ERR_CONFIG;
			err_remedy(err, "name the configuration with -c FILE, before "
					"the command, or in $REFRELAY_CONFIG");
		}
		return -1;
	}
	if (check(*conf, err) == 0)
		return 0;
	conf_free(TAKE(*conf));
	return -1;
}

static struct {
	pthread_t thread;
	bool is_running;
} signals;

/* SIGUSR1 is our own word for the end. */
static void fill_set(sigset_t *set)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };

	sigemptyset(set);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		sigaddset(set, numbers[i]);
}

static void *wait_for_signals(void *arg)
{
	struct stop *stop = arg;
	sigset_t set;
	int number = 0, times = 0;

	fill_set(&set);
	while (sigwait(&set, &number) != 0 || number != SIGUSR1) {
		if (++times > 1 && number == SIGINT)
			_exit(EXIT_INTERRUPTED);
		stop_request(stop);
	}
	return NULL;
}

void cli_catch_signals(struct stop *stop)
{
	sigset_t set;

	fill_set(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	thread_start(&signals.thread, "signals", wait_for_signals, stop);
	signals.is_running = true;
}

void cli_end_signals(void)
{
	if (!signals.is_running)
		return;
	pthread_kill(signals.thread, SIGUSR1);
	thread_join(signals.thread);
	signals.is_running = false;
}
