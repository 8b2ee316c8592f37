#!/usr/bin/env bash
# Destinations on this machine that are pushed to without git: when, when not, and what is
# left by a node that is killed on the way.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"

make_plain() { # DIR/NAME
	mkdir -p "$(dirname "$1")"
	git init -q --bare --initial-branch=main "$1.git"
}

is_sound() { # DIR/NAME
	git -C "$1.git" fsck --full --strict
	[ -z "$(find "$1.git" -name '*.lock' -o -name 'refrelay-push*')" ]
}

pushed_by() { # git|refrelay NUMBER
	is_logged "$2" home push.done "by=$1( |\$)"
}

a_plain_one_needs_no_git_and_one_with_hooks_or_settings_does() {
	make_node home
	add_remote home near
	make_source a
	make_plain near/a
	start_ready home
	at home push start --wait a
	wait_until 10 pushed_by refrelay 1
	change a
	wait_until 10 arrived near a
	wait_until 10 pushed_by refrelay 2
	is_sound near/a

	git -C near/a.git config receive.denyDeletes true
	change a
	wait_until 10 arrived near a
	wait_until 10 pushed_by git 1
	git -C near/a.git config --unset receive.denyDeletes
	printf '#!/bin/sh\ntouch %s/ran\n' "$PWD" >near/a.git/hooks/post-receive
	chmod +x near/a.git/hooks/post-receive
	change a
	wait_until 10 arrived near a
	wait_until 10 pushed_by git 2
	[ -e ran ]
	rm near/a.git/hooks/post-receive
	change a
	wait_until 10 arrived near a
	wait_until 10 pushed_by refrelay 3
	# Not in a pipe: curl fails if what it writes to ends before it.
	curl -fsS -m 30 "$(site_url home)/metrics" >metrics
	grep -qxF 'refrelay_pushes_without_git_total{remote="near"} 3' metrics
	is_sound near/a
	stop_site home
}

one_that_was_made_here_needs_no_git() {
	make_node home
	add_remote home near
	make_source a
	start_ready home
	at home push start --wait a
	was_logged home push.created
	change a
	wait_until 10 arrived near a
	wait_until 10 pushed_by refrelay 2
	[ "$(logged home push.done by=git)" = 0 ]
	is_sound near/a
	stop_site home
}

# It is all there after a restart, and no lock is left that somebody has to remove.
dies_and_comes_back() { # POINT...
	local point
	make_node home
	add_remote home near
	make_source a
	make_plain near/a
	start_site home
	at home push start --wait a
	stop_site home
	for point; do
		echo "$point:"
		add_commits git/a.git refs/heads/main 1
		write_task waiting a refs/heads/main "$(uri_of near/a)" near
		launch_site home "REFRELAY_FAILPOINT=$point=kill"
		is_killed_within 15 home
		git -C near/a.git fsck --full
		start_site home
		wait_until 10 store_is_empty
		arrived near a
		is_sound near/a
		stop_site home
	done
	[ "$(logged home push.done by=git)" = 0 ]
}

# What somebody pushes there meanwhile is not undone: git says so.
is_moved_meanwhile() { # POINT
	local theirs
	make_node home
	add_remote home near
	make_source a
	make_plain near/a
	start_site home
	at home push start --wait a
	stop_site home
	add_commits git/a.git refs/heads/main 1
	write_task waiting a refs/heads/main "$(uri_of near/a)" near
	launch_site home REFRELAY_FAILPOINT=transfer_here.brought=stop
	wait_until 15 is_paused home
	theirs=$(git -C near/a.git commit-tree -p main -m theirs 'main^{tree}')
	git -C near/a.git update-ref refs/heads/main "$theirs"
	kill -CONT "$(site_pid home)"
	wait_until 20 was_logged home push.gave_up
	[ "$(git -C near/a.git rev-parse main)" = "$theirs" ]
	wait_until 10 was_logged home push.ref 'status=REJECTED_NONFASTFORWARD'
	wait_until 10 pushed_by git 1
	is_sound near/a
	stop_site home
}

tap_test "a plain one needs no git, and one with hooks or settings does" \
	a_plain_one_needs_no_git_and_one_with_hooks_or_settings_does
tap_test "one that was made here needs no git" one_that_was_made_here_needs_no_git
tap_test "a node is killed at each step of it" dies_and_comes_back \
	here_objects.written transfer_here.brought foreign_ref.locked foreign_ref.written
tap_test "what was moved meanwhile stays" is_moved_meanwhile
tap_done
