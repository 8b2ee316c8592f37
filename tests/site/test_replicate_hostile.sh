#!/usr/bin/env bash
# Repositories whose owners mean harm, in SOURCE or adopted in DEST: nothing of theirs is
# run, nothing is fetched from elsewhere, nothing is waited for; and a crash in the middle
# of a publication does not make our own work look foreign.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"

prepare() {
	mkdir source
	make_repository source/good.git 3
	make_repository source/bad.git 3
	printf '#!/bin/sh\necho "$0 $*" >>"%s/canary"\nexit 1\n' "$PWD" >evil
	chmod +x evil
}

nothing_was_run() {
	fails test -e canary
}

evil_config() { # REPOSITORY
	local dir=$1

	mkdir -p "$dir/hooks"
	cp evil "$dir/hooks/reference-transaction"
	cp evil "$dir/hooks/post-update"
	cat >>"$dir/config" <<C
[core]
	fsmonitor = $PWD/evil
	hooksPath = $PWD/$dir/hooks
	sshCommand = $PWD/evil
	alternateRefsCommand = $PWD/evil
	gitProxy = $PWD/evil
[uploadpack]
	packObjectsHook = $PWD/evil
[protocol "ext"]
	allow = always
[protocol "ssh"]
	allow = always
C
}

a_sources_config_runs_nothing() {
	prepare
	evil_config source/bad.git
	printf '[include]\n\tpath = /nowhere\n' >>source/bad.git/config
	run 0 created=2
	git -C source/bad.git -c core.hooksPath=/dev/null update-ref refs/heads/main \
		"$(git -C source/bad.git commit-tree -m more -p main 'main^{tree}')"
	run 0 updated=1
	nothing_was_run
}

an_adopted_config_runs_nothing() {
	prepare
	mkdir dest
	git clone -q --mirror source/bad.git dest/bad.git
	evil_config dest/bad.git
	add_commits source/bad.git refs/heads/main 1
	run 0 created=1 updated=1
	nothing_was_run
}

an_adopted_config_cannot_send_us_elsewhere() {
	local base

	for base in "ext::$PWD/evil " ssh://nowhere/ "$PWD/other"; do
		rm -rf source dest
		prepare
		mkdir dest
		git clone -q --mirror source/bad.git dest/bad.git
		evil_config dest/bad.git
		git -C dest/bad.git config "url.$base.insteadOf" "$PWD/source"
		add_commits source/bad.git refs/heads/main 1
		run 3 created=1 failed=1
		is_bad bad '"failure_class":"config"' insteadOf
		nothing_was_run
	done
}

# Git takes the source for the name of this remote, and runs its program.
remote_with_its_name() {
	printf '[remote "%s"]\n\tuploadpack = %s\n' "$PWD/source/bad.git" "$PWD/evil"
}

in_its_config() {
	remote_with_its_name >>dest/bad.git/config
}

in_config_worktree() {
	git -C dest/bad.git config extensions.worktreeConfig true
	remote_with_its_name >dest/bad.git/config.worktree
}

in_commondir() {
	cp -a dest/bad.git common
	remote_with_its_name >>common/config
	echo ../../common >dest/bad.git/commondir
}

an_adopted_copy_runs_no_other_upload_pack() { # WHERE-FUNCTION TEXT
	prepare
	mkdir dest
	git clone -q --mirror source/bad.git dest/bad.git
	"$1"
	add_commits source/bad.git refs/heads/main 1
	run 3 created=1 failed=1
	is_bad bad '"failure_class":"config"' "$2"
	nothing_was_run
}

a_pipe_holds_nobody() { # PATH
	prepare
	mkdir -p "$(dirname "source/bad.git/$1")"
	mkfifo "source/bad.git/$1"
	expect 3 timeout 20 "$REFRELAY" replicate --json source dest
	is_bad bad '"failure_class":"config"' "is not a regular file"
	test -d dest/good.git
}

