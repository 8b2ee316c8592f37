#!/usr/bin/env bash
# Whoever has made a mistake with blobs, or whose disk is away, is told what to do.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

# Two kinds at both sites; what is put at one of them is put by an operator.
make_blob_sites() {
	local site kind
	make_sites
	for site in london paris; do
		set_conf "$site" http.operatorTokenFile "$PWD/secret"
		for kind in films uploads; do
			mkdir -p "$site/$kind"
			set_conf "$site" "blob.$kind.path" "$PWD/$site/$kind"
		done
	done
	mkdir london/uploads/a
	echo one >london/uploads/a/1
	echo two >london/uploads/2
	start_sites
	wait_until 30 all_is_here
}

all_is_here() {
	diff -r -x .refrelay london/uploads paris/uploads && in_sync
}

puts() { # SITE ID FILE
	curl -sS -m 20 -o answer -w '%{http_code}' -T "$3" \
		-H "Authorization: Bearer $(cat secret)" \
		-H "Content-Digest: sha-256=:$(openssl dgst -sha256 -binary "$3" | base64):" \
		"$(site_url "$1")/api/v1/blobs/uploads/$2"
}

what_is_put_at_a_secondary_is_at_both() {
	make_blob_sites
	head -c 3000000 /dev/urandom >film
	[ "$(puts paris via%2Fparis film)" = 201 ]
	cmp film london/uploads/via/paris
	[ "$(puts paris via%2Fparis film)" = 200 ]
	wait_until 20 all_is_here
}

is_lost() {
	expect 3 at paris status
	grep -q "^paris cannot find its copies: blob.uploads.path (.*) is empty, but 2 copies" out
}

a_disk_that_is_away_is_told_and_what_is_lost_comes_again() {
	make_blob_sites
	stop_site paris
	mv paris/uploads elsewhere
	mkdir paris/uploads
	start_site paris
	wait_until 20 is_lost
	grep -q 'refrelay blob resync --type uploads --all, and restart the node' out
	expect 1 at paris check
	grep -q '^FAIL *copies *blob.uploads.path' out
	# What it says helps.
	expect 1 at paris blob resync --type uploads --all --wait
	grep -q 'hint: ' err
	stop_site paris
	start_site paris
	wait_until 20 all_is_here
	expect 0 at paris check
}

mistakes_are_answered_with_what_would_be_right() {
	make_blob_sites
	expect 2 at paris blob show a/1
	grep -q 'this site has several blob types: films, uploads$' err
	expect 2 at paris blob show --type uploads
	grep -q 'show takes at least one ID$' err
	expect 2 at paris blob sync --all --failed
	grep -q 'cannot be combined$' err
	expect 4 at paris blob show --type uploads nowhere
	grep -q 'no blob of kind uploads with this id' err
	expect 2 at london blob sync --type uploads 2
	grep -q 'list, show and reverify ID' err
	expect 0 at london blob show --type uploads --json 2
	grep -q '"kind":"uploads"' out

	expect 2 at london changed --blob nothing 2
	grep -q 'hint: use the TYPE of a .blob' err
	expect 4 at london changed --blob uploads nowhere
	grep -q "hint: an id is a path below $PWD/london/uploads" err
	expect 0 at london changed --blob uploads "$PWD/london/uploads/2"
	grep -qx unchanged out
}

tap_test 'what is put at a secondary is at both' what_is_put_at_a_secondary_is_at_both
tap_test 'a disk that is away is told, and what is lost comes again' \
	a_disk_that_is_away_is_told_and_what_is_lost_comes_again
tap_test 'mistakes are answered with what would be right' \
	mistakes_are_answered_with_what_would_be_right
tap_done
