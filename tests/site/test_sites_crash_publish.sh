#!/usr/bin/env bash
# The secondary dies at each step of a sync of a copy that it has.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/site_crash.sh"

dies_as_git_fetches() {
	start_crash_sites
	set_conf paris sync.fastPath false
	dies_at paris objects.fetched change_a
}

# A history of its own for the new default branch; that of the former one, which nothing
# else reaches, goes with it. HEAD and a symbolic ref move between two renames then.
starts=0
start_again() {
	local repository=london/git/a.git

	starts=$((starts + 1))
	git -C "$repository" update-ref "refs/heads/start-$starts" \
		"$(git -C "$repository" commit-tree -m "start $starts" 'main^{tree}')"
	git -C "$repository" symbolic-ref HEAD "refs/heads/start-$starts"
	git -C "$repository" symbolic-ref refs/heads/latest "refs/heads/start-$starts"
	git -C "$repository" update-ref -d "refs/heads/start-$((starts - 1))"
	at london changed a
}

dies_as_all_starts_again() {
	local point

	start_crash_sites
	start_again
	wait_until 20 is_whole
	for point in publish.renamed publish.symbolic publish.head publish.renamed@2; do
		echo "$point:"
		kill_site paris
		start_again
		launch_site paris "REFRELAY_FAILPOINT=$point=kill"
		is_killed_within 15 paris
		start_site paris
		is_whole_again paris
	done
}

a_is_held() {
	at paris repository list --state held | grep -q '^held  *a '
}

# The steps of a change that is done are nobody's: the branch is somebody else's now.
what_was_given_up_is_not_ours_for_ever() {
	local left

	start_crash_sites
	start_again
	wait_until 20 is_whole
	left=$(git -C london/git/a.git rev-parse refs/heads/start-1)
	start_again
	wait_until 20 is_whole
	git -C paris/git/a.git -c core.hooksPath=/dev/null update-ref refs/heads/start-1 "$left"
	wait_until 20 a_is_held
	[ "$(git -C paris/git/a.git rev-parse refs/heads/start-1)" = "$left" ]
}

tap_test "killed before it publishes" dies_at_each sync.leased sync.read sync.fenced sync.fetched
tap_test "killed while git fetches" dies_as_git_fetches
tap_test "killed while it publishes" \
	dies_at_each publish.pending publish.locked publish.checked publish.written \
	publish.head publish.renamed publish.changed state.key
tap_test "killed while all starts again" dies_as_all_starts_again
tap_test "what was given up is not ours for ever" what_was_given_up_is_not_ours_for_ever
tap_test "killed after it published" dies_at_each sync.verified sync.done
tap_done
