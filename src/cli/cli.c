#include "cli/cli.h"

#include <signal.h>
#include <stdarg.h>

#include "base/log.h"

struct serve_call {
	bool is_verbose;
};

static const struct cli_options serve_options = {
	.rows =
		(const struct cli_option[]){
			{ "verbose", 'v', NULL, "also log debug messages",
			  CLI_AT(FLAG, struct serve_call, is_verbose) },
			{ 0 },
		},
	.takes = "no arguments",
	.column = 17,
	.end = "SIGTERM and SIGINT stop the node; SIGHUP reloads the configuration.\n",
};

const struct command commands[] = {
	{ "replicate",
	  "[--blobs FROM=TO]... [--delete] [--force] [-j N] [--json] [--no-progress] "
	  "[--secret-file F [--site "
	  "NAME]] [--ca-file F] "
	  "[-v] SOURCE DEST",
	  "Copy the bare repositories below SOURCE to DEST once, and verify them.",
	  cli_replicate, &replicate_options },
	{ "checksum", "[--gitaly | --grokmirror] [--directory DEST] [--json] NAME",
	  "Print the checksum of a repository's refs and HEAD.", cli_checksum,
	  &checksum_options },
	{ "lease",
	  "list | show KEY | release KEY --fence N --reason TEXT | run KEY -- COMMAND",
	  "Show leases: holder, age, evidence that it lives; release one.", cli_lease,
	  &lease_options },
	{ "config", "list | get NAME",
	  "Print the configuration with defaults, secrets masked.", cli_config,
	  &config_options },
	{ "serve", "[-v]", "Run this site's node in the foreground.", cli_serve,
	  &serve_options },
	{ "check", "[--json]", "Check the configuration and everything it refers to.",
	  cli_check, &check_options },
	{ "status", "[--watch] [--json]",
	  "Report how far behind this site or its secondaries are, and why.", cli_status,
	  &status_options },
	{ "repository",
	  "list | show NAME | sync | resync | reverify | remove [NAME... | --all | "
	  "--state S | --failed] [--wait [--no-progress]] [--force] [--dry-run] [--json]",
	  "Show the state of repositories; copy or verify them again.", cli_repository,
	  &repository_options },
	{ "blob",
	  "list | show ID | sync | resync | reverify | remove [--type T] [ID... | --all "
	  "| "
	  "--state S | --failed] [--wait [--no-progress]] [--dry-run] [--json]",
	  "Show the state of blobs; copy or verify them again.", cli_blob,
	  &blob_options },
	{ "changed",
	  "[--ref REF OLD NEW]... [--stdin] [--json] NAME... | --blob TYPE [--json] "
	  "ID...",
	  "Tell the primary's node that repositories or blobs have changed.", cli_changed,
	  &changed_options },
	{ "hooks", "install | remove | list [--dry-run] [--json] [--all | NAME...]",
	  "Install, remove and list refrelay's hooks in repositories.", cli_hooks,
	  &hooks_options },
	{ "events", "[--after N] [--follow]",
	  "Print the event log, one JSON object per line.", cli_events, &events_options },
	{ "push",
	  "start | list | queue | retry | discard [--now] [--wait [--no-progress]] "
	  "[--remote NAME]... "
	  "[--url PART] [--all | PATTERN... | KEY...] [--json]",
	  "Push repositories to their destinations; show and repair the queue.", cli_push,
	  &push_options },
	{ "mirror",
	  "list | show NAME | sync [--as WATCHER] [--wait TIME] [--no-progress] "
	  "[--force] NAME | "
	  "remove NAME...",
	  "Show mirrors of upstreams; update or remove them.", cli_mirror,
	  &mirror_options },
	{ "alert", "list | test [NAME] [--json]",
	  "List problems and the messages sent about them; send a test message.",
	  cli_alert, &alert_options },
	{ "cache", "clear [--json] [NAME...]", "Clear the cache of refs.", cli_cache,
	  &cache_options },
	{ "state", "NAME [--json | -- COMMAND [ARGUMENT...]]",
	  "Show whether a repository is being written; run a command as an announced "
	  "write.",
	  cli_state, &state_options },
	{ "completion", "bash | fish | zsh",
	  "Print what a shell needs to complete command lines.", cli_completion,
	  &completion_options },
	{ "version", "[--json]", "Print the version; as JSON, also what is linked.",
	  cli_version, &version_options },
	{ "promote", "", "Make this site the primary.", NULL, NULL },
	{ "demote", "", "Make this site a secondary.", NULL, NULL },
	{ 0 },
};

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
static bool cli_read_duration(const char *word, int64_t *ms)
{
	size_t digits = strspn(word, "0123456789");
	AUTO_FREE char *number = xstrndup(word, digits);
	int64_t unit = duration_unit(word + digits);
	uint64_t value;

	if (unit == 0 || !text_to_uint64(number, &value) ||
	    value > (uint64_t)(365 * INT64_C(86400000) / unit))
		return false;
	*ms = (int64_t)value * unit;
	return true;
}

