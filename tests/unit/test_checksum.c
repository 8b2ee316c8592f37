#include "git_test.h"

#include "git/checksum.h"

static void sum_of(const char *line, struct checksum *sum)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;

	refs_of(line, &snapshot);
	checksum_of(&snapshot, sum);
}

static void assert_equal_sums(const char *left, const char *right)
{
	struct checksum one, two;

	sum_of(left, &one);
	sum_of(right, &two);
	assert_true(checksum_equal(&one, &two));
}

static void assert_different_sums(const char *left, const char *right)
{
	struct checksum one, two;

	sum_of(left, &one);
	sum_of(right, &two);
	assert_false(checksum_equal(&one, &two));
}

TEST(everything_that_a_snapshot_says_counts)
{
	const char *base = "HEAD=>refs/heads/a refs/heads/a=1 refs/heads/b=1";

	assert_equal_sums(base, "refs/heads/b=1 refs/heads/a=1 HEAD=>refs/heads/a");
	assert_different_sums(base, "HEAD=>refs/heads/b refs/heads/a=1 refs/heads/b=1");
	assert_different_sums(base, "HEAD=1 refs/heads/a=1 refs/heads/b=1");
	assert_different_sums(base, "HEAD=>refs/heads/a refs/heads/a=2 refs/heads/b=1");
	assert_different_sums(base, "HEAD=>refs/heads/a refs/heads/a=1");
	assert_different_sums(base, "HEAD=>refs/heads/a refs/heads/a=1 refs/heads/c=1");
	assert_different_sums(
		base, "HEAD=>refs/heads/a refs/heads/a=1 refs/heads/b=>refs/heads/a");
	assert_different_sums("refs/heads/s=>refs/heads/a", "refs/heads/s=>refs/heads/b");
	assert_different_sums("refs/a=1 refs/b=2", "refs/a=2 refs/b=1");
}

TEST(empty_repositories_differ_by_where_head_points)
{
	struct checksum none = { 0 }, sum;

	assert_equal_sums("", "HEAD=>refs/heads/main");
	assert_different_sums("", "HEAD=>refs/heads/master");
	sum_of("", &sum);
	assert_false(checksum_equal(&sum, &none));
}

TEST(changes_come_to_the_same_sum)
{
	static const char *const lines[] = {
		"",
		"HEAD=>refs/heads/a refs/heads/a=1 refs/heads/b=1",
		"HEAD=>refs/heads/a refs/heads/a=2 refs/heads/b=1",
		"HEAD=>refs/heads/a refs/heads/a=2 refs/heads/c=3",
		"HEAD=>refs/heads/c refs/heads/b=>refs/heads/a",
		"HEAD=4 refs/heads/b=>refs/heads/c refs/tags/t=t1",
		"HEAD=5 refs/heads/b=7",
	};
	struct checksum sum, wanted;

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(lines); j++) {
			AUTO_SNAPSHOT struct ref_snapshot before = REF_SNAPSHOT_INIT;
			AUTO_SNAPSHOT struct ref_snapshot after = REF_SNAPSHOT_INIT;
			AUTO_DIFF struct ref_diff diff = { 0 };
			refs_of(lines[i], &before);
			refs_of(lines[j], &after);
			ref_diff_compute(&before, &after, &diff);
			checksum_of(&before, &sum);
			checksum_of(&after, &wanted);
			checksum_apply(&sum, &before, &after, &diff);
			assert_true(checksum_equal(&sum, &wanted));
		}
	}
}

/* sha256("refrelay-1 ref: refs/heads/main HEAD\n") by coreutils. */
TEST(the_documented_line_is_what_is_hashed)
{
	struct checksum sum;
	char text[CHECKSUM_TEXT_SIZE];
	AUTO_FREE char *expected = output_of(
		"printf 'refrelay-1 ref: refs/heads/main HEAD\\n' | sha256sum | "
		"sed 's/^\\(.*\\)  -$/\\1/' | sed 's/../& /g' | tr ' ' '\\n' | "
		"grep . | tac | tr -d '\\n'");

	sum_of("", &sum);
	checksum_format(&sum, text);
	assert_int_equal(strlen(text), CHECKSUM_TEXT_SIZE - 1);
	assert_memory_equal(text, "1-", 2);
	assert_string_equal(text + 2, expected);
}

TEST(texts_are_read_back)
{
	struct checksum sum, again;
	char text[CHECKSUM_TEXT_SIZE];

	sum_of("refs/heads/main=1", &sum);
	checksum_format(&sum, text);
	assert_true(checksum_parse(text, &again));
	assert_true(checksum_equal(&sum, &again));
	sum = (struct checksum){ .sum = { 1 } };
	checksum_format(&sum, text);
	assert_string_equal(text,
			    "1-00000000000000000000000000000000000000000000000000000"
			    "00000000001");
	assert_true(checksum_parse(text, &again) && checksum_equal(&sum, &again));
}

TEST(other_texts_are_refused)
{
	static const char *const texts[] = {
		"",
		"1-",
		"2-0000000000000000000000000000000000000000000000000000000000000000",
		"0000000000000000000000000000000000000000000000000000000000000000",
		"1-000000000000000000000000000000000000000000000000000000000000000",
		"1-00000000000000000000000000000000000000000000000000000000000000000",
		"1-000000000000000000000000000000000000000000000000000000000000000g",
	};
	struct checksum sum;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_false(checksum_parse(texts[i], &sum));
}

