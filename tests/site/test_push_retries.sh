#!/usr/bin/env bash
# How often a push is tried, and what becomes of a configuration that is changed meanwhile.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"
. "$TESTS/lib/gerrit.sh"

# An ssh that tells ./attempts, and never gets anywhere.
make_unreachable() { # [KEY VALUE]... of the remote
	make_gerrit_node home
	gerrit_remote far url "ssh://git@nowhere.example/srv/\${name}.git" \
		replicationRetry 0 "$@"
	: >attempts
	cat >ssh_config <<-END
		Host *
			ProxyCommand sh -c 'echo once >>$PWD/attempts'
	END
	set_conf home replication.sshConfig "$PWD/ssh_config"
	make_source a 1
}

what_cannot_be_reached_is_tried_as_often_as_allowed() {
	make_unreachable replicationMaxRetries 1
	start_ready home
	expect 1 at home push start --wait a
	grep -q 'FAILED!' out
	[ "$(wc -l <attempts)" -eq 2 ]
	wait_until 10 is_logged 1 home push.failed
	wait_until 10 is_logged 1 home push.gave_up
	wait_until 10 was_logged home push.gave_up level=error
	wait_until 10 store_is_empty
	[ "$(letters | wc -l)" -eq 1 ]
	queue_is home "['network']" '[l["failure"]["code"] for l in q["given_up"]]'
	# With a new change it is given up as often again, and stands there once.
	expect 1 at home push start --wait a
	[ "$(wc -l <attempts)" -eq 4 ]
	store_is_empty
	[ "$(letters | wc -l)" -eq 1 ]
	stop_site home
}

lock_there() {
	touch "$1/refs/heads/main.lock"
}

a_lock_there_is_tried_as_often_as_allowed() {
	make_gerrit_node home
	gerrit_remote m replicationRetry 0 threads 2
	gerrit_conf replication.updateRefErrorMaxRetries 0
	make_source a
	make_source b
	make_destination m/a
	make_destination m/b
	lock_there m/a.git
	start_ready home
	expect 1 at home push start --wait a
	[ "$(received m/a)" -eq 1 ]
	store_is_empty
	[ "$(letters | wc -l)" -eq 1 ]
	git config --file gerrit/etc/replication.config \
		replication.updateRefErrorMaxRetries 3
	reload home
	lock_there m/b.git
	at home push start b
	wait_until 20 was_logged home push.failed 'main.lock in that repository'
	rm m/b.git/refs/heads/main.lock
	wait_until 20 store_is_empty
	same_refs git/b.git m/b.git
	[ "$(received m/b)" -le 4 ]
	# What was given up can be retried.
	rm m/a.git/refs/heads/main.lock
	at home push retry --all
	wait_until 20 same_refs git/a.git m/a.git
	wait_until 20 queue_is home 0 'len(q["given_up"]) + len(q["queue"])'
	stop_site home
}

# One wrong line; the log names it, and all goes on as before.
an_edit_is_obeyed_and_a_wrong_one_is_not() {
	make_gerrit_node home
	gerrit_remote slow replicationDelay 3600
	make_source a
	start_ready home
	at home hooks install --all
	at home push start a
	gerrit_remote fast
	reload home
	queue_is home "['slow']" '[u["remote"] for u in q["queue"]]'
	add_commits git/a.git refs/heads/main 1
	at home changed a
	wait_until 20 same_refs git/a.git fast/a.git
	wait_until 20 count_is 2 waiting
	cp gerrit/etc/replication.config good
	gerrit_conf remote.broken.url "$PWD/without-a-name.git"
	reload home node.reload_failed
	wait_until 10 was_logged home node.reload_failed 'replication.config.* the URL lacks'
	gerrit_conf remote.fast.timeout nonsense
	reload home node.reload_failed
	push_change git/a.git
	wait_until 20 same_refs git/a.git fast/a.git
	[ "$(logged home node.reload_failed)" -eq 2 ]
	cp good gerrit/etc/replication.config
	git config --file gerrit/etc/replication.config remote.slow.replicationDelay 0
	reload home
	wait_until 20 same_refs git/a.git slow/a.git
	wait_until 20 store_is_empty
	stop_site home
}

is_started() { # COUNT ARGUMENT...
	local count=$1
	shift
	at home push discard --all --remote m1 --remote m2 >discarded
	at home push start "$@" 2>err
	[ "$(waiting | wc -l)" -eq "$count" ]
}

start_means_what_it_means_to_gerrit() {
	make_gerrit_node home
	gerrit_remote m1 url "ssh://u@one.example/x/\${name}.git"
	gerrit_remote m2 url "https://u:sesame@two.example/y/\${name}.git"
	make_source 'a b'
	make_source c
	mkdir -p store/ref-updates
	at home push start 2>err
	is_started 2 --url "ssh://u@one.example/x/\${name}.git"
	is_started 1 --url 'x/c.git'
	is_started 1 --url 'y/a%20b.git'
	is_started 2 --url two.example
	is_started 4 --remote m1 --remote m2
	is_started 4 --all
	is_started 2 'a*'
	is_started 2 '^.$'
	expect 4 at home push start --remote unknown
	expect 2 at home push start --all c
	fails grep -r sesame store home
}

# Whoever has done it; or nobody, any more.
waiting_ends_by_another_node() {
	make_gerrit_node home
	make_gerrit_node other
	gerrit_remote m
	gerrit_remote n replicationMaxRetries 1 replicationRetry 0
	make_source a 1
	make_destination m/a
	make_destination n/a
	printf '#!/bin/sh\nexit 1\n' >n/a.git/hooks/pre-receive
	hold m/a
	start_ready other
	at home push start --wait a >out 2>&1 &
	local waiting=$! status=0
	wait_until 20 is_held m/a
	wait_until 20 queue_is home "['other']" '[u["node"] for u in q["queue"]]'
	let_go
	wait "$waiting" || status=$?
	cat out
	[ "$status" -eq 3 ]
	grep -q "m/a.git, Succeeded! (OK)" out
	grep -q "n/a.git, FAILED! (" out
	stop_site other
}

tap_test "what cannot be reached is tried as often as allowed" \
	what_cannot_be_reached_is_tried_as_often_as_allowed
tap_test "a lock there is tried as often as allowed" a_lock_there_is_tried_as_often_as_allowed
tap_test "an edit is obeyed, and a wrong one is not" an_edit_is_obeyed_and_a_wrong_one_is_not
tap_test "start means what it means to Gerrit" start_means_what_it_means_to_gerrit
tap_test "waiting ends by another node" waiting_ends_by_another_node
tap_done
