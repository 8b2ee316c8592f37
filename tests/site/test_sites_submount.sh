#!/usr/bin/env bash
# A file system that is mounted on a folder below the primary's root, and is away. In a
# name space of mounts of its own, where the kernel lets us.
if [ -z "${OWN_MOUNTS-}" ] && unshare -rm true 2>/dev/null; then
	OWN_MOUNTS=yes exec unshare -rm bash "$0" "$@"
fi
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
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
tap_test "what is to be pushed from it waits" what_is_to_be_pushed_from_it_waits
tap_done
