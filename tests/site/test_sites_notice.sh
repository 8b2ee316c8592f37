#!/usr/bin/env bash
# How the primary hears of changes and tells them on: hooks, the spool, `changed`, the
# API, the log of events and the requests that wait for one; and a burst of changes.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

# No scan helps: what arrives was told.
make_sites_without_scans() {
	make_sites
	set_conf london sync.scanInterval 1h
	set_conf paris sync.consistencyInterval 1h
	make_repository london/git/tool.git 5
	make_repository london/git/group/other.git 5
}

converge() {
	wait_until 60 in_sync
	same_sites
}

with_operator() { # SITE
	(umask 077 && echo "operator-token-of-$1" >"$1/token")
	set_conf "$1" http.operatorTokenFile "$PWD/$1/token"
}

as_operator() { # SITE TARGET [CURL-OPTION...]
	local site=$1 target=$2
	shift 2
	curl -sS -H "Authorization: Bearer $(cat "$site/token")" "$@" "$(site_url "$site")$target"
}

# A commit without hooks, which nobody hears of.
change_silently() { # NAME
	git -c core.hooksPath=/nonexistent -C "london/git/$1" update-ref refs/heads/main \
		"$(git -C "london/git/$1" commit-tree -p main -m silent 'main^{tree}')"
}

pushes_reach_a_node_that_was_down_through_the_spool() {
	make_sites_without_scans
	start_sites
	at london hooks install
	converge
	push_change london/git/tool.git
	converge

	stop_site london
	push_change london/git/tool.git
	push_change london/git/group/other.git topic
	[ "$(find london/data/spool -type f | wc -l)" -gt 0 ]
	start_site london
	converge
	wait_until 10 spool_is_empty
	wait_until 10 was_logged london spool.done
}

changed_is_recorded_with_a_node_and_without() {
	local last command
	make_sites_without_scans
	start_sites
	converge
	change_silently tool.git
	expect 0 at london changed tool
	grep -qx 'event [0-9]*' out
	converge
	expect 0 at london changed tool
	grep -qx unchanged out

	last=$(status_of london last_event)
	stop_site london
	change_silently tool.git
	expect 0 at london changed --json "$PWD/london/git/tool.git"
	grep -q "\"event_id\":$((last + 1))" out
	grep -q 'no node is running here' err
	for command in events 'lease list'; do
		expect 0 at london $command
		grep -q 'no node is running here' err
	done
	start_site london
	expect 0 at london events
	fails grep -q 'no node' err
	converge
	expect 4 at london changed nowhere
	expect 2 at paris changed tool
	# Several: what fails keeps nothing back.
	change_silently tool.git
	change_silently group/other.git
	expect 3 at london changed tool nowhere group/other
	grep -qx 'tool: event [0-9]*' out
	grep -qx 'group/other: event [0-9]*' out
	grep -q nowhere err
	converge
	expect 2 at london changed --ref refs/heads/x "$(printf %040d 0)" "$(printf %040d 1)" \
		tool group/other

	# A deletion is a change, once.
	remove_repository london/git/tool.git
	expect 0 at london changed tool
	grep -qx "event $((last + 4))" out
	converge
	expect 4 at london changed tool
	stop_site london
	remove_repository london/git/group/other.git
	make_repository london/git/last.git 1
	expect 0 at london changed group/other
	grep -qx "event $((last + 5))" out
	start_site london
	converge
}

the_api_is_told_of_changes_by_an_operator() {
	make_sites_without_scans
	with_operator london
	start_sites
	converge
	change_silently tool.git
	as_operator london /api/v1/events -d '{"name": "tool"}' >answer
	grep -q '"events":\[[0-9]*\]' answer
	converge
	change_silently group/other.git
	remove_repository london/git/tool.git
	as_operator london /api/v1/events \
		-d '{"events": [{"name": "group/other"}, {"name": "tool"}]}' >answer
	grep -q '"events":\[[0-9]*,[0-9]*\]' answer
	converge
	[ ! -e paris/git/tool.git ]
	as_operator london /api/v1/events -d '{"name": "never-was"}' -o answer -w '%{http_code}' >code
	[ "$(cat code)" = 404 ]
	as_operator london /api/v1/events -d '{' -o answer -w '%{http_code}' >code
	[ "$(cat code)" = 400 ]
}

ids_are_dense() {
	python3 -c '
import json, sys
ids = [json.loads(line)["id"] for line in sys.stdin]
assert ids and ids == list(range(ids[0], ids[0] + len(ids))), ids'
}

answered() {
	[ -s took ]
}

# What a secondary's waiting request sees of a push; in the background.
wait_for_event() { # AFTER SECONDS
	as_operator london "/api/v1/events?after=$1&wait=$2" -D headers -o events \
		-w '%{http_code} %{time_total} %{time_starttransfer}' >took.new
	date +%s%N >ended
	mv took.new took
}

