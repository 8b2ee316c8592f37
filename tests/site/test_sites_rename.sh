#!/usr/bin/env bash
# A repository, or a folder of them, that is renamed at the primary is renamed at the
# secondary: nothing is copied again, nothing is held, nothing goes to the trash.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

# The primary looks for what was renamed once a second.
converge() {
	wait_until 60 same_sites
	wait_until 60 in_sync
}

# r1 to r8, and team/r1 to team/r12.
make_20() {
	local i
	make_sites
	make_repository template.git 5
	mkdir -p london/git/team
	for i in $(seq 20); do
		if [ "$i" -le 8 ]; then
			cp -r template.git "london/git/r$i.git"
		else
			cp -r template.git "london/git/team/r$((i - 8)).git"
		fi
	done
	start_sites
	converge
}

in_trash() {
	find paris/git/.refrelay/trash -mindepth 1 -maxdepth 1 2>/dev/null | wc -l
}

nothing_was_lost_or_held() {
	[ "$(in_trash)" = 0 ]
	[ "$(status_of paris repositories.held)" = 0 ]
	expect 0 at paris status
}

has_row() { # NAME
	at paris repository show "$1" >/dev/null 2>&1
}

has_no_row() { # NAME
	local status=0
	at paris repository show "$1" >/dev/null 2>&1 || status=$?
	[ "$status" -eq 4 ]
}

# Bytes that came for repositories of this pattern.
brought() { # PATTERN
	grep -aE " ev=sync.done .*repo=$1" paris/log | grep -aoE ' bytes=[0-9]+' |
		awk -F= '{ sum += $2 } END { print sum + 0 }'
}

a_folder_of_repositories_is_moved() {
	make_20
	[ "$(brought 'team/r')" -gt 0 ]
	mv london/git/team london/git/group
	wait_until 30 has_row group/r12
	wait_until 30 has_no_row team/r1
	converge
	wait_until 10 is_logged 12 paris sync.renamed
	is_logged 12 paris sync.renamed 'job=sync .*job_id=[0-9a-f]{16} '
	[ "$(brought 'group/r')" = 0 ]
	[ ! -e paris/git/team ]
	nothing_was_lost_or_held

	# And it goes on being followed.
	push_change london/git/group/r3.git
	converge
}

# With the deletion of others at once, which count for themselves alone.
a_rename_while_the_secondary_is_down() {
	make_20
	stop_site paris
	mv london/git/team london/git/group
	push_change london/git/group/r5.git
	remove_repository london/git/r1.git
	wait_until 30 log_has_deleted r1
	start_site paris
	converge
	wait_until 10 is_logged 12 paris sync.renamed
	[ "$(brought 'group/r5 ')" -gt 0 ]
	[ "$(brought 'group/r([1-46-9]|1[0-2]) ')" = 0 ]
	[ "$(in_trash)" = 1 ]
	expect 0 at paris status
}

log_has_deleted() { # NAME
	at london events | grep -q "\"name\":\"$1\".*deleted\|deleted.*\"name\":\"$1\""
}

# Back and forth, and a new repository in the place of the old one.
a_name_that_is_taken_again() {
	make_20
	mv london/git/r1.git london/git/moved.git
	wait_until 30 has_no_row r1
	converge
	mv london/git/moved.git london/git/r1.git
	wait_until 30 has_no_row moved
	converge
	mv london/git/r1.git london/git/away.git
	make_repository london/git/r1.git 2
	wait_until 30 has_row away
	converge
	expect 0 at paris status
}

# The old copy, with all its refs, is in the trash; readers of the new one get nothing of it.
has_nothing_of_the_old() { # NAME OID
	fails git -C "paris/git/$1.git" cat-file -e "$2" 2>/dev/null
	git -C "$(echo paris/git/.refrelay/trash/*".$1.git")" cat-file -e "$2"
}

