#!/usr/bin/env bash
# Shallow mirrors: London mirrors ./up, served by stock git over smart HTTP, to a depth; Paris follows
# London. What is expected of a depth stock git says, by a clone of its own.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/site_crash.sh"

has_port() {
	[ -s up/port ]
}

# Branches that meet, a tag of an old commit, and one of a tree.
make_upstream() {
	mkdir -p up
	make_repository up/a.git 30
	add_commits up/a.git refs/heads/side 4 "$(git -C up/a.git rev-parse main~20)"
	git -C up/a.git tag -a -m old v1 main~10
	git -C up/a.git tag tree 'main^{tree}'
	(umask 077 && echo any:pass >up/login && echo pass >up/password)
	python3 "$TESTS/peers/git_http.py" up 2>up/said &
	wait_until 10 has_port
}

depth() { # DEPTH
	set_conf london mirror.a.depth "$1"
}

make_depth_sites() { # DEPTH
	make_sites
	make_upstream
	set_conf london mirror.a.url "http://127.0.0.1:$(cat up/port)/a.git"
	set_conf london mirror.a.interval 1s
	set_conf london watcher.w.mirror a
	set_conf london watcher.w.userName any
	set_conf london watcher.w.passwordFile "$PWD/up/password"
	set_conf paris http.anonymousRead true
	depth "$1"
	start_sites
}

cuts_of() { # PATH
	[ ! -e "$1/shallow" ] || LC_ALL=C sort "$1/shallow"
}

# The oracle does not change once it is made.
all_of() { # PATH
	[ "$1" != oracle ] || [ ! -e oracle.all ] || { cat oracle.all && return; }
	git -C "$1" for-each-ref --format='%(refname) %(objectname)' || return
	git -C "$1" rev-list --objects --all | LC_ALL=C sort
}

# The same refs, the same objects behind them, cut at the same commits, and nothing missing.
same_cut() { # PATH OTHER
	! differs_still "$1" "$2" refs/heads/main 2>/dev/null || return
	diff <(cuts_of "$1") <(cuts_of "$2") &&
		diff <(all_of "$1") <(all_of "$2") &&
		has_no_fault "$1" "$2"
}

make_oracle() { # DEPTH
	local manner=()

	[ "$1" -eq 0 ] || manner=(--depth "$1" --no-single-branch)
	rm -rf oracle oracle.all
	git clone -q --mirror "${manner[@]}" "file://$PWD/up/a.git" oracle
	all_of oracle >oracle.new
	mv oracle.new oracle.all
	[ "$1" -eq 0 ] || [ -s oracle/shallow ]
}

are_at() { # DEPTH: what ./oracle was made by
	same_cut oracle london/git/a.git && same_cut oracle paris/git/a.git
}

follow() { # DEPTH
	make_oracle "$1"
	wait_until 30 are_at
	wait_until 30 in_sync
	[ "$1" -eq 0 ] || [ -s paris/git/a.git/shallow ]
}

generation() { # SITE
	row_of "$1" a generation
}

# From what it was, by this many: each generation is one change to the secondary, too.
grew_by() { # NUMBER
	[ "$(generation london)" -eq "$((generation + $1))" ] &&
		[ "$(generation paris)" -eq "$((generation + $1))" ]
}

is_verified() {
	row_is paris a verification_state succeeded
}

# By stock git over HTTP, in all protocols.
is_cloned() { # SITE
	local version clone

	for version in 0 1 2; do
		clone=clone.$1.$version
		rm -rf "$clone"
		git -c "protocol.version=$version" clone -q --mirror "$(site_url "$1")/a.git" "$clone"
		same_cut oracle "$clone"
	done
}

set_up() {
	make_depth_sites 1
	follow 1
}

brought_and_followed() {
	cd "$SHARED"
	[ "$(git -C paris/git/a.git rev-list --count main)" -eq 1 ]
	wait_until 20 is_verified
	is_cloned london
	is_cloned paris
	[ "$(generation paris)" -eq 1 ]
}

