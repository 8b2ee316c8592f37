#!/usr/bin/env bash
# Rows in several states at once, and sites that are alone: what is said of them and what
# can still be done.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"

converge() {
	wait_until 60 in_sync
	same_sites
}

make_ten() {
	local i
	make_proxied_sites
	make_repository template.git 5
	for i in 0 1 2 3 4 5 6 7 8 9; do
		cp -r template.git "london/git/r$i.git"
	done
	start_sites
	converge
}

metric_is() { # SITE LINE
	curl -fsS "$(site_url "$1")/metrics" >metrics
	grep -qxF "$2" metrics || {
		grep -F "${2%%[{ ]*}" metrics
		return 1
	}
}

count_is() { # STATE N
	metric_is paris "refrelay_replicables{kind=\"repository\",state=\"$1\"} $2"
	[ "$(status_of paris "repositories.$1")" = "$2" ]
	at paris repository list --json --state "$1" >list
	[ "$(grep -o '"name"' list | wc -l)" = "$2" ]
}

all_pending() {
	local i
	for i in 2 3 4; do
		row_is paris "r$i" state pending || return
	done
}

would_do() { # N ARGUMENT...
	local wanted=$1
	shift
	expect 0 at paris repository "$@"
	[ "$(grep -c '^would ' out)" = "$wanted" ]
}

one_failed_three_pending_six_synced() {
	local i before
	make_ten
	rules '/repositories/r1/ status 500'
	add_commits london/git/r1.git refs/heads/main 1
	wait_until 20 row_is paris r1 state failed
	set_conf paris sync.repositoryCapacity 0
	kill -HUP "$(site_pid paris)"
	wait_until 10 was_logged paris node.reloaded
	for i in 2 3 4; do
		add_commits "london/git/r$i.git" refs/heads/main 1
	done
	wait_until 20 all_pending
	count_is failed 1
	count_is pending 3
	count_is synced 6
	[ "$(status_of paris repositories.all)" = 10 ]
	expect 3 at paris status
	cat out
	grep -q ' behind: 3 repositories of 10 to copy' out
	grep -q '1 fail' out

	would_do 1 resync --failed --dry-run
	would_do 10 resync --all --dry-run
	count_is failed 1
	before=$(logged paris sync.done)
	rules
	set_conf paris sync.repositoryCapacity 4
	kill -HUP "$(site_pid paris)"
	expect 0 at paris repository resync --failed --wait
	converge
	# The one that was asked for, and the three that waited; not all.
	wait_until 10 is_logged $((before + 4)) paris sync.done
	before=$(logged paris sync.done)
	expect 0 at paris repository resync --all --wait
	wait_until 10 is_logged $((before + 10)) paris sync.done
	converge
}

# Nobody told of it, and no scan did: the question for its refs finds it out.
a_repository_that_is_not_there_is_found_out_by_the_question() {
	make_proxied_sites
	set_conf london sync.scanInterval 1h
	make_repository london/git/tool.git 5
	make_repository london/git/stays.git 5
	start_sites
	converge
	remove_repository london/git/tool.git
	: >proxy/log
	try_again tool
	wait_until 20 test ! -e paris/git/tool.git
	converge
	[ "$(grep -c '^+ .*/tool/refs' proxy/log)" -le 2 ]
	expect 4 at paris repository show tool
	expect 4 at london repository show tool
}

a_secondary_alone_still_serves_what_it_has() {
	make_proxied_sites
	make_repository london/git/tool.git 5
	set_conf paris http.anonymousRead true
	start_sites
	converge
	stop_site london
	git clone -q "$(site_url paris)/tool.git" clone
	[ "$(git -C clone rev-parse HEAD)" = "$(git -C london/git/tool.git rev-parse main)" ]
	git -C clone commit -q --allow-empty -m change
	fails timeout 60 git -C clone push origin HEAD:refs/heads/main 2>err
	cat err
	grep -q . err
	git -C paris/git/tool.git fsck --no-progress --no-dangling
	[ "$(git -C paris/git/tool.git rev-parse main)" = "$(git -C clone rev-parse HEAD~1)" ]
	start_site london
	converge
}

tap_test "one failed, three pending, six synced: everything says the same" \
	one_failed_three_pending_six_synced
tap_test "a repository that is not there is found out by the question" \
	a_repository_that_is_not_there_is_found_out_by_the_question
tap_test "a secondary alone still serves what it has" \
	a_secondary_alone_still_serves_what_it_has
tap_done
