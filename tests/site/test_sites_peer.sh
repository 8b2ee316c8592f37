#!/usr/bin/env bash
# A primary that does not answer, or sends elsewhere: what the secondary says, and that it
# heals by itself.

. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"

refused() {
	local seconds

	prepare :
	rules refuse
	wait_until 20 status_says 'cannot reach its primary for .*, last heard .* ago: '
	[ "$(status_of paris failure.code)" = network ]
	[ -n "$(status_of paris failure.since)" ]
	wait_until 10 was_logged paris primary.unreachable code=network
	try_again tool
	wait_until 20 has_failed tool network
	row_is paris tool retry_count 1
	seconds=$(retries_in tool)
	[ "$seconds" -ge 16 ] && [ "$seconds" -le 75 ] || fail "again in $seconds s"
	git -C paris/git/tool.git fsck --no-progress --no-dangling
	heals
	wait_until 10 was_logged paris primary.back
	row_is paris tool retry_count 0
	[ -z "$(row_of paris tool failure)" ]
}

stalled_at_the_start() {
	make_proxied_sites
	make_repository london/git/tool.git
	rules '/events stall' '/repositories.limit stall 20'
	start_sites
	wait_until 45 status_says 'cannot reach its primary.*: .*not answered within'
	[ "$(status_of paris failure.code)" = timeout ]
	heals
}

# What events do not tell the inventory does, though the long poll hangs.
stalled_long_poll() {
	prepare :
	rules '/events stall'
	push_change london/git/tool.git
	wait_until 20 same_sites
	heals
}

hurried_paris() { # FAST-PATH
	set_conf paris sync.timeout 2s
	set_conf paris sync.fastPath "$1"
}

stalled_sync() { # PATTERN FAST-PATH
	prepare hurried_paris "$2"
	rules "$1"
	push_change london/git/tool.git
	wait_until 30 has_failed tool timeout
	heals
}

redirected() {
	make_proxied_sites
	set_conf paris sync.fastPath false
	make_repository london/git/tool.git
	python3 - <<-'END' &
		import socket
		listener = socket.socket()
		listener.bind(("127.0.0.1", 0))
		listener.listen()
		open("port.new", "w").write(str(listener.getsockname()[1]))
		import os
		os.rename("port.new", "port")
		while True:
		    client, _ = listener.accept()
		    open("stolen", "ab").write(client.recv(65536))
		    client.close()
	END
	wait_until 10 test -f port
	start_sites
	wait_until 30 in_sync
	rules "/ redirect http://localhost:$(<port)/"
	push_change london/git/tool.git
	try_again --wait tool && fail "it followed"
	has_failed tool config
	rules "info/refs redirect http://localhost:$(<port)/tool.git/info/refs"
	try_again --wait tool && fail "git followed"
	wait_until 10 row_is paris tool state failed # it may just be tried again
	rules "POST redirect http://localhost:$(<port)/tool.git/git-upload-pack"
	try_again --wait tool && fail "git followed"
	[ ! -e stolen ] || fail "the other host was asked: $(<stolen)"
	heals
}

tap_test "refused connections are told and retried by the formula, and heal" refused
tap_test "a primary that hangs from the start is told, and heals" stalled_at_the_start
tap_test "a long poll that hangs loses no change" stalled_long_poll
tap_test "refs that hang end by sync.timeout" stalled_sync '/refs stall 40' false
tap_test "a delta that hangs ends by sync.timeout" stalled_sync '/delta stall 40' true
tap_test "a fetch that hangs before its pack ends by sync.timeout" \
	stalled_sync 'POST.*upload-pack stall' false
tap_test "a fetch that hangs in its pack ends by sync.timeout" \
	stalled_sync 'POST.*upload-pack stall 400' false
tap_test "redirects are not followed, and no credential goes there" redirected
tap_done
