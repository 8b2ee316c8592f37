#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/cli.h"
#include "node/node.h"
#include "node/settings.h"

#define DEFAULT_CONFIG "/etc/refrelay/refrelay.conf"

static void print_help(void)
{
	puts("usage: refrelay [-q | -v] [-c FILE] COMMAND ...\n");
	for (const struct command *command = commands; command->name; command++)
		if (command->run)
			printf("  %-11s %s\n", command->name, command->summary);
	printf("  %-11s %s\n", "help", "Print this summary, or the help of COMMAND.");
	puts("\nSee refrelay help COMMAND for the options of a command.");
}

static int print_version(void)
{
	puts("refrelay " REFRELAY_VERSION);
	return EXIT_DONE;
}

static int main_run_command(struct cli *cli, char **argv);

static int main_run_help(struct cli *cli, char **operands)
{
	char option[] = "--help";

	if (operands[0] && operands[1])
		return cli_usage(NULL, "help takes one command");
	if (operands[0] && strcmp(operands[0], "help") != 0)
		return main_run_command(cli, (char *[]){ operands[0], option, NULL });
	print_help();
	return EXIT_DONE;
}

static int main_run_command(struct cli *cli, char **argv)
{
	if (strcmp(argv[0], "help") == 0)
		return main_run_help(cli, argv + 1);
	for (const struct command *command = commands; command->name; command++) {
		if (strcmp(command->name, argv[0]) != 0)
			continue;
		cli->command = command;
		if (command->run)
			return command->run(cli, argv + 1);
		fprintf(stderr, "refrelay: %s is not implemented yet\n", argv[0]);
		return EXIT_USAGE;
	}
	const char *nearest = cli_nearest_command(argv[0]);
	if (nearest)
		return cli_usage(NULL, "unknown command \"%s\"; did you mean \"%s\"?",
				 argv[0], nearest);
	return cli_usage(NULL, "unknown command \"%s\"", argv[0]);
}

/* -1: argv[*next] is the command. */
static int read_global_options(struct cli *cli, int argc, char **argv, int *next)
{
	int at = 1;

	for (; at < argc && argv[at][0] == '-'; at++) {
		if (strcmp(argv[at], "-c") == 0 && at + 1 < argc) {
			cli->config_path = argv[++at];
		} else if (strcmp(argv[at], "-c") == 0) {
			return cli_usage(NULL, "-c takes a file");
		} else if (strcmp(argv[at], "-v") == 0) {
			cli->is_verbose = true;
		} else if (strcmp(argv[at], "-q") == 0 ||
			   strcmp(argv[at], "--quiet") == 0) {
			cli_set_quiet();
		} else if (strcmp(argv[at], "--help") == 0 ||
			   strcmp(argv[at], "-h") == 0) {
			print_help();
			return EXIT_DONE;
		} else if (strcmp(argv[at], "--version") == 0 ||
			   strcmp(argv[at], "-V") == 0) {
			return print_version();
		} else {
			return cli_usage(NULL, "unknown option %s", argv[at]);
		}
	}
	*next = at;
	return at < argc ? -1 : cli_usage(NULL, "no command given");
}

static int main_run_arguments(int argc, char **argv)
{
	const char *named = getenv("REFRELAY_CONFIG");
	struct cli cli = { .node = &node_for_cli,
			   .config_path = named ? named : DEFAULT_CONFIG,
			   .settings = node_settings_tables };
	int next = argc, status;

	status = read_global_options(&cli, argc, argv, &next);
	/* A command says itself what it did; serve and replicate choose for themselves.
	 */
	log_set_level(cli.is_verbose   ? LOG_LEVEL_DEBUG
		      : cli_is_quiet() ? LOG_LEVEL_ERROR
				       : LOG_LEVEL_WARN);
	return status >= 0 ? status : main_run_command(&cli, argv + next);
}

/* Whoever read it has had enough, as head(1): then programs end by the signal, which
 * ours ignore for the sake of sockets and children. */
static void end_if_nobody_reads(void)
{
	struct pollfd output = { .fd = STDOUT_FILENO, .events = POLLOUT };

	if (poll(&output, 1, 0) != 1 || !(output.revents & (POLLERR | POLLHUP)))
		return;
	signal(SIGPIPE, SIG_DFL);
	raise(SIGPIPE);
}

static int end_output(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	int cause = errno;
	end_if_nobody_reads();
	fprintf(stderr, "refrelay: cannot write the output: %s\n", strerror(cause));
	return EXIT_FAILED;
}

/* What is closed would be the number of the next file: nothing may be taken for output
 * there. What is written is an error where somebody must hear of it. */
static void open_standard_files(void)
{
	static const int flags[] = { O_RDONLY, O_RDONLY, O_WRONLY };

	for (int fd = 0; fd < (int)ARRAY_SIZE(flags); fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", flags[fd]) != fd)
			_exit(EXIT_FAILED);
}

int main(int argc, char **argv)
{
	open_standard_files();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* write() says EFBIG */
	return end_output(main_run_arguments(argc, argv));
}
