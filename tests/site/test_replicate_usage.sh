#!/usr/bin/env bash
# How the program is called: mistakes are told with what to do, under the right exit
# status; checksums are those that others compute; JSON is JSON.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"

# Ends with STATUS, says what is wrong and what to do, and nothing on stdout.
mistake() { # STATUS PATTERN COMMAND...
	local status=$1 pattern=$2
	shift 2
	expect "$status" "$@"
	grep -qE -e "$pattern" err || fail "no \"$pattern\" from $*: $(<err)"
	grep -q 'hint: .' err || fail "no remedy from $*: $(<err)"
	[ ! -s out ] || fail "stdout of $*: $(<out)"
}

make_source() {
	mkdir source
	make_repository source/a.git 4
	git -C source/a.git tag -m annotated v1 main~1
	git -C source/a.git update-ref refs/changes/1/1 main~2
	git -C source/a.git update-ref refs/keep-around/x main~3
	git -C source/a.git symbolic-ref refs/heads/alias refs/heads/main
}

wrong_options_and_arguments() {
	mkdir source
	mistake 2 'unknown command "no-such-command"$' refrelay no-such-command
	mistake 2 '^refrelay: unknown command "stats"; did you mean "status"[?]$' refrelay stats
	mistake 2 '^refrelay: unknown command "hook"; did you mean "hooks"[?]$' refrelay hook
	mistake 2 '^refrelay: unknown command "x"$' refrelay x
	mistake 2 option refrelay --no-such-option
	mistake 2 option refrelay replicate --no-such-option source dest
	mistake 2 'SOURCE and DEST' refrelay replicate
	mistake 2 'SOURCE and DEST' refrelay replicate source
	mistake 2 'SOURCE and DEST' refrelay replicate source dest more
	mistake 2 empty refrelay replicate '' dest
	mistake 2 empty refrelay replicate source ''
	for jobs in 0 x '' -1 257 1x 99999999999999999999; do
		mistake 2 'jobs' refrelay replicate --jobs "$jobs" source dest
	done
	mistake 2 'secret-file' refrelay replicate --secret-file f source dest
	mistake 2 'ca-file' refrelay replicate --ca-file f source dest
	mistake 2 . refrelay lease
	mistake 2 . refrelay lease steal x
	mistake 2 . refrelay lease list x --directory source
	mistake 2 . refrelay checksum
	mistake 2 . refrelay checksum a b
	mistake 2 . refrelay config
	mistake 2 . refrelay config set a b
	mistake 2 . refrelay -c
	mistake 2 'ssh://' refrelay replicate ssh://example.com/ dest
	mistake 2 'password' refrelay replicate https://user:secret@example.com/ dest
	fails test -e dest
}

what_is_not_built_refuses() {
	local command

	for command in promote demote; do
		expect 2 refrelay "$command"
		grep -q "$command.*not implemented yet" err || fail "$command says: $(<err)"
		fails test -s out
	done
}

commands=(replicate checksum lease config serve check status repository changed hooks events mirror)

# The configuration is not even read.
each_command_refuses_what_it_does_not_know() {
	local command name

	for command in "${commands[@]}"; do
		mistake 2 "refrelay $command: unknown option --no-such-option" \
			refrelay "$command" --no-such-option
		mistake 2 "refrelay $command: unknown option --hel" refrelay "$command" --hel
	done
	for command in serve check status; do
		mistake 2 'expected no arguments' refrelay "$command" something
	done
	mistake 2 'list, show' refrelay repository
	mistake 2 'unknown subcommand' refrelay repository copy r
	mistake 2 'at least one NAME' refrelay repository show
	mistake 2 'unknown option --stale' refrelay repository list --stale
	mistake 2 '--state takes S' refrelay repository list --state
	mistake 2 '--all=1 takes no value' refrelay repository list --all=1
	mistake 2 '"good" is not a valid state' refrelay repository list --state good
	mistake 2 'not both' refrelay repository list --all r
	for name in sync resync reverify remove; do
		mistake 2 "$name takes NAME" refrelay repository "$name"
		mistake 2 'not both' refrelay repository "$name" --failed r
	done
	mistake 2 'names of repositories' refrelay changed
	mistake 2 'one NAME' refrelay changed --stdin a b
	mistake 2 'REF OLD NEW' refrelay changed --ref refs/heads/main a
	mistake 2 'install, remove or list' refrelay hooks
	mistake 2 'install, remove or list' refrelay hooks update
	mistake 2 'names and --all cannot be combined' refrelay hooks list --all a
	mistake 2 'arguments' refrelay events 5
	for name in x -1 '' 99999999999999999999; do
		mistake 2 'number' refrelay events --after "$name"
	done
}

