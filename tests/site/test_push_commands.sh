#!/usr/bin/env bash
# `refrelay push` as people use it: on the store alone, and with a node at work.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

# ./home pushes to ./m1 and ./m2.
make_home() { # REPOSITORY...
	local name
	mkdir -p home/git m1 m2
	set_conf home site.name home
	set_conf home site.role standalone
	set_conf home site.repositories "$PWD/home/git"
	set_conf home site.data "$PWD/home/data"
	set_conf home http.listen "127.0.0.1:$(free_port)"
	set_conf home sync.scanInterval 1h
	set_conf home replication.randomDelay 0
	for name in m1 m2; do
		set_conf home "remote.$name.url" "$PWD/$name/\${name}.git"
		set_conf home "remote.$name.replicationDelay" 0
	done
	for name; do
		make_repository "home/git/$name.git" 2
	done
}

queue() { # PYTHON-EXPRESSION of q
	at home push queue --json | python3 -c '
import json, sys
q = json.load(sys.stdin)
print(eval(sys.argv[1]))' "$1"
}

queue_is() { # VALUE PYTHON-EXPRESSION
	local value
	value=$(queue "$2") && [ "$value" = "$1" ] && return
	echo "$2 is $value, not $1"
	return 1
}

uri_key() { # URI
	printf %s "$1" | sha1sum | cut -c 1-10
}

# A destination that takes nothing until ./go is there.
hold_destination() { # REPOSITORY
	git init -q --bare "$1"
	cat >"$1/hooks/pre-receive" <<-EOF
		#!/bin/sh
		touch "$PWD/held"
		while [ ! -e "$PWD/go" ]; do sleep 0.05; done
	EOF
	chmod +x "$1/hooks/pre-receive"
}

refuse() { # REPOSITORY
	[ -d "$1" ] || git init -q --bare "$1"
	printf '#!/bin/sh\necho no room for you >&2\nexit 1\n' >"$1/hooks/pre-receive"
	chmod +x "$1/hooks/pre-receive"
}

what_is_started_without_a_node_waits() {
	make_home a b
	expect 0 at home check
	grep -q '^ok     tasks  ' out
	at home push start 2>err
	grep -q 'no node of the cluster is running' err
	queue_is 4 'len(q["queue"])'
	queue_is "['..all..']" 'q["queue"][0]["refs"]'
	at home push start # nothing twice
	queue_is 4 'len(q["queue"])'
	expect 3 at home status
	grep -q '; m[12] is .* behind: 2 pushes waiting; ' out
	at home push list --detail >list
	[ "$(grep -c '^Pending: 2$' list)" -eq 2 ]
	grep -q '^Push: refs/\*:refs/\*$' list
	start_site home
	wait_until 20 queue_is 0 'len(q["queue"])'
	same_refs home/git/a.git m1/a.git
	same_refs home/git/b.git m2/b.git
	wait_until 20 at home status
	expect 0 at home status
	grep -q '^everything is pushed to 2 remotes; 2 repositories$' out
	stop_site home
	a_store_that_cannot_be_written_is_told
}

a_store_that_cannot_be_written_is_told() {
	local store=home/data/replication
	expect 0 at home check
	grep -q '^ok     tasks  ' out
	# Root may write everything but this.
	mv "$store/refrelay/discarded" "$store/away"
	: >"$store/refrelay/discarded"
	expect 1 at home check
	grep -q "^FAIL   tasks .*/refrelay/discarded cannot be written" out
	rm "$store/refrelay/discarded"
	mv "$store/away" "$store/refrelay/discarded"
	expect 0 at home check
}

same_refs() { # REPOSITORY REPOSITORY
	diff <(git -C "$1" for-each-ref) <(git -C "$2" for-each-ref)
}

started() { # COUNT ARGUMENT...
	local count=$1
	shift
	at home push discard --all --remote m1 --remote m2 >/dev/null
	at home push start "$@" 2>/dev/null
	queue_is "$count" 'len(q["queue"])'
}

