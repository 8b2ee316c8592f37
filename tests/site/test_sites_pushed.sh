#!/usr/bin/env bash
# The brake on deletions of refs is for accidents: what a push through this site deletes is
# deleted at a secondary, what vanishes from the disk is held.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"

make_pair() {
	make_sites
	make_repository london/git/r.git 3
	many_branches
	give_token london dev push
	start_sites
	wait_until 20 in_sync
	U=$(url_as dev london r)
	git init -q work
}

many_branches() {
	local i commit
	commit=$(tip london/git/r.git)
	for i in $(seq 100); do
		echo "create refs/heads/b$i $commit"
	done | git -C london/git/r.git update-ref --stdin
}

# Those with numbers FROM to TO, in one push.
delete_by_push() { # FROM TO
	git -C work push -q "$U" $(seq -f ':refs/heads/b%g' "$1" "$2")
}

# Each in a push of its own. All of them write packed-refs.
delete_side_by_side() { # FROM TO
	local i pushes=()

	git -C london/git/r.git pack-refs --all
	for i in $(seq "$1" "$2"); do
		delete_by_push "$i" "$i" &
		pushes+=($!)
	done
	for i in "${pushes[@]}"; do
		wait "$i" || fail "a push was refused"
	done
}

delete_on_disk() { # FROM TO
	delete_refs london/git/r.git $(seq -f 'refs/heads/b%g' "$1" "$2")
}

is_held() {
	row_of paris r held_reason | grep -q "$1"
}

pushed_deletions_are_no_accident() {
	make_pair
	delete_by_push 1 100
	wait_until 20 in_sync
	same_sites
	[ "$(logged paris sync.held)" -eq 0 ]
}

# With the hooks the change is in the log before the push is over.
also_with_hooks() {
	make_pair
	at london hooks install
	delete_by_push 1 100
	wait_until 20 in_sync
	same_sites
	[ "$(logged paris sync.held)" -eq 0 ]
}

# Along with others, which are refused.
several_pushes_while_the_secondary_is_down() {
	make_pair
	stop_site paris
	delete_by_push 1 15
	printf '#!/bin/sh\ncase $1 in */never*) exit 1 ;; esac\n' >london/git/r.git/hooks/update
	chmod +x london/git/r.git/hooks/update
	git -C work fetch -q "$U" main
	fails git -C work push -q "$U" $(seq -f ':refs/heads/b%g' 16 40) \
		$(seq -f 'FETCH_HEAD:refs/heads/never%g' 40)
	stop_site london
	start_site london
	delete_by_push 41 80
	start_site paris
	wait_until 20 in_sync
	same_sites
	[ "$(logged paris sync.held)" -eq 0 ]
}

accidents_are_held_all_the_same() {
	make_pair
	delete_by_push 1 40
	wait_until 20 in_sync
	# that may have been while the push was not over: then the copy does not count it yet
	add_commits london/git/r.git refs/heads/main 1
	wait_until 20 same_sites
	wait_until 20 in_sync
	stop_site paris
	delete_side_by_side 41 50
	delete_on_disk 51 90
	start_site paris
	wait_until 20 is_held '^40 of 61 refs would be deleted'
	git -C paris/git/r.git rev-parse -q --verify refs/heads/b41
	at paris repository resync --force r
	wait_until 20 in_sync
	same_sites
}

share_is() { # SITE SHARE
	local before
	before=$(logged "$1" node.reloaded) || true
	set_conf "$1" sync.deleteBrake "$2"
	kill -HUP "$(site_pid "$1")"
	wait_until 10 is_logged $((before + 1)) "$1" node.reloaded
}

# Of 101, then of 71.
the_share_is_as_set() {
	make_pair
	share_is paris 30%
	delete_on_disk 1 30
	wait_until 20 same_sites
	[ "$(logged paris sync.held)" -eq 0 ]
	wait_until 20 in_sync
	delete_on_disk 31 60
	wait_until 20 is_held '^30 of 71 refs would be deleted'
	share_is paris 50%
	at paris repository sync r
	wait_until 20 in_sync
	same_sites
}

# What hooks refuse does not count.
refused_deletions_do_not_count() {
	make_pair
	printf '#!/bin/sh\nexit 1\n' >london/git/r.git/hooks/pre-receive
	chmod +x london/git/r.git/hooks/pre-receive
	fails delete_by_push 1 100
	rm london/git/r.git/hooks/pre-receive
	delete_on_disk 1 100
	wait_until 20 is_held '^100 of 101 refs would be deleted'
	a_held_copy_hides_what_its_primary_hides
}

paris_hides() {
	git -C paris/git/r.git config --get-all transfer.hideRefs | grep -qx "$1"
}

# What the primary shows again waits for its refs.
a_held_copy_hides_what_its_primary_hides() {
	git -C london/git/r.git config transfer.hideRefs refs/heads/b1
	at london changed r
	wait_until 20 paris_hides refs/heads/b1
	git -C london/git/r.git config transfer.hideRefs refs/heads/b2
	at london changed r
	wait_until 20 paris_hides refs/heads/b2
	paris_hides refs/heads/b1
	is_held '^100 of 101 refs would be deleted'
	expect 0 at paris repository resync --force r
	wait_until 20 in_sync
	same_sites
	fails paris_hides refs/heads/b1
	paris_hides refs/heads/b2
	fails was_logged paris copy.changed
	fails was_logged paris copy.doubted
}

tap_test "what a push deletes is no accident" pushed_deletions_are_no_accident
tap_test "also if hooks tell of it first" also_with_hooks
tap_test "nor what several delete while the secondary is down" several_pushes_while_the_secondary_is_down
tap_test "what vanishes from the disk is held all the same" accidents_are_held_all_the_same
tap_test "where more than the share that is set" the_share_is_as_set
tap_test "what was refused does not count" refused_deletions_do_not_count
tap_done
