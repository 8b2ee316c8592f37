#!/usr/bin/env bash
# "in sync, verified" is said from fresh proof only: it goes when a node is stopped, when a disk
# is full, when rows were removed, when two nodes have one name; and commands that only read
# answer all the while, and write nothing.
. "${0%/*}/../lib/tap.sh"
. "${0%/*}/../lib/sites.sh"
. "${0%/*}/../lib/two_sites.sh"

begin() {
	make_sites
	for name in one two three; do
		make_repository "london/git/$name.git" 2
	done
}

says_in_sync() { # SITE
	at "$1" status >"$1/says" && head -n 1 "$1/says" | grep -q '^in sync, verified: 3 repositories'
}

# Exactly so: what is not known is not said, anywhere.
says_nothing_of_it() { # SITE
	local status=0
	at "$1" status >"$1/says" || status=$?
	[ "$status" -eq 3 ] && ! head -n 1 "$1/says" | grep -q 'in sync, verified'
}

all_say_it() {
	says_in_sync paris && says_in_sync london
}

metric_is() { # SITE NAME VALUE
	curl -sS -m 10 "$(site_url "$1")/metrics" | grep -qxF "$2 $3"
}

shows() { # SITE PATTERN
	at "$1" status >"$1/says" || [ $? -eq 3 ] && grep -q "$2" "$1/says"
}

# wait_until waits three times as long as it is told.
THIRTY_SECONDS=10

a_node_that_is_stopped() {
	begin
	start_sites
	wait_until 20 all_say_it
	kill -STOP "$(site_pid paris)"
	wait_until $THIRTY_SECONDS says_nothing_of_it london
	grep -q '^paris is not heard from for ' london/says
	says_nothing_of_it paris
	grep -q '^the node of paris does not answer' paris/says
	kill -CONT "$(site_pid paris)"
	wait_until 20 all_say_it
	kill -STOP "$(site_pid london)"
	wait_until $THIRTY_SECONDS says_nothing_of_it paris
	grep -q '^paris \(has not heard from\|cannot reach\) its primary for ' paris/says
	wait_until 20 test "$(status_of paris lag | cut -d . -f 1)" -ge 20
	says_nothing_of_it london
	kill -CONT "$(site_pid london)"
	wait_until 20 all_say_it
	kill_site paris
	says_nothing_of_it paris
	grep -q 'no node runs here' paris/says
}

# As with all commands that only read.
reads_answer() { # SITE
	find "$1/data" "$1/git" -not -name '*-shm' -printf '%p %y %s %T@\n' | sort >before
	says_nothing_of_it "$1"
	at "$1" status --json >status.json || [ $? -eq 3 ]
	at "$1" repository list | grep -c one
	at "$1" repository show one >show
	at "$1" lease list >leases
	at "$1" repository resync --all --dry-run >dry
	at "$1" events >events || true
	find "$1/data" "$1/git" -not -name '*-shm' -printf '%p %y %s %T@\n' | sort >after
}

mount_here() { # DIRECTORY
	[ "$(id -u)" -eq 0 ] || skip "only root can mount a file system of a certain size"
	mkdir -p "$1"
	mount -t tmpfs -o size=6m refrelay-test "$1" 2>/dev/null || skip "no tmpfs can be mounted here"
	# shellcheck disable=SC2064
	trap "umount -l '$PWD/$1'" EXIT
}

fill() { # DIRECTORY
	head -c 20000000 /dev/zero >"$1/filler" 2>/dev/null || true
}

is_ready() {
	[ "$(curl -sS -o ready -w '%{http_code}' "$(site_url paris)/readyz")" = "$1" ]
}

a_full_disk_of_the_database() {
	begin
	mount_here paris/data
	start_sites
	wait_until 20 all_say_it
	wait_until 10 is_ready 200
	grep -q '"in_sync":true' ready
	metric_is paris refrelay_in_sync 1
	metric_is london 'refrelay_secondary_in_sync{site="paris"}' 1
	fill paris/data
	wait_until $THIRTY_SECONDS says_nothing_of_it paris
	grep -q 'could write nothing down for .*\(No space left\|full\)' paris/says
	wait_until $THIRTY_SECONDS says_nothing_of_it london
	is_ready 503
	grep -q '"in_sync":false,"not_in_sync":"not_written"' ready
	metric_is paris refrelay_in_sync 0
	metric_is paris 'refrelay_not_in_sync{class="not_written"}' 1
	metric_is london 'refrelay_secondary_in_sync{site="paris"}' 0
	reads_answer paris
	rm paris/data/filler
	wait_until 20 all_say_it
	wait_until 10 is_ready 200
}

a_full_disk_of_the_copies() {
	begin
	mount_here paris/git
	start_sites
	wait_until 20 all_say_it
	fill paris/git
	wait_until $THIRTY_SECONDS says_nothing_of_it paris
	grep -q 'could write nothing down for .*paris/git' paris/says
	[ "$(status_of paris reason)" = not_written ]
	rm paris/git/filler
	wait_until 20 all_say_it
}

