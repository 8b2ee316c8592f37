#!/usr/bin/env bash
# All repositories of an organisation, a directory or a tree: what appears is mirrored, what vanishes
# goes, and nothing looks deleted that is not.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/mirrored.sh"

REPOSITORIES=15

list_is() { # LINE...
	printf '%s\n' "$@" >forge/new
	mv forge/new forge/repositories
}

line_of() { # NAME [WORD...]
	echo "$1 $(site_url london)/$1.git ${*:2}"
}

whole_list() {
	local i

	for ((i = 1; i <= REPOSITORIES; i++)); do
		line_of "acme/r$i"
	done
	line_of acme/fork fork
	line_of acme/old archived
	line_of acme/huge size=99999
	line_of acme/x-skipped
}

list_all() {
	local -a lines

	mapfile -t lines < <(whole_list)
	list_is "${lines[@]}" "$@"
}

set_up() {
	local i name

	make_mirror_sites
	for ((i = 1; i <= REPOSITORIES; i++)); do
		make_repository "london/git/acme/r$i.git" 1
	done
	for name in fork old huge x-skipped later late; do
		make_repository "london/git/acme/$name.git" 1
	done
	make_repository london/git/tree/one.git 2
	make_repository london/git/tree/two.git 1
	give_token london app1 read
	(umask 077 && echo forge-secret >forge.token)
	mkdir forge
	python3 "$TESTS/peers/forge.py" forge forge.token &
	wait_until 10 test -s forge/port
	list_all
	set_conf paris mirrors.acme.from github
	set_conf paris mirrors.acme.url "http://127.0.0.1:$(cat forge/port)/orgs/acme"
	set_conf paris mirrors.acme.tokenFile "$PWD/forge.token"
	set_conf paris mirrors.acme.exclude 'x-*'
	set_conf paris mirrors.acme.maxSize 50m
	set_conf paris mirrors.acme.interval 1s
	set_conf paris mirrors.acme.watcher app1
	set_conf paris watcher.app1.tokenFile "$PWD/app1.token"
	start_site london
	start_site paris
}

# A test's own node ends with it, that of the set-up when the first wants one of its own.
halt_paris() {
	has_died paris || kill "$(site_pid paris)"
	wait_until 20 has_died paris
}

are_mirrored() { # NAME...
	local name

	for name; do
		is_mirrored "$name" || return
	done
}

numbered() {
	seq -f 'acme/r%g' "$REPOSITORIES"
}

says() { # TEXT
	at paris status >said || :
	head -n 1 said | grep -F "$1"
}

# So many lists were read from now on.
lists_were_read() { # NUMBER
	local from

	from=$(wc -l <forge/asked)
	wait_until 30 has_lines "$((from + $1 + 1))" forge/asked
}

has_lines() { # NUMBER FILE
	[ "$(wc -l <"$2")" -ge "$1" ]
}

what_is_listed_is_mirrored() {
	local name

	cd "$SHARED"
	# shellcheck disable=SC2046
	wait_until 60 are_mirrored $(numbered)
	wait_until 30 says '15 of 15 mirrors are up to date'
	for name in fork old huge x-skipped later; do
		[ ! -e "paris/git/acme/$name.git" ]
	done
	at paris mirror list >listed
	grep -E "^list acme  github  http://127.0.0.1:[0-9]+/orgs/acme  15 \(as of " listed
	[ "$(at paris mirror show acme/r3 --json | "$SITE_HELP" member list)" = acme ]
	at paris status --json | "$SITE_HELP" member mirrors.lists.all | grep -x 1
}

what_appears_comes() {
	cd "$SHARED"
	list_all "$(line_of acme/later)"
	wait_until 30 are_mirrored acme/later
	at paris mirror sync acme/later --as app1
	add_commits london/git/acme/later.git refs/heads/main 1
	wait_until 30 are_mirrored acme/later
}

is_away() { # NAME
	[ ! -e "paris/git/$1.git" ]
}

is_unknown() { # NAME
	expect 4 at paris mirror show "$1"
}

