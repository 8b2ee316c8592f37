#!/usr/bin/env bash
# A repository of more than 10,000 refs: one changed ref becomes a loose file at the
# secondary, all else one packed-refs, and both sites agree each time.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

converge() {
	wait_until 60 in_sync
	same_sites
}

loose_refs_are() { # COUNT
	[ "$(find paris/git/big.git/refs -type f | wc -l)" = "$1" ]
}

packed_inode() {
	stat -c %i paris/git/big.git/packed-refs
}

make_big() {
	local oid
	make_repository london/git/big.git 5
	git -C london/git/big.git pack-refs --all
	oid=$(git -C london/git/big.git rev-parse HEAD)
	seq -f "$oid refs/heads/many/%06g" 0 11999 >>london/git/big.git/packed-refs
	sort -k 2 london/git/big.git/packed-refs | grep refs/ >sorted
	cat sorted >london/git/big.git/packed-refs
}

one_ref_of_many_follows_as_a_loose_file() {
	local inode
	make_sites
	set_conf london sync.scanInterval 1h
	make_big
	at london hooks install
	start_sites
	converge
	loose_refs_are 0
	inode=$(packed_inode)
	push_change london/git/big.git
	converge
	loose_refs_are 1
	push_change london/git/big.git
	converge
	loose_refs_are 1
	push_change london/git/big.git topic
	converge
	loose_refs_are 2
	[ "$(packed_inode)" = "$inode" ]
	git -C paris/git/big.git fsck --connectivity-only --no-dangling

	git -C london/git/big.git update-ref -d refs/heads/many/000007
	converge
	loose_refs_are 0
	fails git -C paris/git/big.git rev-parse -q --verify refs/heads/many/000007
	git -C london/git/big.git pack-refs --all
	push_change london/git/big.git
	converge
	loose_refs_are 1
	# After a restart as well.
	stop_site london
	stop_site paris
	start_site london
	start_site paris
	converge
	push_change london/git/big.git another
	converge
	loose_refs_are 2
}

tap_test "one ref of many follows as a loose file, until all are folded" \
	one_ref_of_many_follows_as_a_loose_file
tap_done
