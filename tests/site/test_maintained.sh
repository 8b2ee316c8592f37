#!/usr/bin/env bash
# Copies and mirrors of many small fetches are kept in order by the node itself, whoever reads, fetches,
# removes or kills meanwhile; what users own is never touched.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/mirrored.sh"

are_copied() { # NAME...
	local name
	for name; do
		! differs_still "london/git/$name.git" "paris/git/$name.git" refs/heads/main 2>/dev/null || return
		[ "$(git -C "london/git/$name.git" rev-parse main)" = \
			"$(git -C "paris/git/$name.git" rev-parse main)" ] || return
	done
}

# Each gets a commit, and each copy a pack.
change_each() { # TIMES NAME...
	local times=$1 name
	shift
	for ((; times > 0; times--)); do
		for name; do
			add_commits "london/git/$name.git" refs/heads/main 1
		done
		wait_until 40 are_copied "$@"
	done
}

count_packs() { # REPOSITORY
	find "$1/objects/pack" -name '*.pack' | wc -l
}

# With less than eight packs more than it was left with it is not due.
is_in_order() { # REPOSITORY
	[ "$(count_packs "$1")" -le 10 ] && [ -e "$1/objects/pack/multi-pack-index" ] &&
		[ -e "$1/objects/info/commit-graphs/commit-graph-chain" ] &&
		[ ! -e "$1/refrelay/maintenance.lock" ]
}

is_sound() { # REPOSITORY
	local faults
	faults=$(repository_faults "$1") || fail "$1: $faults"
	[ ! -e "$1/objects/pack/multi-pack-index" ] || git -C "$1" multi-pack-index verify --no-progress
	git -C "$1" commit-graph verify --no-progress
}

# Names, sizes, times and inodes of all files.
listing() { # DIRECTORY
	find "$1" -type f -printf '%P %s %T@ %C@ %i\n' | LC_ALL=C sort
}

maintained_soon() { # SITE
	set_conf "$1" sync.maintenanceInterval 1s
}

# Git, but for a repack, or something else, that waits to be killed; once, when ./hang is there.
make_hanging_git() { # [WHAT]
	mkdir bin
	cat >bin/git <<-END
		#!/bin/sh
		case "\$*" in *${1:---geometric}*)
			if rm "$PWD/hang" 2>/dev/null; then
				touch objects/pack/.tmp-\$\$-pack-half
				echo \$\$ >"$PWD/hangs.new" && mv "$PWD/hangs.new" "$PWD/hangs"
				exec sleep 600
			fi ;;
		esac
		exec "$(command -v git)" "\$@"
	END
	chmod +x bin/git
}

read_on() { # the readers end when ./enough is there
	local number=0
	until [ -e enough ]; do
		number=$((number + 1))
		{ git clone -q --mirror "$(site_url paris)/r1.git" "got-$number" &&
			git clone -q --mirror --no-local paris/git/r2.git "got-$number-2" &&
			git -C "got-$number" fsck --connectivity-only --no-dangling --no-progress; } \
			>read.log 2>&1 || { cp read.log failed.log && return; }
		rm -rf "got-$number" "got-$number-2"
		echo "$number" >reads
		sleep 0.1 # the node shall get some of the processors, too
	done
}

copies_of_many_fetches() {
	local name names=(r1 r2 r3 r4 r5 r6) reader
	make_sites
	set_conf london sync.scanInterval 200ms
	set_conf paris http.anonymousRead true
	maintained_soon london
	maintained_soon paris
	for name in "${names[@]}"; do
		make_repository "london/git/$name.git" 20
	done
	start_sites
	wait_until 20 in_sync
	read_on &
	reader=$!
	change_each 25 "${names[@]}"
	listing london/git >before
	for name in "${names[@]}"; do
		wait_until 60 is_in_order "paris/git/$name.git"
	done
	: >enough
	wait "$reader"
	[ ! -e failed.log ] || fail "a reader: $(<failed.log)"
	[ "$(<reads)" -gt 0 ]
	wait_until 20 in_sync
	same_sites
	wait_until 5 was_logged paris maintenance.done 'before=.* after='
	# A local clone links what maintenance wrote: only ctimes change.
	git clone -q paris/git/r1.git work
	[ "$(stat -c %h paris/git/r1.git/objects/info/commit-graphs/commit-graph-chain)" -eq 2 ]
	rm -rf work
	at paris check
	wait_until 20 in_sync
	stop_site paris # `git fsck` does not like packs that go
	for name in "${names[@]}"; do
		is_sound "paris/git/$name.git"
	done
	[ "$(logged paris copy.changed)" -eq 0 ]
	[ "$(logged paris copy.doubted)" -eq 0 ]
	# What users own is as it was, though it is in no order.
	listing london/git | diff before -
	[ "$(logged london maintenance.started)" -eq 0 ]
}

# The work of others goes first, and nothing is left of what was killed.
copy_is_back() {
	[ -e paris/git/r.git ] && in_sync
}

