#!/usr/bin/env bash
# Pushing over HTTP: with a password that nobody sees, to places whose names are encoded.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"
. "$TESTS/lib/gerrit.sh"
. "$TESTS/lib/ssh.sh"

canary="kestrel+Over/Marsh:9-$$" # not that of another run

# ./home with remote web, to ./web over HTTP
make_web_home() { # [KEY VALUE]... of the remote
	make_gerrit_node home
	start_git_http web "pusher:$canary"
	gerrit_remote web url "http://127.0.0.1:$(cat web/port)/\${name}.git" "$@"
	secure_conf remote.web.username pusher
	secure_conf remote.web.password "$canary"
}

asked() { # PATTERN
	grep -cE "$1" web/asked
}

names_are_encoded_in_the_path() {
	make_web_home
	make_source 'a b/c=d'
	make_destination 'web/a b/c=d'
	start_ready home
	expect 0 at home push start --all --wait
	same_refs 'git/a b/c=d.git' 'web/a b/c=d.git'
	[ "$(asked '^POST /a%20b/c=d\.git/git-receive-pack 200$')" -gt 0 ]
	queue_is home 0 'len(q["queue"])'
	stop_site home
}

a_wrong_password_is_named_and_mended() {
	make_web_home replicationRetry 60
	git config --file gerrit/etc/secure.config remote.web.password wrong
	make_source a 1
	make_destination web/a
	start_ready home
	at home push start a
	wait_until 20 queue_is home auth 'q["queue"][0]["failure"]["code"]'
	at home push queue | grep -q 'secure.config'
	[ "$(asked ' 200$')" -eq 0 ]
	git config --file gerrit/etc/secure.config remote.web.password "$canary"
	chmod 600 gerrit/etc/secure.config
	reload home
	at home push retry --all
	wait_until 20 store_is_empty
	same_refs git/a.git web/a.git
	stop_site home
}

others_must_not_read_the_passwords() {
	make_web_home
	chmod 640 gerrit/etc/secure.config
	expect 2 at home serve
	grep -q 'secure.config can be read or written by others (mode 0640)' err
	fails grep -F "$canary" err out
}

# A missing repository is nothing that HTTP could make.
what_is_missing_cannot_be_made() { # CREATES
	make_web_home replicationRetry 60 createMissingRepositories "$1"
	make_source a 1
	start_ready home
	at home push start a
	wait_until 20 was_logged home push.failed 'adminUrl'
	make_destination web/a
	at home push retry --all
	wait_until 20 store_is_empty
	same_refs git/a.git web/a.git
	stop_site home
}

# Other ways are there for that.
an_admin_url_makes_and_deletes() {
	make_web_home replicateProjectDeletions true
	ssh_start far
	gerrit_conf remote.web.adminUrl "$(ssh_url far "$PWD/web")/\${name}.git"
	set_conf home remote.web.sshKey "$PWD/far/user_key"
	set_conf home remote.web.sshKnownHosts "$PWD/far/known_hosts"
	make_source 'a b'
	make_source stays
	start_ready home
	expect 0 at home push start --all --wait
	same_refs 'git/a b.git' 'web/a b.git'
	git -C 'git/a b.git' symbolic-ref HEAD refs/heads/other
	at home changed 'a b'
	wait_until 20 was_logged home push.head refs/heads/other
	[ "$(git -C 'web/a b.git' symbolic-ref HEAD)" = refs/heads/other ]
	remove_repository 'git/a b.git'
	report_removed home 'a b'
	wait_until 20 was_logged home push.deleted
	[ ! -e 'web/a b.git' ]
	same_refs git/stays.git web/stays.git
	fails grep -q pack far/commands
	stop_site home
}

# Also as it is sent.
write_secrets() {
	(umask 077 && printf '%s\n' "$canary" "$(printf 'pusher:%s' "$canary" | base64)" \
		"kestrel%2BOver%2FMarsh%3A9-$$" >secrets)
}

nobody_shows_it() { # PATH...
	local path shown
	for path; do
		[ -e "$path" ]
	done
	# What a node that runs removes meanwhile cannot be read, and the rest is.
	shown=$(grep -rlsaFf secrets "$@") || true
	[ -z "$shown" ] || fail "the password is told: $shown"
}

