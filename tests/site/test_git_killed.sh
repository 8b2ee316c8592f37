#!/usr/bin/env bash
# The primary is killed while somebody pushes through the secondary: he is not told that all
# is well, nobody is told of what was before the push, and when the primary is back there is
# an event if and only if there is a change.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"

R=london/git/r.git

make_pair() {
	make_sites
	make_repository "$R" 5
	give_token london dev push
	set_conf paris http.anonymousRead true
	start_sites
	wait_until 20 in_sync
	make_clone "$(url_as dev paris r)" work
}

told_at_paris() {
	git ls-remote "$(site_url paris)/r.git" refs/heads/main 2>err.read | cut -f 1
}

# What is pushed next, and what was there before.
prepare_push() {
	before=$(tip $R) events=$(events_of london r)
	head -c 300000 /dev/urandom >work/noise
	git -C work add noise
	commit_in work
}

push() {
	git -C work push -q origin main "main:refs/heads/$1" 2>err.push
}

# Either the newest or nothing, with words.
nothing_old_is_told() {
	if [ -n "$(told_at_paris)" ]; then
		[ "$(told_at_paris)" = "$(tip $R)" ]
	else
		grep "remote: the copy here .*, and the primary does not answer" err.read
	fi
}

state_is_recorded() {
	at london events --json | tail -n 1 | grep -qF "\"$(at london checksum r)\""
}

# All refs of a push, or none.
is_whole_at_london() { # NAME
	case $(tip $R) in
	"$before") fails tip $R "refs/heads/$1" ;;
	"$(tip work HEAD)") [ "$(tip $R "refs/heads/$1")" = "$(tip work HEAD)" ] ;;
	*) fail "main is at $(tip $R)" ;;
	esac
}

# CHANGE: done, undone, or either.
comes_back() { # NAME CHANGE
	start_site london
	wait_until 10 state_is_recorded
	is_whole_at_london "$1"
	case $2 in
	done) [ "$(tip $R)" != "$before" ] ;;
	undone) [ "$(tip $R)" = "$before" ] ;;
	esac
	if [ "$(tip $R)" = "$before" ]; then
		[ "$(events_of london r)" -eq "$events" ]
	else
		[ "$(events_of london r)" -gt "$events" ]
	fi
	[ "$(told_at_paris)" = "$(tip $R)" ]
	git ls-remote "$(site_url london)/r.git" >refs # who reads there tidies up
	[ -z "$(ls $R/refrelay/state/pending)" ]
	wait_until 20 push "$1"
	[ "$(told_at_paris)" = "$(tip work HEAD)" ]
	wait_until 20 in_sync
	same_sites
	git -C $R fsck --no-dangling
}

dies_at() { # POINT CHANGE
	local point=$1

	echo "$point:"
	stop_site london
	start_site london "REFRELAY_FAILPOINT=$point=kill"
	prepare_push
	fails push "${point#*.}"
	wait_until 10 has_died london
	wait "$(site_pid london)" || true
	nothing_old_is_told
	comes_back "${point#*.}" "$2"
}

at_each_point() {
	make_pair
	dies_at receive_pack.begun undone
	dies_at receive_pack.reported done
	dies_at receive_pack.recorded done
	dies_at notice.commits done
	dies_at state.key done
}

# What was uploaded is not half of it.
in_the_pack() {
	local pid status=0

	make_pair
	prepare_push
	mkfifo hold
	git -C work pack-objects --revs --stdout -q >pack <<-END
		main
		^$before
	END
	{
		printf '0082%s %s refs/heads/main\0 report-status side-band-64k0000' \
			"$before" "$(tip work HEAD)"
		cat pack
	} >body
	{ head -c 150000 body && cat hold; } |
		curl -sS -m 60 -T - -X POST "$(url_as dev paris r)/git-receive-pack" -o answer \
			-H 'Content-Type: application/x-git-receive-pack-request' \
			-w '%{http_code}\n' >status 2>err.push &
	pid=$!
	exec 9>hold
	wait_until 10 has_quarantine
	kill_site london
	exec 9>&-
	wait "$pid" || status=$?
	[ "$status" -ne 0 ] || grep -x 503 status
	nothing_old_is_told
	comes_back in-the-pack undone
}

has_quarantine() {
	find $R/objects -name 'tmp_objdir*' | grep -q .
}

# Git goes on, or not, when nobody listens to it any more.
in_a_hook() { # HOOK CHANGE
	local pid

	make_pair
	cat >"$R/hooks/$1" <<-'HOOK'
		#!/bin/sh
		cat >/dev/null
		[ ! -e "$TEST_DIR/hold" ] || echo $$ >"$TEST_DIR/held"
		while [ -e "$TEST_DIR/hold" ]; do sleep 0.1; done
	HOOK
	sed -i "s,\$TEST_DIR,$PWD,g" "$R/hooks/$1"
	chmod +x "$R/hooks/$1"
	touch hold
	prepare_push
	push in-a-hook &
	pid=$!
	wait_until 10 test -s held
	kill_site london
	fails wait "$pid"
	nothing_old_is_told
	rm hold
	wait_until 10 hook_has_ended
	comes_back in-a-hook "$2"
}

hook_has_ended() {
	! kill -0 "$(cat held)" 2>err.kill
}

tap_test "killed at each step of a push through the secondary" at_each_point
tap_test "killed while the pack is on its way" in_the_pack
tap_test "killed after the pack, before the refs" in_a_hook pre-receive either
tap_test "killed after the refs, while post-receive runs" in_a_hook post-receive done
tap_done
