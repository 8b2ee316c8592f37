#!/usr/bin/env bash
# `refrelay replicate URL DEST`: copies of what a running primary has, without a node.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/replicate.sh"

# ./london runs with these repositories; its tree is also ./source, for comparisons.
start_london() { # [NAME...]
	local name
	make_sites
	ln -s london/git source
	for name; do
		mkdir -p "$(dirname "london/git/$name")"
		make_repository "london/git/$name.git" 5
	done
	start_site london
	[ $# -eq 0 ] || wait_until 20 has_repositories $#
}

has_repositories() { # N
	[ "$(status_of london repositories.all)" = "$1" ]
}

# The change was noticed: the inventory tells of it.
noticed() { # NAME
	at london changed "$1" >changed 2>&1 || true
}

replicate() { # [OPTION...]
	refrelay replicate --secret-file secret --site paris "$@" "$(site_url london)" dest
}

# As `run` of replicate.sh, from the primary.
run_url() { # STATUS [OPTION...] [KEY=VALUE...]
	local status=$1 argument
	local -a options=() wanted=()
	shift
	for argument; do
		case $argument in
		-*) options+=("$argument") ;;
		*) wanted+=("$argument") ;;
		esac
	done
	expect "$status" replicate --json "${options[@]}"
	python3 - "${wanted[@]}" <<-'END'
		import json, sys
		said = json.load(open("out"))
		for argument in sys.argv[1:]:
		    key, value = argument.split("=")
		    assert str(said[key]) == value, (argument, said)
		assert len(said["repositories"]) + said["left_out"] == said["total"], said
	END
}

requests() { # PATTERN
	grep -a ' ev=http.request ' london/log | grep -acE "$1"
}

first_copies_then_what_changed() {
	local before
	start_london a group/b group/sub/c
	make_repository london/git/sha.git 3 sha256
	git init -q --bare london/git/empty.git
	git init -q --bare london/git/detached.git
	git -C london/git/detached.git fetch -q ../a.git main:main
	git -C london/git/detached.git update-ref --no-deref HEAD main~1
	for name in sha empty detached; do
		noticed "$name"
	done
	expect 0 replicate
	grep -q '^6 repositories: 6 created, 0 updated, 0 unchanged; .*; all verified equal$' out
	[ ! -s err ]
	equal_trees london/git dest
	no_left_overs

	# Without a change: the inventory, and nothing else.
	what_counts >counts
	wait_until 10 nothing_but_the_inventory_is_asked
	what_counts | diff counts -

	add_commits london/git/group/b.git refs/heads/main 2
	git -C london/git/group/b.git update-ref refs/tags/t main
	git -C london/git/a.git symbolic-ref HEAD refs/heads/later
	noticed group/b
	noticed a
	before=$(requests git-upload-pack)
	run_url 0 updated=2 unchanged=4 created=0 failed=0 left_out=0
	says group/b '"outcome":"updated"' '"refs_changed":2'
	says a '"outcome":"updated"' '"refs_changed":1'
	equal_trees london/git dest
	[ "$(requests git-upload-pack)" -gt "$before" ]
	python3 - "$(site_url london)" <<-'END'
		import json, os, sys
		said = json.load(open("out"))
		assert said["source"] == sys.argv[1] and said["dest"] == os.path.realpath("dest")
	END
}

# Copies of a moment ago are looked at once more, so that the next run need not.
nothing_but_the_inventory_is_asked() {
	local before
	before=$(requests .)
	run_url 0 unchanged=6 created=0 updated=0 bytes=0 || return
	[ "$(requests .)" = $((before + 1)) ]
}

what_is_deleted_goes_by_request_and_within_the_brake() {
	local i
	start_london
	make_repository template.git 2
	for i in $(seq 30); do
		cp -r template.git "london/git/r$i.git"
	done
	wait_until 20 has_repositories 30
	run_url 0 created=30
	rm -rf london/git/r1.git
	noticed r1
	run_url 0 unchanged=29 only_in_dest=1 deleted=0
	[ -d dest/r1.git ]
	run_url 0 --delete unchanged=29 only_in_dest=0 deleted=1
	[ ! -e dest/r1.git ]
	[ "$(find dest/.refrelay/trash -mindepth 1 -maxdepth 1 -name '*r1.git' | wc -l)" = 1 ]
	equal_trees london/git dest
	for i in $(seq 10 25); do
		rm -rf "london/git/r$i.git"
		noticed "r$i"
	done
	run_url 3 --delete unchanged=13 held=16 deleted=0
	is_bad r10 'too many'
	[ -d dest/r10.git ]
	run_url 0 --delete --force unchanged=13 deleted=16
	equal_trees london/git dest
}

