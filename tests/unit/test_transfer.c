/*
 * Pushing with real git to paths on this machine.
 */
#include "push_test.h"

#include "base/clock.h"
#include "push/pattern.h"

TEST(new_refs_are_made_by_one_push_and_the_rest_is_left_alone)
{
	set_refs("refs/heads/main=3 refs/heads/x=4 refs/tags/v=t1 refs/heads/not=5");
	assert_ok(push("refs/heads/main refs/heads/x refs/tags/v"));
	assert_arrived("refs/heads/main=3 refs/heads/x=4 refs/tags/v=t1");
	assert_int_equal(result.pushes, 1);
	assert_int_equal(result.refs.count, 3);
	assert_status("refs/tags/v", REF_OK);
}

TEST(a_fast_forward_goes_and_what_is_equal_is_up_to_date)
{
	set_refs("refs/heads/main=3 refs/heads/x=4");
	assert_ok(push("refs/heads/main refs/heads/x"));
	set_refs("refs/heads/main=9 refs/heads/x=4");
	assert_ok(push("refs/heads/main refs/heads/x"));
	assert_arrived("refs/heads/main=9 refs/heads/x=4");
	assert_status("refs/heads/main", REF_OK);
	assert_status("refs/heads/x", REF_UP_TO_DATE);
}

TEST(without_a_plus_nothing_is_forced_and_the_others_go)
{
	set_refs("refs/heads/main=9");
	assert_ok(push("refs/heads/main"));
	set_refs("refs/heads/main=3 refs/heads/x=4");
	assert_ok(push("refs/heads/main refs/heads/x"));
	assert_arrived("refs/heads/main=9 refs/heads/x=4");
	assert_status("refs/heads/main", REF_REJECTED_NONFASTFORWARD);
	assert_false(result_of("refs/heads/main")->is_transient);
	assert_status("refs/heads/x", REF_OK);
	assert_int_equal(result.pushes, 1);
}

TEST(with_a_plus_it_is_forced_by_a_second_push)
{
	set_spec("refs/*", "refs/*", true);
	set_refs("refs/heads/main=9 refs/tags/v=t1");
	assert_ok(push("refs/heads/main refs/tags/v"));
	set_refs("refs/heads/main=3 refs/heads/x=4 refs/tags/v=t2");
	assert_ok(push("refs/heads/main refs/heads/x refs/tags/v"));
	assert_arrived("refs/heads/main=3 refs/heads/x=4 refs/tags/v=t2");
	assert_status("refs/heads/main", REF_OK);
	assert_int_equal(result.pushes, 2);
}

TEST(refs_go_where_their_spec_says)
{
	set_spec("refs/heads/*", "refs/mirror/*", false);
	set_refs("refs/heads/main=3 refs/heads/a/b=4 refs/tags/v=t1");
	assert_ok(push("refs/heads/main refs/heads/a/b refs/tags/v"));
	assert_arrived("refs/mirror/a/b=4 refs/mirror/main=3");
	assert_int_equal(result.refs.count, 2);
	assert_string_equal(result_of("refs/heads/main")->dst, "refs/mirror/main");
}

TEST(a_symbolic_ref_is_pushed_as_what_it_leads_to)
{
	set_refs("refs/heads/main=3");
	must("git -C r.git symbolic-ref refs/heads/s refs/heads/main && "
	     "git -C r.git symbolic-ref refs/heads/none refs/heads/nowhere");
	remote.mirrors = true;
	must("git -C dst.git update-ref refs/heads/none $(git -C %s rev-parse main)",
	     store_path);
	assert_ok(push("refs/heads/s refs/heads/none"));
	assert_arrived("refs/heads/none=59 refs/heads/s=3");
}

