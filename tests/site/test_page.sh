#!/usr/bin/env bash
# The page for people in a real Chromium: what it shows of a primary, a secondary and a site of its
# own, what changes while it is open, signing in, and a node that goes and comes back.
#
# PAGE_SCREENSHOTS=DIRECTORY has pictures of the page put there.
cache=${HOME:-/root}
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/sites.sh"
. "$(dirname "$0")/../lib/two_sites.sh"
. "$(dirname "$0")/../lib/pushed.sh"
. "$(dirname "$0")/../lib/paged.sh"

shows_that_all_is_well() {
	drive overview "$(site_url paris)" "in sync, verified" good Numbers Leases \
		"Sites and destinations"
}

shows_nothing_unproved_as_up_to_date() {
	drive unproved "$(site_url paris)"
}

shows_a_push_within_two_seconds() {
	git clone -q london/git/team/app.git work
	drive live "$(site_url paris)" "$(<operator.token)" team/app "$PWD/work"
}

shows_who_follows_a_primary() {
	drive primary "$(site_url london)" "$(<operator.token)" paris team/app
}

# A third site mirrors one repository of london and pushes it on.
shows_mirrors_and_remotes() {
	mkdir -p oslo/git tokyo
	set_conf oslo site.name oslo
	set_conf oslo site.role standalone
	set_conf oslo site.repositories "$PWD/oslo/git"
	set_conf oslo site.data "$PWD/oslo/data"
	set_conf oslo http.listen "127.0.0.1:$(free_port)"
	set_conf oslo mirror.team/app.url "$(site_url london)/team/app.git"
	set_conf oslo watcher.builder.mirror team/app
	set_conf oslo watcher.builder.tokenFile "$PWD/looker.token"
	set_conf oslo remote.tokyo.url "$PWD/tokyo/\${name}.git"
	set_conf oslo remote.tokyo.replicationDelay 0
	start_site oslo
	drive standalone "$(site_url oslo)" team/app builder tokyo
}

asks_for_a_token() {
	drive signin "$(site_url london)" "$(<operator.token)"
}

goes_on_when_signing_in_is_canceled() {
	drive cancel "$(site_url paris)" "$(<operator.token)" team/web
}

shows_no_proof_when_hidden_or_signed_out() {
	drive hidden "$(site_url paris)"
	drive expires "$(site_url london)" "$(<operator.token)"
}

gives_a_reader_no_buttons() {
	drive reader "$(site_url paris)" "$(<looker.token)" team/web
	expect 22 curl -fsS -X POST -H "Authorization: Bearer $(<looker.token)" \
		"$(site_url paris)/api/v1/repositories/team%2Fweb/sync"
}

lets_an_operator_work() {
	drive operator "$(site_url paris)" "$(<operator.token)" team/web
}

# Nobody listens at one destination, a hook refuses all at the other.
lets_an_operator_retry_and_discard_pushes() {
	mkdir -p kobe/git osaka
	git clone -q --bare london/git/team/web.git kobe/git/web.git
	git init -q --bare osaka/web.git
	printf '#!/bin/sh\nexit 1\n' >osaka/web.git/hooks/pre-receive
	chmod +x osaka/web.git/hooks/pre-receive
	set_conf kobe site.name kobe
	set_conf kobe site.role standalone
	set_conf kobe site.repositories "$PWD/kobe/git"
	set_conf kobe site.data "$PWD/kobe/data"
	set_conf kobe http.listen "127.0.0.1:$(free_port)"
	set_conf kobe remote.osaka.url "$PWD/osaka/\${name}.git"
	set_conf kobe remote.kyoto.url "git://127.0.0.1:1/\${name}.git"
	give_token kobe operator operate
	start_site kobe
	at kobe push start --all --now
	drive pushes "$(site_url kobe)" "$(<operator.token)" kyoto osaka
}

shows_what_no_row_and_no_remote_has() {
	drive beyond "$(site_url paris)" "$(<operator.token)"
}

shows_what_waits_beside_what_is_held() {
	drive crowded "$(site_url paris)"
}

offers_commands_that_a_shell_takes() {
	drive pasted "$(site_url paris)" "$(<looker.token)"
}

tells_what_it_could_not_read() {
	drive unread "$(site_url paris)" "$(<operator.token)" team/web
}

tells_a_screen_reader_of_another_state() {
	drive told "$(site_url paris)"
}

# Somebody has a lease for long.
names_who_holds_a_lease() {
	at paris lease run an/own/key -- sh -c 'echo >held; while [ -e held ]; do sleep 0.05; done' &
	wait_until 20 test -s held
	drive lease "$(site_url paris)" an/own/key
	rm held
	wait
}

# A first copy comes as packs, whose bytes are counted.
make_large() { # NAME
	local tree commit

	git init -q --bare large
	head -c 6000000 /dev/urandom | git -C large hash-object -w --stdin >blob
	tree=$(printf '100644 blob %s\tdata\n' "$(<blob)" | git -C large mktree)
	commit=$(git -C large commit-tree -m large "$tree")
	git -C large update-ref refs/heads/main "$commit"
	git -C large repack -qad
	mv large "london/git/$1.git"
}