no_process_shows_it() {
	local shown
	# Some end while they are looked at, which is a status of its own.
	shown=$(grep -lsaFf secrets /proc/[0-9]*/cmdline /proc/[0-9]*/environ) || true
	[ -z "$shown" ] || fail "processes show the password: $shown"
}

pages_show_nothing() {
	local page
	mkdir -p pages
	for page in healthz readyz metrics api/v1/status api/v1/push/queue api/v1/leases \
		api/v1/repositories api/v1/repositories/a; do
		curl -sS -m 10 -o "pages/${page//\//-}" "$(site_url home)/$page"
		[ -s "pages/${page//\//-}" ]
	done
	for page in 'push list --detail' 'push list --json --detail' 'push queue' \
		'push queue --json' check status 'config list'; do
		# shellcheck disable=SC2086
		at home $page >"pages/${page// /-}" 2>&1 || true
		[ -s "pages/${page// /-}" ]
	done
	nobody_shows_it pages
}

the_password_is_seen_nowhere() {
	make_web_home replicationRetry 60
	write_secrets
	gerrit_remote inline url \
		"http://pusher:kestrel%2BOver%2FMarsh%3A9-$$@127.0.0.1:$(cat web/port)/\${name}.git" \
		replicationDelay 3600 projects none
	set_conf home http.anonymousRead true
	make_source a 60 # too large to go without git, whose processes are looked at
	make_destination web/a
	hold web/a
	start_ready home
	at home push start a
	wait_until 20 is_held web/a
	no_process_shows_it
	pages_show_nothing
	nobody_shows_it store home
	let_go
	wait_until 20 store_is_empty
	# And when it fails.
	printf '#!/bin/sh\nexit 1\n' >web/a.git/hooks/pre-receive
	add_commits git/a.git refs/heads/main 1
	at home changed a
	wait_until 20 was_logged home push.gave_up
	add_commits git/a.git refs/heads/main 1
	echo wrong:login >web/login
	at home changed a
	wait_until 20 was_logged home push.failed code=auth
	pages_show_nothing
	nobody_shows_it store home
	stop_site home
	nobody_shows_it store home
}

# Each git that a node started in these directories; its own processes are not git's.
make_watched_git() {
	mkdir -p bin
	printf '#!/bin/sh\necho "$*" >>%q\nexec %q "$@"\n' "$PWD/called" \
		"$(command -v git)" >bin/git
	chmod +x bin/git
}

called() { # PATTERN
	grep -cE "$1" called || true
}

pushed_by() { # git|refrelay NUMBER
	is_logged "$2" home push.done "by=$1( |\$)"
}

# Each is counted a moment after its tasks are done.
three_pushes_without_git_are_counted() {
	curl -fsS -m 30 "$(site_url home)/metrics" >metrics
	grep -E '^refrelay_pushes_without_git_total\{remote="web"\} [3-9]' metrics
}

a_small_change_starts_no_git() {
	local before
	make_web_home
	make_watched_git
	make_source a
	make_destination web/a
	start_ready home "PATH=$PWD/bin:$PATH"
	expect 0 at home push start --all --wait
	wait_until 10 pushed_by refrelay 1
	same_refs git/a.git web/a.git
	[ "$(called .)" -gt 0 ] # else it could not be seen
	before=$(called .)
	change a
	wait_until 20 same_refs git/a.git web/a.git
	wait_until 10 pushed_by refrelay 2
	git -C git/a.git update-ref refs/heads/new main
	git -C git/a.git tag -a -m v v main
	at home changed a
	wait_until 20 same_refs git/a.git web/a.git
	wait_until 10 store_is_empty
	[ "$(called .)" -eq "$before" ] || { cat called; false; }
	[ "$(received web/a refs/heads/main)" -eq 2 ]
	git -C web/a.git fsck --full --strict
	wait_until 10 three_pushes_without_git_are_counted
	[ "$(logged home push.done by=git)" = 0 ]
	stop_site home
}

