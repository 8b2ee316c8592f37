#!/usr/bin/env bash
# A full disk, a limit of file sizes and a read-only DEST: a failure with its remedy, nothing
# half done, and all is well when there is space.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"

# A repository with a file of so many bytes that cannot be compressed.
add_random() { # PATH REF BYTES
	git -C "$1" update-ref "$2" "$(head -c "$3" /dev/urandom |
		git -C "$1" hash-object -w --stdin)"
	git -C "$1" repack -a -d -q
}

make_source() {
	mkdir source
	make_repository source/small.git 3
	make_repository source/z-small.git 3
	make_repository source/big.git 3
	add_random source/big.git refs/blobs/one "$1"
}

mount_dest() { # SIZE
	[ "$(id -u)" -eq 0 ] || skip "only root can mount a file system of a certain size"
	mkdir dest
	mount -t tmpfs -o "size=$1" refrelay-test dest 2>/dev/null ||
		skip "no tmpfs can be mounted here"
	trap 'umount -l "$TEST_DIR/dest"' EXIT
}

the_disk_is_full_for_a_first_copy() {
	mount_dest 6m
	make_source 9000000
	run 3 created=2 failed=1 --jobs=1
	is_bad big '"failure_class":"disk"' 'No space left on device' 'free some space'
	fails test -e dest/big.git
	no_left_overs
	equal_repositories source/small.git dest/small.git
	mount -o remount,size=40m dest
	run 0 created=1 unchanged=2
	equal_trees source dest
}

the_disk_is_full_for_an_update() {
	mount_dest 6m
	make_source 1000
	run 0 created=3
	repository_picture dest/big.git >before
	add_random source/big.git refs/blobs/two 9000000
	add_commits source/big.git refs/heads/main 1
	add_commits source/z-small.git refs/heads/main 1
	run 3 updated=1 failed=1 unchanged=1 --jobs=1
	is_bad big '"failure_class":"disk"' 'No space left on device' 'free some space'
	repository_picture dest/big.git | diff before -
	git -C dest/big.git fsck --no-progress --connectivity-only
	mount -o remount,size=40m dest
	run 0 updated=1 unchanged=2
	equal_trees source dest
	no_left_overs
}

# More packs than a sync leaves, each too large to be merged without git; nothing names what
# is in them.
add_large_packs() { # PATH
	local number
	for number in {1..33}; do
		head -c 300000 /dev/urandom | git -C "$1" hash-object -w --stdin
	done >blobs
	while read -r number; do
		git -C "$1" pack-objects -q objects/pack/pack <<<"$number"
	done <blobs >packs
	git -C "$1" prune-packed
}

# Git, but for `git repack`, which says that and fails.
make_git_without_repack() { # WORDS
	mkdir -p bin
	cat >bin/git <<-END
		#!/bin/sh
		[ "\$1" != repack ] && exec "$(PATH=${PATH#"$PWD/bin:"} command -v git)" "\$@"
		: >objects/pack/.tmp-half
		echo "$1" >&2
		exit 128
	END
	chmod +x bin/git
}

no_room_is_left_to_fold_packs() {
	make_source 1000
	run 0 created=3
	add_large_packs dest/small.git
	add_commits source/small.git refs/heads/main 1
	make_git_without_repack 'fatal: write error: No space left on device'
	PATH=$PWD/bin:$PATH
	run 0 --verbose updated=1 unchanged=2
	grep -q 'ev=tidy.failed .*No space left' err
	grep -q 'free some space' err
	no_left_overs
	equal_repositories source/small.git dest/small.git
	add_commits source/small.git refs/heads/main 1
	make_git_without_repack 'error: object file x is corrupt'
	run 3 failed=1 unchanged=2
	add_commits source/small.git refs/heads/main 1
	make_git_without_repack 'error: pack-objects died of signal 7'
	run 3 failed=1 unchanged=2
	rm -r bin
	run 0
	[ "$(find dest/small.git -name '*.pack' | wc -l)" -lt 33 ]
	equal_trees source dest
	no_left_overs
}

# So full that not even our own database can be written.
the_disk_is_full_from_the_start() {
	mount_dest 6m
	make_source 1000
	run 0 created=3
	add_commits source/small.git refs/heads/main 1
	head -c 20000000 /dev/zero >dest/filler 2>/dev/null || true
	expect 1 refrelay replicate source dest
	grep -qi 'no space\|disk is full\|full' err
	grep -q 'hint: .' err
	rm dest/filler
	run 0 updated=1
	equal_trees source dest
	no_left_overs
}

no_inode_is_left() {
	mount_dest 6m,nr_inodes=60
	make_source 1000
	fails refrelay replicate source dest
	no_left_overs
	mount -o remount,size=40m,nr_inodes=10000 dest
	run 0
	equal_trees source dest
	no_left_overs
}

limited() { # KIBIBYTES COMMAND...
	(
		ulimit -f "$1"
		shift
		exec "$REFRELAY" "$@"
	)
}

a_limit_of_file_sizes() {
	make_source 3000000
	run 0 created=3
	rm -r dest
	expect 3 limited 1024 replicate --json source dest
	grep -q '"created":2,' out
	is_bad big '"failure_class":"disk"' 'File too large' 'ulimit -f'
	fails test -e dest/big.git
	no_left_overs
	run 0 created=1 unchanged=2
	equal_trees source dest
}

a_limit_of_file_sizes_for_an_update() {
	make_source 1000
	run 0 created=3
	repository_picture dest/big.git >before
	add_random source/big.git refs/blobs/two 3000000
	expect 3 limited 1024 replicate --json source dest
	is_bad big '"failure_class":"disk"' 'File too large' 'ulimit -f'
	repository_picture dest/big.git | diff before -
	git -C dest/big.git fsck --no-progress --connectivity-only
	run 0 updated=1 unchanged=2
	equal_trees source dest
	no_left_overs
}

dest_is_read_only() {
	mount_dest 6m
	make_source 1000
	run 0 created=3
	add_commits source/small.git refs/heads/main 1
	mount -o remount,ro dest
	expect 1 refrelay replicate source dest
	grep -qi 'read-only file system' err
	grep -q 'hint: .*writing' err
	mount -o remount,rw dest
	run 0 updated=1 unchanged=2
	equal_trees source dest
}

dest_may_not_be_written() {
	make_source 1000
	mkdir dest
	become_nobody
	as_nobody chmod 555 dest
	expect 2 refrelay replicate source dest
	grep -q 'Permission denied' err
	grep -q 'hint: .' err
	as_nobody chmod 755 dest
	run 0 created=3
	as_nobody chmod 555 dest/small.git
	add_commits source/small.git refs/heads/main 1
	add_commits source/big.git refs/heads/main 1
	chmod -R a+rX source
	run 3 updated=1 failed=1 unchanged=1 --jobs=1
	is_bad small 'Permission denied' '"failure_class":"config"'
	as_nobody chmod 755 dest/small.git
	run 0 updated=1
	equal_trees source dest
}

tap_test "the disk is full for a first copy" the_disk_is_full_for_a_first_copy
tap_test "the disk is full for an update" the_disk_is_full_for_an_update
tap_test "no room is left to fold packs" no_room_is_left_to_fold_packs
tap_test "the disk is full from the start" the_disk_is_full_from_the_start
tap_test "no inode is left" no_inode_is_left
tap_test "a limit of file sizes, for a first copy" a_limit_of_file_sizes
tap_test "a limit of file sizes, for an update" a_limit_of_file_sizes_for_an_update
tap_test "DEST is read-only" dest_is_read_only
tap_test "DEST may not be written" dest_may_not_be_written
tap_done