start_takes_patterns_remotes_and_urls() {
	make_home a b/c b/d
	started 2 a
	started 4 'b/*'
	started 4 '^b/[cd]'
	started 6 --all
	started 6
	started 3 --remote m1
	started 6 --remote m1 --remote m2
	started 3 --url "$PWD/m2/"
	started 1 --url "m2/b/c.git"
	started 3 --url "m1/\${name}.git"
	started 6 --url '*'
	expect 4 at home push start --remote m3
	grep -q 'no such remote: "m3"' err
	expect 4 at home push queue --remote m3
	expect 4 at home push retry --remote m3
	expect 4 at home push discard --all --remote m1 --remote m3
	grep -q 'no such remote: "m3"' err
	expect 4 at home push start nobody
	grep -q 'Nothing to replicate: no repository of this name: nobody' err
	expect 2 at home push start --all a
	expect 2 at home push start '^('
	expect 2 at home push start --timeout 5s a
	expect 2 at home push start --failed
	expect 2 at home push queue a
	expect 2 at home push discard --all
	expect 2 at home push discard
	expect 2 at home push retry
	expect 2 at home push
	expect 4 at home push list --remote m3
	grep -q 'no remote.s name contains "m3"' err
	expect 4 at home push retry 0123456789
	grep -q '6 digits' err
	set_conf home remote.m1.url "https://user:sesame@h/\${name}.git"
	at home push list --json --detail >list
	fails grep sesame list
	at home push list --detail >list
	fails grep sesame list
}

waiting_tells_of_success_and_failure() {
	make_home a b
	set_conf home replication.maxRetries 1
	set_conf home remote.m2.replicationRetry 0
	refuse m2/a.git
	start_site home
	expect 0 at home push start --wait --remote m1
	[ "$(grep -c ', Succeeded! (OK)$' out)" -eq 2 ]
	expect 3 at home push start --wait
	grep -q "^Replicate a refs ..all.. to $PWD/m2/a.git, FAILED! (" out
	grep -q '1 of 4 failed' out
	expect 1 at home push start --wait --now --remote m2 a
	# What was given up is kept with its reason, and is done once it can be.
	queue_is a 'q["given_up"][0]["project"]'
	expect 0 at home push discard --dry-run "$(uri_key "$PWD/m2/a.git")"
	grep -q '^would discard 1 entry$' out
	at home push queue --failed | grep -q 'given up'
	expect 3 at home status
	grep -q '1 push was given up, e.g. a: ' out
	rm m2/a.git/hooks/pre-receive
	at home push retry "$(queue 'q["given_up"][0]["key"][:10]')"
	wait_until 10 same_refs home/git/a.git m2/a.git
	wait_until 10 queue_is 0 'len(q["given_up"]) + len(q["queue"])'
	# The failure is older than this.
	expect 0 at home push start --wait
	stop_site home
}

# Of two refs one is locked there for a while.
waiting_follows_what_is_left_of_a_push() {
	local waiter
	make_home a
	git -C home/git/a.git branch b1 main
	git init -q --bare m1/a.git
	touch m1/a.git/refs/heads/b1.lock
	set_conf home remote.m1.replicationRetry 0
	start_site home
	"$REFRELAY" -c home/refrelay.conf push start --wait --remote m1 >waited 2>&1 &
	waiter=$!
	wait_until 20 was_logged home push.failed 'failures=2 '
	queue_is "['refs/heads/b1']" 'q["queue"][0]["refs"]'
	kill -0 "$waiter"
	rm m1/a.git/refs/heads/b1.lock
	wait "$waiter"
	grep -q "^Replicate a refs ..all.. to $PWD/m1/a.git, Succeeded! (OK)$" waited
	same_refs home/git/a.git m1/a.git
	# One ref is refused for good, the other is locked at first.
	printf '#!/bin/sh\n[ "$1" != refs/heads/main ]\n' >m1/a.git/hooks/update
	chmod +x m1/a.git/hooks/update
	add_commits home/git/a.git refs/heads/main 1
	add_commits home/git/a.git refs/heads/b1 1
	touch m1/a.git/refs/heads/b1.lock
	"$REFRELAY" -c home/refrelay.conf push start --wait --remote m1 >waited 2>&1 &
	waiter=$!
	wait_until 20 queue_is "['refs/heads/b1']" 'q["queue"][0]["refs"]'
	rm m1/a.git/refs/heads/b1.lock
	fails wait "$waiter"
	grep -q 'FAILED! (.*refs/heads/main was refused' waited
	[ "$(git -C home/git/a.git rev-parse b1)" = "$(git -C m1/a.git rev-parse b1)" ]
	stop_site home
}

