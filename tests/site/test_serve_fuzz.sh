#!/usr/bin/env bash
# Broken requests by a grammar, to a live node: it answers, and nothing of them stays.
# LIVE_FUZZ_SECONDS and LIVE_FUZZ_SEED let it run for longer, or again.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"

FUZZ=$TESTS/fuzz/live_http.py

start_fuzzed() {
	make_served
	echo "0123456789abcdef0123456789abcdef" >a.token
	chmod 600 a.token
	set_conf one token.a.file "$PWD/a.token"
	set_conf one http.connectionsPerClient 0
}

fuzz() { # [CA]
	local port
	# What is freed is kept by the sanitizer for a while; else that is all that grows.
	start_site one "ASAN_OPTIONS=${ASAN_OPTIONS:-}:quarantine_size_mb=8"
	port=$(git config --file one/refrelay.conf http.listen)
	python3 "$FUZZ" --seconds "${LIVE_FUZZ_SECONDS:-8}" \
		--seed "${LIVE_FUZZ_SEED:-1}" "${port##*:}" "$(site_pid one)" "$@"
	stop_site one
	fails grep -a "ERROR: .*Sanitizer\|runtime error" one/log
}

plainly() {
	start_fuzzed
	fuzz
}

tap_test "broken requests are answered, and leave nothing behind" plainly
tap_done
