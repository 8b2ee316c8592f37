#!/usr/bin/env bash
# Bytes that change on a disk, at either site: they are found by reading, never given out
# once they are known, and the copy and the original heal each other.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/transfer.sh"

# One byte is another, and the times that tell of it are as they were.
flip_byte() { # FILE [AT]
	touch -r "$1" times
	dd if="$1" bs=1 skip="${2:-5}" count=1 status=none |
		tr '\000-\376\377' '\001-\377\000' >byte
	dd if=byte of="$1" bs=1 seek="${2:-5}" conv=notrunc status=none
	touch -r times "$1"
}

# `object` and a repository r that names it; uploads small and big.
make_damage_sites() { # MAKE-SITES
	make_blob_sites "$1"
	give_token london boss operate
	set_conf paris http.anonymousRead true
	make_blob small 3000
	make_blob big 3000000
	text='an object of some length'
	put_object "$text" london/lfs
	make_repository london/git/r.git 1
	name_object
	start_sites
	wait_until 40 all_is_here
	wait_until 20 gives_object paris
}

# What happens on its disk is for verifications to find, and for readers.
restart_unwatched() {
	stop_site paris
	unwatch paris
	start_site paris
	wait_until 20 expect 0 at paris status # it has looked at all copies
}

as_operator() { # CURL-ARGUMENT...
	curl -sS -m 20 -o got -w '%{http_code}' -u "any:$(cat boss.token)" "$@"
}

a_copy_is_damaged_and_reverified() {
	local file
	make_damage_sites make_sites
	restart_unwatched
	for file in uploads/small uploads/big "lfs/$object"; do
		flip_byte "paris/$file"
		fails cmp -s "london/$file" "paris/$file"
		at paris blob reverify --type "${file%%/*}" "${file#*/}"
		wait_until 20 was_logged paris verify.mismatch "name=${file#*/}"
		wait_until 20 comes
	done
	no_leftovers
	# The primary was asked whether it is sure, and was.
	blob_is london uploads small verification succeeded
	blob_is london uploads small generation 1
}

# By its bytes, or by the look at the file that follows when it was read just before.
is_found() { # ID
	was_logged paris verify.mismatch "name=$1" || was_logged paris copy.doubted "name=$1"
}

a_copy_is_damaged_and_found_in_its_turn() {
	make_damage_sites make_sites
	set_conf paris sync.reverifyInterval 1s
	restart_unwatched
	at paris blob reverify --wait --all
	flip_byte paris/uploads/small
	flip_byte paris/uploads/big 2000000
	flip_byte "paris/lfs/$object"
	wait_until 20 is_found small
	wait_until 20 is_found big
	wait_until 20 is_found "$object"
	wait_until 20 comes
	gives_object paris
}

# While it cannot be brought again, the primary's is given.
a_damaged_copy_is_not_given_out() {
	make_damage_sites make_proxied_sites
	restart_unwatched
	rules '/api/v1/retrieve/ drop'
	flip_byte "paris/lfs/$object"
	at paris blob reverify --type lfs "$object"
	wait_until 20 fails_again lfs "$object" network
	gives_object paris
	# Not even when nothing else can be given.
	rules '/api/v1/retrieve/ drop' 'info/lfs drop'
	[ "$(get_object paris)" -ge 500 ]
	fails grep -q "${text:6}" got
	rules
	wait_until 30 comes
	gives_object paris
}

fails_at_london() { # TYPE ID CLASS TEXT
	local said
	said=$(at london blob show --json --type "$1" "$2")
	[[ $said == *'"verification":"failed"'* && $said == *"\"failure_class\":\"$3\""* &&
		$said == *"$4"* ]] && return
	echo "$said"
	return 1
}

