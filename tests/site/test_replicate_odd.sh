#!/usr/bin/env bash
# Repositories that cannot be copied, among good ones: each is told with its reason and
# what to do, the good ones are equal all the same, and old copies stay as they were.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"

make_source() {
	mkdir source
	make_repository source/good.git 5
	make_repository source/team/fine.git 5
}

# The good ones are equal, and nothing of the others is left.
good_ones_are_equal() {
	local name

	for name in good team/fine; do
		equal_repositories "source/$name.git" "dest/$name.git"
	done
	no_left_overs
}

# In a source of good ones and bad.git, made by the function, bad.git fails and the
# others do not; as a copy that is there already it stays as it was.
fails_alone() { # FUNCTION PATTERN...
	local broken=$1
	shift
	make_source
	make_repository source/bad.git 6
	cp -r source/bad.git kept.git
	"$broken"
	expect 3 refrelay replicate source dest
	grep -a -A 1 '^bad' err | grep -aq 'hint: .'
	run 3 unchanged=2 failed=1
	is_bad bad "$@"
	good_ones_are_equal
	fails test -e dest/bad.git

	rm -r source/bad.git
	mv kept.git source/bad.git
	run 0 created=1
	repository_picture dest/bad.git >before
	add_commits source/good.git refs/heads/main 1
	add_commits source/bad.git refs/heads/topic 1 refs/heads/main
	"$broken"
	run 3 unchanged=1 updated=1 failed=1
	is_bad bad "$@"
	repository_picture dest/bad.git >after
	diff before after
	repository_faults dest/bad.git || fail "the old copy is damaged"
	good_ones_are_equal
}

bad_git() {
	git -C source/bad.git "$@"
}

the_pack() {
	echo source/bad.git/objects/pack/*.pack
}

corrupt_the_pack() {
	bad_git gc -q --prune=now
	chmod u+w "$(the_pack)"
	head -c "$(($(stat -c %s "$(the_pack)") - 32))" /dev/zero |
		dd of="$(the_pack)" bs=64k seek=12 oflag=seek_bytes conv=notrunc status=none
}

cut_the_pack() {
	bad_git gc -q --prune=now
	chmod u+w "$(the_pack)"
	truncate -s 60 "$(the_pack)"
}

make_ref_dangle() {
	mkdir -p source/bad.git/refs/heads/some
	echo 1234567890123456789012345678901234567890 >source/bad.git/refs/heads/some/where
}

take_a_blob_away() {
	local oid tip=main

	! bad_git rev-parse -q --verify refs/heads/topic >topic || tip=topic
	oid=$(bad_git rev-parse "$tip:part-1/file-1.txt")
	rm "source/bad.git/objects/${oid:0:2}/${oid:2}"
}

write_junk_into_a_ref() {
	echo 'neither an object nor a ref' >source/bad.git/refs/heads/junk
}

write_junk_into_packed_refs() {
	printf '# pack-refs with: peeled fully-peeled sorted \nnonsense\n' \
		>source/bad.git/packed-refs
}

remove_head() {
	rm source/bad.git/HEAD
}

empty_head() {
	: >source/bad.git/HEAD
}

truncate_head() {
	printf 'ref: ref' >source/bad.git/HEAD
}

remove_objects() {
	rm -r source/bad.git/objects
	mkdir -p source/bad.git/objects/pack
}

make_shallow() {
	bad_git rev-parse main~1 >source/bad.git/shallow
}

make_partial() {
	bad_git config core.repositoryFormatVersion 1
	bad_git config extensions.partialClone origin
	bad_git config remote.origin.promisor true
	bad_git config remote.origin.partialCloneFilter blob:none
}

use_reftable() {
	bad_git config core.repositoryFormatVersion 1
	printf '[extensions]\n\trefStorage = reftable\n' >>source/bad.git/config
}

use_a_later_format() {
	sed -i 's/repositoryformatversion = .*/repositoryformatversion = 7/' source/bad.git/config
}

break_the_config() {
	echo '[core' >>source/bad.git/config
}

# With all objects in the copy, so that no git looks at the source.
a_truncated_head_is_not_carried_over() {
	local text

	make_source
	make_repository source/bad.git 6
	run 0 created=3
	for text in ref: 'ref: ref' 'ref: refs/' 'ref: refs/heads/' 'ref: main' 1234 ''; do
		printf '%s\n' "$text" >source/bad.git/HEAD
		run 3 unchanged=2 failed=1
		is_bad bad '"failure_class":"corrupt"' HEAD
		test "$(git -C dest/bad.git symbolic-ref HEAD)" = refs/heads/main
	done
}

# Objects are not readable for the one who replicates.
a_closed_directory() {
	make_source
	make_repository source/bad.git 3
	make_repository source/closed.git 3
	mkdir source/dark
	make_repository source/dark/inside.git 3
	become_nobody
	as_nobody chmod 0 source/bad.git/objects source/closed.git source/dark
	run 3 created=2
	is_bad bad '[Pp]ermission denied' '"failure_class":"config"'
	is_bad closed.git '[Pp]ermission denied'
	is_bad dark '[Pp]ermission denied'
	good_ones_are_equal
	test "$(list_repositories dest | wc -l)" -eq 2
	as_nobody chmod 755 source/bad.git/objects source/closed.git source/dark
	run 0 created=3 unchanged=2
	equal_trees source dest
}

