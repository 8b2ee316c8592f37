#include "test.h"

#include "push_conf.h"

static const struct push_remote *remote(const char *keys)
{
	AUTO_FREE char *text = xasprintf("[remote \"r\"]\n"
					 "url = git://h/${name}.git\n%s\n",
					 keys);

	assert_ok(read_settings(text));
	assert_int_equal(settings->remotes.count, 1);
	return &settings->remotes.items[0];
}

static void assert_maps(const struct push_remote *to, const char *ref, const char *dst)
{
	AUTO_FREE char *found = NULL;
	bool force;

	if (!push_remote_maps(to, ref, &found, &force)) {
		if (dst)
			fail_msg("%s is not mapped", ref);
		return;
	}
	if (!dst)
		fail_msg("%s is mapped to %s", ref, found);
	assert_string_equal(found, dst);
}

TEST(without_push_all_refs_go_where_they_are)
{
	const struct push_remote *to = remote("");

	assert_maps(to, "refs/heads/main", "refs/heads/main");
	assert_maps(to, "refs/changes/01/1/meta", "refs/changes/01/1/meta");
	assert_maps(to, "refs/meta/config", "refs/meta/config");
	assert_false(to->specs.items[0].force);
	assert_ok(read_settings("[gerrit]\ndefaultForceUpdate = true\n"
				"[remote \"r\"]\nurl = git://h/${name}\n"));
	assert_true(settings->remotes.items[0].specs.items[0].force);
}

TEST(the_first_spec_that_matches_decides)
{
	const struct push_remote *to = remote("push = refs/heads/main:refs/heads/trunk\n"
					      "push = +refs/heads/*:refs/mirror/*\n"
					      "push = refs/heads/*:refs/heads/*\n"
					      "push = refs/tags/v*-final:refs/tags/*\n"
					      "push = refs/notes/commits");
	bool force;
	char *dst;

	assert_maps(to, "refs/heads/main", "refs/heads/trunk");
	assert_maps(to, "refs/heads/a/b", "refs/mirror/a/b");
	assert_maps(to, "refs/heads/", NULL);
	assert_maps(to, "refs/changes/01/1/1", NULL);
	assert_maps(to, "refs/tags/v1-final", "refs/tags/1");
	assert_maps(to, "refs/tags/v-final", NULL);
	assert_maps(to, "refs/notes/commits", "refs/notes/commits");
	assert_true(push_remote_maps(to, "refs/heads/x", &dst, &force) && force);
	free(dst);
	assert_true(push_remote_maps(to, "refs/heads/main", &dst, &force) && !force);
	free(dst);
}

TEST(what_jgit_refuses_is_refused_with_its_line)
{
	static const char *const specs[] = {
		"refs/heads/*",
		"refs/heads/*:refs/heads/main",
		"refs/heads/main:refs/heads/*",
		"refs/*/*:refs/*/*",
		"/refs/heads/a:refs/heads/a",
		"refs/heads/a/:refs/heads/a",
		"refs//a",
		":refs/heads/a",
		":",
		"^refs/heads/a",
		"",
		"+",
		"refs/heads/*:mirror/*",
		"refs/heads/a:",
	};

	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		AUTO_FREE char *text = xasprintf("[remote \"r\"]\nurl = git://h/${name}\n"
						 "push = \"%s\"\n",
						 specs[i]);
		assert_fails(read_settings(text), ERR_CONFIG);
		assert_non_null(strstr(err.text, "t.conf:3: remote.r.push: "));
	}
}

TEST(some_refs_are_never_pushed)
{
	const struct push_remote *to = remote("replicatePermissions = false\n"
					      "replicateNoteDbMetaRefs = false\n"
					      "excludedRefsPattern = refs/users/.*\n"
					      "excludedRefsPattern = ^refs/tags/[\n"
					      "excludedRefsPattern = .*/tmp");

	assert_maps(to, "refs/cache-automerge/01/abc", NULL);
	assert_maps(to, "refs/refrelay/state", NULL);
	assert_maps(to, "refs/meta/config", NULL);
	assert_maps(to, "refs/meta/other", "refs/meta/other");
	assert_maps(to, "refs/changes/01/1/meta", NULL);
	assert_maps(to, "refs/changes/01/1/robot-comments", NULL);
	assert_maps(to, "refs/changes/01/1/1", "refs/changes/01/1/1");
	assert_maps(to, "refs/heads/meta", "refs/heads/meta");
	assert_maps(to, "refs/draft-comments/01/1/1", NULL);
	assert_maps(to, "refs/starred-changes/01/1/1", NULL);
	assert_maps(to, "refs/users/01/1", NULL);
	assert_maps(to, "refs/heads/tmp", NULL);
	assert_maps(to, "refs/heads/tmp2", "refs/heads/tmp2");
	assert_maps(to, "refs/tags/a", "refs/tags/a");
	assert_int_equal(settings->notes.count, 1);
	assert_non_null(strstr(settings->notes.items[0], "t.conf:6: "));
}

