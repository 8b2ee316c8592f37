#!/usr/bin/env bash
# Changes reach the destinations of remotes: at a site that stands alone, and on from a
# secondary.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"

a_push_reaches_the_destination_by_its_hook() {
	make_node kiel
	add_remote kiel bonn
	set_conf kiel primary.url http://127.0.0.1:1/
	make_repository git/a.git 3
	git init -q --bare bonn/a.git
	start_ready kiel
	at kiel hooks install --all
	[ "$(logged kiel node.unused_section)" = 1 ]
	[ -z "$(git -C bonn/a.git for-each-ref)" ] # it may have been there for years
	push_change git/a.git
	wait_until 10 same_branch git/a.git bonn/a.git
	push_change git/a.git topic
	wait_until 10 same_branch git/a.git bonn/a.git topic
	wait_until 10 store_is_empty
	stop_site kiel
}

another_remote_is_obeyed_after_a_hangup_and_a_wrong_one_is_not() {
	make_node kiel sync.scanInterval 1s
	add_remote kiel bonn
	start_ready kiel
	make_repository git/a.git 3
	wait_until 10 same_branch git/a.git bonn/a.git
	add_remote kiel trier
	kill -HUP "$(site_pid kiel)"
	wait_until 10 was_logged kiel node.reloaded
	add_commits git/a.git refs/heads/main 1
	wait_until 10 same_branch git/a.git trier/a.git
	wait_until 10 same_branch git/a.git bonn/a.git

	set_conf kiel remote.wrong.url "$PWD/wrong"
	kill -HUP "$(site_pid kiel)"
	wait_until 10 was_logged kiel node.reload_failed
	add_commits git/a.git refs/heads/main 1
	wait_until 10 same_branch git/a.git trier/a.git
	stop_site kiel
}

the_first_remote_is_for_the_next_start() {
	make_node kiel
	git config -f kiel/refrelay.conf --remove-section replication
	start_site kiel
	add_remote kiel bonn
	kill -HUP "$(site_pid kiel)"
	wait_until 10 was_logged kiel node.restart_needed key=remote
	stop_site kiel
}

what_cannot_be_handed_on_is_owed() {
	make_node kiel sync.scanInterval 1s
	add_remote kiel bonn
	start_ready kiel
	mv store/ref-updates/building away
	: >store/ref-updates/building
	make_repository git/a.git 3
	wait_until 10 was_logged kiel change.owed
	wait_until 10 was_logged kiel change.noticed
	rm store/ref-updates/building
	mv away store/ref-updates/building
	wait_until 20 was_logged kiel change.settled
	wait_until 10 same_branch git/a.git bonn/a.git
	stop_site kiel
}

# As when its file system is not mounted: what waits there must not be hidden by a new one.
a_store_that_is_away_is_not_made_anew() {
	make_node kiel sync.scanInterval 1s
	add_remote kiel bonn
	set_conf kiel replication.distributionInterval 1s
	make_repository git/a.git 3
	expect 0 at kiel push queue
	expect 0 at kiel push list
	[ ! -e kiel/data ]
	[ ! -e store ]
	start_ready kiel
	stop_site kiel
	add_commits git/a.git refs/heads/main 1
	at kiel changed a
	mv store away
	for command in "push queue" "push start" "push retry --all"; do
		# shellcheck disable=SC2086
		expect 1 at kiel $command
		grep -q 'is not the task store that it was' err
		grep -q 'remove .*/kiel/data/task-store' err
	done
	expect 3 at kiel status
	grep -q 'is not the task store that it was' out
	expect 1 at kiel serve
	[ ! -e store ]
	mv away store
	start_site kiel
	wait_until 10 same_branch git/a.git bonn/a.git
	wait_until 10 copy_store other
	rm other/refrelay/.id
	mv store away
	mv other store
	wait_until 10 was_logged kiel push.store_failed
	add_commits git/a.git refs/heads/main 1
	wait_until 10 was_logged kiel change.owed
	rm -r store
	mv away store
	wait_until 10 was_logged kiel push.store_back
	wait_until 20 same_branch git/a.git bonn/a.git
	stop_site kiel
	rm -r store kiel/data/task-store
	expect 0 at kiel push start
}

