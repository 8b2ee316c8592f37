#!/usr/bin/env bash
# A connection that breaks while a large blob comes: what is here already is not sent again.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"
. "$TESTS/lib/transfer.sh"

big='GET./api/v1/retrieve/uploads/big'

# The primary has read the blob before anybody asks for it.
make_big() { # BYTES
	make_blob_sites make_proxied_sites
	make_blob big "$1"
	size=$1
	start_site london
	wait_until 30 blob_is london uploads big verification succeeded
}

asked() {
	grep -c "^+ $big" proxy/log || true
}

was_asked() { # TIMES
	[ "$(asked)" -ge "$1" ]
}

# Bytes of the blob that are on paris's disk, on their way.
is_here() { # BYTES
	local here
	here=$(find paris/uploads/.refrelay/incoming -name '*.part' -printf %s 2>/dev/null)
	[ "${here:-0}" -ge "$1" ]
}

# A hundredth is for heads, and for what a connection holds when it breaks.
arrives_once() {
	wait_until 40 comes
	no_leftovers
	[ "$(sent "$big")" -ge "$size" ]
	[ "$(sent "$big")" -lt $((size + size / 100)) ] ||
		fail "$(sent "$big") bytes were sent of $size"
	fails was_logged paris blob.wrong
}

cut_at_every_tenth_of_it() {
	make_big 200000000
	rules "$big cut 20100000"
	start_site paris
	# A job goes on while it gets ahead, but not for ever.
	wait_until 40 blob_fails uploads big network
	[ "$(asked)" -eq 5 ]
	wait_until 10 is_logged 4 paris blob.resumed
	is_here 99000000
	fails test -e paris/uploads/big
	arrives_once
	[ "$(asked)" -eq 10 ]
	blob_is paris uploads big verification_state succeeded
	blob_is paris uploads big checksum "$(sha256sum <london/uploads/big | cut -c 1-64)"
}

# Not at the ends of anything, and with a reset instead of an end.
cut_by_resets() {
	make_big 40000000
	rules "$big abort 9111111"
	start_site paris
	arrives_once
	[ "$(asked)" -eq 5 ]
}

# The connection stands still at a part of it, and then the node ends.
ends_in_the_middle() { # SITE HOW
	make_big 100000000
	rules "$big stall 50000000"
	start_site paris
	wait_until 40 is_here 45000000
	fails test -e paris/uploads/big
	[ "$2" = TERM ] || kill_site "$1"
	[ "$2" != TERM ] || stop_site "$1"
	rules
	start_site "$1"
	# What was in memory only is lost by a kill.
	wait_until 40 comes
	no_leftovers
	[ "$(sent "$big")" -lt $((size * 12 / 10)) ] ||
		fail "$(sent "$big") bytes were sent of $size"
	[ "$(grep "$big" proxy/sent | tail -n 1 | cut -d ' ' -f 1)" -lt "$size" ]
}

# Two versions are never put together.
the_blob_changes_between_two_parts() {
	make_big 30000000
	rules "$big stall 10000000"
	start_site paris
	wait_until 40 is_here 9000000
	make_blob big 20000000
	wait_until 20 blob_is london uploads big generation 2
	rules
	wait_until 40 comes
	no_leftovers
	fails was_logged paris blob.wrong
}

tap_test 'a blob of 200 MB arrives by a connection that is cut at every tenth of it' \
	cut_at_every_tenth_of_it
tap_test 'resets at odd places cost no more than what was on its way' cut_by_resets
tap_test 'the secondary is stopped in the middle' ends_in_the_middle paris TERM
tap_test 'the secondary is killed in the middle' ends_in_the_middle paris KILL
tap_test 'the primary is killed in the middle' ends_in_the_middle london KILL
tap_test 'the blob changes between two parts' the_blob_changes_between_two_parts
tap_done
