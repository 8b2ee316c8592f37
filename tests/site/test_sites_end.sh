#!/usr/bin/env bash
# The end of a node by SIGTERM: within its time, with status 0, and nobody of its own left
# behind; and what a second node gets.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/site_crash.sh"

synced_count() {
	at paris repository list --state synced | grep -c . || true
}

# It hears of its end in the middle, however fast it is.
ends_in_a_large_sync() {
	local number begun

	make_sites
	for number in $(seq 1 50); do
		make_repository "london/git/$((number % 5))/$number.git" 5
	done
	start_site london
	launch_site paris REFRELAY_FAILPOINT=sync.fetched@10=stop
	wait_until 20 is_paused paris
	begun=$SECONDS
	kill -TERM "$(site_pid paris)"
	kill -CONT "$(site_pid paris)"
	wait "$(site_pid paris)"
	[ $((SECONDS - begun)) -le 15 ] || fail "it needed $((SECONDS - begun)) s to end"
	no_site_children paris
	[ "$(synced_count)" -lt 50 ] || fail "it was done with everything before its end"
	no_row_is started failed
	no_left_overs
	no_repository_is_leased
	start_site paris
	wait_until 30 is_whole
}

wait_for_an_event() {
	exec curl -sS -m 60 -H "Authorization: Bearer $(cat token)" \
		"$(site_url london)/api/v1/events?after=$(status_of london last_event)&wait=50"
}

# That of who asks is one of them.
requests_are() { # COUNT
	curl -fsS -m 10 "$(site_url london)/metrics" | grep -qx "refrelay_http_requests_open $1"
}

# Each site has a request that waits for an event of london. As paris asks for ten seconds at
# most, another client waits for longer there; for paris, london is stopped and never answers.
ends_in_a_long_poll() {
	start_crash_sites
	(umask 077 && echo operator-token-of-london >token)
	set_conf london http.operatorTokenFile "$PWD/token"
	kill -HUP "$(site_pid london)"
	wait_until 10 was_logged london node.reloaded
	wait_for_an_event &
	wait_until 20 requests_are 3
	ends_within 15 london
	start_site london
	wait_until 20 was_logged paris primary.back
	wait_until 20 is_whole
	kill -STOP "$(site_pid london)"
	ends_within 15 paris
	kill -CONT "$(site_pid london)"
	ends_within 15 london
}

refuses_a_second_node() {
	local site

	start_crash_sites
	for site in london paris; do
		expect 5 timeout 60 "$REFRELAY" -c "$site/refrelay.conf" serve
		grep -F "another node, process $(site_pid "$site") on $(uname -n)," err
		grep -F "$PWD/$site/data" err
		is_serving "$site"
	done
	kill_site paris
	start_site paris
	wait_until 10 is_whole
}

# A copy of the configuration, with data of its own: it would sync the primary from itself.
refuses_a_tree_that_has_a_node() {
	make_sites
	make_repository london/git/tool.git 5
	set_conf paris site.repositories "$PWD/london/git"
	start_site london
	expect 5 timeout 60 "$REFRELAY" -c paris/refrelay.conf serve
	grep -F "another refrelay node works on site.repositories ($PWD/london/git)" err
	stop_site london
	set_conf paris site.repositories "$PWD/paris/git"
	start_sites
	wait_until 20 in_sync
	same_sites
}

tap_test "it ends in the middle of many syncs" ends_in_a_large_sync
tap_test "both end while one waits for the other's event" ends_in_a_long_poll
tap_test "a second node has no part in a data directory" refuses_a_second_node
tap_test "a second node has no part in a tree" refuses_a_tree_that_has_a_node
tap_done