post() { # NAME FILE
	curl -s -o answer -w '%{http_code}' -H 'X-GitHub-Event: push' --data-binary "@$2" \
		-H "X-Hub-Signature-256: sha256=$(openssl dgst -sha256 -hmac s3cret -r "$2" | cut -d ' ' -f 1)" \
		"$(site_url paris)/api/v1/mirrors/$1/webhook"
}

# To the list, and to one of its mirrors.
a_webhook_tells() {
	cd "$SHARED"
	halt_paris
	cp kept.conf paris/refrelay.conf
	set_conf paris mirrors.acme.interval 1h
	(umask 077 && echo s3cret >hook.secret)
	set_conf paris mirrors.acme.webhookSecretFile "$PWD/hook.secret"
	start_site paris
	wait_until 30 says 'mirrors are up to date'
	echo '{"ref":"refs/heads/main","repository":{"full_name":"acme/r5"}}' >push
	echo '{"ref":"refs/heads/main","repository":{"full_name":"acme/unknown"}}' >other
	add_commits london/git/acme/r5.git refs/heads/main 1
	[ "$(post acme push)" = 202 ]
	[ "$("$SITE_HELP" member mirror <answer)" = acme/r5 ]
	wait_until 20 are_mirrored acme/r5
	add_commits london/git/acme/r5.git refs/heads/main 1
	[ "$(post acme%2Fr5 push)" = 202 ]
	wait_until 20 are_mirrored acme/r5
	[ "$(post acme other)" = 202 ]
	[ -z "$("$SITE_HELP" member mirror <answer)" ]
	[ "$(post acme%2Fr5 other)" = 409 ]
	echo another >hook.secret
	[ "$(post acme push)" = 401 ]
	stop_site paris
	git config --file paris/refrelay.conf --unset mirrors.acme.webhookSecretFile
	set_conf paris mirrors.acme.interval 1s
	start_site paris
	[ "$(post acme push)" = 401 ]
	stop_site paris
}

what_vanishes_goes() {
	cd "$SHARED"
	fails at paris mirror remove acme/later 2>err
	grep 'the list acme has acme/later' err
	list_all
	wait_until 30 is_away acme/later
	wait_until 30 is_unknown acme/later
	was_logged paris mirror.listed 'list=acme .*missing=1 gone=0'
	was_logged paris mirror.listed 'list=acme .*missing=0 gone=1'
	wait_until 30 says '15 of 15 mirrors are up to date'
}

was_left_out() { # NAME TEXT
	wait_until 30 was_logged paris mirror.left_out "err=.*$2.* name=$1 "
}

# By itself; its commits would be nowhere else.
a_repository_of_this_site_keeps_its_place() {
	local before

	cd "$SHARED"
	make_repository paris/git/acme/mine.git 2
	make_repository paris/git/acme/plain 2
	make_repository london/git/acme/mine.git 1
	make_repository london/git/acme/plain.git 1
	before=$(tip paris/git/acme/plain refs/heads/main)
	list_all "$(line_of acme/mine)" "$(line_of acme/plain)"
	was_left_out acme/mine 'acme/mine.git of this site has its place'
	was_left_out acme/plain 'acme/plain of this site has its place'
	lists_were_read 2
	is_unknown acme/mine
	is_unknown acme/plain
	list_all
	lists_were_read 4
	[ -d paris/git/acme/mine.git ]
	[ ! -e paris/git/acme/plain.git ]
	[ "$(tip paris/git/acme/plain refs/heads/main)" = "$before" ]
	says '15 of 15 mirrors are up to date'
}

# One that would not be mirrored anew stays, until it is excluded.
what_grows_or_is_archived_stays() {
	cd "$SHARED"
	list_without r14 r15 "$(line_of acme/r14 archived)" "$(line_of acme/r15 size=99999)"
	was_left_out acme/r14 'it is archived by now: its mirror stays'
	was_left_out acme/r15 'larger than mirrors.maxSize by now: its mirror stays'
	lists_were_read 4
	says '15 of 15 mirrors are up to date'
	are_mirrored acme/r14 acme/r15
	add_commits london/git/acme/r14.git refs/heads/main 1
	wait_until 30 are_mirrored acme/r14
	[ ! -e paris/git/acme/old.git ]
	list_all
}