# One that is missing, or says too little, is told by its name.
commands_that_want_a_configuration_say_so() {
	local command

	printf '[site]\n\tname = paris\n' >few.conf
	for command in serve status check events 'repository list' 'changed a' 'hooks list --all'; do
		# shellcheck disable=SC2086
		mistake 2 'missing.conf' refrelay -c missing.conf $command
		# shellcheck disable=SC2086
		mistake 2 'site.repositories is not set' refrelay -c few.conf $command
	done
}

help_is_there_for_each_command() {
	local command

	expect 0 refrelay --help
	for command in "${commands[@]}"; do
		grep -q "$command" out
		"$REFRELAY" "$command" --help >help 2>err
		grep -q "^usage: refrelay $command" help
		[ "$(grep -c . help)" -ge 2 ]
		fails test -s err
	done
	expect 0 refrelay replicate --help
	for option in --delete --force --jobs --json --no-progress --verbose; do
		grep -q -- "$option" out
	done
}

roots_that_cannot_be() {
	make_source
	echo text >file
	mkdir other
	mistake 4 missing refrelay replicate missing dest
	mistake 2 'file' refrelay replicate file dest
	mistake 2 'file' refrelay replicate source file
	mistake 2 'itself a repository' refrelay replicate source/a.git dest
	mistake 2 'inside each other' refrelay replicate source source/inside
	mistake 2 'inside each other' refrelay replicate source source
	mistake 2 'inside each other' refrelay replicate source source/../source/.
	mkdir -p outer
	mv source outer
	mistake 2 'inside each other' refrelay replicate outer/source outer
	ln -s outer/source link
	mistake 2 'inside each other' refrelay replicate link outer/source/x
	fails test -e dest
	fails test -e outer/source/x
	fails test -e outer/.refrelay
	expect 0 refrelay replicate outer/source outer/source-2
	cp -r outer/source/a.git repository.git
	mistake 2 'itself a repository' refrelay replicate outer/source repository.git
	expect 0 refrelay replicate outer/source deep/down/there
	equal_trees outer/source deep/down/there
}

paths_of_all_sorts() {
	make_source
	run 0 created=1
	mkdir 'with space'
	mv source 'with space/-source'
	cd 'with space'
	expect 0 refrelay replicate -- -source ./-dest
	expect 0 refrelay replicate ./-source// "$TEST_DIR/with space/-dest/"
	grep -q '1 unchanged' out
	ln -s -- -source link
	expect 0 refrelay replicate link link-dest
	cd ..
	equal_trees 'with space/-source' 'with space/-dest'
	equal_trees 'with space/-source' 'with space/link-dest'
}

an_empty_source_is_well() {
	mkdir source
	run 0 total=0
	expect 0 refrelay replicate source dest
	grep -q '^0 repositories' out
}

