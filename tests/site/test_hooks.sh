#!/usr/bin/env bash
# What happens at the primary around a push: hooks that tell of it and never make it
# fail, hooks of others that stay in force, and the log of events.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"

exec 3>&1 # for figures, which a test that passes does not show

HOOKS="reference-transaction post-receive"

site() { # ARGUMENT...
	refrelay -c "$TEST_DIR/conf" "$@"
}

make_site() {
	mkdir -p site/repos site/data
	chmod 700 site/data
	make_repository site/repos/a.git 3
	cat >conf <<-END
		[site]
			repositories = $TEST_DIR/site/repos
			data = $TEST_DIR/site/data
	END
	git clone -q site/repos/a.git work
}

# A hook that writes down its arguments and its stdin, and ends with STATUS.
make_hook() { # PATH [STATUS]
	cat >"$1" <<-END
		#!/bin/sh
		echo "\$*" >>"$TEST_DIR/\${0##*/}.arguments"
		cat >>"$TEST_DIR/\${0##*/}.stdin"
		[ "\$1" != prepared ] || exit ${2-0}
	END
	chmod 750 "$1"
}

push() { # [OPTION...]
	git -C work commit -q --allow-empty -m "${RANDOM}"
	git -C work push -q "$@" origin main
}

spooled() {
	find site/data/spool -type f -name '[0-9]*' 2>/dev/null | wc -l
}

# All there is, without what any write changes.
picture() {
	find site/repos -printf '%P %y %m %l\n' | LC_ALL=C sort
	find site/repos -path '*/hooks/*' -type f -exec sha256sum {} + | LC_ALL=C sort
}

install_and_remove_leave_all_as_it_was() {
	local hook
	make_site
	make_repository site/repos/group/b.git 1
	rm -r site/repos/group/b.git/hooks
	make_hook site/repos/a.git/hooks/post-receive
	mkdir site/repos/group/b.git/hooks
	picture >before

	expect 0 site hooks install
	grep -q ': 2 repositories$' out
	for hook in $HOOKS; do
		[ "$(head -n 1 site/repos/a.git/hooks/$hook)" = "#!$(realpath "$REFRELAY_HOOK") --hook" ]
	done
	[ "$(readlink site/repos/a.git/refrelay/node)" = "$TEST_DIR/site/data" ]
	[ "$(stat -c %a site/repos/a.git/hooks.refrelay-kept/post-receive)" = 750 ]
	expect 0 site hooks list
	grep -qx 'a: installed, keeps another post-receive' out
	grep -qx 'group/b: installed' out

	picture >installed
	expect 0 site hooks install --json
	grep -q '"changed":0,"failed":0' out
	picture | diff installed -

	expect 0 site hooks remove
	picture | diff before -
	expect 0 site hooks remove --json
	grep -q '"changed":0,"failed":0' out
}

names_and_dry_run() {
	make_site
	make_repository site/repos/b.git 1
	picture >before
	expect 0 site hooks install --dry-run
	grep -q 'would install.* 2 repositories' out
	expect 4 site hooks install a none
	picture | diff before -
	expect 0 site hooks install b
	grep -qx 'install hooks: 1 repository' out
	expect 0 site hooks list --json
	grep -q '"name":"a","state":"missing","installed":false' out
	grep -q '"name":"b","state":"installed","installed":true' out
	expect 2 site hooks install --all b
	expect 2 site hooks
}

hooks_of_another_node_are_said() {
	make_site
	expect 0 site hooks install
	sed "s|/site/data|/site/other|" conf >other.conf
	mkdir -m 700 site/other
	sed -i 's/^\[site\]/&\n\trole = standalone/' other.conf
	refrelay -c other.conf check >out || cat out
	grep -q "^note .* report to the node of $TEST_DIR/site/data, e.g. a: " out
	fails grep -q '^ok *hooks' out
	sed -i '/role = standalone/d' other.conf
	expect 3 refrelay -c other.conf hooks list
	grep -qx "a:.*, its hooks report to the node of $TEST_DIR/site/data" out
	expect 0 refrelay -c other.conf hooks install --dry-run
	grep -q "they would report to this node" err
	expect 0 refrelay -c other.conf hooks install
	grep -q "a.git, reported to the node of $TEST_DIR/site/data: they now report to this node" err
	expect 0 refrelay -c other.conf hooks list
	refrelay -c other.conf check >out || cat out
	grep -q '^ok *hooks *1 repositories have them' out
	expect 3 site hooks list --json
	grep -q '"other_node":"[^"]*/site/other"' out
}

