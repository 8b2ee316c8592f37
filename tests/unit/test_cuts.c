#include "publish_test.h"

#include "git/checksum.h"
#include "git/cuts.h"

#define A "1111111111111111111111111111111111111111\n"
#define B "2222222222222222222222222222222222222222\n"

static oid_list cuts;

static int parse(const char *text)
{
	vec_clear(&cuts);
	return cuts_parse(text, 20, &cuts, &err);
}

TEST(a_file_of_cuts_is_read_and_written_in_order)
{
	AUTO_STR struct str text = STR_INIT;

	assert_ok(parse(B A B));
	cuts_format(&cuts, &text);
	assert_string_equal(text.data, A B);
	assert_ok(parse(""));
	assert_int_equal(cuts.count, 0);
	vec_clear(&cuts);
}

TEST(a_damaged_file_of_cuts_says_where)
{
	static const char *const damaged[] = { "x\n",  A "nonsense\n", A "22222222",
					       A "\n", A B " ",        "1111\n" };

	for (size_t i = 0; i < ARRAY_SIZE(damaged); i++)
		assert_fails(parse(damaged[i]), ERR_CORRUPT);
	assert_fails(parse(A "nonsense\n"), ERR_CORRUPT);
	assert_non_null(strstr(err.text, "line 2"));
	vec_clear(&cuts);
}

/* The repository's, as a text. */
static void assert_shallow(const char *line, bool is_changing)
{
	AUTO_SNAPSHOT struct ref_snapshot wanted = REF_SNAPSHOT_INIT;
	AUTO_SNAPSHOT struct ref_snapshot found = REF_SNAPSHOT_INIT;

	refs_of(line, &wanted);
	read_refs(&found);
	assert_true(cuts_equal(&found.cuts, &wanted.cuts));
	assert_int_equal(found.is_cutting, is_changing);
}

TEST(cuts_of_somebody_else_are_none_of_ours)
{
	char text[OID_MAX_TEXT];
	AUTO_FREE char *line = xasprintf("%s\n", oid_text(&commits[2], text));
	AUTO_REPO struct repo repo = REPO_INIT;

	assert_publishes("refs/heads/main=3");
	write_text("shallow", line);
	assert_shallow("", false);
	assert_true(repo_is_diverted_by(repo_fd, "shallow"));
	assert_ok(repo_open(root_fd, "r.git", &repo, &err));
	assert_true(repo.is_shallow);
	assert_false(repo.is_cut);
	write_text("refrelay/cuts", "settled\n");
	assert_shallow("cut=2", false);
	assert_false(repo_is_diverted_by(repo_fd, "shallow"));
}

TEST(refs_and_cuts_are_published_together)
{
	assert_publishes("refs/heads/main=3 cut=3");
	assert_shallow("cut=3", false);
	AUTO_FREE char *count = output_of("git -C r.git rev-list --count main");
	assert_string_equal(count, "1\n");
	assert_publishes("refs/heads/main=4 refs/heads/b=2 cut=3 cut=2");
	assert_shallow("cut=2 cut=3", false);
	assert_publishes("refs/heads/main=4 refs/heads/b=2 cut=4 cut=2");
	assert_shallow("cut=4 cut=2", false);
	assert_publishes("refs/heads/main=4 refs/heads/b=2");
	assert_false(exists("shallow"));
	assert_false(exists("refrelay/cuts"));
}

/* One that changed them is a new state to whoever has something in a cache. */
TEST(another_depth_alone_changes_the_key)
{
	AUTO_FREE char *before = NULL, *after = NULL;

	assert_publishes("refs/heads/main=4 cut=4");
	before = output_of("cat r.git/refrelay/state/key");
	assert_publishes("refs/heads/main=4 cut=2");
	after = output_of("cat r.git/refrelay/state/key");
	assert_string_not_equal(before, after);
}

TEST(who_works_from_other_cuts_publishes_nothing)
{
	AUTO_SNAPSHOT struct ref_snapshot from = REF_SNAPSHOT_INIT,
					  to = REF_SNAPSHOT_INIT;

	assert_publishes("refs/heads/main=4 cut=4");
	refs_of("refs/heads/main=4 cut=3", &from);
	refs_of("refs/heads/main=5 cut=5", &to);
	from.has_packed_only = true;
	assert_fails(publish(&(struct publish_request){ .dir = repo_fd,
							.oid_len = 20,
							.from = &from,
							.to = &to,
							.fence = 1,
							.lock_wait_ms = WAIT_MS },
			     &err),
		     ERR_CONFLICT);
	assert_refs("refs/heads/main=4 cut=4");
}

/* What was half done is no state of the source. */
TEST(a_change_that_was_not_ended_is_not_read_as_a_moment)
{
	struct ref_reading reading;

	assert_publishes("refs/heads/main=4 cut=4");
	assert_ok(ref_reading_take(root_fd, "r.git", &reading, &err));
	assert_int_equal(reading.refs.cuts.count, 1);
	ref_reading_clear(&reading);
	write_text("refrelay/cuts", "changing\n");
	assert_fails(ref_reading_take(root_fd, "r.git", &reading, &err), ERR_CONFLICT);
	assert_publishes("refs/heads/main=4 cut=4");
	assert_ok(ref_reading_take(root_fd, "r.git", &reading, &err));
	ref_reading_clear(&reading);
}

static void sum_of(const char *line, bool of_refs, char text[CHECKSUM_TEXT_SIZE])
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;
	struct checksum sum;

	refs_of(line, &snapshot);
	of_refs ? checksum_of_refs(&snapshot, &sum) : checksum_of(&snapshot, &sum);
	checksum_format(&sum, text);
}

TEST(the_checksum_has_the_cuts_and_is_as_ever_without)
{
	char whole[CHECKSUM_TEXT_SIZE], cut[CHECKSUM_TEXT_SIZE],
		other[CHECKSUM_TEXT_SIZE];

	sum_of("refs/heads/main=4", false, whole);
	sum_of("refs/heads/main=4 cut=4", false, cut);
	assert_string_not_equal(whole, cut);
	sum_of("refs/heads/main=4 cut=3", false, other);
	assert_string_not_equal(cut, other);
	sum_of("refs/heads/main=4 cut=3", true, other);
	assert_string_equal(whole, other);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_of_cuts_is_read_and_written_in_order),
		cmocka_unit_test(a_damaged_file_of_cuts_says_where),
		GIT_CASE(cuts_of_somebody_else_are_none_of_ours),
		GIT_CASE(refs_and_cuts_are_published_together),
		GIT_CASE(another_depth_alone_changes_the_key),
		GIT_CASE(who_works_from_other_cuts_publishes_nothing),
		GIT_CASE(a_change_that_was_not_ended_is_not_read_as_a_moment),
		GIT_CASE(the_checksum_has_the_cuts_and_is_as_ever_without),
	};

	(void)argc;
	(void)argv;
	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