an_immutable_original_is_damaged() {
	make_damage_sites make_sites
	flip_byte "london/lfs/$object"
	wait_until 20 fails_at_london lfs "$object" corrupt 'not the one that its name says'
	[ "$(as_operator "$(site_url london)/api/v1/retrieve/lfs/${object//\//%2F}")" = 409 ]
	grep -q '"code":"CORRUPT"' got
	as_operator "$(site_url london)/api/v1/retrieve/lfs" -d "{\"ids\":[\"$object\"]}" >status
	grep -q '"code":"CORRUPT"' got
	fails grep -qa "${text:6}" got
	[ "$(get_object london)" = 409 ]
	# The copy is right, and stays, whatever is asked for.
	gives_object paris
	at paris blob reverify --wait --type lfs "$object"
	at paris blob resync --wait --type lfs "$object"
	at paris blob sync --wait --type lfs "$object"
	wait_until 20 blob_is paris lfs "$object" state synced
	[ "$(<"paris/lfs/$object")" = "$text" ]
	gives_object paris
	# It is where the original can be had from.
	cp "paris/lfs/$object" "london/lfs/$object"
	wait_until 20 blob_is london lfs "$object" verification succeeded
	wait_until 20 all_is_here
	[ "$(get_object london)" = 200 ]
}

# Once, or twice if it was read before its time was set back.
has_changed() { # SITE ID
	[ "$(blob_of "$1" uploads "$2" generation)" -ge 2 ]
}

# Who writes and sets the time back has changed it all the same.
a_changed_original_with_its_old_time_is_a_change() {
	make_damage_sites make_sites
	flip_byte london/uploads/small
	flip_byte london/uploads/big 1234567
	wait_until 20 has_changed london small
	wait_until 20 has_changed london big
	wait_until 20 all_is_here
	has_changed paris small
}

set_checksum() { # ID IS-SETTLED
	stop_site london
	sqlite3 london/data/refrelay.db "UPDATE origin SET is_settled = $2,
		verified_at = verified_at - 120000, checksum = '$(printf '%064d' 7)' WHERE kind = 'uploads' AND name = '$1'"
	start_site london
}

# It was changed so soon after it was read that nothing showed it.
a_stale_checksum_is_computed_again() {
	make_blob_sites make_sites
	make_blob small 3000
	start_site london
	wait_until 20 blob_is london uploads small verification succeeded
	set_checksum small 0
	start_site paris
	wait_until 20 blob_fails uploads small corrupt 'what came has the SHA-256'
	fails test -e paris/uploads/small
	at paris blob sync --type uploads small # now it is no chance, and the primary is asked
	wait_until 20 blob_is london uploads small generation 2
	wait_until 20 comes
	blob_is london uploads small checksum "$(sha256sum <london/uploads/small | cut -c 1-64)"
}

# Nobody has written, and yet it is another: the copy is not made worse by it.
an_original_that_rots_is_not_passed_on() {
	make_damage_sites make_sites
	set_checksum small 1
	at london blob reverify --type uploads small
	wait_until 20 fails_at_london uploads small corrupt 'changed without a write'
	[ "$(as_operator "$(site_url london)/api/v1/retrieve/uploads/small")" = 409 ]
	at paris blob resync --wait --type uploads small || true
	gives_object paris
	cmp london/uploads/small paris/uploads/small # as it was
	touch london/uploads/small
	wait_until 20 comes
}

tap_test 'a copy is damaged, and healed when it is verified' a_copy_is_damaged_and_reverified
tap_test 'a copy is damaged, and found in its turn' a_copy_is_damaged_and_found_in_its_turn
tap_test 'a damaged copy is not given out' a_damaged_copy_is_not_given_out
tap_test 'an immutable original is damaged, and its copy stays' an_immutable_original_is_damaged
tap_test 'an original that changed under its old time is a change' \
	a_changed_original_with_its_old_time_is_a_change
tap_test 'a stale checksum of the primary is computed again' a_stale_checksum_is_computed_again
tap_test 'an original that rots is not passed on' an_original_that_rots_is_not_passed_on
tap_done