list_without() { # NAME NAME LINE...
	local -a lines

	mapfile -t lines < <(whole_list | grep -v -e "^acme/$1 " -e "^acme/$2 ")
	list_is "${lines[@]}" "${@:3}"
}

# Five thousand in pages of a hundred, of which one is cut: another is missing behind it.
a_cut_list_changes_nothing() {
	local -a filling

	cd "$SHARED"
	mapfile -t filling < <(seq -f "acme/x-%g $(site_url london)/x.git" 5000)
	list_is "${filling[@]:0:2500}" "$(line_of acme/r1)" "${filling[@]:2500}"
	echo 30 >forge/cut
	wait_until 60 says 'the list acme: page 30 of the list'
	at paris mirror list | grep 'fails: page 30 of the list'
	at paris mirror list --json | grep '"failure":"page'
	lists_were_read 60
	[ "$(at paris status --json | "$SITE_HELP" member mirrors.all)" = 15 ]
	[ "$(at paris status --json | "$SITE_HELP" member mirrors.lists.failing)" = 1 ]
	rm forge/cut
	list_all
	wait_until 30 says_no_list
	[ -d paris/git/acme/r15.git ]
	at paris mirror list --json >listed
	fails grep '"failure":"page' listed
	! was_logged paris mirror.listed 'gone=1[0-9]'
}

says_no_list() {
	at paris status >said || :
	! head -n 1 said | grep -F 'the list acme'
}

a_restart_without_the_api_keeps_all() {
	cd "$SHARED"
	halt_paris
	echo 500 >forge/status
	start_site paris
	wait_until 30 says 'the list acme: page 1 of the list'
	[ "$(at paris status --json | "$SITE_HELP" member mirrors.all)" = 15 ]
	add_commits london/git/acme/r7.git refs/heads/main 1
	wait_until 30 are_mirrored acme/r7
	rm forge/status
	echo 600 >forge/limited
	wait_until 60 was_logged paris mirror.list_failed 'err=.*limits how often it is asked'
	stop_site paris
	rm forge/limited
	start_site paris
	wait_until 30 says '15 of 15 mirrors are up to date'
	wait_until 30 says_no_list
}

# But a clone of that upstream is taken over.
a_clone_of_the_upstream_is_taken_over() {
	local inode

	cd "$SHARED"
	start_site paris
	git clone -q --bare london/git/acme/late.git paris/git/acme/late.git
	git -C paris/git/acme/late.git remote set-url origin "$(site_url london)/acme/late"
	inode=$(stat -c %i paris/git/acme/late.git)
	list_all "$(line_of acme/late)"
	wait_until 30 says '16 of 16 mirrors are up to date'
	[ "$(stat -c %i paris/git/acme/late.git)" = "$inode" ]
	add_commits london/git/acme/late.git refs/heads/main 1
	wait_until 30 are_mirrored acme/late
	# The database is lost, and the clone still ours.
	git -C paris/git/acme/late.git remote remove origin
	stop_site paris
	sqlite3 paris/data/refrelay.db "DELETE FROM mirror_listed; DELETE FROM mirror; DELETE FROM registry"
	start_site paris
	wait_until 30 says '16 of 16 mirrors are up to date'
	[ "$(stat -c %i paris/git/acme/late.git)" = "$inode" ]
	list_all
	wait_until 30 is_away acme/late
	# Whatever it is, if the list may take it, as after a promotion.
	stop_site paris
	git clone -q --bare london/git/acme/late.git paris/git/acme/late.git
	git -C paris/git/acme/late.git remote remove origin
	inode=$(stat -c %i paris/git/acme/late.git)
	set_conf paris mirrors.acme.adopt true
	list_all "$(line_of acme/late)"
	start_site paris
	wait_until 30 says '16 of 16 mirrors are up to date'
	[ "$(stat -c %i paris/git/acme/late.git)" = "$inode" ]
	set_conf paris mirrors.acme.adopt false
	list_all
	wait_until 30 is_away acme/late
}

