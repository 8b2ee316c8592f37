#!/usr/bin/env bash
# Nothing passes between the sites any more, and nobody is told: connections stay open, and
# are taken, but nothing comes. Clients at the secondary do not wait for long.
. "${0%/*}/../lib/tap.sh"
. "${0%/*}/../lib/sites.sh"
. "${0%/*}/../lib/two_sites.sh"
. "${0%/*}/../lib/proxied.sh"
. "${0%/*}/../lib/pushed.sh"
. "${0%/*}/../lib/parted.sh"

tap_test "sites between which nothing passes: fresh copies are read, pushes say why, all heals" \
	parted_by stall 0
tap_done
