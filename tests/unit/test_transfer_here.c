/*
 * Pushing to paths on this machine without git, beside git, which looks at what came of
 * it, and is called for what is not plain.
 */
#include "push_history_test.h"

static unsigned syncs; /* of the file system */
static bool sync_fails;

/* The library's, twice. */
int syncfs(int fd)
{
	(void)fd;
	syncs++;
	errno = EIO;
	return sync_fails ? -1 : 0;
}

static int make_here(void **state)
{
	syncs = 0;
	sync_fails = false;
	if (make_push(state) != 0)
		return -1;
	must("rm dst.git/objects/info/alternates");
	return 0;
}

#define HERE_CASE(name) cmocka_unit_test_setup_teardown(name, make_here, clear_push)

TEST(refs_are_made_and_moved_forward_without_git)
{
	set_refs("refs/heads/main=3 refs/heads/x/y=4 refs/tags/v=t1");
	assert_ok(push("refs/heads/main refs/heads/x/y refs/tags/v"));
	assert_by_git(false);
	assert_arrived("refs/heads/main=3 refs/heads/x/y=4 refs/tags/v=t1");
	assert_int_equal(result.pushes, 1);
	assert_int_equal(result.refs.count, 3);
	assert_true(result.sent_bytes > 0);
	assert_status("refs/tags/v", REF_OK);
	assert_sound();
	set_refs("refs/heads/main=9 refs/heads/x/y=4 refs/tags/v=t1");
	assert_ok(push("refs/heads/main refs/heads/x/y refs/tags/v"));
	assert_by_git(false);
	assert_status("refs/heads/main", REF_OK);
	assert_status("refs/heads/x/y", REF_UP_TO_DATE);
	assert_arrived("refs/heads/main=9 refs/heads/x/y=4 refs/tags/v=t1");
	add_own_commit();
	assert_ok(push(TASK_ALL_REFS));
	assert_by_git(false);
	assert_int_equal(result.refs.count, 1);
	assert_own_commit_arrived();
	assert_ok(push(TASK_ALL_REFS));
	assert_by_git(false);
	assert_int_equal(result.pushes, 0);
	assert_sound();
	must("test -z \"$(ls dst.git | grep refrelay)\" && "
	     "test -z \"$(find dst.git/objects -name 'tmp_*')\"");
}

TEST(what_goes_back_is_forced_by_a_plus_only)
{
	set_refs("refs/heads/main=9 refs/tags/v=t1");
	assert_ok(push(TASK_ALL_REFS));
	set_refs("refs/heads/main=3 refs/heads/x=4 refs/tags/v=t2");
	assert_ok(push("refs/heads/main refs/heads/x refs/tags/v"));
	assert_by_git(true);
	assert_status("refs/heads/main", REF_REJECTED_NONFASTFORWARD);
	assert_false(result_of("refs/heads/main")->is_transient);
	assert_true(result_of("refs/tags/v")->text != NULL);
	assert_status("refs/heads/x", REF_OK);
	assert_arrived("refs/heads/main=9 refs/heads/x=4 refs/tags/v=t1");
	set_spec("refs/*", "refs/*", true);
	assert_ok(push("refs/heads/main refs/heads/x refs/tags/v"));
	assert_by_git(false);
	assert_status("refs/heads/main", REF_OK);
	assert_arrived("refs/heads/main=3 refs/heads/x=4 refs/tags/v=t2");
	assert_sound();
}

/* Each is made plain again by `undo`. */
static void assert_git_is_called(const char *make, const char *undo, int commit)
{
	AUTO_FREE char *refs = xasprintf("refs/heads/main=%d", commit);

	must("cd dst.git && %s", make);
	set_refs(refs);
	assert_ok(push("refs/heads/main"));
	if (!result.used_git)
		fail_msg("pushed without git in spite of: %s", make);
	assert_status("refs/heads/main", REF_OK);
	must("cd dst.git && %s", undo);
}

#define HOOK(name)                                                                       \
	"mkdir -p hooks && printf '#!/bin/sh\\ntouch " name ".ran\\n' >hooks/" name      \
	" && chmod +x hooks/" name

