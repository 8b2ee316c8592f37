#include "git_test.h"

#include "git/refs.h"

/* One change as text: "+name", "-name" or "~name". */
static char *diff_text(const char *from, const char *to)
{
	AUTO_SNAPSHOT struct ref_snapshot before = REF_SNAPSHOT_INIT;
	AUTO_SNAPSHOT struct ref_snapshot after = REF_SNAPSHOT_INIT;
	AUTO_DIFF struct ref_diff diff = { 0 };
	AUTO_STR struct str text = STR_INIT;
	size_t deletions = 0;

	refs_of(from, &before);
	refs_of(to, &after);
	ref_diff_compute(&before, &after, &diff);
	for (size_t i = 0; i < diff.changes.count; i++) {
		const struct ref_change *change = &diff.changes.items[i];
		const char *sign = !change->before ? "+" : !change->after ? "-" : "~";
		deletions += *sign == '-';
		str_addf(&text, "%s%s ", sign, strrchr(change->name, '/') + 1);
	}
	str_add(&text, diff.head_changed ? "HEAD " : "");
	str_add(&text, diff.symbolic_changed ? "symbolic" : "");
	assert_int_equal(diff.deletions, deletions);
	assert_int_equal(ref_diff_is_empty(&diff),
			 diff.changes.count == 0 && !diff.head_changed);
	return str_take(&text);
}

static void assert_diff(const char *from, const char *to, const char *expected)
{
	AUTO_FREE char *text = diff_text(from, to);

	assert_string_equal(text, expected);
}

TEST(equal_snapshots_differ_in_nothing)
{
	assert_diff("", "", "");
	assert_diff("refs/heads/a=1 refs/tags/t=t1", "refs/heads/a=1 refs/tags/t=t1", "");
	assert_diff("HEAD=3", "HEAD=3", "");
}

TEST(created_deleted_and_moved_refs_are_named_in_order)
{
	assert_diff("", "refs/heads/b=1 refs/heads/a=1", "+a +b ");
	assert_diff("refs/heads/a=1 refs/heads/b=1", "", "-a -b ");
	assert_diff("refs/heads/a=1 refs/heads/c=1 refs/heads/d=1",
		    "refs/heads/b=1 refs/heads/c=2 refs/heads/d=1", "-a +b ~c ");
	assert_diff("refs/heads/a=1", "refs/heads/a-x=1 refs/heads/a/b=1", "-a +a-x +b ");
}

TEST(heads_differ_by_target_or_object)
{
	assert_diff("", "HEAD=>refs/heads/x", "HEAD ");
	assert_diff("", "HEAD=1", "HEAD ");
	assert_diff("HEAD=1", "", "HEAD ");
	assert_diff("HEAD=1", "HEAD=2", "HEAD ");
	assert_diff("refs/heads/main=1", "refs/heads/main=2", "~main ");
}

TEST(symbolic_refs_are_noticed_on_either_side)
{
	assert_diff("refs/heads/s=>refs/heads/a", "refs/heads/s=>refs/heads/b",
		    "~s symbolic");
	assert_diff("refs/heads/s=1", "refs/heads/s=>refs/heads/b", "~s symbolic");
	assert_diff("refs/heads/s=>refs/heads/b", "refs/heads/s=1", "~s symbolic");
	assert_diff("refs/heads/s=>refs/heads/b", "", "-s symbolic");
	assert_diff("", "refs/heads/s=>refs/heads/b", "+s symbolic");
	assert_diff("refs/heads/s=>refs/heads/b", "refs/heads/s=>refs/heads/b", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_snapshots_differ_in_nothing),
		cmocka_unit_test(created_deleted_and_moved_refs_are_named_in_order),
		cmocka_unit_test(heads_differ_by_target_or_object),
		cmocka_unit_test(symbolic_refs_are_noticed_on_either_side),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