static int cli_get_exit_status(enum err_class class)
{
	switch (class) {
	case ERR_CONFIG:
		return EXIT_USAGE;
	case ERR_MISSING:
		return EXIT_NOT_FOUND;
	case ERR_BUSY:
	case ERR_LOCK_TIMEOUT:
	case ERR_LOCK_UNAVAILABLE:
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
		fprintf(stderr, "  hint: %s\n", err->remedy);
	return cli_get_exit_status(err->class);
}

static void cli_add_printable(struct str *out, const char *fmt, va_list args)
	PRINTF_LIKE(2, 0);

static void cli_add_printable(struct str *out, const char *fmt, va_list args)
{
	AUTO_FREE char *text = NULL;

	if (vasprintf(&text, fmt, args) < 0)
		abort();
	str_add_printable(out, text);
}

void cli_print(const char *fmt, ...)
{
	AUTO_STR struct str printable = STR_INIT;
	va_list args;

	va_start(args, fmt);
	cli_add_printable(&printable, fmt, args);
	va_end(args);
	puts(printable.data);
}

static bool is_quiet; /* set before threads start */

void cli_set_quiet(void)
{
	is_quiet = true;
	log_set_level(LOG_LEVEL_ERROR);
}

bool cli_is_quiet(void)
{
	return is_quiet;
}

void cli_note(const char *fmt, ...)
{
	AUTO_STR struct str printable = STR_INIT;
	va_list args;

	if (is_quiet)
		return;
	va_start(args, fmt);
	cli_add_printable(&printable, fmt, args);
	va_end(args);
	fprintf(stderr, "refrelay: %s\n", printable.data);
}

int cli_usage(const char *command, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "refrelay%s%s: ", command ? " " : "", command ? command : "");
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fprintf(stderr, "\n  hint: see refrelay %s%s--help\n", command ? command : "",
		command ? " " : "");
	return EXIT_USAGE;
}

static void cli_print_help_lines(const char *text, size_t column)
{
	for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1)
		printf("%.*s\n%*s", (int)(end - text), text, (int)column, "");
	puts(text);
}

/* A label that is too long has its line. */
static void cli_print_help_row(const struct cli_options *table, size_t indent,
			       const char *label, const char *help)
{
	size_t used = indent + strlen(label);

	printf("%*s%s", (int)indent, "", label);
	if (used >= table->column)
		printf("\n%*s", (int)table->column, "");
	else
		printf("%*s", (int)(table->column - used), "");
	cli_print_help_lines(help, table->column);
}

static void cli_print_option(const struct cli_options *table,
			     const struct cli_option *row, size_t indent)
{
	AUTO_STR struct str label = STR_INIT;

	if (row->letter)
		str_addf(&label, "-%c, ", row->letter);
	str_addf(&label, "%s%s", row->type == CLI_NOTE ? "" : "--", row->name);
	if (row->argument)
		str_addf(&label, " %s", row->argument);
	if (row->heading)
		fputs(row->heading, stdout);
	cli_print_help_row(table, indent, label.data, row->help);
}

/* Options that only one verb takes stand below it. */
static bool cli_is_below_verb(const struct cli_options *table,
			      const struct cli_option *row)
{
	for (const struct cli_verb *verb = table->verbs; row->verbs && verb && verb->name;
	     verb++)
		if (verb->help && strcmp(verb->name, row->verbs) == 0)
			return true;
	return false;
}

