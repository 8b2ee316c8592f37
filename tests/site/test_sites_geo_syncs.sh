#!/usr/bin/env bash
# One repository, and what happens to it while it is being brought: never two syncs at
# once, and no change is lost or called a failure.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"

converge() {
	wait_until 60 in_sync
	same_sites
}

make_tool() {
	make_proxied_sites
	set_conf london sync.scanInterval 1h
	set_conf paris sync.fastPath false
	make_repository london/git/tool.git 5
	at london hooks install
	start_proxied
	converge
}

start_proxied() {
	start_sites
	: >proxy/log
}

# The most requests with this pattern that were open at one time.
most_open() { # PATTERN
	awk -v pattern="$1" '
		$0 ~ pattern && /^\+/ { open++; if (open > most) most = open }
		$0 ~ pattern && /^-/ && open { open-- } # else it began before the log
		END { print most + 0 }' proxy/log
}

# At paris, by its log: the proxy hears of an end when the next may have begun.
most_at_work() { # REPOSITORY
	awk -v of=" job=sync repo=$1 " '
		index($0, of) && / ev=lease.acquired / { open++; if (open > most) most = open }
		index($0, of) && / ev=job.(done|deferred|failed) / { open-- }
		END { print most + 0 }' paris/log
}

no_sync_failed() {
	fails was_logged paris job.failed 'job=sync'
	[ "$(row_of paris tool retry_count)" = 0 ]
}

# They come in by their hooks while the fetch of the first is still under way. Those of hooks
# that could not wait for the node come by the spool, some as one.
changes_during_a_sync_are_brought_by_one_more() {
	local before i wanted
	make_tool
	before=$(logged paris sync.done)
	rules 'POST./tool.git/git-upload-pack slow 60'
	push_change london/git/tool.git
	wait_until 20 asked_for /tool.git/git-upload-pack
	for i in 1 2 3; do
		push_change london/git/tool.git
		push_change london/git/tool.git "topic-$i"
	done
	wait_until 20 spool_is_empty
	wanted=$(row_of london tool generation)
	[ "$wanted" -gt 2 ]
	wait_until 20 row_is paris tool generation_wanted "$wanted"
	row_is paris tool state started
	[ "$(most_open 'POST ./?tool.git/git-upload-pack')" -eq 1 ]
	rules
	converge
	row_is paris tool generation "$wanted"
	[ "$(most_at_work tool)" -eq 1 ]
	[ $(($(logged paris sync.done) - before)) -le 3 ]
	no_sync_failed
}

# Unless it is known already, as paris asks for it.
deletion_is_told() {
	at london changed tool 2>said || grep -q 'no such repository: tool' said
}

a_repository_that_is_deleted_while_it_is_brought_goes() {
	make_tool
	rules 'POST./tool.git/git-upload-pack slow 60'
	push_change london/git/tool.git
	wait_until 20 asked_for /tool.git/git-upload-pack
	remove_repository london/git/tool.git
	make_repository london/git/other.git 2
	at london changed other
	deletion_is_told
	rules
	converge
	[ ! -e paris/git/tool.git ]
	expect 4 at paris repository show tool
}

one_that_is_made_again_while_it_is_brought_is_the_new_one() {
	make_tool
	rules 'POST./tool.git/git-upload-pack slow 60'
	push_change london/git/tool.git
	wait_until 20 asked_for /tool.git/git-upload-pack
	remove_repository london/git/tool.git
	deletion_is_told
	make_repository london/git/tool.git 3
	add_commits london/git/tool.git refs/heads/new 2
	at london changed tool
	rules
	converge
	[ "$(git -C paris/git/tool.git rev-list --count main)" = 3 ]
	row_is paris tool generation 1
}

# Neither was ever nowhere, and each has the refs of its own.
two_repositories_change_names() {
	local i
	make_sites
	set_conf london sync.scanInterval 1h
	make_repository london/git/a.git 3
	make_repository london/git/b.git 30
	git -C london/git/b.git update-ref refs/heads/of-b main~7
	start_sites
	converge
	for i in 1 2 3; do
		mv london/git/a.git c.git
		mv london/git/b.git london/git/a.git
		mv c.git london/git/b.git
		at london changed a
		at london changed b
		converge
	done
	git -C paris/git/a.git rev-parse -q --verify refs/heads/of-b
	fails git -C paris/git/b.git rev-parse -q --verify refs/heads/of-b
	fails was_logged paris job.failed 'job=sync'
	# Into a group of the name that a repository has had, and back out of it.
	mv london/git/a.git c.git
	mkdir london/git/a
	mv c.git london/git/a/c.git
	at london changed a
	at london changed a/c
	converge
	mv london/git/a/c.git c.git
	rmdir london/git/a
	mv c.git london/git/a.git
	at london changed a/c
	at london changed a
	converge
}

# Each is an event; but no sync is begun for each.
a_thousand_changes_one_by_one() {
	local before began i oid syncs
	make_sites
	set_conf london sync.scanInterval 1h
	make_repository london/git/tool.git 20
	at london hooks install
	start_sites
	converge
	before=$(logged paris sync.done)
	oid=$(git -C london/git/tool.git rev-parse main)
	began=$SECONDS
	# One ref to and fro, in one process: transaction after transaction.
	for i in $(seq 500); do
		printf 'start\nupdate refs/heads/topic %s\nprepare\ncommit\n' "$oid"
		printf 'start\nupdate refs/heads/topic %s~1\nprepare\ncommit\n' "$oid"
	done | git -C london/git/tool.git update-ref --stdin >said
	[ "$(grep -c '^commit: ok' said)" = 1000 ]
	converge
	syncs=$(($(logged paris sync.done) - before))
	echo "# $syncs syncs for $(status_of london last_event) events" >&3
	[ "$(git -C paris/git/tool.git rev-parse topic)" = \
		"$(git -C london/git/tool.git rev-parse main~1)" ]
	# Twenty at once, then four a second.
	[ "$syncs" -le $((25 + 4 * (SECONDS - began + 1))) ]
	no_sync_failed
}

exec 3>&1
tap_test "changes during a sync are brought by one more" \
	changes_during_a_sync_are_brought_by_one_more
tap_test "a repository that is deleted while it is brought goes" \
	a_repository_that_is_deleted_while_it_is_brought_goes
tap_test "one that is made again while it is brought is the new one" \
	one_that_is_made_again_while_it_is_brought_is_the_new_one
tap_test "repositories that change names keep their own refs" two_repositories_change_names
tap_test "a thousand changes one by one take fewer syncs" a_thousand_changes_one_by_one
tap_done
