#!/usr/bin/env bash
# What is wrong at the primary is told at the primary, does not reach good copies, and
# hinders no other repository.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/verify.sh"

# Rows as if they had been verified some minutes ago.
age_rows() { # SITE TABLE
	python3 - "$1" "$2" <<-'END'
		import glob, sqlite3, sys
		[path] = glob.glob(sys.argv[1] + "/data/*.db")
		with sqlite3.connect(path, timeout=10) as db:
		    db.execute(f"UPDATE {sys.argv[2]} SET verified_at = verified_at - 600000")
	END
}

has_main_of() { # COPY REPOSITORY
	[ "$(git -C "$1" rev-parse main)" = "$(git -C "$2" rev-parse main)" ]
}

# Nobody told of it and no scan came by: who reads the repository tells of it.
a_change_that_nobody_told_is_found_when_somebody_looks() {
	make_sites
	set_conf london sync.scanInterval 1h
	make_repository london/git/asked.git 5
	make_repository london/git/mended.git 5
	make_repository london/git/still.git 5
	start_verified

	# An operator at the secondary asks.
	git -C london/git/asked.git update-ref refs/heads/main main~1
	expect 0 at paris repository resync --wait asked
	has_main_of paris/git/asked.git london/git/asked.git
	row_is london asked generation 2
	row_is paris asked retry_count 0

	# The copy is found to differ, and the primary looks, too: what it finds is news, so
	# that nothing waits for a retry.
	age_rows london origin
	git -C london/git/mended.git update-ref refs/heads/main main~2
	in_copy mended.git update-ref refs/heads/main main~4
	wait_until 20 has_main_of paris/git/mended.git london/git/mended.git
	converge
	wait_until 10 was_logged paris verify.mismatch
	row_is london mended generation 2
	row_is paris mended generation 2
	row_is london still generation 1
	[ "$(logged london watch.scanned)" -le 1 ]

	# Once a minute at most.
	in_copy still.git update-ref refs/heads/main main~1
	wait_until 20 has_main_of paris/git/still.git london/git/still.git
	converge
	row_is london still generation 1
}

the_primary_verifies_itself_and_finds_changes() {
	make_sites
	set_conf london sync.scanInterval 1h
	set_conf london sync.reverifyInterval 2s
	make_repository london/git/r.git 5
	start_sites
	converge
	git -C london/git/r.git update-ref refs/heads/main main~1
	wait_until 10 has_main_of paris/git/r.git london/git/r.git
	converge
	[ "$(logged london watch.scanned)" -le 1 ]
}

# Neither a hook nor a secondary that reads refs says anything of objects.
what_is_to_be_verified_is_so_until_its_objects_were_read() {
	make_sites
	set_conf london sync.verificationCapacity 0
	make_repository london/git/doubted.git 5
	make_repository london/git/fine.git 5
	start_verified
	# Asked for although it was changed just now.
	age_rows london origin
	add_commits london/git/doubted.git refs/heads/main 1
	wait_until 20 has_main_of paris/git/doubted.git london/git/doubted.git
	expect 0 at london repository reverify doubted
	row_is london doubted verification pending
	add_commits london/git/doubted.git refs/heads/main 1
	at london changed doubted >changed
	wait_until 20 has_main_of paris/git/doubted.git london/git/doubted.git
	row_is london doubted verification pending
	row_is london fine verification succeeded
	expect 3 at london status
	grep -q '2 repositories (1 not verified yet)' out

	set_conf london sync.verificationCapacity 2
	kill -HUP "$(site_pid london)"
	wait_until 20 row_is london doubted verification succeeded
	wait_until 20 at london status
	# What was damaged is verified when it can be read again, without a wait.
	mv london/git/fine.git/HEAD away
	expect 1 at london changed fine
	row_is london fine verification failed
	mv away london/git/fine.git/HEAD
	expect 0 at london changed fine
	wait_until 20 row_is london fine verification succeeded
}

git_does_when_it_verifies() { # COMMAND
	mkdir -p shim
	printf '#!/bin/sh\ncase "$*" in *verify-pack*|*rev-list*) %s ;; esac\nexec %s "$@"\n' \
		"$1" "$(command -v git)" >shim/new
	chmod +x shim/new
	mv shim/new shim/git
}

