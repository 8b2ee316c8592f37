#!/usr/bin/env bash
# What happens while one of the sites is away, or when one comes back as it was earlier:
# all of it ends with equal trees, and little is sent twice.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

converge() {
	wait_until 60 in_sync
	same_sites
}

# 25 repositories that differ, made of one.
make_25() {
	local i
	make_repository template.git 20
	for i in $(seq 25); do
		cp -r template.git "london/git/r$i.git"
		git -C "london/git/r$i.git" update-ref refs/heads/main "main~$((i % 15))"
	done
}

has_noticed() { # LAST-EVENT
	[ "$(status_of london last_event)" -ge "$1" ]
}

compared() { # REASON
	was_logged paris cursor.compares "reason=\"?$1"
}

a_secondary_that_was_down_catches_up() {
	local i before
	make_sites
	make_25
	start_sites
	converge
	stop_site paris
	for i in $(seq 10); do
		add_commits "london/git/r$i.git" refs/heads/main 2
		cp -r template.git "london/git/new-$i.git"
	done
	for i in 21 22 23 24 25; do
		rm -rf "london/git/r$i.git"
	done
	wait_until 20 has_noticed 50
	before=$(logged paris sync.done)
	start_site paris
	converge
	[ "$(status_of paris repositories.all)" = 30 ]
	# What was not changed was not touched.
	wait_until 10 is_logged $((before + 20)) paris sync.done
	wait_until 10 is_logged 1 paris cursor.compares
}

what_the_log_no_longer_keeps_the_inventory_tells() {
	local i before
	make_sites
	set_conf london events.keepNumber 5
	make_25
	start_sites
	converge
	stop_site paris
	for i in $(seq 10); do
		add_commits "london/git/r$i.git" refs/heads/main 2
	done
	remove_repository london/git/r25.git
	wait_until 20 has_noticed 36
	stop_site london
	start_site london # prunes
	wait_until 20 was_logged london events.pruned
	before=$(logged paris sync.done)
	start_site paris
	wait_until 20 compared 'events gone'
	converge
	[ ! -e paris/git/r25.git ]
	wait_until 10 is_logged $((before + 10)) paris sync.done
}

# The primary as it was at the backup, with repositories newer, older, gone, and back.
a_primary_restored_from_a_backup_is_followed_on_its_new_timeline() {
	local i cursor
	make_sites
	make_25
	start_sites
	converge
	stop_site london
	cp -a london/data backup-data
	cp -a london/git/r1.git backup-r1.git
	cp -a london/git/r2.git backup-r2.git
	start_site london
	for i in 1 3 4 5; do
		add_commits "london/git/r$i.git" refs/heads/main 3
	done
	remove_repository london/git/r2.git
	cp -r template.git london/git/later.git
	wait_until 20 has_noticed 31
	converge
	cursor=$(status_of paris cursor)
	[ "$cursor" -ge 31 ]

	# Both nodes live through it in turn: the primary is away, and comes back older.
	stop_site london
	rm -rf london/data london/git/r1.git
	mv backup-data london/data
	mv backup-r1.git london/git/r1.git
	mv backup-r2.git london/git/r2.git
	start_site london
	wait_until 20 was_logged london log.restored
	wait_until 60 compared 'another timeline'
	gives_up r1
	converge
	[ "$(git -C paris/git/r1.git rev-parse main)" = "$(git -C london/git/r1.git rev-parse main)" ]
	[ -d paris/git/r2.git ]
	[ -d paris/git/later.git ]
	[ "$(status_of paris repositories.all)" = 26 ]
	add_commits london/git/r1.git refs/heads/main 1
	changed_head=$(git -C london/git/r1.git rev-parse main)
	wait_until 20 paris_has r1.git "$changed_head"
	converge

	# What goes missing now is no rename of what is still there.
	stop_site paris
	for i in $(seq 3 24); do
		remove_repository "london/git/r$i.git"
	done
	wait_until 30 left_at_london 4
	start_site paris
	wait_until 20 was_logged paris registry.held
	[ "$(find paris/git -maxdepth 1 -name '*.git' | wc -l)" = 26 ]
}

