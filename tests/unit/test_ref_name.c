#include "git_test.h"

struct name {
	const char *text;
	bool is_valid;
};

static const struct name names[] = {
	{ "refs/heads/main", true },
	{ "refs/x", true },
	{ "refs/heads/a/b/c", true },
	{ "refs/heads/@", true },
	{ "refs/heads/a@b", true },
	{ "refs/heads/@a}", true },
	{ "refs/heads/a{b", true },
	{ "refs/heads/a.b", true },
	{ "refs/heads/a./b", true },
	{ "refs/heads/a.lock.b", true },
	{ "refs/heads/lock", true },
	{ "refs/heads/a.LOCK", true },
	{ "refs/heads/-", true },
	{ "refs/heads/\xff\xfe", true },
	{ "refs/heads/\xc3\xa4", true },
	{ "refs/heads/\x80", true },
	{ "refs/refs/refs", true },
	{ "refs/heads/a!\"#$%&'()+,;<=>]_`|", true },
	{ "", false },
	{ "refs", false },
	{ "refs/", false },
	{ "refs//", false },
	{ "refs/heads/", false },
	{ "refs/heads//a", false },
	{ "/refs/heads/a", false },
	{ "HEAD", false },
	{ "heads/main", false },
	{ "refsx/heads/a", false },
	{ "Refs/heads/a", false },
	{ "refs/heads/.a", false },
	{ "refs/.heads/a", false },
	{ "refs/..", false },
	{ "refs/../a", false },
	{ "refs/heads/../a", false },
	{ "refs/heads/a..b", false },
	{ "refs/heads/a.", false },
	{ "refs/heads/a.lock", false },
	{ "refs/a.lock/b", false },
	{ "refs/heads/.lock", false },
	{ "refs/heads/a b", false },
	{ "refs/heads/a~b", false },
	{ "refs/heads/a^b", false },
	{ "refs/heads/a:b", false },
	{ "refs/heads/a?b", false },
	{ "refs/heads/a*b", false },
	{ "refs/heads/a[b", false },
	{ "refs/heads/a\\b", false },
	{ "refs/heads/a@{b", false },
	{ "refs/heads/a\tb", false },
	{ "refs/heads/a\nb", false },
	{ "refs/heads/a\x7f", false },
	{ "refs/heads/a\x01", false },
};

TEST(the_table_of_names_is_judged_as_documented)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (ref_name_is_valid(names[i].text) != names[i].is_valid)
			fail_msg("%s: should be %d", names[i].text, names[i].is_valid);
}

/* One shell for all of them; names come as octal escapes. */
static void add_question(struct str *script, const char *name)
{
	str_add(script, "git check-ref-format \"$(printf '");
	for (const char *at = name; *at; at++)
		str_addf(script, "\\%03o", (unsigned char)*at);
	str_add(script, "')\" && echo 1 || echo 0\n");
}

static void assert_git_agrees(char *const *list, size_t count)
{
	AUTO_STR struct str script = STR_INIT;

	for (size_t i = 0; i < count; i++)
		add_question(&script, list[i]);
	AUTO_FREE char *path = xasprintf("%s/script", root);
	assert_ok(file_replace(AT_FDCWD, path, script.data, script.len, FILE_NO_SYNC,
			       &err));
	AUTO_FREE char *answers = output_of("sh script");
	for (size_t i = 0; i < count; i++) {
		bool git = answers[2 * i] == '1' && text_starts_with(list[i], "refs/");
		if (text_ends_with(list[i], "\n"))
			continue; /* "$(...)" cuts it off */
		if (ref_name_is_valid(list[i]) != git)
			fail_msg("%s: git says %d", list[i], git);
	}
}

static void free_all(char **list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(list[i]);
}

TEST(git_agrees_on_the_table)
{
	char *list[ARRAY_SIZE(names)];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		list[i] = xstrdup(names[i].text);
	assert_git_agrees(list, ARRAY_SIZE(names));
	free_all(list, ARRAY_SIZE(names));
}

/* Mostly of bytes that matter, so that most rules are met. */
static char *random_name(void)
{
	static const char *const parts[] = { "/",  ".",    "..",   ".lock", "@{",
					     "@",  "{",    "~",    "^",     ":",
					     "?",  "*",    "[",    "\\",    " ",
					     "a",  "b",    "-",    "\x7f",  "/.",
					     "//", "\xff", "\x1f", "lock",  "x" };
	AUTO_STR struct str name = STR_INIT;
	long count = random() % 5;

	str_add(&name, random() % 8 ? "refs/heads/" : "refs/");
	for (long i = 0; i < count; i++) {
		if (random() % 6 == 0)
			str_add_char(&name, (char)(1 + random() % 255));
		else
			str_add(&name, parts[(size_t)random() % ARRAY_SIZE(parts)]);
	}
	return str_take(&name);
}

TEST(git_agrees_on_random_names)
{
	enum { NAMES = 500 };
	char *list[NAMES];

	srandom((unsigned)time(NULL));
	for (size_t i = 0; i < NAMES; i++)
		list[i] = random_name();
	assert_git_agrees(list, NAMES);
	free_all(list, NAMES);
}

TEST(a_name_is_below_another_only_at_a_slash)
{
	assert_true(ref_name_is_below("refs/heads/a/b", "refs/heads/a"));
	assert_true(ref_name_is_below("refs/heads/a/b/c", "refs/heads/a"));
	assert_false(ref_name_is_below("refs/heads/ab", "refs/heads/a"));
	assert_false(ref_name_is_below("refs/heads/a", "refs/heads/a"));
	assert_false(ref_name_is_below("refs/heads/a", "refs/heads/a/b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table_of_names_is_judged_as_documented),
		CASE(git_agrees_on_the_table),
		CASE(git_agrees_on_random_names),
		cmocka_unit_test(a_name_is_below_another_only_at_a_slash),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
