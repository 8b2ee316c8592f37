#!/usr/bin/env bash
# Push against what means harm, or is as broken as if it did: files of another writer in
# the task store, destinations that lie, names that mean more than they say, and remotes
# that lead back to where they come from.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"
. "$TESTS/lib/ssh.sh"

start_pushing() { # REPOSITORY...
	local name
	make_node home
	add_remote home far
	for name; do
		make_source "$name"
		make_destination "far/$name"
	done
	start_site home
}

is_pushed() { # NAME
	diff <(git -C "git/$1.git" for-each-ref) <(git -C "far/$1.git" for-each-ref)
}

still_pushes() { # NAME
	add_commits "git/$1.git" refs/heads/proof 1
	at home push start --now "$1" >/dev/null
	wait_until 20 is_pushed "$1"
}

is_waiting() { # KEY...
	[ "$(waiting)" = "$(printf '%s\n' "$@" | sort)" ]
}

is_given_up() { # COUNT
	[ "$(letters | wc -l)" -eq "$1" ]
}

is_held_off() { # WORDS
	at home push queue | grep -q "$1"
}

a_task_leads_nowhere_but_where_the_remote_does() {
	local evil='--force --mirror :refs/heads/main refs/heads/../x +refs/heads/main'
	local elsewhere helper option
	start_pushing a
	make_repository victim.git 1
	git init -q --bare elsewhere.git
	write_task waiting ../victim refs/heads/main "$PWD/far/../victim.git" far
	write_task waiting ../../etc ..all.. "$PWD/far/../../etc.git" far
	elsewhere=$(write_task waiting a ..all.. "$PWD/elsewhere.git" far)
	helper=$(write_task waiting a ..all.. "ext::touch% $PWD/pwned" far)
	option=$(write_task waiting a ..all.. "--upload-pack=touch $PWD/pwned" far)
	write_task waiting a "$evil" "$PWD/far/a.git" far
	wait_until 20 is_given_up 2
	wait_until 20 is_waiting "$elsewhere" "$helper" "$option"
	still_pushes a
	[ "$(at home push queue | grep -c '  orphan for ')" -eq 3 ]
	[ ! -e pwned ]
	[ -z "$(git -C elsewhere.git for-each-ref)" ]
	stop_site home
}

a_task_that_names_all_refs_among_others_is_for_all() {
	start_pushing a
	write_task waiting a '..all.. refs/heads/none' "$PWD/far/a.git" far
	wait_until 20 is_pushed a
	stop_site home
}

is_put_aside() { # NAME...
	local name
	for name; do
		[ -n "$(find store/refrelay/unreadable -name "$name")" ] || {
			echo "$name is not"
			return 1
		}
	done
}

whatever_lies_in_the_store_the_rest_is_pushed() {
	local places=store/ref-updates requests=store/refrelay/requests
	local other=0123456789012345678901234567890123456789
	start_pushing a
	mkdir -p tree/b/c/d/e/f/g precious
	echo x | tee tree/file precious/file >tree/b/c/d/e/f/g/deepest
	mv tree $places/waiting/
	ln -s "$PWD/precious" $places/running/$other
	mkfifo $places/waiting/pipe $places/running/pipe2 store/refrelay/failed/pipe3 \
		$requests/$other.delete
	ln -s /etc/passwd $places/waiting/link
	ln -s /etc $places/waiting/link-to-directory
	python3 -c 'print("{\"refs\":" + "[" * 3000)' >$places/waiting/nested
	printf '{"uri":"%s","remote":"far","project":"a"}' "$PWD/far/a.git" >request
	mv request $requests/$other.head
	rm $places/building/.clock
	mkfifo $places/building/.clock
	still_pushes a
	kill -s HUP "$(site_pid home)"
	wait_until 20 is_put_aside pipe pipe2 link link-to-directory nested file $other \
		$other.delete $other.head
	at home push queue >/dev/null
	[ "$(ls precious)" = file ]
	stop_site home
}

times_that_lie_keep_nothing_waiting() {
	local name key
	start_pushing a b
	stop_site home
	key=$(write_task waiting a ..all.. "$PWD/far/a.git" far)
	touch -d 2400-01-01 "store/ref-updates/waiting/$key"
	key=$(write_task waiting b ..all.. "$PWD/far/b.git" far)
	touch -d 1950-01-01 "store/ref-updates/waiting/$key"
	start_site home
	for name in a b; do
		wait_until 20 is_pushed "$name"
	done
	fails grep -a 'delay_ms=-' home/log
	stop_site home
}

leads_back() { # KEY VALUE...
	make_node home sync.scanInterval 200ms
	add_remote home far "$@"
	make_source a
	expect 1 at home check
	grep -q '^FAIL   remote .* below site.repositories' out
	start_site home
	at home push start --all >/dev/null
	wait_until 20 is_held_off 'there would be no end'
	[ "$(list_repositories git)" = a.git ]
	[ "$(git -C git/a.git for-each-ref --format='%(refname)')" = refs/heads/main ]
	stop_site home
}