# Where they refuse; a node makes them by itself.
a_secondary_gets_hooks_that_refuse() {
	make_site
	sed -i 's/^\[site\]/&\n\trole = secondary/' conf
	expect 0 site hooks list
	grep -qx 'a: reference-transaction missing, post-receive missing, pre-receive missing' out
	expect 0 site hooks install
	expect 0 site hooks list
	grep -qx 'a: installed' out
	printf 'https://london.example/x\n%s\n' "$TEST_DIR/site/repos" >site/data/primary
	fails push 2>err
	grep -q 'refrelay: read-only copy; push to https://london.example/x/a.git' err ||
		fail "$(<err)"
	fails git -C site/repos/a.git update-ref -d refs/heads/main 2>err
	grep -q 'refrelay: read-only copy; push to ' err || fail "$(<err)"
	[ "$(git -C site/repos/a.git rev-list --count main)" -eq 3 ]
	[ -z "$(find site/repos/a.git/objects -newer site/data/primary -type f)" ]
	rm site/data/primary
	push
	[ "$(spooled)" -ge 1 ]
	hooks_obey_the_record_of_a_copy
	expect 0 site hooks remove
	expect 0 site hooks list a
	fails grep -q installed out
}

# Where they cannot know the role, as the volume of the data is away.
hooks_obey_the_record_of_a_copy() {
	local way
	mv site/data site/data.away
	push 2>err
	grep -q 'refrelay: this change will be noticed later' err || fail "$(<err)"
	echo '{}' >site/repos/a.git/refrelay/copy
	for way in ln\ -s\ loop mkdir; do
		$way site/data
		fails push 2>err
		grep -q 'refrelay: this may be a read-only copy' err || fail "$(<err)"
		grep -q 'refrelay: hint: see where refrelay/node leads' err || fail "$(<err)"
		fails git -C site/repos/a.git update-ref -d refs/heads/main
		rm -d site/data
	done
	fails push 2>err
	mv site/data.away site/data
	: >site/data/refrelay.db
	push # of one that was promoted
	rm site/repos/a.git/refrelay/copy site/data/refrelay.db
}

kept_hooks_see_what_they_saw() {
	local hook
	make_site
	for hook in $HOOKS; do
		make_hook site/repos/a.git/hooks/$hook
	done
	expect 0 site hooks install
	push
	for hook in $HOOKS; do
		mv "$hook.arguments" "$hook.arguments.ours"
		mv "$hook.stdin" "$hook.stdin.ours"
	done
	expect 0 site hooks remove
	push
	for hook in $HOOKS; do
		diff "$hook.arguments.ours" "$hook.arguments"
		diff <(sed 's/[0-9a-f]\{40\}/oid/g' "$hook.stdin.ours") \
			<(sed 's/[0-9a-f]\{40\}/oid/g' "$hook.stdin")
	done
	grep -qx prepared reference-transaction.arguments.ours
	grep -qx committed reference-transaction.arguments.ours
	grep -q refs/heads/main post-receive.stdin.ours
}

a_kept_hook_gets_all_of_a_large_stdin() {
	local old
	make_site
	make_hook site/repos/a.git/hooks/reference-transaction
	make_hook site/repos/a.git/hooks/post-receive
	expect 0 site hooks install
	old=$(git -C work rev-parse HEAD)
	seq -f "create refs/tags/t%g $old" 3000 | git -C work update-ref --stdin
	git -C work push -q --atomic --tags origin
	[ "$(grep -c refs/tags/ post-receive.stdin)" -eq 3000 ]
	[ "$(grep -c refs/tags/ reference-transaction.stdin)" -ge 6000 ]
}

# Our hook reads nothing of what git has for it.
a_large_push_needs_no_reader() {
	local old
	make_site
	expect 0 site hooks install
	old=$(git -C work rev-parse HEAD)
	seq -f "create refs/tags/t%g $old" 3000 | git -C work update-ref --stdin
	git -C work push -q --atomic --tags origin 2>err
	[ ! -s err ] || fail "$(<err)"
	[ "$(git -C site/repos/a.git tag | wc -l)" -eq 3000 ]
}

