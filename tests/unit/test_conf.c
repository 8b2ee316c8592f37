#include "test.h"

#include "base/conf.h"
#include "base/vec.h"

static struct conf *parse(const char *text)
{
	struct conf *conf = NULL;

	assert_ok(conf_load_text("test.conf", text, strlen(text), &conf, &err));
	return conf;
}

static const char *value_of(const struct conf *conf, const char *section,
			    const char *subsection, const char *key)
{
	const struct conf_entry *entry = conf_get(conf, section, subsection, key);

	return !entry ? "(absent)" : entry->value ? entry->value : "(no value)";
}

static void put(const char *path, const char *text)
{
	assert_ok(file_replace(root_fd, path, text, strlen(text), FILE_NO_SYNC, &err));
}

static int load(const char *name, struct conf **conf)
{
	AUTO_FREE char *path = xasprintf("%s/%s", root, name);

	return conf_load(path, conf, &err);
}

/* The error names the place, and its text contains this. */
static void assert_says(const char *place, const char *text)
{
	if (!text_starts_with(err.text, place) || !strstr(err.text, text))
		fail_msg("\"%s\" lacks \"%s\" or \"%s\"", err.text, place, text);
	assert_int_equal(err.class, ERR_CONFIG);
}

/* Compared once with what `git config -z -l` says. */
TEST(values_are_read_as_documented)
{
	static const struct {
		const char *text, *value;
	} table[] = {
		{ "[a]k=v", "v" },
		{ "[a]\n\tk = v", "v" },
		{ "[a] k = v  \t\n", "v" },
		{ "[a]\nk = one  two", "one  two" },
		{ "[a]\nk = v # comment", "v" },
		{ "[a]\nk = v;comment", "v" },
		{ "[a]\nk = \"v # no ; comment\"", "v # no ; comment" },
		{ "[a]\nk = \"  v  \"  ", "  v  " },
		{ "[a]\nk = one\" two \"three", "one two three" },
		{ "[a]\nk = v \"\"  ", "v " },
		{ "[a]\nk = \"\" v", "v" },
		{ "[a]\nk = \\\"q\\\" \\\\ \\n\\t\\b.", "\"q\" \\ \n\t\b." },
		{ "[a]\nk = one\\\n  two", "one  two" },
		{ "[a]\nk = one \\\n", "one " },
		{ "[a]\nk = \"one\\\ntwo\"", "onetwo" },
		{ "[a]\nk = one # \\\nx = 2", "one" },
		{ "[a]\r\nk = v\r\n", "v" },
		{ "[a]\r\nk = one\\\r\ntwo\r\n", "onetwo" },
		{ "[a]\nk = \"one\rtwo\"", "one\rtwo" },
		{ "\xef\xbb\xbf[a]\nk = v", "v" },
		{ "[a]\nk", "(no value)" },
		{ "[a]\nk ", "(no value)" },
		{ "[a]\nk =", "" },
		{ "[a]\nk = \"\"", "" },
		{ "[a]\nk = # nothing", "" },
		{ "[a]\nk = 1\nK = 2\n[A]k = 3", "3" },
		{ "# c\n; c\n\n  [a]  # c\n  k = v", "v" },
		{ "[a]\nk = = v", "= v" },
		{ "[a]\nk = x\\", "x" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_CONF struct conf *conf = parse(table[i].text);
		assert_string_equal(value_of(conf, "a", NULL, "k"), table[i].value);
	}
}

TEST(sections_and_keys_ignore_case_and_subsections_do_not)
{
	AUTO_CONF struct conf *conf = parse("[Remote \"One.Two \\\"3\\\" \\\\ \\x\"]\n"
					    "\tpushURL = 1\n"
					    "[remote \"one\"] url = 2\n"
					    "[remote \"ONE\"] url = 3\n"
					    "[REMOTE.OlD.Er] url = 4\n"
					    "[remote.old \"New\"] url = 5\n"
					    "[remote \"\"] url = 6\n"
					    "[remote] url = 7\n");

	assert_string_equal(value_of(conf, "remote", "One.Two \"3\" \\ x", "pushurl"),
			    "1");
	assert_string_equal(value_of(conf, "REMOTE", "one", "URL"), "2");
	assert_string_equal(value_of(conf, "remote", "ONE", "url"), "3");
	assert_string_equal(value_of(conf, "remote", "One", "url"), "(absent)");
	assert_string_equal(value_of(conf, "remote", "old.er", "url"), "4");
	assert_string_equal(value_of(conf, "remote", "old.New", "url"), "5");
	assert_string_equal(value_of(conf, "remote", "", "url"), "6");
	assert_string_equal(value_of(conf, "remote", NULL, "url"), "7");

	struct conf_names names = { 0 };
	conf_subsections(conf, "remote", &names);
	assert_int_equal(names.count, 6);
	assert_string_equal(names.items[1], "one");
	assert_string_equal(names.items[5], "");
	vec_clear(&names);
}

TEST(the_last_value_counts_and_all_can_be_had)
{
	AUTO_CONF struct conf *conf = parse("[r \"x\"]\nurl = 1\n[s]\nk = 0\n[R \"x\"]\n"
					    "URL = 2\nurl\n");
	const struct conf_list *all = conf_get_all(conf, "r", "x", "url");

	assert_int_equal(all->count, 3);
	assert_string_equal(all->items[0]->value, "1");
	assert_int_equal(all->items[1]->line, 6);
	assert_string_equal(all->items[1]->key, "URL");
	assert_null(all->items[2]->value);
	assert_int_equal(conf_get(conf, "r", "x", "url")->line, 7);
	assert_int_equal(conf_get_all(conf, "r", "y", "url")->count, 0);
	assert_int_equal(conf_entries(conf)->count, 4);
	assert_string_equal(conf_entries(conf)->items[1]->section, "s");
}

TEST(wrong_syntax_is_refused_with_its_line)
{
	static const struct {
		const char *text, *place, *says;
	} table[] = {
		{ "k = v", "test.conf:1: ", "before the first [section]" },
		{ "[a]\n= v", "test.conf:2: ", "a line begins with" },
		{ "[a]\n1k = v", "test.conf:2: ", "not '1'" },
		{ "[a]\nk_x = v", "test.conf:2: ", "not '_'" },
		{ "[a]\nk v", "test.conf:2: ", "not 'v'" },
		{ "[a]\nk\xc3\xa4 = v", "test.conf:2: ", "not \\xc3" },
		{ "[a]\nk = \"v\nj = 1", "test.conf:2: ", "quote is not closed" },
		{ "[a]\nk = \"v", "test.conf:2: ", "quote is not closed" },
		{ "[a]\nk = \\q", "test.conf:2: ", "not 'q'" },
		{ "[a]\nk = x\\\n\\q", "test.conf:3: ", "not 'q'" },
		{ "\n\n[a", "test.conf:3: ", "not closed" },
		{ "[a\n]", "test.conf:1: ", "not closed" },
		{ "[]", "test.conf:1: ", "no name" },
		{ "[.a]", "test.conf:1: ", "no name" },
		{ "[ \"a\"]", "test.conf:1: ", "no name" },
		{ "[a b]", "test.conf:1: ", "stands in quotes" },
		{ "[a \"b]\n", "test.conf:1: ", "quote of the subsection" },
		{ "[a \"b\\\n\"]\n", "test.conf:1: ", "quote of the subsection" },
		{ "[a \"b\" ]\n", "test.conf:1: ", "followed by ']'" },
		{ "[a_b]\n", "test.conf:1: ", "not '_'" },
		{ "\xef\xbb[a]\n", "test.conf:1: ", "a line begins with" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct conf *conf = NULL;
		assert_fails(conf_load_text("test.conf", table[i].text,
					    strlen(table[i].text), &conf, &err),
			     ERR_CONFIG);
		assert_null(conf);
		assert_says(table[i].place, table[i].says);
	}
}

TEST(a_nul_byte_is_refused)
{
	struct conf *conf;

	assert_fails(conf_load_text("n", "[a]\nk = v\nx = \0y\n", 17, &conf, &err),
		     ERR_CONFIG);
	assert_says("n:3: ", "NUL");
}

/* A repository's own file: git takes its format from it without what it includes. */
TEST(a_text_includes_nothing)
{
	static const char text[] = "[include]\npath = /nowhere\n"
				   "[includeIf \"gitdir:x\"]\npath = y\n";
	AUTO_CONF struct conf *conf = NULL;

	assert_ok(conf_load_text("config", text, strlen(text), &conf, &err));
	assert_string_equal(value_of(conf, "include", NULL, "path"), "/nowhere");
	assert_string_equal(value_of(conf, "includeif", "gitdir:x", "path"), "y");
}

TEST(an_include_counts_where_it_stands_and_from_its_own_directory)
{
	AUTO_CONF struct conf *conf = NULL;

	assert_ok(dir_make(root_fd, "d/e", &err));
	put("main", "[a]\nx = 1\ny = 1\n[include]\npath = d/one\n[a]\ny = 3\n");
	put("d/one", "[a]\nx = 2\ny = 2\n[include] path = e/two\n");
	put("d/e/two", "[a]\nz = 2\n[Include]\nPATH = ~/home.conf\n");
	put("home.conf", "[a]\nh = 1\n");
	setenv("HOME", root, 1);
	assert_ok(load("main", &conf));
	assert_string_equal(value_of(conf, "a", NULL, "x"), "2");
	assert_string_equal(value_of(conf, "a", NULL, "y"), "3");
	assert_string_equal(value_of(conf, "a", NULL, "z"), "2");
	assert_string_equal(value_of(conf, "a", NULL, "h"), "1");
	assert_int_equal(conf_get(conf, "a", NULL, "z")->line, 2);
	assert_true(text_ends_with(conf_get(conf, "a", NULL, "z")->file, "/d/e/two"));
	assert_string_equal(value_of(conf, "include", NULL, "path"), "(absent)");
}

TEST(a_missing_include_names_the_line_that_wants_it)
{
	static const char *const wrong[] = { "nowhere", "~other/x", "~", "\"\"", "." };
	struct conf *conf = NULL;
	AUTO_FREE char *place = xasprintf("%s/d/one:2: ", root);

	assert_fails(load("main", &conf), ERR_MISSING);
	assert_ok(dir_make(root_fd, "d", &err));
	put("main", "[include]\n\n\npath = d/one\n");
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		AUTO_FREE char *text = xasprintf("[include]\npath = %s\n", wrong[i]);
		put("d/one", text);
		assert_fails(load("main", &conf), ERR_CONFIG);
		assert_says(place, "");
	}
	put("d/one", "[include]\npath\n");
	assert_fails(load("main", &conf), ERR_CONFIG);
	assert_says(place, "needs a value");
	put("d/one", "[include]\npaht = x\n");
	assert_fails(load("main", &conf), ERR_CONFIG);
	assert_says(place, "include.path");
	put("d/one", "[a]\n-x\n");
	assert_fails(load("main", &conf), ERR_CONFIG);
	assert_says(place, "a line begins");
}

TEST(includes_go_ten_deep_and_no_deeper)
{
	struct conf *conf = NULL;
	char name[8], text[32];

	for (int i = 0; i < 11; i++) {
		snprintf(name, sizeof(name), "f%d", i);
		snprintf(text, sizeof(text), "[include]\npath = f%d\n", i + 1);
		put(name, text);
	}
	put("f10", "[a]\nk = deep\n");
	assert_ok(load("f0", &conf));
	assert_string_equal(value_of(conf, "a", NULL, "k"), "deep");
	conf_free(conf);
	put("f10", "[include]\npath = f0\n");
	assert_fails(load("f0", &conf), ERR_CONFIG);
	assert_non_null(strstr(err.text, "/f10:2: "));
	assert_non_null(strstr(err.text, "10 deep"));
	put("self", "[include]\npath = self\n");
	assert_fails(load("self", &conf), ERR_CONFIG);
}

TEST(booleans_take_the_words_of_git)
{
	static const struct {
		const char *text;
		int expected; /* -1: refused */
	} table[] = {
		{ "k", 1 },    { "k=", 0 },    { "k=TRUE", 1 }, { "k=yes", 1 },
		{ "k=On", 1 }, { "k=1", 1 },   { "k=7", 1 },    { "k=false", 0 },
		{ "k=No", 0 }, { "k=off", 0 }, { "k=0", 0 },    { "k=maybe", -1 },
		{ "k=t", -1 }, { "k=1x", -1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_FREE char *text = xasprintf("[a]\n%s\n", table[i].text);
		AUTO_CONF struct conf *conf = parse(text);
		bool value = table[i].expected == 0;
		int result = conf_read_bool(conf_get(conf, "a", NULL, "k"), &value, &err);

		assert_int_equal(result, table[i].expected < 0 ? -1 : 0);
		if (result == 0)
			assert_int_equal(value, table[i].expected);
		else
			assert_says("test.conf:2: a.k: ", "true");
	}
}

enum reader { SIZE, DURATION, SHARE, UINT };

/* Reads a.k as one kind of value; shares come back in millionths. */
static int read_as(enum reader reader, const struct conf *conf, int64_t *value)
{
	const struct conf_entry *entry = conf_get(conf, "a", NULL, "k");
	uint64_t number = 0;
	double share = 0;
	int result;

	if (reader == DURATION)
		return conf_read_duration(entry, CONF_MINUTE, value, &err);
	if (reader == SHARE)
		result = conf_read_share(entry, &share, &err);
	else if (reader == SIZE)
		result = conf_read_size(entry, &number, &err);
	else
		result = conf_read_uint(entry, 2, 9, &number, &err);
	*value = reader == SHARE ? (int64_t)(share * 1e6 + 0.5) : (int64_t)number;
	return result;
}

TEST(numbers_sizes_durations_and_shares_are_exact)
{
	static const struct {
		enum reader reader;
		const char *text;
		int64_t expected; /* -1: refused */
	} table[] = {
		{ SIZE, "0", 0 },
		{ SIZE, "1k", 1024 },
		{ SIZE, "3M", 3 << 20 },
		{ SIZE, "2g", INT64_C(2) << 30 },
		{ SIZE, "010", 10 },
		{ SIZE, "-1", -1 },
		{ SIZE, "1kb", -1 },
		{ SIZE, "", -1 },
		{ SIZE, "99999999999g", -1 },
		{ SIZE, "99999999999999999999", -1 },
		{ DURATION, "5", 300000 },
		{ DURATION, "0", 0 },
		{ DURATION, "5ms", 5 },
		{ DURATION, "5s", 5000 },
		{ DURATION, "5m", 300000 },
		{ DURATION, "2h", 7200000 },
		{ DURATION, "7d", 604800000 },
		{ DURATION, "-1s", -1 },
		{ DURATION, "+1s", -1 },
		{ DURATION, "1.5s", -1 },
		{ DURATION, "1 s", -1 },
		{ DURATION, "1S", -1 },
		{ DURATION, "s", -1 },
		{ DURATION, "", -1 },
		{ DURATION, "soon", -1 },
		{ DURATION, "1h30m", -1 },
		{ DURATION, "106751991168d", -1 },
		{ DURATION, "18446744073709551615ms", -1 },
		{ SHARE, "5%", 50000 },
		{ SHARE, "0.25%", 2500 },
		{ SHARE, "100%", 1000000 },
		{ SHARE, "0%", 0 },
		{ SHARE, "100.1%", -1 },
		{ SHARE, "101%", -1 },
		{ SHARE, "5", -1 },
		{ SHARE, "5.%", -1 },
		{ SHARE, ".5%", -1 },
		{ SHARE, "-5%", -1 },
		{ SHARE, "nan%", -1 },
		{ UINT, "2", 2 },
		{ UINT, "9", 9 },
		{ UINT, "1", -1 },
		{ UINT, "10", -1 },
		{ UINT, "0x3", -1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_FREE char *text = xasprintf("[a]\nk = %s\n", table[i].text);
		AUTO_CONF struct conf *conf = parse(text);
		int64_t value = 77;
		int result = read_as(table[i].reader, conf, &value);

		if (result != (table[i].expected < 0 ? -1 : 0))
			fail_msg("%s: %d", table[i].text, result);
		if (result == 0)
			assert_int_equal(value, table[i].expected);
		else
			assert_says("test.conf:2: a.k: ", "\" is not a");
	}
}

TEST(a_key_without_value_is_no_number)
{
	AUTO_CONF struct conf *conf = parse("[a]\nk\n");
	const char *text = "before";
	int64_t value;

	for (enum reader reader = SIZE; reader <= UINT; reader++)
		assert_int_equal(read_as(reader, conf, &value), -1);
	assert_fails(conf_read_text(conf_get(conf, "a", NULL, "k"), &text, &err),
		     ERR_CONFIG);
	assert_says("test.conf:2: a.k: ", "value");
	assert_string_equal(text, "before");
}

TEST(an_absent_key_leaves_the_default)
{
	static const char *const words[] = { "x", NULL };
	const char *text = "default";
	bool flag = true;
	uint64_t number = 3;
	size_t choice = 4;
	int64_t ms = 5;
	double share = 0.5;

	assert_ok(conf_read_text(NULL, &text, &err));
	assert_ok(conf_read_bool(NULL, &flag, &err));
	assert_ok(conf_read_uint(NULL, 10, 20, &number, &err));
	assert_ok(conf_read_size(NULL, &number, &err));
	assert_ok(conf_read_duration(NULL, CONF_SECOND, &ms, &err));
	assert_ok(conf_read_share(NULL, &share, &err));
	assert_ok(conf_read_choice(NULL, words, &choice, &err));
	assert_string_equal(text, "default");
	assert_true(flag && number == 3 && choice == 4 && ms == 5 && share == 0.5);
}

TEST(a_choice_names_what_is_accepted)
{
	static const char *const roles[] = { "primary", "secondary", NULL };
	AUTO_CONF struct conf *conf = parse("[a]\nk = Secondary\nj = tertiary\n");
	size_t role = 9;

	assert_ok(conf_read_choice(conf_get(conf, "a", NULL, "k"), roles, &role, &err));
	assert_int_equal(role, 1);
	assert_fails(conf_read_choice(conf_get(conf, "a", NULL, "j"), roles, &role, &err),
		     ERR_CONFIG);
	assert_says("test.conf:3: a.j: ", "primary, secondary");
}

/* The path of an address may be all that proves a right. */
TEST(of_addresses_that_are_told_only_the_host_is_shown)
{
	AUTO_STR struct str out = STR_INIT;
	AUTO_CONF struct conf *conf =
		parse("[alert \"x\"]\nurl = https://u:CANARY@hooks.example/CANARY\n"
		      "heartbeat = http://h.example?CANARY\nrepeat = 1h\n"
		      "[alert \"y\"]\nurl = https://h.example/\n"
		      "[mirror \"m\"]\nthen = post https://h.example/CANARY\n"
		      "then = run make all\nurl = https://h.example/m.git\n"
		      "[replication]\nwebhook = https://h.example/CANARY\n");

	conf_render(conf, &out);
	assert_null(strstr(out.data, "CANARY"));
	assert_string_equal(out.data, "alert.x.url=https://***@hooks.example/***\n"
				      "alert.x.heartbeat=http://h.example/***\n"
				      "alert.x.repeat=1h\n"
				      "alert.y.url=https://h.example/\n"
				      "mirror.m.then=post https://h.example/***\n"
				      "mirror.m.then=run make all\n"
				      "mirror.m.url=https://h.example/m.git\n"
				      "replication.webhook=https://h.example/***\n");
}

TEST(the_rendered_configuration_hides_secrets)
{
	AUTO_STR struct str out = STR_INIT;
	AUTO_CONF struct conf *conf =
		parse("[a \"x.y\"]\npassword = CANARY\nApiTOKEN = CANARY\nsecret\n"
		      "clientSecret =\nsecretFile = /etc/x\nurl = https://u:CANARY@h/x\n"
		      "adminUrl = u:CANARY@h:x\nurl = u@h:x\n"
		      "database = postgresql://h/d?password=CANARY\nflag\nempty =\n"
		      "[b]\nlines = \"one\\n\\ttwo\\\\ \\\"\"\nblank = \" x\"\nplain = a "
		      "\\\"b\\\"\n");

	conf_render(conf, &out);
	assert_null(strstr(out.data, "CANARY"));
	assert_string_equal(out.data, "a.x.y.password=***\n"
				      "a.x.y.ApiTOKEN=***\n"
				      "a.x.y.secret\n"
				      "a.x.y.clientSecret=\n"
				      "a.x.y.secretFile=/etc/x\n"
				      "a.x.y.url=https://***@h/x\n"
				      "a.x.y.adminUrl=***@h:x\n"
				      "a.x.y.url=u@h:x\n"
				      "a.x.y.database=postgresql://h/d?password=***\n"
				      "a.x.y.flag\n"
				      "a.x.y.empty=\n"
				      "b.lines=\"one\\n\\ttwo\\\\ \\\"\"\n"
				      "b.blank=\" x\"\n"
				      "b.plain=a \"b\"\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_read_as_documented),
		cmocka_unit_test(sections_and_keys_ignore_case_and_subsections_do_not),
		cmocka_unit_test(the_last_value_counts_and_all_can_be_had),
		cmocka_unit_test(wrong_syntax_is_refused_with_its_line),
		cmocka_unit_test(a_nul_byte_is_refused),
		CASE(a_text_includes_nothing),
		CASE(an_include_counts_where_it_stands_and_from_its_own_directory),
		CASE(a_missing_include_names_the_line_that_wants_it),
		CASE(includes_go_ten_deep_and_no_deeper),
		cmocka_unit_test(booleans_take_the_words_of_git),
		cmocka_unit_test(numbers_sizes_durations_and_shares_are_exact),
		cmocka_unit_test(a_key_without_value_is_no_number),
		cmocka_unit_test(an_absent_key_leaves_the_default),
		cmocka_unit_test(a_choice_names_what_is_accepted),
		cmocka_unit_test(the_rendered_configuration_hides_secrets),
		cmocka_unit_test(of_addresses_that_are_told_only_the_host_is_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