# Not what was found before, if it was put off; and what is gone was not verified.
who_waits_for_a_verification_gets_its_result() {
	local waiter
	make_sites
	make_repository london/git/lost.git 5
	make_repository london/git/gone.git 5
	git_does_when_it_verifies :
	start_site london PATH="$PWD/shim:$PATH"
	expect 0 at london repository reverify --wait lost gone
	mv london/git/lost.git/objects/pack away
	expect 1 at london repository reverify --wait lost
	mv away london/git/lost.git/objects/pack
	git_does_when_it_verifies 'kill -KILL $$'
	"$REFRELAY" -c london/refrelay.conf repository reverify --wait lost >waited 2>&1 &
	waiter=$!
	wait_until 20 was_logged london verify.deferred
	sleep 0.5 # it looks each 50 ms
	git_does_when_it_verifies :
	row_is london lost verification failed
	at london repository reverify lost
	wait "$waiter" || fail "$(cat waited)"
	grep -x 'verified 1 repository' waited

	set_conf london sync.verificationCapacity 0
	set_conf london sync.reverifyInterval 1000d
	kill -HUP "$(site_pid london)"
	wait_until 10 was_logged london node.reloaded
	make_repository london/git/late.git 2
	wait_until 20 row_is london late generation 1
	[ "$(sqlite3 london/data/refrelay.db "SELECT verification_due_at - verified_at >
		400 * 86400000 FROM origin WHERE name = 'late'")" = 1 ]
	"$REFRELAY" -c london/refrelay.conf repository reverify --wait gone >waited 2>&1 &
	waiter=$!
	wait_until 10 row_is london gone verification pending
	remove_repository london/git/gone.git
	report_removed london gone >changed
	fails wait "$waiter"
	grep 'gone: it was deleted meanwhile' waited
	fails grep 'verified 1' waited
}

# By status and in the list, each with its reason.
are_told() { # NAME...
	local name
	at london status >said || true
	grep -q "; $# failing[:,] .*e.g. .*list --failed" said || {
		cat said
		return 1
	}
	at london repository list --failed >said
	for name; do
		grep -q "^failing  *$name  (.*[a-z]" said && continue
		cat said
		return 1
	done
}

