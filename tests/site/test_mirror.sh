#!/usr/bin/env bash
# A mirror of an upstream: brought with a watcher's token, kept by polls, served, and never pushed to.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/mirrored.sh"

set_up() {
	make_mirror_sites
	make_repository london/git/acme/r.git 5
	make_repository london/git/acme/quiet.git 2
	give_token london app1 read
	give_token london app2 read acme/r
	give_token paris dev push
	mirror acme/r interval 1s
	mirror acme/quiet interval 1s
	watch 'acme/*' app1
	watch acme/r app2
	(umask 077 && echo s3cret >hook.secret && echo 0123456789abcdef-operator >operator.token)
	mirror acme/hooked interval 1h webhookSecretFile "$PWD/hook.secret"
	make_repository london/git/acme/hooked.git 1
	set_conf paris http.operatorTokenFile "$PWD/operator.token"
	start_site london
	start_site paris
	wait_until 20 is_mirrored acme/r
	wait_until 20 is_mirrored acme/quiet
	wait_until 20 is_mirrored acme/hooked
}

is_followed() {
	cd "$SHARED"
	add_commits london/git/acme/r.git refs/heads/main 2
	git -C london/git/acme/r.git branch new
	wait_until 20 is_mirrored acme/r
	git -C london/git/acme/r.git update-ref refs/heads/new HEAD~2
	git -C london/git/acme/r.git update-ref -d refs/heads/main HEAD
	git -C london/git/acme/r.git symbolic-ref HEAD refs/heads/new
	wait_until 20 is_mirrored acme/r
	git clone -q "$(site_url paris)/acme/r.git" clone
	[ "$(git -C clone rev-parse HEAD)" = "$(git -C london/git/acme/r.git rev-parse HEAD)" ]
}

push_is_refused() {
	cd "$SHARED"
	fails git -C london/git/acme/quiet.git push "$(url_as dev paris acme/quiet)" main:other 2>err
	grep "acme/quiet is a mirror: push to $(site_url london)/acme/quiet.git" err
}

synced() { # JSON-MEMBER
	"$SITE_HELP" member "$1" <synced
}

by_a_watchers_word() {
	cd "$SHARED"
	add_commits london/git/acme/r.git "$(git -C london/git/acme/r.git symbolic-ref HEAD)" 1
	at paris mirror sync acme/r --as app2 --json >synced
	[ "$(synced path)" = "$PWD/paris/git/acme/r.git" ]
	[ "refs/heads/$(synced branch)" = "$(git -C london/git/acme/r.git symbolic-ref HEAD)" ]
	[ "$(synced commit)" = "$(git -C london/git/acme/r.git rev-parse HEAD)" ]
	[ "$(synced watcher)" = app2 ]
	[ "$(synced state)" = done ]
	is_mirrored acme/r
	at paris mirror sync /acme//r.git/ --json --no-progress >synced
	[ "$(synced changed)" = false ]
	expect 2 at paris mirror sync acme/quiet --as app2
	grep 'no watcher "app2" watches' err
	expect 4 at paris mirror sync acme/none
}

# Its mirror goes on with the other watcher's.
refused_credential() {
	cd "$SHARED"
	mv app1.token kept
	(umask 077 && echo wrong >app1.token)
	fails at paris mirror sync acme/r --as app1 2>err
	grep 'refuses the credential of watcher app1' err
	git -C london/git/acme/r.git branch "now-$RANDOM"
	wait_until 20 is_mirrored acme/r
	wait_until 20 mirror_word acme/r synced
	wait_until 20 mirror_word acme/quiet failed
	at paris mirror show acme/quiet | grep 'refuses the credential of watcher app1'
	at paris mirror show acme/r | grep 'watcher app1: credential refused since'
	mv kept app1.token
	wait_until 20 mirror_word acme/quiet synced
	at paris mirror show acme/quiet >shown
	fails grep refused shown
	wait_until 10 was_logged paris mirror.accepted 'name=acme/quiet watcher=app1'
}

