#!/usr/bin/env bash
# No request and no link in the tree leads to what is not a repository of the site: 4xx,
# soon, and nothing of what lies outside.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"

PEERS=$TESTS/peers
REFS='info/refs?service=git-upload-pack'

port_of() { # SITE
	local url
	url=$(site_url "$1")
	echo "${url##*:}"
}

# What no answer may have in it: a ref of the repository outside.
SECRET=refs/heads/outside-the-root

make_outside() {
	make_repository "${1:-outside.git}" 3
	git -C "${1:-outside.git}" update-ref "$SECRET" main
}

no_spelling_leads_out() {
	make_served
	make_outside
	make_repository one/git/real/x.git 3
	start_site one
	adv >now
	python3 "$PEERS/paths.py" "$(port_of one)" "$SECRET"
	[ "$(code "${U%r.git}real%2Fx.git/$REFS")" = 200 ]
	[ "$(code "${U%r.git}real/x/$REFS")" = 200 ]
	adv | cmp - now
	stop_site one
}

no_link_leads_out() {
	local names=(l.git l a/l.git a/b/l.git up/outside.git a/up/outside a/b/up/outside.git
		inside/b/c.git a/b/d.git magic/outside.git loop.git file.git fifo.git
		socket.git device.git file.git/x.git fifo.git/x.git a/b file empty.git)
	make_served
	make_outside
	make_repository one/git/a/b/c.git 3
	make_repository one/git/plain 3
	make_repository one/git/plain.git/x.git 3
	ln -s "$PWD/outside.git" one/git/l.git
	ln -s ../../../outside.git one/git/a/l.git
	ln -s "$PWD/outside.git" one/git/a/b/l.git
	ln -s "$PWD" one/git/up
	ln -s ../../.. one/git/a/up
	ln -s "$PWD" one/git/a/b/up
	ln -s a one/git/inside
	ln -s c.git one/git/a/b/d.git
	ln -s "/proc/self/cwd" one/git/magic
	ln -s loop.git one/git/loop.git
	mkdir one/git/empty.git
	: >one/git/file.git
	: >one/git/file
	mkfifo one/git/fifo.git
	python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("one/git/socket.git")'
	ln -s /dev/zero one/git/device.git
	start_site one
	python3 "$PEERS/paths.py" "$(port_of one)" "$SECRET" "${names[@]}"
	[ "$(code "${U%r.git}a/b/c.git/$REFS")" = 200 ]
	[ "$(code "${U%r.git}plain.git/$REFS")" = 200 ]
	[ "$(code "${U%r.git}plain.git/x.git/$REFS")" = 404 ] # no change of it would be recorded
	stop_site one
}

# A directory that was served is replaced by a link: what was remembered of it is not
# given to those who ask for the link, nor is what it leads to.
a_link_comes_into_the_way() {
	make_served
	mkdir one/git/group outside
	mv "$R" one/git/group/r.git
	R=$PWD/one/git/group/r.git
	U=${U%r.git}group/r.git
	make_outside outside/r.git
	start_site one
	for i in 1 2 3; do
		adv >now
		grep -aq refs/heads/main now
		ls_refs | post >now2
		mv one/git/group one/away
		ln -s "$PWD/outside" one/git/group
		[ "$(code "$U/$REFS")" = 404 ]
		[ "$(ls_refs | post -o answer -w '%{http_code}')" = 404 ]
		fails grep -a "$SECRET" answer
		fails git clone -q "$U" clone
		rm one/git/group
		mv one/away one/git/group
		adv | cmp - now
		ls_refs | post | cmp - now2
		[ "$((i % 2))" = 0 ] || bracketed_in_group
	done
	stop_site one
}

bracketed_in_group() {
	git -C "$R" update-ref refs/heads/new main
	[ -n "$(oid refs/heads/new)" ]
	git -C "$R" update-ref -d refs/heads/new
	[ -z "$(oid refs/heads/new || true)" ]
}

# The same over and over while clients ask: they get the repository or nothing.
links_come_and_go() {
	local status flipper bad=0
	make_served
	mkdir one/git/group outside
	mv "$R" one/git/group/r.git
	make_outside outside/r.git
	ln -s "$PWD/outside" one/link
	U=${U%r.git}group/r.git
	start_site one
	python3 - "$PWD/one" <<-'END' &
		import ctypes, os, sys
		libc = ctypes.CDLL(None, use_errno=True)
		group, link = (sys.argv[1] + name for name in ('/git/group', '/link'))
		while not os.path.exists('stop'):
		    if libc.renameat2(-100, group.encode(), -100, link.encode(), 2) != 0:
		        sys.exit(os.strerror(ctypes.get_errno()))
	END
	flipper=$!
	for i in $(seq 60); do
		ls_refs | post -o answer -w '%{http_code}' >status || true
		! grep -aq "$SECRET" answer || bad=1
		adv 2>err >answer || true
		! grep -aq "$SECRET" answer || bad=1
		rm -rf clone
		[ "$((i % 6))" != 0 ] || git clone -q "$U" clone 2>err || true
		[ ! -e clone ] || fails git -C clone rev-parse -q --verify "origin/${SECRET##*/}"
	done
	touch stop
	wait "$flipper"
	[ "$bad" = 0 ]
	status=$(code "$(site_url one)/healthz")
	[ "$status" = 200 ] || echo "health says $status"
	stop_site one
}

# That is the operator's choice.
the_root_may_be_a_link() {
	make_served
	mv one/git one/real
	ln -s real one/git
	start_site one
	[ -n "$(oid refs/heads/main)" ]
	[ "$(oid2 refs/heads/main)" = "$(commit_of main)" ]
	git clone -q "$U" clone
	stop_site one
}

repositories_in_others() {
	make_served
	make_repository "$R/inner.git" 3
	make_repository "$R/objects/inner.git" 3
	start_site one
	[ "$(code "$U/inner.git/$REFS")" = 404 ]
	[ "$(code "$U/objects/inner.git/$REFS")" = 404 ]
	stop_site one
}

tap_test "no way to spell a path leads out of the root" no_spelling_leads_out
tap_test "no link leads anywhere, and no file is taken for a repository" no_link_leads_out
tap_test "a link that comes into the way is not followed" a_link_comes_into_the_way
tap_test "links that come and go while clients ask lead nobody out" links_come_and_go
tap_test "the root itself may be a link" the_root_may_be_a_link
tap_test "a repository in another is none" repositories_in_others
tap_done
