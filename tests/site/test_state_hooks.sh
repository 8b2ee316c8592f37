#!/usr/bin/env bash
# The repository's state while stock git changes refs: a pending file as long as a
# transaction goes on, and a new key before the file goes.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"

exec 3>&1 # for figures, which a test that passes does not show

pending=refrelay/state/pending

# Here and in all tests the repository is r.git, and the current directory is above it.
make_repo() { # [PATH [OPTION...]]
	local path=${1:-r.git}
	shift || :
	make_repository "$path" 3
	add_commits "$path" refs/heads/other 1 refs/heads/main
	old=$(git -C "$path" rev-parse refs/heads/main)
	new=$(git -C "$path" rev-parse refs/heads/other)
	mkdir -p data
	put_hooks "$path"
}

put_hooks() { # PATH
	mkdir -p "$1/refrelay" "$1/hooks"
	ln -s "$TEST_DIR/data" "$1/refrelay/node"
	ln -s "$(realpath "$REFRELAY_HOOK")" "$1/hooks/reference-transaction"
}

# A hook that ours runs after its own work, in the repository.
keep_hook() { # PATH, the script on stdin
	{
		echo '#!/bin/sh'
		cat
	} >"$1/hooks/reference-transaction.refrelay-kept"
	chmod +x "$1/hooks/reference-transaction.refrelay-kept"
}

# It writes a line for each call: the step, how many files are pending, the key.
keep_witness() { # PATH
	keep_hook "$1" <<-END
		key=\$(cat refrelay/state/key 2>/dev/null || echo none)
		echo "\$1 \$(ls $pending | wc -l) \$key" >>"$TEST_DIR/seen"
	END
}

# What the witness saw in all, without keys.
saw() { # "STEP COUNT"...
	local wanted
	wanted=$(printf '%s\n' "$@")
	[ "$(cut -d ' ' -f 1,2 seen)" = "$wanted" ] || fail "$(<seen)"
}

nothing_is_pending() { # [PATH]
	[ -z "$(ls -A "${1:-r.git}/$pending")" ] || fail "$(ls "${1:-r.git}/$pending")"
	[ -z "$(find "${1:-r.git}/refrelay" -name '*.tmp-*')" ]
}

key() { # [PATH]
	cat "${1:-r.git}/refrelay/state/key"
}

value() { # REF
	git -C r.git rev-parse -q --verify "$1"
}

a_change_is_bracketed() {
	local before
	make_repo
	keep_witness r.git
	git -C r.git update-ref refs/heads/x "$old"
	[ "$(key | wc -c)" -eq 32 ]
	before=$(key)
	git -C r.git update-ref refs/heads/x "$new"
	saw "prepared 1" "committed 0" "prepared 1" "committed 0"
	# The old key as long as refs may be the old ones, and a new one at the end.
	[ "$(sed -n 3p seen)" = "prepared 1 $before" ]
	[ "$(key)" != "$before" ]
	[ "$(sed -n 4p seen)" = "committed 0 $(key)" ]
	nothing_is_pending
}

a_push_is_bracketed() {
	make_repo
	git clone -q r.git work
	git -C work commit -q --allow-empty -m one
	git -C work branch second
	keep_witness r.git
	git -C work push -q origin main second 2>err || fail "$(<err)"
	saw "prepared 1" "committed 0" "prepared 1" "committed 0"
	rm seen
	git -C work push -q --atomic origin :second main:third
	nothing_is_pending
	[ "$(cut -d ' ' -f 3 seen | tail -n 1)" = "$(key)" ]
}

the_file_names_the_git_process() {
	make_repo
	keep_hook r.git <<-END
		[ "\$1" != prepared ] || cp $pending/git-* "$TEST_DIR/file"
		[ "\$1" != prepared ] || ls $pending >"$TEST_DIR/name"
	END
	(cd r.git && exec git update-ref refs/heads/x "$old") &
	wait $!
	grep -Eqx "refrelay process boot=$(cat /proc/sys/kernel/random/boot_id) \
pidns=$(stat -Lc %i /proc/self/ns/pid) pid=$! start=[0-9]+" file || fail "$(<file)"
	grep -Eqx "git-$!-$(grep -o '[0-9]*$' file)-[0-9a-f]{16}" name || fail "$(<name)"
}

nested_transactions_end_one_by_one() {
	local step
	make_repo
	git -C r.git pack-refs --all
	keep_witness r.git
	git -C r.git update-ref -d refs/heads/other
	fails value refs/heads/other
	nothing_is_pending
	git -C r.git update-ref refs/heads/x "$old"
	rm seen
	git -C r.git pack-refs --all --prune
	[ "$(value refs/heads/x)" = "$old" ]
	nothing_is_pending
	git -C r.git branch -q -m x y
	nothing_is_pending
	# Nothing else is at work here: as many files as were begun and not ended.
	awk '{ open += $1 == "prepared" ? 1 : -1; if ($2 != open) exit 1 }' seen || fail "$(<seen)"
	step=$(sort seen | uniq -d)
	[ -z "$step" ] || fail "the key stayed: $step"
}

