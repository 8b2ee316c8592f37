#!/usr/bin/env bash
# A file system that is not mounted, and a directory that is another one than before: at
# the secondary nothing is copied, removed or called synced in the wrong place; at the
# primary nothing passes for deleted; and both say so.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

converge() {
	wait_until 60 in_sync
	same_sites
}

make_two() {
	make_sites
	make_repository london/git/a.git 3
	make_repository london/git/b.git 3
	start_sites
	converge
}

# As by umount: what is left is the mount point.
unmount() { # SITE
	mv "$1/git" away
	mkdir "$1/git"
}

mount_again() { # SITE
	rmdir "$1/git"
	mv away "$1/git"
}

has_ended() { # SITE
	! kill -0 "$(site_pid "$1")" 2>/dev/null
}

says() { # SITE TEXT
	local status=0
	at "$1" status >said || status=$?
	[ "$status" -eq 3 ] && grep -qF "$2" said && return
	cat said
	return 1
}

is_ready() { # SITE CODE
	[ "$(curl -sS -o ready -w '%{http_code}' "$(site_url "$1")/readyz")" = "$2" ]
}

a_secondary_whose_mount_is_empty_does_not_start() {
	make_two
	stop_site paris
	unmount paris
	launch_site paris
	wait_until 10 has_ended paris
	grep -q 'is empty, but 2 copies should be there' paris/log
	says paris 'paris cannot find its copies: '
	expect 1 at paris check
	grep -q '^FAIL   copies .* is empty, but 2 copies' out
	[ -z "$(ls -A paris/git)" ]
	mount_again paris
	start_site paris
	converge
	# It is the directory that it was: nothing was suspect.
	fails was_logged paris root.changed
}

a_mount_that_goes_while_the_node_runs_gets_no_copy() {
	make_sites
	make_repository london/git/c.git 1
	make_repository london/git/a.git 3
	make_repository london/git/b.git 3
	start_sites
	converge
	unmount paris
	says paris 'is empty, but 3 copies should be there'
	wait_until 10 is_ready paris 503
	add_commits london/git/a.git refs/heads/main 2
	make_repository london/git/new.git 1
	remove_repository london/git/b.git
	wait_until 20 row_is paris a failure_class disk
	wait_until 20 row_is paris new failure_class disk
	wait_until 20 row_is paris b failure_class disk
	# What is read again is not found wrong because of it.
	expect 0 at paris repository reverify c
	wait_until 20 was_logged paris job.failed 'op=verify'
	row_is paris c state synced
	[ ! -e paris/git/a.git ]
	[ ! -e paris/git/new.git ]
	mkdir paris/git/somebodys
	says paris 'is not the directory that it was'
	rmdir paris/git/somebodys
	rm -rf paris/git
	mv away paris/git
	[ -d paris/git/b.git ]
	at paris repository sync a new >out
	converge_but_b
}

# What failed to be removed is tried again by itself, after a while.
converge_but_b() {
	wait_until 20 row_is paris a state synced
	wait_until 20 row_is paris new state synced
	[ "$(git -C paris/git/a.git rev-parse main)" = "$(git -C london/git/a.git rev-parse main)" ]
	[ -d paris/git/new.git ]
}

lost_copies_are_copied_anew_when_a_person_says_so() {
	make_two
	stop_site paris
	rm -rf paris/git
	launch_site paris
	wait_until 10 has_ended paris
	[ ! -e paris/git ]
	expect 0 at paris repository resync --all
	start_site paris
	converge
}

another_directory_is_compared_whole() {
	make_two
	stop_site paris
	cp -a paris/git older
	start_site paris
	add_commits london/git/a.git refs/heads/main 2
	wait_until 20 same_sites
	stop_site paris
	mv paris/git newer
	mv older paris/git
	rm -rf paris/git/b.git
	start_site paris
	wait_until 10 was_logged paris root.changed rows=2
	converge
	stop_site paris
	start_site paris
	wait_until 10 is_logged 1 paris root.changed
}

metric_is() { # SITE NAME VALUE
	[ "$(curl -sS "$(site_url "$1")/metrics" | grep "^$2 ")" = "$2 $3" ]
}

a_primary_says_that_its_mount_is_empty() {
	local whole
	make_two
	wait_until 20 at london status
	expect 0 at london status
	grep -q 'last full scan [0-9.]* s ago' out
	expect 0 at london check
	whole=$(status_of london scan.whole_at)
	[ -n "$whole" ]
	metric_is london refrelay_scan_failing 0

	# While it runs, and from its start.
	# A look between the two steps of it finds nothing at all; the next one finds this.
	unmount london
	wait_until 20 says london 'is not the directory that it was'
	grep -q 'london has been unable to scan its repositories for ' said
	grep -q 'is not the directory that it was.* (is its file system mounted?' said
	wait_until 10 is_ready london 503
	metric_is london refrelay_scan_failing 1
	expect 1 at london check
	grep -q '^FAIL   scan' out
	stop_site london
	expect 1 at london check
	start_site london
	wait_until 20 says london 'london has been unable to scan its repositories for '
	[ -n "$(status_of london scan.whole_at)" ]

	mount_again london
	wait_until 20 is_ready london 200
	wait_until 20 metric_is london refrelay_scan_failing 0
	expect 0 at london check
	converge
	wait_until 20 at london status
}

tap_test "a secondary whose mount is empty does not start, and says why" \
	a_secondary_whose_mount_is_empty_does_not_start
tap_test "a mount that goes while the node runs gets no copy" \
	a_mount_that_goes_while_the_node_runs_gets_no_copy
tap_test "lost copies are copied anew when a person says so" \
	lost_copies_are_copied_anew_when_a_person_says_so
tap_test "another directory is compared whole" another_directory_is_compared_whole
tap_test "a primary says that its mount is empty" a_primary_says_that_its_mount_is_empty
tap_done
