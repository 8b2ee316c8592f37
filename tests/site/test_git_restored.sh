#!/usr/bin/env bash
# A site comes back with an older database, or with none, while the repositories are as they
# are: nobody who reads at the secondary is taken back behind what he has seen there, and in
# the end all is equal.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"

make_pair() {
	make_sites
	make_repository london/git/r.git 5
	make_repository london/git/s.git 5
	give_token london dev push
	set_conf paris http.anonymousRead true
	start_sites
	wait_until 20 in_sync
	make_clone "$(url_as dev paris r)" work
	watch_reads
}

# Reads main of r at paris again and again, protocols in turn; what it is told is in ./seen.
watch_reads() {
	local url turn=0

	url=$(site_url paris)/r.git
	: >seen
	while [ ! -e enough ]; do
		turn=$((2 - turn))
		git -c "protocol.version=$turn" ls-remote "$url" refs/heads/main 2>err.watch |
			cut -f 1 >>seen || true
		sleep 0.05
	done &
	watcher=$!
}

# Each that was told is an ancestor of what was told next, or the same.
nobody_was_taken_back() {
	touch enough
	wait "$watcher"
	[ "$(uniq seen | wc -l)" -ge 2 ]
	git -C london/git/r.git rev-list --reverse main >commits
	uniq seen | awk 'NR == FNR { age[$1] = NR; next }
		!($1 in age) || age[$1] < last { print "taken back to " $1; bad = 1 }
		{ last = age[$1] }
		END { exit bad }' commits -
}

push() { # TIMES
	local i

	for i in $(seq "$1"); do
		commit_in work
		git -C work push -q origin main
		[ "$(told_at_paris)" = "$(tip work HEAD)" ]
	done
}

push_at_london() {
	commit_in work
	git -C work push -q "$(url_as dev london r)" main
}

told_at_paris() {
	git ls-remote "$(site_url paris)/r.git" refs/heads/main | cut -f 1
}

save() { # SITE
	stop_site "$1"
	cp -a "$1/data" "$1/saved"
	start_site "$1"
}

# The site has ended.
restore() { # SITE
	rm -rf "$1/data"
	mv "$1/saved" "$1/data"
}

all_is_equal() {
	wait_until 30 in_sync
	same_sites
	[ "$(told_at_paris)" = "$(tip london/git/r.git)" ]
	push 1
	wait_until 30 in_sync
	same_sites
	nobody_was_taken_back
	at london events --json | tail -n 1 | grep -qF "\"$(at london checksum r)\""
}

# Its copies are newer than its rows, some are of no row, and the primary does not answer
# at first.
an_old_secondary() {
	local newest

	make_pair
	save paris
	push 3
	make_repository london/git/new.git 3
	remove_repository london/git/s.git
	at london changed new
	report_removed london s
	wait_until 20 in_sync
	newest=$(tip work HEAD)
	stop_site paris
	stop_site london
	restore paris
	start_site paris
	[ "$(told_at_paris 2>err)" = "$newest" ] || grep "the primary does not answer" err
	fails git ls-remote "$(site_url paris)/new.git" 2>err
	grep "the primary does not answer" err
	start_site london
	wait_until 30 told_is "$newest"
	all_is_equal
	fails git ls-remote "$(site_url paris)/s.git"
}

told_is() { # OID
	[ "$(told_at_paris)" = "$1" ]
}

a_secondary_without_a_database() {
	make_pair
	push 2
	wait_until 20 in_sync
	stop_site paris
	rm -r paris/data
	stop_site london
	start_site paris
	fails told_at_paris 2>err
	grep "no copy is here, and the primary does not answer" err
	start_site london
	push_at_london
	wait_until 30 told_is "$(tip work HEAD)"
	all_is_equal
}

# Numbers of events and generations come again, and mean something else. Both reach the same
# numbers as before, by other changes.
an_old_primary() { # PARIS: running or away
	make_pair
	save london
	wait_until 20 in_sync
	push 4
	wait_until 20 in_sync
	[ "$1" = running ] || stop_site paris
	stop_site london
	restore london
	start_site london
	wait_until 10 state_is_recorded
	push_at_london
	push_at_london
	push_at_london
	[ "$1" = running ] || start_site paris
	wait_until 30 told_is "$(tip work HEAD)"
	all_is_equal
}

state_is_recorded() {
	at london events --json | tail -n 1 | grep -qF "\"$(at london checksum r)\""
}

tap_test "a secondary with an old database takes nobody back" an_old_secondary
tap_test "a secondary that lost its database asks the primary" a_secondary_without_a_database
tap_test "a primary with an old database, below a secondary that runs" an_old_primary running
tap_test "a primary with an old database, and a secondary that was away" an_old_primary away
tap_done
