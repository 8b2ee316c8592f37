/*
 * The commands. One file a command; src/main.c finds it in the table below.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/base.h"
#include "base/setting.h"
#include "base/thread.h"
#include "base/vec.h"

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

/* The node's functions for commands, which are a floor below: main() passes them in. */
struct checking;
struct cli_node {
	int (*serve)(struct cli *cli);
	/* Whether serve would accept the configuration, secrets and tokens included. */
	int (*check_settings)(const struct conf *conf, struct err *err);
	/* The part of `check` about certificate and proxies. */
	void (*check_transport)(struct checking *checking);
};

/*
 * The options of a command are a table: a row each, beside the struct that they are read
 * into. The rows control reading the command line and printing `--help`; a test compares
 * the manual pages with them.
 */

enum cli_option_type {
	CLI_FLAG,     /* bool: true */
	CLI_TEXT,     /* const char * */
	CLI_CHOICE,   /* const char *, one of `words`; without an argument the first */
	CLI_NUMBER,   /* uint64_t or size_t, min to max */
	CLI_DURATION, /* int64_t, milliseconds, min to a year: "90", "90s", "2m" */
	CLI_LIST,     /* cli_words: may occur several times */
	CLI_NOTE,     /* not an option, but a line of the help, e.g. "-- COMMAND" */
};

/* Point into argv; end in a NULL that is not counted. The owner clears. */
typedef VEC(const char *) cli_words;

struct cli_option {
	const char *name;     /* without its dashes; NULL ends the rows */
	char letter;          /* 0: none */
	const char *argument; /* its name in the help; NULL: no argument */
	const char *help;     /* lines; NULL: not in the help */
	enum cli_option_type type;
	size_t offset;                /* of the field */
	uint64_t min, max;            /* max 0: none */
	size_t each;                  /* CLI_LIST: how many words it takes; 0: one */
	const char *const *words;     /* end in NULL */
	const char *verbs;            /* that accept it, separated by spaces; NULL: all */
	const char *needs, *excludes; /* names of other options */
	const char *heading;          /* lines of the help before it */
};

typedef bool cli_FLAG_field;
typedef const char *cli_TEXT_field, *cli_CHOICE_field;
typedef uint64_t cli_NUMBER_field;
typedef int64_t cli_DURATION_field;
typedef cli_words cli_LIST_field;

/* CLI_AT(NUMBER, struct x, member): type and offset; does not compile for a field of
 * another type. */
#define CLI_AT(kind, structure, member)                                                  \
	.type = CLI_##kind,                                                              \
	.offset = offsetof(structure, member) +                                          \
		  0 * sizeof(char[__builtin_types_compatible_p(                          \
					  __typeof__(((structure *)0)->member),          \
					  cli_##kind##_field)                            \
					  ? 1                                            \
					  : -1])

/* A row of most commands. */
#define CLI_JSON(structure)                                                              \
	{                                                                                \
		"json", 0, NULL, "print one JSON object",                                \
			CLI_AT(FLAG, structure, is_json)                                 \
	}

enum { CLI_ANY_NUMBER = 1 << 30 };

/* The first operand of commands with verbs. An option of single verbs may have several
 * rows with its name, one a verb. */
struct cli_verb {
	const char *name;     /* NULL ends them */
	size_t least, most;   /* operands after it */
	const char *takes;    /* says which; NULL: as in the table */
	const char *operands; /* in the help, after the name */
	const char *help;     /* NULL: not in the help */
};

struct cli_options {
	const struct cli_option *rows;
	const struct cli_verb *verbs; /* NULL: none */
	size_t least, most;           /* operands, without verbs */
	const char *takes;            /* verbs or operands: "it takes ..." */
	bool has_command;             /* words after "--" are one, not operands */
	size_t column;                /* of the texts in the help */
	const char *intro, *end;      /* lines before and after; NULL: none */
};

struct cli_operands {
	const char *verb; /* from the table */
	size_t verb_at;   /* in the table */
	char **items;     /* in argv, with a NULL that is not counted */
	size_t count;
	char **command; /* NULL: without "--" */
};

struct command {
	const char *name;
	const char *synopsis; /* after the name */
	const char *summary;
	/* argv: the words after the name. NULL: not built yet */
	int (*run)(struct cli *cli, char **argv);
	const struct cli_options *options;
};

struct cli {
	const struct cli_node *node;
	const char *config_path; /* -c, $REFRELAY_CONFIG or the default */
	bool is_verbose;         /* -v before the command */
	const struct setting_table *const *settings; /* all existing ones */
	const struct command *command;               /* the running one */
};

/* Ends with a name of NULL. */
extern const struct command commands[];

/* One for each file of a command. */
extern const struct cli_options replicate_options, lease_options, checksum_options,
	config_options, status_options, repository_options, blob_options, check_options,
	changed_options, hooks_options, events_options, push_options, cache_options,
	state_options, mirror_options, alert_options, completion_options, version_options;

int cli_replicate(struct cli *cli, char **argv);
int cli_lease(struct cli *cli, char **argv);
int cli_checksum(struct cli *cli, char **argv);
int cli_config(struct cli *cli, char **argv);
int cli_serve(struct cli *cli, char **argv);
int cli_status(struct cli *cli, char **argv);
int cli_repository(struct cli *cli, char **argv);
int cli_blob(struct cli *cli, char **argv);
int cli_check(struct cli *cli, char **argv);
int cli_changed(struct cli *cli, char **argv);
int cli_hooks(struct cli *cli, char **argv);
int cli_events(struct cli *cli, char **argv);
int cli_push(struct cli *cli, char **argv);
int cli_cache(struct cli *cli, char **argv);
int cli_state(struct cli *cli, char **argv);
int cli_mirror(struct cli *cli, char **argv);
int cli_alert(struct cli *cli, char **argv);
int cli_completion(struct cli *cli, char **argv);
int cli_version(struct cli *cli, char **argv);

/* Prints the error and its remedy on stderr, and returns the matching exit status. */
int cli_fail(const struct err *err);

/* Print a line: made harmless for a terminal; "refrelay: <text>" on stderr, for notes,
 * not errors: not with --quiet. */
PRINTF_LIKE(1, 2) void cli_print(const char *fmt, ...);
PRINTF_LIKE(1, 2) void cli_note(const char *fmt, ...);
void cli_set_quiet(void);
bool cli_is_quiet(void);

/* Prints "refrelay COMMAND: <text>" and how to get help; returns EXIT_USAGE. */
PRINTF_LIKE(2, 3) int cli_usage(const char *command, const char *fmt, ...);

/* The command whose name is nearest to the word; NULL: none near enough. */
const char *cli_nearest_command(const char *word);

/* Reads the command's options into *call, by its table, and its operands; --help prints,
 * and --quiet leaves out notes. Options may be anywhere before "--"; abbreviations are
 * not accepted. argv ends in NULL, and is reordered. -1: go on; else the exit status. */
int cli_read_options(const struct command *command, char **argv, void *call,
		     struct cli_operands *operands);

/* Unknown keys, and for the latter what is not built yet as well, are ERR_CONFIG. */
int cli_read_config(const struct cli *cli, struct conf **conf, struct err *err);
int cli_load_config(const struct cli *cli, struct conf **conf, struct err *err);

/* Makes the stop, which SIGINT, SIGTERM and SIGHUP request from now on; a second SIGINT
 * ends the program at once. Call it before starting other threads. */
void cli_catch_signals(struct stop *stop);

void cli_end_signals(struct stop *stop); /* and clears it */

#endif
