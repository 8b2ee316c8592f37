#!/usr/bin/env bash
# Where a node cannot work it does not start, and says why.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

refuses() { # STATUS PATTERN [COMMAND...]
	local status=$1 pattern=$2
	shift 2
	expect "$status" at london "${@:-serve}"
	grep -qE "$pattern" err out || { cat err; return 1; }
}

few_descriptors() {
	local files

	make_sites
	for files in 24 64 200; do
		(
			ulimit -n "$files"
			refuses 2 "the limit of open files is $files"
			grep -q 'hint: .*LimitNOFILE=' err
		)
	done
	# The soft limit is no limit.
	(
		ulimit -Sn 24
		start_site london
		stop_site london
	)
}

little_address_space() {
	local kib status

	grep -qa __asan_init "$REFRELAY" && skip "with sanitizers there is never enough"
	make_sites
	for kib in 60000 150000 300000 400000; do
		status=0
		(ulimit -v "$kib" && timeout -s TERM 3 "$REFRELAY" -c london/refrelay.conf serve) \
			>out 2>err || status=$?
		[ "$status" -le 2 ] || [ "$status" -eq 124 ] || fail "status $status with $kib KiB: $(<err)"
		[ "$status" -eq 0 ] || [ -s err ]
	done
}

a_data_directory_that_others_may_enter() {
	local mode

	make_sites
	start_site london
	[ "$(stat -c %a london/data)" = 700 ]
	stop_site london
	for mode in 755 710 701 777; do
		chmod "$mode" london/data
		refuses 2 "other users can enter site.data \\($PWD/london/data has mode 0$mode\\)"
		grep -qx "  hint: chmod 700 $PWD/london/data" err
		refuses 1 "FAIL.*other users can enter site.data" check
	done
	chmod 700 london/data
	start_site london
	stop_site london
}

# What root makes there the owner could not open any more.
a_data_directory_of_another_user() {
	[ "$(id -u)" -eq 0 ] || skip "only root is refused"
	make_sites
	mkdir london/data
	chown 12345 london/data
	chmod 700 london/data
	refuses 2 "site.data \\($PWD/london/data\\) belongs to user .*, but this is root"
	grep '  hint: run it as that user: sudo -u' err
	refuses 1 "FAIL.*belongs to user .*, but this is root" check
	set_conf london remote.r.url 'file:///nowhere/${name}.git'
	set_conf london mirror.m.url http://127.0.0.1:1/m.git
	make_repository london/git/a.git 1
	refuses 2 'belongs to user .*, but this is root' push start a
	refuses 2 'belongs to user .*, but this is root' repository reverify a
	refuses 2 'belongs to user .*, but this is root' mirror sync m
	refuses 2 'belongs to user .*, but this is root' changed a
	[ -z "$(ls -A london/data)" ]
}

# Root's keys there no other node could take again; with leases in the database, root may take them.
leases_of_another_user() {
	[ "$(id -u)" -eq 0 ] || skip "only root is refused"
	make_sites
	expect 0 at london lease run k -- true
	mkdir shared
	set_conf london lease.backend directory
	set_conf london lease.path "$PWD/shared"
	expect 0 at london lease run k -- true
	expect 0 at london lease list
	rm -r shared/*
	chown 12345 shared
	refuses 2 "lease.path \\($PWD/shared\\) belongs to user .*, but this is root" lease run k -- true
	refuses 2 'lease.path .* belongs to user' lease release k --fence 1 --reason test
	chown 0 shared
	chown 12345 london/data
	refuses 2 'site.data .* belongs to user' lease run k -- true
	[ -z "$(ls -A shared)" ]
	expect 0 at london lease list
}

recorded_refs_are_private() {
	make_sites
	make_repository london/git/a.git 1
	umask 022
	start_site london
	wait_until 20 was_logged london change.noticed
	find london/data/refs -type f >files
	[ -s files ]
	[ -z "$(find london/data/refs -type f ! -perm 600)" ]
	stop_site london
}

tap_test 'few descriptors' few_descriptors
tap_test 'little address space' little_address_space
tap_test 'a data directory that others may enter' a_data_directory_that_others_may_enter
tap_test 'a data directory of another user' a_data_directory_of_another_user
tap_test 'leases of another user' leases_of_another_user
tap_test 'recorded refs are private' recorded_refs_are_private
tap_done
