#!/usr/bin/env bash
# Destinations that are full, refuse, are locked, or have hooks that hang: each is tried
# again or given up as it deserves, and it is said why.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"

# Its own children, which receive-pack's are where the destination is a path, ignore what
# can be ignored.
a_hook_that_hangs_is_killed_with_all_of_its_group() {
	make_node home
	add_remote home near timeout 1s replicationRetry 0
	add_remote home other
	make_source a
	make_destination near/a
	make_destination other/a
	cat >near/a.git/hooks/pre-receive <<-END
		#!/bin/sh
		trap '' TERM HUP INT PIPE
		[ ! -e "$PWD/go" ] || exit 0
		touch "$PWD/hung"
		sleep 1000 &
		wait
		sleep 1000
	END
	start_site home
	at home push start a
	wait_until 10 arrived other a
	wait_until 20 queue_says 'any(u["failures"] >= 2 for u in q["queue"])'
	queue_says 'q["queue"][0]["failure"]["code"] == "timeout"'
	touch go
	set_conf home remote.near.timeout 1m # enough for the push that is to succeed
	kill -HUP "$(site_pid home)"
	wait_until 10 was_logged home node.reloaded
	wait_until 20 arrived near a
	wait_until 5 no_process_of_pushes
	stop_site home
}

has_no_room() {
	[ "$(id -u)" -eq 0 ] || skip "only root can mount a file system of a certain size"
	make_node home
	add_remote home near replicationRetry 0
	add_remote home other
	mount -t tmpfs -o size=3m refrelay-test near 2>/dev/null ||
		skip "no tmpfs can be mounted here"
	trap 'umount -l "$TEST_DIR/near"' EXIT
	make_source a
	make_source b
	start_site home
	at home push start
	wait_until 10 arrived near a b
	add_blob a 9000000
	at home changed a
	wait_until 10 arrived other a
	wait_until 20 queue_says '[u["failures"] > 1 for u in q["queue"]] == [True]'
	queue_says 'q["queue"][0]["failure"]["code"] == "disk" and
		"space" in q["queue"][0]["failure"]["message"] and q["queue"][0]["failure"]["remedy"]'
	queue_says 'q["given_up"] == []'
	change b
	wait_until 10 arrived near b
	wait_until 10 queue_says 'len(q["queue"]) == 1'
	expect 3 at home status
	grep -q '^near is .* behind: 1 push waiting, 1 failing, .*No space left' out
	mount -o remount,size=40m near
	wait_until 20 arrived near a
	wait_until 10 queue_says 'q["queue"] == []'
	stop_site home
}

# As a hook, or a quota, may say it.
a_hook_says_that_there_is_no_room() {
	make_node home
	add_remote home near replicationRetry 0
	make_source a
	make_destination near/a
	cat >near/a.git/hooks/pre-receive <<-END
		#!/bin/sh
		[ -e "$PWD/room" ] && exit
		echo "fatal: write error: No space left on device" >&2
		exit 1
	END
	start_site home
	at home push start a
	wait_until 10 queue_says '[u["failures"] for u in q["queue"]] >= [1] or q["given_up"]'
	cat queue
	touch room
	at home push retry --remote near || true
	wait_until 10 arrived near a
	stop_site home
}

refuses_one_of_a_batch() {
	make_node home
	add_remote home near replicationRetry 0
	make_source a
	make_destination near/a
	cat >near/a.git/hooks/update <<-END
		#!/bin/sh
		[ "\$1" != refs/heads/bad ] || [ -e "$PWD/go" ] ||
			{ echo "bad is not wanted here" >&2; exit 1; }
	END
	chmod +x near/a.git/hooks/update
	start_site home
	at home push start --wait a
	: >witness
	git -C git/a.git update-ref refs/heads/bad main
	git -C git/a.git update-ref refs/heads/good main
	at home changed a
	wait_until 10 git -C near/a.git rev-parse -q --verify refs/heads/good
	wait_until 10 queue_says 'q["queue"] == [] and len(q["given_up"]) == 1'
	queue_says 'q["given_up"][0]["failure"]["code"] == "conflict"'
	queue_says '[r["ref"] for r in q["given_up"][0]["failed_refs"]] == ["refs/heads/bad"]
		and "bad is not wanted here" in q["given_up"][0]["failed_refs"][0]["text"]
		and "hook declined" in q["given_up"][0]["failed_refs"][0]["text"]'
	fails git -C near/a.git rev-parse -q --verify refs/heads/bad
	[ "$(received near/a)" -eq 1 ]
	expect 3 at home status
	grep -q 'given up' out
	touch go
	at home push retry "$(python3 -c 'import json
print(json.load(open("queue"))["given_up"][0]["key"])')"
	wait_until 10 arrived near a
	wait_until 10 queue_says 'q["queue"] == [] and q["given_up"] == []'
	expect 0 at home status
	stop_site home
}