shows_what_runs() {
	set_conf paris sync.bandwidth 300k
	reload_paris
	make_large large
	drive running "$(site_url paris)" large
	set_conf paris sync.bandwidth 0
	reload_paris
	wait_until 60 in_sync
}

# What the manual shows: some work, a remote, a copy that others have written to.
take_pictures() {
	local tree

	kill "$(site_pid paris)"
	wait_until 20 has_died paris
	set_conf paris remote.tokyo.url "$PWD/tokyo/\${name}.git"
	set_conf paris remote.tokyo.replicationDelay 0
	python3 - "$PWD/paris/data/refrelay.db" <<-'END'
		import math, sqlite3, sys, time
		db = sqlite3.connect(sys.argv[1])
		minute = int(time.time()) // 60
		for i in range(1, 360):
		    lag = 900 + 500 * math.sin(i / 7) + 400 * math.sin(i / 2.3)
		    if 130 < i < 170:
		        lag += 900 * (20 - abs(i - 150))
		    for kind, peer, share in ("site", "paris", 1), ("remote", "tokyo", 2.2):
		        db.execute("INSERT OR REPLACE INTO lag_sample VALUES (?, ?, ?, ?)",
		                   (kind, peer, minute - i, int(lag * share)))
		db.commit()
	END
	set_conf paris sync.bandwidth 300k
	set_conf paris sync.repositoryCapacity 1
	start_site paris
	tree=$(git -C paris/git/docs.git rev-parse 'main^{tree}')
	in_copy docs.git update-ref refs/heads/main \
		"$(in_copy docs.git commit-tree -p main -m foreign "$tree")"
	wait_until 30 row_is paris docs word held
	make_large platform/kernel
	wait_until 30 row_is paris platform/kernel word copying
	make_repository london/git/team/mobile.git 3
	add_commits london/git/team/app.git refs/heads/main 1
	wait_until 30 row_is paris team/mobile word waiting
	drive pictures "$(site_url paris)" "$(<operator.token)"
	set_conf paris sync.bandwidth 0
	set_conf paris sync.repositoryCapacity 10
	reload_paris
	at paris repository sync --force docs
	wait_until 60 row_is paris docs word "up to date"
}

# Once it hangs, once it dies.
comes_back_with_its_node() {
	! has_died paris || start_site paris
	drive away "$(site_url paris)" "kill -STOP $(site_pid paris)" "kill -CONT $(site_pid paris)"
	drive away "$(site_url paris)" "kill -KILL $(site_pid paris)" \
		"'$REFRELAY' -c paris/refrelay.conf serve -v >>paris/log 2>&1 & echo \$! >paris/pid"
}

tap_set_up set_up_page
tap_test "the page shows that all is well" at_sites shows_that_all_is_well
tap_test "nothing that is not proved is shown as up to date" \
	at_sites shows_nothing_unproved_as_up_to_date
tap_test "a push is on the page within two seconds" at_sites shows_a_push_within_two_seconds
tap_test "a primary shows who follows it, and which refs changed" \
	at_sites shows_who_follows_a_primary
tap_test "mirrors, watchers and remotes are shown" at_sites shows_mirrors_and_remotes
tap_test "who has no right signs in, and the token stays in the tab" at_sites asks_for_a_token
tap_test "who cancels signing in sees live state again" \
	at_sites goes_on_when_signing_in_is_canceled
tap_test "a hidden tab, old content and a sign-in are no proof" \
	at_sites shows_no_proof_when_hidden_or_signed_out
tap_test "a reader has no buttons" at_sites gives_a_reader_no_buttons
tap_test "an operator syncs, resyncs and reverifies by keyboard" at_sites lets_an_operator_work
tap_test "an operator retries and discards pushes" \
	at_sites lets_an_operator_retry_and_discard_pushes
tap_test "what is held or left is shown, wherever it is" \
	at_sites shows_what_no_row_and_no_remote_has
tap_test "what waits is shown, however much is held" at_sites shows_what_waits_beside_what_is_held
tap_test "commands to paste take names for nothing else" \
	at_sites offers_commands_that_a_shell_takes
tap_test "what the node refuses to tell is not shown as nothing" \
	at_sites tells_what_it_could_not_read
tap_test "a screen reader hears of another state, not of each refresh" \
	at_sites tells_a_screen_reader_of_another_state
tap_test "the holder of a lease is named" at_sites names_who_holds_a_lease
tap_test "what runs is shown with its progress and holder" at_sites shows_what_runs
[ -z "${PAGE_SCREENSHOTS-}" ] ||
	tap_test "pictures of it are made" at_sites take_pictures
tap_test "the page says that the node is away, and goes on with it" at_sites comes_back_with_its_node
tap_done