mirror_word() { # NAME STATE
	[ "$(at paris mirror show "$1" --json | "$SITE_HELP" member state)" = "$2" ]
}

says() { # TEXT
	at paris status >said || :
	head -n 1 said | grep -F "$1"
}

status_tells() {
	cd "$SHARED"
	wait_until 20 says '3 of 3 mirrors are up to date'
	at paris status --json | "$SITE_HELP" member mirrors.synced | grep -x 3
	mv london/git/acme/quiet.git away.git
	wait_until 20 says 'acme/quiet: the source: '
	wait_until 20 says '2 of 3 mirrors'
	mv away.git london/git/acme/quiet.git
	at paris mirror sync acme/quiet
	wait_until 20 says '3 of 3 mirrors are up to date'
}

polls() { # STATE
	curl -s "$(site_url paris)/metrics" |
		sed -n "s/^refrelay_mirror_polls_total{state=\"$1\"} //p" | grep . || echo 0
}

were_polled() { # TIMES
	[ "$(polls unchanged)" -ge "$1" ]
}

shows() { # NAME PATTERN
	at paris mirror show "$1" >shown
	grep "$2" shown
}

unchanged_polls() { # NUMBER
	wait_until 30 were_polled "$(($(polls unchanged) + $1))"
}

# Its upstream has no news, and its row is as it was.
a_clone_that_others_change() {
	local copy=acme/quiet.git main own changed

	cd "$SHARED"
	main=$(tip paris/git/$copy)
	in_copy $copy update-ref refs/heads/main main~1
	wait_until 20 is_mirrored acme/quiet
	in_copy $copy update-ref -d refs/heads/main
	wait_until 20 is_mirrored acme/quiet
	own=$(in_copy $copy -c user.name=A -c user.email=a@x commit-tree -p main -m own 'main^{tree}')
	in_copy $copy update-ref refs/heads/main "$own"
	wait_until 20 shows acme/quiet 'held: .*that the source lacks'
	wait_until 20 says '2 of 3 mirrors'
	[ "$(tip paris/git/$copy)" = "$own" ]
	at paris mirror sync --force acme/quiet
	is_mirrored acme/quiet
	rm -r paris/git/$copy/logs # it names what only the clone had
	in_copy $copy repack -adq
	rm -f paris/git/$copy/objects/pack/pack-*
	wait_until 20 in_copy $copy cat-file -e "$main"
	wait_until 20 mirror_word acme/quiet synced
	has_no_fault london/git/$copy paris/git/$copy
	# Then all is quiet again.
	unchanged_polls 4
	changed=$(polls changed)
	unchanged_polls 6
	[ "$(polls changed)" = "$changed" ]
}

# Within the share that was set since the start.
many_deletions_upstream() {
	local reloaded
	cd "$SHARED"
	reloaded=$(logged paris node.reloaded) || true
	set_conf paris sync.deleteBrake 99%
	kill -HUP "$(site_pid paris)"
	wait_until 10 is_logged $((reloaded + 1)) paris node.reloaded
	seq -f 'create refs/heads/many/%g refs/heads/main' 30 |
		git -C london/git/acme/quiet.git update-ref --stdin
	wait_until 20 is_mirrored acme/quiet
	seq -f 'delete refs/heads/many/%g' 30 | git -C london/git/acme/quiet.git update-ref --stdin
	wait_until 20 is_mirrored acme/quiet
	git config --file paris/refrelay.conf --unset sync.deleteBrake
	kill -HUP "$(site_pid paris)"
}

post() { # PATH [CURL-OPTION...]
	local path=$1
	shift
	curl -s -o answer -w '%{http_code}' -X POST "$@" "$(site_url paris)$path"
}

job_is() { # ID STATE
	curl -s "$(site_url paris)/api/v1/jobs/$1" >job
	[ "$("$SITE_HELP" member state <job)" = "$2" ]
}

