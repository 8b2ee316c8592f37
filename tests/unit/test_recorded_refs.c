#include "git_test.h"

#include "change/recorded_refs.h"
#include "git/checksum.h"

#define LARGE 2000
#define ID 7

static struct ref_snapshot now;
static char sum[CHECKSUM_TEXT_SIZE];

static void take_sum(void)
{
	struct checksum checksum;

	checksum_of(&now, &checksum);
	checksum_format(&checksum, sum);
}

static int make_recorded(void **state)
{
	if (make_repo(state) != 0)
		return -1;
	write_large("r.git/packed-refs", LARGE);
	read_refs(&now);
	take_sum();
	assert_ok(recorded_refs_write(root, ID, sum, &now, &err));
	return 0;
}

static int remove_recorded(void **state)
{
	ref_snapshot_clear(&now);
	return test_remove_root(state);
}

#define RECORDED_CASE(name)                                                              \
	cmocka_unit_test_setup_teardown(name, make_recorded, remove_recorded)

static bool is_recorded(void)
{
	AUTO_SNAPSHOT struct ref_snapshot found = REF_SNAPSHOT_INIT;
	AUTO_DIFF struct ref_diff diff = { 0 };

	if (!recorded_refs_read(root, ID, sum, 20, &found))
		return false;
	ref_diff_compute(&found, &now, &diff);
	assert_true(ref_diff_is_empty(&diff));
	return true;
}

/* What git's command makes of the repository; whether it could be appended. */
static bool append_after(const char *command)
{
	struct ref_snapshot before = now;
	AUTO_DIFF struct ref_diff diff = { 0 };
	char before_sum[CHECKSUM_TEXT_SIZE];

	memcpy(before_sum, sum, sizeof(sum));
	must("cd r.git && %s", command);
	read_refs(&now);
	take_sum();
	ref_diff_compute(&before, &now, &diff);
	bool is_done =
		recorded_refs_append(root, ID,
				     &(struct recorded_change){ .before_sum = before_sum,
								.after_sum = sum,
								.diff = &diff,
								.after = &now });
	ref_diff_clear(&diff);
	ref_snapshot_clear(&before);
	return is_done;
}

static off_t recorded_size(void)
{
	struct stat st;

	assert_int_equal(fstatat(root_fd, "refs/7", &st, 0), 0);
	return st.st_size;
}

#define SET(name, value) "git update-ref refs/heads/" name " refs/heads/large/" value

TEST(changes_are_appended_and_read_back)
{
	static const char *const commands[] = {
		SET("large/000000", "000005"),
		SET("large/000000", "000006"),
		SET("a", "000005"),
		SET("z", "000005"),
		"git update-ref -d refs/heads/a",
		SET("a", "000007"),
		"git update-ref -d refs/heads/large/001999",
		"git update-ref -d refs/heads/large/000001",
		"git symbolic-ref HEAD refs/heads/z",
		"git symbolic-ref refs/heads/s refs/heads/a",
		"git update-ref --no-deref HEAD refs/heads/a",
		SET("s", "000009"),
		"git symbolic-ref HEAD refs/heads/main",
		"true",
	};
	off_t whole = recorded_size();

	assert_true(is_recorded());
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		assert_true(append_after(commands[i]));
		assert_true(is_recorded());
	}
	assert_true(recorded_size() < whole + 6000);
}

TEST(what_does_not_follow_is_not_appended)
{
	assert_true(append_after(SET("a", "000001")));
	memset(sum + 2, '0', 64);
	assert_false(append_after(SET("a", "000002")));
	assert_false(is_recorded());
}

TEST(a_record_that_is_not_there_is_to_be_written)
{
	recorded_refs_remove(root, ID);
	assert_false(append_after(SET("a", "000001")));
}

