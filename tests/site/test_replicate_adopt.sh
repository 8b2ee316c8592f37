#!/usr/bin/env bash
# Copies that somebody else made or changed: taken over, repaired, or left alone.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"

make_source() {
	mkdir source
	make_repository source/a.git 12
	git -C source/a.git branch one main~3
	git -C source/a.git tag -m annotated v1 main~1
}

clone_mirror() {
	mkdir -p dest
	git clone -q --mirror source/a.git dest/a.git
	rm -rf dest/a.git/hooks
	cp source/a.git/description dest/a.git
}

# As a mirror by fetch into an empty repository has them: each ref a file.
clone_loose() {
	mkdir -p dest
	git init -q --bare --template= dest/a.git
	git -C dest/a.git fetch -q ../../source/a.git 'refs/*:refs/*'
	test -f dest/a.git/refs/heads/one
}

loose_refs() {
	find dest/a.git/refs -type f
}

# All but our own files.
picture_of_files() {
	find dest/a.git -name refrelay -prune -o -type f -exec sha1sum {} + | sort -k 2
}

an_equal_clone_is_adopted_without_transfer() {
	make_source
	clone_mirror
	find dest/a.git/objects -type f -printf '%p %i\n' | sort >before
	run 0 unchanged=1 bytes=0
	find dest/a.git/objects -type f -printf '%p %i\n' | sort >after
	diff before after
	follows
}

loose_refs_are_packed() {
	make_source
	clone_loose
	run 0 updated=1 bytes=0
	test -z "$(loose_refs)"
	follows
}

a_clone_that_is_behind_is_brought_up_to_date() {
	make_source
	"$1"
	add_commits source/a.git refs/heads/main 3
	add_commits source/a.git refs/heads/new 1 refs/heads/main~1
	git -C source/a.git update-ref -d refs/heads/one
	run 0 updated=1
	test -z "$(loose_refs)"
	follows
}

# What only the copy has is a commit's work; it may be lost for good.
own_commits_are_held() {
	local own

	make_source
	"$1"
	add_commits dest/a.git refs/heads/one 1
	own=$(git -C dest/a.git rev-parse refs/heads/one)
	picture_of_files >before
	run 3 held=1 updated=0
	is_bad a '"outcome":"held"' "$own" refs/heads/one -- '--force'
	run 3 held=1
	picture_of_files | grep -v /objects/ >after
	grep -v /objects/ before | diff - after
	git -C dest/a.git cat-file -e "$own"
	expect 3 refrelay replicate source dest
	grep -q "held: .*$own" err
	grep -q 'hint: .*--force' err
	run 0 --force updated=1
	follows
}

an_own_branch_is_held() {
	make_source
	clone_mirror
	add_commits dest/a.git refs/heads/mine 1 refs/heads/main~2
	run 3 held=1
	is_bad a refs/heads/mine
	git -C dest/a.git rev-parse -q --verify refs/heads/mine
	run 0 --force updated=1
	follows
}

# Its config would have git remove the tags that the source lacks, with each fetch.
tags_of_its_own_are_held() {
	make_source
	clone_mirror
	add_commits dest/a.git refs/tags/mine 1 refs/heads/main
	git -C dest/a.git config fetch.prune true
	git -C dest/a.git config fetch.pruneTags true
	add_commits source/a.git refs/heads/main 1
	run 3 held=1
	is_bad a refs/tags/mine
	run 3 held=1
	git -C dest/a.git rev-parse -q --verify refs/tags/mine
	run 0 --force updated=1
	follows
}

# A ref that says nothing new may go: its commits are in the source.
an_own_branch_without_own_commits_goes() {
	make_source
	clone_mirror
	git -C dest/a.git branch mine main~4
	follows
	fails git -C dest/a.git rev-parse -q --verify refs/heads/mine
}

# Git's own walk takes an ancestor that is younger than its descendants for a stranger.
clocks_that_went_back_hold_nothing() {
	local i tip

	make_source
	clone_mirror
	git -C source/a.git branch two main~3
	tip=$(git -C source/a.git rev-parse main)
	for i in 1 2 3; do
		tip=$(GIT_COMMITTER_DATE="170000000$i +0000" \
			git -C source/a.git commit-tree -m "Old $i" -p "$tip" 'main^{tree}')
	done
	git -C source/a.git update-ref refs/heads/main "$tip"
	git -C source/a.git branch new main~1
	run 0 updated=1
	follows
}

a_moved_ref_is_repaired() {
	make_source
	follows
	git -C dest/a.git update-ref refs/heads/main main~2
	run 0 updated=1
	follows
	git -C dest/a.git update-ref -d refs/heads/one
	git -C dest/a.git update-ref refs/heads/extra main~5
	git -C dest/a.git symbolic-ref HEAD refs/heads/extra
	echo other >dest/a.git/description
	follows
	git -C dest/a.git update-ref --no-deref HEAD main~5
	follows
	rm dest/a.git/packed-refs
	follows
}