static void cli_print_verb(const struct cli_options *table, const struct cli_verb *verb)
{
	AUTO_STR struct str label = STR_INIT;

	str_addf(&label, "%s%s%s", verb->name, verb->operands ? " " : "",
		 verb->operands ? verb->operands : "");
	cli_print_help_row(table, 2, label.data, verb->help);
	for (const struct cli_option *row = table->rows; row->name; row++)
		if (row->help && row->verbs && strcmp(row->verbs, verb->name) == 0)
			cli_print_option(table, row, 4);
}

static void cli_help(const struct command *command)
{
	const struct cli_options *table = command->options;

	printf("usage: refrelay %s %s\n\n%s\n\n%s", command->name, command->synopsis,
	       command->summary, table->intro ? table->intro : "");
	for (const struct cli_verb *verb = table->verbs; verb && verb->name; verb++)
		if (verb->help)
			cli_print_verb(table, verb);
	for (const struct cli_option *row = table->rows; row->name; row++)
		if (row->help && !cli_is_below_verb(table, row))
			cli_print_option(table, row, 2);
	if (table->end)
		printf("\n%s", table->end);
}

/* A command line that is read. */
struct cli_line {
	const struct command *command;
	void *call;
	char **next;    /* the word to be read next; a NULL ends them */
	char **kept;    /* where the next operand goes */
	bool *is_given; /* for each row that is the first of its name */
};

/* Of all commands. */
static const struct cli_option help_option = { .name = "help", .letter = 'h' };
static const struct cli_option quiet_option = { .name = "quiet", .letter = 'q' };

static bool cli_is_named(const struct cli_option *row, const char *name, size_t len)
{
	return row->type != CLI_NOTE && strlen(row->name) == len &&
	       strncmp(row->name, name, len) == 0;
}

/* The first row of the name; NULL: there is none. */
static const struct cli_option *cli_find_option(const struct cli_options *table,
						const char *name, size_t len)
{
	for (const struct cli_option *row = table->rows; row->name; row++)
		if (cli_is_named(row, name, len))
			return row;
	if (cli_is_named(&quiet_option, name, len))
		return &quiet_option;
	return cli_is_named(&help_option, name, len) ? &help_option : NULL;
}

static const struct cli_option *cli_find_letter(const struct cli_options *table,
						char letter)
{
	for (const struct cli_option *row = table->rows; row->name; row++)
		if (row->letter == letter)
			return row;
	if (letter == quiet_option.letter)
		return &quiet_option;
	return letter == help_option.letter ? &help_option : NULL;
}

static int cli_take_choice(const struct cli_line *line, const struct cli_option *row,
			   const char *word, const char **field)
{
	*field = row->words[0];
	for (const char *const *one = row->words; word && *one; one++)
		if (strcmp(*one, word) == 0) {
			*field = *one;
			return -1;
		}
	return word ? cli_usage(line->command->name, "\"%s\" is not a valid %s", word,
				row->name)
		    : -1;
}

static int cli_take_number(const struct cli_line *line, const struct cli_option *row,
			   const char *word, uint64_t *field)
{
	uint64_t most = row->max ? row->max : INT64_MAX;

	if (text_to_uint64(word, field) && *field >= row->min && *field <= most)
		return -1;
	if (!row->max)
		return cli_usage(line->command->name, "--%s takes a number", row->name);
	return cli_usage(line->command->name,
			 "--%s takes a number from %" PRIu64 " to %" PRIu64
			 ", not \"%s\"",
			 row->name, row->min, row->max, word);
}

static int cli_take_duration(const struct cli_line *line, const struct cli_option *row,
			     const char *word, int64_t *field)
{
	if (cli_read_duration(word, field) && *field >= (int64_t)row->min)
		return -1;
	return cli_usage(line->command->name, "--%s takes a duration such as 90s or 10m",
			 row->name);
}

static int cli_take_words(struct cli_line *line, const struct cli_option *row,
			  const char *word, cli_words *field)
{
	vec_add(field, word);
	for (size_t i = 1; i < row->each; i++) {
		if (!*line->next)
			return cli_usage(line->command->name, "--%s takes %s", row->name,
					 row->argument);
		vec_add(field, *line->next++);
	}
	vec_add(field, NULL);
	field->count--;
	return -1;
}

