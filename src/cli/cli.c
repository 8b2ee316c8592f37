#include "cli/cli.h"

#include <getopt.h>
#include <signal.h>
#include <stdarg.h>

#include "base/log.h"

const struct command commands[] = {
	{ "replicate",
	  "[--blobs FROM=TO]... [--delete] [--force] [-j N] [--json] [--no-progress] "
	  "[--secret-file F [--site "
	  "NAME]] "
	  "[-v] SOURCE DEST",
	  "Makes the bare repositories below DEST equal to those below SOURCE, and "
	  "proves "
	  "it.",
	  cli_replicate },
	{ "checksum", "[--gitaly | --grokmirror] [--directory DEST] [--json] NAME",
	  "Prints a repository's checksum: of all refs and HEAD.", cli_checksum },
	{ "lease", "list | show KEY | release KEY --fence N --reason TEXT",
	  "Shows who holds which lease since when, on which proof; takes one away.",
	  cli_lease },
	{ "config", "list | get NAME",
	  "Prints what the configuration says, without defaults, secrets masked.",
	  cli_config },
	{ "serve", "[-v]", "Runs this site's node in the foreground.", cli_serve },
	{ "check", "[--json]", "Tries what the configuration names, and says what to do.",
	  cli_check },
	{ "status", "[--watch] [--json]",
	  "Says in one sentence who is how far behind and why, then in numbers.",
	  cli_status },
	{ "repository",
	  "list | show NAME | sync | resync | reverify | remove [NAME... | --all | "
	  "--state S | --failed] [--wait] [--force] [--dry-run] [--json]",
	  "Shows in what state the copies are; has them copied or verified again.",
	  cli_repository },
	{ "blob",
	  "list | show ID | sync | resync | reverify | remove [--type T] [ID... | --all "
	  "| "
	  "--state S | --failed] [--wait] [--dry-run] [--json]",
	  "Shows in what state the copies of blobs are; has them copied or verified "
	  "again.",
	  cli_blob },
	{ "changed",
	  "[--ref REF OLD NEW]... [--stdin] [--json] NAME... | --blob TYPE [--json] "
	  "ID...",
	  "Has repositories of the primary compared with what is recorded of them.",
	  cli_changed },
	{ "hooks", "install | remove | list [--dry-run] [--json] [--all | NAME...]",
	  "Puts the hooks that tell of changes into repositories.", cli_hooks },
	{ "events", "[--after N] [--follow]",
	  "Prints what changed at the primary, a JSON line each.", cli_events },
	{ "push",
	  "start | list | queue | retry | discard [--now] [--wait] [--remote NAME]... "
	  "[--url PART] [--all | PATTERN... | KEY...] [--json]",
	  "Pushes repositories to their destinations; shows and mends the cluster's "
	  "queue.",
	  cli_push },
	{ "mirror", "list | show | sync | remove", "Foreign upstreams.", NULL },
	{ "cache", "clear [--json] [NAME...]",
	  "Clears the cache of refs from which readers are answered.", cli_cache },
	{ "state", "NAME [--json | -- COMMAND [ARGUMENT...]]",
	  "Shows who writes a repository; runs a command that changes it, as a known "
	  "write.",
	  cli_state },
	{ "promote", "", "Makes this site the primary.", NULL },
	{ "demote", "", "Makes this site a secondary.", NULL },
	{ NULL, NULL, NULL, NULL },
};

int cli_serve(struct cli *cli, int argc, char **argv)
{
	return cli->node->serve(cli, argc, argv);
}

#define CHANGES_MOST 2 /* of a mistyped word */

const char *cli_nearest_command(const char *word)
{
	const char *nearest = NULL;
	size_t fewest = CHANGES_MOST + 1;

	for (const struct command *command = commands; command->name; command++) {
		size_t changes = text_distance(word, command->name);
		if (command->run && changes < fewest &&
		    changes < strlen(command->name) - 1) {
			fewest = changes;
			nearest = command->name;
		}
	}
	return nearest;
}

static const struct command *cli_find_command(const char *name)
{
	for (const struct command *command = commands; command->name; command++)
		if (strcmp(command->name, name) == 0)
			return command;
	return NULL;
}

static int cli_get_exit_status(enum err_class class)
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
	return cli_get_exit_status(err->class);
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
	const struct command *found = cli_find_command(command);

	printf("usage: refrelay %s %s\n\n%s\n%s%s", found->name, found->synopsis,
	       found->summary, options[0] ? "\n" : "", options);
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
	if (settings_check(cli->settings, *conf, err) == 0)
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