TEST(what_is_not_plain_is_pushed_by_git)
{
	static const struct {
		const char *make, *undo;
	} odd[] = {
		{ HOOK("pre-receive"), "rm hooks/pre-receive pre-receive.ran" },
		{ HOOK("update"), "rm hooks/update update.ran" },
		{ HOOK("post-receive"), "rm hooks/post-receive post-receive.ran" },
		{ HOOK("post-update"), "rm hooks/post-update post-update.ran" },
		{ HOOK("reference-transaction"),
		  "rm hooks/reference-transaction reference-transaction.ran" },
		{ "git config core.hooksPath h && mkdir h",
		  "git config --unset core.hooksPath" },
		{ "git config receive.fsckObjects true",
		  "git config --unset receive.fsckObjects" },
		{ "git config receive.denyDeletes false",
		  "git config --unset receive.denyDeletes" },
		{ "git config transfer.hideRefs refs/hidden",
		  "git config --unset transfer.hideRefs" },
		{ "git config core.sharedRepository group",
		  "git config --unset core.sharedRepository" },
		{ "git config include.path other && touch other",
		  "git config --unset include.path" },
		{ "git config core.logAllRefUpdates true",
		  "test -s logs/refs/heads/main && rm -r logs && "
		  "git config --unset core.logAllRefUpdates" },
		{ "mkdir logs", "rm -r logs" },
		{ "git config core.bare false && git config receive.denyCurrentBranch "
		  "ignore",
		  "rm -rf logs && git config core.bare true && "
		  "git config --unset receive.denyCurrentBranch" },
		{ "git symbolic-ref refs/heads/s refs/heads/main",
		  "git symbolic-ref -d refs/heads/s" },
		{ "echo ../../other.git/objects >objects/info/alternates && "
		  "git init -q --bare ../other.git",
		  "rm objects/info/alternates" },
	};
	int commit = 1;

	set_refs("refs/heads/main=0");
	assert_ok(push("refs/heads/main"));
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		assert_git_is_called(odd[i].make, odd[i].undo, commit++);
	set_refs("refs/heads/main=50");
	assert_ok(push("refs/heads/main"));
	assert_by_git(false);
	assert_sound();
}

/* All that is written here is flushed, whatever git there is told to flush. */
TEST(what_git_is_to_flush_makes_no_difference)
{
	set_refs("refs/heads/main=0");
	must("cd dst.git && git config core.fsync all && git config core.fsyncMethod "
	     "fsync");
	assert_ok(push("refs/heads/main"));
	assert_by_git(false);
	assert_sound();
}

/* As in a repository that was made here. */
TEST(one_that_turns_reflogs_off_is_plain)
{
	set_refs("refs/heads/main=0");
	must("git -C dst.git config core.logAllRefUpdates false");
	assert_ok(push("refs/heads/main"));
	assert_by_git(false);
	must("git -C dst.git config core.logAllRefUpdates always");
	set_refs("refs/heads/main=1");
	assert_ok(push("refs/heads/main"));
	assert_by_git(true);
}

TEST(a_hook_that_is_no_program_is_none)
{
	must("mkdir -p dst.git/hooks && echo exit 1 >dst.git/hooks/pre-receive && "
	     "chmod -x dst.git/hooks/pre-receive");
	set_refs("refs/heads/main=3");
	assert_ok(push("refs/heads/main"));
	assert_by_git(false);
}

/* It would be read whole to see what it comes from. */
TEST(a_commit_with_a_huge_message_is_gits)
{
	set_refs("refs/heads/main=3");
	assert_ok(push("refs/heads/main"));
	assert_by_git(false);
	must("cd r.git && head -c 3000000 /dev/zero | tr '\\0' x >../huge && "
	     "git update-ref refs/heads/main "
	     "$(git commit-tree -p main -F ../huge main^{tree})");
	assert_ok(push("refs/heads/main"));
	assert_by_git(true);
	assert_status("refs/heads/main", REF_OK);
	assert_sound();
}

TEST(sha256_and_a_working_tree_are_gits)
{
	must("rm -rf r.git dst.git && git init -q --bare --object-format=sha256 r.git && "
	     "git init -q --bare --object-format=sha256 dst.git && cd r.git && "
	     "git update-ref refs/heads/main $(git commit-tree -m 1 $(git mktree "
	     "</dev/null))");
	assert_ok(push("refs/heads/main"));
	assert_by_git(true);
	must("rm -rf r.git dst.git && git init -q --bare r.git && "
	     "git init -q -b other dst.git && cd r.git && "
	     "git update-ref refs/heads/main $(git commit-tree -m 1 $(git mktree "
	     "</dev/null))");
	assert_ok(push("refs/heads/main"));
	assert_by_git(true);
	assert_status("refs/heads/main", REF_OK);
}

