#!/usr/bin/env bash
# The primary dies while hooks tell it of pushes, and at the notes that they leave when it
# is not there: each push is one event.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/site_crash.sh"

push() {
	git -C work commit -q --allow-empty -m "$RANDOM"
	timeout 20 git -C work push -q origin main
}

# Sites with hooks, and nothing else that looks: a change is known by its hook or by the
# spool.
start_hooked() {
	start_crash_sites
	at london hooks install
	git clone -q london/git/a.git work
	set_conf london sync.scanInterval 1h
}

events_of_a() {
	at london events --json | grep -c '"name":"a"'
}

# The start after this one passes no point by itself: a fingerprint that was taken too soon
# after a push is taken again by this one.
settle() {
	local scans

	kill_site london
	scans=$(logged london watch.scanned || true)
	start_site london
	wait_until 5 has_scanned "$((scans + 1))"
}

has_scanned() { # TIMES
	[ "$(logged london watch.scanned)" -ge "$1" ]
}

# The hook, left alone, leaves a note in the spool, and that is no second event.
dies_before_it_answers_a_hook() {
	local before point

	start_hooked
	for point in notice.seen notice.commits notice.committed hook.noticed; do
		push
		wait_until 10 is_whole
		before=$(events_of_a)
		settle
		kill_site london
		start_site london "REFRELAY_FAILPOINT=$point=kill"
		note_branches
		rm -f london/data/spool/.late # or the hook does not even ask
		push
		is_killed_within 5 london
		start_site london
		is_whole_again london
		test "$(events_of_a)" -eq "$((before + 1))"
	done
}

# Pushes while nobody is at home, and a start that dies at its work on them.
dies_while_it_works_off_the_spool() {
	local before point

	start_hooked
	for point in spool.compared spool.removed spool.removed@2 notice.commits; do
		before=$(events_of_a)
		kill_site london
		push
		push
		push
		find london/data/spool -type f -name '[0-9]*' | grep -q .
		note_branches
		launch_site london "REFRELAY_FAILPOINT=$point=kill"
		is_killed_within 5 london
		start_site london
		is_whole_again london
		test "$(events_of_a)" -eq "$((before + 1))"
	done
}

tap_test "killed before a hook has its answer" dies_before_it_answers_a_hook
tap_test "killed while it works off the spool" dies_while_it_works_off_the_spool
tap_done
