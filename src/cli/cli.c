#include "cli/cli.h"

#include <getopt.h>
#include <signal.h>
#include <stdarg.h>

#include "base/log.h"

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