by_the_api() {
	local id
	local -a operator

	cd "$SHARED"
	operator=(-H "Authorization: Bearer $(cat operator.token)")
	[ "$(post /api/v1/mirrors/acme%2Fr/sync)" = 401 ]
	[ "$(post '/api/v1/mirrors/acme%2Fr/sync?as=app2' "${operator[@]}")" = 202 ]
	id=$("$SITE_HELP" member job <answer)
	wait_until 20 job_is "$id" 'done'
	[ "$("$SITE_HELP" member watcher <job)" = app2 ]
	[ "$("$SITE_HELP" member path <job)" = "$PWD/paris/git/acme/r.git" ]
	[ "$(post '/api/v1/mirrors/acme%2Fquiet/sync?as=app2' "${operator[@]}")" = 400 ]
	[ "$(post /api/v1/mirrors/none/sync "${operator[@]}")" = 404 ]
	[ "$(curl -s -o answer -w '%{http_code}' "$(site_url paris)/api/v1/jobs/0")" = 404 ]
}

# By the node while it runs; its first look is a moment after the start. With a site of its
# own, whose node is its child.
is_forgotten() {
	set_up
	at paris mirror sync acme/quiet --json >synced
	stop_site paris
	sqlite3 paris/data/refrelay.db "UPDATE mirror_request SET ended_at = ended_at - 8 * 86400000
		WHERE id = '$(synced job)'"
	start_site paris
	wait_until 20 job_is_gone "$(synced job)"
	stop_site paris
	stop_site london
}

job_is_gone() { # ID
	[ -z "$(sqlite3 paris/data/refrelay.db "SELECT 1 FROM mirror_request WHERE id = '$1'")" ]
}

signed() { # FILE
	openssl dgst -sha256 -hmac s3cret -r "$1" | cut -d ' ' -f 1
}

# At most one line a second.
refusal_is_logged() {
	post /api/v1/mirrors/acme%2Fr/webhook -H 'X-Hub-Signature-256: sha256=0' --data-binary @other
	was_logged paris access.refused 'the webhook for acme/r: it has no webhookSecretFile'
}

by_a_webhook() {
	cd "$SHARED"
	echo '{"ref":"refs/heads/main","repository":{"full_name":"acme/hooked"}}' >push
	echo '{"ref":"refs/heads/main","repository":{"full_name":"acme/r"}}' >other
	git -C london/git/acme/hooked.git branch told
	[ "$(post /api/v1/mirrors/acme%2Fhooked/webhook -H 'X-GitHub-Event: push' \
		-H "X-Hub-Signature-256: sha256=$(signed other)" --data-binary @push)" = 401 ]
	[ "$(post /api/v1/mirrors/acme%2Fhooked/webhook -H 'X-GitHub-Event: push' \
		-H "X-Hub-Signature-256: sha256=$(signed other)" --data-binary @other)" = 409 ]
	[ "$(post /api/v1/mirrors/acme%2Fr/webhook -H 'X-GitHub-Event: push' \
		-H "X-Hub-Signature-256: sha256=$(signed other)" --data-binary @other)" = 401 ]
	wait_until 10 refusal_is_logged
	[ "$(post /api/v1/mirrors/acme%2Fhooked/webhook -H 'X-GitHub-Event: push' \
		-H "X-Hub-Signature-256: sha256=$(signed push)" --data-binary @push)" = 202 ]
	wait_until 20 is_mirrored acme/hooked
	# As large as GitHub sends them.
	git -C london/git/acme/hooked.git branch told-at-length
	{
		echo '{"ref":"refs/heads/main","repository":{"full_name":"acme/hooked"},"commits":["'
		head -c 24000000 /dev/zero | tr '\0' x
		echo '"]}'
	} | tr -d '\n' >push
	[ "$(post /api/v1/mirrors/acme%2Fhooked/webhook -H 'X-GitHub-Event: push' \
		-H "X-Hub-Signature-256: sha256=$(signed other)" --data-binary @push)" = 401 ]
	[ "$(post /api/v1/mirrors/acme%2Fhooked/webhook -H 'X-GitHub-Event: push' \
		-H "X-Hub-Signature-256: sha256=$(signed push)" --data-binary @push)" = 202 ]
	wait_until 20 is_mirrored acme/hooked
	head -c 34000000 /dev/zero >huge
	[ "$(post /api/v1/mirrors/acme%2Fhooked/webhook -H 'X-GitHub-Event: push' \
		-H "X-Hub-Signature-256: sha256=0" --data-binary @huge)" = 413 ]
}

