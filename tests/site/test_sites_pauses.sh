#!/usr/bin/env bash
# A node is stopped for longer than it has a lease: what it does when it goes on is either
# right or refused.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/site_crash.sh"

# One that was stopped in the middle of a transaction has the database, too: then it takes
# a command longer than the lease to give up.
has_lapsed() {
	at paris lease list --json >leases 2>leases.err || {
		grep -q 'locked by another process' leases.err
		return
	}
	grep -qF '"lapsed: alive but silent"' leases
}

# It wakes up with a view of what was, and everybody may have had its lease meanwhile.
sleeps_beyond_its_lease() { # FAST-PATH POINT...
	local point fast=$1

	shift
	start_crash_sites
	set_conf paris lease.ttl 1s
	set_conf paris sync.fastPath "$fast"
	for point; do
		echo "$point:"
		note_branches
		stop_site paris
		launch_site paris "REFRELAY_FAILPOINT=$point=stop"
		change_a
		wait_until 10 is_paused paris
		no_branch_went_back
		change_a
		wait_until 5 has_lapsed
		kill -CONT "$(site_pid paris)"
		is_whole_again paris
	done
}

# Nothing is left that could write once the lease is over.
children_die_with_the_lease() {
	start_crash_sites
	stop_site paris
	set_conf paris lease.ttl 8s # a busy node loses a shorter one before it is stopped
	start_site paris
	hang_a_fetch
	fails no_site_children paris
	kill -STOP "$(site_pid paris)"
	wait_until 10 no_site_children paris
	kill -CONT "$(site_pid london)" "$(site_pid paris)"
	wait_until 10 was_logged paris job.failed
	at paris repository sync a
	is_whole_again paris
}

tap_test "a secondary sleeps before it publishes" \
	sleeps_beyond_its_lease true sync.leased sync.fenced small_pack.packed publish.checked
tap_test "a secondary sleeps while git brings objects" \
	sleeps_beyond_its_lease false objects.fetched
tap_test "a secondary sleeps after it published" \
	sleeps_beyond_its_lease true publish.written publish.renamed sync.done cursor.taken
tap_test "git's processes do not outlive the lease of one that sleeps" \
	children_die_with_the_lease
tap_done
