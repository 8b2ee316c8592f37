#!/usr/bin/env bash
# A hundred thousand refs; a run over many repositories that is interrupted in the middle
# and continued by the next.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"
. "$TESTS/lib/scale.sh"

# In a source of N refs.
make_refs() { # N
	mkdir -p source
	make_repository source/a.git 100
	git -C source/a.git rev-list main >commits
	awk -v count="$1" '{ commit[n++] = $0 }
		END {
			for (i = 0; i < count; i++)
				print commit[i % n] " refs/changes/" i % 100 "/" i "/1"
		}' commits | LC_ALL=C sort -k 2 >changes
	write_refs changes
}

write_refs() { # FILE
	{
		echo '# pack-refs with: peeled fully-peeled sorted '
		LC_ALL=C sort -m -k 2 "$1" <(echo "$(head -n 1 commits) refs/heads/main")
	} >source/a.git/packed-refs.new
	rm -f source/a.git/refs/heads/main
	mv source/a.git/packed-refs.new source/a.git/packed-refs
}

a_hundred_thousand_refs() {
	make_refs 100000
	run 0 created=1
	took "100,000 refs for the first time"
	all_are_equal
	run 0 unchanged=1
	took "100,000 refs without a change"
	sed -i "50000s/^[0-9a-f]*/$(sed -n 5p commits)/" changes
	write_refs changes
	run 0 updated=1
	took "100,000 refs with one change"
	grep -q '"refs_changed":1,' out
	sample_is_sound a.git # the changed one is a loose file
	awk -v new="$(sed -n 7p commits)" '{ print new " " $2 }' changes >moved
	write_refs moved
	run 0 updated=1
	took "100,000 refs that all move"
	all_are_equal
	sample_is_sound a.git
	no_left_overs
}

an_interrupted_run_is_continued() {
	local status=0 created

	make_many 300
	REFRELAY_FAILPOINT=sync.placed@40=stop \
		"$REFRELAY" replicate --json --jobs 2 source dest >out 2>err &
	wait_until 20 is_stopped $!
	kill -INT $!
	kill -CONT $!
	wait $! || status=$?
	test "$status" -eq 130
	no_left_overs
	created=$(grep -o '"created":[0-9]*' out | head -n 1 | cut -d : -f 2)
	test "$created" -ge 30
	test "$created" -lt 300
	run 0 created=$((300 - created)) unchanged="$created"
	all_are_equal
	no_left_overs
}

tap_test "a hundred thousand refs" a_hundred_thousand_refs
tap_test "an interrupted run is continued" an_interrupted_run_is_continued
tell_times
tap_done