static int cli_take_value(struct cli_line *line, const struct cli_option *row,
			  const char *word)
{
	void *field = (char *)line->call + row->offset;

	switch (row->type) {
	case CLI_FLAG:
		*(bool *)field = true;
		break;
	case CLI_TEXT:
		*(const char **)field = word;
		break;
	case CLI_CHOICE:
		return cli_take_choice(line, row, word, field);
	case CLI_NUMBER:
		return cli_take_number(line, row, word, field);
	case CLI_DURATION:
		return cli_take_duration(line, row, word, field);
	case CLI_LIST:
		return cli_take_words(line, row, word, field);
	case CLI_NOTE:
		break;
	}
	return -1;
}

/* value: what stands in the same word; NULL: nothing. */
static int cli_take_option(struct cli_line *line, const struct cli_option *row,
			   const char *word, const char *value)
{
	if (row && row->argument && !value && *line->next)
		value = *line->next++;
	if (!row)
		return cli_usage(line->command->name, "unknown option %s", word);
	if (row->argument && !value)
		return cli_usage(line->command->name, "%s takes %s", word, row->argument);
	if (!row->argument && value)
		return cli_usage(line->command->name, "%s takes no value", word);
	if (row == &help_option) {
		cli_help(line->command);
		return EXIT_DONE;
	}
	if (row == &quiet_option) {
		cli_set_quiet();
		return -1;
	}
	line->is_given[row - line->command->options->rows] = true;
	return cli_take_value(line, row, value);
}

static int cli_take_long(struct cli_line *line, const char *word)
{
	const char *name = word + 2;
	size_t len = strcspn(name, "=");

	return cli_take_option(line, cli_find_option(line->command->options, name, len),
			       word, name[len] ? name + len + 1 : NULL);
}

/* "-v", "-j4", "-vj 4". */
static int cli_take_letters(struct cli_line *line, const char *word)
{
	int status = -1;

	for (const char *at = word + 1; *at && status < 0; at++) {
		const struct cli_option *row =
			cli_find_letter(line->command->options, *at);
		if (row && row->argument)
			return cli_take_option(line, row, word, at[1] ? at + 1 : NULL);
		status = cli_take_option(line, row, word, NULL);
	}
	return status;
}

/* What is behind "--". */
static void cli_take_rest(struct cli_line *line, struct cli_operands *operands)
{
	if (line->command->options->has_command)
		operands->command = line->next;
	for (; *line->next; line->next++)
		if (!operands->command)
			*line->kept++ = *line->next;
}

static int cli_take_all(struct cli_line *line, struct cli_operands *operands)
{
	int status = -1;

	while (status < 0 && *line->next) {
		char *word = *line->next++;
		if (strcmp(word, "--") == 0)
			cli_take_rest(line, operands);
		else if (text_starts_with(word, "--"))
			status = cli_take_long(line, word);
		else if (word[0] == '-' && word[1])
			status = cli_take_letters(line, word);
		else
			*line->kept++ = word;
	}
	operands->count = (size_t)(line->kept - operands->items);
	*line->kept = NULL;
	return status;
}

static int cli_find_verb(const struct command *command, struct cli_operands *operands)
{
	const struct cli_options *table = command->options;

	if (operands->count == 0)
		return cli_usage(command->name, "expected %s", table->takes);
	for (size_t i = 0; table->verbs[i].name; i++) {
		if (strcmp(table->verbs[i].name, operands->items[0]) != 0)
			continue;
		operands->verb = table->verbs[i].name;
		operands->verb_at = i;
		operands->items++;
		operands->count--;
		return -1;
	}
	return cli_usage(command->name, "unknown subcommand \"%s\"; expected %s",
			 operands->items[0], table->takes);
}

static bool cli_has_word(const char *words, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = words; *at; at += strcspn(at, " ")) {
		at += strspn(at, " ");
		if (strcspn(at, " ") == len && strncmp(at, word, len) == 0)
			return true;
	}
	return false;
}

/* NULL: the verb does not take it. */
static const struct cli_option *cli_row_for_verb(const struct cli_option *first,
						 const char *verb)
{
	for (const struct cli_option *row = first; row->name; row++)
		if (strcmp(row->name, first->name) == 0 &&
		    (!row->verbs || cli_has_word(row->verbs, verb)))
			return row;
	return NULL;
}

static bool cli_is_given(const struct cli_line *line, const char *name)
{
	const struct cli_options *table = line->command->options;

	return name &&
	       line->is_given[cli_find_option(table, name, strlen(name)) - table->rows];
}