unreadable_refs() {
	make_source
	make_repository source/bad.git 3
	make_repository source/worse.git 3
	git -C source/bad.git pack-refs --all
	git -C source/bad.git update-ref refs/heads/topic main
	become_nobody
	run 0 created=4
	as_nobody chmod 0 source/bad.git/packed-refs source/worse.git/refs/heads
	run 3 unchanged=2 failed=2
	is_bad bad '[Pp]ermission denied' packed-refs
	is_bad worse '[Pp]ermission denied' heads
	as_nobody chmod 755 source/bad.git/packed-refs source/worse.git/refs/heads
	run 0
	equal_trees source dest
}

another_owner() {
	[ "$(id -u)" -eq 0 ] || skip "only root can give a repository to another user"
	make_source
	chown -R 12345:12345 source/good.git
	run 0 created=2
	add_commits source/team/fine.git refs/heads/main 1
	chown -R 12345:12345 source/team
	run 0 updated=1
	chown -R 0:0 source
	equal_trees source dest
}

# A pack larger than a megabyte is copied as a file.
a_corrupt_big_pack() {
	make_source
	make_repository source/bad.git 1
	head -c 3000000 /dev/urandom >random
	bad_git update-ref refs/blobs/random "$(bad_git hash-object -w "$PWD/random")"
	bad_git repack -a -d -q
	run 0 created=3
	rm -r dest/bad.git
	chmod u+w "$(the_pack)"
	printf 'XXXX' | dd of="$(the_pack)" bs=1 seek=1500000 conv=notrunc status=none
	run 3 unchanged=2 failed=1
	is_bad bad '"failure_class":"corrupt"' 'pack-'
	fails test -e dest/bad.git
	good_ones_are_equal
}

kinds_that_can_be_copied() {
	make_source
	make_repository source/sha256.git 3 sha256
	git clone -q --bare --shared source/good.git source/borrows.git
	git -C source/borrows.git config remote.origin.mirror true
	add_commits source/borrows.git refs/heads/main 2
	git init -q --bare --shared source/shared.git
	make_repository source/deep/under/neath.git 1
	git -C source/deep/under/neath.git config core.hooksPath /nowhere
	printf '#!/bin/sh\nexit 1\n' >source/deep/under/neath.git/hooks/pre-receive
	run 0 created=6
	equal_trees source dest
	fails test -s dest/borrows.git/objects/info/alternates
	rm -rf source/good.git/objects
	git -C dest/borrows.git fsck --no-progress
	fails test -e dest/deep/under/neath.git/hooks/pre-receive
}

what_is_no_bare_repository() {
	make_source
	git init -q source/work
	git -C source/work commit -q --allow-empty -m first
	ln -s good.git source/link.git
	ln -s /not/there source/broken-link
	mkdir -p source/empty/er source/only/objects
	echo text >source/file
	echo text >source/file.git
	mkfifo source/fifo
	run 0 created=2 left_out=0
	is_bad work/.git 'work tree' '"left_out":false'
	is_bad link.git 'symbolic link' '"left_out":false'
	good_ones_are_equal
	test "$(list_repositories dest | wc -l)" -eq 2
	expect 0 refrelay replicate source dest
	grep -q 'work/.git: not a repository to copy' err
}

names_that_cannot_be() {
	local long

	make_source
	long=$(printf 'x%.0s' {1..251})
	cp -r source/good.git source/good
	cp -r source/good.git $'source/latin-\xe9.git'
	cp -r source/good.git $'source/new\nline.git'
	cp -r source/good.git "source/$long"
	run 3 created=2 left_out=4
	is_bad good 'good.git' rename
	grep -aq UTF-8 out
	grep -aq 'control characters' out
	grep -aq 'more than 250 bytes' out
	python3 -m json.tool out >/dev/null
	expect 3 refrelay replicate source dest
	fails grep -avq '^[[:print:]]*$' err
	good_ones_are_equal
	test "$(list_repositories dest | wc -l)" -eq 2
}

for kind in corrupt_the_pack cut_the_pack remove_objects; do
	tap_test "$kind" fails_alone "$kind" '"failure_class":"corrupt"'
done
tap_test "make_ref_dangle" fails_alone make_ref_dangle '"failure_class":"corrupt"' \
	refs/heads/some/where 1234567890123456789012345678901234567890
tap_test "take_a_blob_away" fails_alone take_a_blob_away '"failure_class":"corrupt"'
tap_test "write_junk_into_a_ref" fails_alone write_junk_into_a_ref \
	'"failure_class":"corrupt"' refs/heads/junk
tap_test "write_junk_into_packed_refs" fails_alone write_junk_into_packed_refs \
	'"failure_class":"corrupt"' packed-refs
for kind in remove_head empty_head truncate_head; do
	tap_test "$kind" fails_alone "$kind" '"failure_class":"corrupt"' HEAD
done
tap_test "a truncated HEAD is not carried over" a_truncated_head_is_not_carried_over
tap_test "make_shallow" fails_alone make_shallow shallow unshallow
tap_test "make_partial" fails_alone make_partial 'partial clone'
tap_test "use_reftable" fails_alone use_reftable reftable
tap_test "use_a_later_format" fails_alone use_a_later_format '7'
tap_test "break_the_config" fails_alone break_the_config 'config'
tap_test "a corrupt pack that would be copied as a file" a_corrupt_big_pack
tap_test "directories that cannot be read" a_closed_directory
tap_test "refs that cannot be read" unreadable_refs
tap_test "repositories of another owner" another_owner
tap_test "kinds that can be copied" kinds_that_can_be_copied
tap_test "what is no bare repository" what_is_no_bare_repository
tap_test "names that cannot be" names_that_cannot_be
tap_done
