#!/usr/bin/env bash
# Several runs on one DEST: each repository is made once, all runs end well; a run that
# is paused holds nobody up for good and, continued, undoes nothing.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"

make_source() { # N
	local i

	mkdir source
	make_repository template.git 3
	for ((i = 1; i <= $1; i++)); do
		cp -r template.git "source/repo-$i.git"
		git -C "source/repo-$i.git" update-ref refs/heads/own "refs/heads/main~$((i % 2 + 1))"
	done
}

total() { # KEY
	cat out-* | grep -ao "\"$1\":[0-9]*,\"updated\|^{.*\"$1\":[0-9]*" |
		grep -o "\"$1\":[0-9]*" | awk -F : '{ sum += $2 } END { print sum }'
}

# That many runs at the same time; all must end with status 0.
together() { # RUNS [OPTION...]
	local i status pid runs=$1
	local -a pids=()
	shift

	rm -f out-* err-*
	for ((i = 1; i <= runs; i++)); do
		"$REFRELAY" replicate --json "$@" source dest >"out-$i" 2>"err-$i" &
		pids+=($!)
	done
	for pid in "${pids[@]}"; do
		status=0
		wait "$pid" || status=$?
		[ "$status" -eq 0 ] || fail "status $status: $(cat out-* err-*)"
	done
	no_left_overs
}

each_is_made_once() { # RUNS
	make_source 12
	together "$1"
	test "$(total created)" -eq 12
	test "$(total total)" -eq $((12 * $1))
	equal_trees source dest
}

each_is_updated_once() { # RUNS
	local i

	make_source 6
	run 0 created=6
	for i in 1 2 3 4; do
		add_commits "source/repo-$i.git" refs/heads/main 1
	done
	together "$1"
	test "$(total updated)" -eq 4
	equal_trees source dest
}

each_is_deleted_once() {
	make_source 6
	run 0 created=6
	rm -r source/repo-[12].git
	together 2 --delete
	test "$(find dest/.refrelay/trash -mindepth 1 -maxdepth 1 | wc -l)" -eq 2
	equal_trees source dest
}

# A run that is stopped at the point; its id is in $paused.
pause_at() { # POINT
	REFRELAY_FAILPOINT=$1=stop "$REFRELAY" replicate --json --jobs 1 source dest \
		>out-paused 2>err-paused &
	paused=$!
	wait_until 10 is_stopped "$paused"
}

continue_paused() { # STATUS
	local status=0

	kill -CONT "$paused"
	wait "$paused" || status=$?
	[ "$status" -eq "$1" ] || fail "status $status: $(cat out-paused err-paused)"
}

leases() {
	refrelay lease "$@" --directory dest
}

the_holder_is_shown() {
	local key

	make_source 2
	pause_at sync.fetched
	expect 0 leases list
	grep -q "  by process $paused on [^ ]*, for sync of " out
	test "$(grep -c '^  fence' out)" -eq 1
	key=$(head -n 1 out)
	expect 0 leases show "$key"
	grep -qxF "$key" out
	grep -q 'held: .' out
	grep -q 'for sync of repo-1, since 20..-..-..T' out
	grep -q 'expires in [0-9.]* s unless' out
	expect 0 leases show --json "$key"
	python3 - "$paused" <<-'END'
		import json, sys
		lease = json.load(open("out"))
		assert lease["pid"] == int(sys.argv[1]), lease
		assert lease["held"] is True and lease["fence"] > 0, lease
		assert lease["name"] == "repo-1" and lease["operation"] == "sync", lease
		assert lease["proof"] and lease["node"] and lease["boot_id"], lease
		assert 0 < lease["ttl_left"] <= 30, lease
	END
	expect 4 leases show no-such-key
	continue_paused 0
	expect 0 leases list
	fails test -s out
	expect 0 leases show "$key"
	grep -q ', free: ' out
}

