#!/usr/bin/env bash
# The node of mirrors dies or stands still at each step: no request that was taken is lost.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/site_crash.sh"
. "$TESTS/lib/proxied.sh"
. "$TESTS/lib/mirrored.sh"

make_crash_sites() {
	make_mirror_sites
	set_conf london http.anonymousRead true
	(umask 077 && echo 0123456789abcdef-operator >operator.token)
	set_conf paris http.operatorTokenFile "$PWD/operator.token"
	make_repository london/git/a.git 6
	mirror a interval 1h
	start_site london
}

# The id of a job that was taken, in $job.
ask() { # NAME
	begin_to_ask paris "$1"
	was_taken paris
}

job_is() { # ID STATE
	curl -s "$(site_url paris)/api/v1/jobs/$1" >job
	[ "$("$SITE_HELP" member state <job)" = "$2" ] || {
		cat job
		return 1
	}
}

is_brought_whole() {
	wait_until 30 is_mirrored a
	wait_until 20 mirror_is a state synced
	has_no_fault london/git/a.git paris/git/a.git
	wait_until 10 no_left_overs
	no_repository_is_leased
}

dies_with_requests() { # POINT...
	local point first

	make_crash_sites
	start_site paris
	is_brought_whole # else the next start goes on with it, and dies of that
	for point; do
		echo "$point:"
		kill_site paris
		start_site paris "REFRELAY_FAILPOINT=$point=kill"
		change_a
		job=
		ask a || true
		is_killed_within 20 paris
		start_site paris
		[ -n "$job" ] || ask a
		first=$job
		wait_until 30 job_is "$first" 'done'
		[ "$("$SITE_HELP" member commit <job)" = "$(git -C london/git/a.git rev-parse HEAD)" ]
		is_brought_whole
	done
}

# A mirror that is not there yet.
dies_at_its_making() { # POINT...
	local point

	make_crash_sites
	for point; do
		echo "$point:"
		rm -rf paris/data paris/git
		mkdir paris/git
		launch_site paris "REFRELAY_FAILPOINT=$point=kill"
		is_killed_within 20 paris
		start_site paris
		is_brought_whole
		stop_site paris
	done
}

# Several wait while one runs.
dies_with_many() {
	local jobs=() i

	make_crash_sites
	start_site paris
	wait_until 30 is_mirrored a
	stop_site paris
	start_site paris REFRELAY_FAILPOINT=sync.fetched@7=kill
	while ! has_died paris; do
		change_a
		for i in 1 2 3; do
			ask a || continue
			jobs+=("$job")
		done
	done
	[ "${#jobs[@]}" -gt 3 ]
	wait_until 20 has_died paris
	start_site paris
	for job in "${jobs[@]}"; do
		wait_until 30 job_is "$job" 'done'
	done
	is_brought_whole
}

# Its git is dead before the lease is over, and what it does afterwards does no harm.
stands_still() {
	make_crash_sites
	set_conf paris lease.ttl 6s # long enough for a try on a busy machine
	start_site paris
	wait_until 30 is_mirrored a
	stop_site paris
	start_site paris REFRELAY_FAILPOINT=sync.fetched=stop
	change_a
	begin_to_ask paris a
	wait_until 20 is_paused paris
	wait_until 20 no_site_children paris
	wait_until 20 is_lapsed
	kill -CONT "$(site_pid paris)"
	was_taken paris
	wait_until 10 is_put_back "$job"
	comes_forward "$job"
	kill -HUP "$(site_pid paris)" # it looks when it is told of new settings
	wait_until 30 job_is "$job" 'done'
	fails grep "\"class\":\"" job # what put it off once is past
	is_brought_whole
	# Whoever looks first: the keeper, or the job when it gives the lease back.
	wait_until 10 was_logged paris 'lease\.(lost|released_late)'
}

is_put_back() { # ID
	job_is "$1" waiting && [ "$("$SITE_HELP" member attempts <job)" -gt 0 ]
}

is_lapsed() {
	at paris lease list --json >leases || return
	! grep -q '"proof":"alive"[^}]*"operation":"sync"' leases
}

post() { # SECONDS
	[ "$(curl -s -o answer -w '%{http_code}' -X POST -H "Authorization: Bearer $(cat operator.token)" \
		"$(site_url paris)/api/v1/mirrors/a/sync?wait=$1")" = 202 ]
	job=$("$SITE_HELP" member job <answer)
}

