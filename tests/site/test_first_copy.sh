#!/usr/bin/env bash
# The first copy of a repository of some size: its packs come as files, are proved, and only
# then is the copy there.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"
. "$TESTS/lib/transfer.sh"
. "$TESTS/lib/served.sh"

pack='GET./api/v1/repositories/[^/]*/packs/.*pack'
index='GET./api/v1/repositories/[^/]*/packs/.*idx'
list='GET./api/v1/repositories/[^/]*/packs$'

# Its history, and a blob that compresses to nothing less, in one pack.
make_large() { # PATH [BYTES [FORMAT]]
	make_repository "$1" 20 "${3:-sha1}"
	head -c "${2:-3000000}" /dev/urandom >random
	add_file "$1" random
	git -C "$1" repack -adq
}

# By git, as a commit on main.
add_file() { # PATH FILE
	local work
	work=$(mktemp -d work.XXXXXX)
	git clone -q "$1" "$work"
	cp "$2" "$work/"
	(cd "$work" && git add . && git commit -qm file && git push -q origin HEAD:refs/heads/main)
	rm -rf "$work"
}

make_sites_with_large() { # [BYTES]
	make_proxied_sites
	make_large london/git/big.git "$@"
	start_site london
}

# The secondary asks its primary itself.
without_proxy() {
	make_sites
	make_large london/git/big.git
}

# No temporary file, and no pack without its index.
nothing_is_left() {
	local left
	left=$(find paris/git -name 'tmp_*' -o -path '*/.refrelay/staging/*' -o -name '*.pack' \
		-exec sh -c '[ ! -e "${1%pack}idx" ]' sh {} \; -print)
	[ -z "$left" ] && return
	echo "$left"
	return 1
}

