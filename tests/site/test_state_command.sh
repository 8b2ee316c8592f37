#!/usr/bin/env bash
# `refrelay state` and `refrelay cache`: on the stores, without a node, and on what
# processes of others do there.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"

site() { # ARGUMENT...
	refrelay -c "$TEST_DIR/conf" "$@"
}

make_site() {
	mkdir -p site/repos site/data
	chmod 700 site/data
	make_repository site/repos/team/app.git 3
	cat >conf <<-END
		[site]
			repositories = $TEST_DIR/site/repos
			data = $TEST_DIR/site/data
	END
	app=site/repos/team/app.git
	state=$app/refrelay/state
}

member() { # NAME MEMBER: of `state --json`; a row's member is pending.0.state
	site state "$1" --json | python3 -c '
import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."):
    value = value[int(key)] if isinstance(value, list) else value[key]
print(json.dumps(value))' "$2"
}

is_pending() { # COUNT
	[ "$(find "$state/pending" -type f 2>/dev/null | wc -l)" -eq "$1" ]
}

# Runs a command in a bracket, in the background, until it says that it runs; $! is kept.
start_bracket() { # SCRIPT
	"$REFRELAY" -c conf state team/app -- sh -c "echo \$\$ >command.pid.new
		mv command.pid.new command.pid; $1" >bracket.out 2>bracket.err &
	bracket=$!
	wait_until 10 test -s command.pid
	command=$(cat command.pid)
}

ends_with() { # STATUS
	local status=0
	wait "$bracket" || status=$?
	[ "$status" -eq "$1" ] || fail "the bracket ended with $status instead of $1"
}

a_repository_that_nobody_writes() {
	make_site
	expect 0 site state team/app
	grep -qx 'team/app' out
	grep -qx "  key $(cat "$state/key")" out
	grep -qE '^  fingerprint [0-9a-f]{64}' out
	grep -qx '  cache: used' out
	fails grep -q writing out
	[ "$(member team/app.git key)" = "\"$(cat "$state/key")\"" ]
	[ "$(member team/app pending)" = "[]" ]
	[ "$(member team/app cache_used)" = true ]
	[ "$(member team/app bypass)" = null ]
	[ "$(member team/app path)" = "\"$TEST_DIR/$app\"" ]
	expect 0 site state team/app
	grep -qx "  key $(cat "$state/key")" out
}

why_the_cache_is_not_used() {
	make_site
	git -C $app config include.path ../other
	expect 0 site state team/app
	grep -qx '  cache: not used: files elsewhere decide its refs: includes or links' out
	[ "$(member team/app bypass)" = '"config"' ]
	git -C $app config --unset include.path
	printf '[core]\n\tbroken\n[' >>$app/config
	expect 0 site state team/app
	grep -q '  cache: not used; the repository is not served: ' out
	grep -q '; hint: mend ' out
	[ "$(member team/app cache_used)" = false ]
	[ "$(member team/app failure)" != null ]
}

a_state_that_is_in_the_way() {
	make_site
	mkdir $app/refrelay
	echo 'in the way' >$state
	expect 0 site state team/app
	grep -qx '  key unknown' out
	grep -q '  cache: not used: .* written: state of the repository is not a directory' out
	[ "$(member team/app bypass)" = '"unwritable"' ]
	[ "$(member team/app key)" = null ]
}

a_change_is_settled_when_the_cache_is_used() {
	make_site
	git -C $app branch -f new main
	expect 0 site state team/app
	grep -qx '  cache: used' out
	fails grep -q 'not settled' out
}

what_is_logged_names_the_repository() {
	make_site
	expect 0 site state team/app
	echo junk >"$state/pending/junk"
	expect 0 site state team/app
	grep -q "ev=state.recovered path=.*/$app/refrelay/state/pending/junk\$" err
}

a_cache_that_is_not_used_is_told() {
	make_site
	mkdir -m 777 wide
	printf '\tname = one\n\trole = primary\n[serve]\n\tcache = %s\n' "$PWD/wide" >>conf
	expect 0 site check
	grep -q "^note   cache .* chmod o-w $PWD/wide\$" out
	chmod 700 wide
	expect 0 site check
	fails grep -q cache out
}

