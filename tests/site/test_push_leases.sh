#!/usr/bin/env bash
# What people may do to the directory of leases, and how long pushes have theirs: pushes go on, and
# nothing is lost.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"

make_one() {
	make_source a 2
	make_destination far/a
	: >witness
	make_node one lease.ttl 3s
	add_remote one far
	start_site one
	ask
	wait_until 10 all_is_done
}

ask() {
	add_commits git/a.git refs/heads/main 1
	write_task waiting a refs/heads/main "$PWD/far/a.git" far
}

all_is_done() {
	store_is_empty && diff <(git -C git/a.git for-each-ref) <(git -C far/a.git for-each-ref)
}

key_of_uri() {
	local key

	for key in store/leases/*/; do
		case $(readlink "${key}key") in
		push:uri:*) echo "${key%/}" ;;
		esac
	done
}

a_node_lives() {
	at one push queue >queue && ! grep -q 'no node' queue
}

# At one moment for the node, which else may put something there again.
remove_leases() {
	kill -STOP "$(site_pid one)"
	wait_until 10 is_paused one
	rm -rf store/leases
	kill -CONT "$(site_pid one)"
}

removed_while_it_rests() {
	make_one
	remove_leases
	ask
	wait_until 5 all_is_done
	wait_until 10 was_logged one lease.directory_restored
	wait_until 15 a_node_lives
	stop_site one
}

# The push under way is ended, and made anew.
removed_in_mid_push() {
	make_one
	hold far/a
	ask
	wait_until 10 is_held far/a
	remove_leases
	wait_until 10 was_logged one lease.lost push:uri
	let_go
	wait_until 15 all_is_done
	fails was_logged one push.gave_up
	stop_site one
}

full_of_foreign_things() {
	local key

	make_one
	key=$(key_of_uri)
	touch store/leases/README "$key/junk" "$key/99x" "$key/.new-file"
	mkdir store/leases/directory "$key/more"
	ln -s /nowhere "store/leases/$(echo x | sha1sum | cut -d ' ' -f 1)"
	ask
	wait_until 5 all_is_done
	fails was_logged one push.put_off
	at one push queue
	stop_site one
}

# A number that nobody made: only that URI waits, with the reason, until it is gone.
a_number_that_nobody_made() {
	local key

	make_one
	make_source b 2
	make_destination far/b
	key=$(key_of_uri)
	mkdir "$key/77"
	ask
	wait_until 10 was_logged one push.put_off 'has no owner.*remedy='
	write_task waiting b ..all.. "$PWD/far/b.git" far
	wait_until 5 received far/b
	[ "$(waiting | wc -l)" -eq 1 ]
	rmdir "$key/77"
	wait_until 15 all_is_done
	stop_site one
}

# The leases of pushes are renewed whatever lease.compatibility says: no other program takes part
# in them.
longer_than_a_lease_that_is_not_renewed() {
	local begun

	make_source a 2
	make_destination far/a
	: >witness
	# A node that is kept from a renewal for some seconds has the lease still.
	make_node one lease.ttl 8s lease.compatibility docora
	add_remote one far
	start_site one
	hold far/a
	write_task waiting a refs/heads/main "$PWD/far/a.git" far
	wait_until 10 is_held far/a
	begun=$SECONDS
	wait_until 20 lasted "$begun" 10
	[ "$(in_running | wc -l)" -eq 1 ]
	let_go
	wait_until 10 all_is_done
	[ "$(received far/a)" -eq 1 ]
	fails was_logged one lease.lost
	fails was_logged one push.put_off
	stop_site one
}

lasted() { # SINCE SECONDS
	[ $((SECONDS - $1)) -ge "$2" ]
}

tap_test "the directory is removed while a node rests" removed_while_it_rests
tap_test "the directory is removed in mid-push" removed_in_mid_push
tap_test "foreign things lie in the directory" full_of_foreign_things
tap_test "a push lasts longer than a lease that is not renewed" longer_than_a_lease_that_is_not_renewed
tap_test "a number that nobody made holds up one URI alone" a_number_that_nobody_made
tap_done
