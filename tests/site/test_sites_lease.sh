#!/usr/bin/env bash
# What is left of a secondary that died, or hangs, in the middle of its work is its lease:
# who has it can be seen, it holds nobody up for long, and a person can take it away.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/site_crash.sh"

leases() {
	at paris lease list --json
}

# Of the lease of repository a: lease_of_a MEMBER
lease_of_a() {
	leases | python3 -c '
import json, sys
for lease in json.load(sys.stdin)["leases"]:
    if lease["name"] == "a":
        value = lease[sys.argv[1]]
        print(str(value).lower() if isinstance(value, bool) else value)' "$1"
}

lease_of_a_is() { # MEMBER VALUE
	local value
	value=$(lease_of_a "$1") && [ "$value" = "$2" ] && return
	echo "$1 is $value, not $2"
	return 1
}

metric() { # NAME
	curl -fsS "$(site_url paris)/metrics" | awk -v name="$1" '$1 == name { print $2 }'
}

metric_is() { # NAME VALUE
	local value
	value=$(metric "$1")
	[ "$value" = "$2" ] && return
	echo "$1 is $value, not $2"
	return 1
}

stop_at() { # POINT=ACTION
	stop_site paris
	launch_site paris "REFRELAY_FAILPOINT=$1"
	change_a
}

die_at() { # POINT
	stop_at "$1=kill"
	is_killed_within 10 paris
}

# Who waited until its lease expires would wait for five minutes.
a_dead_one_is_shown_and_costs_nothing() {
	local pid key begun

	start_crash_sites
	set_conf paris lease.ttl 300s
	die_at sync.fetched
	pid=$(site_pid paris)
	lease_of_a_is held true
	lease_of_a_is proof "dead: process is gone"
	lease_of_a_is pid "$pid"
	lease_of_a_is node "$(hostname)"
	lease_of_a_is operation sync
	key=$(lease_of_a key)
	at paris lease list >out
	grep -A 1 -xF "$key" out | grep -F "held: dead: process is gone"
	at paris lease show "$key" >out
	grep -F "  by process $pid on $(hostname), for sync of a, since " out

	begun=$SECONDS
	start_site paris
	wait_until 40 is_whole
	[ $((SECONDS - begun)) -le 150 ]
	lease_of_a_is held false
	lease_of_a_is proof released
	wait_until 10 was_logged paris lease.takeover "job=sync repo=a .*after=death .*holder_pid=$pid "
	# the three threads' leases, and this one
	metric_is 'refrelay_lease_takeover_total{kind="local"}' 4
	metric_is 'refrelay_lease_held{kind="local"}' 3
	is_whole_again paris
}

# Processes of a boot before this one are dead, whatever their numbers are now.
a_reboot_ends_all_leases() {
	start_crash_sites
	die_at sync.fetched
	python3 - <<-'END'
		import sqlite3
		with sqlite3.connect("paris/data/refrelay.db") as database:
		    database.execute("UPDATE lease SET boot_id = 'another'")
	END
	lease_of_a_is proof "dead: other boot"
	start_site paris
	wait_until 10 is_whole
	is_whole_again paris
}

# Killed, it leaves git behind for the moment that its supervisor needs.
the_children_of_a_dead_one_die() {
	start_crash_sites
	hang_a_fetch
	fails no_site_children paris
	kill_site paris
	wait_until 5 no_site_children paris
	kill -CONT "$(site_pid london)"
	start_site paris
	wait_until 10 is_whole
	is_whole_again paris
}

# Nobody needs to: the next one takes it at once. But one may.
a_dead_ones_is_released_by_hand() {
	local key fence

	start_crash_sites
	die_at sync.fetched
	key=$(lease_of_a key)
	fence=$(lease_of_a fence)
	expect 1 at paris lease release --fence "$((fence - 1))" --reason test "$key"
	lease_of_a_is held true
	at paris lease show "$key" >out
	fails grep 'unless renewed' out
	at paris lease release --fence "$fence" --reason "it is dead" "$key"
	lease_of_a_is held false
	[ "$(lease_of_a fence)" -gt "$fence" ]
	expect 1 at paris lease release --fence "$fence" --reason again "$key"
	expect 4 at paris lease release --fence 1 --reason test no-such-key
	start_site paris
	wait_until 10 is_whole
	is_whole_again paris
}

# Of what runs: (name, id) as the API has it.
running_jobs() {
	curl -fsS "$(site_url paris)/api/v1/running" | python3 -c '
import json, sys
for job in json.load(sys.stdin)["running"]:
    print(job["name"], job["job"])'
}

# While git fetches, and when all is done.
a_job_has_one_id_everywhere() {
	local job

	start_crash_sites
	hang_a_fetch
	lease_of_a_is held true
	job=$(lease_of_a job)
	[[ $job =~ ^[0-9a-f]{16}$ ]]
	[ "$(running_jobs)" = "a $job" ]
	kill -CONT "$(site_pid london)"
	wait_until 10 is_whole
	wait_until 10 was_logged paris sync.done "job_id=$job .*repo=a |repo=a .*job_id=$job "
	[ "$(logged paris sync.done)" -eq "$(logged paris sync.done 'job_id=[0-9a-f]{16} ')" ]
	is_whole_again paris
}

# Another one of its threads may have been in the middle of a transaction: then nobody else
# can write, and it is tried again.
put_to_sleep() {
	while :; do
		stop_at sync.fetched=stop
		wait_until 10 is_paused paris
		leases >/dev/null && return
		kill -CONT "$(site_pid paris)"
		wait_until 10 is_whole
	done
}

# It is taken away before it is over. What the sleeper had in hand then is void.
a_sleepers_is_taken_away() {
	local key fence before

	start_crash_sites
	put_to_sleep
	lease_of_a_is proof alive
	before=$(repository_picture paris/git/a.git)
	key=$(lease_of_a key)
	at paris lease show "$key" >out
	grep 'expires in [0-9.]* s unless' out
	fence=$(lease_of_a fence)
	at paris lease release --fence "$fence" --reason "it hangs" "$key" 2>err
	grep -F 'ev=lease.force_released' err
	grep -F 'reason="it hangs"' err
	grep -F "actor=$(id -un)" err
	lease_of_a_is held false
	test "$before" = "$(repository_picture paris/git/a.git)"
	kill -CONT "$(site_pid paris)"
	wait_until 10 was_logged paris 'job\.(failed|deferred)' "repo=a "
	at paris repository sync a
	wait_until 10 is_whole
	[ "$(lease_of_a fence)" -gt "$((fence + 1))" ]
	is_whole_again paris
}

tap_test "the lease of a dead one is shown as such, and is taken at once" \
	a_dead_one_is_shown_and_costs_nothing
tap_test "a reboot ends all leases" a_reboot_ends_all_leases
tap_test "the children of a dead one die, too" the_children_of_a_dead_one_die
tap_test "the lease of a dead one can be released by hand" a_dead_ones_is_released_by_hand
tap_test "a job has one id: at its lease, in the API and in the log" a_job_has_one_id_everywhere
tap_test "the lease of one that sleeps can be taken away" a_sleepers_is_taken_away
tap_done
