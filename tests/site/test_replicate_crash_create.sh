#!/usr/bin/env bash
# kill -9 at every named point while copies are made: what is visible is whole, nothing is
# left, and the next run ends equal.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"
. "$TESTS/lib/crash.sh"

# Small repositories are fetched, the packs of large ones are copied as files.
prepare_state() {
	mkdir source dest
	make_repository source/small.git 4
	git -C source/small.git tag -m annotated v1 main~1
	git -C source/small.git symbolic-ref refs/heads/alias refs/heads/main
	make_repository source/large.git 2
	head -c 2000000 /dev/urandom >random
	git -C source/large.git update-ref refs/blobs/random \
		"$(git -C source/large.git hash-object -w "$PWD/random")"
	git -C source/large.git repack -a -d -q
	rm random
	add_commits source/large.git refs/heads/loose 1 refs/heads/main
	take_pictures source new
}

# No point is missing from the tests: the program's own list is its source.
every_point_has_its_test() {
	local here=${BASH_SOURCE[0]%/*} point

	cd "$script_folder"
	test -d ../../src || skip "the program's source is not there"
	grep -rhoE '(failpoint\(|claimed = )"[a-z_.]+"' ../../src |
		cut -d '"' -f 2 | sort -u >"$TEST_DIR/points"
	test -s "$TEST_DIR/points"
	while read -r point; do
		grep -qwF -- "$point" test_*.sh ../unit/test_*.c || fail "no test for $point"
	done <"$TEST_DIR/points"
}

script_folder=$TESTS/site
points=(sync.leased sync.read fence.locked packs.copied objects.fetched sync.fetched
	publish.pending publish.locked publish.checked publish.written publish.renamed
	publish.changed state.key sync.verified sync.staged sync.placed)
tap_test "every point has its test" every_point_has_its_test
for point in "${points[@]}"; do
	tap_test "death at $point" dies_at "$point"
done
tap_done
