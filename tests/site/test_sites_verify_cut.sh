#!/usr/bin/env bash
# What comes between a verification's beginning and its end: pushes, signals, deaths.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/verify.sh"

# At each place where a verification can be.
a_push_in_the_middle_of_a_verification_arrives() {
	local point count=0
	make_sites
	make_repository london/git/r.git 5
	at london hooks install
	start_verified
	for point in verify.claimed verify.read verify.done; do
		stop_site paris
		launch_site paris "REFRELAY_FAILPOINT=$point=stop"
		wait_until 10 is_paused paris
		count=$((count + 1))
		push_change london/git/r.git "topic-$count"
		wait_until 10 row_is london r generation $((count + 1))
		kill -CONT "$(site_pid paris)"
		converge
		row_is paris r generation $((count + 1))
	done
	are_verified_again paris
	nothing_failed
	[ "$(metric paris 'refrelay_verifications_total{kind="repository",state="disproved"}')" = 0 ]
	nothing_is_started
}

# Whatever ends a node in the middle of one.
a_verification_that_was_cut_off_is_begun_anew() {
	local point
	make_sites
	make_repository london/git/r.git 5
	start_verified
	stop_site paris
	for point in verify.claimed verify.read verify.done; do
		launch_site paris "REFRELAY_FAILPOINT=$point=kill"
		is_killed_within 15 paris
		start_site paris
		stop_site paris
		launch_site paris "REFRELAY_FAILPOINT=$point=stop"
		wait_until 10 is_paused paris
		kill -TERM "$(site_pid paris)"
		kill -CONT "$(site_pid paris)"
		wait "$(site_pid paris)"
		[ "$(status_of paris repositories.verification.started)" = 0 ]
		[ "$(status_of paris repositories.synced)" = 1 ]
		start_site paris
		stop_site paris
	done
	nothing_failed
}

tap_test "a push in the middle of a verification arrives" \
	a_push_in_the_middle_of_a_verification_arrives
tap_test "a verification that was cut off is begun anew" \
	a_verification_that_was_cut_off_is_begun_anew
tap_done