# Of what is said to be so long, not one byte is sent.
is_answered_by_its_head() { # STATUS SITE NAME HEADER...
	local wanted=$1 site=$2 name=$3 url fd header line
	shift 3
	url=$(site_url "$site")
	exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}"
	{
		printf 'POST /api/v1/mirrors/%s/webhook HTTP/1.1\r\nHost: x\r\n' "$name"
		printf 'Content-Length: 30000000\r\nExpect: 100-continue\r\n'
		for header; do
			printf '%s\r\n' "$header"
		done
		printf '\r\n'
	} >&"$fd"
	IFS= read -rt 10 line <&"$fd" || fail "no answer for $name"
	exec {fd}>&-
	[[ $line == "HTTP/1.1 $wanted "* ]] || fail "$line instead of $wanted for $name"
}

nobody_sends_a_body_that_cannot_be_right() {
	local name

	cd "$SHARED"
	for name in nobody acme%2Fr acme%2Fhooked; do
		is_answered_by_its_head 401 paris "$name" 'X-GitHub-Event: push'
	done
	# London has no mirrors.
	is_answered_by_its_head 401 london nobody 'X-Hub-Signature-256: sha256=0'
}

# None of the name, one without a secret, one with, one whose secret cannot be read.
strangers_do_not_hear_which_mirrors_there_are() {
	local name

	cd "$SHARED"
	for name in nobody acme%2Fr acme%2Fhooked; do
		is_answered_by_its_head 100 paris "$name" 'X-Hub-Signature-256: sha256=0'
		refused_webhook "$name" -H 'X-Hub-Signature-256: sha256=0'
		refused_webhook "$name"
	done
	mv hook.secret hook.away
	refused_webhook acme%2Fhooked -H 'X-Hub-Signature-256: sha256=0'
	mv hook.away hook.secret
	[ "$(sort -u answers | wc -l)" -eq 1 ] || fail "$(sort -u answers)"
	grep '"code":"BAD_SIGNATURE".*}401$' answers
}

refused_webhook() { # NAME CURL-OPTION...
	curl -s -m 20 -d '{}' -w '%{http_code}' "${@:2}" "$(site_url paris)/api/v1/mirrors/$1/webhook" |
		tr -d '\n' >>answers
	echo >>answers
}

tell() { # FILE
	post /api/v1/mirrors/a/webhook -H 'X-GitHub-Event: push' \
		-H "X-Hub-Signature-256: sha256=$(signed push)" --data-binary @push >"$1"
}

# The job has read the upstream's refs before.
told_during_a_job() {
	local first late

	make_mirror_sites
	make_repository london/git/a.git 2
	set_conf london http.anonymousRead true
	(umask 077 && echo s3cret >hook.secret)
	echo '{"ref":"refs/heads/main","repository":{"full_name":"a"}}' >push
	mirror a interval 1h webhookSecretFile "$PWD/hook.secret"
	start_site london
	start_site paris
	wait_until 20 is_mirrored a
	stop_site paris
	start_site paris REFRELAY_FAILPOINT=sync.fetched=stop
	git -C london/git/a.git branch first
	tell first.status &
	first=$!
	wait_until 20 is_paused paris
	git -C london/git/a.git branch second
	connections >connected
	tell second.status &
	late=$!
	wait_until 10 is_connected
	kill -CONT "$(site_pid paris)"
	wait "$first"
	wait "$late"
	[ "$(cat first.status second.status)" = 202202 ]
	wait_until 20 is_mirrored a
}

