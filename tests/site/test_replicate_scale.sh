#!/usr/bin/env bash
# A thousand repositories: all equal; what has not changed costs no process.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"
. "$TESTS/lib/scale.sh"

a_thousand_repositories() {
	make_many 1000
	run 0 created=1000
	took "1,000 repositories for the first time"
	all_are_equal
	sample_is_sound 0/repo-0.git 4/repo-444.git 9/repo-999.git
	run 0 unchanged=1000
	took "1,000 repositories without a change"
	awk 'NR % 100 == 1 { print $0 }' paths | while read -r path; do
		sed -i "1s/^[0-9a-f]*/$(sed -n 5p commits)/" "$path/packed-refs"
	done
	run 0 updated=10 unchanged=990
	took "1,000 repositories with 10 changes"
	all_are_equal
	sample_is_sound 0/repo-0.git 9/repo-900.git
	no_left_overs
}

# Right after a change, too, when stamps are too young to prove anything.
no_process_is_started_without_a_change() {
	make_many 20
	run 0 created=20
	command -v strace >/dev/null || skip "no strace to see the processes with"
	strace -f -qq -e trace=execve -o calls true || skip "strace may not be used here"
	# A sanitized build cannot look for leaks while it is traced.
	ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 \
		expect 0 strace -f -qq -e trace=execve,execveat,fork,vfork,clone,clone3 -o calls \
		"$REFRELAY" replicate --json source dest
	test "$(grep -c exec calls)" -eq 1
	fails grep -q fork calls
	grep -E ' clone3?\(' calls >clones # of threads
	[ -s clones ]
	fails grep -v CLONE_THREAD clones
}

tap_test "a thousand repositories" a_thousand_repositories
tap_test "no process is started without a change" no_process_is_started_without_a_change
tell_times
tap_done
