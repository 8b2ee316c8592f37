#!/usr/bin/env bash
# kill -9 at every named point while a primary records files, reads them, and takes them
# in: what it has answered for is there and told, what it has not is there as a whole or
# not at all, and the secondary ends equal.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/blob_crash.sh"

change_and_remove() {
	change_blobs
	rm london/uploads/a/one
}

dies_while_it_records() { # POINT...
	local point

	start_blob_sites
	for point; do
		dies_at london "$point" change_and_remove
	done
}

reverify() {
	at london blob reverify --type uploads large || has_died london
}

dies_while_it_verifies() {
	local point

	start_blob_sites
	for point in blobs.record blobs.recorded; do
		dies_at london "$point" reverify
	done
}

start_put_sites() {
	start_blob_sites
	give_token london boss operate
	stop_site london
	start_site london
}

# The status of the answer, as the last line of ./answers; none where there was none.
put_blob() { # FILE ID [SITE]
	curl -sS -m 30 -o put.body -w "%{http_code} $2\n" -T "$1" \
		-H "Authorization: Bearer $(cat boss.token)" \
		-H "Content-Digest: sha-256=:$(openssl dgst -sha256 -binary "$1" | base64):" \
		"$(site_url "${3:-london}")/api/v1/blobs/uploads/${2//\//%2F}" >>answers 2>put.err
}

make_put() { # ID [BYTES]
	make_new "${2:-}"
	know new/file "uploads/$1"
}

# The client is told nothing, and sends it again. The first is new, others take its place.
dies_while_it_takes_in() { # POINT...
	local point

	start_put_sites
	for point; do
		make_put put/1 700000
		dies_at london "$point" fails put_blob new/file put/1
		put_blob new/file put/1
		grep -Eqx "20[01] put/1" answers
		cmp new/file london/uploads/put/1
		wait_until 20 is_whole
	done
	[ "$(find london/uploads/put -type f | wc -l)" = 1 ]
	blob_events_are_dense
}

# Its answer may get lost: then it is there, and told.
dies_when_it_is_done() {
	start_put_sites
	for number in 1 2; do
		make_put put/1 700000
		dies_at london blobs.committed fails put_blob new/file put/1
		at london events --json | tail -n 1 | grep -F '"name":"put/1"' |
			grep -F "$(sha256sum <new/file | cut -c 1-64)"
		cmp new/file london/uploads/put/1
	done
}

put_in_a_row() { # WHO
	local i

	for i in $(seq 60); do
		has_died london && return
		put_blob "new/put.$i" "row/$number/$1/$i" || return 0
	done
}

puts_in_flight() {
	local who
	local -a pids=()

	for who in 1 2 3; do
		put_in_a_row "$who" &
		pids+=($!)
	done
	wait "${pids[@]}"
}

# Whatever it answered for is there and told; each has a content of its own.
nothing_that_was_answered_for_is_lost() {
	local i who code id point

	start_put_sites
	for i in $(seq 60); do
		head -c $((i * 1000)) /dev/urandom >"new/put.$i"
		for who in 1 2 3; do
			know "new/put.$i" "uploads/row/1/$who/$i"
			know "new/put.$i" "uploads/row/2/$who/$i"
		done
	done
	for point in blobs.committed@20 blob.renamed@25; do
		number=$((number + 1))
		: >answers
		dies_at london "$point" puts_in_flight
		grep -q ^20 answers
		while read -r code id; do
			[ "${code:0:2}" = 20 ] || continue
			cmp "new/put.${id##*/}" "london/uploads/$id"
			grep -F "\"name\":\"$id\"" events |
				grep -qF "$(sha256sum <"london/uploads/$id" | cut -c 1-64)"
		done <answers
	done
}

tap_test "killed while it records changes" \
	dies_while_it_records blobs.commit blobs.committed blobs.record blobs.recorded
tap_test "killed while it verifies" dies_while_it_verifies
tap_test "killed while it takes one in" \
	dies_while_it_takes_in blob.renamed blob.written@2 blob.synced blobs.commit
tap_test "killed when all is done but the answer" dies_when_it_is_done
tap_test "nothing that was answered for is lost" nothing_that_was_answered_for_is_lost
tap_done
