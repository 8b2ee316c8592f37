#!/usr/bin/env bash
# A blob mends itself from any damage of its file or its folder, whoever meets it first.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/mending.sh"

damage=$TESTS/lib/damage_blobs.py

make_damageable_blobs() {
	local site
	make_sites
	for site in london paris; do
		mkdir -p "$site/uploads" "$site/lfs"
		set_conf "$site" blob.uploads.path "$PWD/$site/uploads"
		set_conf "$site" blob.lfs.path "$PWD/$site/lfs"
		set_conf "$site" blob.lfs.layout lfs
	done
	set_conf paris http.anonymousRead true
	python3 "$damage" make
	make_unprivileged
	start_sites
	wait_until 60 in_sync
}

tap_set_up make_damageable_blobs
tap_test "whatever is damaged, a sync mends it" met_by sync
tap_test "whatever is damaged, a verification mends it" met_by verification
tap_test "whatever is damaged, a reader gets what the primary has, and it is mended" met_by read
tap_test "whatever was damaged while the node was down, its start mends it" met_at_the_start
tap_done