# To paris, by somebody.
connections() {
	ss -Htn state established "( dport = :$(site_url paris | sed 's/.*://') )" | awk '{ print $3 }'
}

# Somebody more.
is_connected() {
	connections | grep -vxFf connected
}

removed() {
	make_mirror_sites
	make_repository london/git/a.git 2
	make_repository london/git/b.git 2
	set_conf london http.anonymousRead true
	mirror a
	mirror b
	start_site london
	start_site paris
	wait_until 20 is_mirrored a
	wait_until 20 is_mirrored b
	expect 1 at paris mirror remove a
	grep 'has a section' err
	git config --file paris/refrelay.conf --remove-section mirror.a
	stop_site paris
	start_site paris
	at paris mirror list | grep 'not configured  *a  '
	expect 3 at paris mirror remove nowhere a nowhere
	[ "$(grep -c 'no such mirror: "nowhere"' err)" = 2 ]
	[ ! -e paris/git/a.git ]
	fails at paris mirror show a
	is_mirrored b
}

# By SECONDS the clock of what runs with "${wrong_clock[@]}" is ahead.
set_wrong_clock() { # SECONDS
	echo "$1" >clock.new
	mv clock.new clock
}

requests() { # WHERE
	sqlite3 paris/data/refrelay.db "SELECT count(*) FROM mirror_request WHERE $1"
}

are_requests() { # COUNT WHERE
	[ "$(requests "$2")" -eq "$1" ]
}

start_to_ask() {
	env "${wrong_clock[@]}" "$REFRELAY" -c paris/refrelay.conf mirror sync a --wait 6s >asked 2>&1 &
}

# It was ten hours ahead when the mirror was brought, and when requests for it were made: of one
# who was killed meanwhile, and of one who waits for some seconds only.
a_clock_is_set_back() {
	local asker wrong_clock=("LD_PRELOAD=$PWD/wrong_clock.so" "WRONG_CLOCK=$PWD/clock"
		"ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0")

	make_wrong_clock
	make_mirror_sites
	set_conf london http.anonymousRead true
	make_repository london/git/a.git 2
	mirror a interval 1s
	start_site london
	set_wrong_clock 36000
	start_site paris "${wrong_clock[@]}"
	is_logged_at paris 36000
	wait_until 20 is_mirrored a
	set_wrong_clock 0
	wait_until 20 says '1 of 1 mirror is up to date'
	stop_site paris
	start_site paris
	freeze_site paris
	set_wrong_clock 36000
	start_to_ask
	asker=$!
	wait_until 10 are_requests 1 'state = 0'
	kill -KILL "$asker"
	wait "$asker" || :
	start_to_ask
	asker=$!
	wait_until 10 are_requests 2 'state = 0'
	set_wrong_clock 0
	wait_until 10 are_requests 1 'state = 3'
	expect 5 wait "$asker"
	kill_site paris
	start_site paris
	wait_until 20 are_requests 1 'state = 2'
	was_logged paris scheduler.clock_set_back 'rows=[1-9]'
}

# Of its own tags a repository that a poor program has packed says that they are none.
forget_peels() { # REPOSITORY
	git -C "$1" pack-refs --all
	sed -i '/^\^/d' "$1/packed-refs"
	[ "$(git -C "$1" show-ref -d | grep -c '{}')" -eq 0 ]
}

tells_tags() { # COUNT
	[ "$(git -C paris/git/c.git show-ref -d | grep -c '/v[0-9]*^{}$')" -eq "$1" ] &&
		[ "$(git ls-remote "$(site_url paris)/c.git" | grep -c '/v[0-9]*^{}$')" -eq "$1" ]
}

add_tag() { # NAME
	git -C london/git/c.git -c user.name=A -c user.email=a@x tag -a -m t "$1" main
}