many_that_vanish_are_held() {
	local i

	cd "$SHARED"
	start_site paris
	wait_until 30 says '15 of 15 mirrors are up to date'
	list_is "$(line_of acme/r1)" "$(line_of acme/r2)"
	wait_until 60 says '2 of 15 mirrors are up to date'
	says 'would be deleted at once'
	at paris mirror show acme/r9 | grep '^held .*acme/r9'
	lists_were_read 3
	for ((i = 1; i <= REPOSITORIES; i++)); do
		[ -d "paris/git/acme/r$i.git" ]
	done
	# One of them goes by a person's word, and all others are back.
	at paris mirror remove acme/r9
	[ ! -e paris/git/acme/r9.git ]
	list_all
	wait_until 60 says '15 of 15 mirrors are up to date'
	# shellcheck disable=SC2046
	are_mirrored $(numbered)
}

# Its mirrors stay, and are shown as such.
a_section_that_is_taken_out_deletes_nothing() {
	cd "$SHARED"
	halt_paris
	cp paris/refrelay.conf kept.conf
	git config --file paris/refrelay.conf --remove-section mirrors.acme
	mirror acme/r1
	set_conf paris watcher.app1.mirror 'acme/*'
	start_site paris
	at paris mirror list >listed
	grep 'not configured .*acme/r2  ' listed
	fails grep 'not configured .*acme/r1  ' listed
	at paris mirror remove acme/r2
	[ -d paris/git/acme/r3.git ]
	[ ! -e paris/git/acme/r2.git ]
	stop_site paris
	cp kept.conf paris/refrelay.conf
	start_site paris
	wait_until 30 says '15 of 15 mirrors are up to date'
}

polls() { # STATE
	curl -s "$(site_url paris)/metrics" |
		sed -n "s/^refrelay_mirror_polls_total{state=\"$1\"} //p" | grep . || echo 0
}

were_told() { # NUMBER
	[ "$(polls told)" -ge "$1" ]
}

checkout_fails() {
	at paris mirror show tree/one | grep 'checkout: failing since'
}

# While nothing changes, the manifest alone is asked.
a_tree_of_grokmirror() {
	local asked

	cd "$SHARED"
	halt_paris
	git config --file paris/refrelay.conf --remove-section mirrors.acme
	set_conf paris mirrors.tree.from grokmirror
	set_conf paris mirrors.tree.url "$(site_url london)/manifest.js.gz"
	set_conf paris mirrors.tree.tokenFile "$PWD/app1.token"
	set_conf paris mirrors.tree.include 'tree/*'
	set_conf paris mirrors.tree.interval 1s
	set_conf paris mirrors.tree.watcher app1
	start_site paris
	wait_until 30 are_mirrored tree/one tree/two
	wait_until 60 were_told 6
	asked=$(polls unchanged)
	wait_until 60 were_told "$(($(polls told) + 6))"
	[ "$(polls unchanged)" = "$asked" ]

	# What is here is looked after all the same: a working tree that could not be made.
	halt_paris
	set_conf paris mirrors.tree.checkout true
	touch paris/git/tree/one.checkout
	start_site paris
	wait_until 30 checkout_fails
	wait_until 60 were_told 6
	rm paris/git/tree/one.checkout
	sqlite3 paris/data/refrelay.db 'UPDATE mirror_checkout SET due_at = 1'
	asked=$(polls unchanged)
	wait_until 30 test -L paris/git/tree/one.checkout
	[ "$(polls unchanged)" = "$asked" ]
	add_commits london/git/tree/one.git refs/heads/main 1
	git -C london/git/tree/two.git branch other
	git -C london/git/tree/two.git symbolic-ref HEAD refs/heads/other
	wait_until 30 are_mirrored tree/one tree/two
	make_repository london/git/tree/three.git 1
	wait_until 30 are_mirrored tree/three
	wait_until 30 says '3 of 3 mirrors are up to date'
}

