#include "base/process.h"

#include "test.h"

static void limit_is(const char *path, const char *text)
{
	assert_ok(dir_make_parents(root_fd, path, &err));
	assert_ok(file_replace(root_fd, path, text, strlen(text), 0, &err));
}

static uint64_t limit_of(const char *groups)
{
	AUTO_FREE char *top = xasprintf("%s/top", root);

	return process_group_limit(groups, top);
}

TEST(without_a_limit_there_is_none)
{
	assert_true(limit_of("") == UINT64_MAX);
	assert_true(limit_of("0::/a/b\n") == UINT64_MAX);
	limit_is("top/a/b/memory.max", "max\n");
	assert_true(limit_of("0::/a/b\n") == UINT64_MAX);
}

TEST(the_least_limit_of_a_group_and_those_around_it_counts)
{
	limit_is("top/a/b/memory.max", "3000000\n");
	assert_int_equal(limit_of("0::/a/b\n"), 3000000);
	limit_is("top/a/memory.max", "2000000\n");
	assert_int_equal(limit_of("0::/a/b\n"), 2000000);
	limit_is("top/memory.max", "1000000\n"); /* as a container sees its own */
	assert_int_equal(limit_of("0::/a/b\n"), 1000000);
	assert_int_equal(limit_of("0::/\n"), 1000000);
	assert_true(limit_of("1:memory:/a/b\n") == UINT64_MAX);
}

TEST(groups_of_version_1_have_theirs_elsewhere)
{
	static const char groups[] = "5:cpu,cpuacct:/x\n4:memory:/a\n0::/a/b\n";

	limit_is("top/memory/memory.limit_in_bytes", "9223372036854771712\n");
	limit_is("top/memory/a/memory.limit_in_bytes", "700000\n");
	limit_is("top/memory/x/memory.limit_in_bytes", "1\n");
	assert_int_equal(limit_of(groups), 700000);
	limit_is("top/memory/memory-heavy/memory.limit_in_bytes", "2\n");
	assert_int_equal(limit_of("5:cpu:/memory-heavy\n4:memory:/a\n"), 700000);
}

TEST(this_process_has_some_memory)
{
	assert_true(process_memory_limit() > (1 << 20));
	assert_true(process_memory_limit() != UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(without_a_limit_there_is_none),
		CASE(the_least_limit_of_a_group_and_those_around_it_counts),
		CASE(groups_of_version_1_have_theirs_elsewhere),
		CASE(this_process_has_some_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
