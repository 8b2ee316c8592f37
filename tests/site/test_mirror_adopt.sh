#!/usr/bin/env bash
# What stands already where a mirror is to be: older clones are taken over, with what they have; nothing that
# somebody else made is lost; no token stays in a clone.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/mirrored.sh"

make_adopt_sites() {
	make_mirror_sites
	set_conf london http.anonymousRead true
	make_repository london/git/acme/r.git 5
	mirror acme/r interval 1h
	start_site london
	clone=paris/git/acme/r.git
}

# The inode shows that it is the same directory still.
clone_here() { # GIT-CLONE-OPTION...
	git clone -q --no-local "$@" london/git/acme/r.git "$clone"
	inode=$(stat -c %i "$clone")
}

row_has() { # NAME MEMBER TEXT
	at paris mirror show "$1" --json | "$SITE_HELP" member "$2" | grep -F "$3"
}

is_in_the_trash() { # PATTERN
	compgen -G "paris/git/.refrelay/trash/*$1*"
}

adopts() { # GIT-CLONE-OPTION...
	make_adopt_sites
	clone_here "$@"
	git -C "$clone" config sample.kept yes
	start_site paris
	wait_until 20 is_mirrored acme/r
	wait_until 20 row_has acme/r state synced
	[ "$(stat -c %i "$clone")" = "$inode" ]
	[ "$(git -C "$clone" config sample.kept)" = yes ]
	has_no_fault london/git/acme/r.git "$clone"
}

an_older_clone() {
	make_adopt_sites
	clone_here --mirror
	add_commits london/git/acme/r.git refs/heads/main 2
	git -C london/git/acme/r.git branch new
	start_site paris
	wait_until 20 is_mirrored acme/r
	[ "$(stat -c %i "$clone")" = "$inode" ]
	has_no_fault london/git/acme/r.git "$clone"
}

is_held_for() { # TEXT
	wait_until 20 row_has acme/r held_reason "$1"
	row_has acme/r remedy 'sync --force acme/r'
	at paris status >said || :
	grep 'acme/r: .*sync --force acme/r' said
}

commits_of_its_own() {
	local own

	make_adopt_sites
	clone_here --mirror
	add_commits "$clone" refs/heads/own 1 main
	own=$(tip "$clone" refs/heads/own)
	start_site paris
	is_held_for "the source lacks, e.g. $own in refs/heads/own"
	[ "$(tip "$clone" refs/heads/own)" = "$own" ]
	[ "$(stat -c %i "$clone")" = "$inode" ]
	# A person who has saved it says so.
	at paris mirror sync --force acme/r
	is_mirrored acme/r
}

another_history() {
	local before

	make_adopt_sites
	make_repository "$clone" 4
	add_commits "$clone" refs/heads/main 1
	repository_picture "$clone" >before
	start_site paris
	is_held_for 'commits that the source lacks'
	repository_picture "$clone" >after
	diff before after
	[ -z "$(is_in_the_trash acme)" ]
}

# Its history ends where nobody knows: it is replaced by a whole one.
a_shallow_clone() {
	make_adopt_sites
	git clone -q --bare --depth 1 "file://$PWD/london/git/acme/r.git" "$clone"
	start_site paris
	wait_until 20 test ! -e "$clone/shallow"
	wait_until 20 row_has acme/r state synced
	is_mirrored acme/r
	has_no_fault london/git/acme/r.git "$clone"
	is_in_the_trash acme
}

a_shallow_clone_with_commits_of_its_own() {
	local own

	make_adopt_sites
	git clone -q --bare --depth 1 "file://$PWD/london/git/acme/r.git" "$clone"
	add_commits "$clone" refs/heads/own 1 main
	own=$(tip "$clone" refs/heads/own)
	start_site paris
	is_held_for "the source lacks, e.g. $own"
	[ "$(tip "$clone" refs/heads/own)" = "$own" ]
	[ -e "$clone/shallow" ]
	[ -z "$(is_in_the_trash acme)" ]
}

is_nowhere() { # TOKEN
	fails grep -rF "$1" paris
}

