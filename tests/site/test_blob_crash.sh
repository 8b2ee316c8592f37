#!/usr/bin/env bash
# kill -9 at every named point while a secondary brings and removes blobs: no file is ever
# half there, nothing is left behind, and what the next one makes of it is the same as at
# the primary.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/blob_crash.sh"

dies_while_it_brings() { # POINT...
	local point

	start_blob_sites
	for point; do
		dies_at paris "$point" change_blobs
	done
}

remove_some() {
	rm -r london/uploads/gone
	rm "$(find london/lfs -type f | head -n 1)"
}

dies_while_it_removes() {
	local point

	start_blob_sites
	for point in blob.discarded blob.discarded@2 removal.trashed; do
		put_file gone/a/b
		put_file gone/c
		put_object
		wait_until 20 is_whole
		dies_at paris "$point" remove_some
	done
	# What was removed is kept for a while, each once.
	[ "$(find paris/uploads/.refrelay/trash paris/lfs/.refrelay/trash -type f | wc -l)" = 9 ]
}

reverify() {
	wait_until 10 is_serving paris
	at paris blob reverify --all
}

dies_while_it_verifies() {
	local point

	start_blob_sites
	for point in verify.claimed verify.read verify.done; do
		dies_at paris "$point" reverify
	done
}

verified_as() { # WORD
	curl -fsS -m 30 "$(site_url paris)/metrics" |
		sed -n "s/^refrelay_verifications_total{.*\"uploads\".*\"$1\"} //p"
}

has_verified() { # WORD COUNT
	[ "$(verified_as "$1")" -ge "$2" ]
}

# A claim lasts for sync.timeout; after a quarter of it no other one is begun.
what_is_not_read_in_time_is_due_again() {
	start_blob_sites
	stop_site paris
	set_conf paris sync.timeout 4s
	start_site paris REFRELAY_FAILPOINT=verify.read=stop
	at paris blob reverify --all --type uploads
	wait_until 20 is_paused paris
	sleep 1.5
	kill -CONT "$(site_pid paris)"
	wait_until 20 has_verified superseded 2
	wait_until 20 has_verified proved 3
	[ "$(verified_as disproved)" -eq 0 ]
}

bytes_of_last_sync() {
	grep ' ev=blob.done ' paris/log | tail -n 1 | grep -o ' bytes=[0-9]*' | cut -d = -f 2
}

# What it is to bring is there only then.
restart_to_die_at() { # POINT SIZE
	kill_site paris
	put_file huge "$2"
	start_or_die paris "REFRELAY_FAILPOINT=$1=kill"
}

# Pieces have 256 KiB, ranges 64 MiB: in the middle of the first one, and of the second.
a_large_one_is_continued() {
	start_blob_sites
	restart_to_die_at blob.written@100 75497472
	is_killed_within 15 paris
	fails test -e paris/uploads/huge
	test "$(temporaries -size +25599k -printf x)" = x
	launch_site paris REFRELAY_FAILPOINT=blob.written@170=kill
	is_killed_within 15 paris
	no_half_blob paris
	start_site paris
	is_whole_again
	[ "$(bytes_of_last_sync)" -le 4718592 ] || fail "$(bytes_of_last_sync) came again"
}

part_of() { # of the only one that is being brought
	temporaries -name '*.part'
}

# A crash of the machine may leave anything in what was written last.
a_damaged_part_is_not_believed() {
	start_blob_sites
	restart_to_die_at blob.written@40 20000000
	is_killed_within 15 paris
	head -c 4096 /dev/zero | dd of="$(part_of)" bs=4096 seek=2000 conv=notrunc status=none
	start_site paris
	wait_until 10 was_logged paris blob.wrong
	no_half_blob paris
	at paris blob sync --type uploads huge
	is_whole_again
}

# It changes while half of it is here: nothing of the old one is in the new one.
a_part_of_another_version_is_of_no_use() {
	local part

	start_blob_sites
	restart_to_die_at blob.written@40 20000000
	is_killed_within 15 paris
	put_file huge 20000000
	part=$(part_of)
	test -f "$part"
	touch -d '8 days ago' "$part"
	start_site paris
	is_whole_again
	[ "$(bytes_of_last_sync)" -ge 20000000 ]
}

tap_test 'what is not read in time is due again' what_is_not_read_in_time_is_due_again
tap_test "killed between a claim and the last byte" \
	dies_while_it_brings blob.claimed blob.written blob.written@3
tap_test "killed while what has come gets its place" \
	dies_while_it_brings blob.received blob.synced blob.renamed blob.renamed@3 blob.recorded
tap_test "killed while it removes" dies_while_it_removes
tap_test "killed while it verifies" dies_while_it_verifies
tap_test "a large one is continued" a_large_one_is_continued
tap_test "a damaged part is not believed" a_damaged_part_is_not_believed
tap_test "a part of another version is of no use" a_part_of_another_version_is_of_no_use
tap_done
