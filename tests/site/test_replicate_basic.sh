#!/usr/bin/env bash
# `refrelay replicate` from one directory to another: equal after each run, by stock git.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"

# A small tree in ./source: branches and tags, notes, odd names, an empty repository and
# one with a detached HEAD.
make_source() {
	local odd

	mkdir source
	make_repository source/team/app.git 40
	add_commits source/team/app.git refs/heads/topic 5 'refs/heads/main~10'
	add_commits source/team/app.git $'refs/heads/gr\xc3\xb6\xc3\x9fe/\xe6\x97\xa5\xe6\x9c\xac' 2
	add_commits source/team/app.git $'refs/heads/latin-\xe9' 2
	git -C source/team/app.git tag light main~3
	git -C source/team/app.git tag -m 'First release' v1.0 main~2
	git -C source/team/app.git -c advice.nestedTag=false tag -m 'A tag of a tag' v1.0-again v1.0
	git -C source/team/app.git notes add -m 'Reviewed' main
	git -C source/team/app.git symbolic-ref refs/heads/alias refs/heads/main
	odd=refs/changes/a/b/c/d/e/f/g/h/i/j/k
	git -C source/team/app.git update-ref "$odd" main~5
	make_repository source/plain 3
	make_repository source/detached.git 4
	git -C source/detached.git update-ref --no-deref HEAD HEAD~2
	git init -q --bare source/empty.git
	make_repository source/unborn.git 2
	git -C source/unborn.git symbolic-ref HEAD refs/heads/not-yet
	make_repository source/sha256.git 3 sha256
}

change_source() {
	local app=source/team/app.git

	add_commits "$app" refs/heads/main 3
	add_commits "$app" refs/heads/new 1 refs/heads/main~1
	git -C "$app" update-ref -d refs/heads/topic
	git -C "$app" update-ref $'refs/heads/latin-\xe9' refs/heads/main~20
	git -C "$app" tag -d light
	git -C "$app" symbolic-ref HEAD refs/heads/new
	echo "An application" >"$app/description"
	git -C source/detached.git symbolic-ref HEAD refs/heads/main
	add_commits source/empty.git refs/heads/main 2
}

# Whether the JSON in ./out has these values: KEY VALUE...
json_has() {
	python3 -m json.tool out >/dev/null
	python3 - "$@" <<-'END'
		import json, sys
		data = json.load(open("out"))
		pairs = zip(sys.argv[1::2], sys.argv[2::2])
		wrong = [f"{k} is {data[k]}, not {v}" for k, v in pairs if str(data[k]) != v]
		sys.exit("; ".join(wrong) or 0)
	END
}

a_first_run_makes_an_equal_tree() {
	make_source
	expect 0 refrelay replicate source dest
	equal_trees source dest
	grep -q '6 repositories: 6 created, 0 updated, 0 unchanged' out
}

# Objects and refs of the copies, with what tells when they were written.
list_what_counts() {
	find dest \( -name '*.pack' -o -name packed-refs -o -name HEAD \) \
		-printf '%p %i %T@\n' | sort
}

a_second_run_finds_nothing_to_do() {
	make_source
	expect 0 refrelay replicate source dest
	list_what_counts >before
	expect 0 refrelay replicate --json source dest
	json_has total 6 unchanged 6 created 0 updated 0 failed 0 held 0
	list_what_counts >after
	diff before after
	equal_trees source dest
}

a_change_is_carried_over() {
	make_source
	expect 0 refrelay replicate source dest
	change_source
	fails equal_trees source dest
	expect 0 refrelay replicate --json source dest
	json_has total 6 updated 3 unchanged 3 failed 0
	equal_trees source dest
}

a_copy_that_somebody_changed_is_made_equal_again() {
	make_source
	expect 0 refrelay replicate source dest
	git -C dest/plain.git update-ref -d refs/heads/main
	git -C dest/team/app.git update-ref refs/heads/topic refs/heads/main~30
	fails equal_trees source dest
	expect 0 refrelay replicate source dest
	equal_trees source dest
}

what_the_source_lacks_goes_only_with_delete() {
	make_source
	expect 0 refrelay replicate source dest
	rm -r source/plain
	expect 0 refrelay replicate source dest
	test -d dest/plain.git
	expect 0 refrelay replicate --delete --json source dest
	json_has total 6 deleted 1 unchanged 5
	equal_trees source dest
}

the_source_is_only_read() {
	make_source
	find source -printf '%p %i %m %s %T@\n' | sort >before
	expect 0 refrelay replicate source dest
	expect 0 refrelay replicate source dest
	find source -printf '%p %i %m %s %T@\n' | sort >after
	diff before after
}

mistakes_in_the_call_are_status_2() {
	mkdir source
	expect 2 refrelay
	expect 2 refrelay no-such-command
	expect 2 refrelay --no-such-option
	expect 2 refrelay replicate
	expect 2 refrelay replicate source
	expect 2 refrelay replicate source dest more
	expect 2 refrelay replicate --no-such-option source dest
	expect 2 refrelay replicate --jobs 0 source dest
	expect 2 refrelay replicate --jobs many source dest
	expect 2 refrelay replicate source source/inside
	grep -q 'hint:' err
	fails test -e dest
}

help_is_status_0_and_goes_to_stdout() {
	expect 0 refrelay --help
	grep -q replicate out
	expect 0 refrelay replicate --help
	grep -q -- --jobs out
	fails test -s err
	expect 0 refrelay --version
	cp out version
	expect 0 refrelay -V
	cmp version out
	expect 0 refrelay version
	cmp version out
	expect 2 refrelay version again
	expect 0 refrelay version --json
	fails grep '"built_with":""' out
	grep -q '"built_with":null' out
	expect 0 refrelay --help
	cp out help
	expect 0 refrelay help
	cmp help out
	expect 0 refrelay replicate --help
	cp out help
	expect 0 refrelay help replicate
	cmp help out
	expect 2 refrelay help nothing
	grep -q 'unknown command "nothing"' err
	expect 2 refrelay help replicate serve
}

a_source_that_is_not_there_fails_with_a_sentence() {
	expect 4 refrelay replicate missing dest
	grep -q missing err
	fails test -d dest/missing
}

one_broken_repository_does_not_stop_the_others() {
	make_source
	rm -r source/plain/objects/*
	expect 3 refrelay replicate --json source dest
	json_has total 6 created 5 failed 1
	rm -rf source/plain
	equal_trees source dest
}

tap_test "a first run makes an equal tree" a_first_run_makes_an_equal_tree
tap_test "a second run finds nothing to do" a_second_run_finds_nothing_to_do
tap_test "a change is carried over" a_change_is_carried_over
tap_test "a copy that somebody changed is made equal again" \
	a_copy_that_somebody_changed_is_made_equal_again
tap_test "what the source lacks goes only with --delete" \
	what_the_source_lacks_goes_only_with_delete
tap_test "the source is only read" the_source_is_only_read
tap_test "mistakes in the call are status 2" mistakes_in_the_call_are_status_2
tap_test "help is status 0 and goes to stdout" help_is_status_0_and_goes_to_stdout
tap_test "a source that is not there fails with a sentence" \
	a_source_that_is_not_there_fails_with_a_sentence
tap_test "one broken repository does not stop the others" \
	one_broken_repository_does_not_stop_the_others
tap_done