wrong_calls() {
	make_site
	expect 2 site state
	expect 2 site state team/app other
	expect 2 site state --jso team/app
	expect 2 site state team/app --
	expect 2 site state -- true
	expect 2 site state team/app --json -- touch "$PWD/ran"
	expect 4 site state team/none
	expect 4 site state ../repos/team/app
	grep -qF 'hint: give its path below site.repositories' err
	expect 4 site state team/none -- touch "$PWD/ran"
	[ ! -e ran ]
	expect 2 site cache
	expect 2 site cache fill
	expect 2 site cache clear --al
	expect 4 site cache clear team/app team/none
	[ ! -e "$state/key" ]
	expect 0 site state --help
	grep -q 'COMMAND' out
	expect 0 site cache --help
	expect 2 refrelay -c none.conf state team/app
	expect 2 refrelay -c none.conf cache clear
}

a_bracket_is_seen() {
	local before
	make_site
	site state team/app >out
	before=$(cat $state/key)
	mkfifo go
	start_bracket 'echo said; read line <go'
	is_pending 1
	expect 0 site state team/app
	grep -qE "^  writing: refrelay process $bracket, alive, last sign of life [0-9]+ s ago" out
	grep -qx '  cache: not used: it is being written' out
	[ "$(member team/app pending.0.pid)" = "$bracket" ]
	[ "$(member team/app pending.0.state)" = '"alive"' ]
	[ "$(member team/app pending.0.program)" = '"refrelay"' ]
	[ "$(member team/app pending.0.elsewhere)" = false ]
	[ "$(member team/app bypass)" = '"pending"' ]
	[ "$(cat $state/key)" = "$before" ]
	echo >go
	ends_with 0
	grep -qx said bracket.out
	is_pending 0
	[ "$(cat $state/key)" != "$before" ]
	[ "$(member team/app cache_used)" = true ]
}

exit_statuses() {
	local key
	make_site
	touch plain
	for row in '0 true' '1 false' '7 sh -c "exit 7"' '127 ./none' '126 ./plain' \
		'143 sh -c "kill -TERM $$"' '137 sh -c "kill -KILL $$"'; do
		key=$(cat $state/key 2>/dev/null || :)
		eval "set -- $(sed 's/\$\$/\\$\\$/' <<<"$row")"
		expect "$1" site state team/app -- "${@:2}"
		is_pending 0
		[ "$(cat $state/key)" != "$key" ]
	done
	expect 0 site state team/app -- echo --json -- a
	[ "$(cat out)" = "--json -- a" ]
	echo input | expect 0 site state team/app -- cat
	[ "$(cat out)" = input ]
}

signals_go_to_the_command() {
	local signal number
	for signal in TERM:143 HUP:129; do
		rm -rf site command.pid
		make_site
		start_bracket 'exec sleep 100'
		kill -s "${signal%:*}" "$bracket"
		ends_with "${signal#*:}"
		is_dead "$command"
		is_pending 0
		[ -s $state/key ]
	done
}

# A command that tidies up first has the time for it.
the_command_may_take_its_time() {
	make_site
	start_bracket 'trap "touch tidied; exit 3" TERM; touch ready; while :; do sleep 0.05; done'
	wait_until 10 test -e ready
	kill "$bracket"
	ends_with 3
	[ -e tidied ]
	is_pending 0
}

is_recovered() { # OLD-KEY
	site state team/app >out && [ "$(cat $state/key)" != "$1" ] && is_pending 0
}

# What it started may still write: only when that has ended the repository is free.
a_killed_bracket() {
	local key
	make_site
	site state team/app >out
	key=$(cat $state/key)
	start_bracket 'exec sleep 100'
	kill -KILL "$bracket"
	ends_with 137
	expect 0 site state team/app
	grep -qx '  cache: not used: it is being written' out
	is_pending 1
	[ "$(cat $state/key)" = "$key" ]
	kill -KILL "$command"
	wait_until 10 is_dead "$command"
	expect 0 site state team/app
	grep -q '^  writing: refrelay process .*, dead,' out
	grep -q '^  recovered: cleaned up after 1 dead writer, so the key is new$' out
	grep -qx '  cache: used' out
	is_recovered "$key"
}