a_bad_configuration_names_file_and_line() {
	printf '[site]\n\tname = paris\n\trepositorys = /srv/git\n' >bad.conf
	expect 2 refrelay -c bad.conf config list
	grep -q 'bad.conf:3: .*repositorys.* repositories?' err
	printf '[site]\n\tname = paris\n[leese]\n\tttl = 30s\n' >bad.conf
	expect 2 refrelay -c bad.conf config list
	grep -q 'bad.conf:4: .*lease.?' err
	printf '[site\n' >bad.conf
	expect 2 refrelay -c bad.conf config list
	grep -q 'bad.conf:1' err
	mistake 2 'missing.conf' refrelay -c missing.conf config list
	printf '[site]\n\tname = paris\n\trepositories = /srv/git\n' >good.conf
	expect 0 refrelay -c good.conf config get site.name
	grep -qx paris out
	REFRELAY_CONFIG=good.conf expect 0 refrelay config list
	grep -q 'paris' out
	expect 4 refrelay -c good.conf config get site.data
	grep -q 'site.data is not set' err
	expect 4 refrelay -c good.conf config get secondary.rome.example.secretfile
	grep -q 'secondary.rome.example.secretfile is not set' err
	mistake 4 'no such key: foo.bar' refrelay -c good.conf config get foo.bar
	mistake 4 'no such key: site' refrelay -c good.conf config get site
	mistake 4 'no such key: secondary.enabled' refrelay -c good.conf config get secondary.enabled
	expect 0 refrelay -c good.conf config list --json
	python3 -m json.tool out >/dev/null
	mistake 2 'site.data' refrelay -c good.conf lease list
}

# What the value of a setting is, says its JSON: value, file, line.
setting() {
	refrelay -c some.conf config get --json "$1" |
		python3 -c 'import json,sys
o = json.load(sys.stdin); print(o["value"], o["file"], o["line"])'
}

what_is_not_set_has_its_default() {
	printf '[site]\n\trepositories = /srv/git\n[lease]\n\twait = 5s\n[blob "lfs"]\n\tpath = /srv/lfs\n' >some.conf
	[ "$(setting lease.wait)" = '5s some.conf 4' ]
	[ "$(setting lease.TTL)" = '30s None None' ]
	[ "$(setting blob.lfs.layout)" = 'plain None None' ]
	[ "$(refrelay -c some.conf config get site.node)" = "$(hostname)" ]
	mistake 4 'blob.uploads.layout is not set' refrelay -c some.conf config get blob.uploads.layout
	mistake 4 'site.data is not set' refrelay -c some.conf config get site.data
	expect 0 refrelay -c some.conf config list
	grep -qx 'http.listen=127.0.0.1:8418' out
	[ "$(grep -c '^lease.wait=' out)" = 1 ]
	fails grep -q '^remote\|^replication\|^gerrit' out
	printf '[lease]\n\tcompatibility = docora\n' >>some.conf
	[ "$(setting lease.ttl)" = '120s None None' ]
	printf '[replication]\n\tdistributionInterval = 1s\n' >>some.conf
	[ "$(setting replication.maxRetries)" = '0 None None' ]
	printf '[replication]\n\tconfig = /etc/gerrit.config\n' >>some.conf
	mistake 4 'replication.maxRetries is not set' refrelay -c some.conf config get replication.maxRetries
}

what_is_not_built_is_refused_by_each_command() {
	local command
	mkdir git data
	printf '[site]\n\tname = a\n\trole = primary\n\trepositories = %s\n\tdata = %s\n' \
		"$PWD/git" "$PWD/data" >later.conf
	printf '[database]\n\turl = postgresql://x/y\n' >>later.conf
	for command in 'repository list' 'lease list' status 'changed one' 'hooks list' events; do
		# shellcheck disable=SC2086
		mistake 2 'database.url: this is not implemented yet' refrelay -c later.conf $command
	done
	[ -z "$(ls data)" ]
	expect 1 refrelay -c later.conf check
	grep -q '^FAIL .*database.url: this is not implemented yet; hint' out
	expect 0 refrelay -c later.conf config list
}

