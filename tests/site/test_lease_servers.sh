#!/usr/bin/env bash
# Leases on a server that nodes share: what `lease run` of two data directories does there,
# and what a node says when the server is away.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/site_crash.sh"

start_redis() {
	redis-server --port 0 --unixsocket "$PWD/redis" --save '' --daemonize no \
		--loglevel warning >>redis.log 2>&1 &
	redis=$!
	wait_until 10 redis_is_up
}

redis_is_up() {
	[ "$(redis-cli -s "$PWD/redis" PING)" = PONG ]
}

redis_has() { # KEY
	[ "$(redis-cli -s "$PWD/redis" EXISTS "$1")" = 1 ]
}

stop_redis() {
	kill "$redis"
	wait "$redis" || :
}

redis_has_lease() { # KEY
	redis_has "$1"
}

# PostgreSQL refuses to be run by root.
as_postgres() { # PROGRAM ARGUMENT...
	local program=$1 command=()
	shift
	[ "$(id -u)" -ne 0 ] || command=(setpriv --reuid=postgres --regid=postgres --clear-groups)
	(cd postgresql && "${command[@]}" "$postgresql_bin/$program" "$@")
}

make_postgresql() {
	postgresql_bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
	mkdir postgresql
	if [ "$(id -u)" -eq 0 ]; then
		chmod 711 "$tap_root" .
		chown postgres: postgresql
	fi
	as_postgres initdb -D "$PWD/postgresql/db" -A trust -U postgres -N >postgresql.log
}

start_postgresql() {
	[ -e postgresql ] || make_postgresql
	as_postgres postgres -D "$PWD/postgresql/db" -k "$PWD/postgresql" -h '' -F \
		>>postgresql.log 2>&1 &
	wait_until 20 sql 'SELECT 1'
}

# As after a crash.
stop_postgresql() {
	kill -QUIT "$(head -n 1 postgresql/db/postmaster.pid)"
	wait_until 10 fails sql 'SELECT 1'
}

sql() { # STATEMENT
	psql -h "$PWD/postgresql" -U postgres -Atc "$1" postgres
}

postgresql_has_lease() { # KEY
	[ "$(sql "SELECT count(nonce) FROM refrelay.lease WHERE key = '$1' AND expires_at > now()")" -eq 1 ]
}

url_of() { # BACKEND
	case $1 in
	redis) echo "unix://$PWD/redis" ;;
	postgresql) echo "postgresql:///postgres?host=$PWD/postgresql&user=postgres" ;;
	esac
}

make_conf() { # NODE [LINE...]
	local node=$1
	shift
	mkdir -p "$node/git"
	printf '%s\n' '[site]' 'name = paris' "repositories = $PWD/$node/git" \
		"data = $PWD/$node/data" "node = at-$node" '[lease]' "backend = ${backend:-redis}" \
		"url = $(url_of "${backend:-redis}")" "$@" >"$node/conf"
}

lease() { # NODE ARGUMENT...
	local node=$1
	shift
	"$REFRELAY" -c "$node/conf" lease "$@"
}

two_data_directories_exclude_each_other() { # BACKEND
	local backend=$1

	start_"$backend"
	make_conf one
	make_conf two
	touch held
	"$REFRELAY" -c one/conf lease run k -- sh -c 'echo "$REFRELAY_JOB" >job; while [ -e held ]; do sleep 0.05; done' &
	wait_until 20 test -s job
	"$backend"_has_lease refrelay:paris:k
	expect 5 lease two run k --wait 1 -- touch ran
	grep -q "^refrelay: Lock timeout waiting for repo: k: held by at-one, process $!, job $(cat job) (run)" err
	lease two list >listed
	grep -qx refrelay:paris:k listed
	lease two show k >shown
	grep -q 'held: alive' shown
	rm held
	wait $!
	lease two run k --wait 0 -- touch ran
	[ -e ran ]
	fails "$backend"_has_lease refrelay:paris:k
	stop_"$backend"
}

a_holder_that_was_killed_is_succeeded_at_once() {
	local begun
	start_redis
	make_conf one
	make_conf two
	"$REFRELAY" -c one/conf lease run k -- sh -c 'echo up >up; exec sleep 600' &
	wait_until 10 test -s up
	kill -9 $!
	begun=$SECONDS
	lease two run k --wait 20 -- touch ran
	[ $((SECONDS - begun)) -le 10 ]
	kill "$redis"
}

other_sites_have_keys_of_their_own() {
	start_redis
	make_conf one
	make_conf two
	sed -i 's/name = paris/name = london/' two/conf
	touch held
	"$REFRELAY" -c one/conf lease run k -- sh -c 'echo up >up; while [ -e held ]; do sleep 0.05; done' &
	wait_until 10 test -s up
	lease two run k --wait 0 -- touch ran
	[ -e ran ]
	lease two list --json >listed
	fails grep -q paris listed
	rm held
	wait $!
	kill "$redis"
}