a_change_that_a_kept_hook_refuses_is_over() {
	make_repo
	git -C r.git update-ref refs/heads/x "$old"
	keep_hook r.git <<-END
		[ "\$1" != prepared ]
	END
	fails git -C r.git update-ref refs/heads/x "$new"
	[ "$(value refs/heads/x)" = "$old" ]
	nothing_is_pending
}

# git, a script that is called like one, a hook of another kind, then ours.
scripts_between_git_and_the_hook_are_seen_through() {
	make_repo
	rm r.git/hooks/reference-transaction
	mkdir bin
	cat >bin/git-bracket <<-END
		#!/bin/sh
		"$REFRELAY_HOOK" "$TEST_DIR/data" reference-transaction "\$@"
		status=\$?
		[ "\$1" != prepared ] || cp $pending/git-* "$TEST_DIR/file"
		exit \$status
	END
	cat >r.git/hooks/reference-transaction <<-END
		#!/bin/sh
		"$TEST_DIR/bin/git-bracket" "\$@"
		status=\$?
		exit \$status
	END
	chmod +x bin/git-bracket r.git/hooks/reference-transaction
	(cd r.git && exec git update-ref refs/heads/x "$old") &
	wait $!
	grep -q " pid=$! " file || fail "$(<file)"
	nothing_is_pending
}

# A git in a copy, whose hooks are put there by hand, so that the next run of replicate
# looks at its state.
make_copy() {
	mkdir source
	make_repository source/r.git 3
	run 0 created=1
	put_hooks dest/r.git
	old=$(git -C dest/r.git rev-parse refs/heads/main)
	add_commits source/r.git refs/heads/main 1
}

# A git that has stopped between "prepared" and "committed"; its number is in ./git.
start_change() {
	mkdir -p data
	: >data/refrelay.db # a node's, which is no secondary
	keep_hook dest/r.git <<-END
		[ "\$1" = prepared ] || exit 0
		echo \$PPID >"$TEST_DIR/git.new"
		mv "$TEST_DIR/git.new" "$TEST_DIR/git"
		while [ -e "$TEST_DIR/hold" ]; do sleep 0.05; done
	END
	touch hold
	git -C dest/r.git update-ref refs/heads/side "$old" &
	wait_until 10 test -e git
}

recovered() {
	grep -c 'ev=state.recovered' err || :
}

replicate() {
	expect 0 refrelay -v replicate source dest
}

a_killed_git_is_recovered_from_at_once() {
	local before
	make_copy
	before=$(key dest/r.git)
	start_change
	[ "$(find dest/r.git/$pending -name 'git-*' | wc -l)" -eq 1 ]
	[ "$(key dest/r.git)" = "$before" ]

	kill -KILL "$(<git)"
	wait $! || :
	rm hold
	rm -f dest/r.git/refs/heads/side.lock
	replicate
	[ "$(recovered)" -eq 1 ] || fail "$(<err)"
	[ "$(key dest/r.git)" != "$before" ]
	nothing_is_pending dest/r.git
	equal_trees source dest
}

# Whoever inherits the hook of a killed git, like init, lives for ever: a file in his name
# would keep readers from the cache as long.
a_hook_that_outlives_its_git_announces_nothing() {
	make_repo
	rm r.git/hooks/reference-transaction
	cat >r.git/hooks/reference-transaction <<-END
		#!/bin/sh
		git=\$PPID
		kill -KILL \$git
		while [ "\$(cut -d ' ' -f 4 /proc/\$\$/stat)" = \$git ]; do sleep 0.02; done
		sh -c 'echo \$PPID >"$TEST_DIR/hook"'
		exec "$REFRELAY_HOOK" "$TEST_DIR/data" reference-transaction "\$@" 2>"$TEST_DIR/said"
	END
	chmod +x r.git/hooks/reference-transaction
	fails git -C r.git update-ref refs/heads/x "$old"
	wait_until 10 test -s hook
	wait_until 10 fails kill -0 "$(<hook)"
	[ ! -d r.git/$pending ] || nothing_is_pending
	grep -q 'the git that made it was killed' said || fail "$(<said)"
}

