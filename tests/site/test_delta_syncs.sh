#!/usr/bin/env bash
# What a small change costs the secondary of flushes to its disk, and that it starts nothing;
# what has to be flushed first.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/chains.sh"

# Of a copy: pack, its index and their folder; packed-refs and the folder of the copy. Where
# one log orders all (ext4 with a journal, XFS) the folders alone.
COPY_SYNCS=5
# Of the database: that it was done. A power cut takes what is to be done and the position
# in the log back together, and the events come again.
DATA_SYNCS=1

calls_begin() { # [SITE [CALLS]]
	command -v strace >/dev/null || skip "no strace to see the calls with"
	strace -f -y -o calls \
		-e trace="${2:-fsync,fdatasync,syncfs,sync,sync_file_range,renameat,execve,execveat}" \
		-p "$(site_pid "${1:-paris}")" 2>strace.err &
	tracer=$!
	wait_until 20 is_traced
}

is_traced() {
	grep -q attached strace.err && return
	! grep -q 'not permitted' strace.err || skip "strace may not be used here"
	return 1
}

calls_end() {
	kill "$tracer" && wait "$tracer" || true
}

# Since line FROM of the calls.
count_calls() { # FROM PATTERN
	tail -n +"$1" calls | grep -cE "$2" || true
}

next_line() {
	echo $(($(wc -l <calls) + 1))
}

# Others flush now and then (that the site lives, the log of the database): what the
# cheapest of some changes took, a change takes.
keep_least() { # FILE NUMBER
	[ -s "$1" ] && [ "$(<"$1")" -le "$2" ] || echo "$2" >"$1"
}

start_with() { # REPOSITORY...
	local name
	make_sites
	set_conf paris sync.consistencyInterval 1h
	for name; do
		make_repository "london/git/$name.git" 3
		make_chain "$name" 8
	done
	start_sites
	wait_until 20 in_sync
	same_sites
}

changes_one() { # NUMBER
	echo "$PWD/london/git/r.git refs/heads/main $(sed -n "${1}p" chains/r)" >lines
	change lines
}

# On the way to the disk, before the refs that it announces have their name: new refs whose
# intent is an old one would be taken for another program's after a power failure.
intent_goes_first() {
	awk '/sync_file_range\(.*refrelay\/intent>/ { is_begun = 1 }
		/renameat\(.*"packed-refs"/ { bad += !is_begun; is_begun = 0; count++ }
		END { exit bad || !count }' calls
}

one_change_costs_few_flushes() {
	local number from first
	start_with r
	first=$(row_of london r .generation)
	calls_begin
	for number in 1 2 3 4 5 6; do
		from=$(next_line)
		changes_one "$number"
		wait_for_generation $((first + number)) r
		keep_least of_copy "$(count_calls "$from" 'sync(fs)?\(.*/paris/git/')"
		keep_least of_data "$(count_calls "$from" 'sync(fs)?\(.*/paris/data/')"
	done
	[ "$(count_calls 1 'exec')" -eq 0 ] || fail "it started $(grep exec calls)"
	[ "$(logged paris sync.done 'way=delta')" -eq 7 ] # with the first copy
	calls_end
	echo "of the copy: $(<of_copy), of the database: $(<of_data)"
	cat calls
	[ "$(<of_copy)" -ge 2 ]
	[ "$(<of_copy)" -le "$COPY_SYNCS" ]
	[ "$(<of_data)" -ge 1 ]
	[ "$(<of_data)" -le "$DATA_SYNCS" ]
	intent_goes_first
	same_sites
}

# All that has come to be known meanwhile is taken over in one transaction, and what came to
# one repository is brought at once.
many_changes_share_them() {
	local names=(a b c d e f g h) name number
	start_with "${names[@]}"
	calls_begin
	kill -STOP "$(site_pid paris)"
	for number in 1 2 3 4; do
		for name in "${names[@]}"; do
			echo "$PWD/london/git/$name.git refs/heads/main $(sed -n "${number}p" "chains/$name")"
		done
	done >lines
	change lines
	kill -CONT "$(site_pid paris)"
	wait_until 20 in_sync
	calls_end
	same_sites
	[ "$(logged paris sync.done 'way=delta')" -ge 12 ] # 8 are first copies
	# one more change may have been known when it stopped; 4 for what else is written
	[ "$(count_calls 1 'sync(fs)?\(.*/paris/git/')" -le $((9 * COPY_SYNCS)) ]
	[ "$(count_calls 1 'sync.*/paris/data/.*refrelay.db')" -le $((2 + 9 + 4)) ]
}

# Its sender may forget it then.
a_change_is_on_disk_before_it_is_acknowledged() {
	local number
	start_with r
	calls_begin london fdatasync,recvmsg,sendto
	for number in 1 2 3; do
		changes_one "$number"
		wait_until 20 in_sync
	done
	calls_end
	cat calls
	awk '/recvmsg.*"changed / { told = $1; is_synced = 0 }
		/fdatasync\(.*\/london\/data\/refrelay.db/ { is_synced = 1 }
		/sendto\(/ && $1 == told { bad += !is_synced; told = ""; count++ }
		END { exit bad || count != 3 }' calls
}

# Else a row might come back whose copy is in the trash.
a_deletion_is_on_disk_before_the_copy_is_moved() {
	local from
	start_with r s
	calls_begin paris fdatasync,rename,renameat,renameat2
	from=$(next_line)
	remove_repository london/git/r.git
	report_removed london r
	wait_until 20 test ! -e paris/git/r.git
	calls_end
	tail -n +"$from" calls >since
	cat since
	awk '/fdatasync\(.*\/paris\/data\/refrelay.db/ { is_synced = 1 }
		/rename.*"r\.git"/ { bad += !is_synced; count++ }
		END { exit bad || !count }' since
}

tap_test 'a change is on disk before it is acknowledged' \
	a_change_is_on_disk_before_it_is_acknowledged
tap_test 'a deletion is on disk before the copy is moved' \
	a_deletion_is_on_disk_before_the_copy_is_moved
tap_test 'one change costs few flushes, and no process' one_change_costs_few_flushes
tap_test 'many changes share them' many_changes_share_them
tap_done
