#!/usr/bin/env bash
# The working tree beside a mirror's clone: whole at each moment, kept while it is used, safe with
# whatever the upstream has, and told of when it fails.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/site_crash.sh"
. "$TESTS/lib/mirrored.sh"

LINK=paris/git/acme/a.checkout
VERSIONS=paris/git/.refrelay/checkouts/acme/a.git
UPSTREAM=london/git/acme/a.git

make_checkout_sites() { # [KEY VALUE]...
	make_mirror_sites
	set_conf london http.anonymousRead true
	make_repository "$UPSTREAM" 12
	mirror acme/a interval 1h checkout true "$@"
	start_site london
}

start_mirroring() {
	make_checkout_sites
	start_site paris
	wait_until 30 shows
}

# What HEAD of the upstream has, to the byte, and nothing else.
shows() { # [REPOSITORY [LINK]]
	rm -rf expected && mkdir expected &&
		git -C "${1:-$UPSTREAM}" archive HEAD | tar -x --warning=no-timestamp -C expected &&
		[ -L "${2:-$LINK}" ] && diff -r --no-dereference expected "${2:-$LINK}/"
}

bring() { # [STATUS [ARGUMENT...]]
	expect "${1:-0}" at paris mirror sync acme/a --json "${@:2}"
	cp out synced
}

synced() { # MEMBER
	"$SITE_HELP" member "$1" <synced
}

shown() { # MEMBER
	at paris mirror show acme/a --json | "$SITE_HELP" member "$1"
}

shown_is() { # MEMBER VALUE
	[ "$(shown "$1")" = "$2" ]
}

version() {
	local target

	target=$(readlink "$LINK") && target=${target%/tree} && echo "${target##*/}"
}

count_versions() {
	find "$VERSIONS" -mindepth 1 -maxdepth 1 ! -name git | wc -l
}

one_version_is_left() {
	[ "$(count_versions)" = 1 ]
}

# As if it had been replaced hours ago.
make_old() { # VERSION
	wait_until 10 test -s "$VERSIONS/$1/replaced"
	echo 1 >"$VERSIONS/$1/replaced"
}

follows_the_default_branch() {
	local first

	start_mirroring
	bring
	[ "$(synced checkout)" = "$PWD/$LINK" ]
	[ "$(synced branch)" = main ]
	[ "$(synced commit)" = "$(tip "$UPSTREAM")" ]
	[ ! -e "$LINK/.git" ]
	first=$(version)
	# Nothing is made anew for nothing.
	bring
	[ "$(version)" = "$first" ]
	[ "$(count_versions)" = 1 ]
	add_commits "$UPSTREAM" refs/heads/main 3
	bring
	shows
	[ "$(synced changed)" = true ]
	[ "$(synced checkout)" = "$PWD/$LINK" ]
	# Another branch; and the upstream's history is another one.
	add_commits "$UPSTREAM" refs/heads/other 2 main~4
	git -C "$UPSTREAM" symbolic-ref HEAD refs/heads/other
	bring
	shows
	[ "$(synced branch)" = other ]
	shown_is checkout.branch other
	git -C "$UPSTREAM" update-ref refs/heads/other main~6
	bring
	shows
	[ "$(synced commit)" = "$(tip "$UPSTREAM" other)" ]
	# It is no repository of the site's, and nothing that a scan wonders at.
	at paris repository list --json >list || true
	fails grep checkout list
	at paris check >checked || true
	fails grep 'symbolic link' checked
	fails git ls-remote "$(site_url paris)/acme/a.checkout" 2>/dev/null
	at paris mirror show acme/a | grep "  checkout: $PWD/$LINK ([0-9a-f]* of [a-z]*, since 2"
	at paris status | head -n 1 | grep '1 of 1 mirror is up to date'
}

# The same number in all files; the link is never away.
read_for_ever() {
	local number file

	while [ ! -e stop ]; do
		exec 9<"$LINK" || break
		(
			cd -P /proc/self/fd/9
			number=$(cat 1)
			for file in 2 3 4 5 6 7 8 9; do
				[ "$(cat "$file")" = "$number" ] || exit 1
			done
		) || break
		echo "$EPOCHREALTIME" >>rounds
	done
	[ -e stop ] || echo 'a reader saw no whole tree' >broken
}

commit_number() { # NUMBER
	local file

	for file in 1 2 3 4 5 6 7 8 9; do
		echo "$1" >"work/$file"
	done
	git -C work add -A
	git -C work commit -qm "number $1"
	git -C work push -q "$PWD/$UPSTREAM" HEAD:main
}