copies_are() { # STATE NUMBER
	[ "$(metric_of paris "refrelay_pack_copies_total{state=\"$1\"}")" = "$2" ]
}

# Nothing was wrong with what came by git.
came_by_git() {
	wait_until 60 is_healed
	nothing_is_left
	asked_for 'POST /big.git/git-upload-pack'
	fails was_logged paris sync.packs
	git -C paris/git/big.git fsck
}

a_large_copy_goes_by_packs() {
	make_proxied_sites
	make_large london/git/big.git
	make_large london/git/sha256.git 2000000 sha256
	make_repository london/git/small.git
	start_sites
	wait_until 60 in_sync
	same_sites
	is_logged 2 paris sync.packs 'copied_ms=[0-9]+ complete=yes'
	copies_are copied 2
	fails asked_for 'POST /(big|sha256).git/git-upload-pack'
	fails asked_for 'POST /small.git/git-upload-pack'
	asked_for 'POST .*repositories/small/delta'
	fails asked_for 'repositories/small/packs'
	for repository in big sha256; do
		cmp london/git/$repository.git/objects/pack/*.pack \
			paris/git/$repository.git/objects/pack/*.pack
		cmp london/git/$repository.git/objects/pack/*.idx \
			paris/git/$repository.git/objects/pack/*.idx
		git -C paris/git/$repository.git fsck
	done
	[ "$(metric_of london refrelay_packs_retrieved_bytes_total)" -gt 5000000 ]
	nothing_is_left
}

# What was pushed since it was packed comes by git, and no more than that.
what_is_loose_follows_by_git() {
	make_proxied_sites
	make_large london/git/big.git
	echo more >more
	git -C london/git/big.git config receive.unpackLimit 1000
	add_file london/git/big.git more
	[ -n "$(find london/git/big.git/objects/?? -type f)" ]
	start_sites
	wait_until 60 in_sync
	same_sites
	is_logged 1 paris sync.packs complete=no
	[ "$(sent 'POST /big.git/git-upload-pack')" -lt 100000 ] ||
		fail "$(sent 'POST /big.git/git-upload-pack') bytes came by git"
	git -C paris/git/big.git fsck
}

tells() { # VALUE MEMBER
	[ "$(status_of paris "$2")" = "$1" ] || fail "$(at paris status --json)"
}

has_received() { # BYTES
	local left
	left=$(status_of paris repositories.bytes_to_come)
	[ "${left:-0}" -gt 0 ] && [ "$left" -le $((3000000 - $1)) ]
}

bytes_to_come_are_known() {
	make_sites_with_large
	rules "$pack stall 1000000"
	start_site paris
	wait_until 60 has_received 900000
	[ "$(status_of paris repositories.bytes_to_come)" -gt 1900000 ]
	tells 0 repositories.of_unknown_size
	curl -sS "$(site_url paris)/api/v1/running" >running
	grep -qE '"size":30[0-9]{5},' running || fail "$(<running)"
	grep -q '"phase":"copying"' running || fail "$(<running)"
	tells 0 repositories.copied
	rules
	wait_until 100 in_sync
	tells 0 repositories.bytes_to_come
}

is_slow() {
	at paris status >said || [ $? -eq 3 ]
	grep -q '; the primary is slow: a request has been waiting for an answer for [0-9]* s' said
}

a_primary_without_an_answer_is_slow() {
	make_sites_with_large
	rules "$list stall 0"
	start_site paris
	wait_until 40 asked_for "$list"
	fails is_slow # yet
	grep -q "1 repository of 1 to copy" said || fail "$(<said)"
	tells "" repositories.bytes_to_come # unknown
	tells 1 repositories.of_unknown_size
	wait_until 30 is_slow
	at paris status --json >said || [ $? -eq 3 ]
	grep -q '"delays":\[{"cause":"primary_slow","message":"the primary is slow' said || fail "$(<said)"
	rules
	wait_until 60 in_sync
	wait_until 10 expect 0 at paris status --json
	grep -q '"delays":\[\]' out
}

is_cut_and_goes_on() {
	make_sites_with_large
	rules "$pack cut 1000000"
	start_site paris
	wait_until 60 in_sync
	same_sites
	is_logged 3 paris sync.pack_resumed
	is_logged 1 paris sync.packs
	[ "$(sent "$pack")" -lt 3300000 ] || fail "$(sent "$pack") bytes were sent"
	git -C paris/git/big.git fsck
}

is_cut_all_the_time() {
	make_sites_with_large
	rules "$pack cut 100000"
	start_site paris
	wait_until 60 in_sync
	same_sites
	was_logged paris sync.pack_resumed wait_ms=0
	fails was_logged paris sync.pack_resumed 'wait_ms=[1-9]'
	is_logged 1 paris sync.packs
	fails asked_for 'POST /big.git/git-upload-pack'
}

is_away_and_comes_back() {
	make_sites_with_large
	rules "$pack stall 1000000"
	start_site paris
	wait_until 60 has_received 900000
	rules refuse
	wait_until 60 was_logged paris sync.pack_resumed wait_ms=2000
	rules
	wait_until 60 in_sync
	same_sites
	is_logged 1 paris sync.packs
	fails asked_for 'POST /big.git/git-upload-pack'
	[ "$(sent "$pack")" -lt 3300000 ] || fail "$(sent "$pack") bytes were sent"
	nothing_is_left
}

is_repacked_meanwhile() { # PATTERN BYTES
	local before

	make_sites_with_large
	before=$(echo london/git/big.git/objects/pack/*.pack)
	rules "$1 stall $2"
	start_site paris
	wait_until 40 asked_for "$1"
	git -C london/git/big.git -c pack.compression=0 repack -adqF
	[ ! -e "$before" ]
	rules
	wait_until 60 in_sync
	same_sites
	is_logged 1 paris sync.packs complete=yes
	asked_for "$list" 2
	cmp london/git/big.git/objects/pack/*.pack paris/git/big.git/objects/pack/*.pack
	nothing_is_left
}

# Whatever is wrong with what came, none of it stays.
a_lie_is_refused() { # PATTERN ACTION [CLASS]
	make_sites_with_large
	rules "$1 $2"
	start_site paris
	came_by_git
	is_logged 1 paris sync.packs_failed "code=${3:-corrupt}"
}

dies_in_the_middle() {
	local point

	make_sites_with_large
	for point in packs.arriving packs.verified; do
		rm -rf paris/git paris/data
		launch_site paris "REFRELAY_FAILPOINT=$point=kill"
		wait_until 40 has_died paris
		fails test -e paris/git/big.git
		[ -n "$(find paris/git/.refrelay/staging -name '*.pack')" ]
		start_site paris
		wait_until 60 in_sync
		same_sites
		nothing_is_left
		is_logged 1 paris sync.packs
		stop_site paris
		: >paris/log
	done
}

# The digests of the files are right; git does not read a blob when it walks the history.
a_bad_object_is_never_published() {
	local blob

	make_sites
	make_large london/git/big.git
	blob=$(git -C london/git/big.git rev-parse main:random)
	python3 "$TESTS/lib/forge_pack.py" london/git/big.git "$blob"
	git -C london/git/big.git rev-list --objects --quiet --all
	start_sites
	wait_until 60 was_logged paris sync.packs_failed code=corrupt
	wait_until 60 row_is paris big .state failed
	fails test -e paris/git/big.git
	fails was_logged paris sync.packs
	fails at paris status
	wait_until 20 nothing_is_left
}

# Its pack is large enough, but is not all.
alternates_go_the_old_way() {
	without_proxy
	git clone -q --bare -s london/git/big.git london/git/fork.git
	git -C london/git/fork.git config core.sharedRepository 0
	head -c 2000000 /dev/urandom >other
	add_file london/git/fork.git other
	git -C london/git/fork.git repack -adlq
	start_sites
	wait_until 60 in_sync
	same_sites
	is_logged 1 paris sync.packs repo=big
	is_logged 1 paris sync.no_packs repo=fork
	copies_are unavailable 1
	git -C paris/git/fork.git fsck
}

tap_test 'a large copy goes by its packs, a small one with its refs' a_large_copy_goes_by_packs
tap_test 'what is loose follows by git' what_is_loose_follows_by_git
tap_test 'the bytes to come are known' bytes_to_come_are_known
tap_test 'a primary that does not answer is called slow' a_primary_without_an_answer_is_slow
tap_test 'a connection that is cut goes on where it was' is_cut_and_goes_on
tap_test 'one that is cut all the time goes on as often' is_cut_all_the_time
tap_test 'a primary that comes back after a while is waited for' is_away_and_comes_back
tap_test 'the primary repacks while a pack comes' is_repacked_meanwhile "$pack" 500000
tap_test 'the primary repacks while an index comes' is_repacked_meanwhile "$index" 500
tap_test 'a byte of a pack is another' a_lie_is_refused "$pack" 'flip 5000'
tap_test 'the last byte of a pack is another' a_lie_is_refused "$pack" 'flip -1'
tap_test 'a byte of an index is another' a_lie_is_refused "$index" 'flip 1500'
tap_test 'a pack is no pack' a_lie_is_refused "$pack" junk conflict
tap_test 'an index comes without its length' a_lie_is_refused "$index" 'header Content-Range: x'
tap_test 'the list makes no sense' a_lie_is_refused "$list" junk
tap_test 'the secondary is killed in the middle' dies_in_the_middle
tap_test 'an object that is not what it is called is never published' \
	a_bad_object_is_never_published
tap_test 'what lives in another repository is fetched' alternates_go_the_old_way
tap_done
