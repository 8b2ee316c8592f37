#!/usr/bin/env bash
# What a mirror deletes, and what it leaves; what is made where nothing was.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"
. "$TESTS/lib/gerrit.sh"

mirror_deletes_only_what_it_is_told_or_all_that_is_ours() {
	make_gerrit_node home
	gerrit_remote mirror mirror true excludedRefsPattern 'refs/heads/private/.*'
	gerrit_remote plain
	gerrit_remote moved mirror true push 'refs/heads/*:refs/mirror/*'
	make_source a
	git -C git/a.git branch old main
	git -C git/a.git branch older main
	start_ready home
	expect 0 at home push start --all --wait
	refs_are moved/a.git refs/mirror/main refs/mirror/old refs/mirror/older
	for remote in mirror moved; do
		git -C "$remote/a.git" update-ref refs/heads/foreign main \
			2>/dev/null || git -C "$remote/a.git" update-ref refs/heads/foreign \
			refs/mirror/main
		git -C "$remote/a.git" update-ref refs/heads/private/x \
			"$(git -C git/a.git rev-parse main)"
	done
	# A change deletes what it names.
	git -C git/a.git branch -q -D old
	at home changed a
	wait_until 20 refs_are mirror/a.git refs/heads/foreign refs/heads/main \
		refs/heads/older refs/heads/private/x
	wait_until 20 refs_are moved/a.git refs/heads/foreign refs/heads/private/x \
		refs/mirror/main refs/mirror/older
	wait_until 20 store_is_empty
	refs_are plain/a.git refs/heads/main refs/heads/old refs/heads/older
	# A full one, all that the specs could have brought, but for what is excluded.
	expect 0 at home push start --all --wait
	refs_are mirror/a.git refs/heads/main refs/heads/older refs/heads/private/x
	refs_are moved/a.git refs/heads/foreign refs/heads/private/x refs/mirror/main \
		refs/mirror/older
	refs_are plain/a.git refs/heads/main refs/heads/old refs/heads/older
	stop_site home
}

# Git refuses that by itself. A destination whose own configuration refuses it is left so.
the_branch_that_head_names_is_deleted_like_others() {
	make_gerrit_node home
	gerrit_remote mirror mirror true
	gerrit_remote careful mirror true
	make_source a
	git -C git/a.git branch other main
	start_ready home
	expect 0 at home push start --all --wait
	git -C careful/a.git config receive.denyDeleteCurrent true
	git -C git/a.git update-ref -d refs/heads/main
	at home changed a
	wait_until 20 refs_are mirror/a.git refs/heads/other
	[ "$(git -C mirror/a.git symbolic-ref HEAD)" = refs/heads/main ]
	wait_until 20 store_is_empty
	refs_are careful/a.git refs/heads/main refs/heads/other
	stop_site home
}

log_of_refs() { # REPOSITORY
	git -C "$1" config core.logAllRefUpdates
}

# By a path: with HEAD, and as storeRefLog says.
what_is_missing_is_made_or_told() {
	make_gerrit_node home
	gerrit_remote made
	gerrit_remote logged storeRefLog true
	gerrit_remote absent createMissingRepositories false replicationRetry 60
	make_source 'deep/er/a b'
	git -C 'git/deep/er/a b.git' branch trunk main
	git -C 'git/deep/er/a b.git' symbolic-ref HEAD refs/heads/trunk
	start_ready home
	at home push start --all
	for remote in made logged; do
		wait_until 20 same_refs 'git/deep/er/a b.git' "$remote/deep/er/a b.git"
		[ "$(git -C "$remote/deep/er/a b.git" symbolic-ref HEAD)" = refs/heads/trunk ]
		[ "$(git -C "$remote/deep/er/a b.git" config core.bare)" = true ]
	done
	[ "$(log_of_refs 'made/deep/er/a b.git')" = false ]
	[ "$(log_of_refs 'logged/deep/er/a b.git')" = true ]
	wait_until 20 queue_is home missing 'q["queue"][0]["failure"]["code"]'
	at home push queue | grep -q createMissingRepositories
	[ -z "$(ls -A absent)" ]
	stop_site home
}

tap_test "a mirror deletes the branch that HEAD names like others" \
	the_branch_that_head_names_is_deleted_like_others
tap_test "a mirror deletes what it is told, or in full what is ours" \
	mirror_deletes_only_what_it_is_told_or_all_that_is_ours
tap_test "what is missing is made, or told" what_is_missing_is_made_or_told
tap_done
