#!/usr/bin/env bash
# A task store that is full, read-only, or away: what changed is owed and told, nothing is
# lost or put into a place that is none, and all arrives once the store is well.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"

mount_store() { # OPTIONS
	[ "$(id -u)" -eq 0 ] || skip "only root can mount a file system of a certain size"
	mkdir store
	mount -t tmpfs -o "$1" refrelay-test store 2>/dev/null ||
		skip "no tmpfs can be mounted here"
	trap 'umount -l "$TEST_DIR/store" 2>/dev/null || true' EXIT
}

start_home() {
	make_node home
	add_remote home near replicationRetry 0
	make_source a
	make_source b
	start_site home
	expect 0 at home push start --wait
	arrived near a b
}

tells() { # PATTERN
	at home status >said && { echo "all is well: $(<said)"; return 1; }
	grep -qE "$1" said || { cat said; return 1; }
}

is_well() {
	at home status >said || { cat said; return 1; }
}

# Each file is a page of it.
fill_up() {
	head -c 20000000 /dev/zero >store/filler 2>/dev/null || true
	! echo x >store/more 2>/dev/null
}

the_store_is_full() {
	mount_store size=2m
	start_home
	fill_up
	change a refs/heads/new
	change b
	wait_until 10 was_logged home change.owed
	tells '^no push task could be written for 2 changed repositories, e.g. a: .*No space left'
	[ "$(at home events --json | grep -c '"name":"a"')" -ge 2 ]
	rm store/filler
	at home changed a # wakes nobody up, but settles
	wait_until 10 arrived near a b
	wait_until 10 is_well
	wait_until 10 store_is_empty
	stop_site home
}

# It is settled by itself, too, and by a node that was started anew.
what_is_owed_outlives_the_node() {
	mount_store size=2m
	start_home
	fill_up
	change a refs/heads/new
	kill_site home
	rm store/filler
	tells '; no push task could be written for 1 changed repository, e.g. a: '
	start_site home
	wait_until 10 arrived near a
	wait_until 10 is_well
	stop_site home
}

# So full that not even a failure can be written down: it is tried again all the same.
it_fills_up_while_a_push_runs() {
	mount_store size=2m
	start_home
	rm -r near/a.git
	make_destination near/a
	hold near/a
	at home push start a
	wait_until 10 is_held near/a
	fill_up
	change b
	let_go
	wait_until 10 arrived near a
	rm store/filler
	change b
	wait_until 10 arrived near b
	wait_until 10 is_well
	wait_until 10 store_is_empty
	stop_site home
}

no_inode_is_left() {
	mount_store size=2m,nr_inodes=60
	start_home
	for ((i = 0; i < 60; i++)); do
		: 2>/dev/null >"store/filler-$i" || break
	done
	change a
	tells '^no push task could be written for 1 changed repository, e.g. a: .*No space left'
	rm store/filler-*
	change b
	wait_until 10 arrived near a b
	wait_until 10 is_well
	stop_site home
}

# As it is after an error of its disk. A node that runs keeps files open in it, so that it
# cannot be made so then.
the_store_is_read_only() {
	mount_store size=2m
	start_home
	stop_site home
	mount -o remount,ro store
	add_commits git/a.git refs/heads/main 1
	at home changed a
	tells 'no push task could be written for 1 changed repository, e.g. a: .*Read-only file system'
	launch_site home
	wait_until 10 has_ended
	grep -q 'Read-only file system' home/log
	mount -o remount,rw store
	start_site home
	wait_until 10 arrived near a b
	wait_until 10 is_well
	stop_site home
}

# What is below a mount point is nobody's store: a task there would never be seen again.
nothing_is_in() { # DIRECTORY
	[ -z "$(find "$1" -type f ! -name '.*')" ]
}

the_store_is_unmounted() {
	start_home
	mv store away
	mkdir store
	change a
	tells 'store'
	at home push queue || true
	at home push start b || true
	at home check || true
	change b
	nothing_is_in store
	expect 3 at home status
	find store -depth -mindepth 1 -delete
	rmdir store
	mv away store
	change a refs/heads/new
	wait_until 10 arrived near a b
	wait_until 15 is_well
	stop_site home
}

