#!/usr/bin/env bash
# Destinations that are down, slow, or that hang in the middle: each is tried again as it
# deserves, it is said why, and no other is held up by it.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"

tcp_program=$TESTS/peers/tcp.py

far_answers() {
	git ls-remote "git://127.0.0.1:$(cat net/port)/there.git"
}

# ./far is served by git's daemon, behind a proxy whose rule is in ./net/rule.
start_far() {
	local port
	port=$(free_port)
	mkdir -p far net
	git daemon --reuseaddr --listen=127.0.0.1 --port="$port" --base-path="$PWD/far" \
		--export-all --enable=receive-pack "$PWD/far" &
	python3 "$tcp_program" net "$port" "$(free_port)" 2>net.err &
	wait_until 10 test -f net/port
	git init -q --bare far/there.git
	wait_until 10 far_answers
}

rule() { # WORD [BYTES]
	echo "$*" >net/rule.new
	mv net/rule.new net/rule
}

# A node whose remote `far` is behind the proxy and whose remote `near` is not.
make_two_ways() { # REPOSITORY...
	local name
	start_far
	make_node home
	add_remote home far url "git://127.0.0.1:$(cat net/port)/\${name}.git" \
		replicationRetry 0 threads 2 "${far_options[@]}"
	add_remote home near
	for name; do
		make_source "$name"
		make_destination "far/$name"
		make_destination "near/$name"
	done
}
far_options=()

# The waits that the log tells of, for the URI with this pattern.
waits() { # PATTERN
	grep -a ' ev=push.failed ' home/log | grep -aE "$1" | grep -ao 'retry_in_ms=[0-9]*' |
		cut -d = -f 2
}

is_told_as_refused() {
	at home push queue >said
	grep -q '^  failed [0-9]* times: network: .*[Cc]onnection refused' said
}

# Unless one is just being taken up.
both_wait_and_fail() {
	expect 3 at home status
	grep -qE '^far is [0-9.]+ ?[a-z]+ behind: 2 pushes waiting, 2 failing, .*refused' out
}

is_down_then_back() {
	make_two_ways a b c
	rule refuse
	wait_until 5 test -e net/refuses
	start_site home
	at home push start a b
	wait_until 10 arrived near a b
	wait_until 30 queue_says 'max([u["failures"] for u in q["queue"]] + [0]) >= 3'
	wait_until 20 queue_says 'all(u["remote"] == "far" for u in q["queue"]) and len(q["queue"]) == 2'
	# Unless it is tried at this moment.
	wait_until 20 queue_says 'q["queue"][0]["failure"]["code"] == "network" and
		"refused" in q["queue"][0]["failure"]["message"] and q["queue"][0]["next_at"]'
	wait_until 20 is_told_as_refused
	wait_until 20 both_wait_and_fail
	fails grep -q '^near' out
	rule pass
	wait_until 30 arrived far a b
	wait_until 10 queue_says 'q["queue"] == []'
	expect 0 at home status
	stop_site home
}

# Long retries: nothing but a success brings the others through.
one_success_releases_all_of_its_host() {
	far_options=(replicationRetry 1m)
	make_two_ways a b c
	rule refuse
	wait_until 5 test -e net/refuses
	start_site home
	at home push start a b
	wait_until 10 queue_says 'max([u["failures"] for u in q["queue"]] + [0]) >= 1'
	rule pass
	wait_until 10 far_answers # the proxy has read it
	at home push start c
	at home push retry --remote far >/dev/null
	wait_until 15 arrived far a b c
	wait_until 10 queue_says 'q["queue"] == []'
	stop_site home
}

retries_grow() {
	make_two_ways a
	rule refuse
	wait_until 5 test -e net/refuses
	start_site home
	at home push start a
	wait_until 30 queue_says '[u["failures"] for u in q["queue"]] == [4]'
	waits . >waits
	cat waits
	python3 - <<-'END'
		waits = [int(line) for line in open("waits")]
		for i, wait in enumerate(waits):
		    assert 800 <= wait / 2 ** i <= 1201, waits
	END
	rule pass
	wait_until 15 arrived far a
	stop_site home
}

lasted() { # SINCE SECONDS
	[ $((SECONDS - $1)) -ge "$2" ]
}

# Slower in all than the timeout, but it moves.
is_slow_but_moves() {
	local began
	make_two_ways a b
	start_site home
	at home push start a b
	wait_until 10 arrived far a b
	set_conf home remote.far.timeout 8s
	kill -HUP "$(site_pid home)"
	wait_until 10 was_logged home node.reloaded
	add_blob a 8000000
	rule slow 100000 # more than a minute, if it stayed so
	at home changed a
	change b
	wait_until 10 arrived near a b
	wait_until 20 arrived far b
	wait_until 10 queue_says '[u["state"] for u in q["queue"]] == ["running"]'
	began=$SECONDS
	wait_until 10 lasted "$began" 10
	fails arrived far a
	rule pass
	wait_until 30 arrived far a
	fails was_logged home push.failed
	stop_site home
}

times_out_more() { # COUNT
	[ "$(logged home push.failed code=timeout)" -gt "$1" ]
}

hangs_in_mid_pack() {
	local count
	far_options=(timeout 4s)
	make_two_ways a b
	start_site home
	at home push start a b
	wait_until 10 arrived far a b
	add_blob a 8000000
	rule stall 500000
	at home changed a
	change b
	wait_until 15 arrived near a b
	# On a busy machine a push may be silent for as long before it gets there.
	wait_until 30 grep -q stalled net/log
	count=$(logged home push.failed code=timeout) || :
	wait_until 30 times_out_more "$count"
	wait_until 20 queue_says '"timeout" in [u["failure"] and u["failure"]["code"]
		for u in q["queue"]]'
	queue_says 'any("4 s" in u["failure"]["message"] for u in q["queue"] if u["failure"])'
	rule refuse
	wait_until 10 no_process_of_pushes
	set_conf home remote.far.timeout 1m # enough for the push that is to succeed
	kill -HUP "$(site_pid home)"
	wait_until 10 was_logged home node.reloaded
	rule pass
	# Each failure has doubled the wait for the next try.
	wait_until 60 arrived far a b
	stop_site home
}

# Of one remote, with as many threads as there are places.
is_silent_beside_a_good_one() {
	local name names='a b c d e f'
	start_far
	rule stall 0
	make_node home
	add_remote home both url "git://127.0.0.1:$(cat net/port)/\${name}.git" threads 2
	git config --file home/refrelay.conf --add remote.both.url "$PWD/near/\${name}.git"
	for name in $names; do
		make_source "$name"
	done
	start_ready home
	at home push start --all
	wait_until 20 arrived near $names
	# A push ends a moment after its refs have arrived.
	wait_until 10 queue_says 'len([u for u in q["queue"] if u["state"] == "running"]) == 1'
	rule refuse
	stop_site home
}

tap_test "one that is down is said to be, and gets all once it is back" is_down_then_back
tap_test "what waits for another try waits longer each time" retries_grow
tap_test "one success releases all that wait for its host" one_success_releases_all_of_its_host
tap_test "one that is slow but moves is not given up" is_slow_but_moves
tap_test "one that hangs in the middle of a pack is left, and tried again" hangs_in_mid_pack
tap_test "one that is silent keeps no thread from another of its remote" \
	is_silent_beside_a_good_one
tap_done