# Somebody else works on the mirror for longer than is waited: whoever asked is told, and what was
# asked by the API is put back, and done later. Two that were asked meanwhile have one fetch.
times_out() {
	local first both

	make_crash_sites
	set_conf paris lease.prefix 'x:'
	set_conf paris lease.keyFormat 'x:clone:${name}'
	start_site paris
	wait_until 30 is_mirrored a
	touch held
	"$REFRELAY" -c paris/refrelay.conf lease run clone:a -- \
		sh -c 'touch holds; while [ -e held ]; do sleep 0.05; done' &
	wait_until 10 test -e holds
	fails no_lease_like clone:a
	change_a
	expect 5 at paris mirror sync a --wait 1s --json
	[ "$("$SITE_HELP" member state <out)" = failed ]
	[ "$("$SITE_HELP" member reason <out)" = lock_timeout ]
	[ "$("$SITE_HELP" member message <out | cut -c 1-30)" = 'Lock timeout waiting for repo:' ]
	was_logged paris 'lease\.waiting' 'level=warn.* holder_job='
	was_logged paris 'lease\.timeout' 'level=error.* holder_job='
	post 8
	first=$job
	wait_until 20 was_logged paris 'lease\.waiting' "job_id=$first"
	post 60
	both=$job
	post 60
	both+="|$job"
	wait_until 20 was_put_back "$first"
	[ "$("$SITE_HELP" member attempts <job)" -ge 1 ]
	wait_until 20 was_logged paris 'lease\.waiting' "job_id=($both)"
	rm held
	for job in ${both/|/ }; do
		wait_until 60 job_is "$job" 'done'
		cat job >>ends
	done
	is_logged 1 paris 'mirror\.shared' "with=($both)"
	[ "$(grep -o '"changed":true' ends | wc -l)" -eq 1 ]
	comes_forward "$first"
	wait_until 60 job_is "$first" 'done'
	[ "$("$SITE_HELP" member commit <job)" = "$(git -C london/git/a.git rev-parse HEAD)" ]
	is_brought_whole
	wait_until 5 no_lease_like clone:a # a key of that form has no other word
}

# By the normal backoff it would be tried again after a quarter of a minute, or a little more than a
# minute. That is not waited for.
comes_forward() { # ID
	python3 - "$1" <<-'END'
		import sqlite3, sys, time
		base = sqlite3.connect("paris/data/refrelay.db", timeout=60, isolation_level=None)
		now = time.time() * 1000
		[(at,)] = base.execute("SELECT next_at FROM mirror_request WHERE id = ?", sys.argv[1:])
		assert at - now <= 75000, at - now
		base.execute("UPDATE mirror_request SET next_at = ? WHERE id = ?", (int(now), sys.argv[1]))
	END
}

# It waits for its next try, and says why.
was_put_back() { # ID
	job_is "$1" waiting && [ "$("$SITE_HELP" member reason <job)" = lock_timeout ]
}

# Git alone, in the middle of what it gets: the job is not done by that, and the next one is whole.
git_is_killed() {
	local pid left pids

	make_crash_sites
	start_proxy
	set_conf paris mirror.a.url "http://127.0.0.1:$(cat proxy/port)/a.git"
	# Else the node asks for the change itself first, and waits as long as Git would.
	set_conf paris sync.fastPath false
	start_site paris
	wait_until 30 is_mirrored a
	push_much 3
	rules '^POST stall 200000'
	ask a
	wait_until 20 is_getting
	left=$(find paris/git -name 'tmp_pack_*' -size +20k)
	[ -n "$left" ]
	pids=$(fetching_pids)
	[ -n "$pids" ]
	for pid in $pids; do
		kill -KILL "$pid" 2>/dev/null || :
	done
	rules
	wait_until 20 has_ended "$job"
	[ ! -e "$left" ] # the next try may have one of its own
	wait_until 30 is_mirrored a
	has_no_fault london/git/a.git paris/git/a.git
	echo 'of a node that was killed' >paris/git/a.git/objects/pack/tmp_pack_left
	change_a
	ask a
	wait_until 30 job_is "$job" 'done'
	is_brought_whole
}

fetching_pids() {
	"$SITE_HELP" below "$(site_pid paris)" | while read -r pid; do
		grep -qsa 'fetch\|index-pack\|remote-http' "/proc/$pid/cmdline" || continue
		echo "$pid"
	done
}

# What it has so far is in a file.
is_getting() {
	[ -n "$(find paris/git -name 'tmp_pack_*' -size +20k)" ]
}

has_ended() { # ID
	job_is "$1" failed || job_is "$1" 'done'
}

is_removed() {
	[ ! -e paris/git/a.git ] && ! at paris mirror show a >out 2>&1
}

# And others can write to its database.
sleeps_while_it_fetches() {
	start_site paris REFRELAY_FAILPOINT=objects.fetched=stop
	wait_until 20 is_paused paris
	nobody_writes paris
}

# Who removes it waits for the fetch, and then it is gone for good.
removed_while_it_is_fetched() {
	make_crash_sites
	push_much 6
	set_conf paris lease.wait 1s
	until sleeps_while_it_fetches; do
		kill_site paris
	done
	git config --file paris/refrelay.conf --remove-section mirror.a
	at paris lease list | grep geo_sync_ssf_service # which is waited for below
	expect 5 at paris mirror remove a
	grep 'it stays marked for removal' err
	kill -CONT "$(site_pid paris)"
	wait_until 20 no_lease_like geo_sync_ssf_service
	at paris mirror remove a || [ $? -eq 4 ]
	wait_until 20 is_removed
	stop_site paris
	start_site paris
	is_removed
	wait_until 5 no_left_overs
	no_repository_is_leased
}

tap_test "killed before and while it fetches" dies_with_requests sync.leased sync.fenced \
	small_pack.indexed small_pack.packed objects.fetched sync.fetched
tap_test "killed while it publishes" dies_with_requests publish.pending publish.locked \
	publish.renamed publish.changed
tap_test "killed after it published" dies_with_requests sync.verified sync.done
tap_test "killed while a mirror is made" dies_at_its_making sync.read \
	objects.fetched sync.staged sync.placed
tap_test "killed while many requests wait" dies_with_many
tap_test "stopped past its lease" stands_still
tap_test "removed while it is fetched" removed_while_it_is_fetched
tap_test "somebody else has the lease for longer than is waited" times_out
tap_test "git is killed while it fetches" git_is_killed
tap_done
