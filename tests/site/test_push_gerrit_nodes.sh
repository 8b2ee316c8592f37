#!/usr/bin/env bash
# Two nodes on one task store, one that is told of other settings, and tasks that were
# given up: where Gerrit's replication plugin pushes twice, or loses them.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"

# Each with branches t1 to t10, and tasks for each of these.
make_500() {
	local i t
	make_source r1
	for t in $(seq 10); do
		echo "create refs/heads/t$t $(git -C git/r1.git rev-parse main)"
	done | git -C git/r1.git update-ref --stdin
	make_destination m/r1
	for i in $(seq 2 50); do
		cp -a git/r1.git "git/r$i.git"
		cp -a m/r1.git "m/r$i.git"
		sed -i "s,m/r1\\b,m/r$i,; s,-m-r1\\b,-m-r$i," m/r"$i".git/hooks/p*-receive
	done
	python3 -c '
import hashlib, json, os
folder = "store/ref-updates/waiting/"
os.makedirs(folder, exist_ok=True)
for i in range(1, 51):
    for t in range(1, 11):
        task = ("r%d" % i, "refs/heads/t%d" % t, "%s/m/r%d.git" % (os.getcwd(), i), "m")
        key = hashlib.sha1(("%s\n[%s]\n%s\n%s" % task).encode()).hexdigest()
        with open(folder + key, "w") as file:
            file.write("{\"project\":\"%s\",\"refs\":[\"%s\"],\"uri\":\"%s\",\"remote\":\"%s\"}\n" % task)'
}

make_two() { # [KEY VALUE]... of the remote
	local node
	for node in n1 n2; do
		make_node "$node" replication.distributionInterval 1s
		add_remote "$node" m "$@"
	done
}

two_nodes_share_the_work() {
	local i
	make_two threads 4
	make_500
	for i in $(seq 50); do
		hold "m/r$i"
	done
	start_site n1
	start_site n2
	wait_until 20 is_pushing n1
	wait_until 20 is_pushing n2
	let_go
	wait_until 60 store_is_empty
	[ "$(grep -c '^ref ' witness)" -eq 500 ]
	[ "$(grep '^ref ' witness | sort -u | wc -l)" -eq 500 ]
	never_two_at_once
	wait_until 10 was_logged n1 push.done
	wait_until 10 was_logged n2 push.done
	[ -z "$(letters)" ]
	stop_site n1
	stop_site n2
}

is_pushing() { # NODE, as any of them says
	at n1 push queue >queue && grep -q "running on $1 for" queue
}

# Both of the same change: the one is pushed, and the other only waits.
queue_knows_both() { # NODE
	at "$1" push queue --json | python3 -c '
import json, sys
uri, = json.load(sys.stdin)["queue"]
assert (uri["state"], uri["running"], uri["waiting"]) == ("running", 1, 1), uri'
}

one_that_starts_leaves_alone_what_another_pushes() {
	local busy=n1 other=n2
	make_two
	make_a m
	hold m/a
	start_ready n1
	start_ready n2
	write_task waiting a refs/heads/b1 "$(uri_of m/a)" m
	wait_until 10 is_held m/a
	is_pushing n1 || { busy=n2 && other=n1; }
	is_pushing "$busy"
	find store/ref-updates/running -type f -printf '%p %i %T@\n' >before
	stop_site "$other"
	add_commits git/a.git refs/heads/b1 1
	write_task waiting a refs/heads/b1 "$(uri_of m/a)" m
	start_ready "$other"
	queue_knows_both "$other"
	wait_until 10 is_older_than 3500 # it has tried by now
	find store/ref-updates/running -type f -printf '%p %i %T@\n' | diff before -
	[ "$(received m/a)" -eq 1 ]
	let_go
	wait_until 20 store_is_empty
	[ "$(received m/a)" -eq 2 ]
	has_ref m/a refs/heads/b1
	never_two_at_once
	fails was_logged "$other" push.recovered
	stop_site n1
	stop_site n2
}

# Whose child, the push, goes on without it for a moment.
what_a_killed_node_pushed_is_taken_up_by_another() {
	make_two
	make_a m
	hold m/a
	start_ready n1
	write_task waiting a refs/heads/b1 "$(uri_of m/a)" m
	wait_until 10 is_held m/a
	start_ready n2
	write_task waiting a refs/heads/b1 "$(uri_of m/a)" m # the same change again
	kill_site n1
	let_go
	wait_until 20 was_logged n2 push.recovered
	wait_until 20 store_is_empty
	has_ref m/a refs/heads/b1
	stop_site n2
}