waits_for_a_commit() {
	local commit waiter
	make_home a b c
	git -C home/git/c.git symbolic-ref HEAD refs/meta/config
	set_conf home remote.m2.replicatePermissions false
	git init -q --bare m1/a.git
	start_site home
	commit=$(git -C home/git/a.git rev-parse main)
	# Nothing was pushed yet, and nothing is asked for.
	expect 0 at home push wait "$commit" --remote m1 --timeout 30s
	grep -q "^Replicate a refs refs/heads/main to $PWD/m1/a.git, Succeeded! (OK)$" out
	git -C m1/a.git merge-base --is-ancestor "$commit" main
	# It is there, also as an older commit; b has another history.
	expect 0 at home push wait "$(git -C home/git/a.git rev-parse --short=10 main~1)" \
		--repository a --remote m1 --timeout 30s
	expect 4 at home push wait "$commit" --repository b --remote m1
	expect 4 at home push wait 0123456789012345678901234567890123456789 --remote m1
	grep -q 'no such commit here: 0123456789012345678901234567890123456789' err
	# Nor does one that cannot be looked into keep the others from it; but it may have it.
	git init -q --bare home/git/0.git
	echo nonsense >home/git/0.git/HEAD
	expect 3 at home push wait "$commit" --remote m1 --timeout 30s
	grep -q '^refrelay: 0: ' err
	grep -q 'Succeeded! (OK)' out
	expect 0 at home push wait "$commit" --repository a --remote m1 --timeout 30s
	expect 3 at home push wait 0123456789012345678901234567890123456789 --remote m1
	grep -q '^refrelay: 0: ' err
	fails grep 'no such commit here' err
	git -C home/git/a.git update-ref refs/meta/x "$(git -C home/git/a.git \
		commit-tree -m x main^{tree})"
	set_conf home remote.m2.push 'refs/heads/*:refs/heads/*'
	expect 3 at home push wait "$(git -C home/git/a.git rev-parse refs/meta/x)" --remote m2
	rm -r home/git/0.git
	expect 4 at home push wait "$(git -C home/git/a.git rev-parse refs/meta/x)" --remote m2
	grep -q 'is not on a ref that the remote pushes' err
	# It is not pushed there, as is set: which is no failure, but it does not come there.
	expect 1 at home push wait "$(git -C home/git/c.git rev-parse main)" --remote m2 --timeout 30s
	grep -q ', FAILED! (its HEAD is refs/meta/config, ' out
	expect 0 at home push start --wait --remote m2 c
	grep -q ', Succeeded! (its HEAD is refs/meta/config, ' out
	[ ! -e m2/c.git ]
	expect 4 at home push wait "$commit" --remote m3
	expect 2 at home push wait main --remote m1
	expect 2 at home push wait "$commit"
	# While it cannot be pushed, and then no more.
	refuse m1/a.git
	add_commits home/git/a.git refs/heads/main 1
	commit=$(git -C home/git/a.git rev-parse main)
	expect 1 at home push wait "$commit" --remote m1 --timeout 30s
	grep -q 'FAILED! (.*was refused' out
	rm m1/a.git/hooks/pre-receive
	touch m1/a.git/refs/heads/main.lock
	expect 1 at home push wait "$commit" --remote m1 --timeout 1s
	grep -q 'timed out; ' out
	rm m1/a.git/refs/heads/main.lock
	at home push retry --all
	expect 0 at home push wait "$commit" --remote m1 --timeout 30s
	# Of what waits for its delay, the delay counts.
	set_conf home remote.m2.replicationDelay 3600
	kill -HUP "$(site_pid home)"
	wait_until 20 was_logged home node.reloaded
	at home push start --remote m2 a
	expect 1 at home push wait "$commit" --remote m2 --timeout 1s
	[ ! -e m2/a.git ]
	"$REFRELAY" -c home/refrelay.conf push wait "$commit" --remote m2 &
	waiter=$!
	wait_until 10 interrupt "$waiter"
	wait "$waiter" || [ $? -eq 130 ]
	stop_site home
}

