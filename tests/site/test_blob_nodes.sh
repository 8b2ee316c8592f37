#!/usr/bin/env bash
# More than one at work on the blobs of a secondary: a node that sleeps while others go on,
# the one that comes after it, what a person does meanwhile, and a node that must not be
# there. Whoever is late undoes nothing.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/blob_crash.sh"

# At a moment when none of its other threads is in the middle of a transaction, or nobody
# could write while it sleeps.
put_to_sleep() { # POINT
	local tries

	for tries in $(seq 20); do
		stop_site paris
		start_site paris "REFRELAY_FAILPOINT=$1=stop"
		wait_until 10 in_sync
		put_file "more/$1/$tries"
		put_file a/one
		wait_until 10 is_paused paris
		nobody_writes paris && return
		kill -CONT "$(site_pid paris)"
		wait_until 10 is_whole
	done
	fail "it always sleeps in a transaction: $tries times"
}

wake_up() {
	kill -CONT "$(site_pid paris)"
}

the_next_one_waits_for_nobody() {
	local point begun

	start_blob_sites
	for point in blob.received blob.synced blob.renamed; do
		put_to_sleep "$point"
		expect 5 timeout 10 "$REFRELAY" -c paris/refrelay.conf serve
		grep -F "another node, process $(site_pid paris) on " err
		kill_site paris
		no_half_blob paris
		age_temporaries
		begun=$SECONDS
		start_site paris
		is_whole_again
		[ $((SECONDS - begun)) -lt 100 ] # claims are held for longer
	done
}

# Meanwhile all that it has in hand changes; nothing old is left in place of the new.
a_sleeper_puts_nothing_old_there() {
	local point

	start_blob_sites
	for point in blob.received blob.synced blob.renamed blob.recorded; do
		echo "$point:"
		put_to_sleep "$point"
		put_file a/one
		put_file a/two
		wake_up
		is_whole_again
	done
}

# A person takes away what it is about to put there, and it is there in the end, or the
# primary has it no more, and it is not.
a_person_goes_on_while_it_sleeps() {
	local point

	start_blob_sites
	for point in blob.received blob.synced blob.renamed; do
		put_to_sleep "$point"
		at paris blob remove --type uploads a/one || [ $? -eq 1 ]
		wake_up
		is_whole_again
		cmp london/uploads/a/one paris/uploads/a/one
	done
}

# It is deleted at the primary and put there anew while its removal sleeps.
a_sleeper_removes_nothing_new() {
	local point

	start_blob_sites
	for point in blob.discarded removal.trashed; do
		put_file gone/x
		wait_until 20 is_whole
		stop_site paris
		launch_site paris "REFRELAY_FAILPOINT=$point=stop"
		rm -r london/uploads/gone
		wait_until 15 is_paused paris
		put_file gone/x
		wait_until 10 event_is_told gone/x created 2
		wake_up
		is_whole_again
		rm -r london/uploads/gone
		wait_until 20 is_whole
	done
}

event_is_told() { # ID EVENT TIMES
	[ "$(at london events --json | grep -F "\"name\":\"$1\"" |
		grep -cF "\"event\":\"$2\"")" -ge "$3" ]
}

# A configuration that was copied: it would bring the primary's own files to the primary,
# over what is written there meanwhile.
a_directory_has_one_node() {
	start_blob_sites
	stop_site paris
	set_conf paris blob.uploads.path "$PWD/london/uploads"
	expect 5 timeout 10 "$REFRELAY" -c paris/refrelay.conf serve
	grep -F "another refrelay node works on blob.uploads.path ($PWD/london/uploads)" err
	set_conf paris blob.uploads.path "$PWD/paris/uploads"
	start_site paris
	wait_until 20 is_whole
	same_blobs
}

tap_test "who comes after one that was killed in its sleep waits for nobody" \
	the_next_one_waits_for_nobody
tap_test "who has slept puts nothing old there" a_sleeper_puts_nothing_old_there
tap_test "a person can go on while it sleeps" a_person_goes_on_while_it_sleeps
tap_test "who has slept removes nothing that is new" a_sleeper_removes_nothing_new
tap_test "a directory of blobs has one node" a_directory_has_one_node
tap_done