has_rounds() { # NUMBER
	[ "$(wc -l <rounds)" -ge "$1" ]
}

is_whole_for_readers_all_the_time() {
	local i reader

	make_checkout_sites
	git clone -q "$UPSTREAM" work
	git -C work rm -qr .
	commit_number 0
	start_site paris
	wait_until 30 shows
	read_for_ever &
	reader=$!
	wait_until 20 test -s rounds
	for i in 1 2 3 4 5 6 7 8; do
		commit_number "$i"
		bring
		[ "$(cat "$LINK/5")" = "$i" ]
		wait_until 20 has_rounds "$(($(wc -l <rounds) + 2))"
	done
	touch stop
	wait "$reader"
	[ ! -e broken ]
	[ "$(count_versions)" = 9 ]
}

is_kept_while_it_is_used() {
	local used rested

	start_mirroring
	used=$(version)
	exec 8<"$LINK"
	flock -s 8
	cp -r "$LINK/" before
	add_commits "$UPSTREAM" refs/heads/main 2
	bring
	rested=$(version)
	add_commits "$UPSTREAM" refs/heads/main 2
	bring
	[ "$(count_versions)" = 3 ]
	# Within the hour both stay; after it the one on which somebody has a lock.
	bring
	[ "$(count_versions)" = 3 ]
	make_old "$used"
	make_old "$rested"
	bring
	[ ! -e "$VERSIONS/$rested" ]
	diff -r before "$VERSIONS/$used/tree"
	was_logged paris checkout.removed "name=acme/a version=$rested"
	flock -u 8
	bring
	one_version_is_left
	shows
}

# Of one that was changed by hand nothing is merged, and its files are not touched.
is_made_anew_if_somebody_changed_it() {
	local former change

	start_mirroring
	for change in 'echo x >>part-1/file-1.txt' 'echo x >more' 'rm part-1/file-1.txt' \
		'chmod +x part-1/file-1.txt' 'ln -sf /etc/passwd part-1/file-1.txt' \
		'mkdir -p a/.git && touch a/.git/b' 'mkdir part-1/none'; do
		echo "$change"
		add_commits "$UPSTREAM" refs/heads/main 1
		bring
		former=$(version)
		(cd "$LINK" && eval "$change")
		cp -r "$VERSIONS/$former/tree" changed
		bring
		shows
		[ "$(version)" != "$former" ]
		diff -r --no-dereference changed "$VERSIONS/$former/tree"
		rm -rf changed
	done
	rm "$LINK"
	bring
	shows
	rm -rf "$VERSIONS/$(version)"
	bring
	shows
	rm -rf paris/git/.refrelay/checkouts "$LINK"
	bring
	shows
}

stays_if_somebody_writes_into_each() {
	local last

	start_mirroring
	for _ in 1 2; do
		echo x >"$LINK/more"
		bring
		shows
	done
	last=$(version)
	echo x >"$LINK/more"
	bring 3
	[ "$(synced class)" = conflict ]
	bring 3
	[ "$(version)" = "$last" ]
	[ -e "$LINK/more" ]
	[ "$(count_versions)" = 3 ]
	at paris mirror show acme/a | grep "failing .*somebody writes into each .*/$last/tree stays so"
	wait_until 10 is_logged 2 paris checkout.changed 'path=.*/tree'
	wait_until 10 is_logged 1 paris checkout.failed
	add_commits "$UPSTREAM" refs/heads/main 1
	recovers
}

dies_and_is_whole() {
	local point before after asker

	make_checkout_sites
	start_site paris
	wait_until 30 shows
	for point in checkout.written checkout.proved checkout.linked checkout.switched; do
		echo "$point:"
		kill_site paris
		start_site paris "REFRELAY_FAILPOINT=$point=kill"
		before=$(tip "$UPSTREAM")
		add_commits "$UPSTREAM" refs/heads/main 2
		after=$(tip "$UPSTREAM")
		at paris mirror sync acme/a >asked 2>&1 &
		asker=$!
		is_killed_within 20 paris
		# Who reads meanwhile has the old tree or the new one.
		git -C "$UPSTREAM" update-ref refs/heads/main "$before"
		[ "$point" = checkout.switched ] || shows
		git -C "$UPSTREAM" update-ref refs/heads/main "$after"
		[ "$point" != checkout.switched ] || shows
		start_site paris
		wait "$asker" || : # it may have died of a poll, before it was asked
		wait_until 30 shows
		bring
		shows
		[ "$(synced commit)" = "$after" ]
		wait_until 10 no_left_overs
		[ -z "$(find paris/git -name '.refrelay-*')" ]
	done
	# Only whole trees are left, of which all but one were replaced.
	[ -z "$(find "$VERSIONS" -name made -o -name proof -o -name '*.lock')" ]
	for point in "$VERSIONS"/*-*/; do
		[ -s "$point/index" ]
		make_old_unless_current "$(basename "$point")"
	done
	bring
	one_version_is_left
	no_repository_is_leased
}