advanced() {
	cd "$SHARED"
	generation=$(generation london)
	add_commits up/a.git refs/heads/main 3
	follow 1
	grew_by 1
	is_cloned paris
}

rewritten() {
	cd "$SHARED"
	generation=$(generation london)
	# At one moment, so that no poll finds the half of it.
	git -C up/a.git pack-refs --all
	sed "s,.* refs/heads/main\$,$(git -C up/a.git rev-parse main~2) refs/heads/main,
		s,.* refs/heads/side\$,$(git -C up/a.git rev-parse main~7) refs/heads/new," \
		up/a.git/packed-refs >packed-refs
	mv packed-refs up/a.git/
	[ "$(git -C up/a.git for-each-ref --format='%(refname:short)' refs/heads | xargs)" = "main new" ]
	follow 1
	grew_by 1
	is_cloned paris
}

# London's node reads it at its start.
has_depth() { # DEPTH
	stop_site london
	depth "$1"
	start_site london
	at london mirror sync a
	follow "$1"
	is_cloned london
	is_cloned paris
}

# Its polls find out by themselves.
unasked() {
	make_depth_sites 1
	follow 1
	stop_site london
	depth 3
	start_site london
	follow 3
}

another_depth() {
	local depth

	make_depth_sites 1
	follow 1
	for depth in 3 0 1 5 2; do
		echo "depth $depth:"
		generation=$(generation london)
		has_depth "$depth"
		grew_by 1
	done
	has_depth 1
}

# Right after a death, too, git finds nothing missing.
is_sound() { # PATH
	git -C "$1" rev-list --objects --all >objects || fail "$1: objects are missing"
	has_no_fault "$1" "$1"
}

# Both ends of a change: a depth that cuts off more, and one that cuts off less.
dies_at() { # SITE POINT...
	local site=$1 point depth=1

	shift
	make_depth_sites 1
	follow 1
	for point; do
		echo "$point:"
		stop_site london
		depth=$((4 - depth))
		depth "$depth"
		add_commits up/a.git refs/heads/main 2
		kill_site paris
		if [ "$site" = paris ]; then
			start_site london
			at london mirror sync a
		fi
		# It may die before it serves.
		launch_site "$site" "REFRELAY_FAILPOINT=$point=kill"
		is_killed_within 30 "$site"
		is_sound "$site/git/a.git"
		start_site "$site"
		if [ "$site" = london ]; then
			at london mirror sync a
			start_site paris
		fi
		follow "$depth"
		[ -z "$(find london/git paris/git -path '*/refrelay/fetch.*')" ]
	done
	fails was_logged london sync.rebuilt
	fails was_logged paris sync.rebuilt
}

is_mended() { # SITE
	are_at && is_sound "$1/git/a.git"
}

# By hand, with the nodes at work.
mends() { # SITE
	local copy=$1/git/a.git damage kept

	make_depth_sites 2
	follow 2
	kept=$(LC_ALL=C sort "$copy/shallow")
	for damage in 'rm %' 'echo nonsense >%' 'sed -i 1d %' 'git -C %/.. rev-parse main >>%'; do
		echo "$damage:"
		sh -c "${damage//%/$copy\/shallow}" || :
		wait_until 30 is_mended "$1"
		[ "$(LC_ALL=C sort "$copy/shallow")" = "$kept" ]
		wait_until 30 in_sync
	done
}

# Not by a new copy: what it still has is told to nobody as if it were all.
lost_objects() {
	local first

	make_depth_sites 5
	follow 5
	first=$(echo paris/git/a.git/objects/pack/pack-*.pack)
	add_commits up/a.git refs/heads/main 1
	follow 5
	stop_site paris
	rm "${first%.pack}".*
	fails git -C paris/git/a.git rev-list --objects --all >said 2>&1
	start_site paris
	wait_until 30 is_mended paris
	wait_until 30 in_sync
	fails was_logged paris sync.rebuilt
}