/* Whether the verb takes it, and what goes with it. Options may stand before the verb. */
static int cli_check_option(const struct cli_line *line, const struct cli_option *first,
			    const char *verb)
{
	const char *command = line->command->name;
	const struct cli_option *row = cli_row_for_verb(first, verb);

	if (!row)
		return cli_usage(command, "%s does not take --%s", verb, first->name);
	if (row->needs && !cli_is_given(line, row->needs))
		return cli_usage(command, "--%s needs --%s", row->name, row->needs);
	if (cli_is_given(line, row->excludes))
		return cli_usage(command, "--%s and --%s cannot be combined", row->name,
				 row->excludes);
	return -1;
}

static int cli_check_count(const struct command *command,
			   const struct cli_operands *operands)
{
	const struct cli_options *table = command->options;
	const struct cli_verb *verb =
		table->verbs ? &table->verbs[operands->verb_at] : NULL;

	if (operands->count >= (verb ? verb->least : table->least) &&
	    operands->count <= (verb ? verb->most : table->most))
		return -1;
	if (verb && verb->takes)
		return cli_usage(command->name, "%s takes %s", verb->name, verb->takes);
	return cli_usage(command->name, "expected %s", table->takes);
}

static int cli_check_line(const struct cli_line *line, struct cli_operands *operands)
{
	const struct cli_options *table = line->command->options;
	int status = table->verbs ? cli_find_verb(line->command, operands) : -1;

	for (size_t i = 0; table->rows[i].name && status < 0; i++)
		if (line->is_given[i])
			status = cli_check_option(line, &table->rows[i], operands->verb);
	return status < 0 ? cli_check_count(line->command, operands) : status;
}

int cli_read_options(const struct command *command, char **argv, void *call,
		     struct cli_operands *operands)
{
	struct cli_line line = {
		.command = command, .call = call, .next = argv, .kept = argv
	};
	AUTO_FREE bool *is_given = NULL;
	size_t count = 0;
	int status;

	while (command->options->rows[count].name)
		count++;
	line.is_given = is_given = xcalloc(count + 1, sizeof(*is_given));
	*operands = (struct cli_operands){ .items = argv };
	status = cli_take_all(&line, operands);
	return status < 0 ? cli_check_line(&line, operands) : status;
}

int cli_serve(struct cli *cli, char **argv)
{
	struct serve_call call = { 0 };
	struct cli_operands operands;
	int status = cli_read_options(cli->command, argv, &call, &operands);

	cli->is_verbose |= call.is_verbose;
	return status >= 0 ? status : cli->node->serve(cli);
}

int cli_read_config(const struct cli *cli, struct conf **conf, struct err *err)
{
	if (conf_load(cli->config_path, conf, err) != 0) {
		if (err->class == ERR_MISSING) {
			err->class = ERR_CONFIG;
			err_remedy(err, "pass -c FILE before the command, or set "
					"$REFRELAY_CONFIG");
		}
		return -1;
	}
	if (settings_check(cli->settings, *conf, err) == 0)
		return 0;
	conf_free(TAKE(*conf));
	return -1;
}

int cli_load_config(const struct cli *cli, struct conf **conf, struct err *err)
{
	if (cli_read_config(cli, conf, err) != 0)
		return -1;
	if (settings_check_built(cli->settings, *conf, err) == 0)
		return 0;
	conf_free(TAKE(*conf));
	return -1;
}

static pthread_t signals_thread;

/* SIGUSR1 is our own word for the end. A hangup that nohup(1) has us ignore would be
 * taken all the same: waiting for a signal sees one that is ignored, too. */
static void fill_set(sigset_t *set)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGUSR1 };
	struct sigaction hangup;

	sigemptyset(set);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		sigaddset(set, numbers[i]);
	if (sigaction(SIGHUP, NULL, &hangup) != 0 || hangup.sa_handler != SIG_IGN)
		sigaddset(set, SIGHUP);
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

	stop_init(stop);
	fill_set(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	thread_start(&signals_thread, "signals", wait_for_signals, stop);
}

void cli_end_signals(struct stop *stop)
{
	pthread_kill(signals_thread, SIGUSR1);
	thread_join(signals_thread);
	stop_clear(stop);
}