# Git pushes from files of ours there. That is no failure of the destination, for which no
# node would be allowed another try.
the_data_of_the_node_is_full() {
	[ "$(id -u)" -eq 0 ] || skip "only root can mount a file system of a certain size"
	mkdir -p home/data
	mount -t tmpfs -o size=4m,mode=700 refrelay-test home/data 2>/dev/null ||
		skip "no tmpfs can be mounted here"
	trap 'umount -l "$TEST_DIR/home/data" 2>/dev/null || true' EXIT
	make_node home
	add_remote home near replicationRetry 0 replicationMaxRetries 1
	make_source a
	make_destination near/a
	start_ready home
	expect 0 at home push start --wait
	head -c 20000000 /dev/zero >home/data/filler 2>/dev/null || true
	add_commits git/a.git refs/heads/main 1
	at home push start a
	wait_until 10 was_logged home push.put_off
	wait_until 15 tells 'could not write to its disk'
	[ -z "$(letters)" ]
	queue_says 'not q["queue"][0]["failures"]'
	rm home/data/filler
	stop_site home
	start_site home
	wait_until 10 arrived near a
	wait_until 10 store_is_empty
	wait_until 15 is_well
	stop_site home
}

waits_for_disk() { # REPOSITORY
	at home push queue --json >queue || return
	python3 -c '
import json, sys
sys.exit(not any(u["project"] == sys.argv[1] and (u.get("failure") or {}).get("code") == "disk"
	for u in json.load(open("queue"))["queue"]))' "$1" || { cat queue; return 1; }
}

# What would be made below its mount point would be hidden by it, and count as pushed.
a_destination_is_unmounted() {
	[ "$(id -u)" -eq 0 ] || skip "only root can mount a file system"
	mkdir near
	mount -t tmpfs refrelay-test near 2>/dev/null || skip "no tmpfs can be mounted here"
	trap 'umount -l "$TEST_DIR/near" 2>/dev/null || true' EXIT
	make_node home
	add_remote home near replicationRetry 0
	make_source a
	make_destination near/a
	start_ready home
	expect 0 at home push start --wait
	cp -a near away
	umount near
	make_source b
	at home changed b
	change a
	wait_until 10 waits_for_disk a
	wait_until 10 waits_for_disk b
	expect 3 at home status
	[ -z "$(ls -A near)" ]
	stop_site home
	start_site home
	wait_until 10 waits_for_disk b
	[ -z "$(ls -A near)" ]
	mount -t tmpfs refrelay-test near
	cp -a away/. near/
	at home push retry --remote near
	wait_until 20 arrived near a b
	wait_until 10 is_well
	stop_site home
}

has_ended() {
	! kill -0 "$(site_pid home)" 2>/dev/null
}

it_is_unmounted_while_no_node_runs() {
	start_home
	stop_site home
	mv store away
	mkdir store
	add_commits git/a.git refs/heads/main 1
	at home changed a
	nothing_is_in store
	tells 'store is not the task store that it was .is its file system mounted'
	fails at home push start a
	launch_site home
	wait_until 10 has_ended
	grep -q 'store is not the task store that it was' home/log
	grep -q 'is its file system mounted' home/log
	nothing_is_in store
	find store -depth -mindepth 1 -delete
	rmdir store
	mv away store
	start_site home
	wait_until 10 arrived near a b
	wait_until 10 is_well
	stop_site home
}

# A copy of it, restored from a backup, is the same store.
it_is_replaced_while_the_node_runs() {
	start_home
	wait_until 10 copy_store copy
	mv store old
	mv copy store
	change a
	wait_until 20 arrived near a
	wait_until 10 is_well
	stop_site home
}

tap_test "the store is full: what changes is owed, and settled later" the_store_is_full
tap_test "what is owed outlives the node" what_is_owed_outlives_the_node
tap_test "the store fills up while a push runs" it_fills_up_while_a_push_runs
tap_test "no inode is left in the store" no_inode_is_left
tap_test "the store is read-only" the_store_is_read_only
tap_test "the store is unmounted while the node runs" the_store_is_unmounted
tap_test "the store is unmounted while no node runs" it_is_unmounted_while_no_node_runs
tap_test "the node's own data are full" the_data_of_the_node_is_full
tap_test "a destination is unmounted" a_destination_is_unmounted
tap_test "the store is replaced by a copy of it" it_is_replaced_while_the_node_runs
tap_done
