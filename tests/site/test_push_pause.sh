#!/usr/bin/env bash
# A node that pushes is stopped for longer than it has a lease, or its clock is wrong.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"

# A process and all below it, the parents first.
tree_of() { # PID
	local child

	echo "$1"
	for child in $(ps -o pid= --ppid "$1"); do
		tree_of "$child"
	done
}

are_gone() { # PID...
	local pid

	for pid; do
		is_dead "$pid" || {
			ps -o pid,ppid,stat,args -p "$pid"
			return 1
		}
	done
}

far_is() { # COMMIT
	[ "$(git -C far/a.git rev-parse refs/heads/main)" = "$1" ]
}

source_is() {
	git -C git/a.git rev-parse refs/heads/main
}

ask() {
	write_task waiting a refs/heads/main "$PWD/far/a.git" far
}

# Another history, of N commits, that needs force.
rewrite() { # N
	make_repository "other-$1.git" "$1"
	git -C git/a.git fetch -q "$PWD/other-$1.git" "+refs/heads/main:refs/heads/main"
}

make_two() { # [TTL]
	local node

	make_source a 2
	make_destination far/a
	: >witness
	for node in one two; do
		make_node "$node" lease.ttl "${1:-2s}"
		add_remote "$node" far push '+refs/heads/*:refs/heads/*'
	done
	start_site one
}

# One is in the middle of a push, with git at work, when it stops.
stop_in_the_middle() { # all|node
	local pids

	hold far/a
	ask
	wait_until 10 is_held far/a
	mapfile -t tree < <(tree_of "$(site_pid one)")
	[ "${#tree[@]}" -ge 4 ]
	pids=("${tree[0]}")
	[ "$1" = node ] || pids=("${tree[@]}")
	kill -STOP "${pids[@]}"
	start_site two
}

# What must be true when the one that slept has looked around.
nothing_was_undone() {
	wait_until 10 was_logged one 'lease\.(lost|released_late)'
	wait_until 10 store_is_empty
	far_is "$1"
	[ -z "$(letters)" ]
	add_commits git/a.git refs/heads/main 1
	ask
	wait_until 15 far_is "$(source_is)"
	wait_until 5 store_is_empty
	[ -z "$(in_running)" ]
	stop_site one
	stop_site two
}

sleeps_in_a_push() { # all|node REWRITE
	local newer tree

	make_two 5s # a busy node loses a shorter one before it is stopped
	[ "$2" = plain ] || {
		ask
		wait_until 10 store_is_empty
		rewrite 3
	}
	stop_in_the_middle "$1"
	[ "$1" = all ] || wait_until 10 are_gone "${tree[@]:1}"
	[ "$2" = plain ] && add_commits git/a.git refs/heads/main 1 || rewrite 4
	let_go
	ask
	newer=$(source_is)
	wait_until 10 far_is "$newer"
	wait_until 5 was_logged two push.done
	kill -CONT "${tree[@]}" 2>/dev/null || :
	wait_until 10 are_gone "${tree[@]:1}"
	nothing_was_undone "$newer"
}

# It has seen what is to be replaced there, and not yet replaced it.
sleeps_between_look_and_push() {
	local newer

	make_two
	ask
	wait_until 10 store_is_empty
	stop_site one
	rewrite 3
	launch_site one REFRELAY_FAILPOINT=transfer.compared=stop
	ask
	wait_until 10 is_paused one
	start_site two
	rewrite 4
	ask
	newer=$(source_is)
	wait_until 15 far_is "$newer"
	kill -CONT "$(site_pid one)"
	nothing_was_undone "$newer"
}

# Stopped where its tasks are moved.
sleeps_at() { # POINT...
	local point newer

	make_two
	stop_site one
	start_site two
	stop_site two
	for point; do
		echo "$point:"
		add_commits git/a.git refs/heads/main 1
		ask
		launch_site one "REFRELAY_FAILPOINT=$point=stop"
		wait_until 10 is_paused one
		start_site two
		add_commits git/a.git refs/heads/main 1
		ask
		newer=$(source_is)
		wait_until 15 far_is "$newer"
		wait_until 5 store_is_empty
		kill -CONT "$(site_pid one)"
		nothing_was_undone "$newer"
		: >one/log
	done
}

# HEAD changes while a node sleeps that has set it, and the next dies before it sets it.
sleeps_behind_head() {
	make_two
	ask
	wait_until 10 store_is_empty
	git -C git/a.git branch trunk main
	git -C git/a.git branch other main
	at one push start --all --now --wait
	stop_site one
	git -C git/a.git symbolic-ref HEAD refs/heads/trunk
	at one changed a
	launch_site one REFRELAY_FAILPOINT=push.head_set=stop
	wait_until 10 is_paused one
	head_is far/a.git refs/heads/trunk
	git -C git/a.git symbolic-ref HEAD refs/heads/other
	launch_site two REFRELAY_FAILPOINT=push.head=stop
	wait_until 10 is_paused two
	kill_site two
	kill -CONT "$(site_pid one)"
	wait_until 20 head_is far/a.git refs/heads/other
	wait_until 10 eval '[ -z "$(ls store/refrelay/requests)" ]'
	stop_site one
}

