#!/usr/bin/env bash
# The secondary dies at each step of a sync of a copy that it has.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/site_crash.sh"

dies_as_git_fetches() {
	start_crash_sites
	set_conf paris sync.fastPath false
	dies_at paris objects.fetched change_a
}

tap_test "killed before it publishes" dies_at_each sync.leased sync.read sync.fenced sync.fetched
tap_test "killed while git fetches" dies_as_git_fetches
tap_test "killed while it publishes" \
	dies_at_each publish.pending publish.locked publish.checked publish.written \
	publish.head publish.renamed publish.changed state.key
tap_test "killed after it published" dies_at_each sync.verified sync.done
tap_done