# The same within the resolution of any stamp, and with the old times put back.
a_moved_ref_is_seen_in_the_same_moment() {
	make_source
	follows
	cp -p dest/a.git/packed-refs kept
	sed "s/^[0-9a-f]*\( refs.heads.one\)$/$(git -C source/a.git rev-parse main)\1/" \
		kept >dest/a.git/packed-refs
	touch -r kept dest/a.git/packed-refs
	run 0 updated=1
	follows
}

a_foreign_commit_in_our_copy_is_held() {
	make_source
	follows
	add_commits dest/a.git refs/heads/main 1
	run 3 held=1
	is_bad a refs/heads/main
	add_commits source/a.git refs/heads/one 1
	run 3 held=1
	run 0 --force updated=1
	follows
}

# What the source itself forgot is followed: it was published by us, and by nobody else.
what_the_source_dropped_is_dropped() {
	make_source
	add_commits source/a.git refs/heads/gone 2
	follows
	git -C source/a.git update-ref refs/heads/main main~3
	git -C source/a.git update-ref -d refs/heads/gone
	follows
}

lost_packs_are_noticed_and_healed() {
	make_source
	follows
	rm -f dest/a.git/objects/pack/*
	run 0 updated=1
	equal_trees source dest
	follows
}

lost_packs_are_healed_when_the_source_has_changed() {
	make_source
	follows
	add_commits source/a.git refs/heads/main 1
	rm -f dest/a.git/objects/pack/*
	run 0 updated=1
	equal_trees source dest
	follows
}

a_lost_older_pack_is_noticed() {
	local first

	make_source
	follows
	first=$(ls dest/a.git/objects/pack/*.pack)
	add_commits source/a.git refs/heads/main 1
	git -C source/a.git update-ref -d refs/heads/one
	git -C source/a.git tag -d v1
	follows
	rm -f "${first%.pack}".*
	run 0 updated=1
	equal_trees source dest
	follows
}

our_own_files_may_be_lost() {
	make_source
	follows
	rm -r dest/a.git/refrelay
	run 0 unchanged=1 bytes=0
	follows
	rm -r dest/.refrelay
	run 0 unchanged=1 bytes=0
	echo rubbish >dest/a.git/refrelay/copy
	add_commits source/a.git refs/heads/main 1
	follows
}

a_copy_with_another_hash_fails_alone() {
	make_source
	make_repository source/b.git 2
	mkdir dest
	git init -q --bare --object-format=sha256 dest/a.git
	run 3 created=1 failed=1
	is_bad a SHA-256
}

# HEAD alone names it: no ref does.
a_detached_head_without_its_object_is_mended() {
	local commit

	mkdir source dest
	make_repository source/one.git 3
	git clone -q --mirror source/one.git dest/one.git
	commit=$(git -C source/one.git commit-tree -m apart -p main 'main^{tree}')
	echo "$commit" >source/one.git/HEAD
	echo "$commit" >dest/one.git/HEAD
	fails git -C dest/one.git cat-file -e "$commit"
	run 0 updated=1
	git -C dest/one.git cat-file -e "$commit"
}

tap_test "an equal clone is adopted without transfer" \
	an_equal_clone_is_adopted_without_transfer
tap_test "loose refs of an adopted clone are packed" loose_refs_are_packed
tap_test "an adopted mirror that is behind is brought up to date" \
	a_clone_that_is_behind_is_brought_up_to_date clone_mirror
tap_test "an adopted clone with loose refs that is behind, too" \
	a_clone_that_is_behind_is_brought_up_to_date clone_loose
tap_test "commits of its own hold an adopted mirror" own_commits_are_held clone_mirror
tap_test "commits of its own hold an adopted clone with loose refs" \
	own_commits_are_held clone_loose
tap_test "a branch of its own holds an adopted mirror" an_own_branch_is_held
tap_test "a tag of its own holds it, too, whatever its config lets git prune" tags_of_its_own_are_held
tap_test "a branch of its own without new commits goes" \
	an_own_branch_without_own_commits_goes
tap_test "clocks that went back hold nothing" clocks_that_went_back_hold_nothing
tap_test "a ref that was moved in a copy is repaired" a_moved_ref_is_repaired
tap_test "even if its times were put back" a_moved_ref_is_seen_in_the_same_moment
tap_test "a foreign commit in our own copy is held" a_foreign_commit_in_our_copy_is_held
tap_test "what the source dropped is dropped" what_the_source_dropped_is_dropped
tap_test "lost packs are noticed and healed" lost_packs_are_noticed_and_healed
tap_test "lost packs are healed when the source has changed as well" \
	lost_packs_are_healed_when_the_source_has_changed
tap_test "an older pack that is lost is noticed and healed" a_lost_older_pack_is_noticed
tap_test "our own files may be lost" our_own_files_may_be_lost
tap_test "a copy with another hash fails alone" a_copy_with_another_hash_fails_alone
tap_test "a detached HEAD without its object is mended" \
	a_detached_head_without_its_object_is_mended
tap_done