TEST(a_torn_end_is_not_believed)
{
	assert_true(append_after(SET("a", "000001")));
	off_t one = recorded_size();
	assert_true(append_after(SET("a", "000002")));
	off_t two = recorded_size();
	for (off_t size = two - 1; size > one; size -= 7) {
		must("truncate -s %jd refs/7", (intmax_t)size);
		assert_false(is_recorded());
	}
	assert_false(append_after(SET("a", "000003")));
	assert_ok(recorded_refs_write(root, ID, sum, &now, &err));
	assert_true(is_recorded());
}

TEST(a_damaged_byte_is_not_believed)
{
	assert_true(append_after(SET("large/000003", "000001")));
	must("sed -i '$!b;s/./x/40' refs/7");
	assert_false(is_recorded());
	assert_ok(recorded_refs_write(root, ID, sum, &now, &err));
	assert_true(append_after(SET("large/000003", "000002")));
	must("sed -i 's,refs/heads/large/000100$,refs/heads/large/00010x,' refs/7");
	assert_false(is_recorded());
	assert_ok(recorded_refs_write(root, ID, sum, &now, &err));
	assert_true(append_after(SET("large/000003", "000004")));
	must("tac refs/7 | sed '2s,large/000003$,large/00000x,' | tac >x && cat x "
	     ">refs/7");
	assert_false(is_recorded());
}

/* A quarter of the file is the bound. */
TEST(too_many_changes_are_to_be_written_whole)
{
	off_t whole = recorded_size();
	size_t count = 0;

	while (append_after(count % 2 ? SET("a", "000001") : SET("a", "000002")))
		assert_true(++count < 1000);
	assert_true(count > 20);
	assert_true(recorded_size() <= whole + whole / 4);
	assert_false(is_recorded());
	assert_ok(recorded_refs_write(root, ID, sum, &now, &err));
	assert_true(append_after(SET("a", "000003")));
	assert_true(is_recorded());
}

TEST(changes_of_few_refs_are_appended_too)
{
	size_t count = 0;

	must("cd r.git && git update-ref refs/heads/a refs/heads/large/000001 &&"
	     " git update-ref refs/heads/b refs/heads/large/000002 && rm packed-refs");
	ref_snapshot_clear(&now);
	read_refs(&now);
	take_sum();
	assert_ok(recorded_refs_write(root, ID, sum, &now, &err));
	off_t whole = recorded_size();
	while (append_after(count % 2 ? "git update-ref -d refs/heads/c"
				      : "git update-ref refs/heads/c refs/heads/b")) {
		assert_true(is_recorded());
		assert_true(++count < 1000);
	}
	assert_true(count > 20);
	assert_true(recorded_size() <= whole + (12 << 10));
}

/* Its first line had two words. */
TEST(what_an_earlier_version_wrote_is_read)
{
	must("sed -i '1s/ [0-9]*$//' refs/7");
	assert_true(is_recorded());
	assert_false(append_after(SET("a", "000001")));
}

TEST(what_a_kill_left_half_written_is_removed)
{
	must("touch refs/7.tmp-0123456789abcdef refs/8.tmp-0123456789abcde refs/9");
	recorded_refs_sweep(root);
	must("test \"$(cd refs && echo *)\" = '7 8.tmp-0123456789abcde 9'");
	assert_true(is_recorded());
	must("rm -r refs");
	recorded_refs_sweep(root);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RECORDED_CASE(changes_are_appended_and_read_back),
		RECORDED_CASE(what_does_not_follow_is_not_appended),
		RECORDED_CASE(a_record_that_is_not_there_is_to_be_written),
		RECORDED_CASE(a_torn_end_is_not_believed),
		RECORDED_CASE(a_damaged_byte_is_not_believed),
		RECORDED_CASE(too_many_changes_are_to_be_written_whole),
		RECORDED_CASE(changes_of_few_refs_are_appended_too),
		RECORDED_CASE(what_an_earlier_version_wrote_is_read),
		RECORDED_CASE(what_a_kill_left_half_written_is_removed),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