TEST(a_ref_that_is_gone_is_deleted_only_by_a_mirror)
{
	set_refs("refs/heads/main=3 refs/heads/x=4");
	assert_ok(push("refs/heads/main refs/heads/x"));
	set_refs("refs/heads/main=3");
	assert_ok(push("refs/heads/x"));
	assert_int_equal(result.refs.count, 0);
	assert_int_equal(result.pushes, 0);
	assert_arrived("refs/heads/main=3 refs/heads/x=4");
	remote.mirrors = true;
	assert_ok(push("refs/heads/x refs/heads/y"));
	assert_arrived("refs/heads/main=3");
	assert_status("refs/heads/x", REF_OK);
	assert_true(result_of("refs/heads/x")->is_deletion);
	assert_status("refs/heads/y", REF_NON_EXISTING);
}

/* Its place there is also that of another one. */
TEST(a_ref_that_is_gone_takes_no_other_along)
{
	remote.mirrors = true;
	set_spec("refs/heads/*", "refs/heads/*", true);
	vec_add(&remote.specs, ((struct push_spec){ xstrdup("refs/rel/*"),
						    xstrdup("refs/heads/*"), true }));
	set_refs("refs/heads/x=3 refs/heads/main=4");
	assert_ok(push("refs/heads/x refs/heads/main"));
	assert_ok(push("refs/rel/x"));
	assert_arrived("refs/heads/main=4 refs/heads/x=3");
	set_refs("refs/heads/main=4");
	assert_ok(push("refs/rel/x"));
	assert_arrived("refs/heads/main=4");
	free(remote.specs.items[1].src);
	free(remote.specs.items[1].dst);
	remote.specs.count = 1;
}

TEST(a_branch_that_becomes_a_directory_is_deleted_first)
{
	remote.mirrors = true;
	set_refs("refs/heads/a=3 refs/heads/b/c=4");
	assert_ok(push("refs/heads/a refs/heads/b/c"));
	set_refs("refs/heads/a/d=3 refs/heads/b=4");
	assert_ok(push("refs/heads/a refs/heads/a/d refs/heads/b refs/heads/b/c"));
	assert_arrived("refs/heads/a/d=3 refs/heads/b=4");
}

TEST(a_branch_below_a_foreign_one_fails_for_good)
{
	set_refs("refs/heads/a=3");
	assert_ok(push("refs/heads/a"));
	set_refs("refs/heads/a/d=3");
	assert_ok(push("refs/heads/a/d"));
	assert_status("refs/heads/a/d", REF_REJECTED_OTHER_REASON);
	assert_false(result_of("refs/heads/a/d")->is_transient);
	assert_non_null(strstr(result_of("refs/heads/a/d")->text, "cannot create"));
}

TEST(a_full_sync_pushes_what_differs_and_keeps_the_rest)
{
	set_refs("refs/heads/main=3 refs/heads/x=4");
	assert_ok(push("refs/heads/main refs/heads/x"));
	must("git -C dst.git update-ref refs/heads/theirs refs/heads/main");
	set_refs("refs/heads/main=3 refs/heads/x=5 refs/tags/v=t1");
	assert_ok(push(TASK_ALL_REFS));
	assert_arrived(
		"refs/heads/main=3 refs/heads/theirs=3 refs/heads/x=5 refs/tags/v=t1");
	assert_int_equal(result.refs.count, 2);
	assert_int_equal(result.pushes, 1);
	assert_ok(push(TASK_ALL_REFS));
	assert_int_equal(result.refs.count, 0);
	assert_int_equal(result.pushes, 0);
}

TEST(a_mirrors_full_sync_deletes_what_its_specs_could_have_made)
{
	remote.mirrors = true;
	set_spec("refs/heads/*", "refs/mirror/*", false);
	set_refs("refs/heads/main=3");
	must("cd dst.git && o=$(git -C %s rev-parse main) && "
	     "git update-ref refs/mirror/old $o && git update-ref refs/heads/own $o",
	     store_path);
	assert_ok(push(TASK_ALL_REFS));
	assert_arrived("refs/heads/own=59 refs/mirror/main=3");
	assert_status("refs/heads/old", REF_OK);
	assert_true(result_of("refs/heads/old")->is_deletion);
}

