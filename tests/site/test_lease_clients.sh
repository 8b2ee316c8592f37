#!/usr/bin/env bash
# Locks of other programs: node-redlock, two versions of it, redsync, and `lease run` in their
# format exclude each other on one Redis server, and on three.
#
# npm and Go fetch the clients, in the versions of the lock files in tests/peers/redlock and
# tests/peers/redsync, and keep them in the caches of whoever runs this: the first run takes a
# network.
cache=${HOME:-/root}
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

fetch_clients() {
	cp -r "$TESTS/peers/redlock" "$TESTS/peers/redsync" .
	(cd redlock && npm ci --prefer-offline --ignore-scripts --no-audit --no-fund \
		--cache "$cache/.npm") || fail "npm cannot fetch node-redlock: see above"
	(cd redsync && GOFLAGS=-mod=readonly GOTOOLCHAIN=local GOPATH=$cache/go CGO_ENABLED=0 \
		GOCACHE=$cache/.cache/go-build go build -o client .) ||
		fail "go cannot fetch or build redsync: see above"
}

redis_at() { # NUMBER COMMAND...
	redis-cli -s "$SHARED/redis$1" "${@:2}"
}

redis_answers() { # NUMBER
	[ "$(redis_at "$1" PING)" = PONG ]
}

# Of several servers none votes that began less than a ttl ago, with a second more for what its
# clock leaves out.
redis_may_vote() { # NUMBER
	[ "$(redis_at "$1" INFO server | sed -n 's/^uptime_in_seconds:\([0-9]*\).*/\1/p')" -ge 10 ]
}

start_all() {
	local number

	for number in 1 2 3; do
		redis-server --port 0 --unixsocket "$PWD/redis$number" --save '' --daemonize no \
			--loglevel warning >"redis$number.log" 2>&1 &
	done
	fetch_clients
	for number in 1 2 3; do
		wait_until 10 redis_answers "$number"
	done
	make_conf "redis1"
	mv conf conf1
	make_conf "redis1 unix://$SHARED/redis2 unix://$SHARED/redis3"
	mv conf conf3
	for number in 1 2 3; do
		wait_until 20 redis_may_vote "$number"
	done
}

make_conf() { # URLS, without the first one's beginning
	mkdir -p git
	printf '%s\n' '[site]' 'name = paris' "repositories = $PWD/git" "data = $PWD/data" '[lease]' \
		'backend = redis' 'format = redlock' 'ttl = 8s' 'prefix = "docora:repo-lock:"' \
		"url = unix://$SHARED/$1" >conf
}

# Each runs for one of the clients on 1 or 3 servers, beside the others, in a directory and with
# a key of its own. $client, $servers, $key and $sockets are what it is about.
for_each_client() { # FUNCTION
	local client servers of result=0
	local -A running=()

	for client in redlock4 redlock5 redsync; do
		for servers in 1 3; do
			mkdir "$client-$servers"
			(cd "$client-$servers" && sockets=("$SHARED/redis1") key=$1-$client-$servers &&
				{ [ "$servers" = 1 ] || sockets+=("$SHARED/redis2" "$SHARED/redis3"); } && "$1") \
				>"$client-$servers/log" 2>&1 &
			running[$client-$servers]=$!
		done
	done
	for of in "${!running[@]}"; do
		wait "${running[$of]}" && continue
		echo "$of: $(cat "$of/log")"
		result=1
	done
	return "$result"
}

# What it says is in the file `theirs`. It holds the lock until `rm foreign`.
start_client() { # TTL_MS TRIES
	local program=(node "$SHARED/redlock/client.js" "$client")

	[ "$client" != redsync ] || program=("$SHARED/redsync/client")
	touch foreign
	"${program[@]}" "$PWD/foreign" "docora:repo-lock:$key" "$1" "$2" "${sockets[@]}" >theirs &
	foreign=$!
}

says() { # WORD...
	[ "$(tail -n 1 theirs)" = "$*" ] && return
	echo "it does not say $*: $(<theirs)"
	return 1
}

lease() { # VERB ARGUMENT...
	"$REFRELAY" -c "$SHARED/conf$servers" lease "$@"
}

# Until `rm ours`.
hold() { # WAIT
	touch ours
	"$REFRELAY" -c "$SHARED/conf$servers" lease run "$key" --wait "$1" -- \
		sh -c 'echo held >held; while [ -e ours ]; do sleep 0.02; done' &
	holder=$!
	wait_until 20 test -s held
}

# What all servers have.
values() {
	local number

	for ((number = 1; number <= servers; number++)); do
		redis_at "$number" GET "docora:repo-lock:$key"
	done
}

no_values() {
	values >left
	! grep . left
}

they_hold_it() {
	start_client 600000 1 # it is given back long before
	wait_until 20 says held
	expect 5 lease run "$key" --wait 0 -- touch ran
	expect 5 lease run "$key" --wait 1 -- touch ran
	lease run "$key" --wait 30 -- touch after &
	rm foreign
	wait "$foreign"
	says released
	wait $!
	[ ! -e ran ] && [ -e after ]
}

we_hold_it() {
	hold 0
	values >ours.values
	[ "$(wc -l <ours.values)" -eq "$servers" ]
	fails grep -qv '^[0-9a-f]\{32,\}$' ours.values
	start_client 30000 3
	wait_until 20 says refused
	start_client 30000 300
	rm ours
	wait "$holder"
	wait_until 20 says held
	rm foreign
	wait "$foreign"
	says released
	wait_until 20 no_values # it waits for most of the servers
}

