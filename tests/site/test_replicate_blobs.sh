#!/usr/bin/env bash
# `replicate --blobs FROM=TO`: files beside repositories, copied once, without configuration.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"

make_files() {
	mkdir -p source dest files/a/b
	echo one >files/a/b/1
	echo two >'files/a/ü \\x'
	head -c 3000000 /dev/urandom >files/large
	: >files/empty
}

replicates() { # STATUS [OPTION...]
	local status=$1
	shift
	expect "$status" "$REFRELAY" replicate --blobs "$PWD/files=$PWD/copies" "$@" source dest
}

same_files() {
	diff -r -x .refrelay files copies
}

files_are_copied_and_then_only_what_changed() {
	make_files
	replicates 0
	same_files
	grep -q '^4 blobs: 4 created, 0 updated, 0 unchanged; 2.9 MiB in .*; all verified equal$' out
	replicates 0
	grep -q '^4 blobs: 0 created, 0 updated, 4 unchanged; 0 bytes' out
	echo other >files/a/b/1
	echo new >files/a/2
	replicates 0 --json
	python3 -c '
import json
blobs = json.load(open("out"))["blobs"][0]
assert (blobs["created"], blobs["updated"], blobs["unchanged"]) == (1, 1, 3), blobs'
	same_files
	# What only lost its time is read, and not copied.
	touch copies/large
	replicates 0
	grep -q '5 unchanged; 0 bytes' out
}

what_a_dead_run_left_expires() {
	local left=copies/.refrelay/incoming
	make_files
	mkdir -p "$left"
	echo half >"$left/0123456789abcdef0123456789abcdef.new"
	echo half >"$left/1123456789abcdef0123456789abcdef.new"
	touch -d '8 days ago' "$left"/0*.new
	replicates 0
	same_files
	[ "$(ls "$left")" = 1123456789abcdef0123456789abcdef.new ]
}

what_is_gone_goes_to_the_trash_when_asked_under_the_brake() {
	local i
	make_files
	for i in $(seq 20); do
		echo "$i" >"files/n$i"
	done
	replicates 0
	rm files/n1
	replicates 0
	grep -q '1 only in' out
	[ -e copies/n1 ]
	replicates 0 --delete
	[ ! -e copies/n1 ]
	[ "$(cat copies/.refrelay/trash/*/n1)" = 1 ]
	rm files/n*
	replicates 3 --delete
	grep -q '19 held' out
	[ -e copies/n2 ]
	rm -r files
	mkdir files
	replicates 3 --delete
	grep -q 'is its disk mounted' err
	replicates 0 --delete --force
	[ "$(find copies -path copies/.refrelay -prune -o -type f -print)" = "" ]
}

what_is_no_file_is_told_and_what_is_in_the_way_fails() {
	make_files
	ln -s large files/link
	mkdir -p copies/large/x
	echo x >copies/large/x/y
	replicates 3
	grep -q '^link: left out: ' err
	grep -q '^large: failed: ' err
	[ "$(cat copies/a/b/1)" = one ]
	expect 2 "$REFRELAY" replicate --blobs "$PWD/files" source dest
	expect 2 "$REFRELAY" replicate --blobs "$PWD/files=$PWD/files/in" source dest
	expect 2 "$REFRELAY" replicate --blobs files=files/in source dest
	[ ! -e files/in ]
	expect 2 "$REFRELAY" replicate --blobs "a=b" http://localhost/ dest
}

# They hide no names; only what they may lead to stays.
what_is_no_file_holds_no_deletion_but_its_own() {
	make_files
	mkdir files/moved
	echo there >files/moved/x
	echo there >files/same
	echo away >files/old
	replicates 0
	rm files/old files/same
	mv files/moved elsewhere
	ln -s "$PWD/none" files/moved
	ln -s large files/same
	mkfifo files/pipe
	replicates 3 --delete
	grep -q '^4 blobs: .*, 1 deleted, 2 held, 3 failed; ' out
	grep -q '^moved/x: held: not deleted: FROM still has something there$' err
	[ ! -e copies/old ]
	[ -e copies/moved/x ]
	[ -e copies/same ]

	# A failed file is there, and may even fail because of what is to be deleted.
	rm copies/large
	mkdir copies/large
	echo x >copies/large/y
	rm files/moved files/same files/pipe
	replicates 3 --delete
	grep -q '^large: failed: ' err
	[ ! -e copies/large/y ]
	[ ! -e copies/same ]
	replicates 0 --delete
	same_files
}

# Each deletes what it does not know: of two in one place, the other's files.
a_place_for_two_is_refused() {
	local pair
	make_files
	mkdir more
	for pair in files=dest files=dest/in files=source/in more=copies more=copies/in \
		more=files/in; do
		expect 2 "$REFRELAY" replicate --delete --blobs files=copies \
			--blobs "$pair" source dest
		grep -q 'hint: ' err
	done
	replicates 0
	same_files
}

a_tree_that_cannot_be_read_does_not_hide_what_was_done() {
	make_files
	make_repository source/good.git 1
	make_repository source/bad.git 1
	rm -r source/bad.git/objects
	expect 3 "$REFRELAY" replicate --json --blobs "$PWD/files/empty=$PWD/none" \
		--blobs "$PWD/files=$PWD/copies" source dest
	grep -q 'hint: FROM must be a directory' err
	python3 -c '
import json
done = json.load(open("out"))
assert done["created"] == 1, done
none, copies = done["blobs"]
assert none["failure_class"] == "disk" and "Not a directory" in none["failure"], none
assert copies["created"] == 4 and "failure" not in copies, copies'
	same_files
	expect 3 "$REFRELAY" replicate --blobs "$PWD/files/empty=$PWD/none" source dest
	grep -q '^2 repositories: .*1 unchanged' out
}

tap_test 'files are copied, and then only what changed' files_are_copied_and_then_only_what_changed
tap_test 'what is no file holds no deletion but its own' \
	what_is_no_file_holds_no_deletion_but_its_own
tap_test 'what a dead run left expires' what_a_dead_run_left_expires
tap_test 'what is gone goes to the trash when asked, under the brake' \
	what_is_gone_goes_to_the_trash_when_asked_under_the_brake
tap_test 'what is no file is told, and what is in the way fails' \
	what_is_no_file_is_told_and_what_is_in_the_way_fails
tap_test 'a place for two is refused' a_place_for_two_is_refused
tap_test 'a tree that cannot be read does not hide what was done' \
	a_tree_that_cannot_be_read_does_not_hide_what_was_done
tap_done