a_kept_hook_that_says_no_is_obeyed() {
	local before
	make_site
	make_hook site/repos/a.git/hooks/reference-transaction 1
	expect 0 site hooks install
	before=$(git -C site/repos/a.git rev-parse main)
	fails push
	[ "$(git -C site/repos/a.git rev-parse main)" = "$before" ]
	[ "$(spooled)" -eq 0 ]
}

kept_hooks_run_as_git_runs_them() {
	make_site
	make_hook site/repos/a.git/hooks/post-receive
	chmod a-x site/repos/a.git/hooks/post-receive
	# shellcheck disable=SC2016
	printf 'echo "$1" >>%s/no-first-line\n' "$TEST_DIR" \
		>site/repos/a.git/hooks/reference-transaction
	chmod +x site/repos/a.git/hooks/reference-transaction
	expect 0 site hooks install
	push
	[ ! -e post-receive.stdin ]
	grep -qx prepared no-first-line
}

without_a_node_a_push_is_spooled() {
	local file
	make_site
	expect 0 site hooks install
	push 2>err
	[ ! -s err ] || fail "$(<err)"
	[ "$(spooled)" -ge 2 ]
	for file in site/data/spool/[0-9]*; do
		[ "$(<"$file")" = "$TEST_DIR/site/repos/a.git" ]
	done
	[ "$(stat -c %a site/data/spool)" = 700 ]
	[ -z "$(find site/data/spool -name '.?*')" ]
}

# The node, as another user, must be able to read it.
what_root_spools_becomes_the_nodes() {
	[ "$(id -u)" -eq 0 ] || skip "only root can make another user's files"
	make_site
	expect 0 site hooks install
	chown 65534:65534 site/data
	push 2>err
	[ ! -s err ] || fail "$(<err)"
	[ "$(spooled)" -ge 2 ]
	[ -z "$(find site/data/spool '(' -not -uid 65534 -o -not -gid 65534 ')' -print)" ]
	chown 65533:65533 site/data/spool
	push
	[ "$(find site/data/spool -type f -uid 65533 -gid 65533 | wc -l)" -ge 2 ]
}

two_pushes_at_once_are_both_told() {
	local pid name
	make_site
	make_repository site/repos/b.git 3
	git clone -q site/repos/b.git work-b
	git -C work-b commit -q --allow-empty -m one
	expect 0 site hooks install
	push &
	pid=$!
	git -C work-b push -q origin main
	wait $pid
	for name in a b; do
		grep -qx "$TEST_DIR/site/repos/$name.git" site/data/spool/[0-9]*
	done
}

# What is not told is found by a scan: the push goes on, with a word to who pushes.
goes_on() {
	push 2>err || fail "the push failed: $(<err)"
	grep -q 'refrelay: this change will be noticed later: ' err || fail "$(<err)"
	[ "$(git -C site/repos/a.git rev-parse main)" = "$(git -C work rev-parse main)" ]
}

a_hook_never_fails_a_push() {
	make_site
	expect 0 site hooks install
	mkdir site/data/spool
	mv site/data/spool site/kept
	echo >site/data/spool
	goes_on
	rm site/data/spool
	mv site/data site/moved
	goes_on
	rm site/repos/a.git/refrelay/node
	goes_on
	rm -r site/repos/a.git/refrelay
	goes_on
}

a_full_disk_fails_no_push() {
	make_site
	[ "$(id -u)" -eq 0 ] || skip "mounting needs root"
	unshare -m true 2>/dev/null || skip "no mount namespaces here"
	expect 0 site hooks install
	git -C work commit -q --allow-empty -m full
	# shellcheck disable=SC2016
	unshare -m sh -c 'mount -t tmpfs -o size=4k,mode=700 tmpfs site/data &&
		mkdir site/data/spool && { cat /dev/zero >site/data/filler || true; } 2>/dev/null
		git -C work push -q origin main; echo $? >status; ls -A site/data/spool >left' 2>err ||
		skip "cannot mount a tmpfs"
	[ "$(<status)" = 0 ] || fail "$(<err)"
	grep -q 'noticed later: cannot write to the node.s spool: No space' err || fail "$(<err)"
	[ ! -s left ]
}