# Before a scan has seen the name free, and then while the secondary is down.
a_name_that_another_takes() {
	local i old
	make_20
	old=$(git -C london/git/r1.git rev-parse main)
	for i in $(seq 30); do
		echo "create refs/tags/v$i $old"
	done | git -C london/git/r2.git update-ref --stdin
	converge
	make_repository other.git 2
	stop_site london
	mv london/git/r1.git london/git/away.git
	cp -r other.git london/git/r1.git
	start_site london
	wait_until 30 has_row away
	converge
	is_logged 1 london change.replaced 'repo=r1( |$)'
	is_logged 1 paris sync.replaced 'repo=r1( |$)'
	[ "$(in_trash)" = 1 ]
	has_nothing_of_the_old r1 "$old"

	stop_site paris
	remove_repository london/git/r2.git
	wait_until 30 log_has_deleted r2
	cp -r other.git london/git/r2.git
	wait_until 30 is_logged 2 london change.noticed 'repo=r2 event=created'
	start_site paris
	converge
	is_logged 1 paris sync.replaced 'repo=r2( |$)'
	[ "$(in_trash)" = 2 ]
	has_nothing_of_the_old r2 "$old"
	[ "$(status_of paris repositories.held)" = 0 ]
	expect 0 at paris status
}

# A hook tells of the old name, or a site asks for it, before a scan has seen the new one.
the_old_name_is_asked_for_first() {
	local i
	make_20
	for i in 1 2 3 4 5 6 7 8; do
		mv "london/git/r$i.git" "london/git/group-$i.git"
		at london changed "r$i" || true # a scan may have come first
	done
	wait_until 30 has_no_row r8
	converge
	wait_until 10 is_logged 8 paris sync.renamed
	nothing_was_lost_or_held
}

# Between the look at its refs and the look at its directory.
a_rename_while_it_is_looked_at() {
	local pid
	make_20
	stop_site london
	git -C london/git/r1.git update-ref refs/heads/more main
	env REFRELAY_FAILPOINT=notice.read=stop "$REFRELAY" -c london/refrelay.conf changed r1 &
	pid=$!
	wait_until 10 is_stopped "$pid"
	mv london/git/r1.git london/git/moved.git
	kill -CONT "$pid"
	wait "$pid" || true
	start_site london
	wait_until 30 has_no_row r1
	converge
	wait_until 10 is_logged 1 paris sync.renamed
	nothing_was_lost_or_held
}

# The copy stays a copy: the original is still there.
a_copy_is_no_rename() {
	make_20
	cp -a london/git/r1.git london/git/fork.git
	wait_until 30 has_row fork
	converge
	fails was_logged paris sync.renamed
	has_row r1
	nothing_was_lost_or_held
}

fence_of() { # COPY
	tr -dc 0-9 <"paris/git/$1.git/refrelay/fence"
}

# Whoever still holds a lease of the old name is too late from the move on.
a_node_that_dies_after_the_move() {
	local before
	make_20
	stop_site paris
	before=$(fence_of r1)
	start_site paris REFRELAY_FAILPOINT=rename.moved=kill
	mv london/git/r1.git london/git/moved.git
	is_killed_within 30 paris
	[ "$(fence_of moved)" -gt "$before" ]
	start_site paris
	converge
	wait_until 30 has_no_row r1
	nothing_was_lost_or_held
}

tap_test "a folder of repositories is moved" \
	a_folder_of_repositories_is_moved
tap_test "a rename while the secondary is down" \
	a_rename_while_the_secondary_is_down
tap_test "a name that is taken again" \
	a_name_that_is_taken_again
tap_test "a name that another takes" \
	a_name_that_another_takes
tap_test "the old name is asked for first" \
	the_old_name_is_asked_for_first
tap_test "a rename while it is looked at" \
	a_rename_while_it_is_looked_at
tap_test "a copy is no rename" \
	a_copy_is_no_rename
tap_test "a node that dies after the move" \
	a_node_that_dies_after_the_move
tap_done