# A clone with a work tree, at NAME, as such a program has it; and a bare one.
with_tokens() {
	local token=ghp_AbCdEf0123456789 other=ghp_Old9876543210

	make_adopt_sites
	make_repository london/git/acme/bare.git 3
	mirror acme/bare interval 1h
	set_conf paris mirror.acme/r.url "$PWD/london/git/acme/r.git"
	set_conf paris mirror.acme/bare.url "$PWD/london/git/acme/bare.git"
	(umask 077 && echo "$token" >build.token && echo something-else >else.token)
	watch 'acme/*' else
	watch acme/r build
	git clone -q --depth 1 "file://$PWD/london/git/acme/r.git" paris/git/acme/r
	git -C paris/git/acme/r remote set-url origin "https://x-access-token:$token@github.com/acme/r.git"
	printf '%s\t\tbranch %s of https://%s@github.com/acme/r\n' \
		"$(git -C paris/git/acme/r rev-parse HEAD)" "'main'" "$token" >paris/git/acme/r/.git/FETCH_HEAD
	mkdir -p paris/git/acme/r/.git/logs/refs/remotes/origin
	echo "0 1 Sample <sample@example.com> 1700000000 +0000	clone: from http://$token:x-oauth-basic@github.com/acme/r" \
		>paris/git/acme/r/.git/logs/refs/remotes/origin/HEAD
	git clone -q --no-local --mirror london/git/acme/bare.git paris/git/acme/bare.git
	git -C paris/git/acme/bare.git remote set-url origin "https://$other@github.com/acme/bare.git"
	inode=$(stat -c %i paris/git/acme/bare.git)
	start_site paris
	wait_until 20 is_mirrored acme/r
	wait_until 20 is_mirrored acme/bare
	[ "$(stat -c %i paris/git/acme/bare.git)" = "$inode" ]
	[ "$(git -C paris/git/acme/bare.git config remote.origin.url)" = https://github.com/acme/bare.git ]
	[ "$(git -C paris/git/acme/r config remote.origin.url)" = https://github.com/acme/r.git ]
	[ ! -e paris/git/acme/r/.git/config.lock ]
	[ -f paris/git/acme/r/part-1/file-1.txt ]
	is_nowhere "$token"
	is_nowhere "$other"
	was_logged paris mirror.token_removed 'level=warn .*name=acme/r path=acme/r/.git watcher=build remedy="give this watcher a new token'
	was_logged paris mirror.token_removed 'level=warn .*name=acme/bare path=acme/bare.git watcher=unknown remedy="find out whose'
	# So it is with one that somebody puts there later.
	git -C paris/git/acme/bare.git remote set-url origin "https://u:$other@github.com/acme/bare.git"
	at paris mirror sync acme/bare
	is_nowhere "$other"
}

is_refused() { # OTHER
	fails at paris serve 2>err
	grep -F 'the mirror "acme/r"' err
	grep -F " $1 " err
	# So says check, which changes nothing.
	at paris check >said 2>&1 || :
	grep -F 'the mirror "acme/r"' said
}

clashes() {
	make_adopt_sites
	make_repository paris/git/Acme/R.git 1
	is_refused Acme/R.git
	mv paris/git/Acme paris/git/acme
	mv paris/git/acme/R.git paris/git/acme/r
	is_refused acme/r
	mv paris/git/acme paris/git/other
	mv paris/git/other/r paris/git/other/r.git
	ln -s other paris/git/acme
	is_refused other/r.git
	rm paris/git/acme
	start_site paris
	wait_until 20 is_mirrored acme/r
}

tap_test "an equal clone is taken over as it stands" adopts --mirror
tap_test "so is one that lacks what is newer" an_older_clone
tap_test "one with commits of its own is held, and keeps them" commits_of_its_own
tap_test "a repository of another history is held" another_history
tap_test "a shallow clone is replaced, and kept in the trash" a_shallow_clone
tap_test "one with commits of its own is held, too" a_shallow_clone_with_commits_of_its_own
tap_test "tokens in clones of others are removed, and their watchers named" with_tokens
tap_test "a mirror and a repository that might be one are refused, by both names" clashes
tap_done
