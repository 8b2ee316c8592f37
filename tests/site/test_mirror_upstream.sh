#!/usr/bin/env bash
# An upstream that is emptied, away, or back.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/secured.sh"
. "$TESTS/lib/ssh.sh"
. "$TESTS/lib/proxied.sh"
. "$TESTS/lib/mirrored.sh"

is_held() { # PATTERN
	at paris mirror show a >shown
	grep -E "$1" shown
}

# At one moment, so that no poll finds the half of it.
add_branches() {
	local tip

	tip=$(tip london/git/a.git)
	git -C london/git/a.git pack-refs --all
	{
		cat london/git/a.git/packed-refs
		seq -f "$tip refs/heads/b%g" 0 59
	} | LC_ALL=C sort -k 2 >packed-refs # what comes first begins with "# pack-refs"
	mv packed-refs london/git/a.git/
	[ "$(git -C london/git/a.git for-each-ref | wc -l)" -eq 61 ]
}

empty() {
	git -C london/git/a.git pack-refs --all
	sed '/ refs\/heads\/b/d' london/git/a.git/packed-refs >packed-refs
	mv packed-refs london/git/a.git/
	wait_until 20 is_held '^  held: '
	[ "$(git -C paris/git/a.git for-each-ref | wc -l)" -eq 61 ]
}

# A hold ends when the branches are there again. While nothing changes, it is not told again. What it says to
# do is done, word for word.
emptied() {
	local word held

	make_open_sites
	add_branches
	wait_until 20 is_mirrored a
	empty
	held=$(logged paris sync.held)
	wait_until 30 were_polled "$(($(polls unchanged) + 3))"
	[ "$(logged paris sync.held)" = "$held" ]
	add_branches
	wait_until 20 mirror_is a state synced
	is_mirrored a
	add_commits london/git/a.git refs/heads/main 1
	wait_until 20 is_mirrored a
	empty
	expect 1 at paris mirror sync a
	grep 'held' err
	read -ra word < <(sed -n 's/^  hint: .*then refrelay //p' shown)
	[ "${word[*]}" = "mirror sync --force a" ]
	at paris "${word[@]}"
	is_mirrored a
	wait_until 20 mirror_is a state synced
	at paris mirror show a >shown
	fails grep held shown
}

says() { # TEXT
	at paris status >said || :
	head -n 1 said | grep -F "$1"
}

away_and_back() {
	make_open_sites
	stop_site london
	wait_until 20 mirror_is a state failed
	mirror_is a failure_class network
	git -C paris/git/a.git fsck --connectivity-only
	add_commits london/git/a.git refs/heads/main 2
	start_site london
	at paris mirror sync a
	is_mirrored a
	wait_until 20 says '1 of 1 mirror is up to date'
}

gone_and_back() {
	make_open_sites
	mv london/git/a.git away.git
	wait_until 20 mirror_is a failure_class missing
	[ "$(git -C paris/git/a.git for-each-ref | wc -l)" -ge 1 ]
	mv away.git london/git/a.git
	at paris mirror sync a
	wait_until 20 mirror_is a state synced
	is_mirrored a
}

# A mirror of a by way of the proxy, and one of b that is asked directly.
make_hostile_sites() { # [INTERVAL]
	make_mirror_sites
	set_conf london http.anonymousRead true
	make_repository london/git/a.git 30
	make_repository london/git/b.git 2
	mirror a interval "${1:-1h}"
	mirror b interval 1s
	start_proxy
	set_conf paris mirror.a.url "http://127.0.0.1:$(cat proxy/port)/a.git"
	start_site london
	start_site paris
	wait_until 20 is_mirrored a
	wait_until 20 is_mirrored b
}

# Another try may be on its way.
nothing_is_temporary() {
	[ -z "$(find paris/git -name 'tmp_*')" ]
}

was_mirrored() { # NAME
	git -C "london/git/$1.git" merge-base --is-ancestor \
		"$(git -C "paris/git/$1.git" rev-parse refs/heads/main)" refs/heads/main
}

