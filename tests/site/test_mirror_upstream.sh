#!/usr/bin/env bash
# An upstream that is rewritten, emptied, away, or back.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/mirrored.sh"

make_open_sites() {
	make_mirror_sites
	set_conf london http.anonymousRead true
	make_repository london/git/a.git 6
	mirror a interval 1s
	start_site london
	start_site paris
	wait_until 20 is_mirrored a
}

mirror_is() { # NAME MEMBER VALUE
	[ "$(at paris mirror show "$1" --json | "$SITE_HELP" member "$2")" = "$3" ]
}

# Nobody need say a word for that.
rewritten() {
	local before

	make_open_sites
	before=$(tip london/git/a.git)
	git -C london/git/a.git update-ref refs/heads/other main~5
	add_commits london/git/a.git refs/heads/other 3
	git -C london/git/a.git update-ref refs/heads/main other
	wait_until 20 is_mirrored a
	git -C paris/git/a.git cat-file -e "$before"
	wait_until 20 mirror_is a state synced
}

is_held() { # PATTERN
	at paris mirror show a >shown
	grep -E "$1" shown
}

# What it says to do is done, word for word.
emptied() {
	local i word

	make_open_sites
	for ((i = 0; i < 60; i++)); do
		echo "create refs/heads/b$i $(tip london/git/a.git)"
	done | git -C london/git/a.git update-ref --stdin
	wait_until 20 is_mirrored a
	git -C london/git/a.git for-each-ref --format='delete %(refname)' 'refs/heads/b*' |
		git -C london/git/a.git update-ref --stdin
	wait_until 20 is_held '^  held: '
	[ "$(git -C paris/git/a.git for-each-ref | wc -l)" -eq 61 ]
	expect 1 at paris mirror sync a
	grep 'held' err
	read -ra word < <(sed -n 's/^  hint: .*then refrelay //p' shown)
	[ "${word[*]}" = "mirror sync --force a" ]
	at paris "${word[@]}"
	is_mirrored a
	wait_until 20 mirror_is a state synced
	at paris mirror show a >shown
	fails grep held shown
}

says() { # TEXT
	at paris status >said || :
	head -n 1 said | grep -F "$1"
}

away_and_back() {
	make_open_sites
	stop_site london
	wait_until 20 mirror_is a state failed
	mirror_is a failure_class network
	git -C paris/git/a.git fsck --connectivity-only
	add_commits london/git/a.git refs/heads/main 2
	start_site london
	at paris mirror sync a
	is_mirrored a
	wait_until 20 says '1 of 1 mirror is up to date'
}

gone_and_back() {
	make_open_sites
	mv london/git/a.git away.git
	wait_until 20 mirror_is a failure_class missing
	[ "$(git -C paris/git/a.git for-each-ref | wc -l)" -ge 1 ]
	mv away.git london/git/a.git
	at paris mirror sync a
	wait_until 20 mirror_is a state synced
	is_mirrored a
}

# A site that is there for mirrors alone, with what serve would refuse.
checked() {
	make_mirror_sites
	(umask 077 && echo token >app1.token)
	mirror a
	watch a app1
	expect 0 at paris check
	grep '^ok  *mirrors  *1, with 1 watchers' out
	fails grep -i 'pushes nowhere' out
	chmod 644 app1.token
	expect 1 at paris check
	grep '^FAIL  *watcher .*can be read by everybody' out
	chmod 600 app1.token
	mirror A
	expect 1 at paris check
	grep '^FAIL  *configuration .*would be one directory' out
	fails grep -i 'pushes nowhere' out
}

tap_test "what is wrong with mirrors is found by check" checked
tap_test "a branch that is rewritten upstream is followed at once" rewritten
tap_test "many deletions are held until a person says what is advised" emptied
tap_test "an upstream that is away is told, and brought when it is back" away_and_back
tap_test "an upstream that is gone leaves its mirror as it is" gone_and_back
tap_done
