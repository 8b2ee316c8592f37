#!/usr/bin/env bash
# Writers that are killed, paused, slow, or disturbed: readers are told the truth during and
# after, and the cache is used again at once.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"

pending=one/git/r.git/refrelay/state/pending

# A node that has answered already, so that there is something old to be served.
serve_warm() {
	make_served
	start_site one
	old=$(commit_of main)
	new=$(commit_of main~1)
	is_told "$old"
	wait_until 5 is_cached
}

# Under both protocols.
is_told() { # OID
	local under_0 under_2
	under_0=$(oid refs/heads/main)
	under_2=$(oid2 refs/heads/main)
	[ "$under_0 $under_2" = "$1 $1" ] || fail "told are $under_0 and $under_2, not $1"
}

# The truth, as stock git sees it.
truth_is_told() {
	is_told "$(commit_of main)"
}

# Whether the answers to the next requests come from memory.
is_cached() {
	local before
	oid refs/heads/main >/dev/null
	before=$(count_reused)
	oid refs/heads/main >/dev/null
	[ "$(count_reused)" -gt "$before" ] || {
		curl -fsS "$(site_url one)/metrics" | grep ^refrelay_refs_requests
		return 1
	}
}

is_pending() { # COUNT
	[ "$(find "$pending" -type f | wc -l)" -eq "$1" ] || fail "$(ls "$pending")"
}

recoveries() {
	metric_of one refrelay_refs_recoveries_total
}

# A hook that stops git with its change prepared, as long as ./hold is there; its number is
# in ./git.
hold_git() {
	at one hooks install r >out
	cat >"$R/hooks/reference-transaction.refrelay-kept" <<-END
		#!/bin/sh
		[ "\$1" = prepared ] && [ -e "$TEST_DIR/hold" ] || exit 0
		echo \$PPID >"$TEST_DIR/git.new"
		mv "$TEST_DIR/git.new" "$TEST_DIR/git"
		while [ -e "$TEST_DIR/hold" ]; do sleep 0.05; done
	END
	chmod +x "$R/hooks/reference-transaction.refrelay-kept"
	touch hold
}

start_held_git() { # OID
	rm -f git
	git -C "$R" update-ref refs/heads/main "$1" 2>git.err &
	writer=$!
	wait_until 10 test -e git
}

# In the background, with its command's number in ./command.
start_bracket() { # SCRIPT [FILE]
	local file=${2:-command}
	rm -f "$file"
	"$REFRELAY" -c one/refrelay.conf state r -- \
		sh -c "echo \$\$ >$file.new; mv $file.new $file; $1" >"$file.log" 2>&1 &
	writer=$!
	wait_until 10 test -e "$file"
}

all_is_well() { # OID
	truth_is_told
	is_told "$1"
	is_cached
	is_pending 0
}

bracket_killed_at() { # POINT
	serve_warm
	REFRELAY_FAILPOINT=$1=kill expect 137 bracketed git -C "$R" update-ref refs/heads/main "$new"
	all_is_well "$new"
	stop_site one
}

# The command goes on alone, and changes refs when nobody waits for it any more.
bracket_killed_before_its_command_writes() {
	serve_warm
	touch hold
	start_bracket "while [ -e hold ]; do sleep 0.05; done
		git -C $R update-ref refs/heads/main $new; sleep 0.3"
	kill -KILL "$writer"
	wait "$writer" || :
	is_told "$old"
	is_pending 1
	fails is_cached
	rm hold
	wait_until 10 is_main "$new"
	wait_until 10 is_dead "$(<command)"
	all_is_well "$new"
	[ "$(recoveries)" -eq 1 ]
	# And with the command.
	start_bracket "git -C $R update-ref refs/heads/main $old; exec sleep 100"
	wait_until 10 is_main "$old"
	is_told "$old"
	kill -KILL "$writer" "$(<command)"
	wait "$writer" || :
	wait_until 10 is_dead "$(<command)"
	all_is_well "$old"
	[ "$(recoveries)" -eq 2 ]
	stop_site one
}

ref_is() { # REVISION OID
	[ "$(commit_of "$1")" = "$2" ]
}

