#include "test.h"

#include "cli/cli.h"
#include "push/task.h"
#include "replicable/registry.h"

/* One field a type. */
struct sample {
	bool is_loud, is_quiet;
	const char *text, *color;
	uint64_t number, free;
	int64_t duration;
	cli_words list, triples;
};

#define AT(kind, member) CLI_AT(kind, struct sample, member)

static const struct cli_option rows[] = {
	{ "loud", 'l', NULL, "makes noise\nand more of it", AT(FLAG, is_loud),
	  .excludes = "quiet" },
	{ "quiet", 'q', NULL, "no noise", AT(FLAG, is_quiet) },
	{ "text", 't', "WORDS", "any text", AT(TEXT, text) },
	{ "color", 0, "C", "one of two", AT(CHOICE, color),
	  .words = (const char *const[]){ "red", "blue", NULL } },
	{ "blue", 0, NULL, "the same as --color blue", AT(CHOICE, color),
	  .words = (const char *const[]){ "blue", NULL } },
	{ "number", 'n', "N", "from 2 to 9", AT(NUMBER, number), .min = 2, .max = 9 },
	{ "free", 0, "N", NULL, AT(NUMBER, free) },
	{ "-- COMMAND [ARGUMENT...]", 0, NULL, "what runs", .type = CLI_NOTE },
	{ "for", 0, "TIME", "how long", AT(DURATION, duration), .min = 2000,
	  .needs = "text", .heading = "\nMore:\n" },
	{ "list", 0, "ONE", "several times", AT(LIST, list) },
	{ "triple", 0, "A B C", "three words each", AT(LIST, triples), .each = 3 },
	{ 0 },
};

static const struct cli_options plain = { .rows = rows,
					  .least = 1,
					  .most = 2,
					  .takes = "one ID or two",
					  .column = 18,
					  .intro = "First.\n",
					  .end = "Last.\n" };
static const struct cli_options wrapping = { .rows = rows,
					     .most = CLI_ANY_NUMBER,
					     .has_command = true };

static const struct cli_option verb_rows[] = {
	{ "text", 0, "A", "this is for one", AT(TEXT, text), .verbs = "make" },
	{ "text", 0, "B", "this is for others", AT(TEXT, text), .verbs = "remake take",
	  .needs = "loud" },
	{ "loud", 0, NULL, "for all", AT(FLAG, is_loud) },
	{ 0 },
};
static const struct cli_verb verbs[] = {
	{ .name = "make",
	  .most = CLI_ANY_NUMBER,
	  .operands = "ID...",
	  .help = "make it" },
	{ "remake", 1, 1, .takes = "one ID" },
	{ "take", .takes = "nothing" },
	{ "give", 2, .most = 2 },
	{ 0 },
};
static const struct cli_options with_verbs = {
	.rows = verb_rows, .verbs = verbs, .takes = "make or so", .column = 14
};

static const struct cli_options *table;
static struct sample sample;
static struct cli_operands operands;
static struct str said; /* on stdout and stderr */
static char *words[32];
static size_t word_count;

static int set_up(void **state)
{
	table = &plain;
	return test_make_root(state);
}

static void forget(void)
{
	vec_clear(&sample.list);
	vec_clear(&sample.triples);
	sample = (struct sample){ 0 };
	str_clear(&said);
	while (word_count > 0)
		free(words[--word_count]);
}

static int tear_down(void **state)
{
	forget();
	return test_remove_root(state);
}

#define LINE_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* What the words, with spaces between, are read as. */
static int read_line(const char *line)
{
	const struct command command = { .name = "sample",
					 .synopsis = "[ID...]",
					 .summary = "Tries it.",
					 .options = table };
	AUTO_FREE char *path = xasprintf("%s/said", root);
	AUTO_FREE char *text = xstrdup(line);
	char *save = NULL;
	int out = dup(STDOUT_FILENO), error = dup(STDERR_FILENO), status;

	forget();
	for (char *word = strtok_r(text, " ", &save); word;
	     word = strtok_r(NULL, " ", &save))
		words[word_count++] = xstrdup(strcmp(word, "''") == 0 ? "" : word);
	/* Put in another order; the operands are in it, also when this has ended. */
	static char *argv[ARRAY_SIZE(words)];
	memset(argv, 0, sizeof(argv));
	memcpy(argv, words, word_count * sizeof(*words));
	fflush(stdout);
	assert_non_null(freopen(path, "w", stdout));
	dup2(STDOUT_FILENO, STDERR_FILENO);
	status = cli_read_options(&command, argv, &sample, &operands);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	dup2(error, STDERR_FILENO);
	close(out);
	close(error);
	assert_ok(file_read_any(AT_FDCWD, path, 1 << 20, &said, &err));
	return status;
}

