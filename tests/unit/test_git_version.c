#include "git_test.h"

#include "git/git_child.h"

static char version[GIT_VERSION_SIZE], again[GIT_VERSION_SIZE];
static char *path_before;

static int setup(void **state)
{
	path_before = xstrdup(getenv("PATH"));
	return test_make_root(state);
}

static int teardown(void **state)
{
	setenv("PATH", path_before, 1);
	free(TAKE(path_before));
	return test_remove_root(state);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Puts a program in git's place that writes this down each time it is asked. */
static void put_git(const char *script)
{
	AUTO_FREE char *path = xasprintf("%s:%s", root, path_before);

	must("printf '#!/bin/sh\\necho asked >>%s/asked\\n%s\\n' >new && chmod +x new && "
	     "mv new git",
	     root, script);
	setenv("PATH", path, 1);
}

TEST(it_is_what_git_says)
{
	AUTO_FREE char *said = output_of("git --version");

	said[strcspn(said, "\n")] = '\0';
	git_version(version);
	assert_string_equal(version, said);
}

TEST(git_is_asked_again_only_when_another_one_is_there)
{
	put_git("echo git version 9.1");
	git_version(version);
	git_version(version);
	assert_string_equal(version, "git version 9.1");
	must("test $(wc -l <asked) = 1");
	put_git("echo git version 9.2");
	git_version(version);
	assert_string_equal(version, "git version 9.2");
}

TEST(a_git_that_does_not_say_has_no_version_twice)
{
	static const char *const scripts[] = { "exit 1", "echo nonsense", "exec yes" };

	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
		put_git(scripts[i]);
		git_version(version);
		git_version(again);
		assert_true(strlen(version) >= 32);
		assert_string_not_equal(version, again);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(it_is_what_git_says),
		CASE(git_is_asked_again_only_when_another_one_is_there),
		CASE(a_git_that_does_not_say_has_no_version_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
