#!/usr/bin/env bash
# What comes is not what the primary sent, or not what it should have sent: no wrong byte
# gets a name, it is told why, and all is well by itself when the answers are right again.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"
. "$TESTS/lib/transfer.sh"

batch='POST./api/v1/retrieve/uploads'
big='GET./api/v1/retrieve/uploads/big'

start_guarded() {
	make_blob_sites make_proxied_sites
	set_conf paris sync.timeout 2s
	start_sites
	python3 "$peers_folder/tree_guard.py" paris/uploads london/uploads found &
	wait_until 10 test -f found.rounds
}

peers_folder=$TESTS/peers

# New content, so that there is something to bring.
make_small() {
	make_blob small/1 10000
	make_blob small/2 10000
	make_blob small/3 10000
}

make_large() {
	make_blob big 3000000
}

# Each file, as it is now.
has_read_all() {
	local path sum said

	said=$(at london blob list --type uploads) && [ -n "$said" ] || return
	! grep -v '^read ' <<<"$said" || return
	while IFS= read -r path; do
		sum=$(sha256sum <"$path") || return
		blob_is london uploads "${path#london/uploads/}" checksum "${sum%% *}" || return
	done < <(find london/uploads -name .refrelay -prune -o -type f -print)
}

# The new content is noticed and read before anybody hears of it.
change() { # FUNCTION
	rules '/retrieve/ drop'
	"$1"
	wait_until 20 has_read_all
}

nothing_wrong_was_seen() {
	local before
	before=$(cat found.rounds)
	wait_until 10 eval '[ "$(cat found.rounds)" -gt '"$((before + 1))"' ]'
	[ ! -s found ] || fail "these had wrong bytes: $(<found)"
}

# The row says what was wrong, and then it comes.
is_told() { # ID CLASS TEXT
	wait_until 20 fails_again uploads "$@"
	status_says 'blobs? of kind uploads failing(, e.g. |: )' # with one class of errors, or more
	nothing_wrong_was_seen
	rules
	wait_until 30 comes
	nothing_wrong_was_seen
	no_leftovers
}

lies_in() { # FUNCTION ID RULE CLASS TEXT
	echo "$3"
	change "$1"
	rules "$3"
	is_told "$2" "$4" "$5"
}

# It comes all the same.
harmless_in() { # FUNCTION RULE
	echo "$2"
	change "$1"
	rules "$2"
	wait_until 30 comes
	nothing_wrong_was_seen
	no_leftovers
	rules
}

in_a_batch() { # ID ACTION CLASS TEXT
	lies_in make_small "$1" "$batch $2" "$3" "$4"
}

in_a_large_one() { # ACTION CLASS TEXT
	lies_in make_large big "$big $1" "$2" "$3"
}

a_batch_is_damaged() {
	start_guarded
	in_a_batch small/3 'flip -20' corrupt 'small/3: what came has the SHA-256'
	in_a_batch small/1 'flip 3' corrupt 'makes no sense'
	in_a_batch small/1 'filter sed s/\"size\":10000/\"size\":10001/' corrupt ''
	in_a_batch small/1 'filter sed s/\"size\":10000/\"size\":9999/' corrupt ''
	in_a_batch small/1 'filter sed s,small/1,small/2,' corrupt 'turn'
	in_a_batch small/1 'filter head -c 5000' network 'cut off'
	in_a_batch small/1 'filter head -c 0' network 'cut off'
}

a_batch_is_odd() {
	start_guarded
	in_a_batch small/1 'status 500' network 'status 500'
	in_a_batch small/1 'status 404' network 'status 404'
	in_a_batch small/1 'junk' corrupt 'JSON'
	in_a_batch small/1 'stall 0' timeout ''
	in_a_batch small/3 'stall 5000' timeout ''
	harmless_in make_small "$batch filter head -c 15000"
	harmless_in make_small "$batch garble 0"
	harmless_in make_small "$batch endless"
}

a_large_one_is_damaged() {
	start_guarded
	in_a_large_one 'flip 1500000' corrupt 'big: what came has the SHA-256'
	in_a_large_one 'garble 1' 'network|corrupt' 'transfer|chunk|makes no sense|SHA-256'
	in_a_large_one 'filter head -c 0' corrupt 'nothing of big'
	in_a_large_one 'endless' corrupt 'longer than it says'
	in_a_large_one 'stall 100000' timeout ''
	in_a_large_one 'stall 0' timeout ''
	harmless_in make_large "$big filter head -c 1000000"
}

the_head_of_a_large_one_is_wrong() {
	local zeros
	zeros=$(printf '%064d' 0)
	start_guarded
	in_a_large_one 'header Content-Range: bytes 0-999/1000' corrupt ''
	in_a_large_one 'header Content-Range: bytes 5-3000004/3000005' corrupt 'the range'
	in_a_large_one 'header Content-Range: none' corrupt 'the range'
	in_a_large_one 'header ETag: "none"' corrupt 'ETag'
	in_a_large_one "header Refrelay-Checksum: $zeros" corrupt "not $zeros"
	in_a_large_one 'header Refrelay-Checksum: none' corrupt 'Refrelay-Checksum'
	harmless_in make_large "$big header ETag: \"1111111111111111-1\""
}

a_part_is_here() {
	[ -n "$(find paris/uploads/.refrelay/incoming -name '*.part' -size +200k)" ] &&
		blob_fails uploads big network 'transfer closed' && return
	at paris blob sync --failed >sync.out 2>&1
	return 1
}

# A part is here, and what stands between does not know ranges, or has an old one.
a_resumed_one_gets_an_old_part() {
	start_guarded
	change make_large
	rules "$big cut 100000"
	wait_until 20 a_part_is_here
	rules "$big header Content-Range: bytes 0-2999999/3000000"
	# Once: the next try has no part to go on with, and comes through.
	at paris blob sync --failed --wait >sync.out 2>&1 || true
	is_told big corrupt 'the range'
}

tap_test 'a batch is damaged on its way' a_batch_is_damaged
tap_test 'a batch is no batch, or has no end, or does not come' a_batch_is_odd
tap_test 'a large blob is damaged on its way' a_large_one_is_damaged
tap_test 'the head of a large blob is wrong' the_head_of_a_large_one_is_wrong
tap_test 'a part that was not asked for is not put behind what is here' \
	a_resumed_one_gets_an_old_part
tap_done