static void assert_read(const char *line)
{
	if (read_line(line) != -1)
		fail_msg("%s: %s", line, said.data);
}

static void assert_refused(const char *line, const char *why)
{
	AUTO_FREE char *text = xasprintf(
		"refrelay sample: %s\n  hint: see refrelay sample --help\n", why);

	assert_int_equal(read_line(line), EXIT_USAGE);
	assert_string_equal(said.data, text);
}

TEST(each_type_is_read_into_its_field)
{
	assert_read("--loud --text some --color red --number 9 --for 2m x");
	assert_true(sample.is_loud);
	assert_false(sample.is_quiet);
	assert_string_equal(sample.text, "some");
	assert_string_equal(sample.color, "red");
	assert_int_equal(sample.number, 9);
	assert_int_equal(sample.duration, 120 * 1000);
	assert_read("--text=a=b --blue --number=2 --for=2 x");
	assert_string_equal(sample.text, "a=b");
	assert_string_equal(sample.color, "blue");
	assert_int_equal(sample.number, 2);
	assert_int_equal(sample.duration, 2000);
	assert_read("--text= --text '' --free=9223372036854775807 x");
	assert_string_equal(sample.text, "");
	assert_int_equal(sample.free, INT64_MAX);
}

TEST(the_last_of_several_counts_but_lists_have_all)
{
	assert_read("--color red --blue --number 3 --number 4 x");
	assert_string_equal(sample.color, "blue");
	assert_int_equal(sample.number, 4);
	assert_read("--list a x --list=b --triple 1 2 3 --triple=4 5 --list");
	assert_int_equal(sample.list.count, 2);
	assert_string_equal(sample.list.items[1], "b");
	assert_null(sample.list.items[2]);
	assert_int_equal(sample.triples.count, 6);
	assert_string_equal(sample.triples.items[5], "--list");
	assert_int_equal(operands.count, 1);
}

TEST(letters_stand_for_names)
{
	assert_read("-l -n4 -t some x");
	assert_true(sample.is_loud);
	assert_int_equal(sample.number, 4);
	assert_string_equal(sample.text, "some");
	assert_read("-qn 5 x");
	assert_true(sample.is_quiet);
	assert_int_equal(sample.number, 5);
	assert_refused("-lz x", "unknown option -lz");
	assert_refused("x -n", "-n takes N");
}

TEST(what_is_unknown_or_lacks_its_argument_is_refused)
{
	static const char *const lines[] = { "--lou", "--loudly", "-z", "--l",
					     "--no-such" };

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		AUTO_FREE char *why = xasprintf("unknown option %s", lines[i]);
		AUTO_FREE char *line = xasprintf("x %s", lines[i]);
		assert_refused(line, why);
	}
	assert_refused("x --loud=1", "--loud=1 takes no value");
	assert_refused("x --loud=", "--loud= takes no value");
	assert_refused("x --help=yes", "--help=yes takes no value");
	assert_refused("x --number", "--number takes N");
	assert_refused("x --text", "--text takes WORDS");
	assert_refused("x --triple a b", "--triple takes A B C");
}

TEST(a_wrong_value_is_refused_with_what_is_right)
{
	static const char *const bad[] = { "x", "-1", "''", "1s", "9223372036854775808" };
	static const char *const times[] = { "x", "1", "1999ms", "-5", "2w", "366d" };

	assert_refused("--number 1 x", "--number takes a number from 2 to 9, not \"1\"");
	assert_refused("-n10 x", "--number takes a number from 2 to 9, not \"10\"");
	assert_refused("--color pink x", "\"pink\" is not a valid color");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		AUTO_FREE char *line = xasprintf("--free %s x", bad[i]);
		assert_refused(line, "--free takes a number");
	}
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		AUTO_FREE char *line = xasprintf("--text a --for %s x", times[i]);
		assert_refused(line, "--for takes a duration such as 90s or 10m");
	}
}

TEST(options_need_and_exclude_others_wherever_they_stand)
{
	assert_refused("--for 5 x", "--for needs --text");
	assert_read("--for 5 x --text a");
	assert_refused("--loud x --quiet", "--loud and --quiet cannot be combined");
	assert_refused("-q x -l", "--loud and --quiet cannot be combined");
}

TEST(operands_stand_before_options_and_behind_dashes)
{
	assert_read("a --loud -");
	assert_true(sample.is_loud);
	assert_int_equal(operands.count, 2);
	assert_string_equal(operands.items[0], "a");
	assert_string_equal(operands.items[1], "-");
	assert_null(operands.items[2]);
	assert_read("a -- --loud");
	assert_false(sample.is_loud);
	assert_string_equal(operands.items[1], "--loud");
	assert_null(operands.items[2]);
	assert_null(operands.command);
	assert_refused("", "expected one ID or two");
	assert_refused("a b --loud c", "expected one ID or two");
}