lose() { # WAY REPOSITORY
	local oid
	chmod -R u+w "$2/objects"
	case $1 in
	pack) printf 'XXXXXXXX' | dd of="$(echo "$2"/objects/pack/*.pack)" bs=1 seek=300 conv=notrunc status=none ;;
	all) rm "$2"/objects/pack/* ;;
	loose)
		oid=$(git -C "$2" rev-parse main:part-1/file-1.txt)
		mv "$2"/objects/pack/*.pack away.pack
		rm "$2"/objects/pack/*
		git -C "$2" unpack-objects -q <away.pack
		printf 'XXXX' | dd of="$2/objects/${oid:0:2}/${oid:2}" bs=1 seek=12 conv=notrunc status=none
		;;
	tip)
		oid=$(git -C "$2" rev-parse main)
		mv "$2"/objects/pack/*.pack away.pack
		rm "$2"/objects/pack/*
		git -C "$2" unpack-objects -q <away.pack
		rm "$2/objects/${oid:0:2}/${oid:2}"
		;;
	esac
}

# Its copies are the only good ones then.
objects_that_the_primary_loses_are_told_there_and_not_followed() {
	local way
	make_sites
	set_conf london sync.reverifyInterval 1s
	for way in pack all loose tip; do
		make_repository "london/git/$way.git" 6
		git -C "london/git/$way.git" repack -adq
		cp -r "london/git/$way.git" "saved-$way.git"
	done
	make_repository london/git/fine.git 3
	start_verified
	for way in pack all loose tip; do
		lose "$way" "london/git/$way.git"
	done
	wait_until 20 are_told pack all loose tip
	are_verified_again paris
	rows_are paris state synced pack all loose tip
	for way in pack all loose tip; do
		equal_repositories "saved-$way.git" "paris/git/$way.git"
	done
	expect 3 at london status
	grep -q '; 4 failing[:,] .*e.g. ' out

	# What is well goes on, also beside it.
	add_commits london/git/fine.git refs/heads/main 2
	wait_until 20 has_main_of paris/git/fine.git london/git/fine.git

	# Once it is mended a person asks, or it is found at the next try.
	for way in pack all loose tip; do
		rm -rf "london/git/$way.git/objects"
		cp -r "saved-$way.git/objects" "london/git/$way.git/objects"
	done
	expect 0 at london repository reverify pack all loose tip
	wait_until 20 status_is london repositories.verification.failed 0
	converge
	wait_until 10 at london status
	for way in pack all loose tip; do
		wait_until 10 is_logged 1 paris sync.done " repo=$way "
	done
}

make_unreadable() { # WAY REPOSITORY
	case $1 in
	shallow) git -C "$2" rev-parse main~1 >"$2/shallow" ;;
	alternates) echo /not/there/objects >"$2/objects/info/alternates" && rm -rf "$2"/objects/pack/* ;;
	head) echo nonsense >"$2/HEAD" ;;
	ref) echo nonsense >"$2/refs/heads/bad" ;;
	packed) printf '# pack-refs with: peeled\nnonsense\n' >"$2/packed-refs" ;;
	config) echo '[core' >>"$2/config" ;;
	reftable)
		git -C "$2" config core.repositoryFormatVersion 1
		printf '[extensions]\n\trefStorage = reftable\n' >>"$2/config"
		;;
	esac
}

unreadable=(shallow alternates head ref packed config reftable)

have_failed() { # NAME...
	rows_are paris state failed "$@" || return
	at paris repository list --failed >said
	[ "$(grep -c '^failing  *[a-z-]*  (.*[a-z]' said)" -ge $# ]
}

# From the first, or later on: then the copy stays as it was.
what_the_primary_cannot_read_is_told_and_hinders_no_other() {
	local way name
	local -a later=("${unreadable[@]/%/-later}")
	make_sites
	set_conf london sync.reverifyInterval 1s
	make_repository template.git 6
	git -C template.git repack -adq
	for way in "${unreadable[@]}"; do
		cp -r template.git "london/git/$way-later.git"
		cp -r template.git "london/git/$way.git"
		make_unreadable "$way" "london/git/$way.git"
	done
	cp -r template.git london/git/fine.git
	start_sites
	wait_until 20 rows_are paris state synced fine "${later[@]}"
	wait_until 20 have_failed "${unreadable[@]}"
	wait_until 20 are_told "${unreadable[@]}"
	for way in "${unreadable[@]}"; do
		[ ! -e "paris/git/$way.git" ]
		[ -n "$(row_of paris "$way" remedy)" ]
	done
	for way in "${unreadable[@]}"; do
		make_unreadable "$way" "london/git/$way-later.git"
	done
	wait_until 20 are_told "${unreadable[@]}" "${later[@]}"
	# Objects are looked for by who needs them: the copy needs none.
	wait_until 20 have_failed shallow-later head-later ref-later packed-later \
		config-later reftable-later
	for way in "${unreadable[@]}"; do
		equal_repositories template.git "paris/git/$way-later.git"
	done
	expect 3 at paris status
	grep -q ' failing[:,] .*e.g. ' out
	row_is paris fine state synced

	# What is put right is copied at once, where refs tell of it; of objects that are back
	# the next try knows.
	for way in "${unreadable[@]}"; do
		for name in "$way" "$way-later"; do
			rm -rf "london/git/$name.git"
			cp -r template.git "london/git/$name.git"
			at london changed "$name" >changed
		done
	done
	at paris repository sync alternates
	converge
}

has_no_row() { # NAME
	local status=0
	at paris repository show "$1" >shown 2>&1 || status=$?
	[ "$status" -eq 4 ]
}

missing_ones() {
	metric paris 'refrelay_syncs_total{kind="repository",state="missing"}'
}

# Asked for before anybody noticed that it is gone: first it is missing, then the
# primary tells that it was deleted.
what_the_primary_has_no_more_is_missing_there() {
	make_sites
	set_conf london sync.scanInterval 1h
	make_repository london/git/gone.git 3
	make_repository london/git/stays.git 3
	start_sites
	converge
	rm -rf london/git/gone.git
	at paris repository sync gone
	wait_until 20 has_no_row gone
	[ "$(missing_ones)" = 1 ]
	[ ! -e paris/git/gone.git ]
	converge
	nothing_is_started
}

# Its rows come one by one then, and what has none yet is not gone.
a_primary_that_lost_its_database_loses_no_copy() {
	local i
	make_sites
	make_repository template.git 3
	for i in $(seq 100); do
		cp -r template.git "london/git/r$i.git"
	done
	start_sites
	converge
	stop_site london
	rm -rf london/data
	start_site london
	wait_until 30 was_logged paris cursor.compares 'reason="another timeline"'
	converge
	fails was_logged paris trash.put
	fails was_logged paris registry.held
	wait_until 10 is_logged 100 paris sync.done result=created
}

tap_test "a change that nobody told is found when somebody looks" \
	a_change_that_nobody_told_is_found_when_somebody_looks
tap_test "the primary verifies itself, and finds changes" \
	the_primary_verifies_itself_and_finds_changes
tap_test "what is to be verified is so until its objects were read" \
	what_is_to_be_verified_is_so_until_its_objects_were_read
tap_test "who waits for a verification gets its result" \
	who_waits_for_a_verification_gets_its_result
tap_test "objects that the primary loses are told there, and not followed" \
	objects_that_the_primary_loses_are_told_there_and_not_followed
tap_test "what the primary cannot read is told, and hinders no other" \
	what_the_primary_cannot_read_is_told_and_hinders_no_other
tap_test "what the primary has no more is missing there" \
	what_the_primary_has_no_more_is_missing_there
tap_test "a primary that lost its database loses no copy" \
	a_primary_that_lost_its_database_loses_no_copy
tap_done