a_wrong_fence_releases_nothing() {
	local key fence

	make_source 1
	pause_at sync.fetched
	leases list >out
	key=$(head -n 1 out)
	fence=$(sed -n 's/^  fence \([0-9]*\),.*/\1/p' out)
	expect 1 leases release "$key" --fence $((fence - 1)) --reason 'A test'
	grep -q "held at fence $fence" err
	expect 1 leases release "$key" --fence $((fence + 1)) --reason 'A test'
	expect 4 leases release no-such-key --fence 1 --reason 'A test'
	expect 2 leases release "$key" --reason 'A test'
	expect 2 leases release "$key" --fence "$fence"
	expect 2 leases release "$key" --fence x --reason 'A test'
	expect 0 leases list
	grep -q "fence $fence, held" out
	continue_paused 0
	expect 1 leases release "$key" --fence "$fence" --reason 'A test'
	equal_trees source dest
}

# The paused run would have published older refs.
a_released_lease_lets_another_run_work() { # POINT
	local key fence

	make_source 2
	run 0 created=2
	add_commits source/repo-1.git refs/heads/main 1
	pause_at "$1"
	add_commits source/repo-1.git refs/heads/main 1
	git -C source/repo-1.git update-ref -d refs/heads/own
	leases list >out
	key=$(head -n 1 out)
	fence=$(sed -n 's/^  fence \([0-9]*\),.*/\1/p' out)
	expect 0 leases release "$key" --fence "$fence" --reason 'A test'
	run 0 updated=1
	equal_trees source dest
	what_counts >before
	continue_paused 0
	what_counts >after
	diff before after
	equal_trees source dest
	run 0 unchanged=2
	no_left_overs
}

# The same for a first copy, which is built aside.
a_released_lease_lets_another_run_create() { # POINT
	local key fence

	make_source 2
	pause_at "$1"
	add_commits source/repo-1.git refs/heads/main 1
	leases list >out
	key=$(head -n 1 out)
	fence=$(sed -n 's/^  fence \([0-9]*\),.*/\1/p' out)
	expect 0 leases release "$key" --fence "$fence" --reason 'A test'
	run 0 created=2
	equal_trees source dest
	what_counts >before
	continue_paused 0
	grep -q '"failed":0,' out-paused
	what_counts >after
	diff before after
	equal_trees source dest
	run 0 unchanged=2
	no_left_overs
}

# A copy that was deleted meanwhile does not come back.
a_paused_run_does_not_revive_what_was_deleted() {
	local key fence

	make_source 2
	run 0 created=2
	add_commits source/repo-1.git refs/heads/main 1
	pause_at sync.fetched
	rm -r source/repo-1.git
	leases list >out
	key=$(head -n 1 out)
	fence=$(sed -n 's/^  fence \([0-9]*\),.*/\1/p' out)
	expect 0 leases release "$key" --fence "$fence" --reason 'A test'
	run 0 --delete deleted=1 unchanged=1
	equal_trees source dest
	git -C dest/.refrelay/trash/*repo-1* for-each-ref >before
	kill -CONT "$paused"
	wait "$paused" || true
	fails test -e dest/repo-1.git
	git -C dest/.refrelay/trash/*repo-1* for-each-ref | diff before -
	no_left_overs
}

for runs in 2 4; do
	tap_test "$runs runs at once make each copy once" each_is_made_once "$runs"
	tap_test "$runs runs at once update each copy once" each_is_updated_once "$runs"
done
tap_test "two runs at once delete each copy once" each_is_deleted_once
tap_test "the holder of a lease is shown" the_holder_is_shown
tap_test "a wrong fence releases nothing" a_wrong_fence_releases_nothing
for point in sync.leased sync.read sync.fenced sync.fetched; do
	tap_test "a released lease lets another run work; the first was at $point" \
		a_released_lease_lets_another_run_work "$point"
done
for point in sync.fetched sync.verified sync.staged; do
	tap_test "a released lease lets another run create; the first was at $point" \
		a_released_lease_lets_another_run_create "$point"
done
tap_test "a paused run does not revive what was deleted" \
	a_paused_run_does_not_revive_what_was_deleted
tap_done
