#!/usr/bin/env bash
# Nothing passes between the sites any more, and nobody is told: connections stay open, and
# are taken, but nothing comes. Clients at the secondary do not wait for long.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/parted.sh"

is_silent_for_longer_than_fresh_for() {
	at paris status --json >status || true
	python3 -c 'import json; assert json.load(open("status"))["heard_age"] > 2.5'
}

asks() { # FILE
	soon 6 git ls-remote "$(site_url paris)/s.git" refs/heads/main >"$1"
}

# Who comes while another waits for the primary.
who_waits_keeps_nobody_from_the_copy() {
	local first

	make_pair make_linked_sites
	set_conf paris serve.freshFor 2s
	kill -HUP "$(site_pid paris)"
	wait_until 10 was_logged paris node.reloaded
	rule stall 0
	wait_until 20 is_silent_for_longer_than_fresh_for
	GIT_TRACE_CURL=$PWD/asked asks first &
	first=$!
	wait_until 10 grep -q 'Send header: GET' asked
	asks second
	wait "$first"
	[ "$(cut -f 1 first)" = "$(tip london/git/s.git)" ]
	cmp first second
}

tap_test "sites between which nothing passes: fresh copies are read, pushes say why, all heals" \
	parted_by stall 0
tap_test "a reader who waits for the primary keeps no other from the copy" \
	who_waits_keeps_nobody_from_the_copy
tap_done
