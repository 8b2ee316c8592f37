#!/usr/bin/env bash
# Forks that borrow their objects at the primary share packs at the secondary, where
# sync.shareObjects says so; each copy is whole by itself all the same.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

forks=(one two group/three)

# As git clone --shared makes it, or with a relative path.
make_fork() { # NAME [RELATIVE-OBJECTS]
	local path=london/git/$1.git
	mkdir -p "${path%/*}"
	git clone -q --bare --shared london/git/pool.git "$path"
	[ -z "${2-}" ] || echo "$2" >"$path/objects/info/alternates"
	add_commits "$path" "refs/heads/of-${1//\//-}" 1
}

# A pack that does not compress.
make_pool() {
	local work
	make_repository london/git/pool.git 10
	head -c 3000000 /dev/urandom >random
	work=$(mktemp -d work.XXXXXX)
	git clone -q london/git/pool.git "$work"
	cp random "$work/"
	(cd "$work" && git add . && git commit -qm file && git push -q origin HEAD:refs/heads/main)
	git -C london/git/pool.git repack -adq
}

make_family() {
	make_sites
	make_pool
	make_fork one
	make_fork two ../../pool.git/objects
	make_fork group/three
	set_conf paris sync.shareObjects true
}

# Paris has it, and does not run.
bring_pool() {
	make_sites
	make_pool
	set_conf paris sync.shareObjects true
	start_sites
	wait_until 60 in_sync
	stop_site paris
}

used() { # kilobytes
	du -sk paris/git | cut -f1
}

shared_pack() { # NAME
	find "paris/git/$1.git/objects/pack" -name '*.pack' -size +2000k
}

