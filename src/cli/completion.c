/*
 * Completions of command lines, for three shells, by the one table of commands: what is
 * added there is completed after the next build. Each script stands alone; it never runs
 * refrelay, so completing needs neither a configuration nor rights.
 */
#include "base/str.h"
#include "cli/cli.h"

static const struct cli_option rows[] = { { 0 } };

static const struct cli_verb verbs[] = {
	{ .name = "bash",
	  .help = "for a file in /usr/share/bash-completion/completions" },
	{ .name = "fish", .help = "for a file in /usr/share/fish/vendor_completions.d" },
	{ .name = "zsh", .help = "for a file in /usr/share/zsh/vendor-completions" },
	{ 0 },
};

const struct cli_options completion_options = {
	.rows = rows,
	.verbs = verbs,
	.takes = "bash, fish or zsh",
	.column = 8,
	.end = "The Debian package installs all three. To try one:\n"
	       "  . <(refrelay completion bash)\n",
};

static const struct cli_option help_row = { .name = "help",
					    .letter = 'h',
					    .help = "print the options and exit" };

/* Those that stand before the command. The letters have no long name, or the other way
 * round. */
static const struct global {
	const char *words, *help;
	bool takes_file;
} globals[] = {
	{ "-c", "read this configuration", true },
	{ "-v", "log what is of interest to developers, too", false },
	{ "-h --help", "print the commands and exit", false },
	{ "-V --version", "print the version and exit", false },
};

static bool is_option(const struct cli_option *row)
{
	return row->type != CLI_NOTE && row->help;
}

/* NULL takes all. */
static bool takes_option(const struct cli_option *row, const char *verb)
{
	size_t len = verb ? strlen(verb) : 0;

	for (const char *at = row->verbs; verb && at; at = strchr(at, ' ')) {
		at += *at == ' ';
		if (strncmp(at, verb, len) == 0 && (at[len] == ' ' || at[len] == '\0'))
			return true;
	}
	return !verb || !row->verbs;
}

/* Whether it has a row of its name before. */
static bool is_repeated(const struct cli_options *table, const struct cli_option *row,
			const char *verb)
{
	for (const struct cli_option *one = table->rows; one != row; one++)
		if (is_option(one) && takes_option(one, verb) &&
		    strcmp(one->name, row->name) == 0)
			return true;
	return false;
}

static bool completes(const struct cli_options *table, const struct cli_option *row,
		      const char *verb)
{
	return is_option(row) && takes_option(row, verb) &&
	       !is_repeated(table, row, verb);
}

static void print_names(const struct cli_option *row)
{
	printf(" --%s", row->name);
	if (row->letter)
		printf(" -%c", row->letter);
}

static void print_words(const struct cli_option *row)
{
	for (const char *const *word = row->words; word && *word; word++)
		printf("%s%s", word == row->words ? "" : " ", *word);
}

/* The first line, for a text in single quotes; these characters get a backslash. */
static struct str first_line(const char *help, const char *escaped)
{
	struct str text = STR_INIT;

	for (; *help && *help != '\n'; help++) {
		bool is_escaped = strchr(escaped, *help) != NULL;
		if (*help == '\'' && !is_escaped) {
			str_add(&text, "'\\''");
			continue;
		}
		if (is_escaped)
			str_add_char(&text, '\\');
		str_add_char(&text, *help);
	}
	return text;
}

/*
 * bash
 */

static void bash_print_options(const struct cli_options *table, const char *verb)
{
	for (const struct cli_option *row = table->rows; row->name; row++)
		if (completes(table, row, verb))
			print_names(row);
	print_names(&help_row);
}

static void bash_print_command(const struct command *command)
{
	const struct cli_options *table = command->options;

	for (const struct cli_verb *verb = table->verbs; verb && verb->name; verb++) {
		printf("\t'%s %s') echo '", command->name, verb->name);
		bash_print_options(table, verb->name);
		puts("' ;;");
	}
	printf("\t'%s '*) echo '", command->name);
	for (const struct cli_verb *verb = table->verbs; verb && verb->name; verb++)
		printf(" %s", verb->name);
	bash_print_options(table, NULL);
	puts("' ;;");
}

static void bash_print_names(void)
{
	for (const struct command *command = commands; command->name; command++)
		if (command->run)
			printf(" %s", command->name);
}

static void bash_print_arguments(const struct command *command)
{
	const struct cli_options *table = command->options;

	for (const struct cli_option *row = table->rows; row->name; row++) {
		if (!completes(table, row, NULL) || !row->argument)
			continue;
		printf("\t'%s --%s'", command->name, row->name);
		if (row->letter)
			printf(" | '%s -%c'", command->name, row->letter);
		printf(") echo '");
		print_words(row);
		puts("' ;;");
	}
}

static const char bash_beginning[] =
	"# Completions of refrelay for bash, made by `refrelay completion bash`.\n"
	"\n"
	"# What may stand behind \"COMMAND VERB\".\n"
	"_refrelay_words() {\n"
	"\tcase $1 in\n";

