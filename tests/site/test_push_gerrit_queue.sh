#!/usr/bin/env bash
# What is pushed when, as Gerrit's replication plugin does it.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"

what_comes_during_a_push_waits_for_the_next() {
	make_node n
	make_a m
	add_remote n m
	hold m/a
	start_ready n
	add_commits git/a.git refs/heads/main 1
	at n changed a
	wait_until 10 is_held m/a
	count_is 1 in_running
	count_is 0 waiting
	add_commits git/a.git refs/heads/main 1
	at n changed a
	wait_until 10 count_is 1 waiting
	count_is 1 in_running
	[ "$(waiting)" = "$(in_running)" ]
	let_go
	wait_until 10 store_is_empty
	[ "$(received m/a)" -eq 2 ]
	has_ref m/a refs/heads/main
	never_two_at_once
	stop_site n
}

# Of the second push, which was due while the first was held. By clocks of two grains.
second_delay() {
	grep -a ' ev=push.done ' n/log | sed -n '2s/.* delay_ms=\([0-9]*\).*/\1/p'
}

it_is_no_retry() { # MS for which it waits at least while the push is held
	make_node n
	make_a m
	add_remote n m rescheduleDelay 4s replicationRetry 1h threads 4
	hold m/a
	start_ready n
	add_commits git/a.git refs/heads/main 1
	at n changed a
	wait_until 10 is_held m/a
	add_commits git/a.git refs/heads/b1 1
	at n changed a
	wait_until 10 count_is 1 waiting
	wait_until 10 is_older_than "$1"
	[ "$(received m/a)" -eq 1 ]
	let_go
	wait_until 20 store_is_empty
	wait_until 10 eval '[ "$(logged n push.done " retries=0( |$)")" -eq 2 ]'
	[ "$(second_delay)" -ge 3900 ]
	[ "$(received m/a refs/heads/b1)" -eq 1 ]
	never_two_at_once
	stop_site n
}

what_was_removed_while_no_node_ran_is_not_pushed() {
	make_node n
	make_a m1 m2
	add_remote n m1 replicationDelay 3600
	add_remote n m2 replicationDelay 3600
	start_ready n
	add_commits git/a.git refs/heads/main 1
	at n changed a
	wait_until 10 count_is 2 waiting
	stop_site n
	rm "$(grep -l '"remote":"m1"' store/ref-updates/waiting/*)"
	set_conf n remote.m1.replicationDelay 0
	set_conf n remote.m2.replicationDelay 0
	start_ready n
	wait_until 10 has_ref m2/a refs/heads/main
	wait_until 10 store_is_empty
	[ "$(received m1/a)" -eq 0 ]
	stop_site n
}

what_is_removed_by_hand_is_not_pushed() {
	local key
	make_node n
	make_a m
	add_remote n m replicationDelay 6
	start_ready n
	key=$(write_task waiting a refs/heads/b1 "$(uri_of m/a)" m)
	write_task waiting a refs/heads/b2 "$(uri_of m/a)" m
	rm "store/ref-updates/waiting/$key"
	wait_until 10 has_ref m/a refs/heads/b2
	wait_until 10 store_is_empty
	[ "$(received m/a)" -eq 1 ]
	[ "$(received m/a refs/heads/b1)" -eq 0 ]
	stop_site n
}

metric_is() { # TEXT VALUE
	local said
	said=$(curl -fsS -m 5 "$(site_url n)/metrics" | grep "^$1 ")
	[ "$said" = "$1 $2" ] && return
	echo "$said"
	return 1
}

the_queue_drops_what_was_removed() {
	make_node n replication.distributionInterval 3s http.anonymousRead true
	make_a m
	add_remote n m replicationDelay 3600
	start_ready n
	write_task waiting a refs/heads/b1 "$(uri_of m/a)" m
	wait_until 10 eval 'at n push queue | grep -q refs/heads/b1'
	wait_until 10 metric_is 'refrelay_push_waiting{remote="m"}' 1
	rm store/ref-updates/waiting/*
	wait_until 4 metric_is 'refrelay_push_waiting{remote="m"}' 0
	at n push queue >queue
	grep -q '^0 running, 0 waiting' queue
	stop_site n
}

fifty_events_are_one_push_for_each_url() {
	local i
	make_node n
	make_a m1 m2
	add_remote n m1 replicationDelay 3600
	add_remote n m2 replicationDelay 3600
	start_ready n
	for i in $(seq 50); do
		git -C git/a.git update-ref "refs/heads/t$i" main~1
		at n changed a
	done
	wait_until 10 count_is 100 waiting
	set_conf n remote.m1.replicationDelay 0
	set_conf n remote.m2.replicationDelay 0
	kill -HUP "$(site_pid n)"
	wait_until 20 store_is_empty
	for i in m1 m2; do
		[ "$(received $i/a)" -eq 1 ]
		[ "$(grep -c "^ref $i/a refs/heads/t" witness)" -eq 50 ]
	done
	wait_until 10 eval '[ "$(logged n push.done " refs=50 ")" -eq 2 ]'
	stop_site n
}

tap_test "what comes during a push waits for the next" \
	what_comes_during_a_push_waits_for_the_next
tap_test "it waits for its delay, and is no retry" it_is_no_retry 2000
tap_test "it waits for a push that takes longer than that" it_is_no_retry 4500
tap_test "what was removed while no node ran is not pushed" \
	what_was_removed_while_no_node_ran_is_not_pushed
tap_test "what is removed by hand is not pushed" what_is_removed_by_hand_is_not_pushed
tap_test "the queue drops what was removed" the_queue_drops_what_was_removed
tap_test "fifty events are one push for each URL" fifty_events_are_one_push_for_each_url
tap_done
