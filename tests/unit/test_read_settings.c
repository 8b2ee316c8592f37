#include "git_test.h"

#include "git/git_child.h"
#include "git/read_settings.h"

static struct str settings = STR_INIT;

static int setup(void **state)
{
	if (make_repo(state) != 0)
		return -1;
	assert_ok(git_setup(root, &err));
	return 0;
}

static int teardown(void **state)
{
	str_clear(&settings);
	return test_remove_root(state);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static int take(void)
{
	AUTO_REPO struct repo repo = REPO_INIT;

	str_reset(&settings);
	assert_ok(repo_open(root_fd, "r.git", &repo, &err));
	return read_settings_take(&repo, &settings, &err);
}

TEST(a_repository_without_such_settings_has_none)
{
	assert_ok(take());
	assert_string_equal(settings.data, "");
	must("rm r.git/config");
	assert_ok(take());
	assert_string_equal(settings.data, "");
}

TEST(only_what_readers_get_is_taken_in_its_order)
{
	must("cd r.git && "
	     "git config --add TRANSFER.hiderefs refs/a && "
	     "git config --add uploadpack.hideRefs '!refs/a/\"b\\' && "
	     "git config --add transfer.hideRefs refs/c && git config http.proxy x && "
	     "git config uploadpack.packObjectsHook evil && "
	     "git config http.https://x.uploadpack false && "
	     "printf '[http]\\n\\tuploadpack\\n' >>config");
	assert_ok(take());
	assert_string_equal(settings.data, "[transfer]\n\thideRefs = \"refs/a\"\n"
					   "[transfer]\n\thideRefs = \"refs/c\"\n"
					   "[uploadpack]\n\thideRefs = "
					   "\"!refs/a/\\\"b\\\\\"\n"
					   "[http]\n\tuploadpack\n");
}

TEST(what_is_included_counts)
{
	must("git config --file more transfer.hideRefs refs/a && cd r.git && "
	     "git config include.path %s/more && git config uploadpack.allowFilter no",
	     root);
	assert_ok(take());
	assert_string_equal(settings.data, "[transfer]\n\thideRefs = \"refs/a\"\n"
					   "[uploadpack]\n\tallowFilter = \"no\"\n");
}

TEST(too_much_is_refused)
{
	must("{ echo [transfer]; yes 'hideRefs = refs/heads/some/name' | head -n 30000; "
	     "} "
	     ">>r.git/config");
	assert_fails(take(), ERR_CONFIG);
	assert_string_equal(settings.data, "");
}

TEST(a_copy_gets_them_and_keeps_what_else_its_config_says)
{
	AUTO_FREE char *before = NULL;

	must("cd r.git && git config core.name 'a \"b\" \\ #;' && "
	     "git config 'remote.x \"y\\z.url' u && printf '[a]\\n\\tb\\n' >>config && "
	     "git config transfer.hideRefs refs/old && chmod 640 config");
	assert_ok(read_settings_put(repo_fd, "[http]\n\tuploadpack = \"false\"\n", &err));
	assert_ok(take());
	assert_string_equal(settings.data, "[http]\n\tuploadpack = \"false\"\n");
	must("cd r.git && test \"$(git config core.name)\" = 'a \"b\" \\ #;' && "
	     "test \"$(git config 'remote.x \"y\\z.url')\" = u && "
	     "test \"$(git config --type=bool a.b)\" = true && "
	     "test \"$(git config core.bare)\" = true && test $(stat -c %%a config) = "
	     "640");
	before = output_of("stat -c '%%i %%z' r.git/config");
	assert_ok(read_settings_put(repo_fd, settings.data, &err));
	AUTO_FREE char *after = output_of("stat -c '%%i %%z' r.git/config");
	assert_string_equal(before, after);
	assert_ok(read_settings_put(repo_fd, "", &err));
	assert_ok(take());
	assert_string_equal(settings.data, "");
}

#define HIDE(what) "[transfer]\n\thideRefs = \"" what "\"\n"
#define CLOSED "[http]\n\tuploadpack = \"no\"\n"
#define OPEN "[http]\n\tuploadpack = \"yes\"\n"
#define FILTER "[uploadpack]\n\tallowFilter = \"true\"\n"

/* Before its refs are those of its source. */
TEST(a_copy_may_hide_at_once_what_its_source_hides)
{
	static const struct {
		const char *now, *wanted, *all; /* NULL: there is nothing to do */
	} cases[] = {
		{ HIDE("refs/a"), HIDE("refs/a"), NULL },
		{ HIDE("refs/a"), "", NULL },
		{ HIDE("refs/a"), OPEN FILTER, NULL },
		{ "", HIDE("refs/a"), HIDE("refs/a") },
		{ "", HIDE("refs") HIDE("!refs/a"), HIDE("refs") HIDE("!refs/a") },
		{ FILTER HIDE("refs/a"), HIDE("refs/b") OPEN,
		  FILTER HIDE("refs/a") HIDE("refs/b") },
		{ FILTER HIDE("refs/a") HIDE("refs/b"), HIDE("refs/b") OPEN, NULL },
		{ OPEN, CLOSED, OPEN CLOSED },
		{ CLOSED, OPEN, NULL },
		{ "", CLOSED OPEN, NULL }, /* as where one of two files says so */
		{ OPEN, HIDE("refs/a") CLOSED OPEN, OPEN HIDE("refs/a") },
		{ "", OPEN CLOSED, OPEN CLOSED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_STR struct str all = STR_INIT;
		assert_ok(read_settings_put(repo_fd, cases[i].now, &err));
		int hides =
			read_settings_find_hiding(repo_fd, cases[i].wanted, &all, &err);
		assert_int_equal(hides, cases[i].all != NULL);
		if (hides)
			assert_string_equal(all.data, cases[i].all);
	}
}

/* What a copy has is never too much for its reader. */
TEST(very_many_rules_replace_those_that_were_there)
{
	AUTO_STR struct str many = STR_INIT;
	AUTO_STR struct str all = STR_INIT;

	while (many.len < READ_SETTINGS_MAX - 50)
		str_add(&many, HIDE("refs/a"));
	assert_ok(read_settings_put(repo_fd, HIDE("refs/b") HIDE("refs/c"), &err));
	assert_int_equal(read_settings_find_hiding(repo_fd, many.data, &all, &err), 1);
	assert_string_equal(all.data, many.data);
}

TEST(of_what_comes_from_elsewhere_only_known_keys_are_taken)
{
	static const char text[] = "[core]\n\thooksPath = /evil\n[transfer]\n"
				   "\thideRefs = refs/a\n\tfsckObjects = false\n";

	str_reset(&settings);
	assert_ok(read_settings_parse(text, strlen(text), &settings, &err));
	assert_string_equal(settings.data, "[transfer]\n\thideRefs = \"refs/a\"\n");
	assert_fails(read_settings_parse("[", 1, &settings, &err), ERR_CONFIG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_repository_without_such_settings_has_none),
		CASE(only_what_readers_get_is_taken_in_its_order),
		CASE(what_is_included_counts),
		CASE(too_much_is_refused),
		CASE(a_copy_gets_them_and_keeps_what_else_its_config_says),
		CASE(a_copy_may_hide_at_once_what_its_source_hides),
		CASE(very_many_rules_replace_those_that_were_there),
		CASE(of_what_comes_from_elsewhere_only_known_keys_are_taken),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
