#!/usr/bin/env bash
# Somebody else writes to the copies of blobs of a secondary: the node sees it at once, and
# mends it; where nothing is watched, a reader and `check` see it.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/transfer.sh"

text='an object of some length'

# a.txt and five in deep/er; `object`, which the repository r names. No scan comes to help.
make_copies() {
	local i
	make_blob_sites make_sites
	set_conf paris http.anonymousRead true
	set_conf paris sync.scanInterval 1h
	make_blob a.txt 3000
	for i in 1 2 3 4 5; do
		make_blob "deep/er/$i" 500
	done
	put_object "$text" london/lfs
	make_repository london/git/r.git 1
	name_object
}

start_copies() {
	start_sites
	wait_until 40 all_is_here
	wait_until 20 gives_object paris
	[ "$(logged paris copies.doubted)" -eq 0 ]
}

# One byte is another; size and mtime are as they were.
overwrite() { # FILE
	python3 -c '
import os, sys
times = os.stat(sys.argv[1])
file = os.open(sys.argv[1], os.O_WRONLY)
os.pwrite(file, b"X", 5)
os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))' "$1"
}

is_doubted() { # TYPE TIMES
	[ "$(logged paris copies.doubted "kind=$1 ")" -ge "$2" ]
}

seen_and_mended() { # TYPE COMMAND...
	local type=$1 before
	shift
	before=$(logged paris copies.doubted "kind=$type ") || true
	"$@"
	wait_until 2 is_doubted "$type" $((before + 1))
	wait_until 10 all_is_here
}

append() { # FILE
	echo stranger >>"$1"
}

make_executable() { # what is done to a file without its content is looked at, too
	chmod +x "$1"
}

whatever_a_stranger_does_is_seen_and_mended_at_once() {
	local copies=paris/uploads
	make_copies
	start_copies
	seen_and_mended uploads cp paris/refrelay.conf $copies/a.txt
	seen_and_mended uploads append $copies/deep/er/1
	seen_and_mended uploads truncate -s 7 $copies/deep/er/2
	seen_and_mended uploads rm $copies/deep/er/3
	seen_and_mended uploads mv $copies/deep/er/4 renamed
	seen_and_mended uploads overwrite $copies/deep/er/5
	seen_and_mended uploads make_executable $copies/deep/er/5
	seen_and_mended uploads mv $copies/deep aside
	seen_and_mended lfs overwrite "paris/lfs/$object"
	seen_and_mended lfs rm "paris/lfs/$object"
	seen_and_mended lfs mv "paris/lfs/${object%/*}" aside.lfs
	# Directories that came meanwhile are watched as well.
	seen_and_mended uploads append $copies/deep/er/2
	seen_and_mended lfs overwrite "paris/lfs/$object"
	wait_until 10 expect 0 at paris status
	grep -q '^in sync, verified' out
}

a_reader_gets_what_the_primary_has() {
	make_copies
	unwatch paris
	start_copies
	overwrite "paris/lfs/$object"
	fails grep -q "$text" "paris/lfs/$object"
	gives_object paris
	wait_until 10 is_doubted_by_readers
	wait_until 20 all_is_here
}

is_doubted_by_readers() {
	was_logged paris copy.doubted "kind=lfs"
}

check_names_the_type() {
	make_copies
	unwatch paris
	start_copies
	overwrite paris/uploads/a.txt
	expect 1 at paris check
	grep -q "^FAIL   copies  *1 of 6 copies of blobs of type uploads were changed by others, e.g. a.txt" \
		out || { cat out; return 1; }
	grep -q '^ok     copies  *1 lfs: unchanged since' out
	wait_until 20 all_is_here
}

# Above the limit of watches there is none; scans find what was done.
what_cannot_be_watched_is_scanned() {
	make_copies
	unwatch paris
	set_conf paris sync.scanInterval 1s
	start_copies
	wait_until 10 was_logged paris blob_copy_watch.limit
	overwrite paris/uploads/deep/er/1
	overwrite "paris/lfs/$object"
	wait_until 10 is_doubted uploads 1
	wait_until 10 is_doubted lfs 1
	wait_until 10 all_is_here
}

# The row says that it was verified later than the file was changed.
what_is_done_just_after_a_file_was_read_is_found() {
	make_copies
	unwatch paris
	start_copies
	stop_site paris
	start_site paris REFRELAY_FAILPOINT=verify.done=stop
	at paris blob reverify --type uploads a.txt
	wait_until 20 is_paused paris
	overwrite paris/uploads/a.txt
	kill -CONT "$(site_pid paris)"
	wait_until 10 was_logged paris copy.doubted 'name=a.txt'
	wait_until 10 all_is_here
}

tap_test 'whatever a stranger does to a copy is seen, and mended, at once' \
	whatever_a_stranger_does_is_seen_and_mended_at_once
tap_test 'a reader of a copy whose times were put back gets what the primary has' \
	a_reader_gets_what_the_primary_has
tap_test 'check names the type of a copy that is not as it was left' check_names_the_type
tap_test 'what cannot be watched is scanned' what_cannot_be_watched_is_scanned
tap_test 'what is done just after a file was read is found' \
	what_is_done_just_after_a_file_was_read_is_found
tap_done