static const char bash_middle[] =
	"\tesac\n"
	"}\n"
	"\n"
	"# What the argument of \"COMMAND OPTION\" may be; nothing: "
	"a file. Fails if it has none.\n"
	"_refrelay_arguments() {\n"
	"\tcase $1 in\n"
	"\t' -c') ;;\n";

static const char bash_end[] =
	"\t*) return 1 ;;\n"
	"\tesac\n"
	"}\n"
	"\n"
	"_refrelay() {\n"
	"\tlocal word command= verb= option= words i\n"
	"\n"
	"\tCOMPREPLY=()\n"
	"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	"\t\tword=${COMP_WORDS[i]}\n"
	"\t\tcase $word in\n"
	"\t\t=) continue ;;\n"
	"\t\t--) return ;;\n"
	"\t\tesac\n"
	"\t\tif [ -n \"$option\" ]; then\n"
	"\t\t\toption=\n"
	"\t\telif [[ $word == -* ]]; then\n"
	"\t\t\t_refrelay_arguments \"$command $word\" >/dev/null && option=$word\n"
	"\t\telif [ -z \"$command\" ]; then\n"
	"\t\t\tcommand=$word\n"
	"\t\telif [ -z \"$verb\" ]; then\n"
	"\t\t\tverb=$word\n"
	"\t\tfi\n"
	"\tdone\n"
	"\tword=${COMP_WORDS[COMP_CWORD]}\n"
	"\t[ \"$word\" != = ] || word=\n"
	"\tif [ -n \"$option\" ]; then\n"
	"\t\twords=$(_refrelay_arguments \"$command $option\")\n"
	"\telse\n"
	"\t\twords=$(_refrelay_words \"$command $verb\")\n"
	"\tfi\n"
	"\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
	"}\n"
	"complete -o default -F _refrelay refrelay\n";

static void bash_print(void)
{
	fputs(bash_beginning, stdout);
	printf("\t' ') echo '");
	for (size_t i = 0; i < ARRAY_SIZE(globals); i++)
		printf(" %s", globals[i].words);
	printf(" help");
	bash_print_names();
	puts("' ;;");
	printf("\t'help ') echo '");
	bash_print_names();
	puts("' ;;");
	for (const struct command *command = commands; command->name; command++)
		if (command->run)
			bash_print_command(command);
	fputs(bash_middle, stdout);
	for (const struct command *command = commands; command->name; command++)
		if (command->run)
			bash_print_arguments(command);
	fputs(bash_end, stdout);
}

/*
 * zsh
 */

static void zsh_print_argument(const struct cli_option *row)
{
	if (!row->argument)
		return;
	printf(":%s:", row->argument);
	if (!row->words) {
		printf("_files");
		return;
	}
	printf("(");
	print_words(row);
	printf(")");
}

static void zsh_print_spec(const struct cli_option *row, const char *dashes,
			   const char *name, const char *between)
{
	AUTO_STR struct str help = first_line(row->help, "[]:\\");

	printf(" \\\n\t\t\t'%s%s%s%s[%s]", row->type == CLI_LIST ? "*" : "", dashes, name,
	       row->argument ? between : "", help.data);
	zsh_print_argument(row);
	printf("'");
}

static void zsh_print_option(const struct cli_option *row)
{
	char letter[] = { row->letter, '\0' };

	zsh_print_spec(row, "--", row->name, "=");
	if (row->letter)
		zsh_print_spec(row, "-", letter, "+");
}

static void zsh_print_command(const struct command *command)
{
	const struct cli_options *table = command->options;

	printf("\t\t%s)\n\t\t\t_arguments", command->name);
	for (const struct cli_option *row = table->rows; row->name; row++)
		if (completes(table, row, NULL))
			zsh_print_option(row);
	zsh_print_option(&help_row);
	if (table->verbs) {
		printf(" \\\n\t\t\t'1:verb:(");
		for (const struct cli_verb *verb = table->verbs; verb->name; verb++)
			printf("%s%s", verb == table->verbs ? "" : " ", verb->name);
		printf(")'");
	}
	puts(" \\\n\t\t\t'*:operand:_files'\n\t\t\t;;");
}

static const char zsh_beginning[] =
	"#compdef refrelay\n"
	"# Completions of refrelay for zsh, made by `refrelay completion zsh`.\n"
	"\n"
	"_refrelay() {\n"
	"\tlocal curcontext=$curcontext state line\n"
	"\tlocal -a commands\n"
	"\n"
	"\tcommands=(\n";

static void zsh_print_globals(void)
{
	printf("\t)\n\t_arguments -C");
	for (size_t i = 0; i < ARRAY_SIZE(globals); i++) {
		AUTO_FREE char *words = xstrdup(globals[i].words);
		char *save = NULL;
		for (char *word = strtok_r(words, " ", &save); word;
		     word = strtok_r(NULL, " ", &save))
			printf(" \\\n\t\t'%s[%s]%s'", word, globals[i].help,
			       globals[i].takes_file ? ":file:_files" : "");
	}
	puts(" \\\n\t\t'1:command:->command' '*::word:->words'");
}