# Its class is the one that is said, or one of them. Nothing has come of it, and nothing is left;
# but if all objects had come before it failed, a retry needs no more of the upstream than its refs;
# and one that began before the last commits came brings what was there until then.
fails_alone() { # CLASS [REASON]
	local before

	before=$(git -C paris/git/a.git for-each-ref)
	fails at paris mirror sync a --json >said 2>err
	cat said
	[[ " $1 " == *" $("$SITE_HELP" member class <said) "* ]]
	[ -z "${2-}" ] || [ "$("$SITE_HELP" member reason <said)" = "$2" ]
	[ "$(git -C paris/git/a.git for-each-ref)" = "$before" ] || was_mirrored a
	wait_until 10 nothing_is_temporary
	add_commits london/git/b.git refs/heads/main 1
	wait_until 20 is_mirrored b
}

hostile() {
	local action

	make_hostile_sites
	for action in 'cut 20' 'cut 1500' 'flip 1500' 'abort 1500' 'garble 900' endless garbage junk empty \
		'status 500'; do
		echo "$action:"
		add_commits london/git/a.git refs/heads/main 30
		rules "^POST $action"
		fails_alone 'network corrupt internal'
	done
	set_conf paris sync.timeout 3s
	reload paris
	rules '^POST stall 1500'
	fails_alone timeout too_slow
	set_conf paris sync.timeout 1h
	reload paris
	rules
	at paris mirror sync a
	is_mirrored a
	has_no_fault london/git/a.git paris/git/a.git
}

# The only worker is at a, whose upstream says nothing.
syncs_b_without_a_worker() { # WAIT
	local before

	before=$(posts)
	rules '^POST hang'
	add_commits london/git/a.git refs/heads/main 1
	at paris mirror sync a >/dev/null 2>&1 &
	wait_until 20 asked_for POST $((before + 1))
	"$REFRELAY" -c paris/refrelay.conf mirror sync b --wait "$1" >said 2>&1 &
	waiter=$!
	wait_until 60 grep 'no free worker for b' said
}

is_past() { # MICROSECONDS
	[ "${EPOCHREALTIME/.}" -ge "$1" ]
}

holds_b() { # the lease, while ./held is there
	touch held
	rm -f holds
	"$REFRELAY" -c paris/refrelay.conf lease run clone:b -- \
		sh -c 'touch holds; while [ -e held ]; do sleep 0.05; done' &
	wait_until 10 test -e holds
}

# Nobody works on b meanwhile, and who does then is waited for, for all of the time given; but a node that ends
# is not.
no_worker_is_free() {
	local waiter began

	make_hostile_sites
	stop_site paris
	set_conf paris sync.repositoryCapacity 1
	set_conf paris lease.prefix 'x:'
	set_conf paris lease.keyFormat 'x:clone:${name}'
	start_site paris
	syncs_b_without_a_worker 20s
	holds_b
	rules
	wait_until 10 was_logged paris 'lease\.waiting' 'lease_key=x:clone:b '
	rm held
	expect 0 wait "$waiter"
	grep "git/b.git main $(tip london/git/b.git)" said
	wait_until 20 is_mirrored a
	syncs_b_without_a_worker 3s
	wait_until 10 is_past $((${EPOCHREALTIME/.} + 2000000)) # well into the next look at the node
	began=${EPOCHREALTIME/.} # before any look may see it held
	holds_b
	expect 5 wait "$waiter"
	is_past $((began + 3000000))
	grep 'Lock timeout.*: held by' said
	rm held
	rules
	wait_until 20 is_mirrored a
	syncs_b_without_a_worker 1s
	kill_site paris
	expect 1 wait "$waiter"
	grep 'no node is running here' said
}

# Whoever waits for a node that will never do it would wait for ever.
no_worker_ever() {
	make_mirror_sites
	set_conf london http.anonymousRead true
	make_repository london/git/a.git 2
	start_site london
	start_site paris
	mirror a interval 1h
	expect 2 at paris mirror sync a --wait 0s
	grep 'the node updates no mirrors: it had none' err
	stop_site paris
	set_conf paris sync.repositoryCapacity 0
	start_site paris
	expect 2 at paris mirror sync a --wait 0s
	grep 'the node updates no mirrors: sync.repositoryCapacity is 0' err
	set_conf paris sync.repositoryCapacity 1
	expect 2 at paris mirror sync a --wait 0s # the node has not read it yet
	grep 'the node updates no mirrors: sync.repositoryCapacity is 0' err
	reload paris
	at paris mirror sync a
	# Its section is new, and the node has others.
	make_repository london/git/b.git 2
	mirror b interval 1h
	expect 2 at paris mirror sync b --wait 0s
	grep 'the configuration has no .mirror "b".' err
}

