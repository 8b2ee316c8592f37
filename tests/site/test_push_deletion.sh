#!/usr/bin/env bash
# What is deleted here goes there, where that is asked for, and nothing else does; and HEAD
# follows.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"
. "$TESTS/lib/gerrit.sh"

in_trash() { # DIRECTORY: repositories in its trash
	find "$1/.refrelay/trash" -name HEAD 2>/dev/null | wc -l
}

delete() { # NAME
	remove_repository "git/$1.git"
	report_removed home "$1"
}

two_of_three_follow_a_deletion() {
	make_gerrit_node home
	gerrit_remote one replicateProjectDeletions true
	gerrit_remote two replicateProjectDeletions true
	gerrit_remote keeps
	make_source team/a
	make_source b
	start_ready home
	expect 0 at home push start --all --wait
	rm -rf two/team # missing: nothing is left to do there
	delete team/a
	wait_until 20 is_logged_times 2 push.deleted
	[ ! -e one/team ]
	[ -d keeps/team/a.git ]
	[ "$(in_trash one)" -eq 1 ]
	[ "$(in_trash keeps)" -eq 0 ]
	same_refs git/b.git one/b.git
	same_refs git/b.git two/b.git
	wait_until 20 queue_is home 0 'len(q["queue"]) + len(q["given_up"])'
	# What was deleted comes anew.
	make_source team/a 3
	at home changed team/a
	wait_until 20 same_refs git/team/a.git one/team/a.git
	stop_site home
	[ "$(logged home push.not_deleted)" -eq 0 ]
}

is_logged_times() { # COUNT EVENT
	[ "$(logged home "$2")" -eq "$1" ]
}

a_remote_for_one_project_keeps_it_when_another_goes() {
	make_gerrit_node home
	gerrit_remote single url "$PWD/mirror.git" projects a replicateProjectDeletions true
	gerrit_remote all replicateProjectDeletions true
	gerrit_remote other replicateProjectDeletions true excludeProjects b
	make_source a
	make_source b
	start_ready home
	expect 0 at home push start --all --wait
	cp -a all/b.git other/b.git
	delete b
	wait_until 20 was_logged home push.deleted
	wait_until 20 queue_is home 0 'len(q["queue"])'
	[ ! -e all/b.git ]
	same_refs git/a.git mirror.git
	[ -d other/b.git ]
	wait_until 10 is_logged 1 home push.deleted
	stop_site home
}

tasks_of_what_is_deleted_are_done() {
	make_gerrit_node home
	gerrit_remote one replicateProjectDeletions true
	gerrit_remote keeps
	make_source a
	make_source b
	start_ready home
	expect 0 at home push start --all --wait
	git config --file gerrit/etc/replication.config remote.one.replicationDelay 3600
	git config --file gerrit/etc/replication.config remote.keeps.replicationDelay 3600
	reload home
	add_commits git/a.git refs/heads/main 1
	at home changed a
	queue_is home 2 'len(q["queue"])'
	delete a
	wait_until 20 was_logged home push.deleted
	[ ! -e one/a.git ]
	# Where it stays, the change that was never pushed is told.
	wait_until 20 queue_is home 1 'len(q["queue"])'
	at home push retry --all
	wait_until 20 queue_is home keeps 'q["given_up"][0]["remote"]'
	at home push queue --failed | grep -q 'local repository is missing'
	wait_until 10 store_is_empty
	stop_site home
}

what_comes_back_is_not_deleted() {
	make_gerrit_node home
	gerrit_remote one replicateProjectDeletions true
	make_source a
	make_source b
	start_ready home
	expect 0 at home push start --all --wait
	mv one away # its tree is not there
	delete a
	wait_until 20 was_logged home push.failed
	make_source a 3
	at home changed a
	mv away one
	at home push retry --all
	wait_until 20 queue_is home 0 'len(q["queue"])'
	wait_until 20 same_refs git/a.git one/a.git
	[ "$(in_trash one)" -eq 0 ]
	stop_site home
}

