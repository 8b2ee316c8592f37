#!/usr/bin/env bash
# The primary dies at each step of an event's life: nothing that a push brought is lost,
# nothing is told twice, and the secondary ends equal.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/site_crash.sh"

commit() { # NAME
	add_commits "london/git/$1.git" refs/heads/main 1
}

dies_while_it_notices() {
	local point

	start_crash_sites
	for point in notice.seen notice.commits notice.committed; do
		dies_at london "$point" commit a
	done
}

make_and_delete() {
	rm -rf london/git/deep
	make_repository london/git/new.git 2
	commit a
}

# One death for each comparison that is under way.
dies_in_any_of_several_changes() {
	local at

	start_crash_sites
	for at in 1 2 3; do
		dies_at london "notice.committed@$at" make_and_delete
		rm -rf london/git/new.git
		make_repository london/git/deep/b.git 4
		wait_until 10 is_whole
	done
}

dies_while_it_drops_old_events() {
	start_crash_sites
	commit a
	commit deep/b
	wait_until 10 is_whole
	set_conf london events.keepNumber 1
	dies_at london events.pruned true
	commit a
	is_whole_again london
	fails was_logged paris cursor.compares 'events gone'
}

# The sync fails, and comes again by itself after some time; a person is quicker.
dies_while_it_serves_objects() {
	local at

	start_crash_sites
	for at in 1 5; do
		note_branches
		kill_site london
		start_site london "REFRELAY_FAILPOINT=upload_pack.answers@$at=kill"
		push_much
		is_killed_within 10 london
		wait_until 10 row_is paris a failure_class network
		wait_until 5 no_site_children london
		wait_until 5 no_site_children paris
		start_site london
		at paris repository sync a
		is_whole_again london
	done
}

dies_while_it_records_refs() {
	local folder

	start_crash_sites
	kill_site london
	for folder in refs lfs/refs; do
		mkdir -p "london/data/$folder"
		touch "london/data/$folder/7.tmp-0123456789abcdef"
	done
	start_site london
	[ -z "$(find london/data -name '*.tmp-0123456789abcdef')" ]
}

tap_test "killed at each step of noticing" dies_while_it_notices
tap_test "killed between several changes, creation and deletion among them" \
	dies_in_any_of_several_changes
tap_test "killed while it drops old events" dies_while_it_drops_old_events
tap_test "killed while it records refs" dies_while_it_records_refs
tap_test "killed in the middle of an answer with objects" dies_while_it_serves_objects
tap_done