# A lease that is never renewed is the fetch's last moment: what needs longer fails as such, with the
# setting to change, and is not tried again at once.
outlasts_its_lease() {
	make_hostile_sites
	set_conf paris mirror.a.interval 1h
	set_conf paris lease.compatibility docora
	set_conf paris lease.ttl 6s # enough for the fetch that succeeds
	stop_site paris
	start_site paris
	wait_until 20 mirror_is a state synced
	rules '^POST stall 1500'
	add_commits london/git/a.git refs/heads/main 30
	expect 1 at paris mirror sync a --json
	[ "$("$SITE_HELP" member reason <out)" = lock_lost ]
	wait_until 20 mirror_is a state failed
	was_too_long_for_its_lease 1
	was_logged paris job.failed 'level=warn.* job=sync.* repo=a .*lease\.ttl \(6 s\)'
	is_due_now a
	wait_until 20 was_too_long_for_its_lease 2
	rules
	is_due_now a
	wait_until 60 mirror_is a state synced
	is_mirrored a
	has_no_fault london/git/a.git paris/git/a.git
	fails was_logged paris 'lease\.(lost|released_late)' 'lease_key=site:' # these are renewed
}

# Nothing is tried before its time, and then once; only the request came in between.
was_too_long_for_its_lease() { # ATTEMPTS
	local failures
	failures=$(logged paris job.failed ' repo=a ')
	at paris mirror show a --json >shown
	python3 - "$1" "$failures" <<-'END'
		import datetime, json, sys
		row = json.load(open("shown"))
		def at(name):
		    return datetime.datetime.fromisoformat(row[name].replace("Z", "+00:00"))
		assert (row["failure_class"], row["failure_reason"]) == ("timeout", "lock_lost"), row
		assert "lease.ttl (6 s), which lease.compatibility = docora does not extend" in row["failure"], row
		assert row["remedy"].startswith("raise lease.ttl"), row
		assert row["retry_count"] >= int(sys.argv[1]), row
		assert row["retry_count"] + 1 >= int(sys.argv[2]), (row, sys.argv[2])
		assert (at("retry_at") - at("last_attempt_at")).total_seconds() > 5, row
	END
}

# The backoff itself is not waited for. The node looks when it is told of new settings.
is_due_now() { # NAME
	python3 - "$1" <<-'END'
		import sqlite3, sys, time
		base = sqlite3.connect("paris/data/refrelay.db", timeout=60)
		changed = base.execute("UPDATE registry SET due_at = ? WHERE kind = 'mirror' AND name = ?"
		                       " AND due_at > ?", (int(time.time() * 1000), sys.argv[1], time.time() * 1000))
		assert changed.rowcount <= 1, changed.rowcount # 0: it is due already
		base.commit()
	END
	reload paris
}

# A branch with so many MB that do not shrink.
add_noise() { # MB
	local tree

	head -c "${1}000000" /dev/urandom >noise
	tree=$(git -C london/git/a.git -c core.compression=0 hash-object -w --stdin <noise)
	tree=$(printf '100644 blob %s\tnoise\n' "$tree" | git -C london/git/a.git mktree)
	git -C london/git/a.git update-ref refs/heads/noise \
		"$(git -C london/git/a.git commit-tree -p main -m noise "$tree")"
}

# Whatever the upstream sends, others have room for what they bring meanwhile, and afterwards.
no_room() {
	[ "$(id -u)" -eq 0 ] || skip "only root can mount a file system of a certain size"
	mkdir -p paris/git
	mount -t tmpfs -o size=12m refrelay-test paris/git || skip "no tmpfs can be mounted here"
	trap 'umount -l "$TEST_DIR/paris/git" 2>/dev/null || true' EXIT
	make_hostile_sites
	add_noise 16
	fails_alone disk too_large
	grep 'nine tenths' err
	git -C london/git/a.git update-ref -d refs/heads/noise
	at paris mirror sync a
	is_mirrored a
}