# What a tag names stands in packed-refs, which git believes.
tags_are_looked_at() {
	make_mirror_sites
	set_conf london http.anonymousRead true
	make_repository london/git/c.git 3
	add_tag v1
	forget_peels london/git/c.git
	start_site london
	fails git ls-remote --exit-code "$(site_url london)/c.git" 'v1^{}'
	mirror c interval 1s
	start_site paris
	wait_until 20 is_mirrored c
	tells_tags 1
	add_tag v2
	wait_until 20 is_mirrored c
	tells_tags 2
	forget_peels paris/git/c.git
	add_tag v3
	wait_until 20 is_mirrored c
	tells_tags 3
}

make_primary() { # SITE OTHER
	set_conf "$1" site.role primary
	set_conf "$1" "secondary.$2.secretFile" "$PWD/secret"
	leave_out "$1" primary
}

leave_out() { # SITE SECTION
	git config --file "$1/refrelay.conf" --remove-section "$2" 2>/dev/null || :
}

# The URL does not end in the mirror's name.
mirror_app() { # SITE
	set_conf "$1" mirror.gh/app.url "$PWD/upstream/app.git"
	set_conf "$1" mirror.gh/app.interval 1h
}

mirror_all() { # SITE
	set_conf "$1" mirrors.all.from directory
	set_conf "$1" mirrors.all.url "$PWD/upstream"
	set_conf "$1" mirrors.all.interval 1s
}

make_secondary() { # SITE OTHER
	set_conf "$1" site.role secondary
	leave_out "$1" "secondary.$2"
	leave_out "$1" mirror.gh/app
	leave_out "$1" mirrors.all
	set_conf "$1" primary.url "$(site_url "$2")/"
	set_conf "$1" primary.secretFile "$PWD/secret"
}

stop_sites() {
	stop_site london
	stop_site paris
}

start_as() { # PRIMARY SECONDARY
	make_primary "$1" "$2"
	make_secondary "$2" "$1"
	start_site "$1"
	start_site "$2"
}

app_is_everywhere() {
	local site

	for site in london paris; do
		[ "$(tip "$site/git/gh/app.git")" = "$(tip upstream/app.git)" ] || return
	done
}

# Whether both were proved equal since.
are_verified() { # SECONDARY
	at "$1" status >said && head -n 1 said | grep '^in sync, verified: '
}

# The mirror's row says what is there now.
has_proved() { # SITE
	local said

	said=$(at "$1" checksum gh/app) &&
		[ "$(at "$1" mirror show gh/app --json | "$SITE_HELP" member checksum)" = "${said%% *}" ]
}

nothing_was_damaged() {
	local site

	for site in london paris; do
		fails was_logged "$site" 'sync\.damaged|verify\.mismatch|sync\.held'
		curl -s "$(site_url "$site")/metrics" >metrics
		fails grep '^refrelay_damage_found_total.* [1-9]' metrics
		[ -z "$(ls "$site/git/.refrelay/trash" 2>/dev/null)" ]
	done
}

# What was to be verified while the site was a secondary.
mirror_is_overdue() { # SITE
	python3 - "$1/data/refrelay.db" <<-'END'
		import sqlite3, sys
		with sqlite3.connect(sys.argv[1], timeout=20) as base:
		    changed = base.execute("UPDATE registry SET verification_due_at = 1 WHERE kind = 'mirror'")
		    assert changed.rowcount == 1, changed.rowcount
	END
}

# A site that kept the mirror as the primary follows another one, which keeps it now; and
# is the primary again.
roles_change() {
	local inode

	make_sites
	make_repository upstream/app.git 6
	make_primary london paris
	mirror_app london
	start_sites
	wait_until 30 app_is_everywhere
	inode=$(stat -c %i london/git/gh/app.git)
	stop_sites
	mirror_app paris
	start_as paris london
	wait_until 30 are_verified london
	add_commits upstream/app.git refs/heads/main 1
	at paris mirror sync gh/app
	wait_until 30 app_is_everywhere
	wait_until 30 are_verified london
	nothing_was_damaged
	stop_sites
	mirror_is_overdue london
	mirror_app london
	start_as london paris
	wait_until 30 has_proved london
	wait_until 30 are_verified paris
	add_commits upstream/app.git refs/heads/main 1
	at london mirror sync gh/app
	wait_until 30 app_is_everywhere
	nothing_was_damaged
	[ "$(stat -c %i london/git/gh/app.git)" = "$inode" ]
}