make_old_unless_current() { # VERSION
	[ "$1" = "$(version)" ] || make_old "$1"
}

# A tree that git would not make by itself: ENTRY is "MODE TYPE<TAB>PATH", its content "evil".
commit_evil() { # NAME
	local blob tree

	blob=$(echo 'touch "$TEST_DIR/ran"' | git -C "$UPSTREAM" hash-object -w --stdin)
	tree=$(printf '100755 blob %s\tpost-checkout\n' "$blob" | git -C "$UPSTREAM" mktree)
	tree=$(printf '040000 tree %s\thooks\n' "$tree" | git -C "$UPSTREAM" mktree)
	tree=$(printf '040000 tree %s\t%s\n' "$tree" "$1" | git -C "$UPSTREAM" mktree)
	git -C "$UPSTREAM" update-ref refs/heads/main \
		"$(git -C "$UPSTREAM" commit-tree -p main -m evil "$tree")"
}

fails_and_stays() { # CLASS
	local before

	before=$(version)
	bring 3
	[ "$(synced state)" = done ]
	[ -z "$(synced checkout)" ]
	[ "$(synced commit)" = "$(tip "$UPSTREAM")" ]
	[ "$(synced class)" = "$1" ]
	[ "$(version)" = "$before" ]
	wait_until 10 shown_is state synced
	shown_is checkout.class "$1"
	at paris mirror show acme/a >show
	grep "  checkout: failing since .* ($1): " show
	grep -A 1 'checkout: failing' show | grep 'hint: '
	at paris status >status || true
	head -n 1 status | grep '1 of 1 mirror is up to date; the working tree of acme/a: '
	fails grep '^in sync, verified' status
	[ "$(at paris status --json | "$SITE_HELP" member mirrors.checkouts.failing)" = 1 ]
	at paris check >checked || true
	grep 'the working tree of acme/a: ' checked
	was_logged paris checkout.failed "name=acme/a"
}

recovers() {
	bring
	[ "$(synced checkout)" = "$PWD/$LINK" ]
	[ -z "$(synced class)" ]
	shows
	shown_is checkout.failing_since ''
}

is_safe_with_a_hostile_tree() {
	local good name

	make_checkout_sites
	git clone -q "$UPSTREAM" work
	(
		cd work
		ln -s /etc etc
		ln -s ../../../../../paris up
		mkdir -p sub lower
		echo one >lower/x
		ln -s nowhere sub/dangling
		printf 'a\r\nb\n' >crlf
		printf '$Id$\n' >id
		printf '\377\376a\0\n\0' >wide
		cat >.gitattributes <<-'END'
			* filter=evil diff=evil
			crlf text eol=crlf
			id ident
			wide working-tree-encoding=UTF-16
		END
		git init -q --bare inner.git
		printf '[core]\n\tfsmonitor = touch %s/ran\n' "$TEST_DIR" >>inner.git/config
		git -c filter.evil.clean= -c core.autocrlf=false add -A
		git commit -qm hostile
		git push -q "../$UPSTREAM" HEAD:main
	)
	# What is expected here: no attribute of the tree counts.
	mkdir -p "$UPSTREAM/info"
	echo '* -text !eol !ident !filter !working-tree-encoding' >"$UPSTREAM/info/attributes"
	start_site paris
	wait_until 30 is_mirrored acme/a
	git -C paris/git/acme/a.git config filter.evil.smudge "touch $PWD/ran; cat"
	git -C paris/git/acme/a.git config filter.evil.clean "touch $PWD/ran; cat"
	git -C paris/git/acme/a.git config filter.evil.process "touch $PWD/ran"
	git -C paris/git/acme/a.git config core.fsmonitor "touch $PWD/ran"
	git -C paris/git/acme/a.git config core.worktree "$PWD/elsewhere"
	mkdir -p paris/git/acme/a.git/hooks paris/git/acme/a.git/info
	printf '#!/bin/sh\ntouch %s/ran\n' "$PWD" | tee paris/git/acme/a.git/hooks/post-checkout \
		paris/git/acme/a.git/hooks/post-index-change >/dev/null
	chmod +x paris/git/acme/a.git/hooks/post-*
	echo '* filter=evil' >paris/git/acme/a.git/info/attributes
	add_commits "$UPSTREAM" refs/heads/main 1
	bring
	[ ! -e ran ]
	[ ! -e elsewhere ]
	[ "$(readlink "$LINK/etc")" = /etc ]
	# The very bytes of the blobs.
	for name in crlf id wide .gitattributes; do
		git -C "$UPSTREAM" cat-file blob "main:$name" | cmp - "$LINK/$name"
	done
	fails git ls-remote "$(site_url paris)/acme/a.checkout/inner.git" 2>/dev/null
	fails git ls-remote "$(site_url paris)/.refrelay/checkouts/acme/a.git/$(version)/tree/inner" 2>/dev/null
	# What git never writes into a working tree: the last good one stays.
	good=$(tip "$UPSTREAM")
	for name in .git .GIT 'git~1' $'.g\u200cit'; do
		echo "$name:"
		commit_evil "$name"
		fails_and_stays corrupt
		[ ! -e ran ]
		[ "$(count_versions)" = "$(find "$VERSIONS" -name index | wc -l)" ]
		git -C "$UPSTREAM" update-ref refs/heads/main "$good"
		recovers
	done
}