# Three megabytes that do not shrink, where one is allowed; and some bytes that would be terabytes.
too_large() {
	make_hostile_sites
	stop_site paris
	set_conf paris mirror.a.maxSize 1m
	start_site paris
	add_noise 3
	fails_alone config too_large
	grep 'maxSize' err
	git -C london/git/a.git update-ref -d refs/heads/noise
	at paris mirror sync a
	plant_bomb london/git/a.git
	fails_alone config too_large
	grep 'memory' err
	git -C london/git/a.git update-ref -d refs/heads/bomb
	at paris mirror sync a
	is_mirrored a
}

polls() { # STATE
	curl -s "$(site_url paris)/metrics" |
		sed -n "s/^refrelay_mirror_polls_total{state=\"$1\"} //p" | grep . || echo 0
}

were_polled() { # TIMES
	[ "$(polls unchanged)" -ge "$1" ]
}

asks_whether_it_is_so() {
	grep -ai '^if-none-match: ' proxy/last
}

posts() {
	grep -c '^+ POST' proxy/log || :
}

# Asked by nobody but a person until it allows it.
limited() {
	local asked

	make_hostile_sites 1s
	# A site like ours tells tags: while nothing changes, no refs come.
	wait_until 20 asks_whether_it_is_so
	[ "$(curl -s -o answer -w '%{http_code}' -H "$(grep -ai '^if-none-match' proxy/last | tr -d '\r')" \
		"$(site_url london)/a.git/info/refs?service=git-upload-pack")" = 304 ]
	add_commits london/git/a.git refs/heads/main 1
	wait_until 20 is_mirrored a
	rules 'info/refs status 429'
	wait_until 20 was_logged paris mirror.limited 'code=network name=a wait_ms=60000'
	mirror_is a state synced
	[ "$(polls limited)" -ge 1 ]
	asked=$(grep -c '^+' proxy/log)
	wait_until 30 were_polled "$(($(polls unchanged) + 4))"
	[ "$(grep -c '^+' proxy/log)" = "$asked" ]
	expect 1 at paris mirror sync a --json
	[ "$("$SITE_HELP" member reason <out)" = rate_limited ]
	mirror_is a state failed
	mirror_is a failure_reason rate_limited
	at paris mirror show a --json | python3 -c '
import datetime, json, sys
row = json.load(sys.stdin)
def at(name):
    return datetime.datetime.fromisoformat(row[name].replace("Z", "+00:00"))
rest = (at("retry_at") - at("last_attempt_at")).total_seconds()
print(rest)
sys.exit(not 55 <= rest <= 80)'
	rules "info/refs redirect http://localhost:1/"
	expect 1 at paris mirror sync a --json
	[ "$("$SITE_HELP" member reason <out)" = moved ]
	at paris mirror show a --json >row
	[ "$("$SITE_HELP" member state <row)" = failed ]
	[ -n "$("$SITE_HELP" member retry_at <row)" ]
	rules
	at paris mirror sync a
	mirror_is a state synced
	# For objects, too: git would ask once more, and would not tell how long. Another mirror of the host is not
	# asked either.
	set_conf paris mirror.c.url "http://127.0.0.1:$(cat proxy/port)/b.git"
	set_conf paris mirror.c.interval 1s
	stop_site paris
	start_site paris
	wait_until 20 mirror_is c state synced
	rules '^POST status 429'
	asked=$(posts)
	add_commits london/git/a.git refs/heads/main 1
	wait_until 20 mirror_is a failure_reason rate_limited
	[ "$(posts)" = "$((asked + 1))" ]
	asked=$(grep -c '^+' proxy/log)
	wait_until 30 were_polled "$(($(polls unchanged) + 4))"
	[ "$(grep -c '^+' proxy/log)" = "$asked" ]
	rules
	at paris mirror sync a
	is_mirrored a
}

is_same() { # NAME
	diff <(git -C "far/home/r.git" for-each-ref) <(git -C "paris/git/$1.git" for-each-ref)
}

