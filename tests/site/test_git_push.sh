#!/usr/bin/env bash
# Pushes over HTTP to the site that owns the repositories: git's own answers, hooks and
# options; one event each, committed before the client is told; nothing half done.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/parted.sh"

R=git/r.git

make_primary() { # [VAR=VALUE...]
	make_sites
	make_repository london/git/r.git 5
	give_token london dev push
	give_token london looker read
	set_conf london http.anonymousRead false
	set_conf london sync.scanInterval 1h
	start_site london "$@"
	wait_until 10 event_is_there
	U=$(url_as dev london r)
	make_clone "$U" work
}

event_is_there() {
	[ "$(events_of london r)" -ge 1 ]
}

push() { # [OPTION...] REFSPEC...
	git -C work push -q "$U" "$@"
}

plain_pushes() {
	local version

	make_primary
	for version in 0 1 2; do
		commit_in work "change under $version"
		git -C work -c protocol.version=$version push -q origin main
		[ "$(tip london/git/r.git)" = "$(tip work HEAD)" ]
	done
	push main:refs/heads/new main:refs/tags/light
	push :refs/heads/new
	fails tip london/git/r.git refs/heads/new
	commit_in work
	git -C work commit -q --amend -m other
	push -f main
	[ "$(tip london/git/r.git)" = "$(tip work HEAD)" ]
	wait_until 10 was_logged london git.pushed 'repo=r user="?token dev'
}

one_event_for_many_refs() {
	local i before refs=()

	make_primary
	before=$(events_of london r)
	for i in $(seq 50); do
		refs+=("main:refs/heads/b$i")
	done
	push "${refs[@]}"
	[ "$(events_of london r)" -eq $((before + 1)) ]
	at london hooks install
	commit_in work
	push "${refs[@]}" main
	[ "$(events_of london r)" -eq $((before + 2)) ]
}

# The hook of the repository waits for what the event log says of its own push.
event_is_there_first() {
	make_primary
	commit_in work
	before=$(events_of london r)
	git -C work push -q origin main
	[ "$(events_of london r)" -eq $((before + 1)) ]
	at london events | tail -n 1 | grep -q "$(tip london/git/r.git)"
}

spool_was_read() { # TIMES-BEFORE
	[ "$(logged london spool.done)" -gt "$1" ]
}

# Hooks cannot reach the node, and leave word in its spool: that is read late, and the
# push does not wait for it. What a hook of the repository changes meanwhile is in the
# event as well.
event_does_not_wait_for_hooks() {
	make_primary
	at london hooks install
	cat >london/git/r.git/hooks/update <<-'HOOK'
		#!/bin/sh
		[ "$1" = refs/heads/main ] || exit 0
		env -u GIT_QUARANTINE_PATH git update-ref refs/heads/by-hook HEAD
	HOOK
	chmod +x london/git/r.git/hooks/update
	mv london/data/node.sock london/data/away.sock
	commit_in work
	# It is read every ten seconds: not in the middle of the push, if it was just before.
	done=$(logged london spool.done) || true
	git -C london/git/r.git update-ref refs/heads/early main
	wait_until 20 spool_was_read "$done"
	before=$(events_of london r) done=$((done + 1))
	push main main:refs/heads/more
	[ "$(events_of london r)" -eq $((before + 1)) ]
	at london events | tail -n 1 >event
	for ref in refs/heads/main refs/heads/more refs/heads/by-hook; do
		grep -q "$ref" event || fail "no $ref: $(cat event)"
	done
	# A line is written a moment after the files are gone.
	[ -n "$(ls london/data/spool)" ] || wait_until 10 spool_was_read "$done"
	mv london/data/away.sock london/data/node.sock
}