a_place_among_the_repositories_is_refused() {
	ln -s git link
	leads_back url "$PWD/link/mirror/\${name}.git"
}

the_repository_itself_is_refused() {
	leads_back url "$PWD/git/\${name}.git" push 'refs/*:refs/x/*'
}

a_hook_there_cannot_draw_on_the_terminal_or_pretend() {
	start_pushing a
	cat >far/a.git/hooks/pre-receive <<-'END'
		#!/bin/sh
		printf '\033]0;owned\007 \033[31mred\r\302\233 fatal: repository not found\n'
		printf 'To x\n*\trefs/heads/main:refs/heads/main\t[new branch]\nDone\n'
		printf 'Writing objects: 100%% (1/1), 1e300 GiB | 1\n'
		exit 1
	END
	at home push start --all >/dev/null
	wait_until 20 is_given_up 1
	at home push queue >queue
	grep -q 'pre-receive hook declined' queue
	LC_ALL=C fails grep -a $'[\x01-\x08\x0b-\x1f\x7f-\x9f]' queue home/log
	stop_site home
}

# One that asks who we are, sends away what is below /away/, has no answer for a node, and
# keeps git waiting.
start_http() { # PORT
	cat >serve.py <<-'END'
		import http.server, sys, time
		class Handler(http.server.BaseHTTPRequestHandler):
		    def do_GET(self):
		        agent = self.headers.get("User-Agent")
		        print(self.path, self.headers.get("Authorization"), agent, flush=True)
		        if self.path.startswith("/away/"):
		            self.send_response(302)
		            self.send_header("Location", "http://localhost:%s/stolen" % sys.argv[1])
		            self.end_headers()
		        elif agent == "git/refrelay":
		            self.send_error(500)
		        else:
		            time.sleep(60)
		address = ("127.0.0.1", int(sys.argv[1]))
		http.server.ThreadingHTTPServer(address, Handler).serve_forever()
	END
	python3 serve.py "$1" >http.log 2>&1 &
	wait_until 10 curl -s -o /dev/null "http://127.0.0.1:$1/away/"
}

arguments_and_environments() { # of what works here
	local place
	find /proc/[0-9]*/cwd -maxdepth 0 -lname "$PWD*" 2>/dev/null |
		while read -r place; do
			cat "${place%/cwd}/cmdline" "${place%/cwd}/environ" 2>/dev/null || true
		done || true
}

a_password_is_seen_only_by_the_host_that_it_is_for() {
	local port secret=joe:s3sAme coded
	coded=$(printf %s "$secret" | base64)
	port=$(free_port)
	start_http "$port"
	make_node home
	add_remote home far url "http://$secret@127.0.0.1:$port/\${name}.git"
	add_remote home away url "http://$secret@127.0.0.1:$port/away/\${name}.git" \
		adminUrl "gerrit+http://$secret@127.0.0.1:$port"
	add_remote home odd url "$secret@127.0.0.1:\${name}.git"
	make_source a
	start_site home
	at home push start --all >/dev/null
	wait_until 20 grep -q "^/a.git.*Basic $coded git/refrelay" http.log
	wait_until 20 grep -q "^/a.git.*Basic $coded git/[0-9]" http.log
	wait_until 20 is_held_off 'use the URL that this one redirects to'
	arguments_and_environments >seen
	grep -aq 'ls-remote' seen
	{
		at home check
		at home check --json
		at home config list
		at home config list --json
		at home push queue
		at home push queue --json
		at home push list --detail
		at home push list --detail --json
		at home status --json
		curl -s "$(site_url home)/metrics" "$(site_url home)/api/v1/push/queue"
		find store home/data home/log -type f -exec cat {} +
	} >>seen 2>&1 || true
	fails grep -a -e s3sAme -e "$coded" seen
	fails grep stolen http.log
	stop_site home
}

heads_are_alike() { # NAME...
	local name
	for name; do
		[ "$(cat "git/$name.git/HEAD")" = "$(cat "ssh/home/$name.git/HEAD")" ] || {
			echo "$name is not"
			return 1
		}
	done
}

are_gone_there() {
	[ "$(list_repositories ssh/home)" = keep.git ]
}

names_are_no_commands_at_the_other_end_of_ssh() {
	local name branch="refs/heads/b';touch\$IFS'pwned';\$(touch\$IFS'pwned')"
	local names=(-x "a b" "s's" '$(touch pwned)' ';touch pwned;' '~root' x:y)
	ssh_start ssh
	make_node home sync.scanInterval 200ms
	add_remote home far url "$(ssh_url ssh "$PWD/ssh/home")/\${name}.git" \
		sshKey "$PWD/ssh/user_key" sshKnownHosts "$PWD/ssh/known_hosts" threads 4 \
		replicateProjectDeletions true
	for name in keep "${names[@]}"; do
		make_repository "git/$name.git" 1
		git -C "git/$name.git" update-ref "$branch" main
		git -C "git/$name.git" symbolic-ref HEAD "$branch"
	done
	start_site home
	at home push start --all >/dev/null
	wait_until 30 store_is_empty
	heads_are_alike keep "${names[@]}"
	git -C "git/-x.git" symbolic-ref HEAD refs/heads/main
	git -C "git/~root.git" symbolic-ref HEAD refs/heads/main
	wait_until 20 heads_are_alike -x '~root'
	for name in "${names[@]}"; do
		remove_repository "git/$name.git"
	done
	wait_until 30 are_gone_there
	[ -z "$(find . -name 'pwned*')" ]
	stop_site home
	ssh_stop ssh
}