its_disk_is_full() {
	mkdir -p paris/git
	make_checkout_sites
	mount -t tmpfs -o size=12m refrelay-test paris/git 2>/dev/null ||
		skip "no tmpfs can be mounted here"
	trap 'umount -l "$TEST_DIR/paris/git"' EXIT
	start_site paris
	wait_until 30 shows
	git clone -q "$UPSTREAM" work
	(yes || true) | head -c 20000000 >work/large # not zeros, of which git makes holes
	git -C work add large
	git -C work commit -qm large
	git -C work push -q "$PWD/$UPSTREAM" HEAD:main
	fails_and_stays disk
	is_mirrored acme/a
	one_version_is_left
	mount -o remount,size=60m paris/git
	recovers
}

branch_is_unborn() {
	make_checkout_sites
	git init -q --bare london/git/acme/empty.git
	mirror acme/empty interval 1h checkout true
	start_site paris
	wait_until 30 shows
	# One that never had anything shows nothing, and is well.
	expect 0 at paris mirror sync acme/empty --json
	[ -z "$("$SITE_HELP" member checkout <out)" ]
	[ ! -e paris/git/acme/empty.checkout ]
	at paris status | head -n 1 | grep '2 of 2 mirrors are up to date$'
	# What was there is not taken away from readers by an accident.
	git -C "$UPSTREAM" tag other main
	git -C "$UPSTREAM" update-ref -d refs/heads/main
	expect 3 at paris mirror sync acme/a --json
	[ -z "$("$SITE_HELP" member commit <out)$("$SITE_HELP" member checkout <out)" ]
	shown_is checkout.class missing
	at paris mirror show acme/a | grep 'checkout: failing .*HEAD names main'
	git -C "$UPSTREAM" update-ref refs/heads/main other
	shows
	recovers
}

# By the poll, not by a job of the mirror's.
is_gone_when_switched_off() {
	start_mirroring
	exec 8<"$LINK"
	flock -s 8
	stop_site paris
	set_conf paris mirror.acme/a.checkout false
	launch_site paris REFRELAY_FAILPOINT=checkout.unlinked=kill
	is_killed_within 60 paris
	wait "$(site_pid paris)" || true
	[ ! -L "$LINK" ]
	start_site paris
	wait_until 60 was_logged paris checkout.dropped name=acme/a
	[ "$(count_versions)" = 1 ]
	make_old "$(basename "$VERSIONS"/*-*)"
	bring
	[ "$(count_versions)" = 1 ]
	[ -z "$(synced checkout)" ]
	flock -u 8
	bring
	[ ! -e paris/git/.refrelay/checkouts/acme ]
	shown_is checkout ''
	# And on again.
	stop_site paris
	set_conf paris mirror.acme/a.checkout true
	start_site paris
	wait_until 60 shows
	# Off and on within the hour that the former tree is kept.
	stop_site paris
	set_conf paris mirror.acme/a.checkout false
	start_site paris
	bring
	[ ! -L "$LINK" ]
	[ "$(count_versions)" = 1 ]
	stop_site paris
	set_conf paris mirror.acme/a.checkout true
	start_site paris
	wait_until 60 shows
}