check_says_what_is_wrong_and_what_to_do() {
	mkdir git data
	chmod 700 data
	git init -q --bare git/two
	git init -q --bare git/two.git
	printf '[site]\n\tname = a\n\trole = standalone\n\trepositories = %s\n\tdata = %s\n' \
		"$PWD/git" "$PWD/data" >bad.conf
	expect 1 refrelay -c bad.conf check
	grep -q '^FAIL   repositories  two.*two' out
	for setting in '[sync]\n\tscanInterval = 5x' '[http]\n\turl = ftp://x' '[http]\n\turl = nonsense' \
		'[http]\n\turl = https://'; do
		cp bad.conf worse.conf
		# shellcheck disable=SC2059
		printf "$setting\n" >>worse.conf
		expect 1 refrelay -c worse.conf check
		grep -q '^FAIL   configuration worse.conf:7: .*; hint: .' out
	done
	printf '[sync]\n\tscanIntervall = 5s\n' >>bad.conf
	expect 2 refrelay -c bad.conf check --json
	python3 -c 'import json
o = json.load(open("out")); f = o["findings"][0]
assert o["wrong"] == 1 and f["verdict"] == "wrong" and "scanIntervall" in f["finding"] and f["remedy"], o'
}

checksum() {
	refrelay checksum --directory source "$@"
}

# As Gitaly does: the exclusive or of the SHA-1 of each line that it counts.
gitaly_by_git() { # PATH
	{
		printf '%s HEAD\n' "$(git -C "$1" rev-parse HEAD)"
		git -C "$1" for-each-ref --format='%(objectname) %(refname)' |
			grep -E 'HEAD|refs/(heads|tags|keep-around|merge-requests|environments|notes)/'
	} | while IFS= read -r line; do
		printf '%s' "$line" | sha1sum | cut -d ' ' -f 1
	done | python3 -c '
import sys
total = 0
for line in sys.stdin:
    total ^= int(line, 16)
print(total.to_bytes(20, "big").hex())'
}

grokmirror_by_git() { # PATH
	git -C "$1" show-ref | sha1sum | cut -d ' ' -f 1
}

checksums_are_those_of_others() {
	make_source
	expect 0 checksum --gitaly a
	test "$(<out)" = "$(gitaly_by_git source/a.git)"
	expect 0 checksum --grokmirror a
	test "$(<out)" = "$(grokmirror_by_git source/a.git)"
	git -C source/a.git update-ref --no-deref HEAD main~2
	expect 0 checksum --gitaly a.git
	test "$(<out)" = "$(gitaly_by_git source/a.git)"
	mkdir -p 'source/with space'
	make_repository 'source/with space/b' 3 sha256
	expect 0 checksum --grokmirror 'with space/b'
	test "$(<out)" = "$(grokmirror_by_git 'source/with space/b')"
}

the_own_checksum_covers_all() {
	local before

	make_source
	git -C source/a.git branch twin main
	expect 0 checksum a
	before=$(<out)
	git -C source/a.git symbolic-ref HEAD refs/heads/twin
	expect 0 checksum a
	test "$(<out)" != "$before"
	git -C source/a.git symbolic-ref HEAD refs/heads/main
	expect 0 checksum a
	test "$(<out)" = "$before"
	git -C source/a.git update-ref refs/changes/1/1 main
	expect 0 checksum a
	test "$(<out)" != "$before"
	before=$(<out)
	run 0 created=1
	expect 0 refrelay checksum --directory dest a
	test "$(<out)" = "$before"
	expect 0 checksum --json a
	python3 - "$before" <<-'END'
		import json, sys
		data = json.load(open("out"))
		assert data["checksum"] == sys.argv[1], data
		assert data["name"] == "a" and data["refs"] == 6 and data["empty"] is False, data
	END
}

repositories_without_a_checksum() {
	make_source
	git init -q --bare source/empty.git
	expect 0 checksum empty
	test -s out
	expect 0 checksum --json empty
	grep -q '"empty":true' out
	expect 4 checksum absent
	grep -q absent err
	fails test -s out
	echo 1234567890123456789012345678901234567890 >source/a.git/refs/heads/dangling
	mistake 1 'refs/heads/dangling' checksum a
	for name in .. ../source/a a/../a /etc '' a//b .git a/.git ./a a/; do
		mistake 2 "not a repository's name" checksum "$name"
	done
	expect 4 refrelay checksum --directory no-such-place a
}

