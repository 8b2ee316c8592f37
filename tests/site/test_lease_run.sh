#!/usr/bin/env bash
# `refrelay lease run`: a script of an administrator under a lease.
. "$(dirname "$0")/../lib/tap.sh"

json_get() { # FILE MEMBER
	python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"
}

lease() {
	"$REFRELAY" -c conf lease "$@"
}

make_conf() { # [LINE...]
	mkdir git
	printf '%s\n' '[site]' 'name = paris' "repositories = $PWD/git" "data = $PWD/data" \
		'[lease]' "$@" >conf
}

# Holds the key until `rm held`; its job is in the file.
hold() { # KEY
	touch held
	"$REFRELAY" -c conf lease run "$1" -- sh -c 'echo "$REFRELAY_JOB" >job; while [ -e held ]; do sleep 0.05; done' &
	holder=$!
	wait_until 10 test -s job
}

let_go() {
	rm -f held
	wait "$holder"
}

the_command_has_our_files_its_fence_and_its_status() {
	make_conf
	[ "$(echo text | lease run k -- sh -c 'cat; echo "$REFRELAY_FENCE" >fence')" = text ]
	lease show k --json >shown
	[ "$(json_get shown fence)" = "$(cat fence)" ]
	[ "$(json_get shown held)" = False ]
	expect 7 lease run k -- sh -c 'exit 7'
	expect 137 lease run k -- sh -c 'kill -9 $$'
	expect 127 lease run k -- no-such-command
	expect 2 lease run k
	lease run k -- sh -c 'echo to stderr >&2' 2>errors
	grep -qx 'to stderr' errors
}

# As nohup has it.
an_ignored_hangup_ends_nothing() {
	local running status=0
	make_conf
	mkfifo go
	(
		trap '' HUP
		exec "$REFRELAY" -c conf lease run k -- sh -c 'touch started; read -r x <go; exit 9'
	) &
	running=$!
	wait_until 10 test -e started
	kill -HUP "$running"
	sleep 0.2
	kill -HUP "$running"
	echo >go
	wait "$running" || status=$?
	[ "$status" -eq 9 ]
}

one_runs_at_a_time_and_the_other_is_told_of_its_job() {
	make_conf
	hold k
	expect 5 lease run k --wait 0 -- touch ran
	grep -q "Cannot obtain an exclusive lease for refrelay:paris:k: held by $(hostname), process $holder, job $(cat job)" err
	expect 5 lease run k --wait 1 -- touch ran
	grep -q "^refrelay: Lock timeout waiting for repo: k: held by $(hostname), process $holder, job $(cat job) (run)" err
	grep -q 'ev=lease.timeout .*code=lock_timeout' err
	[ ! -e ran ]
	lease list --json >listed
	grep -q "\"job\":\"$(cat job)\",\"name\":\"k\",\"operation\":\"run\"" listed
	let_go
	lease run k --wait 0 -- touch ran
	[ -e ran ]
}

who_waits_runs_as_soon_as_it_is_free() {
	make_conf
	hold k
	"$REFRELAY" -c conf lease run k --wait 30 -- touch ran &
	wait_until 10 lease_has_waiter
	let_go
	wait $!
	[ -e ran ]
}

lease_has_waiter() {
	[ "$(sqlite_says 'SELECT count(*) FROM lease_waiter')" = 1 ]
}

sqlite_says() { # SQL
	python3 -c 'import sqlite3, sys
print(sqlite3.connect("file:data/refrelay.db?mode=ro", uri=True).execute(sys.argv[1]).fetchone()[0])' "$1"
}

a_holder_that_is_killed_leaves_nothing_running() {
	make_conf
	"$REFRELAY" -c conf lease run k -- sh -c 'echo $$ >pid; exec sleep 600' &
	wait_until 10 test -s pid
	kill -9 $!
	wait_until 5 is_gone "$(cat pid)"
	lease run k --wait 20 -- touch ran
	[ -e ran ]
}

is_gone() { # PID
	! kill -0 "$1" 2>/dev/null
}

taken_away_it_is_killed() {
	local status=0
	make_conf 'ttl = 4s'
	"$REFRELAY" -c conf lease run k -- sh -c 'echo $$ >pid; exec sleep 600' 2>errors &
	wait_until 10 test -s pid
	lease show k --json >shown
	lease release k --fence "$(json_get shown fence)" --reason test
	wait $! || status=$?
	[ "$status" = 1 ]
	is_gone "$(cat pid)"
	grep -q 'ev=lease.lost' errors
}

# Whoever has it next finds nothing of the command, which does not even obey SIGTERM: refrelay itself can do nothing
# about that.
while_refrelay_is_stopped_the_command_is_killed_in_time() {
	local holder
	make_conf 'ttl = 4s'
	"$REFRELAY" -c conf lease run k -- sh -c 'trap "" TERM; echo $$ >pid; exec sleep 600' &
	holder=$!
	wait_until 10 test -s pid
	kill -STOP "$holder"
	lease run k --wait 30 -- sh -c 'kill -0 "$(cat pid)" 2>/dev/null && touch both; touch ran'
	[ -e ran ]
	[ ! -e both ]
	kill -CONT "$holder"
	wait "$holder" || :
}

# Else an administrator takes for done what was only half done.
cut_short_by_the_end_of_the_lease_it_has_failed_whatever_its_status() {
	local holder status=0
	make_conf 'ttl = 8s' # it has a quarter of it to obey SIGTERM, for which it needs no program
	"$REFRELAY" -c conf lease run k -- \
		sh -c 'trap ": >ended; exit 0" TERM; : >started; sleep 600 & wait' 2>errors &
	holder=$!
	wait_until 10 test -e started
	kill -STOP "$holder"
	wait_until 10 test -e ended
	kill -CONT "$holder"
	wait "$holder" || status=$?
	[ "$status" = 1 ]
	grep -q '^refrelay: ' errors
}

a_signal_ends_the_command() {
	local status=0
	make_conf
	"$REFRELAY" -c conf lease run k -- sh -c 'trap ": >ended; exit 3" TERM; echo $$ >pid; sleep 600 & wait' &
	wait_until 10 test -s pid
	kill -TERM $!
	wait $! || status=$?
	[ "$status" = 3 ] # which is its own
	[ -e ended ]
	is_gone "$(cat pid)"
	lease run k --wait 0 -- true
}

tap_test "a hangup that is ignored ends nothing" an_ignored_hangup_ends_nothing
tap_test "the command has our files, its fence, and its status" the_command_has_our_files_its_fence_and_its_status
tap_test "one runs at a time, and the other is told of its job" one_runs_at_a_time_and_the_other_is_told_of_its_job
tap_test "who waits runs as soon as it is free" who_waits_runs_as_soon_as_it_is_free
tap_test "a holder that is killed leaves nothing running" a_holder_that_is_killed_leaves_nothing_running
tap_test "taken away, it is killed" taken_away_it_is_killed
tap_test "while refrelay is stopped, the command is killed in time" \
	while_refrelay_is_stopped_the_command_is_killed_in_time
tap_test "cut short by the end of the lease, it has failed, whatever its status" \
	cut_short_by_the_end_of_the_lease_it_has_failed_whatever_its_status
tap_test "a signal ends the command" a_signal_ends_the_command
tap_done
