#!/usr/bin/env bash
# Real clients of all kinds at both sites at once: nobody is told what is not so, nobody is
# taken back, nothing that was called pushed is lost, and the events tell it all.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"

exec 3>&1 # for figures, which a test that passes does not show

peers=$TESTS/peers

write_options_down() {
	cat >london/git/r.git/hooks/pre-receive <<-'HOOK'
		#!/bin/sh
		[ "${GIT_PUSH_OPTION_COUNT:-0}" -eq 0 ] || echo "$GIT_PUSH_OPTION_0" >>options
	HOOK
	chmod +x london/git/r.git/hooks/pre-receive
}

# STORM_SECONDS and STORM_OPTIONS are for longer storms, by hand.
storm() {
	python3 "$peers/git_storm.py" --seconds "${STORM_SECONDS:-8}" --pushes 10 ${STORM_OPTIONS-} \
		--events "$REFRELAY -c $PWD/london/refrelay.conf events --json" \
		london/git/r.git "$(url_as dev london r)" "$(url_as dev paris r)" >said ||
		fail "$(<said)"
	sed 's/^/# /' said >&3
}

figure() { # NAME
	grep -o "$1=[0-9]*" said | cut -d = -f 2
}

last_event_is_what_is_there() {
	at london events --json | tail -n 1 | grep -qF "\"$(at london checksum r)\""
}

clients_of_all_kinds() {
	make_sites
	make_repository london/git/r.git 20
	git -C london/git/r.git config uploadpack.allowFilter true
	give_token london dev push
	set_conf paris http.anonymousRead true
	give_token paris dev read
	start_sites
	write_options_down
	wait_until 20 in_sync
	storm
	last_event_is_what_is_there
	wait_until 20 in_sync
	same_sites
	git -C london/git/r.git fsck --no-dangling
	[ "$(wc -l <london/git/r.git/options)" -eq "$(figure options)" ]
	[ "$(figure pushed)" -ge 10 ]
	[ -z "$(ls london/git/r.git/refrelay/state/pending)" ]
	stop_site paris
	stop_site london
}

tap_test "clients of all kinds clone, fetch and push at both sites at once" clients_of_all_kinds
tap_done