# The whole of it, by a reader of JSON that is not ours.
json_is_json() {
	make_source
	make_repository source/bad.git 2
	make_repository $'source/\xe6\x97\xa5 "quoted" \\.git' 2
	make_repository source/held.git 2
	cp -r source/held.git $'source/latin-\xe9.git'
	run 3 created=4
	rm source/bad.git/HEAD
	add_commits dest/held.git refs/heads/main 1
	add_commits source/a.git refs/heads/main 1
	run 3 updated=1 held=1 failed=1 left_out=1 unchanged=1
	[ ! -s err ]
	python3 - <<'END'
import json
data = json.load(open("out", encoding="utf-8"))
rows = {row["name"]: row for row in data["repositories"]}
assert rows["a"]["outcome"] == "updated" and rows["a"]["refs_changed"] == 1, rows
assert rows["a"]["bytes"] > 0, rows
assert rows["bad"]["failure_class"] == "corrupt" and rows["bad"]["remedy"], rows
assert rows["held"]["held_reason"] and rows["held"]["remedy"], rows
assert rows['日 "quoted" \\']["outcome"] == "unchanged", rows
assert isinstance(data["duration"], float) and isinstance(data["bytes"], int), data
assert data["total"] == 5 == len(rows) + len(data["findings"]), data
assert data["source"].endswith("/source") and data["dest"].endswith("/dest"), data
ends = ("not_reached", "unchanged", "created", "updated", "deleted", "held", "failed")
for end in ends:
    count = sum(row["outcome"] == end for row in rows.values())
    assert data[end] == count, (end, data)
assert data["findings"][0]["left_out"] is True, data
END
}

# No colour, no bar, where there is no terminal; a closed stdout is an error.
output_is_for_files_too() {
	make_source
	expect 0 refrelay replicate source dest
	fails grep -q $'\e\|\r' out err
	[ ! -s err ]
	test "$(wc -l <out)" -eq 1
	expect 0 refrelay replicate --verbose source dest
	fails grep -q $'\e\|\r' err
	expect 1 says_it_to_nobody
	grep -q 'cannot write the output' err
	expect 1 says_it_to_nobody --json
	grep -q 'cannot write the output' err
}

says_it_to_nobody() { # OPTION...
	refrelay replicate "$@" source dest >&-
}

# The next file that is opened would take the number, and be read, or written to.
closed_files_are_not_taken_for_others() {
	make_source
	expect 0 refrelay replicate source dest <&-
	equal_trees source dest
	expect 1 sh -c 'exec "$0" replicate source dest >&-' "$REFRELAY"
	expect 0 sh -c 'exec "$0" replicate source dest 2>&-' "$REFRELAY"
	expect 0 sh -c 'exec "$0" replicate source more <&- 2>&-' "$REFRELAY"
	equal_trees source more
}

tap_test "wrong options and arguments" wrong_options_and_arguments
tap_test "what is not built refuses" what_is_not_built_refuses
tap_test "each command refuses what it does not know" \
	each_command_refuses_what_it_does_not_know
tap_test "commands that want a configuration say so" \
	commands_that_want_a_configuration_say_so
tap_test "help is there for each command" help_is_there_for_each_command
tap_test "roots that cannot be" roots_that_cannot_be
tap_test "paths of all sorts" paths_of_all_sorts
tap_test "an empty source is well" an_empty_source_is_well
tap_test "a bad configuration names file and line" a_bad_configuration_names_file_and_line
tap_test "what is not set has its default" what_is_not_set_has_its_default
tap_test "what is not built is refused by each command" \
	what_is_not_built_is_refused_by_each_command
tap_test "check says what is wrong, and what to do" check_says_what_is_wrong_and_what_to_do
tap_test "checksums are those that others compute" checksums_are_those_of_others
tap_test "our own checksum covers all" the_own_checksum_covers_all
tap_test "repositories without a checksum" repositories_without_a_checksum
tap_test "JSON is JSON" json_is_json
tap_test "output is for files, too" output_is_for_files_too
tap_test "closed files are not taken for others" closed_files_are_not_taken_for_others
tap_done