# Its inventory says nothing before it has looked at everything.
a_primary_that_begins_anew_deletes_nothing() {
	local i
	start_london
	make_repository template.git 2
	for i in $(seq 100); do
		cp -r template.git "london/git/r$i.git"
	done
	wait_until 20 has_repositories 100
	run_url 0 created=100
	stop_site london
	rm -rf london/data
	launch_site london
	wait_until 20 replicate --delete --force
	has_repositories 100
	run_url 0 --delete unchanged=100
	[ -d dest/.refrelay ]
	[ -z "$(find dest/.refrelay -path '*/trash/*.git')" ]
	equal_trees london/git dest
}

# Nothing was begun, nothing was changed, and a person knows what to do.
refuses() { # STATUS PATTERN COMMAND...
	local status=$1 pattern=$2
	shift 2
	expect "$status" "$@"
	grep -qE -e "$pattern" err || fail "no \"$pattern\": $(<err)"
	grep -q 'hint: .' err
	[ ! -s out ]
	fails grep -qF "$(<secret)" err
}

who_has_no_right_gets_nothing() {
	local url
	start_london a
	url=$(site_url london)
	(umask 077 && echo 'quite another secret of its own' >other)
	refuses 1 'same secret' refrelay replicate --secret-file other --site paris "$url" dest
	refuses 1 'rome' refrelay replicate --secret-file secret --site rome "$url" dest
	# What is on this machine may read the inventory, but not what is in repositories.
	expect 1 refrelay replicate --json "$url" dest
	is_bad a '"failure_class":"auth"' 'secret-file'
	(umask 077 && : >empty)
	refuses 2 'empty' refrelay replicate --secret-file empty --site paris "$url" dest
	refuses 2 'nowhere' refrelay replicate --secret-file nowhere --site paris "$url" dest
	chmod 644 other
	refuses 2 'other' refrelay replicate --secret-file other --site paris "$url" dest
	refuses 2 '--site' refrelay replicate --site paris "$url" dest
	[ -z "$(list_repositories dest)" ]
	set_conf london secondary.paris.enabled false
	kill -HUP "$(site_pid london)"
	wait_until 10 was_logged london node.reloaded
	refuses 1 'paris' replicate
	[ -z "$(list_repositories dest)" ]
}