is_deleted() { # NAME
	was_logged home push.deleted "repo=$1 "
}

stays() { # NAME
	was_logged home push.not_deleted "repo=$1 "
}

a_deletion_stays_off_what_is_not_that_copy_alone() {
	local name
	make_node home sync.scanInterval 200ms
	add_remote home far replicateProjectDeletions true
	add_remote home flat replicateProjectDeletions true remoteNameStyle dash
	for name in link sub/x nest plain keep sub-x; do
		make_source "$name"
	done
	git init -q --bare outside/victim.git
	git init -q --bare outside/x.git
	start_site home
	at home push start --all >/dev/null
	wait_until 30 store_is_empty
	rm -r far/link.git far/sub
	ln -s ../outside/victim.git far/link.git
	ln -s ../outside far/sub
	git init -q --bare far/nest.git/inner/deep.git
	for name in link sub/x nest plain; do
		remove_repository "git/$name.git"
	done
	for name in link sub/x nest; do
		wait_until 20 stays "$name"
	done
	wait_until 20 is_deleted plain
	wait_until 20 was_logged home push.not_deleted 'the copy of sub-x, too'
	[ -d outside/victim.git ]
	[ -d outside/x.git ]
	[ -L far/link.git ]
	[ -d far/nest.git/inner/deep.git ]
	[ -d flat/sub-x.git ]
	[ ! -e far/plain.git ]
	[ ! -e flat/plain.git ]
	stop_site home
}

hooks_there_run_as_for_any_push() {
	start_pushing a
	cat >far/a.git/hooks/post-receive <<-'END'
		#!/bin/sh
		env >seen
		sleep 1000 >/dev/null 2>&1 </dev/null &
	END
	at home push start --all >/dev/null
	wait_until 20 store_is_empty
	grep -q '^GIT_DIR=\.$' far/a.git/seen
	fails grep -e ^GIT_ALLOW_PROTOCOL -e ^GIT_CONFIG_COUNT -e ^GIT_OBJECT_DIRECTORY \
		far/a.git/seen
	still_pushes a # although a child of the hook lives
	stop_site home
}

answers() { # STATUS CURL-ARGUMENT...
	local status=$1 got
	shift
	got=$(curl -s -o answer -w '%{http_code}' "$@")
	[ "$got" = "$status" ] || fail "$got instead of $status: $*: $(cat answer)"
}

only_the_operator_starts_pushes() {
	local url token='Authorization: Bearer a-token-of-the-operator'
	make_node home http.operatorTokenFile "$PWD/token"
	(umask 077 && echo a-token-of-the-operator >token)
	add_remote home far
	make_source a
	start_site home
	url=$(site_url home)/api/v1/push
	answers 401 -d '{"all":true}' "$url/start"
	answers 401 -d '{"all":true}' -H 'Authorization: Bearer another-token-than-that' \
		"$url/start"
	answers 405 -H "$token" "$url/start"
	answers 401 -H 'Host: evil' "$url/queue"
	answers 401 -H 'X-Forwarded-For: 192.0.2.1' "$url/queue"
	answers 404 -H "$token" -d '{"projects":["../../etc"]}' "$url/start"
	answers 404 -H "$token" -d '{"all":true,"url":"ext::sh"}' "$url/start"
	store_is_empty
	answers 202 -H "$token" -d '{"all":true}' "$url/start"
	stop_site home
}

tap_test 'a task leads nowhere but where the remote does' \
	a_task_leads_nowhere_but_where_the_remote_does
tap_test 'a task that names all refs among others is for all' \
	a_task_that_names_all_refs_among_others_is_for_all
tap_test 'whatever lies in the store, the rest is pushed' \
	whatever_lies_in_the_store_the_rest_is_pushed
tap_test 'times that lie keep nothing waiting' times_that_lie_keep_nothing_waiting
tap_test 'a place among the repositories is refused' \
	a_place_among_the_repositories_is_refused
tap_test 'the repository itself is refused' the_repository_itself_is_refused
tap_test 'a hook there cannot draw on the terminal or pretend' \
	a_hook_there_cannot_draw_on_the_terminal_or_pretend
tap_test 'a password is seen only by the host that it is for' \
	a_password_is_seen_only_by_the_host_that_it_is_for
tap_test 'names are no commands at the other end of ssh' \
	names_are_no_commands_at_the_other_end_of_ssh
tap_test 'a deletion stays off what is not that copy alone' \
	a_deletion_stays_off_what_is_not_that_copy_alone
tap_test 'hooks there run as for any push' hooks_there_run_as_for_any_push
tap_test 'only the operator starts pushes' only_the_operator_starts_pushes
tap_done