TEST(names_that_are_not_utf_8_are_left_out_all_the_same)
{
	const struct push_remote *to = remote("excludedRefsPattern = refs/secret/.*\n"
					      "excludedRefsPattern = refs/one/.\n");

	assert_maps(to, "refs/secret/\xff\xfe", NULL);
	assert_maps(to, "refs/one/\xff", NULL);
	assert_maps(to, "refs/one/\xc3\xa9", NULL);
	assert_maps(to, "refs/one/ab", "refs/one/ab");
}

/* Scenario 31, and the rest of the rules. */
TEST(project_patterns_are_prefixes_names_and_java_s_expressions)
{
	static const struct {
		const char *name;
		bool is_taken;
	} table[] = { { "a/1", true },   { "b/x", true },        { "c", true },
		      { "b/y", true },   { "a/private", false }, { "b/x2", false },
		      { "cc", false },   { "A/1", false },       { "a", false },
		      { "bb/x", false }, { "a/private2", true }, { "d/7/e", true },
		      { "d/x/e", false } };
	const struct push_remote *to = remote("projects = a/*\n"
					      "projects = ^b/(x|y)\n"
					      "projects = c\n"
					      "projects = ^d/\\\\d+/.*+\n"
					      "excludeProjects = a/private");

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (push_remote_takes(to, table[i].name) != table[i].is_taken)
			fail_msg("%s", table[i].name);
}

TEST(an_expression_with_a_star_at_its_end_is_no_prefix)
{
	const struct push_remote *to = remote("projects = ^a|b*");

	assert_true(push_remote_takes(to, "a"));
	assert_true(push_remote_takes(to, "bbb"));
	assert_false(push_remote_takes(to, "ab"));
	assert_false(push_remote_takes(to, "b1"));
}

/* It would take longer than the sun lasts. */
TEST(a_hostile_expression_ends_and_errs_to_the_side_of_less)
{
	const struct push_remote *to = remote("projects = ^(a+)+x\n"
					      "projects = z*\n");

	assert_false(push_remote_takes(to, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabx"));
	assert_true(push_remote_takes(to, "aax"));
	assert_true(push_remote_takes(to, "z1"));
	to = remote("excludeProjects = ^(a+)+x");
	assert_false(push_remote_takes(to, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabx"));
	assert_true(push_remote_takes(to, "b"));
}

TEST(expressions_that_mean_another_thing_in_java_are_refused)
{
	static const char *const lines[] = {
		"projects = ^a(",
		"projects = \"^[a-z&&[^b]]\"",
		"projects = \"^[a[bc]]\"",
		"excludeProjects = ^*",
	};

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		AUTO_FREE char *text = xasprintf("[remote \"r\"]\nurl = git://h/${name}\n"
						 "%s\n",
						 lines[i]);
		assert_fails(read_settings(text), ERR_CONFIG);
		assert_non_null(strstr(err.text, "t.conf:3: "));
	}
	remote("projects = \"^a&&b\"\nprojects = \"^\\\\Q[a[b\\\\E\\\\[[ab]\"");
	assert_true(push_remote_takes(&settings->remotes.items[0], "a&&b"));
	assert_true(push_remote_takes(&settings->remotes.items[0], "[a[b[b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SETTINGS_CASE(without_push_all_refs_go_where_they_are),
		SETTINGS_CASE(the_first_spec_that_matches_decides),
		SETTINGS_CASE(what_jgit_refuses_is_refused_with_its_line),
		SETTINGS_CASE(some_refs_are_never_pushed),
		SETTINGS_CASE(names_that_are_not_utf_8_are_left_out_all_the_same),
		SETTINGS_CASE(project_patterns_are_prefixes_names_and_java_s_expressions),
		SETTINGS_CASE(an_expression_with_a_star_at_its_end_is_no_prefix),
		SETTINGS_CASE(a_hostile_expression_ends_and_errs_to_the_side_of_less),
		SETTINGS_CASE(expressions_that_mean_another_thing_in_java_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