# Until it has ended: the first may come before it listens.
interrupt() { # PID
	! kill -INT "$1" 2>/dev/null
}

waiting_ends_in_time_by_hand_or_by_another() {
	make_home a
	expect 1 at home push start --wait --timeout 1s --remote m1
	grep -q 'FAILED! (timed out; still waiting' out
	# Interrupted, it leaves the task.
	"$REFRELAY" -c home/refrelay.conf push start --wait a >out 2>&1 &
	local waiting=$!
	wait_until 10 queue_is 2 'len(q["queue"])'
	wait_until 10 grep -q 'no node' out
	wait_until 10 interrupt "$waiting"
	local status=0
	wait "$waiting" || status=$?
	[ "$status" -eq 130 ]
	queue_is 2 'len(q["queue"])'
	# Discarded, it has not succeeded.
	rm out # or what the last one said is read
	at home push start --wait a >out 2>&1 &
	waiting=$!
	wait_until 10 grep -q 'no node' out
	at home push discard --all --remote m1 >discarded
	grep -q '^discarded 1 entry$' discarded
	start_site home # does the other one
	status=0
	wait "$waiting" || status=$?
	cat out
	[ "$status" -eq 3 ]
	grep -q "m1/a.git, FAILED! (discarded)" out
	grep -q "m2/a.git, Succeeded! (OK)" out
	# The next push takes the mark away.
	expect 0 at home push start --wait a
	stop_site home
}

# The key of the waiting task of a ref.
key_of_task() { # REF
	local path
	path=$(grep -lF "\"refs\":[\"$1\"]" home/data/replication/ref-updates/waiting/*) &&
		echo "${path##*/}"
}

# While another task of the destination waits, which fails as ours did.
what_is_discarded_after_a_failure_was_not_done() {
	local commit status waiter
	make_home a
	set_conf home remote.m2.projects nothing
	set_conf home remote.m1.replicationRetry 60
	set_conf home remote.m1.url "git://127.0.0.1:1/\${name}.git"
	start_site home
	wait_until 20 was_logged home watch.scanned
	git -C home/git/a.git update-ref refs/heads/c main
	at home changed a
	wait_until 20 key_of_task refs/heads/c
	wait_until 20 queue_is 1 'q["queue"][0]["failures"]'

	commit=$(git -C home/git/a.git commit-tree -p main -m b main^{tree})
	git -C home/git/a.git update-ref refs/heads/b "$commit" # of which no hook tells
	at home push wait "$commit" --remote m1 >out 2>&1 &
	waiter=$!
	wait_until 20 key_of_task refs/heads/b
	at home push retry --remote m1
	wait_until 20 queue_is 2 'q["queue"][0]["failures"]'
	wait_until 20 key_of_task refs/heads/b
	at home push discard "$(key_of_task refs/heads/b)"
	status=0
	wait "$waiter" || status=$?
	cat out
	[ "$status" -eq 1 ]
	grep -q 'refs/heads/b to .*, FAILED! (discarded)' out

	at home push start --wait a >out 2>&1 &
	waiter=$!
	wait_until 20 key_of_task ..all..
	at home push retry --remote m1
	wait_until 20 queue_is 3 'q["queue"][0]["failures"]'
	wait_until 20 key_of_task ..all..
	at home push discard "$(key_of_task ..all..)"
	key_of_task refs/heads/c
	status=0
	wait "$waiter" || status=$?
	cat out
	[ "$status" -eq 1 ]
	grep -q '\.\.all\.\. to .*, FAILED! (discarded)' out
	stop_site home
}

