#!/usr/bin/env bash
# A reader of a damaged copy gets what the primary has, the copy is not called verified any
# more, and it mends itself; what was damaged while the node was down is met at its start.
. "${0%/*}/../lib/tap.sh"
. "${0%/*}/../lib/sites.sh"
. "${0%/*}/../lib/two_sites.sh"
. "${0%/*}/../lib/mending.sh"

a_check_tells_of_damage_and_marks_it() {
	cd "$SHARED"
	at paris check >good
	grep 'copies .* as they were left' good
	rm -rf paris/git/copy-missing.git paris/git/objects-missing.git/objects
	expect 1 at paris check
	grep 'WRONG  copies .*2 of .* copies are not as they were left, for instance copy-missing' out
	wait_until 40 in_sync
	equal_repositories london/git/copy-missing.git paris/git/copy-missing.git
	equal_repositories london/git/objects-missing.git paris/git/objects-missing.git
}

tap_set_up make_damageable
tap_test "whatever is damaged, a reader gets what the primary has, and it is mended" met_by read
tap_test "whatever was damaged while the node was down, its start mends it" met_at_the_start
tap_test "a check tells of damage, and has it mended" a_check_tells_of_damage_and_marks_it
tap_done
