#!/usr/bin/env bash
# Stock git reads a copy while its source flips between two generations of 200 refs and
# is replicated in a loop: a reader sees one generation or the other, never a mixture,
# and none fails.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"

# Two texts of packed-refs: 200 refs of which all move, and ten that come or go.
make_generations() {
	local i first second

	mkdir source
	make_repository source/a.git 60
	first=$(git -C source/a.git rev-parse main~10)
	second=$(git -C source/a.git rev-parse main)
	git -C source/a.git update-ref refs/keep/second main
	for ((i = 0; i < 200; i++)); do
		echo "refs/heads/all/$i"
	done >names
	for ((i = 0; i < 10; i++)); do
		echo "refs/heads/first/$i" >>names-first
		echo "refs/heads/second/$i" >>names-second
	done
	echo refs/heads/main | sort -o names-first - names names-first
	echo refs/heads/main | sort -o names-second - names names-second
	sed "s/^/$first /" names-first >first
	sed "s/^/$second /" names-second >second
	rm -r source/a.git/refs/heads source/a.git/refs/keep
	mkdir source/a.git/refs/heads
}

# Of the source itself, in one rename.
flip_to() { # GENERATION
	{
		echo '# pack-refs with: peeled fully-peeled sorted '
		LC_ALL=C sort -k 2 "$1"
	} >source/a.git/packed-refs.next
	mv source/a.git/packed-refs.next source/a.git/packed-refs
}

# Whether the list on stdin, "oid name", is one of the two generations.
is_a_generation() {
	LC_ALL=C sort -k 2 >seen
	cmp -s seen sorted-first || cmp -s seen sorted-second
}

read_refs() {
	git -C ../dest/a.git for-each-ref --format='%(objectname) %(refname)' refs/heads
}

read_by_ls_remote() {
	git ls-remote --heads ../dest/a.git | tr '\t' ' '
}

read_by_clone() {
	rm -rf clone
	git clone -q --mirror ../dest/a.git clone 2>clone-err || return
	git -C clone fsck --connectivity-only --no-progress --no-dangling >&2 || return
	git -C clone for-each-ref --format='%(objectname) %(refname)' refs/heads
}

# Reads until ./stop is there; says in ./wrong what it saw when that was neither.
reader() { # FUNCTION
	local count=0

	mkdir "$1"
	cd "$1"
	LC_ALL=C sort -k 2 ../first >sorted-first
	LC_ALL=C sort -k 2 ../second >sorted-second
	until [ -e ../stop ]; do
		if ! "$1" >list 2>err; then
			echo "$1 failed: $(<err)" >>../wrong
		elif ! is_a_generation <list; then
			{
				echo "$1 saw a mixture:"
				cut -d ' ' -f 1 list | sort | uniq -c
			} >>../wrong
		fi
		count=$((count + 1))
		echo "$count" >count
	done
}

no_reader_sees_a_mixture() {
	local i which readers=(read_refs read_by_ls_remote read_by_clone)
	local -a pids=()

	make_generations
	flip_to first
	run 0 created=1
	: >wrong
	for which in "${readers[@]}"; do
		reader "$which" &
		pids+=($!)
	done
	for ((i = 1; i <= 30; i++)); do
		which=second
		[ $((i % 2)) -ne 0 ] || which=first
		flip_to "$which"
		run 0 updated=1
		[ -s wrong ] && break
	done
	touch stop
	wait "${pids[@]}"
	[ ! -s wrong ] || fail "$(head -n 20 wrong)"
	for which in "${readers[@]}"; do
		echo "$which: $(<"$which/count")"
		test "$(<"$which/count")" -ge 5
	done
	equal_trees source dest
	no_left_overs
}

# A source that flips while it is read: what is copied is one of its generations.
no_copy_of_a_flipping_source_is_a_mixture() {
	local i which

	make_generations
	flip_to first
	run 0 created=1
	LC_ALL=C sort -k 2 first >sorted-first
	LC_ALL=C sort -k 2 second >sorted-second
	until [ -e stop ]; do
		flip_to second
		flip_to first
		sleep 0.05
	done &
	for ((i = 1; i <= 20; i++)); do
		run 0
		git -C dest/a.git for-each-ref --format='%(objectname) %(refname)' refs/heads |
			is_a_generation || fail "a mixture: $(<seen)"
	done
	touch stop
	wait
	follows
}

tap_test "no reader sees a mixture" no_reader_sees_a_mixture
tap_test "no copy of a source that flips is a mixture" \
	no_copy_of_a_flipping_source_is_a_mixture
tap_done
