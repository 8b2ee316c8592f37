#!/usr/bin/env bash
# A repository of the primary's own that is damaged is not called verified once somebody met
# that, whoever it was; it is again when it is whole.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/truth.sh"
. "$TESTS/lib/pushed.sh"

# Nobody looks but who is asked to.
begin_damage() {
	local name
	begin
	for name in one two three; do
		git -C "london/git/$name.git" repack -adq
	done
	set_conf london sync.scanInterval 1h
	set_conf paris http.anonymousRead true
	give_token london dev push
	start_sites
	wait_until 20 all_say_it
}

lose_packs() { # REPOSITORY
	mkdir -p away
	mv london/git/"$1".git/objects/pack/* away/
}

restore_packs() { # REPOSITORY
	mv away/* london/git/"$1".git/objects/pack/
}

# By all that say it, with the repository and what to do.
is_told() { # REPOSITORY
	says_nothing_of_it london || return
	grep -q "e.g. $1: " london/says || return
	[ "$(status_of london in_sync)" = false ] || return
	curl -fsS "$(site_url london)/readyz" | grep -q '"in_sync":false' || return
	metric_is london refrelay_in_sync 0 || return
	curl -fsS "$(site_url london)/metrics" >metrics || return
	grep -q '^refrelay_failing{kind="repository",class="corrupt"} 1$' metrics || return
	at london repository list --failed | grep -q "^failing  *$1  (.*restore"
}

ends_when_it_is_whole() { # REPOSITORY
	restore_packs "$1"
	at london repository reverify "$1"
	wait_until 10 all_say_it
}

a_reader() {
	local version
	begin_damage
	for version in 0 1 2; do
		git -c "protocol.version=$version" clone -q "$(site_url london)/one.git" got
		rm -rf got
		lose_packs one
		expect 128 git -c "protocol.version=$version" clone -q \
			"$(site_url london)/one.git" got
		grep 'remote error: the repository is damaged: git does not find the object .*, which a ref names' err
		wait_until 10 is_told one
		wait_until 10 was_logged london repository.doubted repo=one
		ends_when_it_is_whole one
	done
}

# An object that no tip is: git finds it out in the middle.
a_reader_who_meets_the_history() {
	local oid
	begin_damage
	oid=$(git -C london/git/two.git rev-parse main~1)
	git -C london/git/two.git repack -adq
	mv london/git/two.git/objects/pack/*.pack whole.pack
	rm -f london/git/two.git/objects/pack/*
	git -C london/git/two.git unpack-objects -q <whole.pack
	mv "london/git/two.git/objects/${oid:0:2}/${oid:2}" object
	fails git clone -q "$(site_url london)/two.git" got
	wait_until 10 is_told two
	# Tried again by itself.
	mv object "london/git/two.git/objects/${oid:0:2}/${oid:2}"
	wait_until 40 all_say_it
}

a_secondary() {
	begin_damage
	lose_packs three
	at paris repository remove three
	wait_until 10 was_logged london repository.doubted repo=three
	wait_until 10 is_told three
	restore_packs three
	at london repository reverify three
	at paris repository sync three # which waits to try again
	wait_until 10 all_say_it
}

# Its refs are told from memory, and git finds no object to build on.
a_push() {
	begin_damage
	make_clone "$(site_url london)/one.git" pushes
	commit_in pushes
	lose_packs one
	fails git -C pushes push -q "$(url_as dev london one)" HEAD:refs/heads/main
	wait_until 10 is_told one
	ends_when_it_is_whole one
}

a_push_to_a_destination() {
	begin
	set_conf london sync.scanInterval 1h
	set_conf london remote.bonn.url "$PWD/bonn/\${name}.git"
	set_conf london remote.bonn.replicationDelay 0
	mkdir bonn
	start_sites
	wait_until 20 says_in_sync paris
	mv london/git/three.git/objects objects
	mkdir london/git/three.git/objects
	at london push start three || true
	wait_until 10 was_logged london repository.doubted repo=three
	wait_until 10 is_told three
}

# As where a file server is away, or somebody took the rights.
a_check_of_what_cannot_be_looked_at() {
	local name
	for name in config packed-refs hooks; do
		[ ! -e "london/git/one.git/$name" ] || mv "london/git/one.git/$name" away
		ln -s "$name" "london/git/one.git/$name"
		expect 1 at london check
		cp out "said-of-$name"
		rm "london/git/one.git/$name"
		[ ! -e away ] || mv away "london/git/one.git/$name"
	done
	grep -q '^FAIL *formats *1 repository could not be looked at, e.g. one: .*config' said-of-config
	fails grep -q '^ok *formats ' said-of-config
	grep -q '^FAIL *repositories *1 repository could not be looked at, e.g. one: ' said-of-packed-refs
	grep -q '^ok *repositories *2 have the objects that their refs point to' said-of-packed-refs
	grep -q '^FAIL *hooks *1 repository could not be looked at, e.g. one: ' said-of-hooks
	expect 0 at london check
}

a_check() {
	begin_damage
	at london check >good || true
	grep -q 'repositories .*3 have the objects that their refs point to' good
	grep -q '^ok *formats ' good
	a_check_of_what_cannot_be_looked_at
	lose_packs two
	expect 1 at london check
	grep -q 'FAIL   repositories .*1 of 3 repositories lack objects .* two: ' out
	wait_until 10 is_told two
	expect 1 at london check
	grep -q 'FAIL   repositories .*1 of 3 repositories lack objects .* two: ' out
	ends_when_it_is_whole two
}

# What looks like damage to git, and is not.
a_client_that_asks_for_nonsense() {
	local nobody version began most=3 wait
	begin_damage
	nobody=$(printf '1%.0s' {1..40})
	git init -q --bare asks.git
	for version in 0 1 2; do
		expect 128 git -C asks.git -c "protocol.version=$version" fetch \
			"$(site_url london)/one.git" "$nobody"
	done
	fails was_logged london repository.doubted
	all_say_it
	began=$SECONDS
	for version in 1 2 3 4 5 6; do
		rm -rf got
		fails git clone -q --bare "--filter=sparse:oid=$nobody" "$(site_url london)/one.git" got
		wait_until 20 says_in_sync london
	done
	# Three count at once, and further ones after 5, 10 and 20 s.
	for wait in 5 15 35; do
		[ $((SECONDS - began)) -lt "$wait" ] || most=$((most + 1))
	done
	[ "$(logged london repository.doubted)" -le "$most" ]
	fails was_logged london verify.failed
}

tap_test "a reader meets a primary's repository without its packs" a_reader
tap_test "a reader meets a hole in a primary's history" a_reader_who_meets_the_history
tap_test "a secondary meets a primary's repository without its packs" a_secondary
tap_test "who pushes meets a primary's repository without its packs" a_push
tap_test "push replication meets a primary's repository without its objects" a_push_to_a_destination
tap_test "a check looks for what refs name" a_check
tap_test "who asks for nonsense causes no alarm, or few" a_client_that_asks_for_nonsense
tap_done