# With a node, after it ended well, and after it was killed.
a_read_only_disk() {
	begin
	mount_here paris/data
	start_sites
	wait_until 20 all_say_it
	stop_site paris
	mount -o remount,ro paris/data
	reads_answer paris
	diff before after
	mount -o remount,rw paris/data
	start_site paris
	wait_until 20 all_say_it
	kill_site paris
	mount -o remount,ro paris/data
	reads_answer paris
	diff before after
	grep -q '3 of 3 repositories verified' paris/says
}

# A node runs, and who asks sees its directory read-only.
a_read_only_view() {
	[ "$(id -u)" -eq 0 ] && unshare -m true 2>/dev/null || skip "no mount namespaces here"
	begin
	start_sites
	wait_until 20 all_say_it
	unshare -m sh -c 'mount --bind paris paris && mount -o remount,ro,bind paris &&
		! touch paris/data/x 2>/dev/null && "$1" -c paris/refrelay.conf status' sh "$REFRELAY" >out
	head -n 1 out | grep -q '^in sync, verified: 3 repositories'
}

nothing_was_ever_kept() {
	begin
	says_nothing_of_it paris
	at paris repository list >out
	at paris lease list >>out
	[ ! -s out ]
	[ ! -e paris/data ]
}

copies_that_were_removed() {
	begin
	set_conf paris sync.consistencyInterval 1h
	start_sites
	wait_until 20 all_say_it
	at paris repository remove --all
	says_nothing_of_it paris
	grep -q 'is taking stock of its primary' paris/says
	[ "$(status_of paris reason)" = not_compared ]
	stop_site paris
	set_conf paris sync.consistencyInterval 1s
	start_site paris
	wait_until 20 all_say_it
	at paris repository remove one
	says_nothing_of_it paris
	wait_until 20 all_say_it
}

a_secondary_that_is_gone() {
	begin
	cp secret secret-of-tokyo
	set_conf london secondary.tokyo.secretFile "$PWD/secret-of-tokyo"
	start_sites
	wait_until 20 says_in_sync paris
	says_nothing_of_it london
	grep -q 'tokyo has not asked yet' london/says
	git config --file london/refrelay.conf --remove-section secondary.tokyo
	kill -HUP "$(site_pid london)"
	wait_until 20 all_say_it
	stop_site paris
	git config --file london/refrelay.conf --remove-section secondary.paris
	kill -HUP "$(site_pid london)"
	wait_until 20 was_logged london node.reloaded
	wait_until 20 shows london 'no secondary has asked yet'
	fails grep paris london/says
}

two_nodes_of_one_name() {
	begin
	start_sites
	wait_until 20 all_say_it
	mkdir berlin
	sed "s,$PWD/paris,$PWD/berlin,; s,listen = .*,listen = 127.0.0.1:$(free_port)," \
		paris/refrelay.conf >berlin/refrelay.conf
	start_site berlin
	wait_until 20 was_logged london secondary.twice
	says_nothing_of_it london
	grep -q '^two nodes ask as paris' london/says
	kill -STOP "$(site_pid berlin)" # which no answer shows
	says_nothing_of_it london
	kill -CONT "$(site_pid berlin)"
}

# What was pushed to paris while it was the primary is not taken for what london told.
a_primary_that_becomes_a_secondary() {
	begin
	start_sites
	wait_until 20 all_say_it
	stop_site paris
	stop_site london
	set_conf paris site.role primary
	set_conf paris secondary.london.secretFile "$PWD/secret"
	start_site paris
	was_logged paris node.role_changed 'role=primary'
	add_commits paris/git/one.git refs/heads/main 1
	wait_until 20 shows paris 'event [1-9]'
	# The old primary comes back, and nobody asks it.
	start_site london
	add_commits london/git/two.git refs/heads/main 1
	wait_until 20 was_logged london watch.scanned 'changed=1'
	says_nothing_of_it london
	stop_site paris
	set_conf paris site.role secondary
	start_site paris
	was_logged paris node.role_changed 'role=secondary'
	wait_until 20 row_is paris one word held
	says_nothing_of_it paris
}

tap_test "a node that is stopped is not in sync, and neither is who needs it" a_node_that_is_stopped
tap_test "the database's disk is full" a_full_disk_of_the_database
tap_test "the copies' disk is full" a_full_disk_of_the_copies
tap_test "the disk is read-only, and no node runs" a_read_only_disk
tap_test "a running node is looked at through a read-only mount" a_read_only_view
tap_test "commands that only read make nothing" nothing_was_ever_kept
tap_test "copies that were removed by order void the comparison" copies_that_were_removed
tap_test "a secondary whose section is gone is forgotten" a_secondary_that_is_gone
tap_test "two nodes of one name are told apart" two_nodes_of_one_name
tap_test "a primary that becomes a secondary proves all copies anew" a_primary_that_becomes_a_secondary
tap_done