commit_deep() { # LEVELS
	local path

	path=$(printf 'd/%.0s' $(seq "$1"))file
	printf 'commit refs/heads/main\ncommitter A <a@example.com> 1800000000 +0000\ndata 1\nx\nfrom %s\nM 100644 inline %s\ndata 1\nx\ndone\n' \
		"$(tip "$UPSTREAM")" "$path" | git -C "$UPSTREAM" fast-import --quiet --done
}

# As deep as a path can be, and deeper.
is_as_deep_as_it_can_be() {
	local deep

	start_mirroring
	commit_deep 1700
	bring
	[ -e "$LINK/$(printf 'd/%.0s' $(seq 1700))file" ]
	deep=$(version)
	git -C "$UPSTREAM" update-ref refs/heads/main main~1
	bring
	[ -e "$VERSIONS/$deep" ]
	make_old "$deep"
	bring
	[ ! -e "$VERSIONS/$deep" ]
	commit_deep 3000
	fails_and_stays internal
	git -C "$UPSTREAM" update-ref refs/heads/main main~1
	recovers
}

is_removed_with_its_mirror() {
	start_mirroring
	add_commits "$UPSTREAM" refs/heads/main 2
	bring
	exec 8<"$LINK"
	stop_site paris
	git config --file paris/refrelay.conf --remove-section mirror.acme/a
	make_repository london/git/b.git 1
	mirror b interval 1h
	start_site paris
	[ -L "$LINK" ]
	at paris mirror remove acme/a
	[ ! -L "$LINK" ]
	[ ! -e paris/git/acme ]
	[ ! -e paris/git/.refrelay/checkouts/acme ]
	[ "$(find paris/git/.refrelay/trash -mindepth 1 -maxdepth 1 -name '*a.git' | wc -l)" = 2 ]
	# Who has it open still reads it.
	(cd -P /proc/self/fd/8 && test -s part-1/file-1.txt)
}

# As by a change of roles. Nobody would keep it up to date.
goes_where_no_mirrors_are_kept() {
	start_mirroring
	stop_site paris
	git config --file paris/refrelay.conf --remove-section mirror.acme/a
	set_conf paris site.role secondary
	set_conf paris primary.url "$(site_url london)/"
	set_conf paris primary.secretFile "$PWD/secret"
	start_site paris
	wait_until 30 was_logged paris checkout.dropped name=acme/a
	[ ! -L "$LINK" ]
	[ ! -e paris/git/.refrelay/checkouts/acme ]
	wait_until 30 in_sync
	# And back.
	stop_site paris
	git config --file paris/refrelay.conf --remove-section primary
	set_conf paris site.role standalone
	mirror acme/a interval 1h checkout true
	start_site paris
	wait_until 60 shows
}

# So that the next poll tries again.
make_due() {
	python3 - <<-'END'
		import sqlite3
		database = sqlite3.connect("paris/data/refrelay.db", timeout=30)
		database.execute("UPDATE mirror_checkout SET due_at = 1")
		database.commit()
	END
}

nothing_of_others_is_replaced() {
	make_checkout_sites interval 1s
	mkdir -p "$LINK"
	echo mine >"$LINK/file"
	start_site paris
	wait_until 30 is_mirrored acme/a
	bring 3
	[ "$(synced class)" = config ]
	[ "$(cat "$LINK/file")" = mine ]
	rm -r "$LINK"
	echo mine >"$LINK"
	bring 3
	[ "$(cat "$LINK")" = mine ]
	rm "$LINK"
	ln -s /etc "$LINK"
	bring 3
	[ "$(readlink "$LINK")" = /etc ]
	rm "$LINK"
	# The poll mends it, without a job of the mirror's.
	make_due
	wait_until 20 shown_is checkout.failing_since ''
	shows
	recovers
	# Names that would lie below the link, or be it.
	for name in acme/a.checkout acme/A.checkout/x; do
		git config --file paris/refrelay.conf "mirror.$name.url" "$(site_url london)/x.git"
		expect 2 at paris mirror list
		grep 'would be one directory' err
		git config --file paris/refrelay.conf --remove-section "mirror.$name"
	done
}

trees_fail() { # NUMBER
	[ "$(at paris status --json | "$SITE_HELP" member mirrors.checkouts.failing)" = "$1" ]
}