# Between two looks of the command that waits, which is stopped for that.
what_was_discarded_and_added_again_is_waited_for() {
	local key waiter
	make_home a
	set_conf home remote.m2.projects nothing
	hold_destination m1/a.git
	start_site home
	at home push start a
	wait_until 20 test -e held
	"$REFRELAY" -c home/refrelay.conf push start --wait a >out 2>&1 &
	waiter=$!
	wait_until 20 key_of_task ..all..
	key=$(key_of_task ..all..)
	sleep 1 # its first look
	kill -STOP "$waiter"
	at home push discard "$key"
	fails key_of_task ..all..
	at home push start a
	kill -CONT "$waiter"
	sleep 6 # longer than it rests between two looks, however long those take
	touch go
	wait "$waiter" || fail "$(<out)"
	grep -q '\.\.all\.\. to .*, Succeeded! (OK)' out
	stop_site home
}

# While another push of the destination runs; and once that one was added again, and done.
what_is_discarded_during_a_push_was_not_done() {
	local commit status waiter
	make_home a
	set_conf home remote.m2.projects nothing
	hold_destination m1/a.git
	start_site home
	at home push start a
	wait_until 20 test -e held
	commit=$(git -C home/git/a.git commit-tree -p main -m b main^{tree})
	git -C home/git/a.git update-ref refs/heads/b "$commit" # of which no hook tells
	at home push wait "$commit" --remote m1 >out 2>&1 &
	waiter=$!
	wait_until 20 key_of_task refs/heads/b
	at home push discard "$(key_of_task refs/heads/b)"
	touch go
	status=0
	wait "$waiter" || status=$?
	cat out
	[ "$status" -eq 1 ]
	grep -q 'refs/heads/b to .*, FAILED! (discarded)' out
	expect 0 at home push wait "$commit" --remote m1
	same_refs home/git/a.git m1/a.git
	stop_site home
}

what_is_being_pushed_is_left_alone() {
	local key
	make_home a
	set_conf home remote.m2.projects nothing
	hold_destination m1/a.git
	start_site home
	at home push start a
	wait_until 20 test -e held
	queue_is running 'q["queue"][0]["state"]'
	queue_is home 'q["queue"][0]["node"]'
	at home push queue | grep -q 'running on home for '
	at home push list --detail | grep -q 'push .*/m1/a.git \[..all..\] on home'
	key=$(queue 'q["queue"][0]["key"]')
	expect 5 at home push retry "$key"
	grep -q 'is being pushed' err
	fails grep lease err
	expect 5 at home push discard "$key"
	expect 3 at home status
	grep -qE '^  m1 +[0-9.]+ m?s +0 +1 ' out
	touch go
	wait_until 20 queue_is 0 'len(q["queue"])'
	same_refs home/git/a.git m1/a.git
	stop_site home
}

retry_does_not_wait_for_the_next_try() {
	make_home a
	set_conf home remote.m2.projects nothing
	set_conf home remote.m1.replicationRetry 60
	set_conf home remote.m1.url "git://127.0.0.1:1/\${name}.git"
	start_site home
	at home push start a
	wait_until 20 queue_is failing 'q["queue"][0]["state"]'
	queue_is 1 'q["queue"][0]["failures"]'
	at home push queue | grep -q '^  failed 1 time: network: '
	queue_is True 'q["queue"][0]["failing_since"] > q["queue"][0]["since"]'
	at home push retry --remote m1
	wait_until 20 queue_is 2 'q["queue"][0]["failures"]'
	stop_site home
}

retry_does_not_wait_for_the_delay() {
	make_home a
	set_conf home remote.m1.replicationDelay 3600
	set_conf home remote.m2.projects nothing
	start_site home
	at home push start a
	queue_is waiting 'q["queue"][0]["state"]'
	at home push retry --all
	wait_until 20 queue_is 0 'len(q["queue"])'
	same_refs home/git/a.git m1/a.git
	stop_site home
}

