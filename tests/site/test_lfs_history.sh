#!/usr/bin/env bash
# Which objects of Git LFS a repository has by its history: whatever ref names them, and
# no longer than it is that repository.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/lfs.sh"

# The primary notices nothing by itself, but when it is asked.
quiet_primary() {
	make_lfs_sites
	set_conf london sync.scanInterval 1h
	start_site london
	lfs_work "$(url_as dev london r)"
}

gives() { # SITE OID SIZE
	lfs_batch looker "$@" | grep -q '"download":'
}

denies() { # SITE OID SIZE
	[[ $(lfs_batch looker "$1" download "$2" "$3") == *'no such object'* ]] &&
		curl -s -u "any:$(cat looker.token)" "$(lfs_url "$1")/info/lfs/objects/$2" |
		grep -q FILE_NOT_FOUND
}

named_at() { # SITE NUMBER
	at "$1" repository show --json r | grep -q "\"named\":$2,"
}

# All of a history is looked through at most once a day: so let a day pass.
a_day_passes() { # SITE
	python3 -c '
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=20)
db.execute("UPDATE lfs_scan SET whole_at = 0")
db.commit()' "$(find "$1/data" -name '*.db' -o -name '*.sqlite' | head -n 1)"
}

# Its first commits are others, as the name is in them.
another_repository() { # PATH
	make_repository other.git 2
	mv other.git "$1"
}

put_object() { # SITE FILE
	curl -fsS -u "any:$(cat dev.token)" -T "$2" -o answer \
		"$(lfs_url "$1")/info/lfs/objects/$(oid_of "$2")"
}

every_ref_names_objects() {
	local ref

	make_lfs_sites
	start_sites
	lfs_work "$(url_as dev london r)"
	for ref in branch tag note deep; do
		git -C work checkout -q -b "on-$ref" origin/main
		git -C work lfs track '*.bin' >/dev/null
		git -C work add .gitattributes
		lfs_commit "$ref.bin" 1000
	done
	git -C work tag -a -m 'a tag' v1 on-tag
	# What is empty has no object.
	printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 0\n' 1 >work/empty
	git -C work add empty
	git -C work commit -qm empty
	git -C work push -q origin on-branch v1 on-note:refs/notes/x on-deep:refs/a/b/c/d 2>push ||
		fail "$(cat push)"
	wait_until 20 named_at london 4
	wait_until 20 in_sync
	wait_until 20 named_at paris 4
	a_day_passes london
	a_day_passes paris
	git -C work push -q origin :refs/heads/on-branch :refs/notes/x 2>push || fail "$(cat push)"
	wait_until 20 named_at london 2
	wait_until 20 named_at paris 2
}

what_was_forced_away_is_not_named() {
	quiet_primary
	lfs_commit a.bin 1000
	git -C work push -q origin main
	wait_until 20 named_at london 1
	git -C work reset -q --hard HEAD^
	git -C work lfs track '*.bin' >/dev/null
	git -C work add .gitattributes
	lfs_commit b.bin 1000
	a_day_passes london
	git -C work push -q -f origin main 2>push || fail "$(cat push)"
	wait_until 20 eval '[ "$(logged london lfs.looked "found=1 named=1")" -eq 2 ]'
	# What only goes on takes nothing away, and is not looked through again.
	a_day_passes london
	lfs_commit c.bin 1000
	git -C work push -q origin main
	wait_until 20 was_logged london lfs.looked 'found=1 named=2'
}

a_repository_removed_takes_its_objects_along() {
	local named uploaded

	make_lfs_sites
	start_sites
	lfs_work "$(url_as dev london r)"
	lfs_commit a.bin 1000
	git -C work push -q origin main
	head -c 2000 /dev/urandom >loose
	put_object london loose
	named=$(oid_of work/a.bin) uploaded=$(oid_of loose)
	wait_until 20 in_sync
	gives paris download "$named" 1000
	gives paris download "$uploaded" 2000
	remove_repository london/git/r.git
	report_removed london r
	another_repository london/git/r.git
	at london changed r
	denies london "$named" 1000
	denies london "$uploaded" 2000
	wait_until 20 in_sync
	denies paris "$named" 1000
	denies paris "$uploaded" 2000
}

# Nobody has seen that it was gone.
a_repository_put_in_its_place_has_no_claim() {
	local named uploaded

	quiet_primary
	lfs_commit a.bin 1000
	git -C work push -q origin main
	head -c 2000 /dev/urandom >loose
	put_object london loose
	named=$(oid_of work/a.bin) uploaded=$(oid_of loose)
	wait_until 20 named_at london 1
	gives london download "$named" 1000
	make_repository other.git 3
	kill -STOP "$(site_pid london)"
	remove_repository london/git/r.git
	mv other.git london/git/r.git
	kill -CONT "$(site_pid london)"
	at london changed r
	at london events | tail -n 1 | grep -q '"event":"updated"'
	wait_until 20 denies london "$named" 1000
	denies london "$uploaded" 2000
}

# Its history is the same; git-lfs uploads again, and nothing is stored twice.
a_second_repository_with_the_same_history() {
	make_lfs_sites
	set_conf london sync.scanInterval 1h
	make_repository london/git/fork.git 1
	give_token london forker push fork
	start_site london
	lfs_work "$(url_as dev london r)"
	lfs_commit a.bin 70000
	git -C work push -q origin main
	git -C work push -q -f "$(url_as forker london fork)" main 2>push || fail "$(cat push)"
	wait_until 10 is_logged 2 london blob.put
	[ "$(at london events | grep -c '"kind":"lfs"')" -eq 1 ]
	lfs_clone "$(url_as forker london fork)" clone
	cmp work/a.bin clone/a.bin
	(cd clone && git lfs fsck)
	# The one goes, the other keeps it.
	remove_repository london/git/r.git
	report_removed london r
	lfs_clone "$(url_as forker london fork)" clone2
	cmp work/a.bin clone2/a.bin
}

tap_test "branches, tags and all other refs name objects, at both sites" every_ref_names_objects
tap_test "what was forced away is not named any more" what_was_forced_away_is_not_named
tap_test "what is made anew under a name has no objects of the one before" a_repository_removed_takes_its_objects_along
tap_test "what was put in a repository's place unseen has no claim to its objects" a_repository_put_in_its_place_has_no_claim
tap_test "a second repository with the same history gets the objects by a push" a_second_repository_with_the_same_history
tap_done
