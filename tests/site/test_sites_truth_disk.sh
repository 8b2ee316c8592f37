#!/usr/bin/env bash
# What cannot be written down is not known: a site with a full disk is not in sync. Commands
# that only read answer all the while, also on a read-only disk, and write nothing.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/truth.sh"

# As with all commands that only read.
reads_answer() { # SITE
	find "$1/data" "$1/git" -not -name '*-shm' -printf '%p %y %s %T@\n' | sort >before
	says_nothing_of_it "$1"
	at "$1" status --json >status.json || [ $? -eq 3 ]
	at "$1" repository list | grep -c one
	at "$1" repository show one >show
	at "$1" lease list >leases
	at "$1" repository resync --all --dry-run >dry
	at "$1" events >events || true
	find "$1/data" "$1/git" -not -name '*-shm' -printf '%p %y %s %T@\n' | sort >after
}

mount_here() { # DIRECTORY
	[ "$(id -u)" -eq 0 ] || skip "only root can mount a file system of a certain size"
	mkdir -p "$1"
	mount -t tmpfs -o size=6m,mode=700 refrelay-test "$1" 2>/dev/null || skip "no tmpfs can be mounted here"
	# shellcheck disable=SC2064
	trap "umount -l '$PWD/$1'" EXIT
}

fill() { # DIRECTORY
	head -c 20000000 /dev/zero >"$1/filler" 2>/dev/null || true
}

is_ready() {
	[ "$(curl -sS -o ready -w '%{http_code}' "$(site_url paris)/readyz")" = "$1" ]
}

# What is written goes to a file that the next start does not find.
its_file_is_moved() {
	mv paris/data/refrelay.db paris/data/moved
	wait_until $THIRTY_SECONDS is_ready 503
	wait_until 10 was_logged paris node.not_written 'err=.*removed or replaced while in use'
	wait_until $THIRTY_SECONDS says_nothing_of_it london
	mv paris/data/moved paris/data/refrelay.db
	wait_until 20 all_say_it
	wait_until 10 is_ready 200
}

a_full_disk_of_the_database() {
	begin
	mount_here paris/data
	start_sites
	wait_until 20 all_say_it
	wait_until 10 is_ready 200
	grep -q '"in_sync":true' ready
	metric_is paris refrelay_in_sync 1
	metric_is london 'refrelay_secondary_in_sync{site="paris"}' 1
	fill paris/data
	wait_until $THIRTY_SECONDS says_nothing_of_it paris
	grep -q 'could not write to its disk for .*\(No space left\|full\)' paris/says
	wait_until $THIRTY_SECONDS says_nothing_of_it london
	is_ready 503
	grep -q '"in_sync":false,"not_in_sync":"not_written"' ready
	metric_is paris refrelay_in_sync 0
	metric_is paris 'refrelay_not_in_sync{class="not_written"}' 1
	metric_is london 'refrelay_secondary_in_sync{site="paris"}' 0
	reads_answer paris
	expect 1 at paris check
	grep -q '^FAIL .*data .*No space left' out
	rm paris/data/filler
	wait_until 20 all_say_it
	wait_until 10 is_ready 200
	its_file_is_moved
}

a_full_disk_of_the_copies() {
	begin
	mount_here paris/git
	start_sites
	wait_until 20 all_say_it
	fill paris/git
	wait_until $THIRTY_SECONDS says_nothing_of_it paris
	grep -q 'could not write to its disk for .*paris/git' paris/says
	[ "$(status_of paris reason)" = not_written ]
	expect 1 at paris check
	grep -q '^FAIL .*MiB are free at .*paris/git' out
	rm paris/git/filler
	wait_until 20 all_say_it
}

# With a node, after it ended well, and after it was killed.
a_read_only_disk() {
	begin
	mount_here paris/data
	start_sites
	wait_until 20 all_say_it
	stop_site paris
	reads_answer paris # which could write now
	diff before after
	mount -o remount,ro paris/data
	reads_answer paris
	diff before after
	mount -o remount,rw paris/data
	start_site paris
	wait_until 20 all_say_it
	kill_site paris
	reads_answer paris
	diff before after
	mount -o remount,ro paris/data
	reads_answer paris
	diff before after
	grep -q '3 of 3 repositories verified' paris/says
}

# A node runs, and who asks sees its directory read-only.
a_read_only_view() {
	[ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null || skip "no mount namespaces here"
	begin
	start_sites
	wait_until 20 all_say_it
	unshare -m sh -c 'mount --bind paris paris && mount -o remount,ro,bind paris &&
		! touch paris/data/x 2>/dev/null && "$1" -c paris/refrelay.conf status' sh "$REFRELAY" >out
	head -n 1 out | grep -q '^in sync, verified: 3 repositories'
}

nothing_was_ever_kept() {
	begin
	says_nothing_of_it paris
	at paris repository list >out
	at paris lease list >>out
	[ ! -s out ]
	[ ! -e paris/data ]
}

tap_test "the database's disk is full, or its file is moved" a_full_disk_of_the_database
tap_test "the copies' disk is full" a_full_disk_of_the_copies
tap_test "the disk is read-only, and no node runs" a_read_only_disk
tap_test "a running node is looked at through a read-only mount" a_read_only_view
tap_test "commands that only read make nothing" nothing_was_ever_kept
tap_done
