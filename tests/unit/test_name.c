#include "test.h"

#include "replicable/name.h"

TEST(names_are_checked_at_the_door)
{
	static const struct {
		const char *name;
		bool good;
	} table[] = {
		{ "a", true },
		{ "group/sub group/repo-1.x", true },
		{ "gr\xc3\xbc\xc3\x9f", true },
		{ "..a/b..", true },
		{ "x.git/y", true },
		{ ".refrelay2", true },
		{ "a/.refrelay", true },
		{ "", false },
		{ "/a", false },
		{ "a/", false },
		{ "a//b", false },
		{ ".", false },
		{ "a/./b", false },
		{ "..", false },
		{ "../a", false },
		{ "a/../../etc", false },
		{ ".git", false },
		{ "a/.git/b", false },
		{ "new\nline", false },
		{ "del\x7f", false },
		{ "latin\xfc", false },
		{ ".refrelay", false },
		{ ".refrelay/trash/x", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if ((name_check(table[i].name, &err) == 0) != table[i].good)
			fail_msg("\"%s\"", table[i].name);
}

TEST(long_names_are_refused_before_a_file_system_refuses_them)
{
	char part[252], name[1100];

	memset(part, 'p', sizeof(part));
	part[250] = '\0';
	assert_ok(name_check(part, &err));
	part[250] = 'p';
	part[251] = '\0';
	assert_fails(name_check(part, &err), ERR_CONFIG);
	for (size_t i = 0; i < sizeof(name); i++)
		name[i] = i % 2 ? '/' : 'x';
	name[1024] = '\0';
	name[1023] = 'x';
	assert_ok(name_check(name, &err));
	name[1024] = 'x';
	name[1025] = '\0';
	assert_fails(name_check(name, &err), ERR_CONFIG);
}

TEST(a_name_has_no_trailing_git_and_a_copy_always_has_it)
{
	AUTO_FREE char *usual = name_of_path("group/r.git");
	AUTO_FREE char *bare = name_of_path("group/r");
	AUTO_FREE char *only = name_of_path("group/.git");
	AUTO_FREE char *path = name_to_path("group/r");

	assert_string_equal(usual, "group/r");
	assert_string_equal(bare, "group/r");
	assert_string_equal(only, "group/.git");
	assert_string_equal(path, "group/r.git");
}

TEST(a_name_in_a_command_to_paste_is_one_operand)
{
	static const char *const table[][2] = {
		{ "group/r-1.x", "group/r-1.x" },
		{ "--all", "-- --all" },
		{ "a;b", "'a;b'" },
		{ "-a $(b)", "-- '-a $(b)'" },
		{ "it's", "'it'\\''s'" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_FREE char *operand = name_to_operand(table[i][0]);
		assert_string_equal(operand, table[i][1]);
	}
}

TEST(a_remedy_has_no_command_that_is_cut)
{
	char name[sizeof(err.remedy) - sizeof("do ") + 2];

	memset(name, 'a', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	name_remedy(&err, "do", name);
	assert_string_equal(err.remedy, "do NAME");
	name[sizeof(name) - 2] = '\0'; /* without this one it just fits */
	name_remedy(&err, "do", name);
	assert_string_equal(err.remedy + strlen("do "), name);
	name[0] = ';'; /* the quotes count */
	name_remedy(&err, "do", name);
	assert_string_equal(err.remedy, "do NAME");
}

/* Fixed: other processes, nodes and versions must come to the same number. */
TEST(an_id_follows_from_kind_and_name_alone)
{
	/* printf repository:group/r | sha256sum, its first 16 digits, shifted by two */
	assert_true(replicable_id("repository", "group/r") ==
		    UINT64_C(0xf07855f023981a25) >> 2);
	assert_true(replicable_id("lfs", "group/r") !=
		    replicable_id("repository", "group/r"));
	assert_true(replicable_id("repository", "a") >> 62 == 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(names_are_checked_at_the_door),
		CASE(long_names_are_refused_before_a_file_system_refuses_them),
		CASE(a_name_has_no_trailing_git_and_a_copy_always_has_it),
		CASE(a_name_in_a_command_to_paste_is_one_operand),
		CASE(a_remedy_has_no_command_that_is_cut),
		CASE(an_id_follows_from_kind_and_name_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