a_waiting_request_returns_with_the_push() {
	local last pushed ended
	make_sites_without_scans
	with_operator london
	start_site london
	at london hooks install
	wait_until 10 has_events london 2
	last=$(status_of london last_event)

	# Nothing happens: it ends by itself, empty.
	wait_for_event "$last" 1
	grep -qE '^200 ([1-9]|[1-4][0-9])\.' took # it asked for one second
	[ ! -s events ]
	grep -qi "^Refrelay-Last-Event: $last " headers

	rm took
	wait_for_event "$last" 50 &
	wait_until 10 request_is_open
	git clone -q london/git/tool.git work
	git -C work commit -q --allow-empty -m change
	git -C work push -q origin main
	pushed=$(date +%s%N)
	wait_until 10 answered
	ended=$(cat ended)
	echo "it took $(((ended - pushed) / 1000)) us"
	[ $((ended - pushed)) -lt 30000000000 ] # it would wait for fifty seconds
	grep -q '"name":"tool"' events
	grep -q "\"id\":$((last + 1))" events

	at london events >all
	ids_are_dense <all
	at london events --after "$last" | ids_are_dense
}

request_is_open() {
	ss -Htn state established "( sport = :$(site_url london | sed 's/.*://') )" | grep -q .
}

has_events() { # SITE N
	[ "$(at "$1" events | wc -l)" -ge "$2" ]
}

events_that_are_not_kept_are_gone() {
	local i first last
	make_sites_without_scans
	with_operator london
	set_conf london events.keepNumber 5
	start_site london
	for i in $(seq 12); do
		change_silently tool.git
		at london changed tool
	done
	stop_site london
	start_site london
	wait_until 10 was_logged london events.pruned
	first=$(status_of london first_event)
	last=$(status_of london last_event)
	[ $((last - first + 1)) -eq 5 ]

	as_operator london '/api/v1/events?after=1' -D headers -o answer -w '%{http_code}' >code
	[ "$(cat code)" = 410 ]
	grep -q EVENTS_GONE answer
	grep -qi '^Refrelay-Timeline: [0-9a-f]\{16\}' headers
	as_operator london "/api/v1/events?after=$((last + 1))" -o answer -w '%{http_code}' >code
	[ "$(cat code)" = 410 ]
	grep -q OTHER_TIMELINE answer
	as_operator london "/api/v1/events?after=$last&mark=0123456789abcdef" \
		-o answer -w '%{http_code}' >code
	[ "$(cat code)" = 410 ]
	grep -q OTHER_TIMELINE answer
	as_operator london "/api/v1/events?after=$((first - 1))" | ids_are_dense
	as_operator london /api/v1/events | ids_are_dense
	expect 1 at london events --after 1
	grep -q 'no longer kept' err
}

a_burst_of_changes_takes_few_syncs() {
	local i oid before syncs
	make_sites_without_scans
	start_sites
	at london hooks install
	converge
	oid=$(git -C london/git/tool.git rev-parse main)
	before=$(logged paris sync.done)
	# Ten in each of a hundred transactions.
	for i in $(seq 1000); do
		echo "create refs/heads/b$((i / 10))/r$i $oid"
	done | split -l 10 --filter='git -C london/git/tool.git update-ref --stdin'
	converge
	[ "$(git -C paris/git/tool.git for-each-ref refs/heads | wc -l)" = 1001 ]
	syncs=$(($(logged paris sync.done) - before))
	echo "# $syncs syncs for 1000 refs in 100 transactions" >&3
	[ "$syncs" -le 100 ]

	# All in one transaction: one event, one sync.
	before=$(logged paris sync.done)
	oid=$(git -C london/git/group/other.git rev-parse main)
	for i in $(seq 1000); do
		echo "create refs/tags/t$i $oid"
	done | git -C london/git/group/other.git update-ref --stdin
	converge
	[ $(($(logged paris sync.done) - before)) -le 2 ]
}

exec 3>&1
says_left_out() { # TEXT
	local status=0
	at london status >said || status=$?
	[ "$status" -eq 3 ] && grep -qF "$1" said && return
	cat said
	return 1
}

what_the_primary_leaves_out_stands_in_its_status() {
	make_sites
	make_repository london/git/x.git 1
	make_repository london/git/x 1
	start_sites
	wait_until 20 says_left_out \
		'; 1 left out, e.g. x: x.git stands beside it and has the same name'
	cp -r london/git/x "$(printf 'london/git/not-utf8-\377.git')"
	wait_until 20 says_left_out '; 2 left out, e.g. '
	[ "$(status_of london scan.left_out)" = 2 ]
	[ "$(status_of london in_sync)" = false ]
	curl -sS -o metrics "$(site_url london)/metrics"
	grep -qx 'refrelay_left_out 2' metrics
	rm -rf london/git/not-utf8-*
	mv london/git/x london/git/y.git
	wait_until 20 at london status
	converge
	[ -z "$(status_of london scan.left_out_example)" ]
}

tap_test "pushes reach a node that was down through the spool" \
	pushes_reach_a_node_that_was_down_through_the_spool
tap_test "changed is recorded with a node and without" \
	changed_is_recorded_with_a_node_and_without
tap_test "the API is told of changes by an operator" \
	the_api_is_told_of_changes_by_an_operator
tap_test "a request that waits returns with the push" \
	a_waiting_request_returns_with_the_push
tap_test "events that are not kept are gone, by number and by mark" \
	events_that_are_not_kept_are_gone
tap_test "a burst of changes takes few syncs, and ends equal" \
	a_burst_of_changes_takes_few_syncs
tap_test "what the primary leaves out stands in its status" \
	what_the_primary_leaves_out_stands_in_its_status
tap_done