who_waits_goes_first() {
	make_sites
	set_conf london sync.scanInterval 200ms
	make_hanging_git
	maintained_soon paris
	set_conf paris sync.maintenance false
	make_repository london/git/r.git 20
	make_repository london/git/other.git 1
	start_site london
	start_site paris
	wait_until 20 in_sync
	change_each 10 r
	[ "$(count_packs paris/git/r.git)" -ge 8 ]
	stop_site paris
	set_conf paris sync.maintenance true
	: >hang
	start_site paris "PATH=$PWD/bin:$PATH"
	wait_until 20 test -e hangs
	add_commits london/git/r.git refs/heads/main 1
	wait_until 20 in_sync
	wait_until 5 was_logged paris maintenance.interrupted
	fails kill -0 "$(<hangs)"
	[ -z "$(find paris/git/r.git/objects -name '.tmp-*')" ]
	is_sound paris/git/r.git

	# Another process: a person's command.
	stop_site paris
	rm hangs
	: >hang
	start_site paris "PATH=$PWD/bin:$PATH"
	wait_until 20 test -e hangs
	# The copy comes back at once, unless a comparison has found meanwhile that it is wanted.
	at paris repository remove r >out 2>&1 || grep 'its copy is wanted' out
	fails kill -0 "$(<hangs)"
	wait_until 20 copy_is_back
	remove_repository london/git/r.git
	wait_until 20 test ! -e paris/git/r.git
	wait_until 20 in_sync
	same_sites
	[ "$(logged paris copy.changed)" -eq 0 ]
}

killed_git() {
	make_sites
	set_conf london sync.scanInterval 200ms
	make_hanging_git
	maintained_soon paris
	set_conf paris sync.maintenance false
	make_repository london/git/r.git 20
	start_sites
	wait_until 20 in_sync
	change_each 10 r
	stop_site paris
	set_conf paris sync.maintenance true
	: >hang
	start_site paris "PATH=$PWD/bin:$PATH"
	wait_until 20 test -e hangs
	kill -KILL "$(<hangs)"
	wait_until 20 was_logged paris maintenance.failed
	[ -z "$(find paris/git/r.git/objects -name '.tmp-*')" ]
	wait_until 20 in_sync
	is_sound paris/git/r.git
	[ "$(logged paris copy.doubted)" -eq 0 ]
	# As where the disk cannot read what git has mapped: all of the copy is read.
	stop_site paris
	rm hangs
	: >hang
	start_site paris "PATH=$PWD/bin:$PATH"
	wait_until 20 test -e hangs
	kill -BUS "$(<hangs)"
	wait_until 20 was_logged paris copy.doubted 'killed by signal 7'
	wait_until 20 in_sync
	stop_site paris
	start_site paris
	wait_until 40 is_in_order paris/git/r.git
	wait_until 20 in_sync
	same_sites
	is_sound paris/git/r.git
	[ "$(logged paris copy.changed)" -eq 0 ]
}

# Packs are gone, the record says otherwise, and nobody takes that for another's change.
who_looks_meanwhile() {
	make_sites
	set_conf london sync.scanInterval 200ms
	set_conf paris http.anonymousRead true
	make_hanging_git prune-packed
	maintained_soon paris
	set_conf paris sync.maintenance false
	make_repository london/git/r.git 20
	start_sites
	wait_until 20 in_sync
	change_each 10 r
	stop_site paris
	set_conf paris sync.maintenance true
	: >hang
	start_site paris "PATH=$PWD/bin:$PATH"
	wait_until 20 test -e hangs
	[ "$(count_packs paris/git/r.git)" -le 2 ]
	git clone -q --mirror "$(site_url paris)/r.git" got
	equal_repositories london/git/r.git got
	at paris check
	wait_until 20 in_sync
	kill -KILL "$(<hangs)"
	wait_until 20 was_logged paris maintenance.failed
	wait_until 20 in_sync
	is_sound paris/git/r.git
	[ "$(logged paris copy.changed)" -eq 0 ] && [ "$(logged paris copy.doubted)" -eq 0 ]
}

foreign_is_gone() {
	! git -C paris/git/r.git rev-parse -q --verify refs/heads/foreign >/dev/null && in_sync
}

# What others do to refs meanwhile is not taken for ours.
who_changes_refs_meanwhile() {
	make_sites
	set_conf london sync.scanInterval 200ms
	make_hanging_git prune-packed
	maintained_soon paris
	set_conf paris sync.maintenance false
	make_repository london/git/r.git 20
	start_sites
	wait_until 20 in_sync
	change_each 10 r
	stop_site paris
	set_conf paris sync.maintenance true
	: >hang
	start_site paris "PATH=$PWD/bin:$PATH"
	wait_until 20 test -e hangs
	git -C paris/git/r.git -c core.hooksPath=/none update-ref refs/heads/foreign main~1
	kill -KILL "$(<hangs)"
	wait_until 20 was_logged paris maintenance.failed 'another program changed the refs'
	wait_until 20 foreign_is_gone
	same_sites
	is_sound paris/git/r.git
}

