#!/usr/bin/env bash
# kill -9 at every named point before and after the refs of copies are changed: readers see
# old or new refs only, nothing is left, and the next run ends equal.
. "${0%/*}/../lib/tap.sh"
. "${0%/*}/../lib/sites.sh"
. "${0%/*}/../lib/replicate.sh"
. "${0%/*}/../lib/crash.sh"

prepare_state() {
	prepare_update
}

points=(sync.leased sync.read sync.fenced fence.locked objects.fetched sync.fetched
	sync.verified)
for point in "${points[@]}"; do
	tap_test "death at $point" dies_at "$point"
done
tap_done
