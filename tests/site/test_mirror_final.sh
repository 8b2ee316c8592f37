#!/usr/bin/env bash
# What only a person can change of a mirror is not tried again: an upstream that is gone, a
# credential that is refused. A credential's new file, a restart, a webhook and a command change that.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/secured.sh"
. "$TESTS/lib/mirrored.sh"

set_up() {
	make_mirror_sites
	make_repository london/git/acme/r.git 2
	make_repository london/git/acme/quiet.git 2
	give_token london app1 read
	mirror acme/r interval 1s
	mirror acme/quiet interval 1s
	watch acme/r app1
	watch acme/quiet app1
	(umask 077 && echo secret >hook.secret)
	set_conf paris mirror.acme/r.webhookSecretFile "$PWD/hook.secret"
	start_site london
	start_site paris
	wait_until 20 is_mirrored acme/r
	wait_until 20 is_mirrored acme/quiet
}

shown() { # NAME MEMBER
	at paris mirror show "$1" --json | "$SITE_HELP" member "$2"
}

# Nothing is due any more, although its upstream is looked after each second.
is_at_rest() { # NAME STATE
	at paris mirror show "$1" --json >row && [ "$("$SITE_HELP" member state <row)" = "$2" ] &&
		[ -z "$("$SITE_HELP" member retry_at <row)" ] && [ -z "$("$SITE_HELP" member due_at <row)" ]
}


# The other mirror is followed meanwhile, several times over.
rests() { # NAME
	local before i

	before=$(shown "$1" last_attempt_at)
	for i in 1 2 3; do
		add_commits london/git/acme/quiet.git refs/heads/main 1
		wait_until 20 is_mirrored acme/quiet
	done
	[ "$(shown "$1" last_attempt_at)" = "$before" ]
	[ "$(shown "$1" retry_count)" = 1 ]
}

take_upstream_away() {
	mv london/git/acme/r.git away
	wait_until 20 is_at_rest acme/r missing_on_primary
}

gone_until_a_command() {
	cd "$SHARED"
	take_upstream_away
	at paris mirror show acme/r | grep 'has no such repository'
	rests acme/r
	mv away london/git/acme/r.git
	at paris mirror sync acme/r
	wait_until 20 mirror_is acme/r state synced
}

# With sites of its own, whose nodes are its children.
gone_until_a_restart() {
	set_up
	take_upstream_away
	mv away london/git/acme/r.git
	stop_site paris
	start_site paris
	wait_until 40 mirror_is acme/r state synced
	stop_site paris
	stop_site london
}

send_webhook() {
	local body='{"repository":{"full_name":"acme/r"}}' signature

	signature=$(printf %s "$body" | openssl dgst -sha256 -hmac secret -r | cut -d ' ' -f 1)
	curl -fsS -X POST -H 'Content-Type: application/json' -H 'X-GitHub-Event: push' \
		-H "X-Hub-Signature-256: sha256=$signature" --data-binary "$body" \
		"$(site_url paris)/api/v1/mirrors/acme%2Fr/webhook"
}

gone_until_a_webhook() {
	cd "$SHARED"
	take_upstream_away
	mv away london/git/acme/r.git
	send_webhook
	wait_until 20 mirror_is acme/r state synced
}

# As after hours of failures of the network.
waits_for_an_hour() {
	python3 -c '
import sqlite3, sys, time
base = sqlite3.connect("paris/data/refrelay.db", timeout=60)
changed = base.execute("UPDATE registry SET due_at = ?1, retry_at = ?1"
                       " WHERE kind = \"mirror\" AND name = \"acme/r\" AND state = 3"
                       " AND failure_class = \"network\"", (int(time.time() * 1000) + 3600000,))
base.commit()
sys.exit(changed.rowcount != 1)'
}

# That tells that the upstream is there again. With sites of its own, too.
waits_until_a_webhook() {
	set_up
	stop_site london
	wait_until 20 waits_for_an_hour
	start_site london
	send_webhook
	wait_until 20 mirror_is acme/r state synced
	stop_site paris
	stop_site london
}

# Hidden from that credential is gone, too: another one may see it.
gone_until_another_credential() {
	cd "$SHARED"
	take_upstream_away
	mv away london/git/acme/r.git
	cp -p app1.token new.token
	mv new.token app1.token
	wait_until 20 mirror_is acme/r state synced
}

refused_until_another_credential() {
	cd "$SHARED"
	cp -p app1.token kept
	(umask 077 && echo wrong >wrong.token)
	mv wrong.token app1.token
	wait_until 20 is_at_rest acme/r failed
	[ "$(shown acme/r failure_class)" = auth ]
	mv kept app1.token
	wait_until 20 mirror_is acme/r state synced
	wait_until 20 mirror_is acme/quiet state synced
}

tap_set_up set_up
tap_test "an upstream that is gone rests until a command" gone_until_a_command
tap_test "... until a restart" gone_until_a_restart
tap_test "... until a webhook" gone_until_a_webhook
tap_test "... until another credential" gone_until_another_credential
tap_test "a refused credential rests until another one" refused_until_another_credential
tap_test "one that waits for a retry does so until a webhook" waits_until_a_webhook
tap_done
