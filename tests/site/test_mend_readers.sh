#!/usr/bin/env bash
# A reader of a damaged copy gets what the primary has, the copy is not called verified any
# more, and it mends itself; what was damaged while the node was down is met at its start.
. "${0%/*}/../lib/tap.sh"
. "${0%/*}/../lib/sites.sh"
. "${0%/*}/../lib/two_sites.sh"
. "${0%/*}/../lib/mending.sh"

tap_set_up make_damageable
tap_test "whatever is damaged, a reader gets what the primary has, and it is mended" met_by read
tap_test "whatever was damaged while the node was down, its start mends it" met_at_the_start
tap_done