TEST(a_deletion_a_locked_ref_and_a_broken_one_are_gits_and_the_others_go)
{
	remote.mirrors = true;
	set_refs("refs/heads/a=1 refs/heads/b=2");
	assert_ok(push(TASK_ALL_REFS));
	assert_by_git(false);
	set_refs("refs/heads/a=3 refs/heads/c=4");
	must("touch dst.git/refs/heads/a.lock && "
	     "echo 1111111111111111111111111111111111111111 >r.git/refs/heads/d");
	assert_ok(push("refs/heads/a refs/heads/b refs/heads/c refs/heads/d"));
	assert_by_git(true);
	assert_true(result_of("refs/heads/a")->is_lock);
	assert_status("refs/heads/b", REF_OK);
	assert_status("refs/heads/c", REF_OK);
	assert_status("refs/heads/d", REF_REJECTED_OTHER_REASON);
	assert_true(
		text_starts_with(result_of("refs/heads/d")->text, "local repository"));
	must("rm dst.git/refs/heads/a.lock");
	assert_arrived("refs/heads/a=1 refs/heads/c=4");
}

TEST(a_branch_names_a_commit)
{
	must("cd r.git && echo $(git -C %s rev-parse main^{tree}) >refs/heads/t",
	     store_path);
	assert_ok(push("refs/heads/t"));
	assert_by_git(true);
	assert_status("refs/heads/t", REF_REJECTED_OTHER_REASON);
	assert_arrived("");
}

TEST(very_many_objects_are_gits)
{
	must(HASH_LINES
	     "cd r.git && t=$(seq 150 | hash_lines | "
	     "awk '{ print \"100644 blob \" $1 \"\\tf\" NR }' | git mktree) && "
	     "git update-ref refs/heads/main $(git commit-tree -m 1 $t)");
	assert_ok(push("refs/heads/main"));
	assert_by_git(true);
	assert_status("refs/heads/main", REF_OK);
	assert_sound();
}

/* A push that was killed, or could not be made durable, may have brought it. */
TEST(what_an_earlier_push_may_have_left_is_made_durable)
{
	set_refs("refs/heads/main=3");
	assert_ok(push("refs/heads/main"));
	assert_ok(push("refs/heads/main"));
	assert_ok(push(TASK_ALL_REFS));
	assert_int_equal(syncs, 0); /* all of it was flushed by itself */
	request.is_retry = true;
	assert_ok(push("refs/heads/main"));
	assert_by_git(false);
	assert_status("refs/heads/main", REF_UP_TO_DATE);
	assert_int_equal(syncs, 1);
	assert_ok(push(TASK_ALL_REFS));
	assert_int_equal(result.refs.count, 0);
	assert_int_equal(syncs, 2);
	sync_fails = true;
	assert_fails(push("refs/heads/main"), ERR_DISK);
}

/* Also where git finds it by another path than it has. */
TEST(many_refs_that_git_has_brought_are_made_durable)
{
	must("mkdir dst.git/logs");
	set_refs("refs/heads/main=3");
	must("for i in $(seq 1001); do echo create refs/heads/b$i refs/heads/main; done "
	     "| "
	     "git -C r.git update-ref --stdin");
	sync_fails = true;
	assert_fails(push(TASK_ALL_REFS), ERR_DISK);
	assert_by_git(true);
	must("git -C dst.git for-each-ref --format='delete %%(refname)' | "
	     "git -C dst.git update-ref --stdin && mv dst.git dst.git.git");
	sync_fails = false;
	syncs = 0;
	assert_ok(push(TASK_ALL_REFS));
	assert_int_equal(syncs, 1);
}

TEST(random_histories_arrive_as_git_would_have_brought_them)
{
	push_random_histories(50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HERE_CASE(refs_are_made_and_moved_forward_without_git),
		HERE_CASE(what_goes_back_is_forced_by_a_plus_only),
		HERE_CASE(what_is_not_plain_is_pushed_by_git),
		HERE_CASE(what_git_is_to_flush_makes_no_difference),
		HERE_CASE(one_that_turns_reflogs_off_is_plain),
		HERE_CASE(a_hook_that_is_no_program_is_none),
		HERE_CASE(a_commit_with_a_huge_message_is_gits),
		HERE_CASE(sha256_and_a_working_tree_are_gits),
		HERE_CASE(
			a_deletion_a_locked_ref_and_a_broken_one_are_gits_and_the_others_go),
		HERE_CASE(a_branch_names_a_commit),
		HERE_CASE(very_many_objects_are_gits),
		HERE_CASE(what_an_earlier_push_may_have_left_is_made_durable),
		HERE_CASE(many_refs_that_git_has_brought_are_made_durable),
		HERE_CASE(random_histories_arrive_as_git_would_have_brought_them),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