TEST(what_is_excluded_is_neither_pushed_nor_deleted)
{
	struct name_pattern *pattern;

	assert_ok(name_pattern_new_regex("refs/heads/own.*", &pattern, &err));
	vec_add(&remote.excluded_refs, pattern);
	remote.mirrors = true;
	set_refs("refs/heads/main=3 refs/heads/own1=4");
	must("cd dst.git && o=$(git -C %s rev-parse main) && "
	     "git update-ref refs/heads/own2 $o && git update-ref refs/heads/old $o",
	     store_path);
	assert_ok(push(TASK_ALL_REFS));
	assert_ok(push("refs/heads/own1 refs/heads/own2"));
	assert_int_equal(result.refs.count, 0);
	assert_arrived("refs/heads/main=3 refs/heads/own2=59");
	name_patterns_clear(&remote.excluded_refs);
}

static void make_many_at_destination(int count)
{
	must("o=$(git -C %s rev-parse main); for i in $(seq %d); do "
	     "echo \"create refs/heads/old$i $o\"; done | "
	     "git -C dst.git update-ref --stdin",
	     store_path, count);
}

TEST(too_many_deletions_wait_for_a_word_while_updates_go)
{
	remote.mirrors = true;
	set_refs("refs/heads/main=3");
	make_many_at_destination(30);
	assert_ok(push(TASK_ALL_REFS));
	assert_int_equal(result.deletions, 30);
	assert_int_equal(result.remote_refs, 30);
	assert_status("refs/heads/main", REF_OK);
	assert_status("refs/heads/old7", REF_NOT_ATTEMPTED);
	assert_true(result_of("refs/heads/old7")->is_held);
	must("test $(git -C dst.git for-each-ref | wc -l) = 31");
	request.allows_deletions = true;
	assert_ok(push(TASK_ALL_REFS));
	assert_int_equal(result.deletions, 0);
	assert_arrived("refs/heads/main=3");
}

TEST(a_share_of_deletions_below_the_brake_goes)
{
	remote.mirrors = true;
	request.delete_brake = 1;
	set_refs("refs/heads/main=3");
	make_many_at_destination(30);
	assert_ok(push(TASK_ALL_REFS));
	assert_int_equal(result.deletions, 0);
	assert_arrived("refs/heads/main=3");
}

TEST(as_many_deletions_go_in_a_push_as_arguments_fit)
{
	remote.mirrors = request.allows_deletions = true;
	make_many_at_destination(1100);
	set_refs("refs/heads/main=3");
	assert_ok(push(TASK_ALL_REFS));
	assert_int_equal(result.pushes, 3);
	assert_int_equal(result.refs.count, 1101);
	assert_arrived("refs/heads/main=3");
}

TEST(batches_are_pushes_of_their_own)
{
	remote.batch_size = 2;
	set_refs("refs/heads/a=1 refs/heads/b=2 refs/heads/c=3 refs/heads/d=4 "
		 "refs/heads/e=5");
	assert_ok(push(TASK_ALL_REFS));
	assert_int_equal(result.pushes, 3);
	assert_arrived("refs/heads/a=1 refs/heads/b=2 refs/heads/c=3 refs/heads/d=4 "
		       "refs/heads/e=5");
}

TEST(a_locked_ref_is_for_later)
{
	set_refs("refs/heads/main=3 refs/heads/x=4");
	must("touch dst.git/refs/heads/main.lock");
	assert_ok(push("refs/heads/main refs/heads/x"));
	assert_status("refs/heads/main", REF_REJECTED_OTHER_REASON);
	assert_true(result_of("refs/heads/main")->is_lock);
	assert_true(result_of("refs/heads/main")->is_transient);
	assert_arrived("refs/heads/x=4");
}

