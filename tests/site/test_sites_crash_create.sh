#!/usr/bin/env bash
# The secondary dies while it makes a copy, replaces one, or takes one away.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/site_crash.sh"

number=0
create() { # [FORMAT]
	number=$((number + 1))
	make_repository "london/git/new/$number.git" 3 "${1:-sha1}"
}

dies_while_it_makes_a_copy() {
	local point

	start_crash_sites
	for point in sync.leased sync.read small_pack.indexed small_pack.packed publish.renamed \
		sync.verified sync.staged sync.placed sync.done; do
		dies_at paris "$point" create
	done
	dies_at paris objects.fetched create sha256 # by git
}

trash_count() {
	find paris/git/.refrelay/trash -mindepth 1 -maxdepth 1 2>/dev/null | wc -l
}

# Whoever meets it first, the copy is brought anew at once.
damage_and_reverify() {
	local pack

	wait_until 20 is_serving paris
	for pack in paris/git/a.git/objects/pack/*.pack; do
		chmod u+w "$pack"
		truncate -s 40 "$pack"
	done
	at paris repository reverify a || true # the node may have died of it by now
}

dies_while_it_replaces_a_copy() {
	local point

	start_crash_sites
	for point in sync.fetched sync.verified sync.staged sync.placed sync.done; do
		dies_at paris "$point" damage_and_reverify
		git -C paris/git/a.git fsck
		test "$(trash_count)" -gt 0
		rm -rf paris/git/.refrelay/trash
	done
}

delete() {
	rm -rf london/git/deep
}

dies_while_it_removes_a_copy() {
	local point

	start_crash_sites
	for point in sync.claimed trash.moved removal.trashed; do
		dies_at paris "$point" delete
		test ! -e paris/git/deep
		test "$(trash_count)" -eq 1
		rm -rf paris/git/.refrelay/trash
		make_repository london/git/deep/b.git 2
		wait_until 10 is_whole
	done
}

tap_test "killed while it makes a copy" dies_while_it_makes_a_copy
tap_test "killed while it replaces a damaged copy" dies_while_it_replaces_a_copy
tap_test "killed while it removes a copy" dies_while_it_removes_a_copy
tap_done