a_clock_that_is_off_is_named() {
	local library=(/usr/lib/*/faketime/libfaketimeMT.so.1)
	[ -e "${library[0]}" ] || skip "there is no libfaketime"
	! grep -qa __asan_init "$REFRELAY" ||
		skip "libfaketime and AddressSanitizer do not go together"
	start_london a
	refuses 1 'clock' env LD_PRELOAD="${library[0]}" FAKETIME=-300s \
		"$REFRELAY" replicate --secret-file secret --site paris "$(site_url london)" dest
	[ -z "$(list_repositories dest)" ]
	run_url 0 created=1
}

a_primary_that_is_down_changes_nothing() {
	start_london a b
	run_url 0 created=2
	what_counts >counts
	stop_site london
	refuses 1 'connect' replicate --delete
	what_counts | diff counts -
	equal_trees london/git dest
	refuses 1 '.' refrelay replicate http://127.0.0.1:1/ dest
	refuses 1 '.' refrelay replicate http://no-such-host.invalid/ dest
	refuses 2 '.' refrelay replicate http:// dest
	# Something else answers there.
	python3 -m http.server --bind 127.0.0.1 --directory london 0 >server 2>&1 &
	wait_until 10 grep -q 'port [0-9]' server
	refuses 1 '.' refrelay replicate "http://127.0.0.1:$(sed -n 's/.* port \([0-9]*\).*/\1/p' server)" dest
	what_counts | diff counts -
}

what_the_primary_cannot_read_fails_alone() {
	start_london good bad new
	run_url 0 created=3
	rm -rf dest/new.git
	for name in bad new; do
		git -C "london/git/$name.git" rev-parse main~1 >"london/git/$name.git/shallow"
		noticed "$name"
	done
	add_commits london/git/good.git refs/heads/main 1
	noticed good
	run_url 3 --delete updated=1 failed=2 deleted=0
	is_bad bad shallow
	is_bad new shallow
	[ -d dest/bad.git ]
	[ ! -e dest/new.git ]
	equal_repositories london/git/good.git dest/good.git
}

a_run_that_was_killed_is_repeated() {
	local point
	start_london a group/b c d
	for point in sync.read objects.fetched sync.fetched sync.staged sync.placed publish.renamed; do
		REFRELAY_FAILPOINT=$point@2=kill expect 137 replicate
		run_url 0 failed=0 held=0 not_reached=0
		equal_trees london/git dest
		run_url 0 unchanged=4
		no_left_overs
		rm -rf dest/a.git dest/c.git
		add_commits london/git/group/b.git refs/heads/main 1
		noticed group/b
	done
}

# As the primary says nothing meanwhile, no other repository is done before the end.
interrupted() { # SIGNAL
	local status=0 pid
	REFRELAY_FAILPOINT=objects.fetched=stop "$REFRELAY" replicate --secret-file secret \
		--site paris --jobs 1 --json "$(site_url london)" dest >out 2>err &
	pid=$!
	wait_until 10 is_stopped $pid
	kill -STOP "$(site_pid london)"
	kill -s "$1" $pid
	kill -CONT $pid
	wait $pid || status=$?
	kill -CONT "$(site_pid london)"
	[ "$status" -eq 130 ]
}

an_interrupted_run_says_what_was_not_reached() {
	local signal
	start_london a b c
	for signal in INT TERM HUP; do
		interrupted $signal
		python3 -c '
import json
said = json.load(open("out"))
assert said["total"] == 3 and said["not_reached"] + said["created"] + said["unchanged"] == 3, said
assert said["failed"] == 0 and said["not_reached"] > 0, said'
		wait_until 10 no_workers_but_london # its own children hear of the end
		run_url 0 failed=0
		equal_trees london/git dest
		rm -rf dest/a.git dest/b.git dest/c.git
	done
}

no_workers_but_london() {
	[ "$(workers | grep -vcx "$(site_pid london)")" -eq 0 ]
}

two_runs_at_once_share_the_work() {
	local one=0 two=0
	start_london a b c d e f
	replicate --json >one.json 2>one.err &
	replicate --json >two.json 2>two.err || two=$?
	wait $! || one=$?
	[ "$one" -eq 0 ] && [ "$two" -eq 0 ] || fail "$one $two $(cat one.json two.json)"
	equal_trees london/git dest
	python3 -c '
import json
one, two = (json.load(open(name)) for name in ("one.json", "two.json"))
assert one["created"] + two["created"] == 6, (one, two)
assert one["failed"] + two["failed"] == 0, (one, two)'
	no_left_overs
}

# What was brought from elsewhere, or from the directory itself, is adopted.
a_copy_changes_its_source() {
	start_london a b
	expect 0 refrelay replicate source dest
	run_url 0 unchanged=2 created=0 updated=0
	run_url 0 unchanged=2
	add_commits london/git/a.git refs/heads/main 1
	noticed a
	expect 0 refrelay replicate source dest
	run_url 0 unchanged=2
	equal_trees london/git dest
}

# An inventory may be older than the refs that are read.
pushes_meanwhile_are_no_failures() {
	local i
	start_london a b
	at london hooks install
	for i in $(seq 6); do
		push_change london/git/a.git "topic-$i" &
		run_url 0 failed=0 held=0
		wait $!
	done
	wait_until 20 spool_is_empty
	run_url 0 failed=0
	equal_trees london/git dest
}

tap_test "first all is copied, then what changed" first_copies_then_what_changed
tap_test "what is deleted goes when it is asked for, and within the brake" \
	what_is_deleted_goes_by_request_and_within_the_brake
tap_test "a primary that begins anew deletes nothing" a_primary_that_begins_anew_deletes_nothing
tap_test "who has no right gets nothing" who_has_no_right_gets_nothing
tap_test "a clock that is off is named" a_clock_that_is_off_is_named
tap_test "a primary that is down changes nothing" a_primary_that_is_down_changes_nothing
tap_test "what the primary cannot read fails alone" what_the_primary_cannot_read_fails_alone
tap_test "a run that was killed is repeated" a_run_that_was_killed_is_repeated
tap_test "an interrupted run says what was not reached" \
	an_interrupted_run_says_what_was_not_reached
tap_test "two runs at once share the work" two_runs_at_once_share_the_work
tap_test "a copy changes its source" a_copy_changes_its_source
tap_test "pushes meanwhile are no failures" pushes_meanwhile_are_no_failures
tap_done