hooks_count() {
	make_primary
	cat >london/git/r.git/hooks/update <<-'HOOK'
		#!/bin/sh
		echo "said by update of $1 for $REMOTE_USER"
		[ "$1" != refs/heads/never ]
	HOOK
	cat >london/git/r.git/hooks/post-receive <<-'HOOK'
		#!/bin/sh
		cat >was-received
		echo "said by post-receive"
	HOOK
	cat >london/git/r.git/hooks/pre-receive <<-'HOOK'
		#!/bin/sh
		echo "$GIT_PUSH_OPTION_COUNT $GIT_PUSH_OPTION_0" >options
	HOOK
	chmod +x london/git/r.git/hooks/{update,post-receive,pre-receive}
	commit_in work
	git -C work push -o "greeting=hello" origin main main:refs/heads/never 2>err && fail "never came"
	grep -q "remote: said by update of refs/heads/main for token dev" err
	grep -q "remote: said by post-receive" err
	grep -q "never -> never\|main -> never (hook declined)" err
	grep -q refs/heads/main london/git/r.git/was-received
	grep -qx "1 greeting=hello" london/git/r.git/options
	fails tip london/git/r.git refs/heads/never
	[ "$(tip london/git/r.git)" = "$(tip work HEAD)" ]
	wait_until 10 was_logged london git.pushed 'result=in_part refs=2 taken=1 refused=1'
}

# As after a push by ssh. Nothing waits for it, not even the next push.
job_goes_on() {
	make_primary
	mkfifo london/git/r.git/go
	cat >london/git/r.git/hooks/post-receive <<-'HOOK'
		#!/bin/sh
		nohup sh -c 'read word <go; echo "$word" >deployed' >/dev/null 2>&1 &
	HOOK
	chmod +x london/git/r.git/hooks/post-receive
	push main:refs/heads/one
	rm london/git/r.git/hooks/post-receive
	push main:refs/heads/two
	[ -z "$(ls london/git/r.git/refrelay/state/pending)" ]
	timeout 10 sh -c 'echo gone >london/git/r.git/go'
	wait_until 10 grep -qsx gone london/git/r.git/deployed
}

# What hooks refused is in the log as that, and what nobody told is not made up.
said_as_it_was() {
	make_primary
	printf '#!/bin/sh\nexit 1\n' >london/git/r.git/hooks/pre-receive
	chmod +x london/git/r.git/hooks/pre-receive
	commit_in work
	fails git -C work push -q "$U" main main:refs/heads/b 2>err
	wait_until 10 was_logged london git.push_refused 'repo=r user="?token dev"? result=refused refs=2 taken=0 refused=2'
	[ "$(logged london git.pushed)" -eq 0 ]
	[ "$(events_of london r)" -eq 1 ]
	rm london/git/r.git/hooks/pre-receive
	push main
	wait_until 10 was_logged london git.pushed 'result=taken refs=1 taken=1 refused=0'
	curl -sf "$(site_url london)/metrics" >metrics
	grep -qxF 'refrelay_git_pushes_total{class="refused"} 1' metrics
	grep -qxF 'refrelay_git_pushes_total{class="taken"} 1' metrics
}

all_or_nothing() {
	make_primary
	git -C work checkout -q --orphan side
	commit_in work side
	git -C london/git/r.git config receive.denyNonFastForwards true
	git -C work push -q --atomic origin +side:main side:refs/heads/side 2>err && fail "it came"
	fails tip london/git/r.git refs/heads/side
}

with_lease() {
	make_primary
	make_clone "$U" other
	commit_in other
	git -C other push -q origin main
	commit_in work
	fails git -C work push -q --force-with-lease origin main
	[ "$(tip london/git/r.git)" = "$(tip other HEAD)" ]
	git -C work fetch -q
	git -C work push -q --force-with-lease origin main
	[ "$(tip london/git/r.git)" = "$(tip work HEAD)" ]
}