killed_node() {
	local step name names=(k1 k2 k3)
	make_sites
	set_conf london sync.scanInterval 200ms
	maintained_soon paris
	set_conf paris sync.maintenance false
	for name in "${names[@]}"; do
		make_repository "london/git/$name.git" 20
	done
	start_sites
	wait_until 20 in_sync
	change_each 10 "${names[@]}"
	stop_site paris
	set_conf paris sync.maintenance true
	for step in maintenance.marked maintenance.graphed maintenance.folded \
		maintenance.indexed maintenance.dropping maintenance.dropping@3 \
		maintenance.written; do
		launch_site paris "REFRELAY_FAILPOINT=$step=kill"
		wait_until 40 has_died paris
		wait "$(site_pid paris)" || true
		for name in "${names[@]}"; do
			is_sound "paris/git/$name.git"
		done
	done
	start_site paris
	for name in "${names[@]}"; do
		wait_until 60 is_in_order "paris/git/$name.git"
	done
	wait_until 20 in_sync
	same_sites
	for name in "${names[@]}"; do
		is_sound "paris/git/$name.git"
	done
	[ "$(logged paris copy.changed)" -eq 0 ]
}

synced_mirror() {
	at paris mirror sync acme/r >/dev/null
	is_mirrored acme/r
}

shows_maintenance() {
	at paris mirror show acme/r --json | "$SITE_HELP" member maintenance.packs | grep -q '^[1-9]'
}

mirrors() {
	local old times
	make_mirror_sites
	make_hanging_git
	maintained_soon paris
	make_repository london/git/acme/r.git 20
	give_token london app1 read
	mirror acme/r interval 1h
	watch acme/r app1
	start_site london
	start_site paris "PATH=$PWD/bin:$PATH"
	wait_until 20 synced_mirror
	# A user's own, which is in no order at all.
	make_repository paris/git/own.git 40
	touch -d '-9 days' paris/git/own.git/objects/pack/tmp_pack_old paris/git/own.git/packed-refs.new
	listing paris/git/own.git/objects >before
	for ((times = 0; times < 12; times++)); do
		add_commits london/git/acme/r.git refs/heads/main 1
		synced_mirror
	done
	# The upstream rewrites its history: what it was stays here.
	old=$(git -C london/git/acme/r.git rev-parse main)
	git -C london/git/acme/r.git update-ref refs/heads/main main~9
	synced_mirror
	wait_until 60 is_in_order paris/git/acme/r.git
	wait_until 20 shows_maintenance # what it did is recorded after it was done
	at paris mirror show acme/r | grep -E '^  maintained: .* \([0-9]+ packs?\)$'
	git -C paris/git/acme/r.git cat-file -e "$old^{tree}"
	is_sound paris/git/acme/r.git

	touch -d '-2 days' paris/git/acme/r.git/objects/pack/tmp_pack_stale
	touch paris/git/acme/r.git/objects/pack/tmp_pack_fresh
	wait_until 40 test ! -e paris/git/acme/r.git/objects/pack/tmp_pack_stale
	test -e paris/git/acme/r.git/objects/pack/tmp_pack_fresh
	listing paris/git/own.git/objects | diff before -
	test -e paris/git/own.git/packed-refs.new

	# It is removed while it is maintained; not while a fetch could put that off.
	stop_site paris
	set_conf paris sync.maintenance false
	start_site paris "PATH=$PWD/bin:$PATH"
	for ((times = 0; times < 12; times++)); do
		add_commits london/git/acme/r.git refs/heads/next 1
		synced_mirror
	done
	stop_site paris
	set_conf paris sync.maintenance true
	: >hang
	start_site paris "PATH=$PWD/bin:$PATH"
	wait_until 60 test -e hangs
	git config --file paris/refrelay.conf --remove-section mirror.acme/r
	git config --file paris/refrelay.conf --remove-section watcher.app1
	kill -HUP "$(site_pid paris)"
	at paris mirror remove acme/r
	wait_until 20 test ! -e paris/git/acme/r.git
	fails kill -0 "$(<hangs)"
}

mirror_of_a_path() {
	local times
	make_mirror_sites
	maintained_soon paris
	make_repository london/git/acme/r.git 20
	set_conf paris mirror.acme/r.url "$PWD/london/git/acme/r.git"
	set_conf paris mirror.acme/r.interval 1h
	start_site paris
	wait_until 20 synced_mirror
	for ((times = 0; times < 12; times++)); do
		add_commits london/git/acme/r.git refs/heads/main 1
		synced_mirror
	done
	wait_until 60 is_in_order paris/git/acme/r.git
	is_sound paris/git/acme/r.git
}

tap_test "copies of many fetches have few packs, and readers never fail" copies_of_many_fetches
tap_test "whoever waits for a copy goes first" who_waits_goes_first
tap_test "a git that is killed leaves the copy as it was" killed_git
tap_test "who looks at a copy while it is maintained takes it for what it is" who_looks_meanwhile
tap_test "who changes refs of a copy while it is maintained is noticed" who_changes_refs_meanwhile
tap_test "a node that is killed at any step leaves a sound copy" killed_node
tap_test "mirrors are kept in order, and what stands beside them is not touched" mirrors
tap_test "a mirror of a path is kept in order too" mirror_of_a_path
tap_done
