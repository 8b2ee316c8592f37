#!/usr/bin/env bash
# The primary is there and says nothing: it is stopped for longer than its secondary waits
# for an answer. When it goes on, so does all the rest.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/site_crash.sh"

push() {
	git -C work commit -q --allow-empty -m "$RANDOM"
	timeout 20 git -C work push -q origin main
}

is_silent() {
	expect 3 at paris status
	grep -q "paris cannot reach its primary" out
}

# A request has half a minute.
primary_is_silent() {
	local pids

	start_crash_sites
	at london hooks install
	git clone -q london/git/a.git work
	pids="$(site_pid london) $(site_pid paris)"
	kill -STOP "$(site_pid london)"
	push
	find london/data/spool -type f -name '[0-9]*' | grep -q .
	wait_until 45 is_silent
	expect 3 at paris status
	head -n 1 out
	head -n 1 out | grep -E "cannot reach its primary for [0-9.]+ s, last heard [0-9]+ s"
	head -n 1 out | grep -F "$(site_url london)"
	expect 3 at paris status --json
	grep -q '"since"' out
	kill -CONT "$(site_pid london)"
	wait_until 20 was_logged paris primary.back
	wait_until 20 is_whole
	test "$pids" = "$(site_pid london) $(site_pid paris)"
	is_serving london
	is_serving paris
	events_are_dense
}

tap_test "a primary is silent for longer than it is waited for" primary_is_silent
tap_done
