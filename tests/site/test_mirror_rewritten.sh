#!/usr/bin/env bash
# Branches that an upstream rewrites: the mirror follows, and what they were is kept.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/mirrored.sh"

says() { # TEXT
	at paris status >said || :
	head -n 1 said | grep -F "$1"
}

# When all of the copy was read last, in ms; None if that failed.
verified_at() {
	python3 - <<-'END'
		import sqlite3
		database = sqlite3.connect("paris/data/refrelay.db", timeout=30)
		print(*database.execute("SELECT max(verified_at) FROM registry "
		      "WHERE name = 'a' AND verification_state = 2").fetchone())
	END
}

is_verified_since() { # MS
	local at

	at=$(verified_at)
	[ "${at/None/0}" -gt "$1" ]
}

is_settled() { # NAME
	is_mirrored "$1" && mirror_is "$1" state synced && says 'is up to date'
}

# Nobody need say a word for that. What the branch was is kept, so that a person's git does not drop it, and the
# copy is as the upstream is all the same.
rewritten() {
	local before after copy=paris/git/a.git

	make_open_sites sync.reverifyInterval 2s
	before=$(tip london/git/a.git)
	git -C london/git/a.git update-ref refs/heads/other main~5
	add_commits london/git/a.git refs/heads/other 3
	wait_until 20 is_settled a
	fails test -e "$copy/logs"
	fails was_logged paris mirror.rewritten
	git -C london/git/a.git update-ref refs/heads/main other
	wait_until 20 is_mirrored a
	after=$(tip london/git/a.git)
	wait_until 20 was_logged paris mirror.rewritten \
		"level=warn .*repo=a .*code=conflict ref=refs/heads/main reason=rewritten old=$before new=$after"
	is_logged 1 paris mirror.rewritten
	[ "$(git -C "$copy" rev-parse 'main@{1}')" = "$before" ]
	git -C "$copy" reflog show --no-abbrev main | grep "^$before main@{1}: refrelay: "
	wait_until 20 is_settled a
	git -C "$copy" gc -q --prune=now
	git -C "$copy" cat-file -e "$before"
	git -C "$copy" fsck --strict
	wait_until 20 is_verified_since "$(date +%s%3N)"
	wait_until 20 is_settled a
	at paris check
	at paris mirror sync a
	add_commits london/git/a.git refs/heads/main 2
	wait_until 20 is_settled a
	fails was_logged paris '(sync\.(damaged|rebuilt|held)|verify\.failed)'
	is_logged 1 paris mirror.rewritten
	[ "$(wc -l <"$copy/logs/refs/heads/main")" -eq 2 ]
}

# A name that was a branch is a folder of branches, or the other way round.
rewritten_in_the_way() {
	local before copy=paris/git/a.git

	make_open_sites sync.reverifyInterval 2s
	git -C london/git/a.git branch x/y main
	wait_until 20 is_mirrored a
	before=$(tip london/git/a.git)
	git -C london/git/a.git update-ref refs/heads/x/y "$(commit_root a)"
	wait_until 20 was_logged paris mirror.rewritten ref=refs/heads/x/y
	git -C london/git/a.git update-ref -d refs/heads/x/y
	git -C london/git/a.git update-ref refs/heads/x main
	wait_until 20 is_settled a
	git -C london/git/a.git update-ref refs/heads/x "$(commit_root b)"
	git -C london/git/a.git update-ref refs/heads/main "$(commit_root c)"
	wait_until 20 is_logged 3 paris mirror.rewritten
	wait_until 20 is_settled a
	[ "$(git -C "$copy" rev-parse 'x@{1}')" = "$before" ]
	grep -F 'rewrote refs/heads/x/y' "$copy/logs/HEAD"
	fails test -e "$copy/logs/refs/heads/x/y"
	git -C "$copy" gc -q --prune=now
	git -C "$copy" cat-file -e "$before"
	wait_until 20 is_settled a
}

commit_root() { # MESSAGE
	git -C london/git/a.git commit-tree -m "$1" 'main^{tree}'
}

