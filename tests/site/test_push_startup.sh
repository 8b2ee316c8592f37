#!/usr/bin/env bash
# replicateOnStartup: all is pushed once when a cluster starts, however many nodes it has.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"
. "$TESTS/lib/gerrit.sh"

make_cluster() {
	local node
	for node in n1 n2 n3; do
		make_gerrit_node "$node" replication.distributionInterval 1s
	done
	gerrit_remote m
	gerrit_conf gerrit.replicateOnStartup true
	make_source a
	make_source b
	make_destination m/a
	make_destination m/b
	: >witness
}

# Each by a full push, and counted by who made the tasks.
startups() {
	cat n1/log n2/log n3/log 2>/dev/null | grep -c ' ev=push.startup ' || true
}

# It is told of when its tasks are there, which may be done by then.
startups_are() { # COUNT
	[ "$(startups)" -eq "$1" ]
}

all_is_pushed() {
	same_refs git/a.git m/a.git && same_refs git/b.git m/b.git && store_is_empty
}

all_live() { # COUNT
	queue_is n1 "$1" 'len(q["nodes"])'
}

once_a_cluster() {
	local node
	make_cluster
	for node in n1 n2; do
		launch_site "$node"
	done
	wait_until 20 is_ready n1
	wait_until 20 is_ready n2
	wait_until 20 all_live 2
	wait_until 20 all_is_pushed
	wait_until 10 startups_are 1
	[ "$(received m/a)" -eq 1 ]
	[ "$(received m/b)" -eq 1 ]
	# A third, or one that comes again, finds a cluster that lives.
	git -C m/a.git update-ref -d refs/heads/main
	start_ready n3
	wait_until 20 all_live 3
	stop_site n1
	start_ready n1
	wait_until 20 all_live 3
	[ "$(startups)" -eq 1 ]
	store_is_empty
	[ -z "$(git -C m/a.git for-each-ref)" ]
	# All have stopped, in whatever way: it is a new start.
	stop_site n1
	kill_site n2
	kill_site n3
	start_ready n2
	wait_until 20 all_is_pushed
	wait_until 10 startups_are 2
	[ "$(received m/a)" -eq 2 ]
	[ "$(received m/b)" -eq 1 ]
	never_two_at_once
	stop_site n2
}

not_unless_asked_for() {
	make_cluster
	git config --file gerrit/etc/replication.config gerrit.replicateOnStartup false
	start_ready n1
	wait_until 20 all_live 1
	store_is_empty
	[ ! -s witness ]
	# A reload is no start.
	git config --file gerrit/etc/replication.config gerrit.replicateOnStartup true
	reload n1
	store_is_empty
	[ "$(startups)" -eq 0 ]
	stop_site n1
}

# Who dies on the way leaves the rest to the next.
the_next_goes_on_after_a_death() {
	make_cluster
	launch_site n1 REFRELAY_FAILPOINT=task.linked@1=kill
	is_killed_within 20 n1
	start_ready n2
	wait_until 20 all_is_pushed
	wait_until 10 startups_are 1
	never_two_at_once
	stop_site n2
}

tap_test "all is pushed once a cluster" once_a_cluster
tap_test "nothing is pushed unless asked for" not_unless_asked_for
tap_test "the next node goes on after a death" the_next_goes_on_after_a_death
tap_done
