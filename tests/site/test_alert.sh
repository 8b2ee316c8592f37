#!/usr/bin/env bash
# What is wrong is told to whoever is to hear of it, once when it begins and once when it is over:
# each kind of trouble is made, and ended.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/mirrored.sh"
. "$TESTS/lib/alerted.sh"

copies_that_lag_fail_and_are_held() {
	local number

	make_alert_sites a b
	for number in $(seq 30); do
		git -C london/git/b.git branch "old-$number"
	done
	start_sites
	wait_until 20 in_sync
	# Only now: the first copies may lag, too.
	alert paris kind lag kind failures kind held
	alert london kind lag kind failures kind held
	reload paris
	reload london
	# One cannot be brought, because something else stands in its place ...
	echo mine >paris/git/d
	make_repository london/git/d/c.git 1
	# ... one has lost many refs, and nobody pushed that.
	git -C london/git/b.git for-each-ref --format='delete %(refname)' refs/heads/old-* |
		git -C london/git/b.git -c core.hooksPath=/dev/null update-ref --stdin
	wait_until 20 begins paris failures 'repositories: conflict'
	wait_until 20 begins paris held repositories
	wait_until 20 begins london held 'at paris'
	wait_until 20 begins london failures 'at paris'
	wait_until 20 begins paris lag paris
	wait_until 20 begins london lag paris
	wait_until 10 list_says '^  lag, present: paris is .* behind (the limit is 2.0 s); since 20.*, last sent 20'
	grep -A 1 '^  failures, present: repositories failing: 1 (conflict), e.g. d/c: ' list
	grep '^a: command .*/tell, last sent 20' list
	rm paris/git/d
	at paris repository sync d/c
	at paris repository sync b --force
	wait_until 20 in_sync
	wait_until 20 is_over paris failures 'repositories: conflict'
	wait_until 20 is_over paris held repositories
	wait_until 20 is_over london held 'at paris'
	wait_until 20 is_over paris lag paris
	wait_until 20 is_over london lag paris
	wait_until 10 all_is_told
	# With what was wrong goes what to do.
	grep '"kind":"held","subject":"repositories","message":"held repositories: 1, e.g. b: .*","remedy":"[^"]' paris/told
	fails grep '"continues"' paris/told
}

what_a_primary_has() {
	make_alert_sites a b
	alert london kind hooks kind expiry kind damage kind storage
	mkdir london/tree
	set_conf london blob.tree.path "$PWD/london/tree"
	(umask 077 && head -c 24 /dev/urandom | base64 >ci.token)
	set_conf london token.ci.file "$PWD/ci.token"
	set_conf london token.ci.expires "$(date -ud '+3 days' +%FT%TZ)"
	start_site london
	wait_until 20 begins london expiry 'the token ci'
	# Who never had hooks is not told that they are gone.
	fails grep '"hooks"' london/told
	at london hooks install
	at london changed a b
	wait_until 20 scanned_hooks
	rm london/git/a.git/hooks/post-receive
	wait_until 20 begins london hooks hooks
	at london hooks install
	wait_until 20 is_over london hooks hooks
	set_conf london token.ci.expires "$(date -ud '+300 days' +%FT%TZ)"
	reload london
	wait_until 20 is_over london expiry 'the token ci'
	lose_an_object london/git/b.git
	at london repository reverify b
	wait_until 20 began_damage london
	give_it_back london/git/b.git
	at london repository reverify b
	wait_until 20 ended_damage london
	mv london/tree london/away
	wait_until 20 begins london storage tree
	mv london/away london/tree
	wait_until 20 is_over london storage tree
}

scanned_hooks() {
	[ "$(sqlite_value london "SELECT value FROM site_value WHERE key = 'alert.had_hooks'")" = yes ]
}

sqlite_value() { # SITE SQL
	python3 -c 'import sqlite3, sys
[[value]] = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True).execute(sys.argv[2])
print(value)' "$1/data/refrelay.db" "$2"
}

