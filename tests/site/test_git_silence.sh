#!/usr/bin/env bash
# Nothing passes between the sites any more, and nobody is told: connections stay open, and
# are taken, but nothing comes. Clients at the secondary do not wait for long.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/parted.sh"

tap_test "sites between which nothing passes: fresh copies are read, pushes say why, all heals" \
	parted_by stall 0
tap_done