# Links, pipes and devices where git opens nothing; as grokmirror makes FETCH_HEAD.
what_git_does_not_open() {
	prepare
	mkdir -p source/bad.git/info
	mkfifo source/bad.git/pipe source/bad.git/info/pipe source/bad.git/objects/pack/tmp_pipe
	ln -s loop source/bad.git/loop
	ln -s /dev/null source/bad.git/FETCH_HEAD
	ln -s /dev/null source/bad.git/info/attributes
	ln -s self source/bad.git/refs/heads/self
	ln -s nowhere source/bad.git/refs/heads/nowhere
	run 0 created=2
	[ "$(tip dest/bad.git)" = "$(tip source/bad.git)" ]
	add_commits source/bad.git refs/heads/main 1
	ln -s /dev/null dest/bad.git/FETCH_HEAD
	mkfifo dest/bad.git/pipe
	run 0 updated=1
	[ "$(tip dest/bad.git)" = "$(tip source/bad.git)" ]
}

tip() { # PATH
	git -C "$1" rev-parse refs/heads/main
}

# Such a copy was made by others, and is adopted.
adopted_with_its_links() {
	prepare
	mkdir dest
	git clone -q --mirror source/bad.git dest/bad.git
	ln -sf /dev/null dest/bad.git/FETCH_HEAD
	add_commits source/bad.git refs/heads/main 1
	run 0 created=1 updated=1
	equal_repositories source/bad.git dest/bad.git
}

# Git would follow it, and show what it does not understand there.
packed_refs_that_is_a_link() {
	prepare
	ln -s /etc/passwd source/bad.git/packed-refs
	run 3 created=1 failed=1
	is_bad bad '"failure_class":"config"' "packed-refs is a symbolic link"
}

grafts_are_told() {
	prepare
	mkdir -p source/bad.git/info
	git -C source/bad.git rev-parse main >source/bad.git/info/grafts
	run 3 created=1 failed=1
	is_bad bad grafts convert-graft-file
}

# What was published right before a crash is ours, also when the source drops it again.
our_own_work_is_not_foreign() { # FAILPOINT
	local first

	prepare
	run 0 created=2
	first=$(git -C source/bad.git rev-parse main)
	add_commits source/bad.git refs/heads/main 1
	REFRELAY_FAILPOINT=$1=kill expect 137 refrelay replicate source dest
	git -C source/bad.git update-ref refs/heads/main "$first"
	add_commits source/bad.git refs/heads/main 2
	run 0 updated=1
	equal_repositories source/bad.git dest/bad.git
}

tap_test "a source's config runs nothing" a_sources_config_runs_nothing
tap_test "an adopted copy's config runs nothing" an_adopted_config_runs_nothing
tap_test "an adopted copy's config cannot send us elsewhere" \
	an_adopted_config_cannot_send_us_elsewhere
tap_test "nor a remote in it that has the source's name" \
	an_adopted_copy_runs_no_other_upload_pack in_its_config 'a remote that a URL or path names'
tap_test "nor one in config.worktree" \
	an_adopted_copy_runs_no_other_upload_pack in_config_worktree 'a file config.worktree'
tap_test "nor one in the directory that commondir names" \
	an_adopted_copy_runs_no_other_upload_pack in_commondir 'a file commondir'
for path in objects/info/alternates objects/info/commit-graph \
	objects/pack/multi-pack-index shallow; do
	tap_test "a pipe at $path holds nobody" a_pipe_holds_nobody "$path"
done
for path in index info/attributes objects/pack/odd.idx; do
	tap_test "nor does one at $path" a_pipe_holds_nobody "$path"
done
tap_test "what git does not open may be anything" what_git_does_not_open
tap_test "a copy of another tool, with its links, is adopted" adopted_with_its_links
tap_test "packed-refs that is a link is not followed" packed_refs_that_is_a_link
tap_test "grafts are told" grafts_are_told
for point in publish.renamed publish.changed state.key sync.verified; do
	tap_test "what was published before a crash at $point is ours" \
		our_own_work_is_not_foreign "$point"
done
tap_done