# What was pushed since the backup is only at paris, until a person says that it is not wanted.
gives_up() { # NAME
	wait_until 20 row_is paris "$1" word held
	row_of paris "$1" held_reason | grep 'commits that the source lacks'
	fails git -C "london/git/$1.git" cat-file -e "$(git -C "paris/git/$1.git" rev-parse main)"
	at paris repository sync --force "$1"
}

left_at_london() { # REPOSITORIES
	[ "$(status_of london repositories.all)" = "$1" ]
}

paris_has() { # NAME OID
	[ "$(git -C "paris/git/$1" rev-parse main)" = "$2" ]
}

# The database is the same file, so only the cursor can tell. The log may be shorter than
# the secondary remembers, or have grown past that.
a_primary_rolled_back_to_a_snapshot() { # COMMITS-AFTER-IT
	local i
	make_sites
	make_repository london/git/tool.git 10
	make_repository london/git/other.git 10
	start_sites
	converge
	stop_site london
	cp -a london/data/refrelay.db london/git .
	start_site london
	for i in 1 2 3; do
		add_commits london/git/tool.git refs/heads/main 1
		wait_until 20 has_noticed $((2 + i))
	done
	converge
	stop_site paris

	stop_site london
	rm -f london/data/refrelay.db-*
	cat refrelay.db >london/data/refrelay.db
	rm -rf london/git
	mv git london/git
	start_site london
	for i in $(seq "$1"); do
		git -C london/git/tool.git update-ref "refs/heads/new-$i" main~2
		wait_until 20 has_noticed $((2 + i))
	done
	start_site paris
	wait_until 20 was_logged london log.restored
	wait_until 20 compared 'another timeline'
	gives_up tool
	converge
	git -C london/git/tool.git update-ref refs/heads/later main
	wait_until 20 has_noticed $((3 + $1))
	converge
	[ "$(logged london log.restored)" = 1 ]
}

a_restored_repository_alone_is_followed_back() {
	make_sites
	make_25
	start_sites
	converge
	cp -a london/git/r1.git backup-r1.git
	add_commits london/git/r1.git refs/heads/main 3
	wait_until 20 has_noticed 26
	converge
	remove_repository london/git/r1.git
	mv backup-r1.git london/git/r1.git
	wait_until 20 has_noticed 27
	wait_until 20 paris_has r1.git "$(git -C london/git/r1.git rev-parse main)"
	converge
}

bytes_arrived() { # FROM-LINE
	tail -n "+$1" paris/log | grep -a ' ev=sync.done ' |
		sed 's/.* bytes=\([0-9]*\).*/\1/' | awk '{ sum += $1 } END { print sum + 0 }'
}

a_secondary_that_lost_its_database_adopts_what_is_there() {
	local from all
	make_sites
	make_25
	start_sites
	converge
	all=$(bytes_arrived 1)
	[ "$all" -gt 10000 ]
	stop_site paris
	rm -rf paris/data
	add_commits london/git/r1.git refs/heads/main 1
	remove_repository london/git/r2.git
	wait_until 20 has_noticed 27
	from=$(($(wc -l <paris/log) + 1))
	start_site paris
	wait_until 60 in_sync
	echo "$(bytes_arrived "$from") bytes after $all"
	[ "$(bytes_arrived "$from")" -lt $((all / 10)) ]
	# Nobody knows any more that the copy of r2 was brought from there: it stays.
	[ ! -e paris/git/r2.git ] || mv paris/git/r2.git .
	same_sites
}

tap_test "a secondary that was down catches up, and touches nothing else" \
	a_secondary_that_was_down_catches_up
tap_test "what the log no longer keeps, the inventory tells" \
	what_the_log_no_longer_keeps_the_inventory_tells
tap_test "a primary restored from a backup is followed on its new timeline" \
	a_primary_restored_from_a_backup_is_followed_on_its_new_timeline
tap_test "commits that a primary rolled back to a snapshot lacks are held" \
	a_primary_rolled_back_to_a_snapshot 0
tap_test "commits that one rolled back, and used since, lacks are held" \
	a_primary_rolled_back_to_a_snapshot 5
tap_test "a repository restored from a backup is followed back" \
	a_restored_repository_alone_is_followed_back
tap_test "a secondary that lost its database adopts what is there" \
	a_secondary_that_lost_its_database_adopts_what_is_there
tap_done