# Killed when the old tip was written down, and once more when the refs were changed: the log may have it twice.
rewritten_and_killed() {
	local before point copy=paris/git/a.git

	make_open_sites sync.reverifyInterval 2s
	for point in mirror.kept publish.renamed; do
		before=$(tip london/git/a.git)
		kill_site paris
		git -C london/git/a.git update-ref refs/heads/main "$(commit_root "$point")"
		launch_site paris "REFRELAY_FAILPOINT=$point=kill"
		wait_until 20 has_died paris
		start_site paris
		wait_until 20 is_settled a
		[ "$(git -C "$copy" rev-parse 'main@{1}')" = "$before" ]
		git -C "$copy" gc -q --prune=now
		git -C "$copy" cat-file -e "$before"
	done
	wait_until 20 is_settled a
}

note_git() {
	mkdir -p bin
	cat >bin/git <<-END
		#!/bin/sh
		echo "\$*" >>$PWD/gits
		exec $(command -v git) "\$@"
	END
	chmod +x bin/git
	: >gits
}

far_away() {
	local before

	make_open_sites sync.reverifyInterval 2s
	stop_site paris
	note_git
	start_site paris "PATH=$PWD/bin:$PATH"
	add_commits london/git/a.git refs/heads/main 3
	wait_until 20 is_settled a
	git -C london/git/a.git update-ref refs/heads/main main~2
	wait_until 20 is_logged 1 paris mirror.rewritten
	wait_until 20 is_settled a
	fails grep merge-base gits
	add_commits london/git/a.git refs/heads/main 2500
	wait_until 40 is_settled a
	grep -c merge-base gits | grep -x 1
	is_logged 1 paris mirror.rewritten
	before=$(tip london/git/a.git)
	add_commits london/git/a.git refs/heads/other 2500
	wait_until 40 is_settled a
	git -C london/git/a.git update-ref refs/heads/main other
	wait_until 20 is_logged 2 paris mirror.rewritten
	grep -c merge-base gits | grep -x 2
	[ "$(git -C paris/git/a.git rev-parse 'main@{1}')" = "$before" ]
	wait_until 20 is_settled a
}

# More than are compared: the log names one of them, and what they were is kept by HEAD.
many_rewritten() {
	local i before copy=paris/git/a.git

	make_open_sites sync.reverifyInterval 2s
	before=$(commit_root many)
	for ((i = 0; i < 250; i++)); do
		echo "create refs/heads/b$i $before"
	done | git -C london/git/a.git update-ref --stdin
	wait_until 20 is_settled a
	# At one moment, so that no poll finds the half of it.
	git -C london/git/a.git pack-refs --all
	sed "s/^$before /$(tip london/git/a.git) /" london/git/a.git/packed-refs >packed-refs
	mv packed-refs london/git/a.git/
	wait_until 20 was_logged paris mirror.not_compared 'count=50 kept=yes'
	is_logged 200 paris mirror.rewritten
	wait_until 20 is_settled a
	rm -r "$copy/logs/refs"
	git -C "$copy" gc -q --prune=now
	git -C "$copy" cat-file -e "$before"
	wait_until 20 is_settled a
}

# Where one branch has no log, and that of HEAD is full, the next one is kept all the same.
rewritten_without_room() {
	local before copy=paris/git/a.git

	make_open_sites sync.reverifyInterval 2s
	git -C london/git/a.git update-ref refs/heads/a main
	wait_until 20 is_mirrored a
	before=$(tip london/git/a.git)
	mkdir -p "$copy/logs/refs/heads/a"
	echo another >"$copy/logs/refs/heads/a/b"
	truncate -s 16M "$copy/logs/HEAD"
	printf 'update refs/heads/a %s\nupdate refs/heads/main %s\n' "$(commit_root a)" "$(commit_root m)" |
		git -C london/git/a.git update-ref --stdin
	wait_until 20 is_logged 2 paris mirror.rewritten
	was_logged paris mirror.tip_not_kept 'HEAD would be longer'
	was_logged paris mirror.rewritten 'ref=refs/heads/main .*the old commits stay'
	fails was_logged paris mirror.rewritten 'ref=refs/heads/a .*the old commits stay'
	[ "$(git -C "$copy" rev-parse 'main@{1}')" = "$before" ]
	wait_until 20 is_settled a
}

tap_test "a branch that is rewritten upstream is followed at once, and what it was is kept" rewritten
tap_test "git is asked only where many commits lie between" far_away
tap_test "a name that was rewritten may become a folder, or a folder a name" rewritten_in_the_way
tap_test "a node that is killed in between has kept what the branch was" rewritten_and_killed
tap_test "a log that is full keeps no other branch from being kept" rewritten_without_room
tap_test "of very many branches some are not compared, and kept all the same" many_rewritten
tap_done