tasks_of_no_remote_are_shown_and_can_be_dropped() {
	make_home a
	# Its repositories are nobody's copies.
	expect 2 at home repository list
	grep -q 'a standalone site replicates nothing' err
	expect 2 at home repository show a
	at home push start 2>/dev/null
	# The URL counts, not the name.
	git config --file home/refrelay.conf --rename-section remote.m2 remote.m3
	queue_is "[('m1', 'waiting'), ('m3', 'waiting')]" \
		'sorted((u["remote"], u["state"]) for u in q["queue"])'
	at home push discard --orphans | grep -q '^discarded 0 entries$'
	git config --file home/refrelay.conf --remove-section remote.m3
	queue_is "['orphan', 'waiting']" 'sorted(u["state"] for u in q["queue"])'
	at home check >check || true
	grep -q '^note   tasks  .* without a remote, e.g. ' check
	expect 3 at home status
	grep -q '1 destination is no longer in any remote' out
	expect 0 at home push queue --remote m2
	expect 1 at home push retry "$(uri_key "$PWD/m2/a.git")"
	grep -q 'no remote pushes a to .*/m2/a.git any more' err
	grep -q '^retried 0 entries$' out
	expect 1 at home push retry "$(uri_key "$PWD/m2/a.git")" 0123456789
	grep -q 'no such key: 0123456789' err
	expect 4 at home push retry 0123456789
	at home push discard --orphans --dry-run >list
	grep -q 'would be discarded' list
	grep -q '^would discard 1 entry$' list
	queue_is 2 'len(q["queue"])'
	at home push discard --orphans | grep -q '^discarded 1 entry$'
	queue_is "['waiting']" '[u["state"] for u in q["queue"]]'
}

check_explains_and_finds_collisions() {
	make_home a/x b/x
	expect 0 at home check
	grep -q '^ok     remote        m1: 2 repositories, refs refs/\*:refs/\*: a/x to ' out
	set_conf home remote.m2.remoteNameStyle basenameOnly
	expect 1 at home check
	grep -q '^FAIL   remote        a/x and b/x by m2 would be pushed to the same place' out
	set_conf home remote.m2.remoteNameStyle slash
	set_conf home remote.m2.authGroup Developers
	git config --file home/refrelay.conf --add remote.m2.authGroup Administrators
	set_conf home remote.m2.url "https://h/\${name}.git"
	expect 0 at home check
	[ "$(grep -c authGroup out)" -eq 1 ]
	grep -q '^note   remote  .*m2: only refs are pushed to https://h/.*remote.m2.adminUrl' out
	set_conf home remote.m2.adminUrl "ssh://h/srv/\${name}.git"
	expect 0 at home check
	fails grep 'only refs' out
	set_conf home remote.m2.threads 1025
	expect 1 at home check
	[ "$(grep -c 'a number from 1 to 1024' out)" -eq 1 ]
}

nothing_was_ever_there() {
	make_home
	expect 0 at home check
	expect 4 at home push start --all
}

leftovers_are_told() {
	expect 3 at home status
	grep -q '^2 destinations are no longer in any remote (see refrelay push discard --orphans); ' out
	curl -sS "$(site_url home)/api/v1/status" >said
	grep -q '"orphans":2' said
}

no_remote_is_said() {
	make_home a
	at home push start 2>/dev/null
	git config --file home/refrelay.conf --remove-section remote.m1
	git config --file home/refrelay.conf --remove-section remote.m2
	expect 1 at home check
	grep -q '^FAIL   push  .*has no remote' out
	expect 2 at home push start
	expect 0 at home push list
	queue_is 2 'len(q["queue"])'
	start_site home
	leftovers_are_told
	stop_site home
	mv home/refrelay.conf conf
	cp conf home/refrelay.conf
	git config --file home/refrelay.conf --remove-section replication
	start_site home
	leftovers_are_told
	stop_site home
	mv conf home/refrelay.conf
	expect 0 at home push discard --orphans
	queue_is 0 'len(q["queue"])'
	start_site home
	wait_until 20 at home status
	expect 0 at home status
	fails grep -q destination out
	wait_until 10 grep -q 'ev=push.no_remote .*remedy=' home/log
	metric_is 0
	curl -sS -m 5 "$(site_url home)/api/v1/repositories/a" | grep -q WRONG_ROLE
	set_conf home http.anonymousRead maybe
	kill -HUP "$(site_pid home)"
	wait_until 10 metric_is 1
	grep -q 'ev=node.reload_failed .*remedy=' home/log
	stop_site home
}