what_a_hook_refuses_git_tells() {
	make_web_home
	make_watched_git
	make_source a
	make_destination web/a
	start_ready home "PATH=$PWD/bin:$PATH"
	expect 0 at home push start --all --wait
	wait_until 10 pushed_by refrelay 1
	printf '#!/bin/sh\necho "no more today" >&2\nexit 1\n' >web/a.git/hooks/pre-receive
	add_commits git/a.git refs/heads/main 1
	at home changed a
	wait_until 20 was_logged home push.gave_up
	wait_until 10 was_logged home push.ref 'pre-receive hook declined'
	wait_until 10 pushed_by git 1
	[ "$(called '^push .*--porcelain')" -eq 1 ] || { cat called; false; }
	stop_site home
}

# It is all there after a restart, and what was moved by somebody else meanwhile stays.
dies_and_comes_back() { # POINT...
	local point
	make_web_home
	make_source a
	make_destination web/a
	start_ready home
	expect 0 at home push start --all --wait
	stop_site home
	for point; do
		echo "$point:"
		add_commits git/a.git refs/heads/main 1
		write_task waiting a refs/heads/main \
			"http://127.0.0.1:$(cat web/port)/a.git" web
		launch_site home "REFRELAY_FAILPOINT=$point=kill"
		is_killed_within 15 home
		start_site home
		wait_until 10 store_is_empty
		same_refs git/a.git web/a.git
		git -C web/a.git fsck --full --strict
		stop_site home
	done
	[ "$(logged home push.done by=git)" = 0 ]
}

is_moved_meanwhile() {
	local theirs
	make_web_home
	make_source a
	make_destination web/a
	start_ready home
	expect 0 at home push start --all --wait
	stop_site home
	add_commits git/a.git refs/heads/main 1
	write_task waiting a refs/heads/main "http://127.0.0.1:$(cat web/port)/a.git" web
	launch_site home REFRELAY_FAILPOINT=transfer_http.listed=stop
	wait_until 15 is_paused home
	theirs=$(git -C web/a.git commit-tree -p main -m theirs 'main^{tree}')
	git -C web/a.git update-ref refs/heads/main "$theirs"
	kill -CONT "$(site_pid home)"
	wait_until 20 was_logged home push.gave_up
	[ "$(git -C web/a.git rev-parse main)" = "$theirs" ]
	wait_until 10 was_logged home push.ref 'status=REJECTED_NONFASTFORWARD'
	wait_until 10 pushed_by git 1
	stop_site home
}

# A push of all refs asks the destination first, which takes its time.
its_tree_goes_meanwhile() {
	local server
	make_web_home
	server=$!
	make_source a
	make_destination web/a
	start_ready home
	expect 0 at home push start --all --wait
	add_commits git/a.git refs/heads/main 1
	kill -STOP "$server"
	at home push start a
	wait_until 20 is_pushing
	sleep 0.5
	mv git away
	kill -CONT "$server"
	wait_until 20 was_logged home push.put_off
	fails was_logged home push.gave_up
	stop_site home
	mv away git
	start_site home
	wait_until 30 store_is_empty
	same_refs git/a.git web/a.git
	stop_site home
}

is_pushing() {
	[ -n "$(find store/ref-updates/running -type f -print -quit)" ]
}

tap_test "a small change starts no git" a_small_change_starts_no_git
tap_test "what a hook refuses, git tells" what_a_hook_refuses_git_tells
tap_test "a node is killed before and after it sends" dies_and_comes_back \
	transfer_http.listed transfer_http.sent
tap_test "what was moved meanwhile stays" is_moved_meanwhile
tap_test "a tree that goes away meanwhile loses no task" its_tree_goes_meanwhile
tap_test "names are encoded in the path" names_are_encoded_in_the_path
tap_test "a wrong password is named, and mended" a_wrong_password_is_named_and_mended
tap_test "others must not be able to read the passwords" others_must_not_read_the_passwords
tap_test "what is missing cannot be made by HTTP" what_is_missing_cannot_be_made true
tap_test "what is missing is not made" what_is_missing_cannot_be_made false
tap_test "an adminUrl makes, and deletes" an_admin_url_makes_and_deletes
tap_test "the password is seen nowhere" the_password_is_seen_nowhere
tap_done
