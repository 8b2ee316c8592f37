#!/usr/bin/env bash
# "in sync, verified" is said from fresh proof only: it goes when a node is stopped, when rows
# were removed, when a secondary is not heard, when two nodes have one name.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/truth.sh"
. "$TESTS/lib/verify.sh"

a_node_that_is_stopped() {
	begin
	start_sites
	wait_until 20 all_say_it
	kill -STOP "$(site_pid paris)"
	wait_until $THIRTY_SECONDS says_nothing_of_it london
	grep -q '^paris has not been heard from for ' london/says
	says_nothing_of_it paris
	grep -q '^the node of paris does not answer' paris/says
	kill -CONT "$(site_pid paris)"
	wait_until 20 all_say_it
	kill -STOP "$(site_pid london)"
	wait_until $THIRTY_SECONDS says_nothing_of_it paris
	grep -q '^paris \(has not heard from\|cannot reach\) its primary for ' paris/says
	wait_until 20 eval '[ "$(status_of paris lag | cut -d . -f 1)" -ge 20 ]'
	says_nothing_of_it london
	kill -CONT "$(site_pid london)"
	wait_until 20 all_say_it
	kill_site paris
	says_nothing_of_it paris
	grep -q '^paris is not known to be in sync: no node is running here, last sign of life ' \
		paris/says
	start_site paris
	wait_until 20 all_say_it
	stop_site paris
	says_nothing_of_it paris
	grep -q '^paris is not known to be in sync: no node is running here, stopped [0-9.]* s ago (start' paris/says
	kill_site london
	says_nothing_of_it london
	grep -q '^london is not known to be in sync: no node is running here' london/says
	fails grep -q 'not heard from' london/says
}

copies_that_were_removed() {
	begin
	set_conf paris sync.consistencyInterval 1h
	start_sites
	wait_until 20 all_say_it
	at paris repository remove --all
	says_nothing_of_it paris
	grep -q 'is running its first full comparison' paris/says
	[ "$(status_of paris reason)" = not_compared ]
	stop_site paris
	set_conf paris sync.consistencyInterval 1s
	start_site paris
	wait_until 20 all_say_it
	# It would be back within a moment of the next comparison.
	mending_waits
	at paris repository remove one
	says_nothing_of_it paris
	mending_goes_on
	wait_until 20 all_say_it
}

a_secondary_that_is_gone() {
	begin
	cp secret secret-of-tokyo
	set_conf london secondary.tokyo.secretFile "$PWD/secret-of-tokyo"
	start_sites
	wait_until 20 says_in_sync paris
	says_nothing_of_it london
	grep -q 'tokyo has not connected yet' london/says
	git config --file london/refrelay.conf --remove-section secondary.tokyo
	kill -HUP "$(site_pid london)"
	wait_until 20 all_say_it
	stop_site paris
	git config --file london/refrelay.conf --remove-section secondary.paris
	kill -HUP "$(site_pid london)"
	wait_until 20 was_logged london node.reloaded
	wait_until 20 shows london 'no secondary has connected yet'
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
	grep -q '^two nodes use the name paris' london/says
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
	mkdir -p paris/git/.refrelay/trash/1000.1.old.git # of when it was a secondary
	start_site paris
	wait_until 10 was_logged paris node.role_changed 'role=primary'
	wait_until 10 was_logged paris trash.expired
	[ ! -e paris/git/.refrelay/trash/1000.1.old.git ]
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
	wait_until 10 was_logged paris node.role_changed 'role=secondary'
	wait_until 20 row_is paris one word held
	says_nothing_of_it paris
}

rename_table() { # SITE FROM TO
	python3 - "$@" <<-'END'
		import glob, sqlite3, sys
		[path] = glob.glob(sys.argv[1] + "/data/*.db")
		with sqlite3.connect(path, timeout=10) as db:
		    db.execute(f"ALTER TABLE {sys.argv[2]} RENAME TO {sys.argv[3]}")
	END
}

# It asks for events all the while.
a_secondary_that_cannot_tell_how_it_is_is_not_in_sync() {
	begin
	start_sites
	wait_until 20 all_say_it
	rename_table paris counters away
	wait_until $THIRTY_SECONDS shows london 'paris does not report whether it is in sync'
	says_nothing_of_it london
	metric_is london 'refrelay_secondary_in_sync{site="paris"}' 0
	rename_table paris away counters
	wait_until 20 all_say_it
}

tap_test "a node that is stopped is not in sync, and neither is who needs it" a_node_that_is_stopped
tap_test "copies that were removed by order void the comparison" copies_that_were_removed
tap_test "a secondary whose section is gone is forgotten" a_secondary_that_is_gone
tap_test "two nodes of one name are told apart" two_nodes_of_one_name
tap_test "a primary that becomes a secondary proves all copies anew" a_primary_that_becomes_a_secondary
tap_test "a secondary that cannot tell how it is is not in sync" \
	a_secondary_that_cannot_tell_how_it_is_is_not_in_sync
tap_done