a_directory() {
	cd "$SHARED"
	halt_paris
	git config --file paris/refrelay.conf --remove-section mirrors.tree
	mkdir local
	make_repository local/here/a.git 2
	make_repository local/here/b.git 1
	set_conf paris mirrors.disk.from directory
	set_conf paris mirrors.disk.url "$PWD/local"
	set_conf paris mirrors.disk.interval 1s
	set_conf paris mirrors.disk.depth 1
	set_conf paris mirrors.disk.checkout true
	set_conf paris watcher.app1.mirror 'acme/*'
	start_site paris
	wait_until 30 is_same here/a
	wait_until 30 is_same here/b
	[ "$(git -C paris/git/here/a.git rev-list --count main)" -eq 1 ]
	wait_until 30 test -d paris/git/here/a.checkout
	at paris mirror show here/a | grep '^  depth: 1$'
	[ "$(at paris mirror show here/a --json | "$SITE_HELP" member depth)" = 1 ]
	set_conf paris mirrors.disk.lfs true
	fails at paris check >checked
	grep '"disk" has lfs, but this site stores no LFS objects' checked
	git config --file paris/refrelay.conf --unset mirrors.disk.lfs
	mv local/here/b.git b.git
	wait_until 30 is_away here/b
	[ ! -L paris/git/here/b.checkout ]
	mv local local.away
	wait_until 30 says 'the list disk: '
	[ -d paris/git/here/a.git ]
	mv local.away local
	# As when the disk is not mounted.
	wait_until 30 says_no_failing_disk
	mv local/here here.away
	wait_until 30 says 'the list disk: there is no repository in '
	lists_failed 3
	[ -d paris/git/here/a.git ]
	mv here.away local/here
	at paris mirror sync here/a # it has failed meanwhile, too
	add_commits local/here/a.git refs/heads/main 1
	wait_until 30 is_same here/a
}

says_no_failing_disk() {
	at paris status >said || :
	! head -n 1 said | grep -F 'the list disk'
}

failed_lists() {
	curl -s "$(site_url paris)/metrics" |
		sed -n 's/^refrelay_mirror_lists_total{state="failed"} //p' | grep . || echo 0
}

have_failed() { # NUMBER
	[ "$(failed_lists)" -ge "$1" ]
}

# So many times from now on.
lists_failed() { # NUMBER
	wait_until 30 have_failed "$(($(failed_lists) + $1))"
}

is_same() { # NAME
	diff <(git -C "local/$1.git" for-each-ref) <(git -C "paris/git/$1.git" for-each-ref)
}

check_tells() {
	cd "$SHARED"
	halt_paris
	cp kept.conf paris/refrelay.conf
	at paris check >checked || :
	grep 'the list acme can be read; 15 repositories to mirror on its first page' checked
	echo 404 >forge/status
	fails at paris check >checked
	grep 'the list acme: page 1 of the list: .* answers HTTP 404' checked
	rm forge/status
	set_conf paris site.role secondary
	fails at paris check >checked 2>&1
	grep 'mirrors cannot be configured at a secondary' checked
	set_conf paris site.role standalone
	set_conf paris mirrors.acme.visibility public
	expect 2 at paris mirror list
	grep 'mirrors.acme.visibility' err
}

tap_set_up set_up
tap_test 'what is on the list is mirrored, but for forks, archives, and what is excluded' what_is_listed_is_mirrored
tap_test 'what appears comes' what_appears_comes
tap_test 'what two lists lack goes' what_vanishes_goes
tap_test 'a repository of this site keeps its place' a_repository_of_this_site_keeps_its_place
tap_test 'what grows or is archived stays' what_grows_or_is_archived_stays
tap_test 'a list of five thousand that is cut changes nothing' a_cut_list_changes_nothing
tap_test 'a restart while the API is away keeps all' a_restart_without_the_api_keeps_all
tap_test 'a clone of the upstream is taken over' a_clone_of_the_upstream_is_taken_over
tap_test 'many that vanish at once are held' many_that_vanish_are_held
tap_test 'a section that is taken out deletes nothing' a_section_that_is_taken_out_deletes_nothing
tap_test 'a tree is followed by its manifest' a_tree_of_grokmirror
tap_test 'a directory is a list' a_directory
tap_test 'a webhook of the organisation, and of one of its mirrors' a_webhook_tells
tap_test 'check says whether a list can be read' check_tells
tap_done
