#!/usr/bin/env bash
# A file system that is mounted on a folder below the primary's root, and is away. In a
# name space of mounts of its own, where the kernel lets us.
if [ -z "${OWN_MOUNTS-}" ] && unshare -rm true 2>/dev/null; then
	OWN_MOUNTS=yes exec unshare -rm bash "$0" "$@"
fi
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

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
	umount london/git/team
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

tap_test "a folder that is not mounted deletes nothing" \
	a_folder_that_is_not_mounted_deletes_nothing
tap_done
