/*
 * Refs written beside stock git, which looks afterwards; and a helper that is killed on
 * the way.
 */
#include "git_test.h"

#include "git/foreign_refs.h"

#define OWNER "refrelay-push-test"

static struct ref_snapshot seen;
static struct foreign_refs refs;

static void look(void)
{
	ref_snapshot_clear(&seen);
	assert_ok(foreign_refs_read(repo_fd, OWNER, &seen, &refs, &err));
}

static bool write_ref(const char *name, int commit)
{
	bool is_written = foreign_refs_write(&refs, name, &commits[commit]);

	if (is_written)
		assert_ok(foreign_refs_sync(&refs, name, &err));
	must("test -z \"$(cd r.git && find . -name '*.lock' -o -name " OWNER ")\"");
	return is_written;
}

static void set_ref(const char *name, int commit)
{
	char text[OID_MAX_TEXT];

	must("git -C r.git update-ref %s %s", name, oid_text(&commits[commit], text));
}

static int make_foreign(void **state)
{
	if (make_repo(state) != 0)
		return -1;
	set_ref("refs/heads/main", 1);
	set_ref("refs/heads/packed/deep", 2);
	must("git -C r.git pack-refs --all");
	set_ref("refs/heads/loose", 3);
	return 0;
}

static int clear_foreign(void **state)
{
	ref_snapshot_clear(&seen);
	return test_remove_root(state);
}

#define FOREIGN_CASE(name)                                                               \
	cmocka_unit_test_setup_teardown(name, make_foreign, clear_foreign)

TEST(refs_are_made_and_moved)
{
	look();
	assert_true(write_ref("refs/heads/main", 4));
	assert_true(write_ref("refs/heads/packed/deep", 5));
	assert_true(write_ref("refs/heads/loose", 6));
	assert_true(write_ref("refs/heads/new/one", 7));
	assert_refs("refs/heads/main=4 refs/heads/packed/deep=5 refs/heads/loose=6 "
		    "refs/heads/new/one=7");
	must("cd r.git && git fsck >/dev/null 2>&1 && "
	     "test $(git for-each-ref | wc -l) = 4 && git pack-refs --all");
	look();
	assert_true(write_ref("refs/heads/new/one", 8));
	assert_true(write_ref("refs/tags/v", 8));
	must("test $(git -C r.git rev-parse v) = $(git -C r.git rev-parse new/one)");
}

TEST(what_was_moved_since_it_was_seen_stays)
{
	look();
	set_ref("refs/heads/main", 9);
	set_ref("refs/heads/loose", 9);
	set_ref("refs/heads/made", 9);
	assert_false(write_ref("refs/heads/main", 4));
	assert_false(write_ref("refs/heads/loose", 4));
	assert_false(write_ref("refs/heads/made", 4));
	assert_refs("refs/heads/main=9 refs/heads/packed/deep=2 refs/heads/loose=9 "
		    "refs/heads/made=9");
}

TEST(what_was_packed_or_deleted_since_is_left)
{
	look();
	must("git -C r.git pack-refs --all --prune");
	assert_false(write_ref("refs/heads/loose", 4));
	assert_false(write_ref("refs/heads/new", 4));
	look();
	must("git -C r.git update-ref -d refs/heads/main");
	assert_false(write_ref("refs/heads/main", 4));
	assert_refs("refs/heads/packed/deep=2 refs/heads/loose=3");
}

TEST(where_a_directory_or_a_ref_is_no_other_goes)
{
	set_ref("refs/heads/a/b", 5);
	look();
	assert_false(write_ref("refs/heads/packed", 4));
	assert_false(write_ref("refs/heads/packed/deep/er", 4));
	assert_false(write_ref("refs/heads/loose/er", 4));
	assert_false(write_ref("refs/heads/a", 4));
	assert_refs("refs/heads/a/b=5 refs/heads/main=1 refs/heads/packed/deep=2 "
		    "refs/heads/loose=3");
}

TEST(a_lock_of_git_is_obeyed)
{
	look();
	write_text("refs/heads/main.lock", "");
	assert_false(foreign_refs_write(&refs, "refs/heads/main", &commits[4]));
	assert_true(exists("refs/heads/main.lock"));
	assert_false(exists(OWNER));
	look();
	assert_true(exists("refs/heads/main.lock"));
	must("rm r.git/refs/heads/main.lock");
	assert_true(write_ref("refs/heads/main", 4));
}

TEST(a_symbolic_ref_is_left)
{
	must("git -C r.git symbolic-ref refs/heads/s refs/heads/main");
	look();
	assert_false(write_ref("refs/heads/s", 4));
	must("test $(git -C r.git symbolic-ref refs/heads/s) = refs/heads/main");
}

static int write_as_helper(char **argv)
{
	struct err why;

	enter_helper(argv);
	if (foreign_refs_read(repo_fd, OWNER, &seen, &refs, &why) != 0)
		return 1;
	return foreign_refs_write(&refs, argv[4], &commits[4]) ? 0 : 2;
}

TEST(whoever_is_killed_leaves_the_old_value_or_the_new_one_and_no_lock_for_long)
{
	assert_int_equal(wait_end(start_helper("write", "refs/heads/main",
					       "foreign_ref.locked=kill")),
			 128 + SIGKILL);
	assert_true(exists("refs/heads/main.lock"));
	assert_true(exists(OWNER));
	must("! git -C r.git update-ref refs/heads/main refs/heads/loose 2>/dev/null");
	look();
	assert_false(exists("refs/heads/main.lock"));
	assert_false(exists(OWNER));
	assert_refs("refs/heads/main=1 refs/heads/packed/deep=2 refs/heads/loose=3");

	assert_int_equal(wait_end(start_helper("write", "refs/heads/main",
					       "foreign_ref.written=kill")),
			 128 + SIGKILL);
	assert_refs("refs/heads/main=4 refs/heads/packed/deep=2 refs/heads/loose=3");
	look();
	assert_false(exists(OWNER));
	assert_true(write_ref("refs/heads/main", 5));
}

TEST(one_that_lives_is_not_taken_for_dead)
{
	pid_t pid = start_helper("write", "refs/heads/main", "foreign_ref.locked=stop");

	wait_stopped(pid);
	assert_fails(foreign_refs_read(repo_fd, OWNER, &seen, &refs, &err), ERR_CONFLICT);
	assert_true(exists("refs/heads/main.lock"));
	kill(pid, SIGCONT);
	assert_int_equal(wait_end(pid), 0);
	look();
	assert_refs("refs/heads/main=4 refs/heads/packed/deep=2 refs/heads/loose=3");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		FOREIGN_CASE(refs_are_made_and_moved),
		FOREIGN_CASE(what_was_moved_since_it_was_seen_stays),
		FOREIGN_CASE(what_was_packed_or_deleted_since_is_left),
		FOREIGN_CASE(where_a_directory_or_a_ref_is_no_other_goes),
		FOREIGN_CASE(a_lock_of_git_is_obeyed),
		FOREIGN_CASE(a_symbolic_ref_is_left),
		FOREIGN_CASE(
			whoever_is_killed_leaves_the_old_value_or_the_new_one_and_no_lock_for_long),
		FOREIGN_CASE(one_that_lives_is_not_taken_for_dead),
	};

	if (argc == 5 && strcmp(argv[1], "write") == 0)
		return write_as_helper(argv);
	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
