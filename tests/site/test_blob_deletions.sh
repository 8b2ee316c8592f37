#!/usr/bin/env bash
# Blobs that are deleted at the primary: into the trash, and many at once only when a
# person says so. What is only away is not deleted.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/blob_tree.sh"

many_deletions_wait_for_a_person() {
	local i
	make_tree_sites
	mkdir london/tree/old
	for i in $(seq 40); do
		echo "$i" >"london/tree/old/$i"
		echo "$i" >"london/tree/$i"
	done
	start_sites
	wait_until 30 tree_is_here

	# Few go at once, and can be had back.
	rm london/tree/1 london/tree/2
	wait_until 20 tree_is_here
	[ "$(find paris/tree/.refrelay/trash -type f | wc -l)" = 2 ]
	[ "$(cat paris/tree/.refrelay/trash/*/2)" = 2 ]

	stop_site paris
	rm -r london/tree/old
	wait_until 20 tree_count_is london all 38
	start_site paris
	wait_until 30 tree_count_is paris held 40
	[ "$(find paris/tree/old -type f | wc -l)" = 40 ]
	expect 3 at paris status
	grep -q '40 blobs of kind tree held, e.g. old/1: .*deleted' out
	grep -q '(see refrelay blob list --type tree --state held' out
	wait_until 10 was_logged paris registry.held
	expect 0 at paris blob list --type tree --state held
	[ "$(grep -c '^held .* old/' out)" = 40 ]
	wait_until 20 at_london_is_told

	# Of the rest nothing waits for it.
	put_file london/tree/more more
	wait_until 20 cmp london/tree/more paris/tree/more

	expect 0 at paris blob remove --type tree --state held
	wait_until 20 tree_is_here
	[ ! -e paris/tree/old ]
	[ "$(find paris/tree/.refrelay/trash -type f | wc -l)" = 42 ]
	wait_until 10 at paris status
}

at_london_is_told() {
	{ at london status || true; } | grep -q '40 held there'
}

# Away, empty, or not mounted: nothing is deleted, and both say what is wrong.
a_directory_that_is_away_deletes_nothing() {
	local i how
	make_tree_sites
	mkdir london/tree/folder
	for i in $(seq 5); do
		echo "$i" >"london/tree/folder/$i"
	done
	start_sites
	wait_until 30 tree_is_here
	for how in away empty dangling; do
		mv london/tree london/moved
		[ "$how" != empty ] || mkdir london/tree
		[ "$how" != dangling ] || ln -s nowhere london/tree
		wait_until 20 london_cannot_look
		expect 1 at london changed --blob tree folder/1
		expect 1 at london check
		grep -q '^FAIL .*tree' out
		[ "$(find paris/tree/folder -type f | wc -l)" = 5 ]
		at london events >events
		fails grep -q deleted events
		rm -rf london/tree
		mv london/moved london/tree
		wait_until 20 at london status
	done
	put_file london/tree/folder/1 'changed since'
	wait_until 20 tree_is_here
	[ ! -e paris/tree/.refrelay/trash ] || [ -z "$(find paris/tree/.refrelay/trash -type f)" ]

	# The same directory, emptied: then they are deleted.
	rm -r london/tree/folder
	wait_until 20 tree_is_here
	[ "$(find paris/tree/.refrelay/trash -type f | wc -l)" = 5 ]
}

london_cannot_look() {
	local status=0
	at london status >said || status=$?
	[ "$status" -eq 3 ] && grep -q 'london has been unable to scan its blobs of kind tree for ' said && return
	cat said
	return 1
}

tap_test 'many deletions wait for a person' many_deletions_wait_for_a_person
tap_test 'a directory that is away deletes nothing' a_directory_that_is_away_deletes_nothing
tap_done