TEST(a_declined_ref_says_what_the_hook_said)
{
	set_refs("refs/heads/main=3 refs/heads/x=4");
	set_hook("update", "test $1 != refs/heads/x || { echo not on Fridays; exit 1; }");
	assert_ok(push("refs/heads/main refs/heads/x"));
	assert_arrived("refs/heads/main=3");
	assert_status("refs/heads/x", REF_REJECTED_OTHER_REASON);
	assert_false(result_of("refs/heads/x")->is_transient);
	assert_non_null(
		strstr(result_of("refs/heads/x")->text, "hook declined: not on Fridays"));
}

TEST(a_refused_deletion_has_its_name)
{
	remote.mirrors = true;
	set_refs("refs/heads/main=3 refs/heads/x=4");
	assert_ok(push("refs/heads/main refs/heads/x"));
	must("git -C dst.git config receive.denyDeletes true");
	set_refs("refs/heads/main=3");
	assert_ok(push("refs/heads/x"));
	assert_status("refs/heads/x", REF_REJECTED_NODELETE);
	assert_false(result_of("refs/heads/x")->is_transient);
	assert_arrived("refs/heads/main=3 refs/heads/x=4");
}

TEST(a_destination_that_forbids_force_is_obeyed)
{
	set_spec("refs/*", "refs/*", true);
	set_refs("refs/heads/main=9");
	assert_ok(push("refs/heads/main"));
	must("git -C dst.git config receive.denyNonFastForwards true");
	set_refs("refs/heads/main=3");
	assert_ok(push("refs/heads/main"));
	assert_status("refs/heads/main", REF_REJECTED_NONFASTFORWARD);
	assert_false(result_of("refs/heads/main")->is_transient);
	assert_false(result_of("refs/heads/main")->needs_force);
	assert_arrived("refs/heads/main=9");
}

TEST(a_missing_destination_is_told_from_a_missing_source)
{
	set_refs("refs/heads/main=3");
	must("rm -rf dst.git");
	assert_fails(push("refs/heads/main"), ERR_MISSING);
	assert_false(text_starts_with(err.text, "local repository"));
	assert_status("refs/heads/main", REF_NOT_ATTEMPTED);
	must("mv r.git away.git");
	assert_fails(push("refs/heads/main"), ERR_MISSING);
	assert_true(text_starts_with(err.text, "local repository"));
}

TEST(the_destination_gets_the_objects)
{
	set_refs("refs/heads/main=3");
	add_own_commit();
	assert_ok(push(TASK_ALL_REFS));
	assert_true(result.sent_bytes > 0);
	assert_own_commit_arrived();
}

TEST(thousands_of_refs_go_in_one_push)
{
	int64_t start_at = clock_boot_ms();

	must("o=$(git -C %s rev-parse main); for i in $(seq 2000); do "
	     "echo \"$o refs/changes/$i\"; done | sort -k2 >r.git/packed-refs",
	     store_path);
	assert_ok(push(TASK_ALL_REFS));
	assert_int_equal(result.pushes, 1);
	assert_int_equal(result.refs.count, 2000);
	must("test $(git -C dst.git for-each-ref | wc -l) = 2000");
	print_message("# 2,000 refs: %d ms\n", (int)(clock_boot_ms() - start_at));
}

TEST(a_silent_destination_is_killed_with_all_its_processes)
{
	int64_t start_at = clock_boot_ms();
	AUTO_FREE char *hook = xasprintf("exec sleep 297.%d", (int)getpid());

	set_refs("refs/heads/main=3");
	set_hook("pre-receive", hook);
	remote.silence_ms = 500;
	assert_fails(push("refs/heads/main"), ERR_TIMEOUT);
	assert_non_null(strstr(err.text, "nothing was heard of it for 0.5 s"));
	assert_non_null(strstr(err.remedy, "timeout"));
	assert_true(clock_boot_ms() - start_at < 8000);
	must("! pgrep -f 'sleep 297[.]%d'", (int)getpid());
	assert_status("refs/heads/main", REF_NOT_ATTEMPTED);
}

TEST(a_stop_ends_it)
{
	struct stop stop;

	stop_init(&stop);
	stop_request(&stop);
	work.stop = &stop;
	set_refs("refs/heads/main=3");
	assert_fails(push("refs/heads/main"), ERR_CANCELED);
	assert_arrived("");
	stop_clear(&stop);
}