lose_an_object() { # REPOSITORY
	local oid
	oid=$(git -C "$1" rev-parse 'main^{tree}')
	lost=objects/${oid:0:2}/${oid:2}
	mv "$1/$lost" lost
}

give_it_back() { # REPOSITORY
	mv lost "$1/$lost"
}

began_damage() { # SITE
	[ "$(grep -o '"event":"begins","kind":"damage"' "$1/told" | wc -l)" -ge 1 ]
}

ended_damage() { # SITE
	[ "$(grep -o '"event":"over","kind":"damage"' "$1/told" | wc -l)" -ge 1 ]
}

damage_at_a_copy() {
	make_alert_sites a
	set_conf paris sync.maintenance false
	alert paris kind damage settle 4s # it is damage found for twice as long
	start_sites
	wait_until 20 in_sync
	lose_bytes paris/git/a.git
	at paris repository reverify a
	# It mends itself at once; that the disk does such things is told all the same.
	wait_until 30 began_damage paris
	wait_until 20 in_sync
	wait_until 40 ended_damage paris
	grep '"message":"damage found: repository a: ' paris/told
}

list_says() { # PATTERN
	at paris alert list >list && grep "$1" list
}

# As a disk rots: neither size nor times change.
lose_bytes() { # REPOSITORY
	python3 - "$1" <<-'END'
		import glob, os, sys
		[path] = glob.glob(sys.argv[1] + "/objects/pack/pack-*.pack")
		before = os.stat(path)
		os.chmod(path, 0o644)
		with open(path, "r+b") as file:
		    data = bytearray(file.read())
		    data[len(data) // 2] ^= 0xFF
		    file.seek(0)
		    file.write(data)
		os.chmod(path, before.st_mode & 0o777)
		os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
	END
}

has_beats() { # NUMBER
	[ -f hook/beats ] && [ "$(wc -l <hook/beats)" -ge "$1" ]
}

time_is() { # SECONDS
	[ "$SECONDS" -ge "$1" ]
}

# Nothing can be written down, and still everybody is told.
a_disk_that_is_full() {
	local beats

	make_alert_sites a
	[ "$(id -u)" -eq 0 ] || skip "only root can mount a file system of a certain size"
	mkdir -p paris/data
	mount -t tmpfs -o size=12m,mode=700 refrelay-test paris/data 2>/dev/null || skip "no tmpfs can be mounted here"
	# shellcheck disable=SC2064
	trap "umount -l '$PWD/paris/data'" EXIT
	alert paris kind disk kind storage disk 1m
	start_receiver hook none
	set_conf paris alert.a.heartbeat "http://127.0.0.1:$(cat hook/port)/ping?id=7"
	set_conf paris alert.a.heartbeatInterval 1s
	start_sites
	wait_until 20 in_sync
	wait_until 20 has_beats 2
	grep -x '/ping?id=7' hook/beats
	head -c 20000000 /dev/zero >paris/data/filler 2>/dev/null || true
	wait_until 20 begins paris disk "$PWD/paris/data"
	wait_until 20 begins paris storage writing
	# A node that cannot do its work does not say that it does.
	beats=$(wc -l <hook/beats)
	at paris check >said 2>&1 || :
	wait_until 10 time_is $((SECONDS + 5)) # several of its intervals; one may be under way
	[ "$(wc -l <hook/beats)" -le $((beats + 1)) ]
	rm paris/data/filler
	wait_until 20 is_over paris disk "$PWD/paris/data"
	wait_until 20 is_over paris storage writing
	wait_until 20 has_beats $((beats + 3))
}

age_of_paris() { # in whole seconds, for london
	at london status --json >status || :
	python3 -c 'import json
print(int(json.load(open("status"))["secondaries"][0]["age"]))'
}

is_paris_older_than() { # SECONDS
	[ "$(age_of_paris)" -gt "$1" ]
}

# Neither hears of the other.
a_site_that_is_silent() {
	local url age

	make_alert_sites a
	alert london kind silence # of five minutes, until the page was asked for
	alert paris kind silence silence 11s
	start_sites
	wait_until 20 in_sync
	url=$(git config --file paris/refrelay.conf primary.url)
	stop_site paris
	set_conf paris primary.url "http://127.0.0.1:$(free_port)/"
	start_site paris
	# Pages that are asked for during a long comparison are a sign of life.
	wait_until 20 is_paris_older_than 6
	age=$(age_of_paris)
	python3 "$TESTS/data/ask_signed.py" secret paris "$(site_url london)" GET '/api/v1/repositories?limit=1' >page
	grep '"name":"a"' page
	[ "$(age_of_paris)" -lt "$age" ]
	set_conf london alert.a.silence 11s
	reload london
	wait_until 20 begins london silence paris
	wait_until 20 begins paris silence primary
	# A command there is no sign of life of its node.
	stop_site paris
	set_conf paris primary.url "$url"
	at paris check >said || :
	grep 'answers and accepts our secret' said
	[ "$(age_of_paris)" -ge 11 ]
	# Nobody is told twice after a restart, and what ended while a node was down is told after it.
	stop_site london
	at london alert list >list 2>said
	grep 'no node is running here; this is what the last one recorded' said
	grep '^  silence, present: ' list
	start_site london
	start_site paris
	wait_until 20 is_over london silence paris
	wait_until 20 is_over paris silence primary
	wait_until 20 in_sync
	[ "$(cat london/told paris/told | wc -l)" -eq 4 ]
	fails grep '"continues"' london/told paris/told
}

certificates_that_expire() {
	make_mirror_sites
	make_repository london/git/a.git 3
	set_conf london http.anonymousRead true
	make_certificate london 3
	cp london/cert.pem trusted.pem
	set_conf london http.tlsCertificate "$PWD/london/cert.pem"
	set_conf london http.tlsKey "$PWD/london/key.pem"
	export CURL_CA_BUNDLE=$PWD/trusted.pem
	mirror a caFile "$PWD/trusted.pem"
	alert london kind expiry
	alert paris kind expiry
	start_site london
	start_site paris
	wait_until 20 is_mirrored a
	wait_until 20 begins london expiry 'the TLS certificate of this site'
	wait_until 20 begins paris expiry "the TLS certificate of $(sed 's,.*//,,' <<<"$(site_url london)")"
	make_certificate london 300
	cat london/cert.pem >>trusted.pem
	reload london
	wait_until 20 is_over london expiry 'the TLS certificate of this site'
	reload paris # which asks anew
	wait_until 20 is_over paris expiry "the TLS certificate of $(sed 's,.*//,,' <<<"$(site_url london)")"
}

redis_is_up() {
	[ "$(redis-cli -s "$PWD/redis" PING)" = PONG ]
}

start_redis() {
	redis-server --port 0 --unixsocket "$PWD/redis" --save '' --daemonize no \
		--loglevel warning >>redis.log 2>&1 &
	redis=$!
	wait_until 10 redis_is_up
}

leases_whose_server_is_away() {
	make_alert_sites a
	start_redis
	set_conf paris lease.backend redis
	set_conf paris lease.url "unix://$PWD/redis"
	alert paris kind leases
	start_sites
	wait_until 20 in_sync
	kill "$redis"
	wait "$redis" || :
	wait_until 20 begins paris leases leases
	start_redis
	wait_until 20 is_over paris leases leases
}

tap_test "copies that lag, fail or are held: both sites tell, and when it is over" \
	copies_that_lag_fail_and_are_held
tap_test "at a primary: hooks that are gone, a token that expires, a damaged repository, blobs that are away" \
	what_a_primary_has
tap_test "damage of a copy is told of although it mends itself" damage_at_a_copy
tap_test "a full disk is told of, and heartbeats stop until it is not" a_disk_that_is_full
tap_test "a silent site is told of, once over all restarts" a_site_that_is_silent
tap_test "certificates that expire, one's own and an upstream's" certificates_that_expire
tap_test "a server of leases that is away" leases_whose_server_is_away
tap_done