# None of it is elsewhere.
is_whole() { # NAME
	local path=paris/git/$1.git
	[ ! -s "$path/objects/info/alternates" ]
	git -C "$path" fsck --full --strict
	[ "$(git -C "$path" rev-parse "of-${1//\//-}")" = \
		"$(git -C "london/git/$1.git" rev-parse "of-${1//\//-}")" ]
}

all_are_whole() {
	for name in "${forks[@]}"; do
		is_whole "$name"
	done
}

forks_share_packs() {
	local inode
	make_family
	start_sites
	wait_until 60 in_sync
	same_sites
	[ "$(used)" -lt 6000 ] || fail "$(used) KB"
	inode=$(stat -c %i "$(shared_pack pool)")
	for name in "${forks[@]}"; do
		[ "$(stat -c %i "$(shared_pack "$name")")" = "$inode" ]
	done
	[ "$(stat -c %h "$(shared_pack pool)")" = 4 ]
	is_logged 3 paris sync.shared
	all_are_whole
	# Changes come as ever, and what is shared stays so.
	for name in "${forks[@]}" pool; do
		add_commits "london/git/$name.git" refs/heads/main 3
	done
	wait_until 60 same_sites
	[ "$(stat -c %h "$(shared_pack pool)")" = 4 ]
	fails was_logged paris copy.changed
	fails was_logged paris sync.damaged
	fails was_logged paris share.refused
	# The others do not need the one whose objects they share.
	stop_site paris
	rm -rf paris/git/pool.git
	git -C paris/git/one.git fsck --full
	git -C paris/git/two.git fsck --full
}

# As long as nobody asks for it.
others_have_all_themselves() {
	make_family
	set_conf paris sync.shareObjects false
	start_sites
	wait_until 60 in_sync
	same_sites
	[ "$(used)" -gt 11000 ] || fail "$(used) KB"
	fails was_logged paris sync.shared
	all_are_whole
}

# In place, and the times put back: no stamp but one tells. The byte in the middle, or so many
# before the end.
flip_byte() { # FILE [FROM-END]
	chmod u+w "$1"
	python3 - "$@" <<-'END'
		import os, sys
		path, before = sys.argv[1], os.stat(sys.argv[1])
		at = before.st_size - int(sys.argv[2]) if len(sys.argv) > 2 else before.st_size // 2
		with open(path, "r+b") as file:
		    file.seek(at)
		    byte = file.read(1)[0]
		    file.seek(at)
		    file.write(bytes([byte ^ 0x5a]))
		os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
	END
	chmod u-w "$1"
}

damage_is_not_shared() {
	bring_pool
	flip_byte "$(shared_pack pool)"
	make_fork one
	start_site paris
	wait_until 60 same_sites
	wait_until 60 in_sync
	is_whole one
	git -C paris/git/pool.git fsck --full
}

# No object is damaged, but the digest that each file ends in.
damaged_digests_are_not_shared() {
	local end pack
	for end in pack idx; do
		rm -rf london paris secret random work.*
		bring_pool
		make_fork one
		# Else the look at the start would find it first.
		launch_site paris REFRELAY_FAILPOINT=sync.read=stop
		wait_until 60 is_paused paris
		pack=$(shared_pack pool)
		flip_byte "${pack%pack}$end" 1
		kill -CONT "$(site_pid paris)"
		wait_until 60 was_logged paris share.refused
		wait_until 60 same_sites
		wait_until 60 in_sync
		is_whole one
		wait_until 60 git -C paris/git/pool.git fsck --full
		stop_site paris
		stop_site london
	done
}

# After it was read for the fork, and before the fork is recorded as equal.
what_changes_before_the_record_is_seen() {
	bring_pool
	make_fork one
	launch_site paris REFRELAY_FAILPOINT=sync.fetched=stop
	wait_until 60 is_paused paris
	flip_byte "$(shared_pack pool)"
	kill -CONT "$(site_pid paris)"
	wait_until 60 was_logged paris job.failed 'err="a pack that it shares was changed meanwhile"'
	wait_until 100 same_sites
	wait_until 60 in_sync
	is_whole one
	wait_until 60 git -C paris/git/pool.git fsck --full
}

# What is damaged where it is shared is damaged in all, and each is made anew by itself.
damage_of_what_is_shared_is_mended() {
	make_family
	start_sites
	wait_until 60 in_sync
	flip_byte "$(shared_pack one)"
	wait_until 60 was_logged paris sync.damaged
	for name in pool "${forks[@]}"; do
		wait_until 60 git -C "paris/git/$name.git" fsck --full
	done
	wait_until 60 in_sync
	same_sites
}

dies_and_begins_again() {
	make_family
	start_site london
	launch_site paris REFRELAY_FAILPOINT=share.linked=kill
	is_killed_within 60 paris
	start_site paris
	wait_until 60 in_sync
	same_sites
	all_are_whole
	[ "$(stat -c %h "$(shared_pack pool)")" = 4 ]
}

# Each lends to the other: one of them comes first.
two_that_borrow_from_each_other_come() {
	make_sites
	make_pool
	make_fork one
	echo "$PWD/london/git/one.git/objects" >london/git/pool.git/objects/info/alternates
	set_conf paris sync.shareObjects true
	start_sites
	wait_until 60 in_sync
	same_sites
}

# A place outside of the site's repositories is nothing that a secondary has.
what_is_borrowed_elsewhere_comes_by_git() {
	make_sites
	make_pool
	make_fork one
	mv london/git/pool.git elsewhere.git
	echo "$PWD/elsewhere.git/objects" >london/git/one.git/objects/info/alternates
	set_conf paris sync.shareObjects true
	start_sites
	wait_until 60 in_sync
	is_whole one
	fails was_logged paris sync.shared
}

tap_test "forks share packs" forks_share_packs
tap_test "others have all themselves" others_have_all_themselves
tap_test "damage is not shared" damage_is_not_shared
tap_test "damaged digests are not shared" damaged_digests_are_not_shared
tap_test "what changes before the record is seen" what_changes_before_the_record_is_seen
tap_test "damage of what is shared is mended" damage_of_what_is_shared_is_mended
tap_test "a first copy that dies begins again" dies_and_begins_again
tap_test "two that borrow from each other come" two_that_borrow_from_each_other_come
tap_test "what is borrowed elsewhere comes by git" what_is_borrowed_elsewhere_comes_by_git
tap_done
