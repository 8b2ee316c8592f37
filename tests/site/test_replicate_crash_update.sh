#!/usr/bin/env bash
# kill -9 at every named point before and after the refs of copies are changed: readers see
# old or new refs only, nothing is left, and the next run ends equal.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"
. "$TESTS/lib/crash.sh"

prepare_state() {
	prepare_update
}

points=(sync.leased sync.read sync.fenced fence.locked objects.fetched sync.fetched
	sync.verified)
for point in "${points[@]}"; do
	tap_test "death at $point" dies_at "$point"
done
tap_done
