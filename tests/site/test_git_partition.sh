#!/usr/bin/env bash
# The sites do not reach each other any more, from one moment to the next. Copies that were
# fresh are read on, who pushes at the secondary is told that it cannot be done, and in the
# end nothing is lost.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/parted.sh"

# Half of the pack is at the primary, then nothing passes any more.
parted_in_a_pack() {
	local before events pid status=0

	make_pair make_linked_sites
	before=$(tip london/git/r.git) events=$(events_of london r)
	head -c 8000000 /dev/urandom >work/big
	git -C work add big
	commit_in work
	rule stall 3000000
	git -C work push -q origin main 2>err &
	pid=$!
	wait_until 20 grep -q stalled link/log
	[ "$(told_at_paris s)" = "$(tip london/git/s.git)" ]
	rule pass
	wait "$pid" || status=$?
	[ "$status" -ne 0 ]
	[ "$(tip london/git/r.git)" = "$before" ]
	wait_until 20 has_no_traces
	[ "$(events_of london r)" -eq "$events" ]
	[ "$(told_at_paris r)" = "$before" ]
	everything_is_equal_again
}

has_no_traces() {
	[ -z "$(ls london/git/r.git/refrelay/state/pending)" ] &&
		[ -z "$(find london/git/r.git/objects -name 'tmp_objdir*' -o -name 'incoming-*')" ]
}

event_is_there() { # AFTER
	[ "$(events_of london r)" -gt "$1" ]
}

# The primary has done it, and its answer does not come.
parted_before_the_answer() {
	local events pid status=0

	make_pair make_proxied_sites
	events=$(events_of london r)
	rules 'POST.*git-receive-pack stall 0' 'events stall 0'
	commit_in work
	git -C work push -q origin main 2>err &
	pid=$!
	wait_until 20 event_is_there "$events"
	[ "$(tip london/git/r.git)" = "$(tip work HEAD)" ]
	# Not what was before the push, whose end nobody knows here.
	[ "$(told_at_paris r)" = "$(tip work HEAD)" ]
	rules
	wait "$pid" || status=$?
	[ "$status" -ne 0 ]
	[ "$(told_at_paris r)" = "$(tip work HEAD)" ]
	git -C work push origin main 2>err
	grep "Everything up-to-date" err
	[ "$(events_of london r)" -eq $((events + 1)) ]
	everything_is_equal_again
}

tap_test "sites that refuse each other: fresh copies are read, pushes say why, all heals" \
	parted_by refuse
tap_test "parted in the middle of a pack nothing is changed, and it is told" parted_in_a_pack
tap_test "parted before the answer the change and its event are there" parted_before_the_answer
tap_done
