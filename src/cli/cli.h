/*
 * The commands. A file a command; src/main.c finds it in the table below and calls it
 * with its own arguments.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/base.h"
#include "base/setting.h"
#include "base/thread.h"

enum exit_status {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2, /* or a configuration error */
	EXIT_PARTLY = 3,
	EXIT_NOT_FOUND = 4,
	EXIT_NOT_OBTAINED = 5, /* a lease or lock */
	EXIT_INTERRUPTED = 130,
};

struct cli;

/* What commands need of the node, which stands above them: main() hands it in. */
struct checking;
struct cli_node {
	int (*serve)(struct cli *cli, int argc, char **argv);
	/* Whether serve would take the configuration, secrets and tokens included. */
	int (*check_settings)(const struct conf *conf, struct err *err);
	/* What `check` says of certificate and proxies. */
	void (*check_transport)(struct checking *checking);
};

struct cli {
	const struct cli_node *node;
	const char *config_path; /* -c, $REFRELAY_CONFIG or the default */
	bool is_verbose;         /* -v before the command */
	const struct setting_table *const *settings; /* all that there are */
};

struct command {
	const char *name;
	const char *synopsis; /* behind the name */
	const char *summary;
	int (*run)(struct cli *cli, int argc, char **argv); /* NULL: not built yet */
};

/* Ends with a name of NULL. */
extern const struct command commands[];

int cli_replicate(struct cli *cli, int argc, char **argv);
int cli_lease(struct cli *cli, int argc, char **argv);
int cli_checksum(struct cli *cli, int argc, char **argv);
int cli_config(struct cli *cli, int argc, char **argv);
int cli_serve(struct cli *cli, int argc, char **argv);
int cli_status(struct cli *cli, int argc, char **argv);
int cli_repository(struct cli *cli, int argc, char **argv);
int cli_blob(struct cli *cli, int argc, char **argv);
int cli_check(struct cli *cli, int argc, char **argv);
int cli_changed(struct cli *cli, int argc, char **argv);
int cli_hooks(struct cli *cli, int argc, char **argv);
int cli_events(struct cli *cli, int argc, char **argv);
int cli_push(struct cli *cli, int argc, char **argv);
int cli_cache(struct cli *cli, int argc, char **argv);
int cli_state(struct cli *cli, int argc, char **argv);

/* Prints the error and its remedy on stderr, and returns the exit status that fits. */
int cli_fail(const struct err *err);

/* Prints "refrelay COMMAND: <text>" and how to get help; returns EXIT_USAGE. */
PRINTF_LIKE(2, 3) int cli_usage(const char *command, const char *fmt, ...);

/* The command whose name is nearest to the word; NULL: none is near. */
const char *cli_nearest_command(const char *word);

struct option;

/* getopt_long without abbreviations: "--del" must not mean "--delete". */
int cli_getopt(int argc, char **argv, const char *short_options,
	       const struct option *long_options);

/* Prints a command's synopsis and summary with its options on stdout. */
void cli_help(const char *command, const char *options);

/* Reads the configuration and checks it for keys that nobody knows. */
int cli_load_config(const struct cli *cli, struct conf **conf, struct err *err);

/* From now on SIGINT, SIGTERM and SIGHUP request this stop; a second SIGINT ends the
 * program at once. Before any other thread is started. */
void cli_catch_signals(struct stop *stop);

/* Ends that again, before the stop is cleared. */
void cli_end_signals(void);

#endif