# The first key is refused, and marked; the second one is taken. Then the host is another.
by_ssh() {
	local name

	make_mirror_sites
	make_repository far/home/r.git 3
	ssh_start far
	set_conf paris mirror.s.url "$(ssh_url far "$PWD/far/home/r.git")"
	for name in other user; do
		set_conf paris "watcher.$name.mirror" s
		set_conf paris "watcher.$name.sshKeyFile" "$PWD/far/${name}_key"
		set_conf paris "watcher.$name.knownHostsFile" "$PWD/far/known_hosts"
	done
	start_site paris
	wait_until 30 is_same s
	at paris mirror show s >shown
	grep 'watcher other: credential refused since .*Permission denied' shown
	fails grep 'watcher user: credential refused' shown
	add_commits far/home/r.git refs/heads/main 1
	expect 1 at paris mirror sync s --as other --json
	[ "$("$SITE_HELP" member class <out) $("$SITE_HELP" member reason <out)" = 'auth refused' ]
	at paris mirror sync s --as user
	is_same s
	set_conf paris mirror.none.url "$(ssh_url far "$PWD/far/home/none.git")"
	set_conf paris watcher.all.mirror '*'
	set_conf paris watcher.all.sshKeyFile "$PWD/far/user_key"
	set_conf paris watcher.all.knownHostsFile "$PWD/far/known_hosts"
	stop_site paris
	start_site paris
	expect 4 at paris mirror sync none --json
	[ "$("$SITE_HELP" member reason <out)" = gone ]
	printf '[127.0.0.1]:%s %s\n' "$(cat far/port)" "$(cat far/other_key.pub)" >far/known_hosts
	expect 2 at paris mirror sync s --as user
	grep 'Host key verification failed' err
	grep 'knownHostsFile' err
}

# As it is, and kept by polls; what is not exported is missing.
by_git() {
	local port

	make_mirror_sites
	make_repository far/home/r.git 3
	port=$(free_port)
	git daemon --reuseaddr --listen=127.0.0.1 --port="$port" --base-path="$PWD/far/home" --export-all \
		--log-destination=none &
	set_conf paris mirror.g.url "git://127.0.0.1:$port/r.git"
	set_conf paris mirror.g.interval 1s
	set_conf paris mirror.none.url "git://127.0.0.1:$port/none.git"
	start_site paris
	wait_until 30 is_same g
	add_commits far/home/r.git refs/heads/main 1
	wait_until 30 is_same g
	expect 4 at paris mirror sync none --json
	[ "$("$SITE_HELP" member reason <out)" = gone ]
}

plant_bomb() { # REPOSITORY
	local base bomb tree

	base=$(echo base | git -C "$1" hash-object -w --stdin)
	bomb=$(echo bomb | git -C "$1" hash-object -w --stdin)
	tree=$(printf '100644 blob %s\tbase\n100644 blob %s\tbomb\n' "$base" "$bomb" | git -C "$1" mktree)
	git -C "$1" update-ref refs/heads/bomb "$(git -C "$1" commit-tree -p main -m bomb "$tree")"
	git -C "$1" repack -adq
	python3 "$TESTS/lib/forge_pack.py" "$1" "$bomb" "$base"
}

# A site that is there for mirrors alone, with what serve would refuse.
checked() {
	make_mirror_sites
	(umask 077 && echo token >app1.token)
	mirror a
	watch a app1
	expect 0 at paris check
	grep '^ok  *mirrors  *1, with 1 watchers' out
	fails grep -i 'no remotes' out
	chmod 644 app1.token
	expect 1 at paris check
	grep '^FAIL  *watcher .*can be read by everybody' out
	chmod 600 app1.token
	mirror A
	expect 1 at paris check
	grep '^FAIL  *configuration .*would be one directory' out
	fails grep -i 'no remotes' out
}

tap_test "what is wrong with mirrors is found by check" checked
tap_test "many deletions are held until a person says what is advised" emptied
tap_test "an upstream that is away is told, and brought when it is back" away_and_back
tap_test "an upstream that is gone leaves its mirror as it is" gone_and_back
tap_test "one is asked whether it is as it was, gets rest if it limits that, and is not followed elsewhere" limited
tap_test "by ssh a key that is refused is marked, and an unknown host is not asked" by_ssh
tap_test "by git:// it is polled as well" by_git
tap_test "objects that come cut, turned, garbled or not at all fail their own mirror" hostile
tap_test "one waits for a free worker as long as that takes" no_worker_is_free
tap_test "nobody waits for a node that takes no mirrors, or none at the moment" no_worker_ever
tap_test "a fetch that is longer than a lease that is never renewed says so, and is tried again later" outlasts_its_lease
tap_test "a pack that is too large, or would be unpacked, fails its own mirror" too_large
tap_test "a pack for which there is no room leaves some for others" no_room
tap_done
