#!/usr/bin/env bash
# What a mirror brought is told to a command or a webhook: all of it, in order, with right old values.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/mirrored.sh"

secret=0123456789abcdef0123456789abcdef

make_then_sites() { # MIRROR...
	local name

	make_mirror_sites
	set_conf london http.anonymousRead true
	for name; do
		make_repository "london/git/$name.git" 3
		mirror "$name" interval 1h
	done
	start_site london
	# Appends what it is given to the file that is named, unless FILE.refuses is there.
	cat >tell <<-'END'
		#!/bin/sh
		[ $# -eq 1 ] || exit 9
		[ ! -e "$1.refuses" ] || { echo "not now, says $1" >&2; exit 3; }
		cat >>"$1"
	END
	chmod +x tell
}

start_webhook() {
	mkdir -p hook
	python3 "$TESTS/peers/webhook.py" hook "$secret" &
	wait_until 10 test -f hook/port
}

tell_a_webhook() { # MIRROR
	start_webhook
	(umask 077 && echo "$secret" >then.secret)
	mirror "$1" 'then' "http://127.0.0.1:$(cat hook/port)/x?token=hidden" \
		thenSecretFile "$PWD/then.secret"
}

refs_at() { # SITE NAME
	git -C "$1/git/$2.git" for-each-ref
}

has_lines() { # FILE COUNT
	[ "$(wc -l <"$1")" -ge "$2" ]
}

is_told() { # TOLD BEFORE NAME
	diff <(refs_at london "$3") <(refs_at paris "$3") && refs_at paris "$3" >after &&
		python3 "$TESTS/peers/then_chain.py" "$1" "$2" after
}

bring() { # NAME
	at paris mirror sync "$1" "${@:2}" --json >synced
}

member_of_line() { # FILE NUMBER MEMBER
	sed -n "$2{s/^good //;p}" "$1" | "$SITE_HELP" member "$3"
}

waits() { # NAME COUNT
	[ "$(at paris mirror show "$1" --json | "$SITE_HELP" member then.waiting)" = "$2" ]
}

change() { # NAME [BRANCH]
	add_commits "london/git/$1.git" "refs/heads/${2:-main}" 1 main
}

a_command_is_told() {
	make_then_sites a
	mkdir 'a b'
	mirror a 'then' "$PWD/tell '$PWD/a b/told'"
	: >none
	start_site paris
	wait_until 20 is_told 'a b/told' none a
	[ "$(member_of_line 'a b/told' 1 mirror)" = a ]
	[ "$(member_of_line 'a b/told' 1 branch)" = main ]
	[ "$(member_of_line 'a b/told' 1 commit)" = "$(tip london/git/a.git)" ]
	[ "$(member_of_line 'a b/told' 1 more)" = 0 ]
	member_of_line 'a b/told' 1 checked_at | grep -x '20[0-9TZ:.-]*'
	change a
	git -C london/git/a.git branch other
	bring a
	wait_until 20 is_told 'a b/told' none a
	[ "$(member_of_line 'a b/told' 2 job)" = "$("$SITE_HELP" member job <synced)" ]
	git -C london/git/a.git branch -D other
	git -C london/git/a.git symbolic-ref HEAD refs/heads/fresh
	bring a
	wait_until 20 waits a 0
	change a fresh
	bring a
	wait_until 20 is_told 'a b/told' none a
	has_lines 'a b/told' 4
	[ "$(member_of_line 'a b/told' 4 branch)" = fresh ]
	# What is not new is not told again, nor is it after a restart.
	bring a
	stop_site paris
	start_site paris
	change a
	bring a
	wait_until 20 is_told 'a b/told' none a
	[ "$(wc -l <'a b/told')" -eq 5 ]
	wait_until 20 waits a 0
}

a_webhook_is_told_and_can_tell_who_says_so() {
	make_then_sites a
	tell_a_webhook a
	give_token london app1 read
	set_conf london http.anonymousRead false
	stop_site london
	start_site london
	watch a app1
	: >none
	start_site paris
	wait_until 20 is_told hook/told none a
	[ "$(member_of_line hook/told 1 watcher)" = app1 ]
	[ "$(cat hook/signature)" = "sha256=$(openssl dgst -sha256 -hmac "$secret" -r hook/body | cut -d ' ' -f 1)" ]
	# Another secret counts from the next document on.
	(umask 077 && echo another >then.secret)
	change a
	bring a
	wait_until 20 has_lines hook/told 2
	grep -c '^bad ' hook/told | grep -x 1
	[ "$(cat hook/signature)" = "sha256=$(openssl dgst -sha256 -hmac another -r hook/body | cut -d ' ' -f 1)" ]
	fails grep -r "$secret" paris/log paris/data
}

fails_with() { # NAME TEXT
	at paris mirror show "$1" >shown
	grep "then: failing since .*$2" shown && grep -A 1 'then: failing' shown | grep 'hint: '
}

a_receiver_that_is_away_holds_up_nobody() {
	make_then_sites a b
	tell_a_webhook a
	mirror b 'then' "$PWD/tell $PWD/told.b"
	: >none
	start_site paris
	wait_until 20 is_told hook/told none a
	wait_until 20 is_told told.b none b
	echo 503 >hook/status
	change a
	bring a
	wait_until 20 fails_with a 'http://127.0.0.1:[0-9]* answers 503'
	wait_until 20 was_logged paris mirror.not_told 'answers 503" code=network name=a .*remedy="'
	waits a 1
	# The mirror itself goes on, as do others.
	change a
	bring a
	is_mirrored a
	change b
	bring b
	wait_until 20 is_told told.b none b
	stop_site paris
	start_site paris
	wait_until 20 fails_with a 'answers 503'
	rm hook/status
	wait_until 30 is_told hook/told none a
	[ "$(wc -l <hook/told)" -eq 3 ]
	wait_until 20 waits a 0
	at paris mirror show a >shown
	fails grep 'then' shown
	fails grep -r hidden paris/log paris/data
	# So with a command, whose words are shown.
	: >told.b.refuses
	change b
	bring b
	wait_until 20 fails_with b 'not now, says'
	rm told.b.refuses
	wait_until 30 is_told told.b none b
	fails grep '^bad' hook/told
}

who_wants_rest_has_it() {
	make_then_sites a
	tell_a_webhook a
	: >none
	start_site paris
	wait_until 20 is_told hook/told none a
	echo 3 >hook/rest
	echo 429 >hook/status
	change a
	bring a
	wait_until 20 was_logged paris mirror.not_told 'retry_in_ms=3000'
	rm hook/status
	wait_until 30 has_lines hook/told 2
	echo 600 >hook/rest
	echo 503 >hook/status
	change a
	bring a
	wait_until 20 was_logged paris mirror.not_told 'retry_in_ms=600000'
	waits a 1
	[ "$(grep -c 503 hook/asked)" = 1 ]
}

dies_at_a_step() {
	local point waiter

	make_then_sites a
	mirror a 'then' "$PWD/tell $PWD/told"
	: >none
	start_site paris
	wait_until 20 is_told told none a
	for point in publish.changed sync.verified notice.committed sync.done then.kept then.tells then.told; do
		echo "$point:"
		kill_site paris
		start_site paris "REFRELAY_FAILPOINT=$point=kill"
		change a
		git -C london/git/a.git branch "at-$point"
		bring a &
		waiter=$!
		wait_until 20 has_died paris
		# There may be something newer when it starts again.
		change a
		start_site paris
		wait "$waiter" || :
		bring a
		wait_until 20 is_told told none a
	done
	wait_until 20 waits a 0
}

# Changes of the same ref are not put together: nobody would hear of the commits between.
slower_than_the_mirror() {
	local number

	make_then_sites a
	mirror a 'then' "$PWD/tell $PWD/told"
	: >none
	start_site paris
	wait_until 20 is_told told none a
	: >told.refuses
	for number in 1 2 3 4; do
		git -C london/git/a.git branch "new-$number"
		bring a
	done
	for number in $(seq 25); do
		change a
		bring a
	done
	waits a 20
	rm told.refuses
	wait_until 60 is_told told none a
	wait_until 20 waits a 0
	[ "$(wc -l <told)" -eq 21 ]
	[ "$(sed 's/.*"more"://; s/}//' told | paste -sd+ | bc)" -ge 5 ]
	[ "$(head -n 20 told | grep -c '"more":0}')" -eq 20 ]
}

# A mirror that begins to tell says nothing of what was there.
begins_late() {
	make_then_sites a
	start_site paris
	wait_until 20 is_mirrored a
	refs_at paris a >before
	stop_site paris
	mirror a 'then' "$PWD/tell $PWD/told"
	start_site paris
	change a
	bring a
	wait_until 20 test -f told
	wait_until 20 is_told told before a
	# One that has stopped to, and begins again, does as well.
	stop_site paris
	git config --file paris/refrelay.conf --unset mirror.a.then
	start_site paris
	change a
	bring a
	stop_site paris
	mirror a 'then' "$PWD/tell $PWD/told.later"
	refs_at paris a >before
	start_site paris
	change a
	bring a
	wait_until 20 test -f told.later
	wait_until 20 is_told told.later before a
}

is_refused() { # KEY VALUE TEXT
	git config --file paris/refrelay.conf --unset mirror.a.then || :
	git config --file paris/refrelay.conf --unset mirror.a.thenSecretFile || :
	set_conf paris "mirror.a.$1" "$2"
	expect 2 at paris mirror list
	grep "$3" err
}

what_nobody_can_be_told() {
	make_then_sites a
	is_refused 'then' 'tell me' 'neither an http(s) URL nor the path of a program'
	is_refused 'then' '/bin/cat "open' 'has a quote that is open'
	is_refused 'then' 'https://user:pass@example.com/x' 'refrelay.conf:[0-9]*'
	fails grep pass err
	# What is wrong at this machine is found by check.
	git config --file paris/refrelay.conf --unset mirror.a.then
	set_conf paris mirror.a.then "$PWD/no-program x"
	at paris check >said 2>&1 || :
	grep "the mirror a cannot run $PWD/no-program" said
	set_conf paris mirror.a.then https://ci.example.com/x
	set_conf paris mirror.a.thenSecretFile "$PWD/no-secret"
	at paris check >said 2>&1 || :
	grep "the credential in $PWD/no-secret is not there" said
	is_refused thenSecretFile "$PWD/secret" 'has thenSecretFile, but no webhook'
}

tap_test "a command gets each change on its standard input" a_command_is_told
tap_test "a webhook gets each change, signed with the secret as it is now" \
	a_webhook_is_told_and_can_tell_who_says_so
tap_test "a receiver that is away is told later, and holds up nobody" \
	a_receiver_that_is_away_holds_up_nobody
tap_test "who wants rest has it" who_wants_rest_has_it
tap_test "a node that dies at any step tells all, with right old values" dies_at_a_step
tap_test "for a slow receiver changes are put together, and what is lost is counted" \
	slower_than_the_mirror
tap_test "what was there before is nobody's news" begins_late
tap_test "a receiver that cannot be one is refused by name" what_nobody_can_be_told
tap_done
