#!/usr/bin/env bash
# Copies are read again from time to time and compared with what the primary told of
# them: what is not as it should be is found, told, and made good again, and what is well
# is never called a failure.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/verify.sh"

copies_altered_by_hand_are_found_and_mended_in_place() {
	local name
	make_sites
	for name in moved new gone head packed; do
		make_repository "london/git/$name.git" 6
		git -C "london/git/$name.git" update-ref refs/heads/old main~2
	done
	start_verified
	stat -c '%i %n' paris/git/*.git >inodes
	mending_waits
	in_copy moved.git update-ref refs/heads/main main~1
	in_copy new.git update-ref refs/heads/mine main~3
	in_copy gone.git update-ref -d refs/heads/old
	in_copy head.git symbolic-ref HEAD refs/heads/old
	sed -i 's,refs/heads/old$,refs/heads/odd,' paris/git/packed.git/packed-refs

	for name in moved new gone head packed; do
		wait_until 10 row_is paris "$name" state failed
		is_disproved "$name" 'the copy.s checksum is 1-[0-9a-f]*, the primary.s 1-[0-9a-f]* for generation 1'
	done
	[ "$(row_of london moved checksum)" = "$(row_of paris moved primary_checksum)" ]
	wait_until 10 status_is paris repositories.failed 5
	expect 3 at paris status
	grep -q '5 failing, e.g. gone: .*repository list --failed' out
	mending_goes_on
	converge
	wait_until 10 status_is paris repositories.verification.succeeded 5
	[ "$(row_of paris moved verification_retry_count)" = 0 ]
	stat -c '%i %n' paris/git/*.git | diff inodes -
	fails was_logged paris sync.rebuilt
	nothing_is_started
}

# What nobody but the copy has is not thrown away by a machine.
commits_that_only_the_copy_has_are_held() {
	local mine
	make_sites
	make_repository london/git/r.git 4
	start_verified
	write_to_the_copy
	wait_until 20 is_held r
	expect 3 at paris status
	grep -q "1 held, e.g. r: .*$mine" out
	[ "$(git -C paris/git/r.git rev-parse main)" = "$mine" ]

	# What comes while the primary is away was not permitted.
	stop_site london
	at paris repository sync --force r
	wait_until 20 row_is paris r state failed
	write_to_the_copy
	start_site london
	wait_until 30 is_held r
	[ "$(git -C paris/git/r.git rev-parse main)" = "$mine" ]
	row_of paris r held_reason | grep "$mine"
	expect 0 at paris repository sync --force --wait r
	converge
}

write_to_the_copy() {
	GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null \
		add_commits paris/git/r.git refs/heads/main 1
	mine=$(git -C paris/git/r.git rev-parse main)
}

is_held() { # NAME
	[ -n "$(row_of paris "$1" held_reason)" ]
}

damage() { # WAY COPY
	local pack
	pack=$(echo "$2"/objects/pack/*.pack)
	chmod -R u+w "$2/objects"
	case $1 in
	pack) printf 'XXXXXXXX' | dd of="$pack" bs=1 seek=300 conv=notrunc status=none ;;
	cut) truncate -s 200 "$pack" ;;
	index) printf 'XXXX' | dd of="${pack%.pack}.idx" bs=1 seek=1100 conv=notrunc status=none ;;
	no-pack) rm "$pack" ;;
	nothing) rm "${pack%.pack}".* ;;
	commit | blob | empty | other)
		mv "$pack" "$pack.away"
		rm "${pack%.pack}".[ir]*
		git -C "$2" unpack-objects -q <"$pack.away"
		rm "$pack.away"
		damage_loose "$1" "$2"
		;;
	esac
}

damage_loose() { # WAY COPY
	local what=main:part-1/file-1.txt oid file
	[ "$1" != commit ] || what=main~2
	oid=$(git -C "$2" rev-parse "$what")
	file=$2/objects/${oid:0:2}/${oid:2}
	chmod u+w "$file"
	case $1 in
	empty) : >"$file" ;;
	other) cp "$2/objects/$(git -C "$2" rev-parse main:part-2/file-2.txt | sed 's,^..,&/,')" "$file" ;;
	*) printf 'XXXX' | dd of="$file" bs=1 seek=12 conv=notrunc status=none ;;
	esac
}

ways=(pack cut index no-pack nothing commit blob empty other)

# Until then readers see what they saw before, as far as it can be read.
damaged_copies_are_found_and_made_anew() {
	local way
	make_sites
	for way in "${ways[@]}" whole; do
		make_repository "london/git/$way.git" 6
		git -C "london/git/$way.git" repack -adq
	done
	start_verified
	mending_waits
	for way in "${ways[@]}" whole; do
		cp "paris/git/$way.git/packed-refs" "refs-of-$way"
		damage "$way" "paris/git/$way.git"
	done
	for way in "${ways[@]}"; do
		wait_until 10 row_is paris "$way" state failed
		is_disproved "$way" .
		grep -q '"remedy":"the copy is replaced at the next try' row ||
			row_is paris "$way" failure_class missing
		diff "refs-of-$way" "paris/git/$way.git/packed-refs"
	done
	row_is paris whole state synced
	mending_goes_on
	converge
	wait_until 10 is_logged "${#ways[@]}" paris sync.rebuilt
	[ "$(find paris/git/.refrelay/trash -mindepth 1 -maxdepth 1 -type d | wc -l)" = "${#ways[@]}" ]
	wait_until 10 status_is paris repositories.verification.succeeded $((${#ways[@]} + 1))
	nothing_is_started
}

# A git that does not live long enough to read anything, as where the machine has no
# memory for it.
ailing_git() {
	mkdir bin
	cat >bin/git <<-END
		#!/bin/sh
		[ ! -e "$PWD/ailing" ] || kill -KILL \$\$
		exec "$(command -v git)" "\$@"
	END
	chmod +x bin/git
}

copies_that_cannot_be_read_are_told_of() {
	make_sites
	make_repository london/git/r.git 4
	make_repository london/git/well.git 4
	ailing_git
	start_site london
	start_site paris "PATH=$PWD/bin:$PATH"
	converge
	: >ailing
	expect 1 timeout 120 "$REFRELAY" -c paris/refrelay.conf repository reverify --wait r
	grep -q '^refrelay: r: .*kill' err
	was_logged paris verify.deferred
	expect 3 at paris status
	grep -q '1 of 2 repositories verified; 1 failing, e.g. r: .*repository list --failed' out
	at paris repository list --failed | grep -q '^failing  *r  (.*kill'
	row_is paris r state synced
	row_is paris well word 'up to date'

	rm ailing
	expect 0 timeout 120 "$REFRELAY" -c paris/refrelay.conf repository reverify --failed --wait
	grep -q '^verified 1 repository$' out
	[ -z "$(at paris repository list --failed)" ]
	wait_until 10 in_sync
}

tap_test "copies altered by hand are found, and mended in their place" \
	copies_altered_by_hand_are_found_and_mended_in_place
tap_test "commits that only the copy has are held" commits_that_only_the_copy_has_are_held
tap_test "damaged copies are found and made anew" damaged_copies_are_found_and_made_anew
tap_test "copies that cannot be read are told of" copies_that_cannot_be_read_are_told_of
tap_done
