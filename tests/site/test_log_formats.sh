#!/usr/bin/env bash
# The log of a node in its formats: each line is whole and means the same; a reload changes the
# format; lines for the journal say their priority.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

start_with() { # FORMAT [VAR=VALUE...]
	make_sites
	make_repository london/git/team/a.git 2
	make_repository london/git/odd\ \"name\".git 1
	set_conf london log.format "$1"
	set_conf paris log.format "$1"
	shift
	start_site london "$@"
	start_site paris "$@"
	wait_until 20 in_sync
}

# Each line is an object, and each name stands in it once.
all_json() { # SITE
	python3 - "$1/log" <<-'END'
		import json, sys
		def once(pairs):
		    names = [name for name, _ in pairs]
		    assert len(names) == len(set(names)), names
		    return dict(pairs)
		lines = [json.loads(line, object_pairs_hook=once) for line in open(sys.argv[1])]
		for line in lines:
		    assert list(line)[:3] == ["ts", "level", "ev"], line
		    assert line["level"] in ("debug", "info", "warn", "error"), line
		started = [line for line in lines if line["ev"] == "node.started"]
		assert len(started) == 1 and type(started[0]["port"]) is int, started
		brought = [line for line in lines if line.get("repo") == 'odd "name"' and "dur_ms" in line]
		assert "paris" not in sys.argv[1] or any(type(line["dur_ms"]) is int for line in brought)
	END
}

as_json() {
	start_with json
	stop_site paris
	stop_site london
	all_json london
	all_json paris
}

# What comes behind a reload is in the other format, and nothing is lost between.
another_by_reload() {
	start_with text
	was_logged london node.started
	set_conf london log.format json
	kill -HUP "$(site_pid london)"
	wait_until 20 grep -q '"ev":"node.reloaded"' london/log
	fails grep -q node.restart_needed london/log
	set_conf london log.format yaml
	kill -HUP "$(site_pid london)"
	wait_until 20 grep -q '"ev":"node.reload_failed".*not one of: text, json, journald' london/log
	set_conf london log.format text
	kill -HUP "$(site_pid london)"
	wait_until 20 was_logged london node.reloaded
}

# The journal's own end of stderr is this file here.
with_priorities() {
	mkdir -p london
	: >london/log
	make_sites
	make_repository london/git/a.git 1
	start_site london JOURNAL_STREAM="$(stat -c %d:%i london/log)"
	set_conf london log.format yaml
	kill -HUP "$(site_pid london)"
	wait_until 20 grep -q '^<3>ts=.* ev=node.reload_failed ' london/log
	grep -q '^<6>ts=.* ev=node.started ' london/log
	grep -q '^<7>ts=.* level=debug ' london/log
	stop_site london
	fails grep -avE '^<[3467]>ts=' london/log
}

# A socket of this test's own takes the place of the journal's, for that node alone.
as_entries() {
	unshare -Urm true 2>/dev/null || skip "no user namespaces here"
	make_sites
	make_repository london/git/a.git 1
	set_conf london log.format journald
	: >london/log
	python3 - "$PWD/journal" <<-'END' &
		import os, socket, sys
		journal = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
		journal.bind(sys.argv[1])
		with open(sys.argv[1] + ".entries", "wb") as entries:
		    while True:
		        entries.write(journal.recv(1 << 20) + b"\n")
		        entries.flush()
	END
	wait_until 20 test -S journal
	# shellcheck disable=SC2016
	unshare -Urm sh -c 'mkdir -p "$1/run/systemd/journal" && mount --bind "$1/run" /run &&
		touch /run/systemd/journal/socket && mount --bind "$1/journal" /run/systemd/journal/socket &&
		exec "$2" -c "$3" serve -v' sh "$PWD" "$REFRELAY" london/refrelay.conf >>london/log 2>&1 &
	echo $! >london/pid
	wait_until 20 is_serving london
	wait_until 10 grep -qa '^REFRELAY_EV=node.started$' journal.entries
	wait_until 10 grep -qa '^MESSAGE=node.started site=london role=primary ' journal.entries
	grep -qa '^PRIORITY=6$' journal.entries
	fails grep -a 'ev=node.started' london/log
	stop_site london
}

tap_test "as JSON, each line is an object with typed fields" as_json
tap_test "a reload changes the format, and a wrong one is refused" another_by_reload
tap_test "lines for the journal say their priority" with_priorities
tap_test "the journal gets entries with fields" as_entries
tap_done