static void zsh_print(void)
{
	fputs(zsh_beginning, stdout);
	for (const struct command *command = commands; command->name; command++) {
		AUTO_STR struct str summary = first_line(command->summary, ":\\");
		if (command->run)
			printf("\t\t'%s:%s'\n", command->name, summary.data);
	}
	puts("\t\t'help:Prints what a command does.'");
	zsh_print_globals();
	puts("\tcase $state in\n"
	     "\tcommand) _describe command commands ;;\n"
	     "\twords)\n"
	     "\t\tcase $words[1] in\n"
	     "\t\thelp) _describe command commands ;;");
	for (const struct command *command = commands; command->name; command++)
		if (command->run)
			zsh_print_command(command);
	puts("\t\tesac\n"
	     "\t\t;;\n"
	     "\tesac\n"
	     "}\n"
	     "\n"
	     "_refrelay \"$@\"");
}

/*
 * fish
 */

static void fish_print_option(const struct command *command, const struct cli_option *row)
{
	AUTO_STR struct str help = first_line(row->help, "'\\");

	printf("complete -c refrelay -n '__refrelay_in %s", command->name);
	if (row->verbs)
		printf(" -- %s", row->verbs);
	printf("' -l %s", row->name);
	if (row->letter)
		printf(" -s %c", row->letter);
	if (row->argument)
		printf(row->words ? " -x" : " -r");
	if (row->argument && row->words) {
		printf(" -a '");
		print_words(row);
		printf("'");
	}
	printf(" -d '%s'\n", help.data);
}

static void fish_print_command(const struct command *command)
{
	const struct cli_options *table = command->options;

	for (const struct cli_verb *verb = table->verbs; verb && verb->name; verb++)
		printf("complete -c refrelay -n '__refrelay_only %s' -f -a %s\n",
		       command->name, verb->name);
	for (const struct cli_option *row = table->rows; row->name; row++)
		if (is_option(row))
			fish_print_option(command, row);
	fish_print_option(command, &help_row);
}

static const char fish_beginning[] =
	"# Completions of refrelay for fish, made by `refrelay completion fish`.\n"
	"\n"
	"# Command and operands that stand before the cursor.\n"
	"function __refrelay_words\n"
	"\tset -l is_file\n"
	"\tfor word in (commandline -opc)[2..-1]\n"
	"\t\tif test -n \"$is_file\"\n"
	"\t\t\tset is_file\n"
	"\t\telse if test \"$word\" = -c\n"
	"\t\t\tset is_file 1\n"
	"\t\telse if not string match -q -- '-*' $word\n"
	"\t\t\techo $word\n"
	"\t\tend\n"
	"\tend\n"
	"end\n"
	"\n"
	"function __refrelay_none\n"
	"\ttest (count (__refrelay_words)) -eq 0\n"
	"end\n"
	"\n"
	"function __refrelay_only # COMMAND: and no verb\n"
	"\ttest \"$(__refrelay_words)\" = $argv[1]\n"
	"end\n"
	"\n"
	"function __refrelay_in # COMMAND [-- VERB...]\n"
	"\tset -l words (__refrelay_words)\n"
	"\ttest \"$words[1]\" = $argv[1]; or return\n"
	"\ttest (count $argv) -eq 1; or not set -q words[2]; or contains -- $words[2] "
	"$argv[3..-1]\n"
	"end\n"
	"\n"
	"complete -c refrelay -n __refrelay_none -s c -r -d 'read this configuration'\n"
	"complete -c refrelay -n __refrelay_none -s v -d 'log what is of interest to "
	"developers, too'\n"
	"complete -c refrelay -n __refrelay_none -s h -l help -d 'print the commands and "
	"exit'\n"
	"complete -c refrelay -n __refrelay_none -s V -l version -d 'print the version "
	"and exit'\n"
	"complete -c refrelay -n __refrelay_none -f -a help -d 'Prints what a command "
	"does.'\n";

static void fish_print(void)
{
	fputs(fish_beginning, stdout);
	for (const struct command *command = commands; command->name; command++) {
		AUTO_STR struct str summary = first_line(command->summary, "'\\");
		if (!command->run)
			continue;
		printf("complete -c refrelay -n __refrelay_none -f -a %s -d '%s'\n",
		       command->name, summary.data);
		printf("complete -c refrelay -n '__refrelay_only help' -f -a %s\n",
		       command->name);
		fish_print_command(command);
	}
}

int cli_completion(struct cli *cli, char **argv)
{
	struct cli_operands operands;
	int status = cli_read_options(cli->command, argv, NULL, &operands);

	if (status >= 0)
		return status;
	if (strcmp(operands.verb, "bash") == 0)
		bash_print();
	else if (strcmp(operands.verb, "zsh") == 0)
		zsh_print();
	else
		fish_print();
	return EXIT_DONE;
}
