#!/usr/bin/env bash
# What is deleted in copies, and what waits for a person's word.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"

# repo-1.git and so on, each below folders of its own if they are few.
make_source() { # N
	local i

	mkdir source
	make_repository template.git 2
	for ((i = 1; i <= $1; i++)); do
		cp -r template.git "source/repo-$i.git"
	done
}

in_trash() {
	find dest/.refrelay/trash -mindepth 1 -maxdepth 1 2>/dev/null | wc -l
}

copies() {
	list_repositories dest | wc -l
}

# N branches b-1, b-2 and so on in repo-1.
add_branches() { # N
	local i

	for ((i = 1; i <= $1; i++)); do
		echo "create refs/heads/b-$i refs/heads/main"
	done | git -C source/repo-1.git update-ref --stdin
}

drop_branches() { # FROM TO
	local i

	for ((i = $1; i <= $2; i++)); do
		echo "delete refs/heads/b-$i"
	done | git -C source/repo-1.git update-ref --stdin
}

without_delete_they_are_told_and_kept() {
	make_source 3
	run 0 created=3
	rm -r source/repo-2.git
	run 0 unchanged=2 only_in_dest=1 deleted=0
	expect 0 refrelay replicate source dest
	grep -q '1 only in DEST (--delete removes them)' out
	test "$(copies)" -eq 3
	test "$(in_trash)" -eq 0
}

deleted_copies_wait_in_the_trash() {
	local waiting

	make_source 2
	mkdir -p source/group/sub/
	make_repository source/group/sub/deep.git 3
	make_repository 'source/group/with space.git' 3
	run 0 created=4
	rm -r source/group source/repo-2.git
	run 0 --delete unchanged=1 deleted=3
	says group/sub/deep '"outcome":"deleted"'
	equal_trees source dest
	fails test -e dest/group
	test "$(in_trash)" -eq 3
	waiting=$(echo dest/.refrelay/trash/*deep*)
	git -C "$waiting" fsck --no-progress
	git -C "$waiting" rev-parse -q --verify refs/heads/main
	run 0 --delete unchanged=1 deleted=0
	no_left_overs
}

# A group beside a repository of its name. What a link leads to, a repository that lost its HEAD, and a work tree
# are no such folders.
a_folder_of_its_name_does_not_keep_a_copy() {
	make_source 6
	make_repository source/repo-1/inside.git 2
	run 0 created=7
	rm -r source/repo-{1,2,3,4,5,6}.git
	mkdir -p source/repo-5 source/repo-6/objects
	git init -q source/repo-4
	ln -s repo-1 source/repo-2
	mkdir -p source/repo-3/objects source/repo-3/refs
	run 3 --delete unchanged=1 deleted=1 held=4 failed=1
	says repo-1 '"outcome":"deleted"'
	is_bad repo-2 'SOURCE still has something there'
	is_bad repo-4 'SOURCE still has something there'
	is_bad repo-5 'SOURCE still has something there'
	is_bad repo-6 'SOURCE still has something there'
	rm -r source/repo-{2,3,4,5,6}
	run 0 --delete unchanged=1 deleted=5
	equal_trees source dest
}

a_name_that_comes_back_is_made_anew() {
	make_source 2
	run 0 created=2
	rm -r source/repo-2.git
	run 0 --delete deleted=1
	make_repository source/repo-2.git 7
	run 0 --delete created=1 deleted=0
	equal_trees source dest
	test "$(in_trash)" -eq 1
}

the_brake_stops_many_deletions() {
	make_source 14
	run 0 created=14
	rm -r source/repo-{1,2,3,4,5,6,7,8,9,10,11}.git
	run 3 --delete held=11 deleted=0 unchanged=3
	is_bad repo-1 '"outcome":"held"' 'not deleted' -- '--force'
	test "$(copies)" -eq 14
	expect 3 refrelay replicate --delete source dest
	grep -q '11 held' out
	run 0 --delete --force deleted=11 unchanged=3
	equal_trees source dest
	test "$(in_trash)" -eq 11
}

ten_deletions_need_no_word() {
	make_source 12
	run 0 created=12
	rm -r source/repo-{1,2,3,4,5,6,7,8,9,10}.git
	run 0 --delete deleted=10 unchanged=2
	equal_trees source dest
}

an_empty_source_deletes_nothing() {
	make_source 2
	run 0 created=2
	rm -r source/*
	run 0 only_in_dest=2
	run 3 --delete held=2 deleted=0
	is_bad repo-1 'no repository'
	test "$(copies)" -eq 2
	test "$(in_trash)" -eq 0
}

what_cannot_be_read_deletes_nothing() {
	make_source 3
	mkdir source/closed
	make_repository source/closed/inside.git 2
	become_nobody
	run 0 created=4
	rm -r source/repo-2.git
	as_nobody chmod 0 source/closed
	run 3 --delete unchanged=2 deleted=0 held=2 left_out=1
	is_bad closed '[Pp]ermission denied'
	is_bad repo-2 'SOURCE could not be read completely'
	run 3 --delete --force deleted=0 held=2
	expect 3 refrelay replicate --delete --force source dest
	grep -q 'hint: make readable what' err
	fails grep -e --force err
	test "$(copies)" -eq 4
	as_nobody chmod 755 source/closed
	run 0 --delete deleted=1 unchanged=3
}

a_repository_that_breaks_is_not_deleted() { # PART
	make_source 3
	run 0 created=3
	rm -r "source/repo-2.git/$1"
	git -C source/repo-3.git update-ref refs/heads/new main
	run 3 --delete unchanged=1 updated=1 failed=1 deleted=0
	is_bad repo-2 '"failure_class":"corrupt"'
	git -C dest/repo-2.git fsck --no-progress
}

the_brake_stops_many_deleted_refs() {
	make_source 2
	add_branches 100
	follows
	drop_branches 1 21
	git -C source/repo-1.git update-ref refs/heads/main refs/heads/main~1
	add_commits source/repo-2.git refs/heads/main 1
	run 3 held=1 updated=1
	is_bad repo-1 '21 of 101 refs would be deleted' -- '--force'
	test "$(git -C dest/repo-1.git for-each-ref | wc -l)" -eq 101
	run 0 --force updated=1
	follows
}

fewer_are_followed() {
	make_source 1
	add_branches 100
	follows
	drop_branches 1 20
	follows
	add_branches 20
	follows
	drop_branches 21 40
	follows
}

a_small_share_is_followed() {
	make_source 1
	add_branches 999
	follows
	drop_branches 1 50
	follows
	drop_branches 51 110
	run 3 held=1
}

tap_test "without --delete they are told and kept" without_delete_they_are_told_and_kept
tap_test "with --delete they wait in the trash" deleted_copies_wait_in_the_trash
tap_test "a folder of its name does not keep a copy that has no repository" \
	a_folder_of_its_name_does_not_keep_a_copy
tap_test "a name that comes back is made anew" a_name_that_comes_back_is_made_anew
tap_test "the brake stops many deletions" the_brake_stops_many_deletions
tap_test "ten deletions need no word" ten_deletions_need_no_word
tap_test "an empty source deletes nothing" an_empty_source_deletes_nothing
tap_test "a source that cannot be read whole deletes nothing" \
	what_cannot_be_read_deletes_nothing
for part in HEAD refs objects; do
	tap_test "a repository that loses its $part is not deleted" \
		a_repository_that_breaks_is_not_deleted "$part"
done
tap_test "the brake stops many deleted refs" the_brake_stops_many_deleted_refs
tap_test "fewer deleted refs are followed" fewer_are_followed
tap_test "a small share of very many, too" a_small_share_is_followed
tap_done