# Trees of many are due, and take for ever: another mirror is polled meanwhile.
holds_up_no_poll() {
	local i

	make_mirror_sites
	set_conf london http.anonymousRead true
	mkdir -p bin paris/git/k
	cat >bin/git <<-END
		#!/bin/sh
		case "\$*" in read-tree*)
			if [ -e "$PWD/hang" ]; then
				echo x >>"$PWD/hangs"
				exec sleep 600
			fi ;;
		esac
		exec "$(command -v git)" "\$@"
	END
	chmod +x bin/git
	for ((i = 0; i < 9; i++)); do
		make_repository "london/git/k/$i.git" 1
		mirror "k/$i" interval 1s checkout true
		mkdir "paris/git/k/$i.checkout"
	done
	make_repository london/git/plain.git 1
	mirror plain interval 1s
	start_site london
	start_site paris "PATH=$PWD/bin:$PATH"
	wait_until 60 trees_fail 9
	touch hang
	rmdir paris/git/k/*.checkout
	make_due
	wait_until 30 test -s hangs
	# Long enough for all to be polled.
	for ((i = 0; i < 4; i++)); do
		add_commits london/git/plain.git refs/heads/main 1
		wait_until 30 is_mirrored plain
	done
	[ "$(wc -l <hangs)" = 1 ]
}

is_mended_while_its_upstream_fails() {
	make_checkout_sites interval 1s
	mkdir -p "$LINK"
	start_site paris
	wait_until 30 is_mirrored acme/a
	wait_until 30 shown_is checkout.class config
	stop_site london
	wait_until 30 shown_is state failed
	rmdir "$LINK"
	make_due
	wait_until 30 shown_is checkout.failing_since ''
	shows
	shown_is state failed
}

make_certificate() {
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3 \
		-keyout own.key -out own.pem -subj /CN=own \
		-addext subjectAltName=IP:127.0.0.1 2>/dev/null
	chmod 600 own.key
}

trusts_an_authority_of_its_own() {
	make_mirror_sites
	make_certificate
	set_conf london http.anonymousRead true
	set_conf london http.tlsCertificate "$PWD/own.pem"
	set_conf london http.tlsKey "$PWD/own.key"
	make_repository "$UPSTREAM" 5
	mirror acme/a interval 1h caFile "$PWD/own.pem"
	mirror acme/b interval 1h
	make_repository london/git/acme/b.git 1
	export CURL_CA_BUNDLE=$PWD/own.pem
	start_site london
	unset CURL_CA_BUNDLE
	mirror acme/a url "$(site_url london | sed 's/^http:/https:/')/acme/a.git"
	mirror acme/b url "$(site_url london | sed 's/^http:/https:/')/acme/b.git"
	start_site paris
	wait_until 30 is_mirrored acme/a
	fails at paris mirror sync acme/b 2>err
	grep -i certificate err
	set_conf paris mirror.acme/b.url "http://127.0.0.1:1/b.git"
	set_conf paris mirror.acme/b.caFile "$PWD/own.pem"
	expect 2 at paris mirror list
	grep 'caFile is for upstreams that are asked by https' err
}

tap_test "it follows the default branch, and what the upstream makes of it" follows_the_default_branch
tap_test "who reads it all the time sees whole trees" is_whole_for_readers_all_the_time
tap_test "a former tree is kept while it is used" is_kept_while_it_is_used
tap_test "one that somebody changed is made anew" is_made_anew_if_somebody_changed_it
tap_test "one into which somebody writes each time stays" stays_if_somebody_writes_into_each
tap_test "many that are made hold up no poll" holds_up_no_poll
tap_test "it is mended while its upstream fails" is_mended_while_its_upstream_fails
tap_test "it is whole wherever its node dies" dies_and_is_whole
tap_test "a hostile tree does nothing" is_safe_with_a_hostile_tree
tap_test "a tree may be as deep as a path" is_as_deep_as_it_can_be
tap_test "a full disk takes nothing away, and is told of" its_disk_is_full
tap_test "a default branch that is not there" branch_is_unborn
tap_test "switched off it goes, and comes back" is_gone_when_switched_off
tap_test "it goes with its mirror" is_removed_with_its_mirror
tap_test "it goes where mirrors are kept no more" goes_where_no_mirrors_are_kept
tap_test "what others have in its place stays" nothing_of_others_is_replaced
tap_test "the authority of caFile is trusted, by us and by git" trusts_an_authority_of_its_own
tap_done
