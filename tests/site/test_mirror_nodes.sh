#!/usr/bin/env bash
# Two nodes, ./paris and ./rome, keep the same mirrors in one tree: never two at once in a
# repository, nothing is brought twice, and each says what it has proved itself.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/site_crash.sh"
. "$TESTS/lib/mirrored.sh"
. "$TESTS/lib/alerted.sh"
. "$TESTS/lib/postgresql.sh"

start_redis() { # SOCKET
	redis-server --port 0 --unixsocket "$PWD/$1" --save '' --daemonize no \
		--loglevel warning >>redis.log 2>&1 &
	wait_until 10 redis_is_up "$1"
}

redis_is_up() { # SOCKET
	[ "$(redis-cli -s "$PWD/$1" PING)" = PONG ]
}

# Who fetches by git is seen, and waits a moment: two for one clone at a time are a violation,
# for several clones they are written down in ./parallel.
shim_git() {
	mkdir -p shim at
	: >fetches
	: >violations
	cat >shim/git <<-END
		#!/bin/sh
		case " \$* " in
		*' fetch '*) ;;
		*) exec $(command -v git) "\$@" ;;
		esac
		for last; do :; done
		at=$PWD/at/\${last##*/}
		echo "\$*" >>$PWD/fetches
		mkdir "\$at" 2>/dev/null || echo "\$*" >>$PWD/violations
		[ "\$(ls $PWD/at | wc -l)" -lt 2 ] || echo "\$*" >>$PWD/parallel
		[ ! -e $PWD/slowly ] || sleep 1
		$(command -v git) "\$@"
		status=\$?
		rmdir "\$at"
		exit \$status
	END
	chmod +x shim/git
	SHIM=$PWD/shim:$PATH
}

make_nodes() { # BACKEND
	make_mirror_sites
	set_conf london http.anonymousRead true
	(umask 077 && echo 0123456789abcdef-operator >operator.token)
	set_conf paris http.operatorTokenFile "$PWD/operator.token"
	set_conf paris lease.backend "$1"
	case $1 in
	redis)
		start_redis redis
		set_conf paris lease.url "unix://$PWD/redis"
		;;
	postgresql)
		start_postgresql
		set_conf paris lease.url "$postgresql_url"
		;;
	directory) set_conf paris lease.path "$PWD/leases" ;;
	esac
	make_repository london/git/a.git 6
	mirror a interval 1h
	mkdir rome
	cp paris/refrelay.conf rome/
	set_conf rome site.data "$PWD/rome/data"
	set_conf rome http.listen "127.0.0.1:$(free_port)"
	shim_git
	start_site london
}

start_node() { # NODE [VAR=VALUE...]
	start_site "$@" PATH="$SHIM"
}

mirror_member() { # NODE MEMBER
	at "$1" mirror show a --json | "$SITE_HELP" member "$2"
}