only_bad_is_given_up() { # TEXT
	queue_says 'q["queue"] == [] and len(q["given_up"]) == 1' &&
		queue_says '[r["ref"] for r in q["given_up"][0]["failed_refs"]] == ["refs/heads/bad"]
			and "'"$1"'" in q["given_up"][0]["failed_refs"][0]["text"]' || return
	fails git -C near/a.git rev-parse -q --verify refs/heads/bad
}

all_but_bad_arrived() {
	diff <(git -C git/a.git for-each-ref | grep -v 'refs/heads/bad$') \
		<(git -C near/a.git for-each-ref)
}

make_branches() { # NUMBER
	seq "$1" | sed 's,.*,create refs/heads/b& main,' | git -C git/a.git update-ref --stdin
}

# Its hook sees all refs of a push, and refuses all.
refuses_all_for_the_sake_of_one() {
	make_node home
	add_remote home near replicationRetry 0 mirror true
	make_source a
	make_destination near/a
	cat >near/a.git/hooks/pre-receive <<-END
		#!/bin/sh
		echo "in near/a" >>"$PWD/witness"
		! grep -q ' refs/heads/bad\$' ||
			{ echo "bad is not wanted here" >&2; exit 1; }
	END
	git -C git/a.git branch old main
	start_site home
	at home push start --wait a
	make_branches 20
	git -C git/a.git update-ref refs/heads/bad main
	git -C git/a.git update-ref -d refs/heads/old
	at home changed a
	wait_until 20 only_bad_is_given_up "bad is not wanted here"
	wait_until 10 all_but_bad_arrived
	fails was_logged home push.failed
	# A later change is not held up either, nor is it by another try of all.
	change a
	wait_until 10 same_main
	at home push retry --all
	wait_until 20 is_logged 2 home push.gave_up
	wait_until 10 only_bad_is_given_up "bad is not wanted here"
	stop_site home
}

# What checks objects refuses the whole pack for one of them.
refuses_a_pack_for_one_object() {
	local commit
	make_node home
	add_remote home near replicationRetry 0
	make_source a
	make_destination near/a
	git -C near/a.git config receive.fsckObjects true
	start_site home
	at home push start --wait a
	commit=$(git -C git/a.git cat-file commit main | sed 's/^author [^<]*/author /' |
		git -C git/a.git hash-object -t commit -w --literally --stdin)
	git -C git/a.git update-ref refs/heads/bad "$commit"
	add_commits git/a.git refs/heads/good 1
	make_branches 20
	at home changed a
	wait_until 20 only_bad_is_given_up "unpacker error"
	wait_until 10 all_but_bad_arrived
	fails was_logged home push.failed
	stop_site home
}

# When it has refused eight of them alone and took none, the others are not asked for alone.
refuses_all_refs() {
	make_node home
	add_remote home near replicationRetry 60
	make_source a
	make_branches 40
	make_destination near/a
	cat >near/a.git/hooks/pre-receive <<-END
		#!/bin/sh
		echo "in near/a" >>"$PWD/witness"
		[ -e "$PWD/go" ]
	END
	start_site home
	at home push start a
	wait_until 20 queue_says 'q["queue"] == [] and len(q["given_up"][0]["failed_refs"]) == 41'
	[ "$(received near/a)" -eq 21 ] || fail "$(received near/a) pushes"
	touch go
	at home push retry --all
	wait_until 10 arrived near a
	wait_until 10 queue_says 'q["queue"] == [] and q["given_up"] == []'
	stop_site home
}

