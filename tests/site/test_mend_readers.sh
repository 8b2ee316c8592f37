#!/usr/bin/env bash
# A reader of a damaged copy gets what the primary has, the copy is not called verified any
# more, and it mends itself; what was damaged while the node was down is met at its start.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/mending.sh"

a_check_tells_of_damage_and_marks_it() {
	cd "$SHARED"
	at paris check >good
	grep 'copies .* unchanged since' good
	# The node, which would see it, too, and mend it.
	freeze_site paris
	rm -rf paris/git/copy-missing.git paris/git/objects-missing.git/objects
	expect 1 at paris check
	kill -CONT "$(site_pid paris)"
	grep 'FAIL   copies .*2 of .* copies of repositories were changed by others, e.g. copy-missing' out
	wait_until 40 in_sync
	equal_repositories london/git/copy-missing.git paris/git/copy-missing.git
	equal_repositories london/git/objects-missing.git paris/git/objects-missing.git
}

# As a disk rots: neither size nor time nor mode tells.
rot() { # FILE
	touch -r "$1" times
	chmod u+w "$1"
	head -c 60 /dev/zero | tr '\0' z | dd of="$1" bs=1 seek=100 conv=notrunc status=none
	chmod 444 "$1"
	touch -r times "$1"
}

a_reader_who_meets_silent_damage_gets_what_the_primary_has() {
	local url
	cd "$SHARED"
	make_repository silent.git 20
	mv silent.git london/git/
	wait_until 20 row_is paris silent verification_state succeeded
	url=$(site_url paris)/silent.git
	chmod 444 paris/git/silent.git/objects/pack/*.pack
	at paris repository resync --wait silent
	rot paris/git/silent.git/objects/pack/*.pack
	git clone -q --mirror "$url" got
	wait_until 2 was_logged paris copy.doubted name=silent
	wait_until 40 in_sync
	equal_repositories london/git/silent.git got
	equal_repositories london/git/silent.git paris/git/silent.git
}

tap_set_up make_damageable
tap_test "whatever is damaged, a reader gets what the primary has, and it is mended" met_by read
tap_test "a check tells of damage, and has it mended" a_check_tells_of_damage_and_marks_it
tap_test "a reader who meets silent damage gets what the primary has" \
	a_reader_who_meets_silent_damage_gets_what_the_primary_has
# The last: that node ends with its test.
tap_test "whatever was damaged while the node was down, its start mends it" met_at_the_start
tap_done