# What the older generation names can be had from it no more.
outrun() {
	make_depth_sites 1
	follow 1
	stop_site paris
	add_commits up/a.git refs/heads/main 4
	at london mirror sync a
	launch_site paris REFRELAY_FAILPOINT=sync.read=stop
	wait_until 20 is_paused paris
	add_commits up/a.git refs/heads/main 4
	at london mirror sync a
	kill -CONT "$(site_pid paris)"
	follow 1
	was_logged paris sync.outrun
	fails was_logged london verify.failed
}

# Its own history is cut, or it knows of no such thing.
upstream_is_shallow() {
	make_depth_sites 0
	follow 0
	git clone -q --mirror --depth 2 --no-single-branch "file://$PWD/up/a.git" up/b.git
	set_conf london mirror.b.url "http://127.0.0.1:$(cat up/port)/b.git"
	set_conf london watcher.w.mirror '*'
	stop_site london
	start_site london
	expect 2 at london mirror sync b
	grep 'the upstream is shallow: its history is cut short' err
	[ ! -e london/git/b.git ]
	set_conf london mirror.b.depth 5
	touch up/whole
	stop_site london
	start_site london
	expect 2 at london mirror sync b
	grep -i 'does not support shallow' err
	rm up/whole
	at london mirror sync b
	same_cut up/b.git london/git/b.git
	set_conf london mirror.b.depth 0
	stop_site london
	start_site london
	expect 2 at london mirror sync b
	grep 'the upstream is shallow' err
	same_cut up/b.git london/git/b.git
}

is_skipped() {
	was_logged london push.skipped 'repo=a remote=far .*reason="its history is cut short'
}

no_task_waits() {
	local store=london/data/replication found

	[ -d "$store/ref-updates/waiting" ] && [ -d "$store/ref-updates/running" ] &&
		[ -d "$store/refrelay/failed" ] &&
		found=$(find "$store/ref-updates/waiting" "$store/ref-updates/running" \
			"$store/refrelay/failed" -type f) && [ -z "$found" ]
}

not_pushed_on() {
	make_depth_sites 1
	follow 1
	stop_site london
	git init -q --bare far/a.git
	set_conf london remote.far.url "$PWD/far/"'${name}.git'
	expect 1 at london check
	grep 'FAIL .* far: the mirror a has a depth of 1; shallow repositories cannot be pushed' out
	start_site london
	add_commits up/a.git refs/heads/main 1
	at london mirror sync a
	wait_until 20 is_skipped
	wait_until 20 no_task_waits
	[ -z "$(git -C far/a.git for-each-ref)" ]
	expect 1 at london push start --wait --now a
	grep -F '! (its history is cut short by the depth of a mirror)' out
	expect 1 at london push wait --remote far "$(git -C up/a.git rev-parse main)"
	grep -F '! (its history is cut short by the depth of a mirror)' out
	has_depth 0
	wait_until 20 same_pictures up/a.git far/a.git
	expect 0 at london check
}

tap_set_up set_up
tap_test "a depth of 1 is brought, served, and follows to the secondary" brought_and_followed
tap_test "new commits come, and the older ones go" advanced
tap_test "so do refs that are rewritten, deleted and made" rewritten
tap_test "another depth is one generation more, up to the whole history and back" another_depth
tap_test "nobody need ask for it" unasked
tap_test "the mirror's node dies at any step" dies_at london objects.fetched sync.fetched \
	cuts.marked cuts.united publish.renamed cuts.written publish.changed sync.verified
tap_test "the secondary dies at any step" dies_at paris objects.fetched sync.fetched \
	cuts.marked cuts.united publish.renamed cuts.written publish.changed sync.verified
tap_test "where a mirror's history ends is mended" mends london
tap_test "where a copy's history ends is mended" mends paris
tap_test "objects that a copy has lost are brought again" lost_objects
tap_test "the primary may go on while a copy is brought" outrun
tap_test "an upstream that is shallow itself is refused, or mirrored to a depth" upstream_is_shallow
tap_test "it is not pushed on, and check says so" not_pushed_on
tap_done
