#include "git_test.h"

#define HEADER "# pack-refs with: peeled fully-peeled sorted \n"
#define A "1111111111111111111111111111111111111111"
#define B "2222222222222222222222222222222222222222"

/* The parser takes its text over. */
static int parse(const char *text, size_t len, struct ref_snapshot *snapshot)
{
	char *copy = xmalloc(len + 1);

	memcpy(copy, text, len);
	copy[len] = '\0';
	return ref_parse_packed(snapshot, copy, len, 20, &err);
}

static void assert_damaged(const char *text, const char *said)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;

	assert_fails(parse(text, strlen(text), &snapshot), ERR_CORRUPT);
	if (!strstr(err.text, said))
		fail_msg("%s", err.text);
}

static void assert_round_trip(const char *path)
{
	AUTO_STR struct str before = STR_INIT;
	AUTO_STR struct str after = STR_INIT;
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;

	assert_ok(file_read(root_fd, path, 1 << 24, &before, &err));
	assert_ok(parse(before.data, before.len, &snapshot));
	ref_write_packed(&snapshot, &after);
	assert_string_equal(after.data, before.data);
}

TEST(what_git_packed_is_written_again_byte_for_byte)
{
	must("cd r.git && for i in 1 2 3 4 5 6; do git update-ref refs/tags/v$i "
	     "$(git --git-dir=%s rev-parse v$i); done && for n in a a-x c/b a.b A zz "
	     "\xc3\xa4 \xff; do git update-ref refs/heads/x-$n $(git --git-dir=%s "
	     "rev-parse main); done && git update-ref refs/other v6 && git pack-refs "
	     "--all --prune",
	     store_path, store_path);
	assert_round_trip("r.git/packed-refs");
}

TEST(an_empty_one_is_written_again_byte_for_byte)
{
	must("cd r.git && git update-ref refs/x $(git --git-dir=%s rev-parse main) && "
	     "git pack-refs --all && git update-ref -d refs/x",
	     store_path);
	assert_round_trip("r.git/packed-refs");
}

TEST(unknown_peels_are_not_claimed_to_be_known)
{
	static const char text[] = "# pack-refs with: sorted \n" A " refs/heads/a\n" B
				   " refs/tags/t\n^" A "\n";
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;
	AUTO_STR struct str after = STR_INIT;

	assert_ok(parse(text, sizeof(text) - 1, &snapshot));
	assert_int_equal(snapshot.refs.items[0].peel, REF_PEEL_UNKNOWN);
	assert_int_equal(snapshot.refs.items[1].peel, REF_PEEL_TAG);
	ref_write_packed(&snapshot, &after);
	assert_string_equal(after.data, text);
}

TEST(only_fully_peeled_says_that_the_others_are_no_tags)
{
	static const char text[] = "# pack-refs with: peeled sorted \n" A " refs/a\n";
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;

	assert_ok(parse(text, sizeof(text) - 1, &snapshot));
	assert_int_equal(snapshot.refs.items[0].peel, REF_PEEL_UNKNOWN);
	ref_snapshot_clear(&snapshot);
	assert_ok(parse(HEADER A " refs/a\n", strlen(HEADER A " refs/a\n"), &snapshot));
	assert_int_equal(snapshot.refs.items[0].peel, REF_PEEL_SELF);
}

TEST(symbolic_refs_are_left_out)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;
	AUTO_STR struct str text = STR_INIT;

	refs_of("refs/heads/s=>refs/heads/main", &snapshot);
	ref_write_packed(&snapshot, &text);
	assert_string_equal(text.data, HEADER);
}

TEST(peels_follow_their_refs_when_lines_are_sorted)
{
	static const char text[] = B " refs/tags/t\n^" A "\n" A " refs/heads/a\n";
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;

	assert_ok(parse(text, sizeof(text) - 1, &snapshot));
	assert_string_equal(snapshot.refs.items[0].name, "refs/heads/a");
	assert_int_equal(snapshot.refs.items[0].peel, REF_PEEL_UNKNOWN);
	assert_int_equal(snapshot.refs.items[1].peel, REF_PEEL_TAG);
}

TEST(damage_is_refused_and_its_line_is_named)
{
	assert_damaged(HEADER A " refs/heads/a", "line 2");
	assert_damaged(HEADER A " refs/heads/a\n" B " refs/he", "line 3");
	assert_damaged(HEADER "^" A "\n", "line 2");
	assert_damaged(HEADER A " refs/heads/a\n^" A "0\n", "line 3");
	assert_damaged(HEADER A " refs/heads/a\n^11\n", "line 3");
	assert_damaged(HEADER A "\n", "line 2");
	assert_damaged(HEADER A " \n", "line 2");
	assert_damaged(HEADER A "\trefs/heads/a\n", "line 2");
	assert_damaged(HEADER "x" A " refs/heads/a\n", "line 2");
	assert_damaged(HEADER "\n", "line 2");
	assert_damaged(HEADER "0000000000000000000000000000000000000000 refs/a\n",
		       "line 2");
	assert_damaged("<<<<<<< ours\n", "line 1");
}

TEST(a_zero_byte_within_a_name_is_damage)
{
	static const char text[] = HEADER A " refs/heads/a\0b\n";
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;

	assert_fails(parse(text, sizeof(text) - 1, &snapshot), ERR_CORRUPT);
}

TEST(a_name_that_comes_twice_is_refused_by_name)
{
	assert_damaged(HEADER A " refs/heads/a\n" B " refs/heads/a\n", "refs/heads/a");
	assert_damaged(HEADER A " refs/b\n" B " refs/a\n" B " refs/b\n", "refs/b");
}

TEST(names_that_git_would_not_take_are_dropped_with_their_peels)
{
	static const char text[] =
		HEADER A " refs/heads/a..b\n^" B "\n" A " HEAD\n" B " refs/heads/c\n";
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;

	assert_ok(parse(text, sizeof(text) - 1, &snapshot));
	assert_int_equal(snapshot.refs.count, 1);
	assert_string_equal(snapshot.refs.items[0].name, "refs/heads/c");
	assert_int_equal(snapshot.refs.items[0].peel, REF_PEEL_SELF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GIT_CASE(what_git_packed_is_written_again_byte_for_byte),
		GIT_CASE(an_empty_one_is_written_again_byte_for_byte),
		cmocka_unit_test(unknown_peels_are_not_claimed_to_be_known),
		cmocka_unit_test(only_fully_peeled_says_that_the_others_are_no_tags),
		cmocka_unit_test(symbolic_refs_are_left_out),
		cmocka_unit_test(peels_follow_their_refs_when_lines_are_sorted),
		cmocka_unit_test(damage_is_refused_and_its_line_is_named),
		cmocka_unit_test(a_zero_byte_within_a_name_is_damage),
		cmocka_unit_test(a_name_that_comes_twice_is_refused_by_name),
		cmocka_unit_test(
			names_that_git_would_not_take_are_dropped_with_their_peels),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
