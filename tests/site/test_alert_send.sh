#!/usr/bin/env bash
# Those who are told of what is wrong: webhook, mail, program. Who is away is told later, and nobody
# is forgotten because a node dies.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/alerted.sh"

# A trouble without effort: a repository that is held.
make_trouble() {
	echo mine >paris/git/d
	make_repository london/git/d/c.git 1
}

end_trouble() {
	rm paris/git/d
	at paris repository sync d/c
}

is_sent() { # ALERT
	[ "$(at paris alert list --json | python3 -c '
import json, sys
for one in json.load(sys.stdin)["alerts"]:
    if one["name"] == sys.argv[1]:
        print(one["sent_at"] is not None and one["failing_since"] is None)' "$1")" = True ]
}

member_of_body() { # MEMBER
	"$SITE_HELP" member "$1" <hook/body
}

status_says() { # PATTERN
	at paris status >says || [ $? -eq 3 ] || return
	grep "$1" says
}

a_webhook_that_is_away_is_told_later() {
	make_alert_sites a
	start_receiver hook secret-of-oncall
	(umask 077 && echo secret-of-oncall >oncall.secret)
	alert paris kind failures
	git config --file paris/refrelay.conf --unset alert.a.command
	set_conf paris alert.a.url "http://127.0.0.1:$(cat hook/port)/x?token=hidden"
	set_conf paris alert.a.secretFile "$PWD/oncall.secret"
	start_sites
	wait_until 20 in_sync
	echo 503 >hook/status
	make_trouble
	wait_until 20 was_logged paris alert.not_sent 'answers 503.*code=network.*remedy="'
	wait_until 10 status_says 'alert a has not been delivered for .*answers 503.*; hint: '
	at paris check >says 2>&1 || :
	grep 'FAIL .*alert .*a cannot be sent: http://127.0.0.1:[0-9]* answers 503' says
	stop_site paris
	start_site paris
	rm hook/status
	wait_until 30 test -f hook/told
	wait_until 20 is_sent a
	grep -c '^good ' hook/told | grep -x 1
	[ "$(member_of_body alert)" = a ]
	[ "$(member_of_body site)" = paris ]
	[ "$(member_of_body role)" = secondary ]
	grep '"troubles":\[{"event":"begins","kind":"failures","subject":"repositories: conflict",' hook/body
	member_of_body text | grep '^refrelay paris: failures'
	# It is told again while it lasts; a reload tells nothing twice.
	set_conf paris alert.a.repeat 2s
	reload paris
	wait_until 20 grep '"event":"continues"' hook/told
	[ "$(grep -c '"event":"begins"' hook/told)" = 1 ]
	end_trouble
	wait_until 20 grep '"event":"over"' hook/told
	at paris status >says || [ $? -eq 3 ]
	fails grep 'has not been delivered' says
	fails grep -r 'hidden\|secret-of-oncall' paris/log paris/data
	# In the form of a chat.
	set_conf paris alert.a.format slack
	expect 0 at paris alert test a
	grep '^a: message delivered: http://127.0.0.1:[0-9]* answers 204$' out
	tail -n 1 hook/told | grep '^good {"text":"refrelay paris: test message\\n[^"]*"}$'
	fails grep hidden out err
	echo 404 >hook/status
	expect 1 at paris alert test
	grep 'a, message: http://127.0.0.1:[0-9]* answers 404' err
}

has_begun() { # TIMES
	[ "$(count_told paris begins failures 'repositories: conflict')" -ge "$1" ]
}

a_node_that_dies_while_it_sends() {
	local point times

	make_alert_sites a
	alert paris kind failures
	start_site london
	# What was taken just before is told twice, and no more.
	for times in 1 2; do
		point=alert.sends
		[ "$times" -eq 1 ] || point=alert.sent
		start_site paris "REFRELAY_FAILPOINT=$point=kill"
		make_trouble
		wait_until 20 has_died paris
		start_site paris
		wait_until 20 is_sent a
		wait_until 20 has_begun "$times"
		end_trouble
		wait_until 20 grep -q '"event":"over"' paris/told
		wait_until 20 all_is_told
		stop_site paris
		[ "$(count_told paris begins failures 'repositories: conflict')" -eq "$times" ]
		[ "$(count_told paris over failures 'repositories: conflict')" -eq 1 ]
		remove_repository london/git/d
		rm -rf paris/told paris/git/d
		touch paris/told
	done
}

has_mail() { # NUMBER
	test -f "mail/mail.$1"
}

mails() {
	make_alert_sites a
	make_certificate . 30
	mkdir mail
	python3 "$TESTS/peers/smtp.py" mail "$PWD/cert.pem" "$PWD/key.pem" watch s3cret &
	wait_until 10 test -f mail/port
	(umask 077 && echo s3cret >mail.password)
	alert paris kind failures
	git config --file paris/refrelay.conf --unset alert.a.command
	git config --file paris/refrelay.conf --add alert.a.mail oncall@example.com
	git config --file paris/refrelay.conf --add alert.a.mail boss@example.com
	set_conf paris alert.a.smtp "smtp://localhost:$(cat mail/port)"
	set_conf paris alert.a.from refrelay@example.com
	set_conf paris alert.a.userName watch
	set_conf paris alert.a.passwordFile "$PWD/mail.password"
	set_conf paris alert.a.caFile "$PWD/cert.pem"
	start_sites
	wait_until 20 in_sync
	make_trouble
	wait_until 20 has_mail 1
	grep 'MAIL FROM:<refrelay@example.com>' mail/envelope.1
	grep 'RCPT TO:<boss@example.com>' mail/envelope.1
	grep -x 'Subject: refrelay paris: failures' mail/mail.1
	grep '^failures: repositories failing: 1 (conflict), e.g. d/c: ' mail/mail.1
	end_trouble
	wait_until 20 has_mail 2
	grep -x 'Subject: refrelay paris: over: failures' mail/mail.2
	# A server that refuses, a wrong password, and a certificate that nobody vouches for.
	echo '550 no such person' >mail/refuse
	expect 1 at paris alert test
	grep 'does not take the mail' err
	rm mail/refuse
	(umask 077 && echo wrong >mail.password)
	expect 1 at paris alert test --json
	grep '"code":"auth"' out
	(umask 077 && echo s3cret >mail.password)
	git config --file paris/refrelay.conf --unset alert.a.caFile
	set_conf paris alert.a.smtp "smtps://localhost:$(cat mail/port)"
	expect 1 at paris alert test
	fails grep -r s3cret paris/log paris/data out err
}

mails_in_the_clear_stay_here() {
	make_alert_sites a
	mkdir mail
	python3 "$TESTS/peers/smtp.py" mail &
	wait_until 10 test -f mail/port
	alert paris
	git config --file paris/refrelay.conf --unset alert.a.command
	set_conf paris alert.a.mail root@localhost
	set_conf paris alert.a.smtp "smtp://127.0.0.1:$(cat mail/port)"
	expect 0 at paris alert test
	grep '^a: message delivered: smtp://127.0.0.1:[0-9]* answers 250$' out
	grep -x 'Subject: refrelay paris: test message' mail/mail.1
	# To a host elsewhere nothing goes without TLS.
	set_conf paris alert.a.smtp "smtp://$(hostname):$(cat mail/port)"
	set_conf paris alert.a.caFile "$PWD/secret"
	expect 1 at paris alert test
	fails has_mail 2
}

what_cannot_be_is_refused() {
	make_alert_sites a
	set_conf paris alert.a.lag 5m
	expect 2 at paris alert list
	grep 'alert.a sends no messages' err
	set_conf paris alert.a.command "$PWD/no-program"
	at paris check >says 2>&1 || :
	grep "FAIL .*alert .*alert a cannot run $PWD/no-program" says
	expect 1 at paris alert test
	expect 4 at paris alert test b
	grep 'no alert named b' err
	set_conf paris alert.a.command "/bin/cat"
	set_conf paris alert.a.rain 1
	expect 2 at paris alert list
	grep 'alert.a.rain' err
}

tap_test "a webhook that is away is told later, signed, and the failure shows until then" \
	a_webhook_that_is_away_is_told_later
tap_test "a node that dies while it sends tells all after it" a_node_that_dies_while_it_sends
tap_test "mails go by STARTTLS with a password" mails
tap_test "mails go in the clear to this machine only" mails_in_the_clear_stay_here
tap_test "settings that make no sense are refused by name" what_cannot_be_is_refused
tap_done
