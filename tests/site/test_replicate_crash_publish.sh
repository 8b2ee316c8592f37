#!/usr/bin/env bash
# kill -9 at every named point while refs of copies are changed, after such a death, and
# while a copy is deleted: readers see old or new refs only, nothing is left, and the next
# run ends equal.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"
. "$TESTS/lib/crash.sh"

prepare_state() {
	prepare_update
}

# Recovery itself is killed: once by the death of a writer, then again in the cleaning.
dies_in_recovery_at() { # POINT
	fresh_state
	REFRELAY_FAILPOINT=publish.renamed=kill expect 137 refrelay replicate --jobs 1 source dest
	REFRELAY_FAILPOINT=$1=kill expect 137 refrelay replicate --jobs 1 source dest
	nothing_is_half_done
	REFRELAY_FAILPOINT=$1=kill expect 137 refrelay replicate --jobs 1 source dest
	nothing_is_half_done
	is_whole_after_the_next_run --delete
}

dies_when_a_copy_was_moved_to_the_trash() {
	fresh_state
	REFRELAY_FAILPOINT=trash.moved=kill expect 137 refrelay replicate --jobs 1 --delete \
		source dest
	nothing_is_half_done
	git -C dest/.refrelay/trash/*gone.git rev-parse -q --verify refs/heads/main
	is_whole_after_the_next_run --delete
	test "$(find dest/.refrelay/trash -mindepth 1 -maxdepth 1 | wc -l)" -eq 1
}

points=(publish.pending publish.locked publish.checked publish.folded publish.written
	publish.renamed publish.head publish.changed state.key)
for point in "${points[@]}"; do
	tap_test "death at $point" dies_at "$point"
done
for point in state.recover state.buried; do
	tap_test "death at $point, after another death" dies_in_recovery_at "$point"
done
tap_test "death at trash.moved" dies_when_a_copy_was_moved_to_the_trash
tap_done