# Boot time is right everywhere, and so are the times of files: the file server has them.
start_wrong() { # SITE SECONDS
	make_wrong_clock
	start_site "$1" "LD_PRELOAD=$PWD/wrong_clock.so" "WRONG_CLOCK=$2" \
		"ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0"
	wait_until 10 was_logged "$1" node.started
	is_logged_at "$1" "$2" || fail "its clock is right"
}

# Milliseconds of this machine's clock.
now_ms() {
	date +%s%3N
}

is_later_than() { # MILLISECONDS
	[ "$(now_ms)" -ge "$1" ]
}

was_received() { # TIMES
	[ "$(received far/a)" -ge "$1" ]
}

# Both nodes, in turn, hold a push for longer than a lease; and each obeys the delay.
is_right_with_a_wrong_clock() { # OFFSET
	local node other began

	make_two
	stop_site one
	: >one/log
	for node in one two; do
		set_conf "$node" remote.far.replicationDelay 2s
		set_conf "$node" lease.ttl 8s # a node may be kept from a renewal for seconds
	done
	start_wrong two "$1"
	began=$(now_ms)
	ask
	wait_until 20 was_received 1 # which is not in an hour
	is_later_than $((began + 1900))
	wait_until 5 store_is_empty
	start_site one
	hold far/a
	add_commits git/a.git refs/heads/main 1
	ask
	wait_until 10 is_held far/a
	ask # it waits for the end of the first
	began=$(now_ms)
	wait_until 10 is_later_than $((began + 10000))
	[ "$(received far/a)" -eq 2 ]
	let_go
	wait_until 15 store_is_empty
	far_is "$(source_is)"
	fails grep -aE ' ev=lease.(takeover|lost)' one/log two/log
	never_two_at_once
	stop_site one
	stop_site two
}

# A change that the wrong one sees is due neither at once nor in an hour, for the right one.
sees_a_change_with_a_wrong_clock() { # OFFSET
	local began

	make_two 30s
	stop_site one
	for node in one two; do
		set_conf "$node" remote.far.replicationDelay 2s
	done
	start_site one
	start_wrong two "$1"
	at one push start --all --now --wait
	began=$(now_ms)
	add_commits git/a.git refs/heads/main 1
	at two changed a
	wait_until 10 far_is "$(source_is)"
	is_later_than $((began + 1900))
	wait_until 5 store_is_empty
	stop_site one
	stop_site two
}

# The file server's clock, SECONDS from the right one, for who is started with this.
set_file_clock() { # SECONDS
	echo "$1" >file-clock.new
	mv file-clock.new file-clock
}

# It looks at the clock when something comes.
is_reached_when_something_comes() {
	write_task waiting b refs/heads/main "$PWD/far/b.git" far
	far_is "$(source_is)"
}

# What failed is not tried as late as it was to be by the clock before.
is_tried_although_the_clock_is_set_back() {
	make_wrong_clock
	make_two 30s
	stop_site one
	make_source b 2
	make_destination far/b
	set_conf one remote.far.createMissingRepositories false
	set_file_clock 0
	start_site one "LD_PRELOAD=$PWD/wrong_clock.so" "WRONG_FILE_CLOCK=$PWD/file-clock" \
		"ASAN_OPTIONS=${ASAN_OPTIONS-}:verify_asan_link_order=0"
	mv far/a.git far/away
	ask
	wait_until 10 was_logged one push.failed 'retry_in_ms=(4[89]|5|6|7)[0-9]+( |$)'
	mv far/away far/a.git
	set_file_clock -3600
	wait_until 30 is_reached_when_something_comes
	wait_until 10 store_is_empty
	stop_site one
}

tap_test "a node sleeps in mid-push" sleeps_in_a_push node plain
tap_test "a node sleeps in mid-push with all its processes" sleeps_in_a_push all plain
tap_test "a node sleeps in mid-push of what needs force, with all its processes" \
	sleeps_in_a_push all forced
tap_test "a node sleeps between its look at the destination and its push" \
	sleeps_between_look_and_push
tap_test "a node sleeps before it moves its tasks" \
	sleeps_at push.claimed push.pushed push.done
tap_test "a node sleeps when it has set HEAD, and another begins to set a newer one" \
	sleeps_behind_head
tap_test "a node's clock is an hour ahead" is_right_with_a_wrong_clock 3600
tap_test "a node's clock is an hour behind" is_right_with_a_wrong_clock -3600
tap_test "a change is seen by a node whose clock is an hour ahead" \
	sees_a_change_with_a_wrong_clock 3600
tap_test "a change is seen by a node whose clock is an hour behind" \
	sees_a_change_with_a_wrong_clock -3600
tap_test "the file server's clock is set back while a push waits for its next try" \
	is_tried_although_the_clock_is_set_back
tap_done
