#!/usr/bin/env bash
# What a repository's configuration says about readers holds at every site: hidden refs
# are shown nowhere, and one that is not read over HTTP is read at no site. Copies are
# whole all the same.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"

make_pair() {
	make_sites
	make_repository london/git/r.git 5
	add_commits london/git/r.git refs/secret/plan 2
	add_commits london/git/r.git refs/heads/draft/x 2
	set_conf paris http.anonymousRead true
	git -C london/git/r.git config transfer.hideRefs refs/secret
	start_sites
	wait_until 20 in_sync
}

# What stock git is shown at a site, under each protocol.
shown() { # SITE
	local version
	for version in 0 1 2; do
		git -c protocol.version=$version ls-remote "$(site_url "$1")/r.git" >"shown.$version"
	done
	cmp shown.0 shown.1
	cmp shown.0 shown.2
	cut -f 2 shown.0
}

shows() { # SITE REF
	shown "$1" | grep -qxF "$2"
}

shows_the_same() {
	[ "$(shown london)" = "$(shown paris)" ]
}

hides() { # SITE REF
	! shows "$@"
}


hidden_refs_are_hidden_everywhere() {
	make_pair
	same_sites
	tip paris/git/r.git refs/secret/plan
	hides london refs/secret/plan
	hides paris refs/secret/plan
	shows paris refs/heads/draft/x
	shows_the_same
}

a_change_of_the_rules_alone_travels() {
	make_pair
	git -C london/git/r.git config --add uploadpack.hideRefs refs/heads/draft
	wait_until 20 hides paris refs/heads/draft/x
	wait_until 20 in_sync
	[ "$(git -C paris/git/r.git config --get-all uploadpack.hideRefs)" = refs/heads/draft ]
	git -C london/git/r.git config --unset transfer.hideRefs
	wait_until 20 shows paris refs/secret/plan
	wait_until 20 in_sync
	shows_the_same
	fails git -C paris/git/r.git config transfer.hideRefs
	[ "$(git -C paris/git/r.git config gc.auto)" = 0 ]
	same_sites
}

closed_at_each_site() {
	make_pair
	git -C london/git/r.git config http.uploadpack false
	wait_until 20 is_closed london
	wait_until 20 is_closed paris
	wait_until 20 in_sync
	add_commits london/git/r.git refs/heads/main 2
	wait_until 20 same_sites
	is_closed paris
	at paris repository resync --force r
	wait_until 20 in_sync
	git -C london/git/r.git config --unset http.uploadpack
	wait_until 20 shows paris refs/heads/main
}

# Git shows the sentence that comes with the refusal.
is_closed() { # SITE
	local version
	for version in 0 2; do
		! git -c protocol.version=$version ls-remote "$(site_url "$1")/r.git" 2>said || return
		grep -q 'returned error: 403' said || return
		grep -q 'http.uploadpack is false' said || return
	done
}

# No copy is here: the primary is asked, and says no.
closed_where_no_copy_is() {
	make_sites
	make_repository london/git/r.git 5
	git -C london/git/r.git config http.uploadpack false
	set_conf paris http.anonymousRead true
	set_conf paris sync.repositoryCapacity 0
	start_sites
	is_closed paris
}

replicated_by_hand() {
	make_repository source/r.git 5
	add_commits source/r.git refs/secret/plan 2
	git -C source/r.git config transfer.hideRefs refs/secret
	refrelay replicate source copies
	tip copies/r.git refs/secret/plan
	! git ls-remote copies/r.git | grep secret || fail "it is shown"
	git -C source/r.git config transfer.hideRefs refs/heads
	refrelay replicate source copies
	git ls-remote copies/r.git | grep secret
	! git ls-remote copies/r.git | grep heads || fail "it is shown"
	refrelay replicate source copies >out
}

# Whoever reads the copy on disk sees no ref before the copy hides it.
settings_come_before_refs() {
	make_repository source/r.git 5
	refrelay replicate source copies
	git -C source/r.git config transfer.hideRefs refs/secret
	add_commits source/r.git refs/secret/plan 2
	REFRELAY_FAILPOINT=publish.renamed=kill expect 137 refrelay replicate source copies
	tip copies/r.git refs/secret/plan
	! git ls-remote copies/r.git | grep secret || fail "it is shown"
	refrelay replicate source copies
	! git ls-remote copies/r.git | grep secret || fail "it is shown"
}

tap_test "refs that are hidden at the primary are hidden at a secondary" hidden_refs_are_hidden_everywhere
tap_test "a change of what is hidden travels without a change of refs" a_change_of_the_rules_alone_travels
tap_test "a repository that is not read over HTTP is read at no site, and copied" closed_at_each_site
tap_test "so it is where no copy is" closed_where_no_copy_is
tap_test "replicate carries the settings for readers as well" replicated_by_hand
tap_test "a copy hides a ref before it has it" settings_come_before_refs
tap_done