static void assert_gitaly(const char *expected)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;
	char text[41];

	read_refs(&snapshot);
	checksum_gitaly(&snapshot, text);
	assert_string_equal(text, expected);
}

/* The example of research/gitaly.md, section 2, with its five values. */
TEST(gitaly_s_worked_example_comes_out)
{
	must("rm -rf r.git && git init -q --bare -b main r.git && cd r.git && "
	     "T=$(git mktree </dev/null) && C1=$(git commit-tree -m one $T) && "
	     "C2=$(git commit-tree -m two -p $C1 $T) && "
	     "C3=$(git commit-tree -m three -p $C2 $T) && git update-ref refs/x/c3 $C3 "
	     "&& "
	     "echo heads/main $C1 heads/feat/x $C2 keep-around/$C2 $C2 "
	     "merge-requests/1/head $C2 environments/1 $C1 notes/commits $C1 "
	     "pipelines/7 $C1 remotes/origin/main $C1 changes/01/1/1 $C2 | "
	     "xargs -n 2 sh -c 'git update-ref refs/$0 $1' && "
	     "git tag -a -m v1 v1.0 $C1");
	open_repo();
	assert_gitaly("820a5193442faef11fc3317c4c4147a68e07c7b1");
	must("cd r.git && git repack -adq && git pack-refs --all");
	assert_gitaly("820a5193442faef11fc3317c4c4147a68e07c7b1");
	must("cd r.git && git update-ref refs/heads/main refs/x/c3");
	assert_gitaly("5bd2bcafea5ae5a5c28b4f81ca12b8097363856b");
	must("cd r.git && git update-ref -d refs/heads/feat/x");
	assert_gitaly("f05f5674c5653be3aefc31fcc063d3f7af21ec2d");
	must("cd r.git && git update-ref refs/heads/new refs/changes/01/1/1");
	assert_gitaly("237361c6115403f0f5282e78883e89b0cfa31159");
	must("cd r.git && git symbolic-ref HEAD refs/heads/new");
	assert_gitaly("ab19a98f0183301fbbeccafad718e99afc014e3c");
}

TEST(gitaly_s_leading_zero_bytes_are_left_out)
{
	write_text("packed-refs", "f21f76b804422462e79f9f99d5b14856e130ed71 "
				  "refs/heads/b203\n");
	assert_gitaly("e0c8b55c106d3f9a338da2daf8d5b939ea4ac2");
}

TEST(nothing_that_gitaly_looks_at_is_forty_zeros)
{
	assert_gitaly("0000000000000000000000000000000000000000");
	write_text("packed-refs", "f21f76b804422462e79f9f99d5b14856e130ed71 "
				  "refs/remotes/origin/b\n");
	assert_gitaly("0000000000000000000000000000000000000000");
}

/* By the pipeline that research/gitaly.md gives, over what git prints. */
static void assert_peers_agree(void)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;
	AUTO_FREE char *sha1 =
		output_of("git -C r.git show-ref | sha1sum | cut -c 1-40 | tr -d '\\n'");
	AUTO_FREE char *gitaly = output_of(
		"git -C r.git show-ref --head | LC_ALL=C grep -aE 'HEAD|refs/(heads|tags|"
		"keep-around|merge-requests|environments|notes)/' | while IFS= read -r "
		"l; "
		"do printf '%%s' \"$l\" | sha1sum; done | perl -Mbigint -e 'my $x = 0; "
		"while (<>) { /^(\\w+)/; $x ^= hex(\"0x$1\"); } my $h = "
		"substr($x->as_hex, 2); $h = \"0$h\" if length($h) %% 2; "
		"print $x ? $h : \"0\" x 40'");
	char text[41];

	read_refs(&snapshot);
	checksum_grokmirror(&snapshot, text);
	assert_string_equal(text, sha1);
	checksum_gitaly(&snapshot, text);
	assert_string_equal(text, gitaly);
}

TEST(both_peers_agree_over_what_real_git_prints)
{
	must("cd r.git && for i in 1 2 3 4 5 6; do git update-ref refs/tags/v$i "
	     "$(git --git-dir=%s rev-parse v$i) && git update-ref refs/heads/b$i v$i^{} "
	     "&& git update-ref refs/pull/$i v$i^{}; done && "
	     "git symbolic-ref refs/remotes/origin/HEAD refs/heads/b2 && "
	     "git symbolic-ref refs/heads/none refs/heads/nowhere && "
	     "git update-ref refs/heads/\xff v1^{}",
	     store_path);
	assert_peers_agree();
	must("cd r.git && git symbolic-ref HEAD refs/heads/b3 && git pack-refs --all");
	assert_peers_agree();
	must("cd r.git && git update-ref --no-deref HEAD v4^{}");
	assert_peers_agree();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_that_a_snapshot_says_counts),
		cmocka_unit_test(empty_repositories_differ_by_where_head_points),
		cmocka_unit_test(changes_come_to_the_same_sum),
		GIT_CASE(the_documented_line_is_what_is_hashed),
		cmocka_unit_test(texts_are_read_back),
		cmocka_unit_test(other_texts_are_refused),
		GIT_CASE(gitaly_s_worked_example_comes_out),
		GIT_CASE(gitaly_s_leading_zero_bytes_are_left_out),
		GIT_CASE(nothing_that_gitaly_looks_at_is_forty_zeros),
		GIT_CASE(both_peers_agree_over_what_real_git_prints),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