letters_are() { # N
	count_is "$1" letters
}

refuse() { # DIR/NAME REF
	printf '#!/bin/sh\n[ "$1" != %s ]\n' "$2" >"$1.git/hooks/update"
	chmod +x "$1.git/hooks/update"
}

what_was_given_up_is_done_by_a_later_push_of_other_refs_too() {
	make_node n
	make_a m
	add_remote n m
	refuse m/a refs/heads/main
	start_ready n
	write_task waiting a 'refs/heads/main' "$(uri_of m/a)" m
	write_task waiting a 'refs/heads/b1 refs/heads/main' "$(uri_of m/a)" m
	wait_until 10 letters_are 2
	wait_until 10 has_ref m/a refs/heads/b1
	rm m/a.git/hooks/update
	write_task waiting a 'refs/heads/b2' "$(uri_of m/a)" m # has not to do with it
	wait_until 10 has_ref m/a refs/heads/b2
	wait_until 10 store_is_empty
	letters_are 2
	expect 3 at n status
	stop_site n
	start_ready n
	write_task waiting a 'refs/heads/main refs/heads/b2' "$(uri_of m/a)" m
	wait_until 10 has_ref m/a refs/heads/main
	wait_until 10 letters_are 0
	wait_until 10 eval 'at n status'
	refuse m/a refs/heads/main
	add_commits git/a.git refs/heads/main 1
	at n changed a
	wait_until 10 letters_are 1
	rm m/a.git/hooks/update
	at n push start a
	wait_until 10 has_ref m/a refs/heads/main
	wait_until 10 letters_are 0
	[ -z "$(find store/refrelay -maxdepth 1 -type f -name '[0-9a-f]*')" ]
	stop_site n
}

what_was_given_up_goes_with_its_repository() {
	make_node n
	make_a m
	make_source b
	add_remote n m replicateProjectDeletions true
	start_ready n
	remove_repository git/a.git
	write_task waiting a 'refs/heads/main' "$(uri_of m/a)" m
	wait_until 20 was_logged n push.gave_up # and so the deletion is noticed, too
	wait_until 20 test ! -e m/a.git
	wait_until 20 letters_are 0
	stop_site n
}

# It is begun anew with what it waits for, from when that came.
a_hangup_loses_nothing_of_the_queue() {
	make_node n
	make_a m1 m2 m3
	add_remote n m1 replicationDelay 3600
	add_remote n m2
	start_ready n
	hold m2/a
	add_commits git/a.git refs/heads/main 1
	at n changed a
	wait_until 10 is_held m2/a
	add_remote n m3
	kill -HUP "$(site_pid n)"
	wait_until 10 was_logged n node.reloaded
	add_commits git/a.git refs/heads/b1 1
	at n changed a
	wait_until 10 has_ref m3/a refs/heads/b1
	[ "$(received m3/a refs/heads/main)" -eq 0 ]
	wait_until 10 count_is 1 in_running # it was not disturbed, and m3 is done
	count_is 3 waiting
	let_go
	set_conf n remote.m1.replicationDelay 0
	kill -HUP "$(site_pid n)"
	wait_until 20 store_is_empty
	has_ref m1/a refs/heads/main
	has_ref m1/a refs/heads/b1
	has_ref m2/a refs/heads/main
	has_ref m2/a refs/heads/b1
	[ "$(received m1/a)" -eq 1 ]
	never_two_at_once
	stop_site n
}

tap_test "two nodes share the work" two_nodes_share_the_work
tap_test "one that starts leaves alone what another pushes" \
	one_that_starts_leaves_alone_what_another_pushes
tap_test "what a killed node pushed is taken up by another" \
	what_a_killed_node_pushed_is_taken_up_by_another
tap_test "a hangup loses nothing of the queue" a_hangup_loses_nothing_of_the_queue
tap_test "what was given up is done by a later push, of other refs, too" \
	what_was_given_up_is_done_by_a_later_push_of_other_refs_too
tap_test "what was given up goes with its repository" \
	what_was_given_up_goes_with_its_repository
tap_done
