#!/usr/bin/env bash
# A copy mends itself from any damage, whoever meets it first: here a sync or a
# verification. Nobody is asked for anything.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/mending.sh"

tap_set_up make_damageable
tap_test "whatever is damaged, a sync mends it" met_by sync
tap_test "whatever is damaged, a verification mends it" met_by verification
tap_done