a_change_without_a_node_is_pushed_by_the_next() {
	make_node kiel sync.scanInterval 1s
	add_remote kiel bonn
	make_repository git/a.git 3
	start_ready kiel
	stop_site kiel
	add_commits git/a.git refs/heads/main 1
	at kiel changed a
	fails store_is_empty
	start_site kiel
	wait_until 10 same_branch git/a.git bonn/a.git
	stop_site kiel
}

two_nodes_share_a_tree_and_its_tasks() {
	for site in kiel kiel2; do
		make_node "$site" sync.scanInterval 1s
		add_remote "$site" bonn
	done
	start_ready kiel
	start_ready kiel2
	make_repository git/a.git 3
	wait_until 10 same_branch git/a.git bonn/a.git
	wait_until 10 was_logged kiel change.noticed
	wait_until 10 was_logged kiel2 change.noticed
	kill_site kiel
	add_commits git/a.git refs/heads/main 1
	wait_until 20 same_branch git/a.git bonn/a.git
	stop_site kiel2

	set_conf kiel site.role primary
	start_site kiel
	expect 5 at kiel2 serve
	grep -q 'another refrelay node works on' err
	stop_site kiel
}

a_secondary_pushes_what_it_was_brought() {
	make_sites
	add_remote paris lyon replicateProjectDeletions true
	make_repository london/git/a.git 3
	make_repository london/git/stays.git 3
	start_sites
	wait_until 30 in_sync
	wait_until 30 is_ready paris
	make_repository london/git/b.git 3
	add_commits london/git/a.git refs/heads/main 2
	wait_until 20 same_branch london/git/a.git lyon/a.git
	wait_until 20 same_branch london/git/b.git lyon/b.git
	remove_repository london/git/b.git
	wait_until 20 test ! -e lyon/b.git
	[ -d lyon/a.git ]
	expect 2 at paris changed a
	stop_site paris
	stop_site london
}

# It serves its secondary all the same.
a_primary_pushes_its_changes() {
	make_sites
	set_conf london replication.eventsDirectory "$PWD/store"
	add_remote london lyon
	make_repository london/git/a.git 3
	start_sites
	wait_until 30 in_sync
	wait_until 30 is_ready london
	at london hooks install --all
	push_change london/git/a.git
	make_repository london/git/b.git 3
	wait_until 20 same_branch london/git/a.git lyon/a.git
	wait_until 20 same_branch london/git/b.git lyon/b.git
	wait_until 20 same_sites # what was pushed on may be more than was noticed yet
	wait_until 20 in_sync
	wait_until 10 store_is_empty
	stop_site paris
	stop_site london
}

tap_test "a push reaches the destination by its hook" \
	a_push_reaches_the_destination_by_its_hook
tap_test "another remote is obeyed after a hangup, and a wrong one is not" \
	another_remote_is_obeyed_after_a_hangup_and_a_wrong_one_is_not
tap_test "the first remote is for the next start" the_first_remote_is_for_the_next_start
tap_test "what cannot be handed on is owed" what_cannot_be_handed_on_is_owed
tap_test "a store that is away is not made anew" a_store_that_is_away_is_not_made_anew
tap_test "a change without a node is pushed by the next" \
	a_change_without_a_node_is_pushed_by_the_next
tap_test "two nodes share a tree and its tasks" two_nodes_share_a_tree_and_its_tasks
tap_test "a secondary pushes what it was brought" a_secondary_pushes_what_it_was_brought
tap_test "a primary pushes its changes, too" a_primary_pushes_its_changes
tap_done