# Its lock stands for as long as any look at it may take. It would lapse by itself; the rest of
# its ttl is not waited for, but a second.
they_die() {
	local number left

	start_client 600000 1
	wait_until 20 says held
	kill -9 "$foreign"
	expect 5 lease run "$key" --wait 0 -- touch ran
	for ((number = 1; number <= servers; number++)); do
		left=$(redis_at "$number" PTTL "docora:repo-lock:$key")
		[ "$left" -gt 0 ]
		[ "$left" -le 600000 ]
		redis_at "$number" PEXPIRE "docora:repo-lock:$key" 1000
	done
	lease run "$key" --wait 60 -- touch after
	[ ! -e ran ] && [ -e after ]
}

# It was renewed at a third of its ttl at the latest.
we_die() {
	local died

	hold 0
	start_client 30000 1
	wait_until 20 says refused
	start_client 30000 300
	died=${EPOCHREALTIME/.}
	kill -9 "$holder"
	wait_until 20 says held
	[ $((${EPOCHREALTIME/.} - died)) -gt 1000000 ]
	rm foreign
	wait "$foreign"
	says released
}

# How many servers have what most of them have, and that.
most_have() {
	values | sort | uniq -c | sort -rn | head -n 1
}

# A majority of the servers is ours as soon as theirs has lapsed there; at another one it may
# stand for a moment more.
they_are_late() {
	local count value

	start_client 4000 50
	wait_until 20 says held
	hold 20
	read -r count value < <(most_have)
	[ $((2 * count)) -gt "$servers" ]
	[ -n "$value" ]
	rm foreign
	wait "$foreign"
	says not ours
	[ "$(values | grep -cx "$value")" -ge "$count" ]
	rm ours
	wait "$holder"
	no_values
}

all_have_one() {
	[ "$(values | grep -c .)" -eq "$servers" ]
}

# A third has removed our key.
we_are_late() {
	local before number

	hold 0
	for ((number = 1; number <= servers; number++)); do
		redis_at "$number" DEL "docora:repo-lock:$key"
	done
	start_client 600000 1
	wait_until 20 says held
	wait_until 20 all_have_one # it waits for most of the servers
	before=$(values)
	rm ours
	wait "$holder" || :
	[ "$(values)" = "$before" ]
	rm foreign
	wait "$foreign"
	says released
}

# A site that mirrors acme/app, under locks whose key is as the format says.
mirror_site() { # KEY_FORMAT
	make_sites
	mkdir -p paris/git
	git config --file paris/refrelay.conf --remove-section primary
	set_conf paris site.role standalone
	set_conf paris lease.backend redis
	set_conf paris lease.url "unix://$SHARED/redis1"
	set_conf paris lease.format redlock
	set_conf paris lease.keyFormat "$1"
	make_repository upstream.git 2
	set_conf paris mirror.acme/app.url "$PWD/upstream.git"
	set_conf paris mirror.acme/app.interval 1h
}

is_mirrored() {
	[ "$(git -C upstream.git rev-parse main)" = "$(git -C paris/git/acme/app.git rev-parse main)" ]
}

# Whoever has the lock of a repository keeps the mirror's job from it, and the other way round. Of
# three clients, and of both keys that Docora has: of the name, and of the path of its clone.
a_mirrors_job() { # CLIENT KEY_FORMAT KEY
	local job servers=1 sockets=("$SHARED/redis1") client=$1 key=$3

	mirror_site "$2"
	start_client 600000 1
	wait_until 20 says held
	start_site paris
	expect 5 at paris mirror sync acme/app --wait 1
	grep 'Lock timeout waiting for repo: acme/app' err
	[ ! -e paris/git/acme/app.git ]
	at paris mirror show acme/app --json >shown
	[ "$("$SITE_HELP" member retry_count <shown)" = 0 ] # it is no failure of the upstream's
	rm foreign
	wait "$foreign"
	says released
	at paris mirror sync acme/app --wait 20
	is_mirrored
	stop_site paris
	add_commits upstream.git refs/heads/main 1
	start_site paris REFRELAY_FAILPOINT=sync.fetched=stop
	"$REFRELAY" -c paris/refrelay.conf mirror sync acme/app --wait 20 >synced 2>&1 &
	job=$!
	wait_until 20 is_paused paris
	start_client 30000 1
	wait_until 20 says refused
	kill -CONT "$(site_pid paris)"
	wait "$job"
	is_mirrored
	start_client 600000 100
	wait_until 20 says held
	rm foreign
	wait "$foreign"
	says released
	stop_site paris
}

with_node_redlock_by_the_name() {
	a_mirrors_job redlock5 'docora:repo-lock:${name}' acme/app
}

with_redsync_by_the_name() {
	a_mirrors_job redsync 'docora:repo-lock:${name}' acme/app
}

with_node_redlock_4_by_the_path() {
	a_mirrors_job redlock4 'docora:repo-lock:/data/repos/${name}' /data/repos/acme/app
}

tap_set_up start_all
tap_test "while they hold it, we do not; then we do" for_each_client they_hold_it
tap_test "while we hold it, they do not; then they do" for_each_client we_hold_it
tap_test "what one of them held who died is ours after its ttl" for_each_client they_die
tap_test "what we held who died is theirs after our ttl" for_each_client we_die
tap_test "their late release leaves us what we have" for_each_client they_are_late
tap_test "a mirror's job and node-redlock, by the repository's name" with_node_redlock_by_the_name
tap_test "a mirror's job and redsync, by the repository's name" with_redsync_by_the_name
tap_test "a mirror's job and node-redlock 4, by a path" with_node_redlock_4_by_the_path
tap_test "our late release leaves them what they have" for_each_client we_are_late
tap_done