a_git_at_work_is_left_alone() {
	make_copy
	start_change
	kill -STOP "$(<git)"
	touch -d '3 hours ago' dest/r.git/$pending/*
	replicate
	[ "$(recovered)" -eq 0 ] || fail "$(<err)"
	[ "$(find dest/r.git/$pending -name 'git-*' | wc -l)" -eq 1 ]
	kill -CONT "$(<git)"
	rm hold
	wait $!
	[ "$(git -C dest/r.git rev-parse refs/heads/side)" = "$old" ]
	nothing_is_pending dest/r.git
}

# Recovery is killed at each step, also after its last.
recovery_survives_its_own_death_at() { # POINT
	local before
	make_copy
	start_change
	kill -KILL "$(<git)"
	wait $! || :
	rm hold dest/r.git/hooks/reference-transaction
	rm -f dest/r.git/refs/heads/side.lock
	before=$(key dest/r.git)
	REFRELAY_FAILPOINT=$1=kill expect 137 refrelay replicate source dest
	if [ "$1" = state.dead ]; then
		[ "$(key dest/r.git)" = "$before" ]
	else
		[ "$(key dest/r.git)" != "$before" ]
	fi
	[ "$1" = state.removed ] || [ -n "$(ls dest/r.git/$pending)" ]
	replicate
	nothing_is_pending dest/r.git
	equal_trees source dest
}

a_writer_may_die_after_its_end() {
	mkdir source
	make_repository source/r.git 3
	run 0 created=1
	add_commits source/r.git refs/heads/main 1
	REFRELAY_FAILPOINT=state.ended=kill expect 137 refrelay replicate source dest
	nothing_is_pending dest/r.git
	replicate
	[ "$(recovered)" -eq 0 ]
	equal_trees source dest
}

# Git has taken its locks and not changed anything.
is_refused() { # PATTERN COMMAND...
	local pattern=$1
	shift
	"$@" 2>err && fail "the change was not refused"
	grep -q 'refrelay: this change is refused, because readers .*: '"$pattern" err || fail "$(<err)"
	grep -q '^refrelay: hint: ' err || fail "$(<err)"
	[ "$(value refs/heads/x)" = "$old" ]
	[ ! -e r.git/refs/heads/x.lock ]
}

a_change_that_cannot_be_announced_is_refused() {
	make_repo
	git -C r.git update-ref refs/heads/x "$old"
	rmdir r.git/$pending
	echo >r.git/$pending
	is_refused "Not a directory" git -C r.git update-ref refs/heads/x "$new"
	rm r.git/$pending
	git -C r.git update-ref refs/heads/x "$new"
	[ "$(value refs/heads/x)" = "$new" ]
	nothing_is_pending
}

a_push_that_cannot_be_announced_is_refused() {
	make_repo
	git -C r.git update-ref refs/heads/x "$old"
	rm -r r.git/refrelay/state
	echo >r.git/refrelay/state
	git clone -q r.git work
	git -C work commit -q --allow-empty -m one
	is_refused "Not a directory" git -C work push -q origin main:x 2>&1
}

in_a_mount() { # COMMAND, which a shell runs in a mount namespace of its own
	[ "$(id -u)" -eq 0 ] || skip "mounting needs root"
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	unshare -m sh -c "$1"
}

a_full_disk_and_a_read_only_one_refuse_a_change() {
	make_repo
	git -C r.git update-ref refs/heads/x "$old"
	export new pending
	is_refused "No space left" in_a_mount '
		mount -t tmpfs -o size=8k tmpfs r.git/refrelay/state && mkdir r.git/$pending
		cat /dev/zero >r.git/refrelay/state/filler 2>/dev/null
		git -C r.git update-ref refs/heads/x "$new"'
	grep -q 'make room' err
	is_refused "Read-only file system" in_a_mount '
		mount --bind r.git/refrelay/state r.git/refrelay/state &&
			mount -o remount,bind,ro r.git/refrelay/state
		git -C r.git update-ref refs/heads/x "$new"'
	nothing_is_pending
}

who_may_not_write_there_is_refused() {
	make_repo
	git -C r.git update-ref refs/heads/x "$old"
	become_nobody
	mkdir -p bin
	cp -f "$REFRELAY_HOOK" bin/refrelay-hook
	ln -sf "$TEST_DIR/bin/refrelay-hook" r.git/hooks/reference-transaction
	chmod a+rx bin bin/refrelay-hook
	chmod -R a-w r.git/refrelay/state
	is_refused "Permission denied" as_nobody git -C r.git update-ref refs/heads/x "$new"
	grep -q 'let every pusher write below refrelay' err
	chmod -R u+w r.git/refrelay/state
	as_nobody git -C r.git update-ref refs/heads/x "$new"
}

# It is recovered when git has ended, and the push stands.
a_key_that_cannot_be_written_leaves_the_file() {
	make_repo
	git -C r.git update-ref refs/heads/x "$old"
	rm r.git/refrelay/state/key
	mkdir r.git/refrelay/state/key
	git -C r.git update-ref refs/heads/x "$new" 2>err || fail "$(<err)"
	grep -q 'refrelay: readers are served more slowly' err || fail "$(<err)"
	[ "$(value refs/heads/x)" = "$new" ]
	[ "$(find r.git/$pending -name 'git-*' | wc -l)" -eq 1 ]
}

# As `git init --shared=group` makes them.
shared_repositories_stay_shared() {
	make_repo
	rm r.git/hooks/reference-transaction
	git -C r.git config core.sharedRepository group
	chmod 2770 r.git
	chmod 660 r.git/HEAD
	rm -r r.git/refrelay
	ln -s "$(realpath "$REFRELAY_HOOK")" r.git/hooks/reference-transaction
	keep_hook r.git <<-END
		[ "\$1" != prepared ] || stat -c %a $pending/git-* >"$TEST_DIR/mode"
	END
	(umask 077 && git -C r.git update-ref refs/heads/x "$old" 2>/dev/null)
	[ "$(stat -c %a r.git/refrelay)" = 2770 ]
	[ "$(stat -c %a r.git/refrelay/state)" = 2770 ]
	[ "$(stat -c %a r.git/$pending)" = 2770 ]
	[ "$(stat -c %a r.git/refrelay/state/key)" = 660 ]
	[ "$(<mode)" = 660 ]
	(umask 022 && git -C r.git update-ref refs/heads/x "$new" 2>/dev/null)
	[ "$(stat -c %a r.git/refrelay/state/key)" = 660 ]
}

# Else its owner could not push any more.
what_root_makes_belongs_to_the_owner() {
	[ "$(id -u)" -eq 0 ] || skip "this needs root"
	make_repo
	rm -r r.git/refrelay
	chown -R 65534:65534 r.git
	git config --global safe.directory '*'
	git -C r.git update-ref refs/heads/x "$old" 2>/dev/null
	[ "$(find r.git/refrelay -type d -user 65534 -group 65534 | wc -l)" -eq 3 ]
}

many_at_once_leave_nothing() {
	local i pids=()
	make_repo
	for i in $(seq 8); do
		seq -f "create refs/heads/many-$i/%g $old" 5 |
			while read -r line; do
				echo "$line" | git -C r.git update-ref --stdin
			done &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
	[ "$(git -C r.git for-each-ref refs/heads | grep -c many-)" -eq 40 ]
	nothing_is_pending
}

outside_of_a_repository_nothing_is_made() {
	mkdir empty
	cd empty
	fails env -u GIT_DIR "$REFRELAY_HOOK" "$TEST_DIR" reference-transaction prepared
	[ -z "$(ls -A)" ]
}

what_it_costs() {
	local i started
	make_repo
	started=$(date +%s%N)
	for i in $(seq 50); do
		git -C r.git update-ref refs/heads/x "$old"
		git -C r.git update-ref refs/heads/x "$new"
	done
	echo "# an update-ref with the hook: $((($(date +%s%N) - started) / 100000)) us" >&3
	nothing_is_pending
}

tap_test "a change is bracketed" a_change_is_bracketed
tap_test "a push is bracketed" a_push_is_bracketed
tap_test "the file names the git process" the_file_names_the_git_process
tap_test "nested transactions end one by one" nested_transactions_end_one_by_one
tap_test "a change that a kept hook refuses is over" a_change_that_a_kept_hook_refuses_is_over
tap_test "scripts between git and the hook are seen through" \
	scripts_between_git_and_the_hook_are_seen_through
tap_test "a killed git is recovered from at once" a_killed_git_is_recovered_from_at_once
tap_test "a hook that outlives its git announces nothing" \
	a_hook_that_outlives_its_git_announces_nothing
tap_test "a git at work is left alone" a_git_at_work_is_left_alone
for point in state.dead state.recover state.buried state.removed; do
	tap_test "recovery survives its own death at $point" \
		recovery_survives_its_own_death_at "$point"
done
tap_test "a writer may die after its end" a_writer_may_die_after_its_end
tap_test "a change that cannot be announced is refused" \
	a_change_that_cannot_be_announced_is_refused
tap_test "a push that cannot be announced is refused" a_push_that_cannot_be_announced_is_refused
tap_test "a full disk and a read-only one refuse a change" \
	a_full_disk_and_a_read_only_one_refuse_a_change
tap_test "who may not write there is refused" who_may_not_write_there_is_refused
tap_test "a key that cannot be written leaves the file" \
	a_key_that_cannot_be_written_leaves_the_file
tap_test "shared repositories stay shared" shared_repositories_stay_shared
tap_test "what root makes belongs to the owner" what_root_makes_belongs_to_the_owner
tap_test "many at once leave nothing" many_at_once_leave_nothing
tap_test "outside of a repository nothing is made" outside_of_a_repository_nothing_is_made
tap_test "what it costs" what_it_costs
tap_done
