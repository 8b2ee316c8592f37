#!/usr/bin/env bash
# A disk that is full while blobs come: it is told, nothing half gets a name, nothing is left
# behind, what is on other disks goes on, and all is well when there is room.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/transfer.sh"

guard=$TESTS/peers/tree_guard.py

# The uploads of one site are on a disk of their own.
small_disk() { # SITE SIZE
	[ "$(id -u)" -eq 0 ] || skip "only root can mount a file system of a certain size"
	make_blob_sites make_sites
	give_token london boss operate
	mount -t tmpfs -o "size=$2" refrelay-test "$1/uploads" 2>/dev/null ||
		skip "no tmpfs can be mounted here"
	trap 'umount -l "$TEST_DIR/'"$1"'/uploads"' EXIT
	python3 "$guard" paris/uploads london/uploads found &
	wait_until 10 test -f found.rounds
}

make_room() { # SITE
	mount -o remount,size=60m "$1/uploads"
}

# Repositories and the other kind, while uploads fail.
others_go_on() {
	put_object 'not on that disk' london/lfs
	push_change london/git/r.git
	wait_until 20 test -f "paris/lfs/$object"
	wait_until 20 same_sites
}

nothing_wrong_was_seen() {
	local before
	before=$(<found.rounds)
	wait_until 10 looked_since "$((before + 1))"
	[ ! -s found ] || fail "these had wrong bytes: $(<found)"
}

looked_since() { # ROUND
	[ "$(<found.rounds)" -gt "$1" ]
}

heals_with_room() {
	make_room paris
	wait_until 30 comes
	nothing_wrong_was_seen
	no_leftovers
}

a_large_blob_has_no_room() {
	small_disk paris 4m
	make_repository london/git/r.git 2
	make_blob big 6000000
	make_blob other 2000000
	start_sites
	wait_until 20 blob_fails uploads big disk 'no room for big, 6000000 bytes'
	# What fits is there.
	wait_until 20 cmp -s london/uploads/other paris/uploads/other
	status_says 'of kind uploads failing, e.g. big: no room'
	[ -n "$(blob_of paris uploads big remedy)" ]
	no_leftovers
	others_go_on
	heals_with_room
}

an_update_has_no_room() {
	small_disk paris 4m
	make_repository london/git/r.git 2
	make_blob big 3000000
	start_sites
	wait_until 20 all_is_here
	cp paris/uploads/big before
	make_blob big 3100000
	wait_until 20 blob_fails uploads big disk 'no room'
	cmp before paris/uploads/big
	no_leftovers
	others_go_on
	heals_with_room
}

some_are_here() {
	[ "$(find paris/uploads -name 'n-*' -size 200000c | wc -l)" -ge 5 ] &&
		[ "$(at paris blob list --failed --type uploads | wc -l)" -ge 5 ]
}

no_room_in_the_middle_of_a_batch() {
	local i
	small_disk paris 2m
	make_repository london/git/r.git 2
	for i in $(seq 20); do
		make_blob "n-$i" 200000
	done
	start_sites
	wait_until 20 some_are_here
	at paris blob list --failed --type uploads --json >rows
	python3 -c '
import json
rows = json.load(open("rows"))["blobs"]
assert all(row["failure_class"] == "disk" for row in rows), rows
assert all("No space left" in row["failure"] for row in rows), rows'
	no_leftovers
	others_go_on
	heals_with_room
}

# Not one more file can be made there.
no_inode_is_left() {
	local i
	small_disk paris 20m,nr_inodes=12
	make_repository london/git/r.git 2
	for i in $(seq 20); do
		make_blob "d$i/n" 1000
	done
	start_sites
	wait_until 20 all_have_been_tried
	at paris blob list --failed --type uploads --json >rows
	grep -q '"failure_class":"disk"' rows
	fails grep -E '"failure_class":"[^d]' rows
	no_leftovers
	others_go_on
	mount -o remount,nr_inodes=1000 paris/uploads
	heals_with_room
}

all_have_been_tried() {
	[ -n "$(at paris blob list --failed --type uploads)" ] &&
		[ -z "$(at paris blob list --state pending --type uploads)" ] &&
		[ -z "$(at paris blob list --state started --type uploads)" ]
}

put() { # SITE ID FILE [CURL-OPTION...]
	local site=$1 id=$2 file=$3 digest
	shift 3
	digest=$(openssl dgst -sha256 -binary "$file" | base64)
	curl -sS -m 30 -o answer -w '%{http_code}' -u "any:$(<boss.token)" \
		-H "Content-Digest: sha-256=:$digest:" -H 'Expect:' "$@" \
		-T "$file" "$(site_url "$site")/api/v1/blobs/uploads/$id"
}

is_refused() { # SITE ID FILE [CURL-OPTION...]
	local status
	status=$(put "$@" 2>err) || true
	[ "$status" = 507 ] || [ "$status" = 500 ] || fail "status $status: $(<answer)"
	grep -q 'No space left on device' answer || fail "$(<answer)"
	fails test -e "london/uploads/$2"
	no_leftovers london
}

the_primary_has_no_room_for_an_upload() {
	small_disk london 4m
	make_repository london/git/r.git 2
	head -c 6000000 /dev/urandom >file
	head -c 100000 /dev/urandom >small
	start_sites
	is_refused london big file
	# Of one whose length is not said that is found out on the way.
	is_refused london big file -H 'Transfer-Encoding: chunked'
	is_refused paris big file
	[ "$(put london small small)" = 201 ]
	# The one before stays.
	[ "$(put london small file)" != 201 ]
	cmp small london/uploads/small
	wait_until 20 all_is_here
	others_go_on
	make_room london
	[ "$(put london big file)" = 201 ]
	[ "$(put paris small file)" = 200 ]
	wait_until 20 all_is_here
	cmp file paris/uploads/big
	nothing_wrong_was_seen
	no_leftovers london
}

tap_test 'the secondary has no room for a large blob' a_large_blob_has_no_room
tap_test 'the secondary has no room for an update, and keeps what it has' an_update_has_no_room
tap_test 'the disk is full in the middle of a batch' no_room_in_the_middle_of_a_batch
tap_test 'no inode is left' no_inode_is_left
tap_test 'the primary has no room for an upload' the_primary_has_no_room_for_an_upload
tap_done
