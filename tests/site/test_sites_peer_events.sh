#!/usr/bin/env bash
# A primary whose events or inventories make no sense: what the secondary says, that no
# change and no copy is lost, and that it heals by itself.

. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"

bad_events() {
	local rule

	prepare :
	for rule in '/events cut 30' '/events status 500' '/events status 429' \
		'/events garbage' '/events junk' '/events empty' '/events flip 3' \
		'/events header Refrelay-Timeline: nonsense' \
		'/events header Refrelay-Last-Event: 7'; do
		echo "$rule:"
		rules "$rule" 'limit=10000 drop'
		push_change london/git/tool.git
		wait_until 20 status_says 'cannot reach its primary'
		kill -0 "$(site_pid paris)"
		rules
		wait_until 60 same_sites
	done
	wait_until 20 in_sync
}

# An event is left out of the answer, and inventories still tell of all.
gaps() {
	prepare :
	rules '/events filter sed 1d'
	push_change london/git/tool.git one
	push_change london/git/tool.git two
	wait_until 20 status_says 'event .* stands where|newest is'
	wait_until 20 equal_trees london/git paris/git
	heals
}

other_timeline() {
	local before

	prepare :
	before=$(logged paris cursor.compares)
	rules '/events header Refrelay-Timeline: 0123456789abcdef'
	push_change london/git/tool.git
	wait_until 20 compared_more_than "$before"
	wait_until 20 same_sites
	heals
}

compared_more_than() { # TIMES
	[ "$(logged paris cursor.compares)" -gt "$1" ]
}

# With the ETag of the whole inventory.
emptied() {
	local i

	make_proxied_sites
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
		make_repository "london/git/$i.git" 2
	done
	start_sites
	wait_until 30 in_sync
	cat >no_repositories.py <<-'END'
		import json, sys
		page = json.load(sys.stdin)
		page["repositories"] = []
		page.pop("next", None)
		print(json.dumps(page))
	END
	rules '/repositories.limit filter python3 no_repositories.py'
	push_change london/git/1.git
	wait_until 20 was_logged paris registry.held
	[ "$(list_repositories paris/git | wc -l)" -eq 15 ]
	[ "$(status_of paris repositories.held)" -ge 12 ]
	rules
	wait_until 60 same_sites # what was pushed may not be noticed yet
	wait_until 30 in_sync
}

tap_test "bad answers to the question for events are told, and heal" bad_events
tap_test "a gap in the events loses no change" gaps
tap_test "events of another timeline make it compare all" other_timeline
tap_test "an inventory that is suddenly empty removes nothing" emptied
tap_done
