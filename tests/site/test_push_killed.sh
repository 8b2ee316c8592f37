#!/usr/bin/env bash
# Nodes that push are killed at each step of a task's life.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"

has_all() { # NAME
	diff <(git -C "git/$1.git" for-each-ref) <(git -C "far/$1.git" for-each-ref)
}

# The store is empty, and so are the places where parts of tasks are.
all_is_done() {
	store_is_empty && has_all a && return
	echo "waiting: $(waiting), running: $(in_running)"
	return 1
}

nothing_is_left() {
	[ -z "$(in_running)" ]
	[ -z "$(letters)$(ls store/refrelay/unreadable)" ]
	[ -z "$(find store/refrelay -maxdepth 1 -type f ! -name '.*')" ]
}

make_one() {
	make_source a 2
	make_destination far/a
	: >witness
}

ask() {
	add_commits git/a.git refs/heads/main 1
	write_task waiting a refs/heads/main "$PWD/far/a.git" far
}

# It dies at POINT, and all is done after a restart.
dies_and_comes_back() { # POINT...
	local point

	make_one
	make_node home
	add_remote home far
	for point; do
		echo "$point:"
		ask
		launch_site home "REFRELAY_FAILPOINT=$point=kill"
		is_killed_within 15 home
		start_site home
		wait_until 10 all_is_done
		nothing_is_left
		stop_site home
	done
	never_two_at_once
}

# Its tasks are in running/ already when it dies a second time.
dies_while_it_recovers() {
	make_one
	make_node home
	add_remote home far
	ask
	launch_site home REFRELAY_FAILPOINT=push.claimed=kill
	is_killed_within 15 home
	[ -n "$(in_running)" ]
	launch_site home REFRELAY_FAILPOINT=push.recovered=kill
	is_killed_within 15 home
	start_site home
	wait_until 10 all_is_done
	nothing_is_left
	stop_site home
}

# One that lives on the same host takes over at once: long before a lease lapses. Its delay
# lets the other one be the first.
is_replaced() { # POINT...
	local point

	make_one
	make_node one
	make_node two
	add_remote one far
	add_remote two far replicationDelay 8
	start_site two
	for point; do
		echo "$point:"
		launch_site one "REFRELAY_FAILPOINT=$point=kill"
		wait_until 10 was_logged one node.started
		ask
		is_killed_within 10 one
		wait_until 8 all_is_done
		nothing_is_left
		: >one/log
	done
	stop_site two
	never_two_at_once
}

has_passed() { # SECONDS since $began
	[ "$SECONDS" -gt $((began + $1)) ]
}

# What another node pushes is left alone, however often it is looked at.
leaves_the_living_alone() {
	local began

	make_one
	make_node one
	make_node two replication.distributionInterval 500ms
	add_remote one far
	add_remote two far
	start_site one
	hold far/a
	ask
	wait_until 10 is_held far/a
	[ -n "$(in_running)" ]
	start_site two
	at two push start --all
	began=$SECONDS
	wait_until 10 has_passed 3
	[ "$(in_running | wc -l)" -eq 1 ]
	[ "$(received far/a)" -eq 1 ]
	let_go
	wait_until 20 all_is_done
	fails was_logged two push.recovered
	fails was_logged two lease.takeover
	nothing_is_left
	stop_site one
	stop_site two
	never_two_at_once
}

# A change is told by a hook to a node that dies at POINT before, while and after it makes
# tasks of it.
change_is_not_lost() { # POINT...
	local point

	make_one
	make_node home
	add_remote home far
	start_site home
	at home push start --all --now --wait
	at home hooks install
	stop_site home
	: >home/log # what was logged is of the node that is to die
	for point; do
		echo "$point:"
		launch_site home "REFRELAY_FAILPOINT=$point=kill"
		wait_until 10 was_logged home node.started
		push_change git/a.git || :
		is_killed_within 10 home
		# A push that died with it never says that it is over.
		wait_until 5 no_process_of_pushes
		never_two_at_once
		: >witness
		start_site home
		wait_until 10 all_is_done
		nothing_is_left
		stop_site home
		: >home/log
		never_two_at_once
	done
}

# What was given up is listed before it is: a later push that does it has to find it.
gives_up_and_dies() {
	make_one
	git -C git/a.git branch bad main
	make_node home
	add_remote home far replicationRetry 0
	start_ready home
	expect 0 at home push start --all --wait --now
	stop_site home
	git -C far/a.git update-ref -d refs/heads/bad
	cat >far/a.git/hooks/update <<-END
		#!/bin/sh
		[ "\$1" != refs/heads/bad ] || [ -e "$PWD/go" ]
	END
	chmod +x far/a.git/hooks/update
	write_task waiting a refs/heads/bad "$PWD/far/a.git" far
	launch_site home REFRELAY_FAILPOINT=push.done=kill
	is_killed_within 15 home
	[ -n "$(letters)" ]
	touch go
	start_site home
	expect 0 at home push start --all --wait --now
	wait_until 10 all_is_done
	wait_until 10 queue_says 'q["given_up"] == []'
	stop_site home
}

# A change of HEAD is told once: the next node must find what was asked for.
dies_while_it_sets_head() {
	make_one
	git -C git/a.git branch trunk main
	make_node home
	add_remote home far
	start_ready home
	expect 0 at home push start --all --wait --now
	stop_site home
	launch_site home REFRELAY_FAILPOINT=push.head=kill
	wait_until 15 eval '[ "$(logged home node.started)" -eq 2 ]'
	git -C git/a.git symbolic-ref HEAD refs/heads/trunk
	at home changed a || :
	is_killed_within 15 home
	head_is far/a.git refs/heads/main
	start_site home
	wait_until 10 head_is far/a.git refs/heads/trunk
	wait_until 10 all_is_done
	wait_until 10 eval '[ -z "$(ls store/refrelay/requests)" ]'
	nothing_is_left
	stop_site home
}

# The machine: all at once, in the middle of everything, with parts of files in building/.
all_die() {
	local node name

	make_one
	for name in b c d; do
		make_source "$name" 2
		make_destination "far/$name"
	done
	for node in one two; do
		make_node "$node"
		add_remote "$node" far threads 2
		start_site "$node"
	done
	# All are held: one that was killed while it writes a ref would leave git's lock there.
	for name in a b c d; do
		hold "far/$name"
		write_task waiting "$name" ..all.. "$PWD/far/$name.git" far
	done
	for name in a b c d; do
		wait_until 10 is_held "far/$name"
	done
	kill_site one
	kill_site two
	let_go
	: >witness
	printf '{"project":"a","re' >store/ref-updates/building/0123456789abcdef.tmp
	: >store/ref-updates/building/0123456789012345678901234567890123456789
	start_site two
	wait_until 15 store_is_empty
	for name in a b c d; do
		has_all "$name"
	done
	nothing_is_left
	stop_site two
	never_two_at_once
}

tap_test "a node is killed at each step of a push, and started again" \
	dies_and_comes_back push.claimed push.pushed push.done
tap_test "a node is killed while it takes up what it left" dies_while_it_recovers
tap_test "another node takes over from a killed one at once" \
	is_replaced push.claimed push.pushed push.done
tap_test "what a living node pushes is left alone" leaves_the_living_alone
tap_test "a node is killed while it makes tasks of a change" \
	change_is_not_lost hook.noticed sink.task task.written task.linked sink.taken \
	notice.commits notice.committed notice.seen
tap_test "a node is killed when it has given up" gives_up_and_dies
tap_test "a node is killed while it sets HEAD" dies_while_it_sets_head
tap_test "all nodes are killed at once" all_die
tap_done
