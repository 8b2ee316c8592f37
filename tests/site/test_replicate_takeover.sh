#!/usr/bin/env bash
# A run that is paused past its lease: another takes over by itself, and the first,
# continued, undoes nothing. Takes as long as a lease lasts.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"

# One in each of several trees, so that all wait at the same time: paused while a copy
# is updated, with older refs in hand; while a first copy is built; with its pending file
# made, but no lock taken.
places=(update create pending)

make_tree() { # PLACE
	mkdir -p "$1/source"
	make_repository "$1/source/a.git" 5
	make_repository "$1/source/b.git" 3
	if [ "$1" != create ]; then
		refrelay replicate "$1/source" "$1/dest" >>log
		add_commits "$1/source/a.git" refs/heads/main 1
		git -C "$1/source/a.git" update-ref refs/heads/late main
	fi
}

pause_in() { # PLACE POINT
	REFRELAY_FAILPOINT=$2=stop "$REFRELAY" replicate --json --jobs 1 \
		"$1/source" "$1/dest" >"$1/out-paused" 2>"$1/err-paused" &
	echo $! >"$1/paused"
	wait_until 10 is_stopped "$(<"$1/paused")"
	git -C "$1/source/a.git" update-ref refs/heads/main refs/heads/main~2
	git -C "$1/source/a.git" update-ref -d refs/heads/late
}

take_over_in() { # PLACE
	"$REFRELAY" replicate --json "$1/source" "$1/dest" >"$1/out" 2>"$1/err" &
	echo $! >"$1/second"
}

has_taken_over_in() { # PLACE
	local status=0

	wait "$(<"$1/second")" || status=$?
	[ "$status" -eq 0 ] || fail "$1: status $status: $(cat "$1/out" "$1/err")"
	equal_trees "$1/source" "$1/dest"
	(cd "$1" && what_counts >before)
}

continued_changes_nothing_in() { # PLACE
	local status=0

	kill -CONT "$(<"$1/paused")"
	wait "$(<"$1/paused")" || status=$?
	[ "$status" -eq 0 ] || fail "$1: status $status: $(cat "$1/out-paused" "$1/err-paused")"
	(cd "$1" && what_counts >after)
	diff "$1/before" "$1/after"
	equal_trees "$1/source" "$1/dest"
	(cd "$1" && run 0 unchanged=2 && no_left_overs)
}

another_takes_over() {
	local place

	for place in "${places[@]}"; do
		make_tree "$place"
	done
	pause_in update sync.fetched
	pause_in create sync.fetched
	pause_in pending publish.pending
	for place in "${places[@]}"; do
		take_over_in "$place"
	done
	for place in "${places[@]}"; do
		has_taken_over_in "$place"
	done
	for place in "${places[@]}"; do
		continued_changes_nothing_in "$place"
	done
}

tap_test "another takes over, and the first undoes nothing" another_takes_over
tap_done
