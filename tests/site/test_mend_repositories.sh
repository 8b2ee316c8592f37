#!/usr/bin/env bash
# A copy mends itself from any damage, whoever meets it first: a sync, a verification, a
# reader, the start of the node. Nobody is asked for anything, readers get what the primary
# has, and what is damaged is not called verified.
. "${0%/*}/../lib/tap.sh"
. "${0%/*}/../lib/sites.sh"
. "${0%/*}/../lib/two_sites.sh"
. "${0%/*}/../lib/unprivileged.sh"

damage=$(realpath "${0%/*}/../lib/damage.py")

make_many() {
	make_sites
	set_conf paris http.anonymousRead true
	python3 "$damage" make
	make_unprivileged
	start_sites
	wait_until 60 in_sync
}

met_by() { # TRIGGER
	cd "$SHARED"
	python3 "$damage" "$1"
	wait_until 20 in_sync
	fails grep -a 'backup' paris/log
}

met_at_the_start() {
	cd "$SHARED"
	kill "$(site_pid paris)"
	wait_until 20 has_died paris
	python3 "$damage" start-damage
	start_site paris
	python3 "$damage" start
}

tap_set_up make_many
tap_test "whatever is damaged, a sync mends it" met_by sync
tap_test "whatever is damaged, a verification mends it" met_by verification
tap_test "whatever is damaged, a reader gets what the primary has, and it is mended" met_by read
tap_test "whatever was damaged while the node was down, its start mends it" met_at_the_start
tap_done