# The row says so, and means what is there now.
has_row() { # NODE
	local said sum

	said=$(at "$1" mirror show a --json) && [[ $said == *'"state":"synced"'* ]] &&
		[[ $said =~ \"checksum\":\"([^\"]+)\" ]] && sum=${BASH_REMATCH[1]} &&
		said=$(at "$1" checksum a) && [ "$sum" = "${said%% *}" ]
}

both_have_it() {
	wait_until 30 is_mirrored a
	wait_until 30 has_row paris
	wait_until 30 has_row rome
}

# Not by the node itself, so that the shim sees it.
by_git() {
	set_conf paris sync.fastPath false
	set_conf rome sync.fastPath false
}

start_nodes() {
	start_node paris
	start_node rome
	both_have_it
}

change_a() {
	add_commits london/git/a.git refs/heads/main 1
	git -C london/git/a.git update-ref "refs/heads/at-$RANDOM$RANDOM" main
}

# A job at that node; its id is in $job.
ask() { # NODE
	begin_to_ask "$1" a
	was_taken "$1"
}

job_is() { # NODE ID STATE
	curl -s "$(site_url "$1")/api/v1/jobs/$2" >job
	[ "$("$SITE_HELP" member state <job)" = "$3" ] || {
		cat job
		return 1
	}
}

nothing_is_wrong() {
	local node

	[ ! -s violations ] || fail "two at once: $(cat violations)"
	has_no_fault london/git/a.git paris/git/a.git
	wait_until 10 no_left_overs
	for node in paris rome; do
		fails was_logged "$node" 'verify\.mismatch|sync\.held|copies\.doubted|sync\.damaged'
	done
}

no_row_is_new() { # NODE EVENTS
	[ "$(events_of "$1" a)" = "$2" ]
}

syncs() { # NODE
	at "$1" mirror sync a >"$1.synced"
	[ "$(cut -d ' ' -f 3 "$1.synced")" = "$(tip london/git/a.git)" ]
}

sync_both() {
	local first second

	syncs paris &
	first=$!
	syncs rome &
	second=$!
	wait "$first"
	wait "$second"
}

# Of both jobs one fetches, and the other one finds what it wants.
fetched_once() { # BACKEND
	local i before

	make_nodes "$1"
	by_git
	start_nodes
	touch slowly
	for i in 1 2 3 4; do
		before=$(wc -l <fetches)
		change_a
		sync_both
		[ "$(wc -l <fetches)" = $((before + 1)) ] || fail "$(tail -n +$((before + 1)) fetches)"
		both_have_it
	done
	cat paris/log rome/log | grep -a 'ev=lease.waiting' |
		grep -aE 'holder_job=[0-9a-f]{16} holder_operation=sync'
	nothing_is_wrong
	# each log counts for itself, and misses none
	wait_until 10 no_row_is_new paris 5
	wait_until 10 no_row_is_new rome 5
	at rome events | grep '"name":"a"' | tail -n 1 | grep '"generation":5'
}

packs_asked_for() {
	grep -ac 'ev=http.request .* method=POST target=/a.git/git-upload-pack ' london/log
}

were_asked_for() { # TIMES
	[ "$(packs_asked_for)" -ge "$1" ]
}

fetched_once_without_git() {
	local i before

	make_nodes redis
	start_nodes
	before=$(packs_asked_for)
	: >fetches
	for i in 1 2 3 4; do
		change_a
		sync_both
		both_have_it
		wait_until 10 were_asked_for $((before + i))
		[ "$(packs_asked_for)" = $((before + i)) ]
	done
	[ ! -s fetches ]
	nothing_is_wrong
}

# Different clones do not wait for each other.
side_by_side() {
	local node

	make_nodes redis
	make_repository london/git/b.git 3
	for node in paris rome; do
		set_conf "$node" mirror.b.url "$(site_url london)/b.git"
		set_conf "$node" mirror.b.interval 1h
		set_conf "$node" sync.fastPath false
	done
	start_nodes
	wait_until 30 is_mirrored b
	touch slowly
	wait_until 60 were_fetched_at_once
	[ ! -s violations ] || fail "two at once: $(cat violations)"
}

were_fetched_at_once() {
	local first second

	change_a
	add_commits london/git/b.git refs/heads/main 1
	at paris mirror sync a &
	first=$!
	at rome mirror sync b &
	second=$!
	wait "$first" && wait "$second" && [ -s parallel ]
}

# Nobody asks for anything: what one has brought the other one takes.
polled() {
	make_nodes redis
	set_conf paris mirror.a.interval 1s
	set_conf rome mirror.a.interval 1s
	by_git
	start_nodes
	for _ in 1 2 3; do
		change_a
		both_have_it
	done
	[ "$(wc -l <fetches)" -le 4 ] || fail "$(cat fetches)"
	nothing_is_wrong
}

# rome reads its mirror again, whose row is old by then.
reverified() {
	make_nodes redis
	set_conf rome sync.reverifyInterval 2s
	start_nodes
	change_a
	syncs paris
	both_have_it
	nothing_is_wrong
}

# The upstream goes back to what rome has proved, while it is not what is there.
back_again() {
	local old

	make_nodes redis
	by_git
	start_nodes
	stop_site rome
	old=$(tip london/git/a.git)
	add_commits london/git/a.git refs/heads/main 1
	syncs paris
	git -C london/git/a.git update-ref refs/heads/main "$old"
	stop_site paris
	set_conf rome mirror.a.interval 1s
	start_node rome
	wait_until 30 is_mirrored a
	wait_until 30 has_row rome
	nothing_is_wrong
}

# What one has removed, the other one still keeps, and says so when it has it again.
removed_by_one() {
	make_nodes redis
	set_conf rome mirror.a.interval 1s
	make_repository paris/git/other.git 1
	start_nodes
	stop_site paris
	git config --file paris/refrelay.conf --remove-section mirror.a
	at paris mirror remove a
	wait_until 30 is_mirrored a
	wait_until 30 has_row rome
	at rome mirror list | grep '^up to date  *a '
	[ -n "$(ls paris/git/.refrelay/trash)" ]
}

# Who removes it waits for the other one's fetch.
removed_while_the_other_fetches() {
	make_nodes redis
	set_conf paris lease.wait 1s
	make_repository paris/git/other.git 1
	start_nodes
	stop_site paris
	git config --file paris/refrelay.conf --remove-section mirror.a
	stop_site rome
	start_node rome REFRELAY_FAILPOINT=objects.fetched=stop
	change_a
	begin_to_ask rome a
	wait_until 20 is_paused rome
	expect 5 at paris mirror remove a
	grep 'Lock timeout waiting for repo: a: held by' err
	[ -d paris/git/a.git ]
	kill -CONT "$(site_pid rome)"
	was_taken rome
	wait_until 30 job_is rome "$job" 'done'
	stop_site rome
	at paris mirror remove a
	[ ! -e paris/git/a.git ]
	git config --file rome/refrelay.conf --remove-section mirror.a
	at rome mirror remove a # its row, as nothing is there any more
	fails at rome mirror show a
	wait_until 10 no_left_overs
	[ ! -s violations ]
}

# The one that fetches is killed at that point; the other one waits, and goes on. With one of
# the backends by git, with the other one without.
killed() { # BACKEND POINT...
	local point

	make_nodes "$1"
	[ "$1" != redis ] || by_git
	shift
	start_nodes
	for point; do
		echo "$point:"
		stop_site paris
		start_node paris "REFRELAY_FAILPOINT=$point=kill"
		change_a
		job=
		begin_to_ask paris a
		is_killed_within 20 paris
		was_taken paris || :
		rmdir at/a.git 2>/dev/null || :
		syncs rome
		wait_until 20 is_mirrored a
		nothing_is_wrong
		start_node paris
		[ -n "$job" ] || ask paris
		wait_until 30 job_is paris "$job" 'done'
		both_have_it
	done
	nothing_is_wrong
}

# It stands still past its lease, the other one brings something newer, and it goes on:
# that changes nothing any more.
stands_still() { # BACKEND POINT...
	local point before

	make_nodes "$1"
	[ "$1" != redis ] || by_git
	shift
	set_conf paris lease.ttl 6s # long enough for a try on a busy machine
	set_conf rome lease.ttl 6s
	start_nodes
	for point; do
		echo "$point:"
		stop_site paris
		start_node paris "REFRELAY_FAILPOINT=$point=stop"
		change_a
		begin_to_ask paris a
		wait_until 20 is_paused paris
		wait_until 20 no_site_children paris
		rmdir at/a.git 2>/dev/null || :
		change_a
		syncs rome
		cp paris/git/a.git/refrelay/copy copy
		note_refs
		before=$(count_lost)
		kill -CONT "$(site_pid paris)"
		was_taken paris
		wait_until 10 has_lost_more "$before"
		wait_until 10 is_put_back "$job"
		[ "$(grep -o '"checksum":"[^"]*"' copy)" = \
			"$(grep -o '"checksum":"[^"]*"' paris/git/a.git/refrelay/copy)" ]
		refs_are_as_noted
		is_due_now "$job"
		wait_until 30 job_is paris "$job" 'done'
		both_have_it
	done
	nothing_is_wrong
}

count_lost() {
	logged paris 'lease\.(lost|released_late)' || true
}

has_lost_more() { # BEFORE
	[ "$(count_lost)" -gt "$1" ]
}

# The pause before the next try is a quarter of a minute at least, and not waited for. The node looks when it
# is told of new settings.
is_put_back() { # JOB
	job_is paris "$1" waiting && [ "$("$SITE_HELP" member attempts <job)" -gt 0 ]
}

is_due_now() { # JOB
	python3 - paris/data/refrelay.db "$1" <<-'END'
		import sqlite3, sys
		base = sqlite3.connect(sys.argv[1], timeout=20)
		changed = base.execute("UPDATE mirror_request SET next_at = 0 WHERE id = ? AND state = 0", sys.argv[2:])
		assert changed.rowcount == 1, changed.rowcount
		base.commit()
	END
	reload paris
}

note_refs() {
	git -C paris/git/a.git for-each-ref >noted
}

refs_are_as_noted() {
	git -C paris/git/a.git for-each-ref | diff noted -
}

# rome does not start, and check and a reload say why.
is_refused() { # KEY TEXT
	expect 2 timeout 20 "$REFRELAY" -c rome/refrelay.conf serve
	grep "the node of $PWD/paris/data on" err
	grep "the node of $PWD/rome/data on" err
	grep "$2" err
	expect 1 at rome check
	grep "^FAIL *nodes .*$1" out
}

is_refused_with() { # KEY VALUE TEXT
	cp rome/refrelay.conf rome/good
	set_conf rome "$1" "$2"
	is_refused "$1" "$3"
	mv rome/good rome/refrelay.conf
}

reload_is_refused() {
	cp rome/refrelay.conf rome/good
	set_conf rome lease.ttl 20s
	kill -HUP "$(site_pid rome)"
	wait_until 10 was_logged rome 'node\.reload_failed' 'lease\.ttl'
	mv rome/good rome/refrelay.conf
	kill -HUP "$(site_pid rome)"
	wait_until 10 was_logged rome 'node\.reloaded'
}

# Somebody clears the folder away; and one is there that could not be seen before.
records_come_back() {
	local nodes=paris/git/.refrelay/nodes other=0123456789abcdef0123456789abcdef

	rm -r "$nodes"
	wait_until 30 records_are 2
	sed 's/"boot_id":"[^"]*"/"boot_id":"another"/; s/refrelay:paris:/other:/' \
		"$(find "$nodes" -type f | head -n 1)" >record
	cp record "$nodes/$other"
	wait_until 30 was_logged rome 'tree\.differs' 'lease\.prefix is \\"other:\\" there'
	rm "$nodes/$other"
}

records_are() { # NUMBER
	[ "$(find paris/git/.refrelay/nodes -type f | wc -l)" = "$1" ]
}

# Another server; and another way to the same one, of which check cannot tell.
elsewhere_is_refused() {
	start_redis redis2
	set_conf rome lease.url "unix://$PWD/redis2"
	expect 2 timeout 30 "$REFRELAY" -c rome/refrelay.conf serve
	grep "the node of $PWD/paris/data on .*its leases are kept elsewhere" err
	ln -s redis redis3
	set_conf rome lease.url "unix://$PWD/redis3"
	start_node rome
	at rome check | grep "^note *nodes .*written otherwise"
	stop_site rome
}

refused() {
	make_nodes redis
	start_node paris
	is_refused_with lease.ttl 20s 'lease.ttl is "30 s" there and "20 s" here'
	is_refused_with lease.prefix other: 'lease.prefix is "refrelay:paris:" there and "other:" here'
	is_refused_with site.name rome 'lease.prefix is "refrelay:paris:" there and "refrelay:rome:" here'
	is_refused_with lease.keyFormat 'k:${id}' 'lease.keyFormat is "" there and "k:${id}" here'
	git config --file rome/refrelay.conf --unset lease.url
	is_refused_with lease.backend local 'lease.backend is "local" here'
	set_conf rome lease.path "$PWD/leases"
	is_refused_with lease.backend directory 'lease.backend is "redis" there and "directory" here'
	git config --file rome/refrelay.conf --unset lease.path
	elsewhere_is_refused
	set_conf rome lease.url "unix://$PWD/redis"
	start_node rome
	at rome check | grep "^ok *nodes .*the node of $PWD/paris/data on"
	reload_is_refused
	records_come_back
	stop_site rome
	kill_site paris
	set_conf rome lease.prefix other: # nobody else is there any more
	start_node rome
	wait_until 30 has_row rome
}

# Long before lease.wait is over. By its own log, so that what a sanitizer takes at the end does not count.
stopped_at_once() { # NODE
	python3 - "$1/log" <<-'END'
		import datetime, sys
		times = {}
		for line in open(sys.argv[1], encoding="utf-8", errors="replace"):
		    words = dict(word.partition("=")[::2] for word in line.split() if "=" in word)
		    if words.get("ev") in ("node.stopping", "node.stopped"):
		        times[words["ev"]] = datetime.datetime.fromisoformat(words["ts"].replace("Z", "+00:00"))
		took = (times["node.stopped"] - times["node.stopping"]).total_seconds()
		print(took, "s")
		sys.exit(not 0 <= took <= 15)
	END
}

# Who waits for a lease is let go at once, and what it was asked for is not lost.
stopped_while_it_waits() { # BACKEND
	make_nodes "$1"
	start_nodes
	stop_site paris
	start_node paris REFRELAY_FAILPOINT=objects.fetched=stop
	change_a
	begin_to_ask paris a
	wait_until 20 is_paused paris
	ask rome
	wait_until 20 was_logged rome 'lease\.waiting' "job_id=$job"
	ends_within 15 rome
	stopped_at_once rome
	was_logged rome 'job\.deferred' "job_id=$job.*code=canceled"
	kill_site paris
	rmdir at/a.git 2>/dev/null || :
	start_node rome
	wait_until 60 job_is rome "$job" 'done'
	wait_until 10 was_logged rome sync.done "job_id=$job "
	wait_until 20 is_mirrored a
	nothing_is_wrong
}

# Git hangs in a repack of one; the other one gets the lease, and fetches.
gives_way() { # BACKEND
	local i

	make_nodes "$1"
	cat >shim/git.new <<-END
		#!/bin/sh
		case "\$*" in *--geometric*)
			if rm $PWD/hang 2>/dev/null; then
				echo \$\$ >$PWD/hangs.new && mv $PWD/hangs.new $PWD/hangs
				exec sleep 600
			fi ;;
		esac
	END
	sed 1d shim/git >>shim/git.new
	chmod +x shim/git.new
	mv shim/git.new shim/git
	for i in paris rome; do
		set_conf "$i" sync.maintenance false
		set_conf "$i" sync.maintenanceInterval 1s
	done
	start_nodes
	for ((i = 0; i < 9; i++)); do
		add_commits london/git/a.git refs/heads/main 1
		syncs paris
	done
	syncs rome
	both_have_it
	stop_site paris
	set_conf paris sync.maintenance true
	: >hang
	start_node paris
	wait_until 30 test -e hangs
	add_commits london/git/a.git refs/heads/main 1
	syncs rome
	wait_until 5 was_logged paris maintenance.interrupted
	fails kill -0 "$(<hangs)"
	syncs paris
	both_have_it
	nothing_is_wrong
}

tap_test "both are asked at once: one fetches, leases on Redis" fetched_once redis
tap_test "both are asked at once: one fetches, leases in a directory" fetched_once directory
tap_test "both are asked at once: one fetches, without git" fetched_once_without_git
tap_test "different mirrors are fetched side by side" side_by_side
tap_test "both ask the upstream by themselves" polled
tap_test "what another node brought is no damage" reverified
tap_test "equal to the upstream is what is there, not what was" back_again
tap_test "removed by one, kept by the other" removed_by_one
tap_test "removed by one while the other one fetches" removed_while_the_other_fetches
tap_test "one is killed at each step" killed redis sync.leased objects.fetched sync.fetched \
	publish.renamed sync.verified
tap_test "one stands still past its lease" stands_still redis sync.fetched sync.verified
tap_test "leases that are not the same are refused" refused
tap_test "stopped while it waits for a lease" stopped_while_it_waits redis
tap_test "maintenance gives way to the other one, leases on Redis" gives_way redis
tap_test "both are asked at once: one fetches, leases in PostgreSQL" fetched_once postgresql
tap_test "one is killed while it fetches, leases in PostgreSQL" killed postgresql objects.fetched sync.verified
tap_test "one stands still past its lease in PostgreSQL" stands_still postgresql sync.fetched
tap_test "stopped while it waits for a lease in PostgreSQL" stopped_while_it_waits postgresql
tap_test "maintenance gives way to the other one, leases in PostgreSQL" gives_way postgresql
tap_done