a_hook_finds_its_repository_from_anywhere() {
	local commit
	make_site
	expect 0 site hooks install
	commit=$(git -C work rev-parse HEAD)
	(cd / && git --git-dir="$TEST_DIR/site/repos/a.git" update-ref refs/heads/x "$commit")
	[ "$(cat site/data/spool/[0-9]*)" = "$TEST_DIR/site/repos/a.git" ]
	rm site/data/spool/*
	git -C site/repos/a.git worktree add -q "$TEST_DIR/tree" main
	rm -f site/data/spool/*
	git -C tree update-ref refs/heads/y "$commit"
	[ "$(cat site/data/spool/[0-9]*)" = "$TEST_DIR/site/repos/a.git" ]
}

a_template_brings_the_hooks() {
	make_site
	mkdir -p template/hooks template/refrelay
	expect 0 site hooks install
	cp site/repos/a.git/hooks/{post-receive,reference-transaction} template/hooks/
	ln -s "$TEST_DIR/site/data" template/refrelay/node
	git init -q --bare --template=template site/repos/new.git
	expect 0 site hooks list new
	grep -qx 'new: installed' out
	git -C work push -q "$TEST_DIR/site/repos/new.git" main
	[ "$(spooled)" -ge 1 ]
}

hooks_that_are_elsewhere_are_told() {
	make_site
	make_repository site/repos/b.git 1
	make_repository site/repos/c.git 1
	git -C site/repos/a.git config core.hooksPath "$TEST_DIR/common"
	mkdir common shared
	rm -r site/repos/b.git/hooks
	ln -s "$TEST_DIR/shared" site/repos/b.git/hooks
	expect 3 site hooks install
	grep -q "a: git uses the hooks in $TEST_DIR/common" err
	grep -q "b: git uses the hooks in $TEST_DIR/shared" err
	[ "$(grep -c 'hint: use --shared' err)" -eq 2 ]
	[ -z "$(find common shared -mindepth 1)" ]
	[ ! -e site/repos/a.git/hooks/post-receive ]
	expect 0 site hooks list c
	grep -qx 'c: installed' out
	printf '# hooksPath = %s\n[sample]\n\thooksPath = %s\n' "$TEST_DIR/common" "$TEST_DIR/common" \
		>>site/repos/c.git/config
	expect 0 site hooks list c
	grep -qx 'c: installed' out

	cp -r site/repos/c.git site/repos/$'bad\xff.git'
	expect 3 site hooks list
	grep -qF "refrelay: bad\\xff.git: not a repository's name: it is not UTF-8" err
	rm -r site/repos/$'bad\xff.git'

	git config --global core.hooksPath "$TEST_DIR/absent"
	expect 0 site hooks list c
	grep -qx "c: .*post-receive missing, in $TEST_DIR/absent" out
	expect 3 site hooks install c
	grep -q "c: core.hooksPath is $TEST_DIR/absent, which does not exist" err
}

# Directories that several repositories use: by core.hooksPath, by a link, by links to
# single hooks, two levels deep.
shared_directories_are_seen_to_the_end() {
	local name
	make_site
	for name in b c d; do
		make_repository site/repos/$name.git 1
	done
	mkdir common
	make_hook common/post-receive
	ln -s common level
	git -C site/repos/a.git config core.hooksPath "$TEST_DIR/level"
	rm -r site/repos/b.git/hooks
	ln -s "$TEST_DIR/level" site/repos/b.git/hooks
	ln -s "$TEST_DIR/level/post-receive" link
	ln -s "$TEST_DIR/link" site/repos/c.git/hooks/post-receive
	expect 0 site hooks install --shared
	[ "$(find . -name post-receive -path '*.refrelay-kept*' | wc -l)" -eq 1 ]
	for name in a b c d; do
		expect 0 site hooks list $name
		grep -q "^$name: installed" out || fail "$(<out)"
	done
	for name in a b c; do
		rm -rf post-receive.arguments site/data/spool
		timeout 20 git -C work push -q "$TEST_DIR/site/repos/$name.git" main:refs/heads/x
		[ "$(wc -l <post-receive.arguments)" -eq 1 ] || fail "$name: $(<post-receive.arguments)"
		[ "$(grep -lx "$TEST_DIR/site/repos/$name.git" site/data/spool/[0-9]* | wc -l)" -eq 2 ] ||
			fail "$name: $(tail site/data/spool/[0-9]*)"
	done
	expect 0 site hooks remove
	grep -qF "2 repositories use shared hooks, e.g. in $TEST_DIR/common, which stay" err
	grep -q refrelay-hook common/post-receive
	expect 0 site hooks remove --shared
	fails grep -q 'use shared hooks' err
	[ "$(ls common)" = post-receive ]
	fails grep -q refrelay-hook common/post-receive
}

# As earlier versions advised for a directory that repositories share.
links_to_the_program_are_replaced() {
	local hook program
	program=$(realpath "$REFRELAY_HOOK")
	make_site
	mkdir common
	for hook in $HOOKS; do
		ln -s "$program" common/$hook
		ln -s "$TEST_DIR/common/$hook" site/repos/a.git/hooks/$hook
	done
	expect 3 site hooks list
	grep -q '^a: reference-transaction outdated, post-receive outdated' out
	expect 0 site hooks install
	expect 0 site hooks list
	grep -qx 'a: installed' out
	timeout 20 git -C work push -q origin main:refs/heads/x
	[ "$(spooled)" -eq 2 ]
	expect 0 site hooks remove
	[ ! -e site/repos/a.git/hooks/post-receive ]
	[ "$(readlink common/post-receive)" = "$program" ]
}

# Whatever leads into itself: the push is done, and is told once.
a_circle_of_hooks_ends() {
	make_site
	expect 0 site hooks install
	mkdir site/repos/a.git/hooks.refrelay-kept
	ln -s ../hooks/post-receive site/repos/a.git/hooks.refrelay-kept/post-receive
	timeout 20 git -C work push -q origin main:refs/heads/x 2>err
	[ "$(spooled)" -eq 2 ]

	rm site/repos/a.git/hooks.refrelay-kept/post-receive
	cat >site/repos/a.git/hooks.refrelay-kept/post-receive <<-END
		#!/bin/sh
		exec "$TEST_DIR/site/repos/a.git/hooks/post-receive"
	END
	chmod +x site/repos/a.git/hooks.refrelay-kept/post-receive
	rm -r site/data/spool
	timeout 20 git -C work push -q origin main:refs/heads/y 2>err
	grep -q 'refrelay: hooks run each other in a circle' err || fail "$(<err)"
	[ "$(spooled)" -eq 2 ]
}

# As Gitea, Forgejo and soft-serve: a script that runs each file of its .d.
make_parts_hook() { # HOOKS
	cat >"$1/post-receive" <<-'END'
		#!/usr/bin/env bash
		said=$(cat)
		own=$(basename "$0")
		for part in "${GIT_DIR:-$(dirname "$0")/..}/hooks/$own.d"/*; do
			[ -x "$part" ] && [ -f "$part" ] || continue
			echo "$said" | "$part" || exit
		done
	END
	mkdir -p "$1/post-receive.d"
	make_hook "$1/post-receive.d/forge"
	chmod +x "$1/post-receive"
}

a_server_that_runs_parts_goes_on_doing_so() {
	local hooks=site/repos/a.git/hooks
	make_site
	make_parts_hook $hooks
	picture | grep -v objects >before
	expect 0 site hooks list
	grep -qx 'a: reference-transaction missing, post-receive missing' out
	expect 0 site hooks install
	expect 0 site hooks list
	grep -qx 'a: installed' out
	push
	[ "$(wc -l <forge.stdin)" -eq 1 ]
	[ "$(spooled)" -eq 2 ]

	# it writes its hooks again, in place
	cp $hooks/post-receive original
	cat original >$hooks/post-receive
	expect 0 site hooks list
	grep -qx 'a: installed' out
	push
	[ "$(wc -l <forge.stdin)" -eq 2 ]
	[ "$(spooled)" -eq 4 ]
	rm $hooks/post-receive.d/refrelay
	expect 3 site hooks list
	grep -qx 'a: reference-transaction installed, post-receive missing' out
	expect 0 site hooks install
	expect 0 site hooks remove
	rm -rf $hooks/../refrelay
	picture | grep -v objects | diff before - || fail "not as it was"
}

# What an earlier version has done to such a server.
a_server_gets_back_its_own_hook() {
	local hook hooks=site/repos/a.git/hooks
	make_site
	make_parts_hook $hooks
	mv $hooks/post-receive $hooks/post-receive.refrelay-kept
	for hook in $HOOKS; do
		ln -s "$(realpath "$REFRELAY_HOOK")" $hooks/$hook
	done
	mkdir site/repos/a.git/refrelay
	ln -s "$TEST_DIR/site/data" site/repos/a.git/refrelay/node
	expect 3 site hooks list
	grep -q 'post-receive outdated' out
	expect 0 site hooks install
	grep -q 'basename' $hooks/post-receive
	[ ! -e $hooks/post-receive.refrelay-kept ]
	push
	[ "$(wc -l <forge.stdin)" -eq 1 ]
	[ "$(spooled)" -eq 2 ]
}

# Scripts look for what belongs to them beside themselves.
a_kept_hook_finds_its_neighbours() {
	local hooks=site/repos/a.git/hooks
	make_site
	cat >$hooks/post-receive <<-'END'
		#!/bin/sh
		. "$(dirname "$0")/library"
		parts=$0.d
		for part in "$parts"/*; do "$part" </dev/null || exit; done
		test -d "$(dirname "$0")/../objects" && found "$(basename "$0")"
	END
	chmod +x $hooks/post-receive
	echo "found() { echo \"\$1\" >$TEST_DIR/found; }" >$hooks/library
	mkdir $hooks/post-receive.d
	make_hook $hooks/post-receive.d/own
	picture | grep -v objects >before
	expect 0 site hooks install
	expect 0 site hooks list
	grep -qx 'a: installed, keeps another post-receive' out
	push
	[ -e own.arguments ]
	[ "$(<found)" = post-receive ]
	expect 0 site hooks remove
	rm -rf $hooks/../refrelay
	picture | grep -v objects | diff before - || fail "not as it was"
}

# As a server does that writes its hooks at each start, without a look at what is there.
one_written_in_place_hits_one_repository() {
	local program
	program=$(realpath "$REFRELAY_HOOK")
	make_site
	make_repository site/repos/b.git 1
	make_hook server
	expect 0 site hooks install
	cp "$program" program
	cat server >site/repos/a.git/hooks/post-receive
	cmp program "$program"
	expect 3 site hooks list
	grep -qx 'a: reference-transaction installed, post-receive foreign' out
	grep -qx 'b: installed' out
	expect 3 site hooks list --json
	grep -q '"name":"a","state":"foreign","installed":false' out
	git -C work push -q "$TEST_DIR/site/repos/b.git" main:refs/heads/x
	[ "$(spooled)" -eq 2 ]

	expect 0 site hooks install
	push
	[ -e post-receive.arguments ]
	cat server >site/repos/a.git/hooks/post-receive
	expect 0 site hooks install
	expect 0 site hooks list a
	grep -qx 'a: installed, keeps another post-receive' out
}

# Where the kernel cannot be told in one line which program to run.
a_program_with_a_blank_in_its_path() {
	make_site
	mkdir "a place"
	cp "$(realpath "$REFRELAY_HOOK")" "a place/refrelay-hook"
	REFRELAY_HOOK="$TEST_DIR/a place/refrelay-hook" expect 0 site hooks install
	head -n 1 site/repos/a.git/hooks/post-receive | grep -qx '#!/bin/sh'
	push
	[ "$(spooled)" -eq 2 ]
	expect 3 site hooks list
	grep -q 'post-receive outdated' out
	expect 0 site hooks install
	push
	[ "$(spooled)" -eq 4 ]
}

a_file_system_without_programs_is_told() {
	make_site
	[ "$(id -u)" -eq 0 ] || skip "mounting needs root"
	# shellcheck disable=SC2016
	unshare -m sh -c 'mount --bind site/repos site/repos &&
		mount -o remount,bind,noexec site/repos || exit 77
		"$REFRELAY" -c conf hooks install 2>err; echo $? >status' ||
		skip "cannot mount here"
	[ "$(<status)" = 3 ]
	grep -q 'is on a file system that is mounted noexec' err || fail "$(<err)"
}

# An install was cut short after its first step, or by a link of an old version; a person
# put a hook over ours.
odd_states_are_mended_or_told() {
	local hooks=site/repos/a.git/hooks
	make_site
	make_hook $hooks/post-receive
	cp $hooks/post-receive original
	ln -s "$(realpath "$REFRELAY_HOOK")" $hooks/post-receive.refrelay-kept
	ln -s /old/place/refrelay-hook $hooks/reference-transaction
	expect 0 site hooks install
	expect 0 site hooks list
	grep -qx 'a: installed, keeps another post-receive' out
	cmp original $hooks.refrelay-kept/post-receive

	rm $hooks/post-receive
	cp original $hooks/post-receive
	echo '# another' >>$hooks/post-receive
	cp $hooks/post-receive another
	expect 3 site hooks install
	grep -q 'post-receive replaced refrelay.s hook' err
	expect 3 site hooks remove
	cmp another $hooks/post-receive
	cmp original $hooks.refrelay-kept/post-receive

	: >$hooks/post-receive
	expect 3 site hooks list
	grep -q 'reference-transaction missing, post-receive outdated' out
	expect 0 site hooks install
	: >$hooks/post-receive
	chmod -x $hooks/reference-transaction
	expect 3 site hooks list
	grep -q 'reference-transaction outdated, post-receive outdated' out
	expect 0 site hooks install
	expect 0 site hooks list
	grep -qx 'a: installed, keeps another post-receive' out
}

changed_records_what_changed() {
	local id
	make_site
	expect 0 site changed a
	grep -qx 'event 1' out
	grep -q 'no node is running' err
	expect 0 site changed --json a.git
	grep -qx '{"name":"a.git","event_id":null}' out
	push
	id=$(git -C work rev-parse HEAD)
	expect 0 site changed "$TEST_DIR/site/repos/a.git" --ref refs/heads/main "$(
		git -C work rev-parse HEAD~
	)" "$id" --json
	grep -q '"event_id":2}' out
	push
	printf '%s %s refs/heads/main\n' "$id" "$(git -C work rev-parse HEAD)" >lines
	site changed --stdin a <lines >out 2>err
	grep -qx 'event 3' out
	rm -rf site/repos/a.git
	expect 0 site changed a
	grep -qx 'event 4' out
	expect 4 site changed a
}

a_command_logs_only_what_needs_a_look() {
	make_site
	expect 0 site changed a
	fails grep -q 'level=' err
	push
	expect 0 refrelay -v -c "$TEST_DIR/conf" changed a
	grep -q 'level=info' err
}

# One that was made two seconds ago is damaged instead.
one_that_is_young_is_waited_for() { # NAME
	make_repository "site/repos/$1.git" 1
	echo nonsense >"site/repos/$1.git/refs/heads/main"
	fails site changed "$1" 2>err
	grep -q "$1.git is not two seconds old and not whole yet: refs/heads/main holds" err &&
		grep -q 'hint: wait' err
}

changed_refuses_what_makes_no_sense() {
	local tries=0
	local id=0123456789012345678901234567890123456789
	make_site
	expect 4 site changed none
	until one_that_is_young_is_waited_for "new$tries"; do
		[ $((++tries)) -lt 20 ] || fail "$(cat err)"
	done
	expect 2 site changed .refrelay/trash/x
	grep -q 'hint: what it holds is not served' err
	expect 2 site changed /etc/passwd
	expect 2 site changed
	expect 2 site changed --stdin a b </dev/null
	expect 2 site changed a --ref refs/heads/main $id
	expect 2 site changed a --ref main $id $id
	expect 2 site changed a --ref refs/heads/main 12 $id
	echo "$id refs/heads/main" >lines
	expect 2 site changed a --stdin <lines
	grep -q 'line 1' err
	sed -i 's/^\[site\]/&\n\trole = secondary/' conf
	expect 2 site changed a
	grep -q 'hint: run this at the primary' err
}

events_are_printed_in_order() {
	local i
	make_site
	expect 0 site events
	[ ! -s out ]
	for i in 1 2 3; do
		site changed a 2>/dev/null
		push
	done
	expect 0 site events
	[ "$(grep -o '"id":[0-9]*' out | tr -d '\n')" = '"id":1"id":2"id":3' ]
	head -n 1 out | grep -q '"name":"a","event":"created"'
	tail -n 1 out | grep -q '"event":"updated".*"ref":"refs/heads/main"'
	expect 0 site events --after 2 --json
	[ "$(wc -l <out)" -eq 1 ]
	expect 0 site events --after 3
	[ ! -s out ]
	expect 1 site events --after 4
	grep -q 'the newest is 3' err
	expect 2 site events --after x
}

# As other programs: by SIGPIPE, and without a word about that.
nobody_reads_the_output() {
	local command status
	make_site
	site changed a 2>/dev/null
	mkfifo pipe
	exec 5<>pipe 6>pipe 5>&-
	for command in "hooks list" events "events --follow" "status --watch" "config list"; do
		status=0
		# shellcheck disable=SC2086
		"$REFRELAY" -c conf $command >&6 2>err || status=$?
		[ "$status" = 141 ] || fail "$command: $status $(<err)"
		[ -z "$(grep -v 'no node is running here' err)" ] || fail "$command: $(<err)"
	done
	status=0
	site config list >/dev/full 2>err || status=$?
	[ "$status" = 1 ]
	grep -q 'cannot write the output: No space' err
}

events_can_be_followed() {
	local follower status=0
	make_site
	site changed a 2>/dev/null
	# Not through a function: the signal is for the program itself.
	"$REFRELAY" -c conf events --follow >followed &
	follower=$!
	wait_until 10 grep -q '"id":1,' followed
	push
	site changed a 2>/dev/null
	wait_until 10 grep -q '"id":2,' followed
	kill -TERM $follower
	wait $follower || status=$?
	[ "$status" -eq 130 ]
	[ "$(wc -l <followed)" -eq 2 ]
}

a_hook_is_quick() {
	local i started ended
	make_site
	expect 0 site hooks install
	cd site/repos/a.git
	started=$(date +%s%N)
	for i in $(seq 50); do
		hooks/reference-transaction prepared
	done </dev/null
	ended=$(date +%s%N)
	echo "# 50 runs with nothing to tell: $(((ended - started) / 1000)) us" >&3
	started=$(date +%s%N)
	for i in $(seq 50); do
		hooks/reference-transaction committed
	done </dev/null
	ended=$(date +%s%N)
	echo "# 50 runs that spool: $(((ended - started) / 1000)) us" >&3
	[ "$(find ../../data/spool -type f | wc -l)" -eq 50 ]
}

tap_test "install and remove leave all as it was" install_and_remove_leave_all_as_it_was
tap_test "repositories can be named, and a dry run does nothing" names_and_dry_run
tap_test "hooks of another node are said" hooks_of_another_node_are_said
tap_test "a secondary gets hooks that refuse" a_secondary_gets_hooks_that_refuse
tap_test "kept hooks see the arguments and stdin that they saw" kept_hooks_see_what_they_saw
tap_test "a kept hook gets all of a large stdin" a_kept_hook_gets_all_of_a_large_stdin
tap_test "a large push needs nobody who reads stdin" a_large_push_needs_no_reader
tap_test "a kept hook that says no is obeyed" a_kept_hook_that_says_no_is_obeyed
tap_test "kept hooks run as git runs them" kept_hooks_run_as_git_runs_them
tap_test "without a node a push is spooled" without_a_node_a_push_is_spooled
tap_test "what root spools becomes the node's" what_root_spools_becomes_the_nodes
tap_test "two pushes at once are both told" two_pushes_at_once_are_both_told
tap_test "a hook never fails a push" a_hook_never_fails_a_push
tap_test "a full disk fails no push" a_full_disk_fails_no_push
tap_test "a hook finds its repository from anywhere" a_hook_finds_its_repository_from_anywhere
tap_test "a template brings the hooks" a_template_brings_the_hooks
tap_test "hooks that git looks for elsewhere are told" hooks_that_are_elsewhere_are_told
tap_test "shared directories are seen to the end" shared_directories_are_seen_to_the_end
tap_test "links to the program are replaced" links_to_the_program_are_replaced
tap_test "a circle of hooks ends" a_circle_of_hooks_ends
tap_test "a server that runs parts goes on doing so" a_server_that_runs_parts_goes_on_doing_so
tap_test "a server gets back its own hook" a_server_gets_back_its_own_hook
tap_test "a kept hook finds its neighbours" a_kept_hook_finds_its_neighbours
tap_test "one written in place hits one repository" one_written_in_place_hits_one_repository
tap_test "a program with a blank in its path" a_program_with_a_blank_in_its_path
tap_test "a file system without programs is told" a_file_system_without_programs_is_told
tap_test "odd states are mended or told" odd_states_are_mended_or_told
tap_test "changed records what changed" changed_records_what_changed
tap_test "a command logs only what needs a look" a_command_logs_only_what_needs_a_look
tap_test "changed refuses what makes no sense" changed_refuses_what_makes_no_sense
tap_test "events are printed in order" events_are_printed_in_order
tap_test "commands end when nobody reads their output" nobody_reads_the_output
tap_test "events can be followed" events_can_be_followed
tap_test "a hook is quick" a_hook_is_quick
tap_done
