#!/usr/bin/env bash
# Verifications that go on all the time beside everything else: what is well stays well,
# changes and deaths in the middle of one are neither lost nor called failures.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/verify.sh"

make_all_kinds() {
	make_repository london/git/plain.git 5
	make_repository london/git/sha256.git 5 sha256
	git -C london/git/sha256.git tag -a -m tagged v1 main
	git init -q --bare london/git/empty.git
	git init -q --bare --object-format=sha256 london/git/empty256.git
	make_repository london/git/unborn.git 3
	git -C london/git/unborn.git symbolic-ref HEAD refs/heads/not-yet
	make_repository london/git/detached.git 4
	git -C london/git/detached.git update-ref --no-deref HEAD main~2
	make_repository london/git/alias.git 3
	git -C london/git/alias.git symbolic-ref refs/heads/alias refs/heads/main
	make_repository london/git/odd.git 3
	git -C london/git/odd.git update-ref refs/blobs/b main:part-1/file-1.txt
	git -C london/git/odd.git update-ref refs/trees/t 'main^{tree}'
}

all_kinds_stay_verified_on_both_sides() {
	local name before
	make_sites
	set_conf london sync.reverifyInterval 1s
	make_all_kinds
	start_verified
	are_verified_again london 2
	are_verified_again paris 2
	nothing_failed
	[ "$(metric paris 'refrelay_verifications_total{kind="repository",state="proved"}')" -ge 16 ]
	# Who asks sees a site in sync all the while.
	for _ in $(seq 20); do
		expect 0 at paris status
	done
	# HEAD of an empty repository is all there is to compare.
	before=$(row_of paris empty checksum)
	in_copy empty.git symbolic-ref HEAD refs/heads/other
	in_copy detached.git symbolic-ref HEAD refs/heads/main
	for name in empty detached; do
		wait_until 10 was_logged paris verify.mismatch "repo=$name"
	done
	converge
	[ "$(row_of paris empty checksum)" = "$before" ]
}

# What was to be verified within a day is due by the new interval, without a restart.
a_shorter_interval_counts_at_once() {
	local site
	make_sites
	make_repository london/git/r.git 3
	start_verified
	for site in london paris; do
		set_conf $site sync.reverifyInterval 1s
		kill -HUP "$(site_pid $site)"
		are_verified_again $site
	done
	nothing_failed
}

# Of all sorts, also such that drop what a verification may just be reading.
pushes_while_both_sides_verify_are_no_failures() {
	local i
	make_sites
	set_conf london sync.reverifyInterval 1s
	make_repository london/git/r.git 30
	at london hooks install
	start_verified
	for i in $(seq 15); do
		case $((i % 5)) in
		0) git -C london/git/r.git gc -q --prune=now ;;
		1) git -C london/git/r.git update-ref refs/heads/main "main~$((i % 3))" ;;
		*) push_change london/git/r.git "topic-$((i % 3))" 2>/dev/null || true ;;
		esac
	done
	converge
	are_verified_again london
	are_verified_again paris
	nothing_failed
	in_sync || wait_until 10 in_sync
}

is_not_verified_for_two_intervals() { # NAME
	local before
	before=$(row_of paris "$1" verified_at)
	at paris repository sync --wait other >synced
	wait_until 10 scanned_thrice "$(logged london watch.scanned)"
	[ "$(row_of paris "$1" verified_at)" = "$before" ]
}

scanned_thrice() { # COUNT
	[ "$(logged london watch.scanned)" -ge $(($1 + 3)) ]
}

the_capacity_of_verification_is_obeyed_at_once() {
	make_sites
	make_repository london/git/r.git 5
	make_repository london/git/other.git 5
	set_conf paris sync.verificationCapacity 0
	start_verified
	is_not_verified_for_two_intervals r
	in_copy r.git update-ref refs/heads/main main~1
	set_conf paris sync.verificationCapacity 1
	kill -HUP "$(site_pid paris)"
	wait_until 10 was_logged paris verify.mismatch
	converge
}

# Evidence of any age would be no evidence.
what_is_overdue_is_verified_no_longer() {
	local site
	make_sites
	make_repository london/git/r.git 5
	start_verified
	for site in london paris; do
		stop_site "$site"
		set_conf "$site" sync.verificationCapacity 0
		sqlite3 "$site/data/refrelay.db" 'UPDATE registry SET verification_due_at = 1000;
			UPDATE origin SET verification_due_at = 1000'
	done
	start_sites
	for site in london paris; do
		wait_until 20 was_logged "$site" verify.overdue
		expect 3 at "$site" status
		set_conf "$site" sync.verificationCapacity 1
		kill -HUP "$(site_pid "$site")"
	done
	converge
}

is_proved_more_often_than() { # COUNT
	[ "$(metric paris 'refrelay_verifications_total{kind="repository",state="proved"}')" -gt "$1" ]
}

# A sync proves what it brings, and no change puts off that what was there before is read.
objects_of_what_changes_all_the_time_are_read() {
	local before
	make_sites
	make_repository london/git/r.git 30
	start_verified
	at london hooks install
	before=$(metric paris 'refrelay_verifications_total{kind="repository",state="proved"}')
	for _ in $(seq 60); do
		push_change london/git/r.git
		if is_proved_more_often_than $((before + 3)); then
			break
		fi
	done
	is_proved_more_often_than $((before + 3))
	nothing_failed
	converge
}

tap_test "all kinds of repositories stay verified, on both sides" \
	all_kinds_stay_verified_on_both_sides
tap_test "a shorter interval counts at once" a_shorter_interval_counts_at_once
tap_test "pushes while both sides verify are no failures" \
	pushes_while_both_sides_verify_are_no_failures
tap_test "the capacity of verification is obeyed at once" \
	the_capacity_of_verification_is_obeyed_at_once
tap_test "what is overdue is verified no longer" what_is_overdue_is_verified_no_longer
tap_test "objects of what changes all the time are read" \
	objects_of_what_changes_all_the_time_are_read
tap_done
