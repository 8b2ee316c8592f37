#!/usr/bin/env bash
# Destruction needs a reason: what is deleted at the primary goes to the trash, and much
# of it at once waits for a person.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

wrong_clock=$TESTS/lib/wrong_clock.c

converge() {
	wait_until 60 in_sync
	same_sites
}

# r1 to r40, of which the first 30 are to go.
make_40() {
	local i
	make_sites
	make_repository template.git 5
	for i in $(seq 40); do
		cp -r template.git "london/git/r$i.git"
	done
	start_sites
	converge
}

held_is() { # N
	local held
	held=$(status_of paris repositories.held)
	[ "$held" = "$1" ] || {
		echo "held: $held"
		return 1
	}
}

copies() {
	list_repositories paris/git | wc -l
}

in_trash() {
	find paris/git/.refrelay/trash -mindepth 1 -maxdepth 1 2>/dev/null | wc -l
}

take_30_away() {
	local i
	mkdir -p away
	for i in $(seq 30); do
		mv "london/git/r$i.git" away
	done
}

# The secondary hears of all of them at once.
delete_30() {
	stop_site paris
	take_30_away
	wait_until 30 has_noticed 70
	start_site paris
	wait_until 30 held_is 30
}

a_mass_deletion_is_held_and_told() {
	make_40
	delete_30
	[ "$(copies)" = 40 ]
	[ "$(in_trash)" = 0 ]
	expect 3 at paris status
	grep -q '30 held, e.g. r[0-9]*: .*(see refrelay repository list --state held: if they were deleted on purpose: ' out
	expect 0 at paris repository list --state held
	[ "$(wc -l <out)" -ge 30 ]
	grep -q '^held *r7  (' out
	wait_until 10 was_logged paris registry.held
	wait_until 20 told_at_the_primary

	# It is still so after a restart, and for what else is deleted meanwhile.
	stop_site paris
	start_site paris
	held_is 30
	remove_repository london/git/r31.git
	wait_until 20 held_is 31
	[ "$(copies)" = 40 ]

	expect 0 at paris repository remove --state held --dry-run
	[ "$(copies)" = 40 ]
	expect 0 at paris repository remove --state held
	[ "$(in_trash)" = 31 ]
	converge
	[ "$(copies)" = 9 ]
	[ "$(status_of paris repositories.all)" = 9 ]
	expect 4 at paris repository show r7
}

told_at_the_primary() {
	at london status >told || true
	grep -q '30 held there' told
}