# Advice must fit: here it is this site's own spec, there the destination's setting.
says_who_forbids_force() {
	local before
	make_node home
	add_remote home near replicationRetry 0 push '+refs/*:refs/*'
	add_remote home own replicationRetry 0 push 'refs/*:refs/*'
	make_source a 2
	make_destination near/a
	make_destination own/a
	git -C near/a.git config receive.denyNonFastForwards true
	start_site home
	at home push start --wait a
	before=$(git -C git/a.git rev-parse main)
	git -C git/a.git update-ref refs/heads/main main~1
	at home changed a
	wait_until 10 queue_says 'len(q["given_up"]) == 2'
	queue_says 'all(("receive.denyNonFastForwards" in g["failure"]["remedy"]) == (g["remote"] == "near")
		and ("put a \"+\"" in g["failure"]["remedy"]) == (g["remote"] == "own")
		for g in q["given_up"])'
	[ "$(git -C near/a.git rev-parse main)" = "$before" ]
	stop_site home
}

has_a_ref_locked() {
	make_node home
	add_remote home near replicationRetry 0
	make_source a
	make_destination near/a
	start_site home
	at home push start --wait a
	touch near/a.git/refs/heads/main.lock
	git -C git/a.git update-ref refs/heads/free main
	change a
	wait_until 20 queue_says '[u["failures"] > 1 for u in q["queue"]] == [True]'
	[ "$(git -C near/a.git rev-parse refs/heads/free)" = "$(git -C git/a.git rev-parse refs/heads/free)" ]
	[ "$(received near/a refs/heads/free)" -eq 1 ]
	queue_says 'q["queue"][0]["refs"] == ["refs/heads/main"] and q["given_up"] == []'
	queue_says '"main.lock" in q["queue"][0]["failure"]["remedy"]'
	rm near/a.git/refs/heads/main.lock
	wait_until 20 arrived near a
	wait_until 10 queue_says 'q["queue"] == []'
	stop_site home
}

# All but what would delete goes on; a word of a person lets that go, too.
many_deletions_of_refs_are_held() {
	local i
	make_node home
	add_remote home near mirror true
	make_source a
	for i in {1..24}; do
		git -C git/a.git update-ref "refs/heads/old-$i" main
	done
	start_site home
	at home push start --wait a
	for i in {1..24}; do
		git -C git/a.git update-ref -d "refs/heads/old-$i"
	done
	at home changed a
	wait_until 10 queue_says 'len(q["given_up"]) == 1 and q["queue"] == []'
	queue_says 'q["given_up"][0]["failure"]["code"] == "conflict" and
		"would delete 24 of 25 refs" in q["given_up"][0]["failure"]["message"]'
	change a
	wait_until 10 same_main
	git -C near/a.git rev-parse -q --verify refs/heads/old-24
	# As the remedy says it.
	# shellcheck disable=SC2046
	at home $(sed -n 's/.*\(push retry --force [0-9a-f]*\).*/\1/p' queue | head -n 1)
	wait_until 15 arrived near a
	wait_until 10 queue_says 'q["given_up"] == [] and q["queue"] == []'
	stop_site home
}

# 24 of 25 are 96 %.
many_deletions_within_the_share_go_on() {
	local i
	make_node home
	add_remote home near mirror true
	set_conf home sync.deleteBrake 97%
	make_source a
	for i in {1..24}; do
		git -C git/a.git update-ref "refs/heads/old-$i" main
	done
	start_site home
	at home push start --wait --no-progress a
	for i in {1..24}; do
		git -C git/a.git update-ref -d "refs/heads/old-$i"
	done
	at home changed a
	wait_until 15 arrived near a
	wait_until 10 queue_says 'q["given_up"] == [] and q["queue"] == []'
	stop_site home
	expect 0 at home push list
	grep 'no node is running here' err
}

is_held_again() {
	queue_says 'len(q["given_up"]) == 1 and q["queue"] == [] and
		"would delete 24 of 25 refs" in q["given_up"][0]["failure"]["message"]'
}