TEST(the_sources_config_and_hooks_have_no_say)
{
	set_refs("refs/heads/main=3");
	must("cd r.git && git config push.default nothing && "
	     "git config url.%s/away.git.insteadOf %s/dst.git && "
	     "git config core.hooksPath %s/r.git/hooks && mkdir -p hooks && "
	     "printf '#!/bin/sh\\ntouch %s/ran\\n' | tee hooks/pre-push "
	     ">hooks/reference-transaction && chmod +x hooks/*",
	     root, root, root, root);
	assert_ok(push("refs/heads/main"));
	assert_arrived("refs/heads/main=3");
	must("test ! -e ran");
}

TEST(one_broken_ref_does_not_hold_up_the_others)
{
	set_refs("refs/heads/a=1 refs/heads/c=3 refs/heads/d=4 refs/heads/e=5");
	must("echo 1111111111111111111111111111111111111111 >r.git/refs/heads/b");
	assert_ok(
		push("refs/heads/a refs/heads/b refs/heads/c refs/heads/d refs/heads/e"));
	assert_arrived("refs/heads/a=1 refs/heads/c=3 refs/heads/d=4 refs/heads/e=5");
	assert_status("refs/heads/b", REF_REJECTED_OTHER_REASON);
	assert_true(
		text_starts_with(result_of("refs/heads/b")->text, "local repository"));
	assert_fails(push("refs/heads/b"), ERR_CORRUPT);
	assert_true(text_starts_with(err.text, "local repository"));
}

TEST(refs_that_are_all_broken_are_a_fault_of_the_repository)
{
	set_refs("refs/heads/a=1");
	must("echo 1111111111111111111111111111111111111111 >r.git/refs/heads/b && "
	     "echo 2222222222222222222222222222222222222222 >r.git/refs/heads/c");
	assert_fails(push("refs/heads/b refs/heads/c"), ERR_CORRUPT);
	assert_int_equal(err.reason, REASON_LOCAL_REPOSITORY);
	assert_string_not_equal(result_of("refs/heads/b")->text,
				result_of("refs/heads/c")->text);
}

TEST(a_partial_repository_is_not_pushed)
{
	set_refs("refs/heads/main=3");
	must("git -C r.git config remote.o.promisor true");
	assert_fails(push("refs/heads/main"), ERR_CONFIG);
	assert_true(text_starts_with(err.text, "local repository"));
}

TEST(sha256_repositories_are_pushed)
{
	must("rm -rf r.git dst.git && git init -q --bare --object-format=sha256 r.git && "
	     "git init -q --bare --object-format=sha256 dst.git && cd r.git && "
	     "git update-ref refs/heads/main $(git commit-tree -m 1 $(git mktree "
	     "</dev/null))");
	assert_ok(push("refs/heads/main"));
	assert_ok(push(TASK_ALL_REFS));
	assert_int_equal(result.refs.count, 0);
	must("test $(git -C dst.git rev-parse main) = $(git -C r.git rev-parse main)");
	must("rm -rf dst.git && git init -q --bare dst.git");
	assert_fails(push("refs/heads/main"), ERR_CONFIG);
}

TEST(a_shallow_repository_pushes_what_it_has)
{
	set_refs("refs/heads/main=4");
	assert_ok(push("refs/heads/main"));
	must("rm -rf r.git && git clone -q --bare --depth 1 -b v5 file://%s r.git && "
	     "cd r.git && git update-ref refs/heads/main "
	     "$(git commit-tree -m 2 -p v5^{} v5^{tree})",
	     store_path);
	assert_ok(push("refs/heads/main"));
	assert_status("refs/heads/main", REF_OK);
	must("test $(git -C dst.git rev-parse main) = $(git -C r.git rev-parse main)");
	must("rm -rf dst.git && git init -q --bare dst.git");
	assert_ok(push("refs/heads/main"));
	assert_status("refs/heads/main", REF_REJECTED_OTHER_REASON);
	assert_false(result_of("refs/heads/main")->is_transient);
	assert_non_null(strstr(result_of("refs/heads/main")->text, "shallow"));
}