signed() {
	make_primary
	ssh-keygen -q -t ed25519 -N '' -f key
	git -C london/git/r.git config receive.certNonceSeed seed
	git -C london/git/r.git config receive.certNonceSlop 600
	cat >london/git/r.git/hooks/pre-receive <<-'HOOK'
		#!/bin/sh
		git cat-file blob "$GIT_PUSH_CERT" >cert
		echo "$GIT_PUSH_CERT_NONCE_STATUS" >nonce
	HOOK
	chmod +x london/git/r.git/hooks/pre-receive
	git -C work config gpg.format ssh
	git -C work config user.signingkey "$PWD/key.pub"
	commit_in work
	git -C work push -q --signed=yes origin main
	grep -q "^pusher .*key" london/git/r.git/cert || grep -q "BEGIN SSH SIGNATURE" london/git/r.git/cert
	grep -qE "OK|SLOP" london/git/r.git/nonce
}

side_by_side() {
	local i pushes=()

	make_primary
	for i in 1 2 3 4; do
		make_clone "$U" "w$i"
		commit_in "w$i"
	done
	for i in 1 2 3 4; do
		git -C "w$i" push -q origin "main:refs/heads/of-$i" &
		pushes+=($!)
	done
	wait "${pushes[@]}"
	for i in 1 2 3 4; do
		[ "$(tip london/git/r.git "refs/heads/of-$i")" = "$(tip "w$i" HEAD)" ]
	done
}

who_may_not() {
	local url

	make_primary
	commit_in work
	for url in "$(site_url london)/r.git" "$(url_as looker london r)" \
		"http://any:wrong-wrong-wrong-wrong@$(site_url london | cut -c8-)/r.git"; do
		fails env GIT_TERMINAL_PROMPT=0 git -C work push -q "$url" main
	done
	[ "$(tip london/git/r.git)" != "$(tip work HEAD)" ]
	git -C work push -q origin main
}

into_nothing() {
	make_primary
	fails git -C work push -q "$(url_as dev london none)" main 2>err
	[ ! -e london/git/none.git ]
}

cut_off() {
	local before pusher

	make_primary
	start_link
	rule stall 3000000
	head -c 8000000 /dev/urandom >work/big
	git -C work add big
	git -C work commit -qm big
	before=$(tip london/git/r.git)
	setsid git -C work push -q "${U%@*}@127.0.0.1:$(cat link/port)/r.git" main &
	pusher=$!
	wait_until 20 is_coming_in
	kill -KILL -- "-$pusher"
	fails wait "$pusher"
	rule pass
	wait_until 20 no_traces
	[ "$(tip london/git/r.git)" = "$before" ]
	git -C work push -q origin main
	[ "$(tip london/git/r.git)" = "$(tip work HEAD)" ]
}

# Git needs no more than the commands to delete a ref; whoever sends them and nothing more
# stays connected.
never_ends() {
	local before sender

	make_primary
	push main:refs/heads/gone
	before=$(events_of london r)
	python3 - "$U" "$(tip london/git/r.git refs/heads/gone)" <<-'SENDER' &
		import base64, socket, sys, urllib.parse
		url = urllib.parse.urlsplit(sys.argv[1])
		line = sys.argv[2] + ' ' + '0' * 40 + ' refs/heads/gone\0report-status'
		body = '%04x%s0000' % (len(line) + 4, line)
		head = '''POST %s/git-receive-pack HTTP/1.1
		Host: x
		Authorization: Basic %s
		Content-Type: application/x-git-receive-pack-request
		Content-Length: 1000
		''' % (url.path, base64.b64encode(
		    url.netloc.rpartition('@')[0].encode()).decode())
		head = head.replace('\t', '').replace('\n', '\r\n') + '\r\n'
		connection = socket.create_connection((url.hostname, url.port))
		connection.sendall((head + body).encode())
		connection.recv(1)
	SENDER
	sender=$!
	wait_until 20 is_recorded $((before + 1))
	fails tip london/git/r.git refs/heads/gone
	kill -0 "$sender"
	kill "$sender"
	wait_until 20 no_traces
	[ "$(events_of london r)" -eq $((before + 1)) ]
}

