#!/usr/bin/env bash
# What came of pushes is told in the words of Gerrit's plugin: in a log, and by a webhook.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"

webhook_program=$TESTS/peers/webhook.py
secret=0123456789abcdef0123456789abcdef

start_webhook() {
	mkdir -p hook
	python3 "$webhook_program" hook "$secret" &
	wait_until 10 test -f hook/port
}

# A PYTHON-EXPRESSION of the events that were told, as a list e, is true.
events_say() { # PYTHON-EXPRESSION
	at home events --push >events || return
	python3 -c '
import json, sys
e = [json.loads(line) for line in open("events")]
sys.exit(not eval("(" + sys.argv[1] + ")"))' "$1" || { cat events; return 1; }
}

each_ref_is_told_of_with_its_end() {
	make_node home
	make_a one two
	add_remote home one
	add_remote home two push 'refs/heads/main:refs/heads/main'
	start_ready home
	expect 0 at home push start --wait --timeout 30s a
	wait_until 10 events_say '[x["nodesCount"] for x in e
		if x["type"] == "ref-replication-done" and x["ref"] == "..all.."][-1:] == [2]'
	events_say 'sorted(x["targetUri"] for x in e if x["type"] == "ref-replicated") == [
		"'"$(uri_of one/a)"'", "'"$(uri_of two/a)"'"]'
	events_say 'e[0]["type"] == "ref-replicated" and e[0]["project"] == "a" and
		e[0]["status"] == "succeeded" and e[0]["refStatus"] == "OK" and
		e[0]["targetNode"] == e[0]["targetUri"] and e[0]["eventCreatedOn"] > 1e9'
	events_say '[x["id"] for x in e] == list(range(1, len(e) + 1))'
	# One ref, which only one of them takes.
	change a refs/heads/b1
	wait_until 20 events_say '[(x["ref"], x["nodesCount"]) for x in e
		if x["type"] == "ref-replication-done"][-1] == ("refs/heads/b1", 1)'
	# One that is refused.
	printf '#!/bin/sh\nexit 1\n' >one/a.git/hooks/update
	chmod +x one/a.git/hooks/update
	change a refs/heads/b2
	wait_until 20 events_say 'any(x.get("status") == "failed" and x["ref"] ==
		"refs/heads/b2" and x["refStatus"].startswith("REJECTED_") for x in e)'
	# Those who follow changes see none of them.
	at home events >changes
	fails grep replicat changes
	# Above a number; over HTTP as well.
	at home events --push --after 2 | head -n 1 | grep -q '^{"id":3,'
	curl -fsS "$(site_url home)/api/v1/push/events?after=1&limit=1" >page
	grep -q '^{"id":2,' page
	[ "$(wc -l <page)" -eq 1 ]
	expect 1 at home events --push --after 1000
	grep -q 'no event 1000: the newest is ' err
	stop_site home
	# Numbers go on.
	start_ready home
	expect 0 at home push start --wait --timeout 30s --remote two a
	wait_until 10 events_say '[x["id"] for x in e] == list(range(1, len(e) + 1)) and len(e) >= 8'
	stop_site home
	# As when they were dropped.
	sed -i 1,2d home/data/push-events
	expect 1 at home events --push --after 1
	grep -q 'events up to 2 are no longer kept' err
	expect 0 at home events --push --after 2
	expect 0 at home events --push
}

told() { # COUNT
	[ "$(wc -l <hook/told)" -ge "$1" ]
}

refused() { # COUNT
	[ "$(grep -cx 400 hook/asked)" -eq "$1" ]
}

the_webhook_gets_all_in_order() {
	make_node home
	make_a one
	add_remote home one
	start_webhook
	(umask 077 && echo "$secret" >secret)
	set_conf home replication.webhook "http://127.0.0.1:$(cat hook/port)/x"
	set_conf home replication.webhookSecretFile "$PWD/secret"
	start_ready home
	expect 0 at home push start --wait --timeout 30s a
	wait_until 20 told 2
	# While it fails, pushes go on, and a restart loses nothing.
	echo 503 >hook/status
	expect 0 at home push start --wait --timeout 30s a
	wait_until 20 was_logged home push.webhook_failed 'answers 503'
	stop_site home
	rm hook/status
	start_ready home
	wait_until 20 told 4
	at home events --push >events
	diff events <(sed 's/^good //' hook/told)
	# What it refuses is not sent again, and holds up nothing.
	echo 400 >hook/status
	expect 0 at home push start --wait --timeout 30s a
	wait_until 20 was_logged home push.webhook_refused 'answers 400'
	wait_until 20 refused 2
	rm hook/status
	expect 0 at home push start --wait --timeout 30s a
	wait_until 20 told 6
	at home events --push >events
	diff <(sed 5,6d events) <(sed 's/^good //' hook/told)
	refused 2
	stop_site home
}

tap_test "each ref is told of, with its end at all destinations" each_ref_is_told_of_with_its_end
tap_test "the webhook gets all in order, signed" the_webhook_gets_all_in_order
tap_done
