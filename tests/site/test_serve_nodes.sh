#!/usr/bin/env bash
# Two nodes with one tree and one cache: what one has filled the other serves from disk, and
# no change, however it was made, is older news to the one than to the other.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"

lib=$TESTS/lib
pending=one/git/r.git/refrelay/state/pending

make_two() {
	make_served
	make_second_node
	U1=$U
}

start_two() { # [VAR=VALUE...] for the second
	start_site one
	start_site two "$@"
}

stop_two() {
	stop_site one
	stop_site two
}

# adv, oid, oid2 and the like as the second node answers them.
on_two() { # COMMAND...
	local U=$U2
	"$@"
}

# Both nodes, under both protocols.
told() { # REF
	echo "$(oid "$1") $(oid2 "$1") $(on_two oid "$1") $(on_two oid2 "$1")"
}

is_told() { # REF OID
	local said
	said=$(told "$1")
	[ "$said" = "$2 $2 $2 $2" ] || fail "$1 is told as $said, not $2"
}

entries() {
	find cache -type f ! -name 'tmp-*' 2>/dev/null | wc -l
}

has_entries() { # COUNT
	[ "$(entries)" -ge "$1" ]
}

is_cached() { # SITE
	local U before
	U=$(site_url "$1")/r.git
	adv >/dev/null
	before=$(count_reused info_refs "$1")
	adv >/dev/null
	[ "$(count_reused info_refs "$1")" -gt "$before" ]
}

second_serves_from_disk() {
	make_two
	shim_git
	start_two PATH="$SHIM"
	adv >first
	adv 2 >first.2
	ls_refs | post >first.ls
	wait_until 10 has_entries 1
	on_two adv >second
	cmp first second
	[ "$(count_of disk info_refs two)" -eq 1 ]
	on_two adv 2 >second.2
	ls_refs | on_two post >second.ls
	on_two adv '' --compressed | cmp first -
	cmp first.2 second.2
	cmp first.ls second.ls
	[ "$(count_started upload-pack)" -eq 0 ] || fail "$(<started)"
	# Also the one that has forgotten it all.
	stop_site one
	start_site one PATH="$SHIM"
	adv | cmp first -
	[ "$(count_of disk info_refs one)" -eq 1 ]
	[ "$(count_started upload-pack)" -eq 0 ] || fail "$(<started)"
	stop_two
}

change_by() { # HOW OID
	local path=$R/refs/heads/side
	case $1 in
	hook) git -C "$R" update-ref refs/heads/side "$2" ;;
	bracket) bracketed git -c core.hooksPath=/dev/null -C "$R" update-ref refs/heads/side "$2" ;;
	nothing) git -c core.hooksPath=/dev/null -C "$R" update-ref refs/heads/side "$2" ;;
	editing) printf '%s\n' "$2" 1<>"$path" ;;
	esac
}

a_change_is_seen_by_both() { # HOW
	local oid
	make_two
	at one hooks install r >out
	start_two
	for oid in $(git -C "$R" rev-list --max-count=8 main) $(commit_of main~3); do
		change_by "$1" "$oid"
		is_told refs/heads/side "$oid"
	done
	is_cached one
	is_cached two
	stop_two
}

clearing() {
	local before
	make_two
	start_two
	is_told refs/heads/main "$(commit_of main)"
	is_cached one
	is_cached two
	wait_until 10 has_entries 1
	before=$(($(count_of miss) + $(count_of miss info_refs two)))
	at one cache clear r >out
	is_told refs/heads/main "$(commit_of main)"
	[ "$(($(count_of miss) + $(count_of miss info_refs two)))" -gt "$before" ]
	at two cache clear >out
	grep -q 'cleared: 1 repository' out
	is_told refs/heads/main "$(commit_of main)"
	# By somebody who knows no command for it. The nodes write once they have answered.
	wait_until 10 has_entries 1
	wait_until 10 rm -rf cache
	git -C "$R" update-ref refs/heads/main "$(commit_of main~1)"
	is_told refs/heads/main "$(commit_of main)"
	is_cached one
	is_cached two
	wait_until 10 has_entries 1
	stop_two
}

