#include "objects_test.h"

#include "git/descent.h"

/* Each is made in w; `tip` moved there from `old`. */
static const struct {
	const char *what, *commands, *tip, *old;
	enum descent found;
	size_t reads; /* no more than these */
} histories[] = {
	{ "the same", "true", "main", "main", DESCENT_YES, 0 },
	{ "forward by one", "c", "main", "main~1", DESCENT_YES, 2 },
	{ "forward by some", "for i in 1 2 3 4 5; do c; done", "main", "main~5",
	  DESCENT_YES, 6 },
	{ "amended", "c; git tag old; git commit -q --amend --allow-empty -m other",
	  "main", "old", DESCENT_NO, 3 },
	{ "amended at the end of a long history",
	  "chain 60; git tag old; "
	  "git commit -q --amend --allow-empty -m other",
	  "main", "old", DESCENT_NO, 4 },
	{ "taken back", "c; c; c; git tag old; git reset -q --hard main~2", "main", "old",
	  DESCENT_NO, 6 },
	{ "the old is merged into the new",
	  "c; git tag old; git checkout -q -b other main~1; c; "
	  "git merge -q --no-edit old",
	  "other", "old", DESCENT_YES, 6 },
	{ "the new is merged into the old",
	  "c; git tag new; git checkout -q -b other main~1; c; "
	  "git merge -q --no-edit new",
	  "new", "other", DESCENT_NO, 6 },
	{ "unrelated", "c; git checkout -q --orphan other; c; c", "other", "main",
	  DESCENT_NO, 6 },
	{ "two that have grown apart",
	  "git checkout -q -b other; for i in 1 2 3; do c; done; git checkout -q main; "
	  "for i in 1 2 3 4; do echo $i >x; c; done",
	  "main", "other", DESCENT_NO, 9 },
	{ "forward, by clocks that went backwards", "chain 20 '' 1599999999 -1", "main",
	  "main~20", DESCENT_YES, 22 },
	{ "rewritten, by clocks that went backwards",
	  "chain 20 '' 1599999999 -1; git tag old; "
	  "git reset -q --hard main~10; echo x >x; c 1000000000",
	  "main", "old", DESCENT_NO, 40 },
	{ "forward, from one of the future", "c 4000000000; c; c", "main", "main~2",
	  DESCENT_YES, 5 },
	{ "by a long way round",
	  "c; git tag old; git checkout -q -b other main~1; c 1900000000; "
	  "git merge -q --no-edit old; c; git checkout -q -b third main~1; "
	  "c 1950000000; git merge -q --no-edit other",
	  "third", "old", DESCENT_YES, 12 },
	{ "the new is no commit", "true", "main^{tree}", "main", DESCENT_NO, 2 },
	{ "the old is no commit", "true", "main", "main:f", DESCENT_NO, 2 },
};

static enum descent find(const char *tip, const char *old, size_t *left)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	AUTO_OBJECT_STORE struct object_store *store = NULL;
	oid_list tips = objects_of("w", tip), olds = objects_of("w", old);
	enum descent found;

	open_at("w/.git", &repo);
	assert_ok(object_store_open(&repo, &store, &err));
	found = descent_find(store, &tips.items[0], &olds.items[0], left);
	vec_clear(&tips);
	vec_clear(&olds);
	return found;
}

TEST(what_went_forward_is_told_from_what_was_rewritten)
{
	void *unused = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(histories); i++) {
		size_t left = MOST;
		must(WORK "%s", histories[i].commands);
		if (find(histories[i].tip, histories[i].old, &left) != histories[i].found)
			fail_msg("%s: the wrong answer", histories[i].what);
		if (MOST - left > histories[i].reads)
			fail_msg("%s: %zu commits were read", histories[i].what,
				 MOST - left);
		bool does = run("git -C w merge-base --is-ancestor '%s^{commit}' "
				"'%s^{commit}' 2>/dev/null",
				histories[i].old, histories[i].tip) == 0;
		if (does != (histories[i].found == DESCENT_YES))
			fail_msg("%s: git answers otherwise", histories[i].what);
		test_remove_root(&unused);
		make_work(&unused);
	}
}

TEST(beyond_the_bound_nothing_is_said)
{
	size_t left = 30;

	must(WORK "chain 50; git tag old main~40");
	assert_int_equal(find("main", "old", &left), DESCENT_UNKNOWN);
	assert_int_equal(left, 0);
	left = 42;
	assert_int_equal(find("main", "old", &left), DESCENT_YES);
	left = 0;
	assert_int_equal(find("main", "main~1", &left), DESCENT_UNKNOWN);
}

/* A commit may have as many parents as it likes. */
TEST(a_commit_of_very_many_parents_is_left_to_git)
{
	size_t left = 30;

	must(WORK "for i in $(seq 40); do set -- \"$@\" -p $(git commit-tree -m $i "
		  "main^{tree}); done; git tag many $(git commit-tree -m m \"$@\" -p "
		  "main main^{tree})");
	assert_int_equal(find("many", "main", &left), DESCENT_UNKNOWN);
	left = MOST;
	assert_int_equal(find("many", "main", &left), DESCENT_YES);
}

TEST(what_cannot_be_read_is_not_guessed)
{
	size_t left = MOST;

	must(WORK "c; c; c; git tag old main~3; o=$(git rev-parse main~1) && "
		  "rm -f .git/objects/${o%%%%${o#??}}/${o#??}");
	assert_int_equal(find("main", "old", &left), DESCENT_UNKNOWN);
}

/* What is below the old one is walked, too, so that the walk ends. */
TEST(one_that_was_rewritten_far_below_is_found_out)
{
	size_t left = MOST;

	must(WORK "chain 50; git tag old; "
		  "git reset -q --hard main~40; chain 40 x");
	assert_int_equal(find("main", "old", &left), DESCENT_NO);
	assert_true(MOST - left < 90);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORK_CASE(what_went_forward_is_told_from_what_was_rewritten),
		WORK_CASE(beyond_the_bound_nothing_is_said),
		WORK_CASE(a_commit_of_very_many_parents_is_left_to_git),
		WORK_CASE(what_cannot_be_read_is_not_guessed),
		WORK_CASE(one_that_was_rewritten_far_below_is_found_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