TEST(a_command_behind_dashes_is_no_operand)
{
	table = &wrapping;
	assert_read("a -l b -- run --quiet -- x");
	assert_int_equal(operands.count, 2);
	assert_null(operands.items[2]);
	assert_false(sample.is_quiet);
	assert_string_equal(operands.command[0], "run");
	assert_string_equal(operands.command[2], "--");
	assert_null(operands.command[4]);
	assert_read("--");
	assert_non_null(operands.command);
	assert_null(operands.command[0]);
	assert_read("a");
	assert_null(operands.command);
}

TEST(verbs_take_their_options_and_operands)
{
	table = &with_verbs;
	assert_read("--text t make a b");
	assert_string_equal(operands.verb, "make");
	assert_int_equal(operands.verb_at, 0);
	assert_int_equal(operands.count, 2);
	assert_string_equal(operands.items[0], "a");
	assert_read("remake --text t a --loud");
	assert_int_equal(operands.verb_at, 1);
	assert_refused("remake --text t a", "--text needs --loud");
	assert_refused("give a b --text t", "give does not take --text");
	assert_refused("remake", "remake takes one ID");
	assert_refused("take x", "take takes nothing");
	assert_refused("give a", "expected make or so");
	assert_refused("", "expected make or so");
	assert_refused("mak", "unknown subcommand \"mak\"; expected make or so");
}

TEST(notes_are_left_out_when_they_are_not_wanted)
{
	table = &with_verbs;
	assert_read("make a");
	assert_false(cli_is_quiet());
	assert_read("make -q a");
	assert_true(cli_is_quiet());
	assert_read("make a --quiet");
	assert_int_equal(operands.count, 1);
	assert_refused("make a --quiet=yes", "--quiet=yes takes no value");
}

TEST(the_help_lines_up)
{
	assert_int_equal(read_line("x --help --no-such"), EXIT_DONE);
	assert_string_equal(said.data, "usage: refrelay sample [ID...]\n"
				       "\n"
				       "Tries it.\n"
				       "\n"
				       "First.\n"
				       "  -l, --loud      makes noise\n"
				       "                  and more of it\n"
				       "  -q, --quiet     no noise\n"
				       "  -t, --text WORDS\n"
				       "                  any text\n"
				       "  --color C       one of two\n"
				       "  --blue          the same as --color blue\n"
				       "  -n, --number N  from 2 to 9\n"
				       "  -- COMMAND [ARGUMENT...]\n"
				       "                  what runs\n"
				       "\n"
				       "More:\n"
				       "  --for TIME      how long\n"
				       "  --list ONE      several times\n"
				       "  --triple A B C  three words each\n"
				       "\n"
				       "Last.\n");
}

TEST(options_of_one_verb_stand_below_it)
{
	table = &with_verbs;
	assert_int_equal(read_line("-h"), EXIT_DONE);
	assert_string_equal(said.data, "usage: refrelay sample [ID...]\n"
				       "\n"
				       "Tries it.\n"
				       "\n"
				       "  make ID...  make it\n"
				       "    --text A  this is for one\n"
				       "  --text B    this is for others\n"
				       "  --loud      for all\n");
}

/*
 * The tables of the commands.
 */

static bool is_row(const struct cli_options *of, const char *name)
{
	for (const struct cli_option *row = of->rows; row->name; row++)
		if (strcmp(row->name, name) == 0)
			return true;
	return false;
}

static bool is_verb(const struct cli_options *of, const char *names)
{
	size_t len = strcspn(names, " ");

	for (const struct cli_verb *verb = of->verbs; verb && verb->name; verb++)
		if (strlen(verb->name) == len && strncmp(verb->name, names, len) == 0)
			return names[len] == '\0' || is_verb(of, names + len + 1);
	return false;
}

static void check_row(const char *command, const struct cli_options *of,
		      const struct cli_option *row)
{
	const bool has_word = row->type == CLI_TEXT || row->type == CLI_NUMBER ||
			      row->type == CLI_DURATION || row->type == CLI_LIST;

	if ((row->needs && !is_row(of, row->needs)) ||
	    (row->excludes && !is_row(of, row->excludes)) ||
	    (row->verbs && !is_verb(of, row->verbs)) ||
	    (row->type == CLI_CHOICE) != (row->words != NULL) ||
	    (has_word && !row->argument) || (row->type == CLI_FLAG && row->argument))
		fail_msg("%s: the row of --%s does not hold", command, row->name);
}

TEST(the_table_of_each_command_holds)
{
	size_t count = 0;

	for (const struct command *command = commands; command->name; command++) {
		const struct cli_options *of = command->options;
		assert_int_equal(command->run != NULL, of != NULL);
		for (const struct cli_option *row = of ? of->rows : NULL;
		     row && row->name; row++, count++)
			check_row(command->name, of, row);
		if (of && of->verbs)
			assert_non_null(of->takes);
	}
	assert_true(count > 70);
}