# While the server is frozen nobody else can have got the lease.
a_command_is_dead_before_its_lease_is_over() {
	local status=0 holder
	start_redis
	make_conf one 'ttl = 4s'
	make_conf two 'ttl = 4s'
	"$REFRELAY" -c one/conf lease run k -- sh -c 'echo $$ >pid; exec sleep 600' 2>lost &
	holder=$!
	wait_until 10 test -s pid
	kill -STOP "$redis"
	wait "$holder" || status=$?
	[ "$status" = 1 ]
	fails kill -0 "$(cat pid)" 2>/dev/null
	grep -q 'had to end at its deadline' lost
	kill -CONT "$redis"
	lease two run k --wait 20 -- touch ran
	[ -e ran ]
	kill "$redis"
}

# At the server its time runs out, whatever the holder's process does.
a_stopped_holders_command_is_dead_before_others_have_the_lease() {
	local holder
	start_redis
	make_conf one 'ttl = 4s'
	make_conf two 'ttl = 4s'
	"$REFRELAY" -c one/conf lease run k -- sh -c 'echo $$ >pid; exec sleep 600' &
	holder=$!
	wait_until 10 test -s pid
	kill -STOP "$holder"
	lease two run k --wait 30 -- sh -c 'kill -0 "$(cat pid)" 2>/dev/null && touch both; touch ran'
	[ -e ran ]
	[ ! -e both ]
	kill -CONT "$holder"
	wait "$holder" || :
	kill "$redis"
}

# Checked by a node as well, not by `check` alone; once each.
settings_that_lose_leases_are_told_at_the_start() {
	start_redis
	make_sites
	set_conf paris lease.backend redis
	set_conf paris lease.url "unix://$PWD/redis"
	make_repository london/git/a.git 2
	start_site london
	start_site paris
	wait_until 30 in_sync
	was_logged paris lease.server_doubtful '.*appendonly is off'
	[ "$(grep -c 'ev=lease.server_doubtful' paris/log)" = 1 ]
	stop_site paris
	redis-cli -s "$PWD/redis" CONFIG SET maxmemory 100mb >/dev/null
	redis-cli -s "$PWD/redis" CONFIG SET maxmemory-policy allkeys-lru >/dev/null
	start_site paris
	wait_until 20 was_logged paris lease.unavailable '.*it may evict leases'
	wait_until 20 away_since
	redis-cli -s "$PWD/redis" CONFIG SET maxmemory-policy noeviction >/dev/null
	wait_until 30 in_sync
	fails away_since
	stop_site paris
	stop_site london
	kill "$redis"
}

# A shared directory that fails is no failure of what could not be worked on.
a_directory_that_is_away_is_told_as_a_server_is() {
	make_sites
	set_conf paris lease.backend directory
	set_conf paris lease.path "$PWD/shared"
	make_repository london/git/a.git 2
	start_site london
	start_site paris
	wait_until 30 in_sync
	# At one moment for the node, which else may make it again.
	kill -STOP "$(site_pid paris)"
	wait_until 10 is_paused paris
	rm -rf shared
	touch shared
	kill -CONT "$(site_pid paris)"
	wait_until 30 away_since
	add_commits london/git/a.git refs/heads/main 1
	at london changed a
	wait_until 20 was_logged paris pull.no_lease '.*code=lock_unavailable'
	at paris status >out || :
	grep -q 'the leases became unavailable' out
	at paris repository show a --json >shown
	grep -q '"retry_count":0' shown
	rm shared
	wait_until 60 in_sync
	equal_repositories london/git/a.git paris/git/a.git
	fails away_since
	stop_site paris
	stop_site london
}

a_server_that_is_away_is_no_timeout() {
	make_conf one
	expect 5 lease one run k --wait 3 -- touch ran
	grep -q 'code=lock_unavailable' err
	fails grep -q 'Lock timeout' err
	[ ! -e ran ]
	expect 1 "$REFRELAY" -c one/conf check
	grep -q '^FAIL.*leases' out
}

away_since() {
	curl -sS "$(site_url paris)/readyz" | grep -q '"leases_away_since":"20'
}

held_key() {
	at paris lease list >listed || return
	key=$(grep -B 1 'held: alive' listed | grep -o '^refrelay:paris:geo_sync_ssf_service:repository:.*')
}

