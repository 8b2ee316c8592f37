#!/usr/bin/env bash
# What is wrong with a repository at the primary is told as such at the secondary: with
# its class, its sentence and what to do there.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

make_pair() {
	make_sites
	make_repository london/git/good.git 5
	make_repository london/git/bad.git 5
}

has_failed() { # NAME CLASS TEXT
	row_is paris "$1" failure_class "$2" || return
	row_of paris "$1" failure | grep -q "$3"
}

# Git dies of it before it says a word, to whoever wants objects. Without Git all is well.
what_git_dies_of() {
	make_pair
	set_conf paris sync.fastPath false
	git -C london/git/bad.git repack -adq
	head -c 5000 /dev/zero | tr '\0' x >london/git/bad.git/objects/pack/multi-pack-index
	start_sites
	wait_until 20 has_failed bad corrupt 'the other site says: .*multi-pack-index'
	row_of paris bad remedy | grep -q '^there: run git multi-pack-index write'
	wait_until 20 row_is paris good word 'up to date'
	wait_until 10 was_logged london git.copy_refused 'code=corrupt'
	rm london/git/bad.git/objects/pack/multi-pack-index
	at paris repository resync bad
	wait_until 20 in_sync
	same_sites
}

what_cannot_be_read() {
	make_pair
	start_sites
	wait_until 20 in_sync
	echo garbage >london/git/bad.git/packed-refs
	wait_until 20 has_failed bad corrupt 'packed-refs is damaged at line 1'
	rm london/git/bad.git/packed-refs
	wait_until 20 in_sync
}

# By its configuration: no Git of Debian 12 makes one.
make_reftable() { # PATH
	make_repository "$1" 2
	git -C "$1" config core.repositoryformatversion 1
	git -C "$1" config extensions.refStorage reftable
}

# What check says of formats: its verdict, and the sentence.
checked() { # SITE VERDICT PATTERN
	{ at "$1" check --json || [ $? -eq 1 ]; } | python3 -c '
import json, re, sys
found = [f for f in json.load(sys.stdin)["findings"] if f["what"] == "formats"]
print(found)
sys.exit(not (len(found) == 1 and found[0]["verdict"] == sys.argv[1] and
              re.search(sys.argv[2], found[0]["finding"])))' "$2" "$3"
}

of_another_format() {
	make_pair
	start_sites
	wait_until 20 in_sync
	checked london ok 'all'
	make_reftable london/git/table.git
	make_repository london/git/future.git 2
	git -C london/git/future.git config core.repositoryFormatVersion 7
	wait_until 20 has_failed table config 'extensions.refStorage = reftable'
	wait_until 20 has_failed future config repositoryFormatVersion
	{ at london status || [ $? -eq 3 ]; } >status
	grep -q 'table\|future' status
	checked london wrong '2 repositories .*future'
	add_commits london/git/good.git refs/heads/main 1
	wait_until 20 row_is paris good generation 2
	fails git ls-remote "$(site_url london)/table.git" 2>said
	grep -q 'format is not supported' said
	grep -q 'returned error: 409' said
	fails git -C london/git/good.git push -q "$(site_url london)/table.git" main 2>said
	rm -rf london/git/table.git london/git/future.git
	wait_until 20 in_sync
	same_sites
}

# The list's own line says what to do, at both sites.
a_pipe_that_git_would_open() {
	make_pair
	start_sites
	wait_until 20 in_sync
	mkfifo london/git/bad.git/shallow
	mkfifo london/git/good.git/elsewhere
	wait_until 20 has_failed bad config 'shallow is not a regular file'
	at london repository list | grep -a ' bad .*shallow is not a regular file.*remove it'
	at paris repository list | grep -a ' bad .*shallow is not a regular file.*remove it'
	add_commits london/git/good.git refs/heads/main 1
	wait_until 20 row_is paris good generation 2
	rm london/git/bad.git/shallow
	wait_until 20 in_sync
	same_sites
}

# No reader is shown a part of what it leads to.
packed_refs_that_is_a_link() {
	local version

	make_pair
	start_site london
	ln -s /etc/passwd london/git/bad.git/packed-refs
	for version in 0 1 2; do
		fails git -c protocol.version=$version ls-remote "$(site_url london)/bad.git" 2>said
		grep -q 'packed-refs is a symbolic link' said
		grep -q 'returned error: 409' said
		! grep -q root: said || fail "it tells what is there"
	done
}

tap_test "what git dies of at the primary has its class and its remedy at the secondary" what_git_dies_of
tap_test "so has what the primary cannot read" what_cannot_be_read
tap_test "a repository of another format is a finding, and stops nothing else" of_another_format
tap_test "a pipe that git would open is a finding with its remedy, another stops nothing" a_pipe_that_git_would_open
tap_test "packed-refs that is a link is refused with a sentence" packed_refs_that_is_a_link
tap_done