static const struct cli_option *row_of(const char *command, const char *name)
{
	const struct command *found = commands;

	while (strcmp(found->name, command) != 0)
		found++;
	for (const struct cli_option *row = found->options->rows; row->name; row++)
		if (strcmp(row->name, name) == 0)
			return row;
	fail_msg("%s has no --%s", command, name);
	return NULL;
}

TEST(each_state_of_a_row_can_be_asked_for)
{
	static const char *const kinds[] = { "repository", "blob" };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct cli_option *row = row_of(kinds[i], "state");
		for (int k = 0; k < REGISTRY_STATES; k++) {
			const char *name = registry_state_name((enum registry_state)k);
			size_t at = 0;
			while (row->words[at] && strcmp(row->words[at], name) != 0)
				at++;
			if (!row->words[at] || !strstr(row->help, name))
				fail_msg("--state of %s lacks %s", kinds[i], name);
		}
	}
}

/* The names in a line ".It Fl j Ar n , Fl -jobs Ar n" or ".It Fl v , -verbose" of a
 * manual page. */
static void add_documented(const char *line, text_list *names)
{
	AUTO_FREE char *text = xstrdup(line);
	char *save = NULL;
	bool is_name = false;

	for (char *word = strtok_r(text, " ", &save); word;
	     word = strtok_r(NULL, " ", &save)) {
		if (is_name && strcmp(word, "Fl") != 0)
			vec_add(names, xstrdup(word[0] == '-' ? word + 1 : word));
		is_name = strcmp(word, "Fl") == 0 || strcmp(word, ",") == 0;
	}
}

static void read_page(const char *command, text_list *names)
{
	AUTO_FREE char *path =
		xasprintf("%s/../docs/man/refrelay-%s.1", getenv("TESTS"), command);
	AUTO_STR struct str page = STR_INIT;
	char *save = NULL;

	assert_ok(file_read_any(AT_FDCWD, path, 1 << 20, &page, &err));
	for (char *line = strtok_r(page.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		if (text_starts_with(line, ".It Fl "))
			add_documented(line, names);
}

static bool is_of_row(const struct cli_option *row, const char *name)
{
	return strcmp(row->name, name) == 0 ||
	       (row->letter && name[0] == row->letter && !name[1]);
}

static bool is_of_table(const struct cli_options *of, const char *name)
{
	bool result = strcmp(name, "help") == 0 || strcmp(name, "h") == 0;

	for (const struct cli_option *row = of->rows; row->name; row++)
		result |= is_of_row(row, name);
	return result;
}

static void check_page(const struct command *command)
{
	text_list names = { 0 };

	read_page(command->name, &names);
	if (!text_list_has(&names, "help") || !text_list_has(&names, "h"))
		fail_msg("refrelay-%s(1) lacks --help", command->name);
	for (size_t i = 0; i < names.count; i++)
		if (!is_of_table(command->options, names.items[i]))
			fail_msg("refrelay-%s(1) has an option %s", command->name,
				 names.items[i]);
	for (const struct cli_option *row = command->options->rows; row->name; row++) {
		const char letter[] = { row->letter, '\0' };
		if (row->type != CLI_NOTE &&
		    (!text_list_has(&names, row->name) ||
		     (row->letter && !text_list_has(&names, letter))))
			fail_msg("refrelay-%s(1) lacks --%s", command->name, row->name);
	}
	text_list_clear(&names);
}

TEST(the_page_of_each_command_has_its_options_and_no_others)
{
	for (const struct command *command = commands; command->name; command++)
		if (command->run)
			check_page(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		LINE_CASE(each_type_is_read_into_its_field),
		LINE_CASE(the_last_of_several_counts_but_lists_have_all),
		LINE_CASE(letters_stand_for_names),
		LINE_CASE(what_is_unknown_or_lacks_its_argument_is_refused),
		LINE_CASE(a_wrong_value_is_refused_with_what_is_right),
		LINE_CASE(options_need_and_exclude_others_wherever_they_stand),
		LINE_CASE(operands_stand_before_options_and_behind_dashes),
		LINE_CASE(a_command_behind_dashes_is_no_operand),
		LINE_CASE(verbs_take_their_options_and_operands),
		LINE_CASE(notes_are_left_out_when_they_are_not_wanted),
		LINE_CASE(the_help_lines_up),
		LINE_CASE(options_of_one_verb_stand_below_it),
		cmocka_unit_test(the_table_of_each_command_holds),
		cmocka_unit_test(each_state_of_a_row_can_be_asked_for),
		cmocka_unit_test(the_page_of_each_command_has_its_options_and_no_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