is_main() { # OID
	ref_is main "$1"
}

# A copy made by `refrelay replicate` in the tree that is served; each death leaves readers
# with what git would tell, and the next run has it done.
replicate_killed_at() { # POINT
	make_served
	mkdir source
	mv "$R" source/r.git
	expect 0 refrelay replicate source one/git
	start_site one
	git -C source/r.git update-ref refs/heads/main "$(git -C source/r.git rev-parse main~2)"
	git -C source/r.git symbolic-ref HEAD refs/heads/side
	git -C source/r.git branch extra main
	truth_is_told
	wait_until 5 is_cached
	REFRELAY_FAILPOINT=$1=kill expect 137 refrelay replicate source one/git
	truth_is_told
	cmp <(adv) <(printf '001e# service=git-upload-pack\n0000' &&
		git upload-pack --http-backend-info-refs "$R")
	is_pending 0
	is_cached
	expect 0 refrelay replicate source one/git
	all_is_well "$(git -C source/r.git rev-parse main)"
	stop_site one
}

git_killed_between_prepared_and_committed() {
	local before
	serve_warm
	hold_git
	start_held_git "$new"
	is_pending 1
	before=$(count_of bypass_pending)
	is_told "$old"
	[ "$(count_of bypass_pending)" -eq $((before + 1)) ]
	kill -KILL "$(<git)"
	wait "$writer" || :
	truth_is_told
	all_is_well "$old"
	[ "$(recoveries)" -eq 1 ]
	# Its hook, which has outlived it, changes nothing; its locks are git's.
	rm hold "$R/refs/heads/main.lock" "$R/HEAD.lock"
	git -C "$R" update-ref refs/heads/main "$new"
	all_is_well "$new"
	stop_site one
}

# Killed at any moment, by surprise; what it did or did not do is what is told.
git_killed_at_any_time() {
	local i oid
	serve_warm
	at one hooks install r >out
	for i in $(seq 0 29); do
		oid=$([ $((i % 2)) -eq 0 ] && echo "$new" || echo "$old")
		git -C "$R" update-ref refs/heads/main "$oid" 2>/dev/null &
		writer=$!
		python3 -c "import time; time.sleep(0.0007 * $i)"
		kill -KILL "$writer" 2>/dev/null || :
		wait "$writer" 2>/dev/null || :
		rm -f "$R/refs/heads/main.lock" "$R/HEAD.lock"
		truth_is_told
	done
	wait_until 5 is_cached
	is_pending 0
	stop_site one
}

is_later_than() { # MILLISECONDS
	[ "$(date +%s%3N)" -ge "$1" ]
}