# What is there is read, what runs ends, nothing new starts; when it is back, all goes on.
a_secondary_says_so_and_goes_on_when_it_is_back() { # BACKEND
	local key

	start_"$1"
	make_sites
	set_conf paris lease.backend "$1"
	set_conf paris http.anonymousRead true
	set_conf paris lease.url "$(url_of "$1")"
	make_repository london/git/a.git 2
	start_site london
	start_site paris
	wait_until 30 in_sync
	hang_a_fetch
	held_key
	"$1"_has_lease "$key"
	curl -fsS "$(site_url paris)/api/v1/leases?held=true" >leases
	grep -qF "\"key\":\"$key\"" leases
	kill -CONT "$(site_pid london)"
	wait_until 30 in_sync
	wait_until 5 no_lease_like "$key"
	fails "$1"_has_lease "$key"
	fails away_since
	stop_"$1"
	wait_until 20 away_since
	at paris status >out || :
	grep -q 'the leases became unavailable' out
	add_commits london/git/a.git refs/heads/main 1
	at london changed a
	git ls-remote "$(site_url paris)/a.git" >/dev/null
	wait_until 20 was_logged paris job.deferred '.*code=lock_unavailable'
	fails equal_repositories london/git/a.git paris/git/a.git
	at paris repository show a --json >shown
	grep -q '"retry_count":0' shown
	start_"$1"
	wait_until 60 in_sync
	equal_repositories london/git/a.git paris/git/a.git
	fails away_since
	stop_site paris
	stop_site london
	stop_"$1"
}

# As docs/leases.md has them, and nothing else is asked for.
the_documented_rights_of_a_redis_user_suffice() {
	local rights
	start_redis
	make_sites
	set_conf paris lease.backend redis
	set_conf paris lease.url "$(url_of redis)"
	set_conf paris lease.userFile "$PWD/user"
	set_conf paris lease.passwordFile "$PWD/password"
	printf refrelay >user
	printf PASSWORD >password
	chmod 600 user password
	read -ra rights < <(sed -n '/^    ACL SETUSER/,/^$/p' "$TESTS/../docs/leases.md" | tr '\n' ' ') || :
	[ "$(redis-cli -s "$PWD/redis" "${rights[@]}")" = OK ]
	"$REFRELAY" -c paris/refrelay.conf check >out 2>&1 || :
	grep -q 'ok .*leases .*answers' out || cat out
	grep -q 'ok .*leases .*answers' out
	at paris lease run k --wait 0 -- "$REFRELAY" -c paris/refrelay.conf lease show k >shown
	grep -q '^refrelay:paris:k$' shown
	at paris lease show k >shown
	[ -z "$(redis-cli -s "$PWD/redis" ACL LOG)" ]
	fails at paris lease show none 2>err
	grep -q 'no lease refrelay:paris:none was ever granted' err
	# Keys without the prefix take a pattern of their own, for their endings, too.
	set_conf paris lease.keyFormat 'x:${name}'
	"$REFRELAY" -c paris/refrelay.conf check >out 2>&1 || :
	grep 'FAIL .*leases .*NOPERM' out
	redis-cli -s "$PWD/redis" ACL SETUSER refrelay '~x:check-????????????????'
	"$REFRELAY" -c paris/refrelay.conf check >out 2>&1 || :
	grep 'FAIL .*leases .*NOPERM' out
	redis-cli -s "$PWD/redis" ACL SETUSER refrelay '~x:*'
	"$REFRELAY" -c paris/refrelay.conf check >out 2>&1 || :
	grep 'ok .*leases .*answers' out
	fails grep 'FAIL .*leases' out
	[ "$(redis-cli -s "$PWD/redis" KEYS 'x:*')" = "" ]
	stop_redis
}

for backend in redis postgresql; do
	tap_test "two data directories exclude each other with $backend" \
		two_data_directories_exclude_each_other "$backend"
done
backend=
tap_test "a holder that was killed is succeeded at once" a_holder_that_was_killed_is_succeeded_at_once
tap_test "other sites have keys of their own" other_sites_have_keys_of_their_own
tap_test "a command is dead before its lease is over" a_command_is_dead_before_its_lease_is_over
tap_test "a stopped holder's command is dead before others have the lease" \
	a_stopped_holders_command_is_dead_before_others_have_the_lease
tap_test "settings that lose leases are told at the start" settings_that_lose_leases_are_told_at_the_start
tap_test "a directory that is away is told as a server is" a_directory_that_is_away_is_told_as_a_server_is
tap_test "a server that is away is no timeout" a_server_that_is_away_is_no_timeout
for backend in redis postgresql; do
	tap_test "a secondary says that $backend is away, and goes on when it is back" \
		a_secondary_says_so_and_goes_on_when_it_is_back "$backend"
done
tap_test "the documented rights of a Redis user suffice" \
	the_documented_rights_of_a_redis_user_suffice
tap_done