what_is_deleted_while_it_is_pushed_goes_after_that() {
	make_gerrit_node home
	gerrit_remote one replicateProjectDeletions true
	make_source a
	make_source b
	make_destination one/a
	hold one/a
	start_ready home
	at home push start a
	wait_until 20 is_held one/a
	delete a
	[ -d one/a.git ]
	let_go
	wait_until 20 was_logged home push.deleted
	[ ! -e one/a.git ]
	[ "$(in_trash one)" -eq 1 ]
	wait_until 20 queue_is home 0 'len(q["queue"])'
	never_two_at_once
	wait_until 10 store_is_empty
	stop_site home
}

# A place that is no repository's, or not reached, stays; and nobody asks for it all the time.
what_cannot_be_deleted_is_told_and_waits() {
	make_gerrit_node home
	gerrit_remote one replicateProjectDeletions true replicationRetry 0
	gerrit_remote other url "git://127.0.0.1:1/\${name}.git" \
		replicateProjectDeletions true replicationMaxRetries 1 replicationRetry 0
	make_source a
	make_source b
	start_ready home
	expect 3 at home push start --wait a
	mv one away
	delete a
	wait_until 20 was_logged home push.not_deleted 'git://127.0.0.1:1.*adminUrl'
	wait_until 20 was_logged home push.failed 'failures=2'
	[ "$(logged home lease.acquired)" -lt 30 ]
	mv away one
	wait_until 20 was_logged home push.deleted
	[ ! -e one/a.git ]
	wait_until 20 queue_is home 0 'len(q["queue"])'
	stop_site home
}

head_follows() {
	make_gerrit_node home
	gerrit_remote one
	gerrit_remote two replicationDelay 3600 # which HEAD does not wait for
	make_source a
	git -C git/a.git branch trunk main
	start_ready home
	expect 0 at home push start --all --wait --now
	head_is one/a.git refs/heads/main
	git -C git/a.git symbolic-ref HEAD refs/heads/trunk
	at home changed a
	wait_until 20 head_is one/a.git refs/heads/trunk
	wait_until 20 head_is two/a.git refs/heads/trunk
	# Together with its branch, which may be new.
	git -C git/a.git branch other main
	git -C git/a.git symbolic-ref HEAD refs/heads/other
	at home changed a
	wait_until 20 head_is one/a.git refs/heads/other
	git -C one/a.git rev-parse -q --verify HEAD
	wait_until 20 head_is two/a.git refs/heads/other
	git -C two/a.git rev-parse -q --verify HEAD
	wait_until 20 queue_is home 0 'len(q["queue"])'
	stop_site home
}

a_deletion_survives_a_crash() {
	make_gerrit_node home
	gerrit_remote one replicateProjectDeletions true
	make_source a
	make_source b
	start_ready home
	expect 0 at home push start --all --wait
	stop_site home
	launch_site home REFRELAY_FAILPOINT=target.moved=kill
	wait_until 20 is_serving home
	delete a
	is_killed_within 20 home
	[ "$(in_trash one)" -eq 1 ]
	start_site home
	wait_until 20 queue_is home 0 'len(q["queue"]) + len(q["given_up"])'
	[ ! -e one/a.git ]
	[ "$(in_trash one)" -eq 1 ]
	stop_site home
}

tap_test "two of three remotes follow a deletion, a missing target is one of them" \
	two_of_three_follow_a_deletion
unwatched_site=home
tap_test "they follow it where no directory can be watched" two_of_three_follow_a_deletion
unwatched_site=
tap_test "a remote for one project keeps it when another goes" \
	a_remote_for_one_project_keeps_it_when_another_goes
tap_test "tasks of what is deleted are done" tasks_of_what_is_deleted_are_done
tap_test "what comes back is not deleted" what_comes_back_is_not_deleted
tap_test "what is deleted while it is pushed goes after that" \
	what_is_deleted_while_it_is_pushed_goes_after_that
tap_test "what cannot be deleted is told, and waits" what_cannot_be_deleted_is_told_and_waits
tap_test "HEAD follows" head_follows
tap_test 'a deletion survives a crash' a_deletion_survives_a_crash
tap_done