# rsync --delete and the like.
a_command_that_replaces_the_state() {
	local key
	make_site
	site state team/app >out
	key=$(cat $state/key)
	cp -a $app backup.git
	expect 0 site state team/app -- rm -r $app/refrelay
	is_pending 0
	[ -s $state/key ]
	[ "$(cat $state/key)" != "$key" ]
	expect 0 site state team/app -- sh -c "mv $app gone.git && cp -a backup.git $app"
	is_pending 0
	[ "$(cat $state/key)" != "$key" ]
	expect 0 site state team/app -- rm -r $app
	[ ! -e $app ]
}

a_write_that_cannot_be_announced() {
	make_site
	site state team/app >out
	rmdir $state/pending
	touch $state/pending
	expect 1 site state team/app -- touch "$PWD/ran"
	grep -q 'cannot be announced as being written' err
	[ ! -e ran ]
}

clear_gives_new_keys() {
	local old other
	make_site
	make_repository site/repos/lib.git 1
	site state team/app >out
	site state lib >out
	old=$(cat $state/key)
	other=$(cat site/repos/lib.git/refrelay/state/key)
	mkdir -p site/data/cache/ab
	echo x >site/data/cache/ab/"$(printf '%062d' 0)"
	echo x >site/data/cache/README

	expect 0 site cache clear team/app
	[ "$(cat out)" = "cleared: 1 repository" ]
	[ "$(cat $state/key)" != "$old" ]
	[ "$(cat site/repos/lib.git/refrelay/state/key)" = "$other" ]
	[ -e site/data/cache/ab/"$(printf '%062d' 0)" ]

	old=$(cat $state/key)
	expect 0 site cache clear --json
	grep -q '"cleared":2,"failed":0,"files":1' out
	grep -q '{"name":"lib","cleared":true}' out
	[ "$(cat $state/key)" != "$old" ]
	[ "$(cat site/repos/lib.git/refrelay/state/key)" != "$other" ]
	[ ! -e site/data/cache/ab/"$(printf '%062d' 0)" ]
	[ -e site/data/cache/README ]
}

clear_leaves_writers_alone() {
	local file
	make_site
	mkfifo go
	start_bracket 'read line <go'
	file=$(ls $state/pending)
	expect 0 site cache clear
	expect 0 site cache clear team/app
	[ "$(ls $state/pending)" = "$file" ]
	[ "$(member team/app bypass)" = '"pending"' ]
	echo >go
	ends_with 0
	is_pending 0
}

clear_says_what_failed() {
	make_site
	make_repository site/repos/lib.git 1
	rm -rf $app/refrelay
	echo 'in the way' >$app/refrelay
	expect 3 site cache clear --json
	grep -q '"cleared":1,"failed":1' out
	grep -q '{"name":"team/app","cleared":false,"failure":' out
	grep -q '^refrelay: team/app' err
	rm -rf site/repos/lib.git
	expect 1 site cache clear
	grep -q '^cleared: 0 repositories, 0 files, 1 failed$' out
}

tap_test "a repository that nobody writes has a key, and the cache is used" \
	a_repository_that_nobody_writes
tap_test "the reason is told why the cache is not used" why_the_cache_is_not_used
tap_test "a state that cannot be read is told, with the reason" a_state_that_is_in_the_way
tap_test "what is used is settled" a_change_is_settled_when_the_cache_is_used
tap_test "the log says where a dead writer was" what_is_logged_names_the_repository
tap_test "check tells of a cache that is not used" a_cache_that_is_not_used_is_told
tap_test "wrong calls and names change nothing" wrong_calls
tap_test "a bracket is seen as a write, and ends with a new key" a_bracket_is_seen
tap_test "the exit status is the command's, the bracket ends in every case" exit_statuses
tap_test "signals go to the command" signals_go_to_the_command
tap_test "a command that catches a signal is waited for" the_command_may_take_its_time
tap_test "a killed bracket counts until its command has ended" a_killed_bracket
tap_test "a command may take away or replace state and repository" \
	a_command_that_replaces_the_state
tap_test "a write that cannot be announced does not begin" a_write_that_cannot_be_announced
tap_test "clearing gives new keys, and removes the cache's files only" clear_gives_new_keys
tap_test "clearing leaves living writers alone" clear_leaves_writers_alone
tap_test "clearing says what failed, and does the rest" clear_says_what_failed
tap_done