is_no_mirror() { # NAME
	expect 4 at london mirror show "$1"
}

is_away_from() { # SITE NAME
	[ ! -e "$1/git/$2.git" ]
}

# While paris was the primary, people pushed there to what london had mirrored, and would
# have removed. What they left as it was goes.
a_list_leaves_what_another_primary_changed() {
	local name

	make_sites
	for name in app old changed; do
		make_repository "upstream/$name.git" 2
	done
	make_primary london paris
	mirror_all london
	start_sites
	wait_until 30 are_copied app old changed
	stop_sites
	mv upstream away
	mkdir upstream
	mv away/app.git upstream
	start_as paris london
	add_commits paris/git/changed.git refs/heads/main 1
	wait_until 30 are_copied changed
	wait_until 30 are_verified london
	stop_sites
	mirror_all london
	start_as london paris
	wait_until 30 is_no_mirror changed
	wait_until 30 is_no_mirror old
	wait_until 30 is_away_from paris old
	is_away_from london old
	was_logged london mirror.clone_left 'name=changed .*remedy="another primary changed it'
	fails was_logged london mirror.clone_left 'name=old '
	wait_until 30 are_verified paris
	are_copied app changed
	[ "$(git -C paris/git/changed.git rev-list --count main)" = 3 ]
	ls london/git/.refrelay/trash >trash
	fails grep changed trash
}

are_copied() { # NAME...
	local name

	for name; do
		[ -d "london/git/$name.git" ] &&
			[ "$(tip "london/git/$name.git")" = "$(tip "paris/git/$name.git")" ] || return
	done
}

# What `make demo-mirror` runs, which itself looks whether all is as it says.
the_demo() {
	"$TESTS/../tools/demo.sh" mirror >shown 2>&1 || { cat shown; return 1; }
	grep '^ *Neither token is in the clone, the database or the log' shown
	grep 'watcher build: credential refused' shown
	tail -n 1 shown | grep -x 'All equal.'
}

tap_set_up set_up
tap_test "what changes upstream comes" is_followed
tap_test "a push to a mirror is refused, and says where to push" push_is_refused
tap_test "a watcher has its mirror brought, and is told what came" by_a_watchers_word
tap_test "a credential that is refused stops nobody else's" refused_credential
tap_test "status says which mirrors are up to date, and why one is not" status_tells
tap_test "a clone that others change is noticed by the next poll" a_clone_that_others_change
tap_test "many deletions upstream are held only above the share that is set" many_deletions_upstream
tap_test "a program has a mirror brought over HTTP, and asks what became of it" by_the_api
tap_test "a request that ended a week ago is forgotten" is_forgotten
tap_test "a webhook with the right signature has its mirror asked at once" by_a_webhook
tap_test "of a webhook that cannot be right no body is taken" \
	nobody_sends_a_body_that_cannot_be_right
tap_test "strangers do not hear which mirrors there are" strangers_do_not_hear_which_mirrors_there_are
tap_test "a webhook that comes during a job is not lost" told_during_a_job
tap_test "a mirror without a section is kept until it is removed" removed
tap_test "a clock that was far ahead is set back" a_clock_is_set_back
tap_test "what a tag names is not an upstream's to say" tags_are_looked_at
tap_test "roles change, and the mirror of a former primary stays as it is" roles_change
tap_test "a list does not remove what another primary changed meanwhile" \
	a_list_leaves_what_another_primary_changed
tap_test "the demo of mirrors shows what it says" the_demo
tap_done
