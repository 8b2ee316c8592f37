#!/usr/bin/env bash
# The end of a node while git works for it, at a transfer that does not go on; and what a
# second signal does.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/site_crash.sh"

# A client that asks for all objects and takes nothing.
ask_and_read_nothing() {
	exec python3 - "$(git config --file london/refrelay.conf http.listen)" \
		"$(git -C london/git/a.git rev-parse main)" <<-'END'
		import signal, socket, sys
		host, port = sys.argv[1].split(":")
		def line(text):
		    return f"{len(text) + 4:04x}{text}"
		body = line(f"want {sys.argv[2]}\n") + "0000" + line("done\n")
		s = socket.create_connection((host, int(port)))
		s.sendall(f"POST /a.git/git-upload-pack HTTP/1.1\r\nHost: {host}\r\n"
		    "Content-Type: application/x-git-upload-pack-request\r\n"
		    f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
		s.recv(100)
		open("asked", "w").close()
		signal.pause()
	END
}

ends_while_it_serves_git() {
	start_crash_sites
	push_much 30
	ask_and_read_nothing &
	wait_until 10 test -e asked
	fails no_site_children london
	ends_within 15 london
	start_site london
	wait_until 20 is_whole
}

# Work has a moment to end by itself.
ends_while_it_fetches() {
	start_crash_sites
	hang_a_fetch
	wait_until 10 was_logged paris lease.acquired job=sync
	ends_within 15 paris
	no_row_is started
	kill -CONT "$(site_pid london)"
	start_site paris
	is_whole_again paris
}

ends_at_the_second_signal() {
	local status=0

	start_crash_sites
	stop_site paris
	rm paris/log
	start_site paris REFRELAY_FAILPOINT=node.stops=stop
	hang_a_fetch
	fails no_site_children paris
	kill -TERM "$(site_pid paris)"
	wait_until 5 is_paused paris
	kill -TERM "$(site_pid paris)"
	kill -CONT "$(site_pid paris)"
	wait "$(site_pid paris)" || status=$?
	test "$status" -eq 143
	fails was_logged paris node.stopped
	wait_until 5 no_site_children paris
	kill -CONT "$(site_pid london)"
	start_site paris
	is_whole_again paris
}

tap_test "it ends while a client takes nothing of what git has for it" \
	ends_while_it_serves_git
tap_test "it ends while the primary does not go on with its answer" ends_while_it_fetches
tap_test "it ends at once at the second signal" ends_at_the_second_signal
tap_done
