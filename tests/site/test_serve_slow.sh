#!/usr/bin/env bash
# Many clients that are slow or say nothing: others are served meanwhile, the node does
# not spin, and in the end all are let go.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"

PEERS=$TESTS/peers

port_of_one() {
	local url
	url=$(site_url one)
	echo "${url##*:}"
}

# All of them come from one address here.
allow_many() {
	set_conf one http.connections 600
	set_conf one http.connectionsPerClient 1000
}

# In hundredths of a second.
cpu_time() {
	awk '{ print $14 + $15 }' "/proc/$(site_pid one)/stat"
}

count_fds() {
	find "/proc/$(site_pid one)/fd" -mindepth 1 2>/dev/null | wc -l
}

has_at_most_fds() { # COUNT
	[ "$(count_fds)" -le "$1" ] || { echo "$(count_fds) descriptors"; return 1; }
}

# It may take a fifth of a second or so, which on a shared machine is longer than it says. What
# it still does for a moment, as it accepts or closes many connections, comes to an end.
took_little() {
	local before began took used
	before=$(cpu_time)
	began=$(date +%s%N)
	sleep 1 # the time that is measured
	took=$((($(date +%s%N) - began) / 10000000))
	used=$(($(cpu_time) - before))
	echo "$used hundredths of a second in $took"
	[ $((used * 5)) -lt "$took" ]
}

does_not_spin() {
	wait_until 10 took_little
}

# A moment, and what a busy machine adds: as long as nobody is kept from it for good.
is_served_soon() {
	local took
	took=$(date +%s%N)
	adv | cmp - now || return
	[ "$(oid2 refs/heads/main)" = "$(commit_of main)" ] || return
	took=$((($(date +%s%N) - took) / 1000000))
	echo "$took ms"
	[ "$took" -lt 25000 ]
}

clients_that_drip() {
	local dripping fds
	make_served
	allow_many
	start_site one
	adv >now
	fds=$(count_fds)
	python3 "$PEERS/crowd.py" drip 200 "$(port_of_one)" drip >dripped &
	dripping=$!
	wait_until 10 test -e drip.held
	for i in 1 2 3; do
		is_served_soon
	done
	git clone -q "$U" clone
	does_not_spin
	is_served_soon
	touch drip.stop
	wait "$dripping"
	wait_until 10 has_at_most_fds $((fds + 20))
	is_served_soon
	stop_site one
}

five_hundred_ask_at_once() {
	local asking fds
	make_served
	allow_many
	start_site one
	adv >now
	fds=$(count_fds)
	python3 "$PEERS/crowd.py" ask 500 "$(port_of_one)" \
		'/r.git/info/refs?service=git-upload-pack' crowd >asked &
	asking=$!
	wait_until 20 test -e crowd.held
	does_not_spin
	touch crowd.go
	wait "$asking"
	cat asked
	# Above the limit a connection may be closed without an answer, never in the middle.
	fails grep -E '^(cut|silent|5..|4..)' asked
	[ "$(sed -n 's/^200 //p' asked)" -ge 100 ]
	wait_until 10 has_at_most_fds $((fds + 20))
	is_served_soon
	does_not_spin
	stop_site one
}

# As above, but they never say anything, and are gone without a word.
five_hundred_say_nothing() {
	local asking
	make_served
	allow_many
	start_site one
	adv >now
	python3 "$PEERS/crowd.py" ask 500 "$(port_of_one)" / idle >asked &
	asking=$!
	wait_until 20 test -e idle.held
	does_not_spin
	kill -KILL "$asking"
	wait "$asking" || true
	wait_until 10 is_served_soon
	does_not_spin
	# The node ends soon although some hang on.
	python3 "$PEERS/crowd.py" ask 100 "$(port_of_one)" / last >asked &
	asking=$!
	wait_until 20 test -e last.held
	stop_site one
	kill -KILL "$asking"
	wait "$asking" || true
}

tap_test "two hundred clients that drip hold nobody up" clients_that_drip
tap_test "five hundred who ask at once are answered or let go" five_hundred_ask_at_once
tap_test "five hundred who say nothing cost nothing" five_hundred_say_nothing
tap_done