is_recorded() { # COUNT
	[ "$(events_of london r)" -eq "$1" ]
}

# What is sent in is at fault, not what is set up here.
badly_packed() {
	local bytes

	make_primary
	printf '0000' | gzip >whole
	head -c -6 whole >cut
	{ cat whole && echo more; } >behind
	for bytes in cut behind; do
		[ "$(curl -s -o said -w '%{http_code}' -m 20 --data-binary "@$bytes" \
			-H 'Content-Type: application/x-git-receive-pack-request' \
			-H 'Content-Encoding: gzip' "$U/git-receive-pack")" = 400 ]
		grep -q gzip said
	done
}

# Git would make these directories, and then nobody could read the repository any more.
too_deep() {
	local before

	make_primary
	before=$(tip london/git/r.git)
	fails push "main:refs/heads/$(printf 'a/%.0s' {1..70})x" 2>err
	grep -q 'HTTP 400' err
	[ ! -e london/git/r.git/refs/heads/a ]
	push "main:refs/heads/$(printf 'a/%.0s' {1..50})x"
	commit_in work
	git -C work push -q origin main
	[ "$(git ls-remote "$U" refs/heads/main | cut -f 1)" = "$(tip work HEAD)" ]
	[ "$before" != "$(tip work HEAD)" ]
}

is_coming_in() {
	compgen -G 'london/git/r.git/objects/tmp_objdir*' >/dev/null
}

no_traces() {
	[ -z "$(ls london/git/r.git/refrelay/state/pending)" ] &&
		[ -z "$(find london/git/r.git/objects -name 'tmp_objdir*' -o -name 'incoming-*')" ]
}

# Killed at each step, nobody was told of a change that has no event in the end, and no
# change stays without one.
killed_in_between() {
	local point status

	make_primary
	for point in receive_pack.begun receive_pack.reported receive_pack.recorded; do
		stop_site london
		start_site london "REFRELAY_FAILPOINT=$point=kill"
		commit_in work
		status=0
		git -C work push -q origin main 2>err || status=$?
		is_killed_within 10 london
		wait "$(site_pid london)" || true
		[ "$status" -ne 0 ] || fail "$point: the client was told that all is well"
		start_site london
		wait_until 10 last_event_is_tip
		git -C work push -q origin main
		[ "$(tip london/git/r.git)" = "$(tip work HEAD)" ]
	done
}

last_event_is_tip() {
	at london events --json | tail -n 1 | grep -qF "\"$(at london checksum r)\""
}

tap_test "git pushes branches, tags, deletions and forced updates under each protocol" plain_pushes
tap_test "a push of many refs is one event, with hooks installed and without" one_event_for_many_refs
tap_test "the event is there when the client has its answer" event_is_there_first
tap_test "the event is there though hooks do not reach the node" event_does_not_wait_for_hooks
tap_test "the repository's hooks decide and speak, and get push options and the user" hooks_count
tap_test "a job that a hook leaves in the background goes on" job_goes_on
tap_test "the log and the metrics say what became of a push" said_as_it_was
tap_test "an atomic push is all or nothing" all_or_nothing
tap_test "a push with a lease is refused when somebody was faster" with_lease
tap_test "a signed push reaches the hooks with its certificate" signed
tap_test "pushes to one repository run side by side" side_by_side
tap_test "who may not push does not" who_may_not
tap_test "a push makes no repository" into_nothing
tap_test "a push that breaks off leaves nothing behind" cut_off
tap_test "a push whose body never ends does not delay its event" never_ends
tap_test "a body that is no whole gzip is refused as such" badly_packed
tap_test "a ref that is too deep to be read again is refused" too_deep
tap_test "killed at any step, no change is told without an event, none stays without one" killed_in_between
tap_done