repositories_that_come_back_are_held_no_more() {
	make_40
	delete_30
	mv away/*.git london/git
	wait_until 30 held_is 0
	converge
	[ "$(copies)" = 40 ]
	[ "$(in_trash)" = 0 ]
	fails grep -aq ' ev=trash.put ' paris/log
}

# While it was no secondary they were originals; and the primary is another one then, even
# at the same address.
held_ones_of_a_former_secondary_are_held_again() {
	make_40
	delete_30
	mv away/r?.git away/r1?.git away/r2?.git london/git
	wait_until 30 held_is 1
	stop_site paris
	cp paris/refrelay.conf secondary.conf
	git config --file paris/refrelay.conf --remove-section primary
	set_conf paris site.role standalone
	start_site paris
	stop_site paris
	mv secondary.conf paris/refrelay.conf
	start_site paris
	wait_until 30 held_is 1
	at paris repository list --state held | grep 'the primary is another one than before, or was restored'
	[ "$(copies)" = 40 ]
	[ "$(in_trash)" = 0 ]
	at paris repository remove r30
	[ "$(in_trash)" = 1 ]
	converge
}

all_are_held_or_in_trash() { # N
	local held
	held=$(status_of paris repositories.held)
	[ $((held + $(in_trash))) -eq "$1" ] && [ "$(status_of paris repositories.pending)" = "$held" ]
}

# One after the other: as many as the brake lets through go, and no more.
the_brake_counts_what_went_before() {
	make_40
	take_30_away
	wait_until 30 has_noticed 70
	wait_until 30 all_are_held_or_in_trash 30
	[ "$(in_trash)" -le 10 ]
	[ "$(copies)" -ge 30 ]
}

a_few_deletions_need_nobody() {
	make_40
	remove_repository london/git/r1.git london/git/r2.git
	wait_until 20 has_noticed 42
	converge
	[ "$(in_trash)" = 2 ]
	held_is 0
}

# Nothing tells of these deletions but the tree itself.
what_was_deleted_while_the_database_was_lost_goes_to_the_trash() {
	local i
	make_sites
	for i in 1 2 3 4; do
		make_repository "london/git/r$i.git" 2
	done
	start_sites
	converge
	stop_site paris
	remove_repository london/git/r1.git
	rm paris/data/refrelay.db*
	make_repository paris/git/foreign.git 1
	wait_until 30 has_noticed 5
	start_site paris
	wait_until 60 in_trash_are 1
	wait_until 20 was_logged paris leftovers.gone 'copies=1'
	wait_until 20 was_logged paris leftovers.foreign 'example=foreign'
	[ -d paris/git/foreign.git ]
	at paris check >said || true
	grep -q 'the primary does not have 1 of the repositories here, e.g. foreign' said
	rm -rf paris/git/foreign.git
	converge
}

# By cp, mv and commits: none of them is what the node had put there.
what_people_made_of_copies_is_left_alone() {
	local i
	make_sites
	for i in 1 2 3 4 5; do
		make_repository "london/git/r$i.git" 2
	done
	start_sites
	converge
	stop_site paris
	mkdir paris/git/team
	cp -a paris/git/r1.git paris/git/team/mine.git
	rm -rf paris/git/team/mine.git/hooks
	cp -a paris/git/r1.git paris/git/equal.git
	# of names that the primary had, and that the database has forgotten
	remove_repository london/git/r2.git london/git/r3.git london/git/r4.git
	rm paris/data/refrelay.db*
	mv paris/git/r2.git paris/git/moved.git
	cp -a paris/git/r3.git kept.git
	rm -rf paris/git/r3.git
	mv kept.git paris/git/r3.git
	rm paris/git/r4.git/hooks/*
	add_commits paris/git/r4.git refs/heads/own 1
	add_commits paris/git/team/mine.git refs/heads/own 1
	sed -i '2d; s/"directory"/"else"/' paris/git/r5.git/refrelay/copy
	remove_repository london/git/r5.git
	wait_until 30 has_noticed 9
	start_site paris
	wait_until 60 was_logged paris leftovers.foreign 'count=6'
	wait_until 20 in_sync
	stop_site paris
	start_site paris
	wait_until 20 in_sync
	wait_until 20 at_least 2 grep -ac ' ev=leftovers.foreign ' paris/log
	[ "$(in_trash)" = 0 ]
	[ "$(copies)" = 7 ]
	fails grep -aq ' ev=leftovers.gone ' paris/log
	at paris check >said || true
	grep -q 'the primary does not have 6 of the repositories here' said
}

at_least() { # N COMMAND...
	[ "$("${@:2}")" -ge "$1" ]
}

in_trash_are() { # COUNT
	[ "$(in_trash)" = "$1" ]
}

has_noticed() { # LAST-EVENT
	[ "$(status_of london last_event)" -ge "$1" ]
}

many_refs_deleted_at_once_wait_for_force() {
	local i
	make_sites
	make_repository london/git/tool.git 5
	for i in $(seq 80); do
		echo "create refs/tags/t$i $(git -C london/git/tool.git rev-parse main)"
	done >refs
	git -C london/git/tool.git update-ref --stdin <refs
	start_sites
	converge
	delete_refs london/git/tool.git $(seq -f 'refs/tags/t%g' 60)
	wait_until 20 held_is 1
	[ "$(git -C paris/git/tool.git tag | wc -l)" = 80 ]
	[ "$(row_of paris tool held_reason)" = '60 of 81 refs would be deleted at once' ]
	[ "$(row_of paris tool remedy)" = 'save what matters, then refrelay repository sync --force tool' ]
	expect 3 at paris status
	grep -q '1 held, e.g. tool: 60 of 81 refs would be deleted at once (see .*: save what matters' out
	expect 0 at paris repository list --state held
	grep -q 'refrelay repository sync --force tool' out

	# To ask without force holds it again, and says so.
	expect 1 at paris repository sync --wait tool
	grep -q '60 of 81 refs' err
	[ "$(git -C paris/git/tool.git tag | wc -l)" = 80 ]
	expect 0 at paris repository sync --wait --force tool
	[ "$(git -C paris/git/tool.git tag | wc -l)" = 20 ]
	converge
	held_is 0

	# The force was for once.
	git -C london/git/tool.git update-ref --stdin <<-END
		$(head -n 60 refs)
	END
	wait_until 20 has_tags 80
	delete_refs london/git/tool.git $(seq -f 'refs/tags/t%g' 60)
	wait_until 20 held_is 1
	git -C london/git/tool.git update-ref --stdin <<-END
		$(head -n 60 refs)
	END
	wait_until 20 held_is 0
	converge
}

has_tags() { # N
	[ "$(git -C paris/git/tool.git tag | wc -l)" = "$1" ]
}

scans_failed() { # COUNT
	[ "$(grep -acE ' ev=(watch|scan)\.(failed|finding) ' london/log)" -ge "$1" ]
}

a_root_that_was_unmounted_deletes_nothing() {
	local last
	make_40
	last=$(status_of london last_event)
	mv london/git london/git.away
	wait_until 20 scans_failed 1
	[ "$(status_of london last_event)" = "$last" ]
	# An empty mount point in its place is no reason, either.
	mkdir london/git
	wait_until 20 scans_failed 2
	[ "$(status_of london last_event)" = "$last" ]
	[ "$(copies)" = 40 ]
	held_is 0
	rmdir london/git
	mv london/git.away london/git
	push_change london/git/r1.git
	wait_until 20 has_noticed $((last + 1))
	converge
	[ "$(in_trash)" = 0 ]
}

# As a machine may that has lost its time; the copy waits for two weeks all the same.
a_clock_that_is_weeks_ahead_empties_no_trash() {
	command -v cc >/dev/null || skip "there is no C compiler"
	make_sites
	make_repository london/git/a.git 2
	make_repository london/git/b.git 2
	start_sites
	converge
	remove_repository london/git/a.git
	wait_until 20 test ! -e paris/git/a.git
	[ "$(in_trash)" = 1 ]
	stop_site paris
	cc -shared -fPIC -o wrong_clock.so "$wrong_clock"
	touch before
	: >paris/log
	start_site paris "LD_PRELOAD=$PWD/wrong_clock.so" WRONG_CLOCK=1296000 \
		ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0"
	wait_until 10 was_logged paris node.started
	is_logged_at paris 1296000
	wait_until 20 test paris/git/.refrelay/trash.clock -nt before
	[ "$(in_trash)" = 1 ]
	stop_site paris
	fails was_logged paris trash.expired
	# What was there for so long goes.
	mv paris/git/.refrelay/trash/*.a.git paris/git/.refrelay/trash/1000.1.a.git
	start_site paris
	wait_until 20 was_logged paris trash.expired
	[ "$(in_trash)" = 0 ]
}

tap_test "a mass deletion is held and told until a person confirms it" \
	a_mass_deletion_is_held_and_told
tap_test "repositories that come back are held no more" \
	repositories_that_come_back_are_held_no_more
tap_test "what a former secondary held is held again" \
	held_ones_of_a_former_secondary_are_held_again
tap_test "the brake counts what went before" \
	the_brake_counts_what_went_before
tap_test "a few deletions need nobody" \
	a_few_deletions_need_nobody
tap_test "many refs deleted at once wait for force" \
	many_refs_deleted_at_once_wait_for_force
tap_test "what was deleted while the database was lost goes to the trash" \
	what_was_deleted_while_the_database_was_lost_goes_to_the_trash
tap_test "what people made of copies is left alone" \
	what_people_made_of_copies_is_left_alone
tap_test "a root that was unmounted deletes nothing" \
	a_root_that_was_unmounted_deletes_nothing
tap_test "a clock that is weeks ahead empties no trash" \
	a_clock_that_is_weeks_ahead_empties_no_trash
tap_done