# Git of the first node waits until it is killed with it.
killed_in_a_fill() {
	make_two
	mkdir shim
	cat >shim/git <<-END
		#!/bin/sh
		case "\$*" in *--http-backend-info-refs*)
			touch "$PWD/filling"
			exec sleep 100 ;;
		esac
		exec $(command -v git) "\$@"
	END
	chmod +x shim/git
	start_site one PATH="$PWD/shim:$PATH"
	start_site two
	adv >/dev/null 2>&1 &
	wait_until 10 test -e filling
	[ "$(on_two oid refs/heads/main)" = "$(commit_of main)" ]
	kill_site one
	[ "$(on_two oid refs/heads/main)" = "$(commit_of main)" ]
	is_cached two
	wait_until 10 has_entries 1
	start_site one
	is_told refs/heads/main "$(commit_of main)"
	[ "$(count_of disk)" -eq 1 ]
	stop_two
}

# What it has written has no name yet.
killed_while_it_writes() {
	make_two
	start_site one REFRELAY_FAILPOINT=shelf.written=kill
	start_site two
	adv >/dev/null || :
	is_killed_within 10 one
	[ "$(entries)" -eq 0 ]
	[ "$(find cache -type f -name 'tmp-*' | wc -l)" -eq 1 ]
	[ "$(on_two oid refs/heads/main)" = "$(commit_of main)" ]
	[ "$(count_of miss info_refs two)" -eq 1 ]
	wait_until 10 has_entries 1
	start_site one
	is_told refs/heads/main "$(commit_of main)"
	[ "$(count_of disk)" -eq 1 ]
	stop_two
}

make_wrong_clock() { # SECONDS; sets WRONG
	command -v cc >/dev/null || skip "there is no C compiler"
	cc -shared -fPIC -o wrong_clock.so "$lib/wrong_clock.c"
	WRONG=("LD_PRELOAD=$PWD/wrong_clock.so" "WRONG_CLOCK=$1"
		"ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0")
}

# A writer on a host of which nothing can be told but when it was last heard of.
write_elsewhere() { # SECONDS-AGO
	echo "refrelay lock boot=00000000-0000-0000-0000-000000000000 pidns=1 pid=1" \
		>"$pending/elsewhere"
	touch -d "$1 seconds ago" "$pending/elsewhere"
}

with_a_wrong_clock() { # SECONDS
	local oid
	make_two
	make_wrong_clock "$1"
	at one hooks install r >out
	start_two "${WRONG[@]}"
	wait_until 10 was_logged two node.started # it serves a moment before
	is_logged_at two "$1" || fail "its clock is right"
	for oid in $(git -C "$R" rev-list --max-count=4 main); do
		change_by hook "$oid"
		is_told refs/heads/side "$oid"
		change_by editing "$(commit_of main~5)"
		is_told refs/heads/side "$(commit_of main~5)"
	done
	is_cached one
	is_cached two
	# Who writes elsewhere lives as long as the file server's clock says so.
	write_elsewhere 20
	change_by nothing "$(commit_of main)"
	is_told refs/heads/side "$(commit_of main)"
	fails is_cached two
	fails is_cached one
	[ -e "$pending/elsewhere" ]
	write_elsewhere 100
	on_two adv >/dev/null
	[ ! -e "$pending/elsewhere" ]
	is_told refs/heads/side "$(commit_of main)"
	is_cached one
	is_cached two
	stop_two
}

# Restored with their times from a machine whose clock was wrong.
files_from_the_future() {
	local oid
	make_two
	git -C "$R" pack-refs --all
	touch -d '1 day' "$R/HEAD" "$R/config" "$R/packed-refs" "$R/refs/heads"
	start_two
	is_told refs/heads/main "$(commit_of main)"
	is_cached one
	is_cached two
	for oid in $(git -C "$R" rev-list --max-count=4 main); do
		change_by nothing "$oid"
		touch -d '1 day' "$R/refs/heads/side" "$R/refs/heads"
		is_told refs/heads/side "$oid"
	done
	is_cached one
	is_cached two
	touch -d '1 day' "$R/refrelay/state/key" "$R/refrelay/state"
	at one cache clear r >out
	is_told refs/heads/main "$(commit_of main)"
	is_cached two
	stop_two
}

tap_test "what one has filled the other serves from disk" second_serves_from_disk
for how in hook bracket nothing editing; do
	tap_test "a change by $how is seen by both at once" a_change_is_seen_by_both "$how"
done
tap_test "clearing at one is seen by both" clearing
tap_test "a node is killed in the middle of a fill" killed_in_a_fill
tap_test "a node is killed while it writes to the cache" killed_while_it_writes
tap_test "a node's clock is three hours ahead" with_a_wrong_clock 10800
tap_test "a node's clock is three hours behind" with_a_wrong_clock -10800
tap_test "files are from the future" files_from_the_future
tap_done