# Whoever allowed it saw what was to be deleted then.
an_allowance_lasts_a_day() {
	local key file

	make_node home
	add_remote home near mirror true
	make_source a 1
	for i in {1..24}; do
		git -C git/a.git update-ref "refs/heads/old-$i" main
	done
	start_ready home
	at home push start --wait a
	for i in {1..24}; do
		git -C git/a.git update-ref -d "refs/heads/old-$i"
	done
	at home changed a
	wait_until 10 is_held_again
	stop_site home
	key=$(sed -n 's/.*push retry --force \([0-9a-f]*\).*/\1/p' queue | head -n 1)
	at home push retry --force "$key"
	fails is_held_again
	file=$(find store -name '*.force')
	queue_says 'q["queue"][0]["requests"] == ["force"]'
	touch -d '25 hours ago' "$file"
	queue_says 'q["queue"][0]["requests"] == []'
	start_ready home
	wait_until 15 is_held_again
	[ ! -e "$file" ]
	was_logged home push.permission_expired
	git -C near/a.git rev-parse -q --verify refs/heads/old-24
	stop_site home
	at home push retry --force "$key"
	touch -d '25 hours ago' "$file"
	at home push retry --force "$key"
	start_ready home
	wait_until 15 arrived near a
	wait_until 10 queue_says 'q["given_up"] == [] and q["queue"] == []'
	stop_site home
}

are_gone() { # REMOTE NAME...
	local remote=$1 name
	shift
	for name; do
		[ ! -e "$remote/$name.git" ] || return
	done
}

# As by a wrong rm, or a part of the tree that is not mounted.
many_deletions_of_repositories_are_held() {
	local name names
	make_node home sync.scanInterval 1s
	add_remote home near replicateProjectDeletions true
	names=$(echo team/{1..12})
	for name in $names other; do
		make_source "$name" 1
	done
	start_ready home
	at home push start --wait --all
	mv git/team away
	# Class, and one that is told of in the status.
	wait_until 30 queue_says '[u["state"] for u in q["queue"]] == ["held"] * 12'
	queue_says '{u["failure"]["code"] for u in q["queue"]} == {"conflict"}'
	expect 3 at home status
	grep -q 'held: 12 repositories of 13 are to be deleted at near at once' out
	fails was_logged home push.deleted
	mkdir git/team
	mv away/1.git git/team
	add_commits git/team/1.git refs/heads/main 1
	wait_until 20 arrived near team/1
	wait_until 10 queue_says '[u["state"] for u in q["queue"]] == ["held"] * 11'
	at home push retry --force --remote near
	# shellcheck disable=SC2086
	wait_until 20 are_gone near ${names#* }
	wait_until 10 queue_says 'q["queue"] == [] and q["given_up"] == []'
	arrived near team/1 other
	stop_site home
}

# Those that no worker has come to yet, too.
deletions_that_wait_are_permitted() {
	make_node home sync.scanInterval 1s
	add_remote home near replicateProjectDeletions true
	for name in $(echo team/{1..12}) other; do
		make_source "$name" 1
	done
	start_ready home
	at home push start --wait --all
	mv git/team away
	wait_until 30 queue_says '[u["requests"] for u in q["queue"]] == [["delete"]] * 12'
	at home push retry --force --remote near
	# shellcheck disable=SC2086
	wait_until 20 are_gone near $(echo team/{1..12})
	arrived near other
	stop_site home
}

same_main() {
	[ "$(git -C near/a.git rev-parse main)" = "$(git -C git/a.git rev-parse main)" ]
}

tap_test "a hook that hangs is killed with all of its group" \
	a_hook_that_hangs_is_killed_with_all_of_its_group
tap_test "many deletions of refs are held, and nothing else" many_deletions_of_refs_are_held
tap_test "they go on within the share that is set" many_deletions_within_the_share_go_on
tap_test "an allowance lasts a day" an_allowance_lasts_a_day
tap_test "many deletions of repositories are held" many_deletions_of_repositories_are_held
tap_test "deletions that wait are permitted before they are held" deletions_that_wait_are_permitted
tap_test "one that is full is tried again" has_no_room
tap_test "a hook says that there is no room" a_hook_says_that_there_is_no_room
tap_test "one that refuses a ref gets the others" refuses_one_of_a_batch
tap_test "one that refuses all refs for the sake of one gets the others" \
	refuses_all_for_the_sake_of_one
tap_test "one that refuses all refs is not asked for each at once" refuses_all_refs
tap_test "one that refuses a pack for one object gets the others" \
	refuses_a_pack_for_one_object
tap_test "one that has a ref locked gets the others, and it later" has_a_ref_locked
tap_test "it is said who forbids force" says_who_forbids_force
tap_done
