#!/usr/bin/env bash
# Whatever a node was at between a change and its push when it was killed, the next one
# ends it.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"

nothing_is_lost_when_it_is_killed() { # FAILPOINT
	make_node kiel sync.scanInterval 1s
	add_remote kiel bonn
	start_ready kiel "REFRELAY_FAILPOINT=$1=kill"
	make_repository git/a.git 3
	is_killed_within 10 kiel
	start_ready kiel
	wait_until 20 same_branch git/a.git bonn/a.git
	wait_until 10 store_is_empty
	stop_site kiel
}

for point in sink.task sink.taken notice.committed push.claimed push.pushed; do
	tap_test "nothing is lost when it is killed at $point" \
		nothing_is_lost_when_it_is_killed "$point"
done
tap_done