TEST(two_refs_for_one_place_are_one_too_many)
{
	set_spec("refs/heads/*", "refs/x/*", false);
	vec_add(&remote.specs, ((struct push_spec){ xstrdup("refs/tags/*"),
						    xstrdup("refs/x/*"), false }));
	set_refs("refs/heads/v=3 refs/tags/v=4");
	assert_ok(push("refs/tags/v refs/heads/v"));
	assert_arrived("refs/x/v=3");
	assert_status("refs/tags/v", REF_REJECTED_OTHER_REASON);
}

TEST(a_view_whose_maker_died_is_swept_away)
{
	struct view view;

	assert_ok(view_create(directory, repository, 20, &view, &err));
	must("cp -r %s tmp/view-dead && mkdir tmp/other && "
	     "touch -d '1 hour ago' tmp/*",
	     view.path);
	view_sweep(directory);
	must("test ! -e tmp/view-dead && test -e tmp/other && test -e %s", view.path);
	view_remove(&view);
	must("rmdir tmp/other");
	assert_no_view_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		PUSH_CASE(new_refs_are_made_by_one_push_and_the_rest_is_left_alone),
		PUSH_CASE(a_fast_forward_goes_and_what_is_equal_is_up_to_date),
		PUSH_CASE(without_a_plus_nothing_is_forced_and_the_others_go),
		PUSH_CASE(with_a_plus_it_is_forced_by_a_second_push),
		PUSH_CASE(refs_go_where_their_spec_says),
		PUSH_CASE(a_symbolic_ref_is_pushed_as_what_it_leads_to),
		PUSH_CASE(a_ref_that_is_gone_is_deleted_only_by_a_mirror),
		PUSH_CASE(a_ref_that_is_gone_takes_no_other_along),
		PUSH_CASE(a_branch_that_becomes_a_directory_is_deleted_first),
		PUSH_CASE(a_branch_below_a_foreign_one_fails_for_good),
		PUSH_CASE(a_full_sync_pushes_what_differs_and_keeps_the_rest),
		PUSH_CASE(a_mirrors_full_sync_deletes_what_its_specs_could_have_made),
		PUSH_CASE(what_is_excluded_is_neither_pushed_nor_deleted),
		PUSH_CASE(too_many_deletions_wait_for_a_word_while_updates_go),
		PUSH_CASE(a_share_of_deletions_below_the_brake_goes),
		PUSH_CASE(as_many_deletions_go_in_a_push_as_arguments_fit),
		PUSH_CASE(batches_are_pushes_of_their_own),
		PUSH_CASE(a_locked_ref_is_for_later),
		PUSH_CASE(a_declined_ref_says_what_the_hook_said),
		PUSH_CASE(a_refused_deletion_has_its_name),
		PUSH_CASE(a_destination_that_forbids_force_is_obeyed),
		PUSH_CASE(a_missing_destination_is_told_from_a_missing_source),
		PUSH_CASE(the_destination_gets_the_objects),
		PUSH_CASE(thousands_of_refs_go_in_one_push),
		PUSH_CASE(a_silent_destination_is_killed_with_all_its_processes),
		PUSH_CASE(a_stop_ends_it),
		PUSH_CASE(the_sources_config_and_hooks_have_no_say),
		PUSH_CASE(one_broken_ref_does_not_hold_up_the_others),
		PUSH_CASE(refs_that_are_all_broken_are_a_fault_of_the_repository),
		PUSH_CASE(a_partial_repository_is_not_pushed),
		PUSH_CASE(sha256_repositories_are_pushed),
		PUSH_CASE(a_shallow_repository_pushes_what_it_has),
		PUSH_CASE(two_refs_for_one_place_are_one_too_many),
		PUSH_CASE(a_view_whose_maker_died_is_swept_away),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
