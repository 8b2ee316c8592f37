#!/usr/bin/env bash
# A secondary follows its primary: all that there is, and every kind of change, whether a
# hook tells of it or the scan finds it.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

converge() {
	wait_until 60 in_sync
	same_sites
}

# The scan has found it, and the copy is there: by the primary's own checksum.
scanned_since() { # COUNT
	[ "$(logged london watch.scanned)" -gt "$1" ]
}

# Whatever was changed just now was looked at by two scans that began later.
changes_arrive() {
	local count
	count=$(logged london watch.scanned)
	wait_until 20 scanned_since $((count + 2))
	converge
}

fifty_repositories_reach_an_empty_secondary() {
	local i
	make_sites
	make_repository template.git 20
	for i in $(seq 50); do
		mkdir -p "london/git/group-$((i % 5))"
		cp -r template.git "london/git/group-$((i % 5))/r$i.git"
		git -C "london/git/group-$((i % 5))/r$i.git" update-ref "refs/tags/t$i" main~1
	done
	start_sites
	wait_until 60 in_sync
	same_sites
	[ "$(status_of paris repositories.all)" = 50 ]
	[ "$(status_of paris repositories.synced)" = 50 ]
	[ "$(status_of paris repositories.verification.succeeded)" = 50 ]
	grep -q '^in sync, verified: 50 repositories' status
	wait_until 10 is_logged 50 paris sync.done
	# Nothing to do is nothing done, also after a restart.
	stop_site paris
	start_site paris
	wait_until 20 in_sync
	wait_until 10 is_logged 50 paris sync.done
}

a_push_arrives_by_its_hook_long_before_a_scan() {
	make_sites
	set_conf london sync.scanInterval 1h
	make_repository london/git/group/tool.git 5
	at london hooks install
	start_sites
	converge
	push_change london/git/group/tool.git
	push_change london/git/group/tool.git topic
	converge
	git -C paris/git/group/tool.git rev-parse -q --verify refs/heads/topic
	[ "$(logged london watch.scanned)" -le 1 ]
}

ref_change_without_hooks() { # NAME
	local oid
	oid=$(git -C "london/git/$1" rev-parse main~1)
	echo "$oid" >"london/git/$1/refs/heads/main"
}

the_scan_notices_all_that_changes_inside_repositories() {
	local name
	make_sites
	for name in echo head tag notes gone strange told sha packed alias loose; do
		make_repository "london/git/$name.git" 4
	done
	git -C london/git/head.git update-ref refs/heads/other main
	git -C london/git/gone.git update-ref refs/heads/old main~1
	git -C london/git/packed.git update-ref refs/heads/old main~1
	git -C london/git/packed.git pack-refs --all
	start_sites
	converge

	ref_change_without_hooks echo.git
	git -C london/git/head.git symbolic-ref HEAD refs/heads/other
	git -C london/git/tag.git tag -a -m 'a tag' v1 main
	git -C london/git/notes.git notes add -m 'a note' main
	git -C london/git/gone.git update-ref -d refs/heads/old
	git -C london/git/strange.git update-ref $'refs/heads/\xe9t\xe9' main
	echo 'What it is for' >london/git/told.git/description
	add_commits london/git/sha.git refs/heads/main 2
	git -C london/git/packed.git update-ref -d refs/heads/old
	git -C london/git/alias.git symbolic-ref refs/heads/alias refs/heads/main
	git -C london/git/loose.git update-ref refs/heads/deep/er/still main
	changes_arrive
	[ "$(git -C paris/git/head.git symbolic-ref HEAD)" = refs/heads/other ]
	git -C paris/git/strange.git rev-parse -q --verify $'refs/heads/\xe9t\xe9'
	grep -q 'What it is for' paris/git/told.git/description
}

in_trash() { # NAME
	find paris/git/.refrelay/trash -mindepth 1 -maxdepth 1 | grep -q "$1"
}

the_scan_notices_repositories_that_come_go_and_move() {
	make_sites
	make_repository london/git/stays.git 3
	make_repository london/git/goes.git 3
	make_repository london/git/team/moves.git 3
	make_repository london/git/again.git 3
	start_sites
	converge

	make_repository london/git/a/b/c/d/e/f/comes.git 3
	remove_repository london/git/goes.git
	mkdir london/git/other-team
	mv london/git/team/moves.git london/git/other-team/moved.git
	remove_repository london/git/again.git
	make_repository london/git/again.git 7
	make_repository london/git/sha.git 3 sha256
	git init -q --bare london/git/empty.git
	make_repository london/git/plain 3
	changes_arrive
	[ ! -e paris/git/goes.git ]
	[ ! -e paris/git/team/moves.git ]
	[ -d paris/git/plain.git ]
	[ "$(git -C paris/git/again.git rev-list --count main)" = 7 ]
	in_trash goes
	[ -d paris/git/other-team/moved.git ] # it was moved, too
	fails in_trash moves
	[ "$(git -C paris/git/sha.git rev-parse --show-object-format)" = sha256 ]

	# One name, two repositories in a row, of different object formats.
	remove_repository london/git/sha.git
	make_repository london/git/sha.git 3 sha1
	add_commits london/git/empty.git refs/heads/main 2
	changes_arrive
	[ "$(git -C paris/git/sha.git rev-parse --show-object-format)" = sha1 ]
}

tagged() { # REPOSITORY NAME: what packed-refs says that the tag names
	git -C "$1" -c user.name=A -c user.email=a@x tag -a -m t "$2" main~1
	git -C "$1" pack-refs --all
}

# No checksum covers what packed-refs says that a tag finally names, and Git believes it.
what_a_tag_names_is_not_believed() {
	local right

	make_sites
	make_repository london/git/a.git 4
	right=$(git -C london/git/a.git rev-parse main~1)
	tagged london/git/a.git v1
	sed -i "s/^^.*/^$(git -C london/git/a.git rev-parse main)/" london/git/a.git/packed-refs
	fails grep -qx "$right.refs/tags/v1^{}" <(git -C london/git/a.git show-ref -d)
	start_sites
	converge
	grep -qx "$right.refs/tags/v1^{}" <(git -C paris/git/a.git show-ref -d)
	tagged london/git/a.git v2
	sed -i "s/^^.*/^$(git -C london/git/a.git rev-parse main)/" london/git/a.git/packed-refs
	changes_arrive
	[ "$(grep -cx "$right.refs/tags/v[12]^{}" <(git -C paris/git/a.git show-ref -d))" = 2 ]
}

tap_test "50 repositories reach an empty secondary, are verified, and are let alone" \
	fifty_repositories_reach_an_empty_secondary
tap_test "a push arrives by its hook long before a scan" \
	a_push_arrives_by_its_hook_long_before_a_scan
tap_test "the scan notices all that changes inside repositories" \
	the_scan_notices_all_that_changes_inside_repositories
tap_test "what a tag names is not believed" what_a_tag_names_is_not_believed
tap_test "the scan notices repositories that come, go, move and are made again" \
	the_scan_notices_repositories_that_come_go_and_move
tap_done
