#!/usr/bin/env bash
# What people ask of blobs by command, at both sites.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

# Files of two kinds at the primary, followed.
make_blob_sites() {
	local site
	make_sites
	for site in london paris; do
		mkdir -p "$site/uploads" "$site/lfs"
		set_conf "$site" blob.uploads.path "$PWD/$site/uploads"
		set_conf "$site" blob.lfs.path "$PWD/$site/lfs"
		set_conf "$site" blob.lfs.layout lfs
	done
	mkdir -p london/uploads/a
	echo one >london/uploads/a/1
	echo two >london/uploads/2
	put_object 'an object' london/lfs
	start_sites
	wait_until 30 all_is_here
}

put_object() { # TEXT DIRECTORY
	local oid
	oid=$(printf %s "$1" | sha256sum | cut -c 1-64)
	mkdir -p "$2/${oid:0:2}/${oid:2:2}"
	printf %s "$1" >"$2/${oid:0:2}/${oid:2:2}/${oid:4}"
}

same_blobs() {
	diff -r -x .refrelay london/uploads paris/uploads && diff -r -x .refrelay london/lfs paris/lfs
}

all_is_here() {
	same_blobs && in_sync
}

# A member of the JSON object on stdin: a path with dots.
member() { # PATH
	python3 -c '
import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."):
    value = value[int(key) if isinstance(value, list) else key]
print(value)' "$1"
}

blob_of() { # SITE TYPE ID MEMBER
	at "$1" blob show --json --type "$2" "$3" | member "$4"
}

blob_is() { # SITE TYPE ID MEMBER VALUE
	[ "$(blob_of "$1" "$2" "$3" "$4")" = "$5" ]
}

blobs_are_listed_and_shown_at_both_sites() {
	make_blob_sites
	expect 0 at paris blob list
	[ "$(wc -l <out)" = 3 ]
	grep -qx 'up to date *uploads *4 bytes  a/1' out
	grep -q '^up to date *lfs *9 bytes  ../../' out
	expect 0 at paris blob list --type uploads --json --state synced
	[ "$(member blobs.1.name <out)" = a/1 ]
	[ "$(member blobs.1.kind <out)" = uploads ]
	expect 0 at paris blob list --failed
	[ ! -s out ]
	expect 0 at paris blob show --type uploads a/1
	grep -q '^state *synced$' out
	expect 4 at paris blob show --type uploads nowhere
	expect 2 at paris blob show a/1
	grep -q -- --type err
	expect 2 at paris blob list --type nothing
	expect 2 at paris repository list --type lfs

	expect 0 at london blob list --type uploads
	grep -qx 'read *uploads *4 bytes  2' out
	[ "$(blob_of london uploads 2 checksum)" = "$(sha256sum <london/uploads/2 | cut -c 1-64)" ]
	[ "$(blob_of london uploads 2 checksum)" = "$(blob_of paris uploads 2 checksum)" ]
	expect 2 at london blob sync --type uploads 2
	expect 0 at london blob reverify --wait --type uploads 2
	wait_until 10 expect 0 at paris status
	grep -q '^in sync, verified: 0 repositories, 1 blob of kind lfs (9 bytes), 2 blobs of kind uploads (8 bytes)' out
	grep -Eq '^  uploads +2 +2 +2 +0 +0 +0 +0  8 bytes$' out
}

blobs_are_copied_verified_and_removed_when_asked() {
	make_blob_sites
	expect 0 at paris blob sync --dry-run --all
	[ "$(grep -c '^would sync ' out)" = 3 ]
	expect 0 at paris blob sync --wait --type uploads a/1
	expect 0 at paris blob reverify --wait --all
	grep -qx 'verified 3 blobs' out

	# A bit that flipped on this disk: found when the file is read, and healed.
	stop_site paris
	unwatch paris
	start_site paris
	wait_until 20 expect 0 at paris status # it has looked at all copies
	printf twx >paris/uploads/2.new
	printf '\n' >>paris/uploads/2.new
	touch -r paris/uploads/2 paris/uploads/2.new
	cat paris/uploads/2.new >paris/uploads/2
	rm paris/uploads/2.new
	at paris blob reverify --wait --type uploads 2 || true # it may be mended by then
	wait_until 10 was_logged paris verify.mismatch 'name=2 '
	wait_until 20 cmp london/uploads/2 paris/uploads/2
	wait_until 20 all_is_here

	expect 0 at paris blob remove --type uploads 2
	wait_until 20 all_is_here
	expect 4 at paris blob remove --type uploads nowhere
}

# Rows as of another blob, of which one was deleted by the primary.
make_rows() { # COUNT GONE
	sqlite3 paris/data/refrelay.db "
		CREATE TEMP TABLE more AS
			WITH RECURSIVE number (i) AS
				(VALUES (1) UNION ALL SELECT i + 1 FROM number WHERE i < $1)
			SELECT registry.* FROM registry, number WHERE kind = 'uploads' AND name = '2';
		UPDATE more SET id = id + rowid, name = printf('many/%05d', rowid);
		UPDATE more SET gone = rowid = $2;
		INSERT INTO registry SELECT * FROM more"
}

# Each time, the disk is waited for.
syncs_at_most() { # COUNT STATUS COMMAND...
	local most=$1 status=$2
	shift 2
	# A sanitized build cannot look for leaks while it is traced.
	ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 \
		expect "$status" strace -f -qq -e trace=fsync,fdatasync -o calls \
		"$REFRELAY" -c paris/refrelay.conf "$@"
	[ "$(grep -c 'sync(' calls)" -le "$most" ] || fail "$(grep -c 'sync(' calls) syncs"
}

many_are_asked_for_a_page_at_a_time() {
	command -v strace >/dev/null || skip 'no strace to see the calls with'
	strace -f -qq -e trace=fsync -o calls true || skip 'strace may not be used here'
	make_blob_sites
	stop_site paris
	make_rows 2500 1200
	syncs_at_most 100 3 blob resync --type uploads --all --json
	grep -q 'many/01200: the primary deleted it; to delete it here, too, use remove' err
	[ "$(member failed <out)" = 1 ]
	{
		echo 2
		echo a/1
		seq -f 'many/%05.0f' 2500
	} | grep -v '/01200$' >names
	python3 -c 'import json, sys; print(*json.load(sys.stdin)["blobs"], sep="\n")' <out |
		diff names -
	[ "$(at paris blob list --type uploads --state pending | wc -l)" = 2501 ]
	syncs_at_most 100 3 blob reverify --type uploads --all
	grep -qx 'asked for reverify of 2501 blobs, 1 failed' out
	syncs_at_most 20 3 blob sync --type uploads many/00001 nowhere many/00002
	grep -qx 'asked for sync of 2 blobs' out
}

tap_test 'blobs are listed and shown at both sites' blobs_are_listed_and_shown_at_both_sites
tap_test 'blobs are copied, verified and removed when asked' \
	blobs_are_copied_verified_and_removed_when_asked
tap_test 'many are asked for a page at a time' many_are_asked_for_a_page_at_a_time
tap_done
