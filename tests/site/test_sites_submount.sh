#!/usr/bin/env bash
# A file system that is mounted on a folder below a site's root, and is away. In a
# name space of mounts of its own, where the kernel lets us.
if [ -z "${OWN_MOUNTS-}" ] && unshare -rm true 2>/dev/null; then
	OWN_MOUNTS=yes exec unshare -rm bash "$0" "$@"
fi
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/blob_tree.sh"
. "$TESTS/lib/push.sh"

a_folder_that_is_not_mounted_deletes_nothing() {
	[ -n "${OWN_MOUNTS-}" ] || skip "mounting is not allowed here"
	make_sites
	make_repository london/git/tool.git 5
	mkdir london/git/team
	mount -t tmpfs none london/git/team || skip "mounting is not allowed here"
	make_repository london/git/team/app.git 5
	start_sites
	wait_until 60 in_sync
	same_sites
	wait_until 10 umount london/git/team # a scan may be in it
	wait_until 20 was_logged london scan.finding "path=team"
	expect 1 at london changed team/app
	grep -F "folder team is not mounted" err
	push_change london/git/tool.git
	wait_until 20 in_sync
	[ -d paris/git/team/app.git ]
	rmdir london/git/team
	wait_until 20 was_logged london change.noticed "repo=team/app event=deleted"
	wait_until 20 eval '! [ -e paris/git/team/app.git ]'
}

# What it is built in and its place are two file systems.
a_folder_that_is_mounted_at_a_secondary_says_what_to_do() {
	[ -n "${OWN_MOUNTS-}" ] || skip "mounting is not allowed here"
	make_sites
	make_repository london/git/team/app.git 5
	mkdir -p paris/git/team
	mount -t tmpfs none paris/git/team || skip "mounting is not allowed here"
	trap 'umount -l "$TEST_DIR/paris/git/team" 2>/dev/null || true' EXIT
	start_sites
	wait_until 30 was_logged paris job.failed 'cross-device link" code=config'
	wait_until 10 row_is paris team/app state failed
	at paris repository show team/app | grep -F 'not on a folder below it'
	wait_until 10 umount paris/git/team
	at paris repository sync --wait team/app
	same_sites
}

says_unmounted() {
	fails at paris status >out && grep -F 'folder sub is not mounted' out
}

came() { # FILE
	cmp "london/tree/$1" "paris/tree/$1"
}

is_away() { # ID
	at paris blob show "$1" | grep -F 'folder sub is not mounted'
}

blobs_of_a_folder_that_is_not_mounted_at_a_secondary_wait() {
	[ -n "${OWN_MOUNTS-}" ] || skip "mounting is not allowed here"
	make_tree_sites
	mkdir -p keep london/tree/sub paris/tree/sub
	mount -t tmpfs none keep || skip "mounting is not allowed here"
	trap 'umount -l "$TEST_DIR/paris/tree/sub" "$TEST_DIR/keep" 2>/dev/null || true' EXIT
	mount --bind keep paris/tree/sub
	for file in top sub/same sub/changed sub/gone; do
		echo "$file" >"london/tree/$file"
	done
	start_sites
	wait_until 60 tree_is_here
	wait_until 10 umount paris/tree/sub # a scan may be in it
	wait_until 20 says_unmounted
	rm london/tree/sub/gone
	echo again >london/tree/sub/changed
	echo new >london/tree/sub/new
	echo another >london/tree/another
	wait_until 30 came another
	for file in gone changed new; do
		wait_until 30 is_away "sub/$file"
	done
	stop_site paris
	start_site paris
	wait_until 20 was_logged paris copies.not_looked_at 'folder sub is not mounted'
	expect 1 at paris blob remove sub/same
	grep -F 'folder sub is not mounted' err
	fails was_logged paris copy.doubted
	[ -z "$(ls -A paris/tree/sub)" ]
	mount --bind keep paris/tree/sub
	expect 3 at paris blob sync --all # not what is deleted
	wait_until 60 tree_is_here
	[ ! -e keep/gone ]
	came sub/new
}

repository_is_away() { # NAME
	at paris repository show "$1" | grep -F 'folder team is not mounted'
}

repositories_of_a_folder_that_is_not_mounted_at_a_secondary_wait() {
	local changed

	[ -n "${OWN_MOUNTS-}" ] || skip "mounting is not allowed here"
	make_sites
	make_repository london/git/team/app.git 5
	make_repository london/git/tool.git 1
	start_sites
	wait_until 60 in_sync
	stop_site paris
	mkdir keep
	mount -t tmpfs none keep || skip "mounting is not allowed here"
	trap 'umount -l "$TEST_DIR/paris/git/team" "$TEST_DIR/keep" 2>/dev/null || true' EXIT
	mv paris/git/team/* keep
	mount --bind keep paris/git/team
	start_site paris
	wait_until 60 in_sync
	changed=$(logged paris copy.changed) || true
	wait_until 10 umount paris/git/team # a scan may be in it
	stop_site paris
	start_site paris
	wait_until 20 was_logged paris copy_watch.failed 'folder team is not mounted'
	[ "$(logged paris copy.changed)" -eq "$changed" ]
	push_change london/git/team/app.git
	wait_until 30 repository_is_away team/app
	expect 1 at paris repository remove team/app
	grep -F 'folder team is not mounted' err
	[ -z "$(ls -A paris/git/team)" ]
	mount --bind keep paris/git/team
	wait_until 60 at paris repository sync --wait team/app
	wait_until 60 in_sync
	same_sites
	wait_until 10 umount paris/git/team
	make_repository london/git/team/new.git 1
	mv london/git/tool.git london/git/team/tool.git
	wait_until 30 repository_is_away team/new
	wait_until 30 repository_is_away team/tool
	[ -z "$(ls -A paris/git/team)" ]
}

waits_again() { # NODE
	was_logged "$1" push.put_off 'folder team is not mounted'
}

# What waits for it is not given up: nobody would take it up again when it is back.
what_is_to_be_pushed_from_it_waits() {
	[ -n "${OWN_MOUNTS-}" ] || skip "mounting is not allowed here"
	make_node home
	add_remote home near replicationDelay 3600
	make_source tool
	mkdir keep git/team
	mount -t tmpfs none keep || skip "mounting is not allowed here"
	trap 'umount -l "$TEST_DIR/git/team" "$TEST_DIR/keep" 2>/dev/null || true' EXIT
	mount --bind keep git/team
	make_source team/app
	start_ready home
	add_commits git/team/app.git refs/heads/main 1
	at home changed team/app
	[ "$(waiting | wc -l)" -eq 1 ]
	wait_until 10 umount git/team # a scan may be in it
	at home push retry --all
	wait_until 20 waits_again home
	stop_site home
	[ -z "$(letters)" ]
	[ "$(waiting | wc -l)" -eq 1 ]
	mount --bind keep git/team
	start_site home
	at home push retry --all
	wait_until 20 arrived near team/app
	stop_site home
}

tap_test "a folder that is not mounted deletes nothing" \
	a_folder_that_is_not_mounted_deletes_nothing
tap_test "a folder that is mounted at a secondary says what to do" \
	a_folder_that_is_mounted_at_a_secondary_says_what_to_do
tap_test "blobs of a folder that is not mounted at a secondary wait" \
	blobs_of_a_folder_that_is_not_mounted_at_a_secondary_wait
tap_test "repositories of a folder that is not mounted at a secondary wait" \
	repositories_of_a_folder_that_is_not_mounted_at_a_secondary_wait
tap_test "what is to be pushed from it waits" what_is_to_be_pushed_from_it_waits
tap_done