# What is said of a paused writer, for seconds: he lives.
is_told_while_paused() { # OID
	local until
	until=$(($(date +%s%3N) + 2500))
	touch -d '3 hours ago' "$pending"/*
	until is_later_than "$until"; do
		is_told "$1"
		is_pending 1
		sleep 0.2
	done
	[ "$(recoveries)" -eq 0 ]
}

paused_git() {
	serve_warm
	hold_git
	start_held_git "$new"
	kill -STOP "$(<git)"
	rm hold
	is_told_while_paused "$old"
	kill -CONT "$(<git)"
	wait "$writer"
	all_is_well "$new"
	[ "$(recoveries)" -eq 0 ]
	stop_site one
}

paused_bracket() {
	serve_warm
	touch hold
	start_bracket "git -C $R update-ref refs/heads/main $new
		while [ -e hold ]; do sleep 0.05; done
		git -C $R update-ref refs/heads/main $old"
	wait_until 10 is_main "$new"
	kill -STOP "$writer" "$(<command)"
	is_told_while_paused "$new"
	rm hold
	kill -CONT "$writer" "$(<command)"
	wait "$writer"
	all_is_well "$old"
	[ "$(recoveries)" -eq 0 ]
	stop_site one
}

paused_at() { # POINT
	serve_warm
	REFRELAY_FAILPOINT=$1=stop "$REFRELAY" -c one/refrelay.conf state r -- \
		git -C "$R" update-ref refs/heads/main "$new" &
	writer=$!
	wait_until 10 is_stopped "$writer"
	for _ in 1 2 3; do
		is_told "$new"
	done
	kill -CONT "$writer"
	wait "$writer"
	all_is_well "$new"
	[ "$(recoveries)" -eq 0 ]
	stop_site one
}

# How old a value is: the higher, the newer.
age_of() { # OID
	grep -n "$1" values | cut -d : -f 1
}

slow_writer() {
	local before told polled=0
	serve_warm
	git -C "$R" rev-list --reverse main >values
	echo "$old" >written
	cat >slow <<-END
		for oid in \$(cat values); do
			git -C $R update-ref refs/heads/main \$oid && echo \$oid >written.new &&
				mv written.new written
			sleep 0.15
		done
	END
	git -C "$R" update-ref refs/heads/main "$(head -n 1 values)"
	head -n 1 values >written
	start_bracket ". ./slow"
	until is_dead "$writer"; do
		before=$(age_of "$(<written)")
		told=$(age_of "$(oid refs/heads/main)")
		[ "$told" -ge "$before" ] || fail "value $told, after $before"
		before=$(age_of "$(<written)")
		told=$(age_of "$(oid2 refs/heads/main)")
		[ "$told" -ge "$before" ] || fail "value $told, after $before"
		polled=$((polled + 1))
	done
	wait "$writer"
	[ "$polled" -gt 2 ]
	all_is_well "$(tail -n 1 values)"
	[ "$(recoveries)" -eq 0 ]
	stop_site one
}

# The first ends last; and again, where the second is killed.
two_at_once() {
	local first
	serve_warm
	touch hold
	start_bracket "while [ -e hold ]; do sleep 0.05; done
		git -C $R update-ref refs/heads/main $old" first
	first=$writer
	bracketed git -C "$R" update-ref refs/heads/main "$new"
	is_pending 1
	is_told "$new"
	git -C "$R" update-ref refs/heads/other "$new"
	[ "$(oid refs/heads/other)" = "$new" ]
	start_bracket "git -C $R update-ref refs/heads/other $old; exec sleep 100" second
	wait_until 10 ref_is other "$old"
	[ "$(oid refs/heads/other)" = "$old" ]
	kill -KILL "$writer" "$(<second)"
	wait "$writer" || :
	wait_until 10 is_dead "$(<second)"
	[ "$(oid refs/heads/other)" = "$(commit_of other)" ]
	[ "$(recoveries)" -eq 1 ]
	is_pending 1
	fails is_cached
	rm hold
	wait "$first"
	all_is_well "$old"
	stop_site one
}

# By who thinks that it is of no use any more, while somebody writes.
without_its_folder() {
	serve_warm
	touch hold
	start_bracket "while [ -e hold ]; do sleep 0.05; done
		git -C $R update-ref refs/heads/main $new; sleep 0.3"
	is_told "$old"
	rm -r "$R/refrelay"
	is_told "$old"
	rm hold
	wait_until 10 is_main "$new"
	is_told "$new"
	wait "$writer"
	all_is_well "$new"

	hold_git
	start_held_git "$old"
	rm -r "$R/refrelay"
	is_told "$new"
	rm hold
	wait "$writer" || fail "$(<git.err)"
	all_is_well "$old"
	stop_site one
}

for point in state.key state.ended; do
	tap_test "a bracket is killed at $point" bracket_killed_at "$point"
done
tap_test "a bracket is killed before and after its command writes" \
	bracket_killed_before_its_command_writes
for point in publish.pending publish.locked publish.written publish.renamed \
	publish.head publish.changed state.key state.ended; do
	tap_test "a replication is killed at $point" replicate_killed_at "$point"
done
tap_test "git is killed between prepared and committed" \
	git_killed_between_prepared_and_committed
tap_test "git is killed at any time" git_killed_at_any_time
tap_test "a git that is paused is not taken for dead" paused_git
tap_test "a bracket that is paused is not taken for dead" paused_bracket
for point in state.key state.ended; do
	tap_test "a bracket is paused at $point" paused_at "$point"
done
tap_test "a slow writer changes refs again and again" slow_writer
tap_test "two write at once, and one of them dies" two_at_once
tap_test "the state is removed while somebody writes" without_its_folder
tap_done
