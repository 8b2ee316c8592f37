#!/usr/bin/env bash
# The secondary dies around a sync of a copy that it has: taking events over, comparing,
# verifying. What it does next repeats work at most.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/site_crash.sh"

# Then everything is compared.
forget_position() {
	python3 - <<-'END'
		import sqlite3
		with sqlite3.connect("paris/data/refrelay.db") as database:
		    count = database.execute("DELETE FROM site_value WHERE key = 'pull.cursor'").rowcount
		    assert count == 1
	END
}

dies_while_it_compares_everything() {
	local point

	start_crash_sites
	for point in consistency.compared cursor.compared; do
		note_branches
		kill_site paris
		change_a
		forget_position
		launch_site paris "REFRELAY_FAILPOINT=$point=kill"
		is_killed_within 10 paris
		no_branch_went_back
		start_site paris
		is_whole_again paris
	done
}

reverify() {
	wait_until 20 is_serving paris
	at paris repository reverify a
}

dies_while_it_verifies() {
	start_crash_sites
	dies_at paris verify.claimed reverify
	dies_at paris verify.done reverify
	test -z "$(row_of paris a verification_failure)"
}

# Each death interrupts the repair of the one before.
dies_again_and_again() {
	local point

	start_crash_sites
	note_branches
	kill_site paris
	for point in publish.renamed state.recover state.buried publish.head sync.verified \
		sync.done cursor.taken; do
		launch_site paris "REFRELAY_FAILPOINT=$point=kill"
		change_a
		is_killed_within 10 paris
		no_branch_went_back
	done
	start_site paris
	is_whole_again paris
}

tap_test "killed between an event and its worker" \
	dies_at_each cursor.read cursor.taken sync.claimed
tap_test "killed while it compares everything" dies_while_it_compares_everything
tap_test "killed while it verifies" dies_while_it_verifies
tap_test "killed at the repair of what a death left" dies_again_and_again
tap_done