metric_is() { # VALUE of refrelay_configuration_failed
	curl -fsS -m 5 -o metrics "$(site_url home)/metrics" &&
		grep -qx "refrelay_configuration_failed $1" metrics
}

# Before a node has seen them, and after.
what_is_no_task_can_be_removed() {
	make_home a
	expect 0 at home push queue
	mkdir -p home/data/replication/ref-updates/waiting
	chmod 700 home/data
	echo nonsense >home/data/replication/ref-updates/waiting/0123456789012345678901234567890123456789
	expect 0 at home push queue
	grep -q '^1 unreadable file, .*/waiting/0123' out
	expect 0 at home check
	grep -q '^note   tasks  .*1 file is no task or cannot be read, .*discard --unreadable' out
	start_site home
	wait_until 10 is_set_aside
	queue_is 1 'q["unreadable"]'
	stop_site home
	echo more >home/data/replication/ref-updates/waiting/nonsense
	expect 0 at home push discard --unreadable --dry-run
	grep -qx 'would discard 2 files' out
	expect 2 at home push discard --unreadable --orphans
	expect 0 at home push discard --unreadable
	grep -qx 'discarded 2 files' out
	queue_is 0 'q["unreadable"]'
}

is_set_aside() {
	at home push queue | grep -q '^1 unreadable file, .*/unreadable/0123'
}

# A hook's word is in no queue until a node has read it.
what_hooks_told_without_a_node_is_shown() {
	make_home a b
	git init -q --bare m1/a.git
	git init -q --bare m2/a.git
	start_site home
	stop_site home
	at home hooks install
	queue_is 0 'q["spooled"]'
	at home push queue >out
	fails grep -q 'reported by hooks' out
	git clone -q home/git/a.git work
	git -C work commit -q --allow-empty -m more
	git -C work push -q origin HEAD:refs/heads/more
	at home push queue >out
	grep -qx '0 running, 0 waiting, 0 of them failing; 0 given up' out
	grep -q '^[0-9]* changes reported by hooks wait for the node of this site' out
	fails queue_is 0 'q["spooled"]'
	start_site home
	wait_until 20 queue_is 0 'q["spooled"]'
	wait_until 20 git -C m1/a.git rev-parse -q --verify refs/heads/more
}

tap_test "what hooks told without a node is shown" what_hooks_told_without_a_node_is_shown
tap_test "what is started without a node waits for one" what_is_started_without_a_node_waits
tap_test "start takes patterns, remotes and URLs" start_takes_patterns_remotes_and_urls
tap_test "waiting tells of success and failure" waiting_tells_of_success_and_failure
tap_test "waiting follows what is left of a push" waiting_follows_what_is_left_of_a_push
tap_test "a commit can be waited for" waits_for_a_commit
tap_test "waiting ends in time, by hand, or by what another does" \
	waiting_ends_in_time_by_hand_or_by_another
tap_test "what is discarded after a failure was not done" \
	what_is_discarded_after_a_failure_was_not_done
tap_test "what was discarded and added again is waited for" \
	what_was_discarded_and_added_again_is_waited_for
tap_test "what is discarded during a push was not done" \
	what_is_discarded_during_a_push_was_not_done
tap_test "what is being pushed is left alone" what_is_being_pushed_is_left_alone
tap_test "retry does not wait for the next try" retry_does_not_wait_for_the_next_try
tap_test "retry does not wait for the delay" retry_does_not_wait_for_the_delay
tap_test "tasks of no remote are shown, and can be dropped" \
	tasks_of_no_remote_are_shown_and_can_be_dropped
tap_test "check explains remotes, and finds collisions" check_explains_and_finds_collisions
tap_test "a new site without repositories has no fault" nothing_was_ever_there
tap_test "that there is no remote is said" no_remote_is_said
tap_test "what is no task can be removed" what_is_no_task_can_be_removed
tap_done
