#!/usr/bin/env bash
# A secondary as the URL that users have: it answers from its copies where they are fresh,
# and asks the primary for the rest; pushes go to the primary, and who pushed through it
# sees that at once.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"

make_pair() {
	make_sites
	make_repository london/git/r.git 5
	give_token london dev push
	give_token london looker read
	set_conf london http.anonymousRead false
	set_conf paris http.anonymousRead true
	start_sites
	wait_until 20 in_sync
	U=$(url_as dev paris r)
	make_clone "$(site_url paris)/r.git" work
	git -C work remote set-url origin "$U"
}

decided() { # KIND CLASS
	curl -fsS "$(site_url paris)/metrics" >metrics
	sed -n "s/^refrelay_git_decisions_total{kind=\"$1\",class=\"$2\"} //p" metrics | grep . || echo 0
}

fresh_reads_stay_here() {
	local version before

	make_pair
	before=$(decided read forwarded)
	for version in 0 1 2; do
		rm -rf copy
		git -c protocol.version=$version clone -q "$(site_url paris)/r.git" copy
		[ "$(tip copy HEAD)" = "$(tip london/git/r.git)" ]
	done
	[ "$(decided read forwarded)" -eq "$before" ]
	[ "$(decided read here)" -gt 0 ]
}

through_the_secondary() {
	local i

	make_pair
	for i in $(seq 10); do
		commit_in work "$i"
		git -C work -c protocol.version=$((i % 3)) push -q origin main
		[ "$(tip london/git/r.git)" = "$(tip work HEAD)" ]
		[ "$(git ls-remote "$(site_url paris)/r.git" refs/heads/main | cut -f 1)" = "$(tip work HEAD)" ]
	done
	wait_until 20 in_sync
	same_sites
	[ "$(decided push forwarded)" -ge 20 ]
	wait_until 10 was_logged paris git.forwarded 'kind=push'
}

see_own_push() {
	make_pair
	stop_cursor
	commit_in work
	git -C work push -q origin main
	rm -rf copy
	git clone -q "$(site_url paris)/r.git" copy
	[ "$(tip copy HEAD)" = "$(tip work HEAD)" ]
	[ "$(decided read forwarded)" -gt 0 ]
}

# Copies stay as they are from now on.
stop_cursor() {
	set_conf paris sync.repositoryCapacity 0
	kill -HUP "$(site_pid paris)"
	wait_until 10 was_logged paris node.reloaded
}

behind_is_forwarded() {
	make_pair
	stop_cursor
	add_commits london/git/r.git refs/heads/main 2
	at london changed r
	wait_until 10 refs_are_new
	git clone -q "$(site_url paris)/r.git" copy
	[ "$(tip copy HEAD)" = "$(tip london/git/r.git)" ]
	make_repository london/git/new.git 3
	at london changed new
	wait_until 10 git clone -q "$(site_url paris)/new.git" copy2
	git clone -q --depth 1 "$(site_url paris)/new.git" shallow
	git clone -q --filter=blob:none "$(site_url paris)/new.git" partial
	fails git clone -q "$(site_url paris)/none.git" copy3
	heads_of_what_is_elsewhere
	what_cannot_be_read_there_is_told
}

# The repository is at fault, and neither site.
what_cannot_be_read_there_is_told() {
	make_repository london/git/odd.git 1
	git -C london/git/odd.git config core.repositoryFormatVersion 1
	git -C london/git/odd.git config extensions.unknownToAll true
	curl -sS -m 10 -D head -o said "$(site_url paris)/odd.git/info/refs?service=git-upload-pack"
	grep -q '^HTTP/1.1 409' head
	grep -qi '^Refrelay-Error-Reason: format_unsupported' head
}

# To be asked for the headers alone is as good as to be asked for all of it.
heads_of_what_is_elsewhere() {
	local url

	url="$(site_url paris)/new.git/info/refs?service"
	curl -sS -m 10 -I "$url=git-upload-pack" >head
	grep -q '^HTTP/1.1 200' head
	grep -qi '^Content-Type: application/x-git-upload-pack-advertisement' head
	curl -sS -m 10 -I -u "any:$(cat dev.token)" "$url=git-receive-pack" >head
	grep -q '^HTTP/1.1 200' head
	curl -sS -m 10 -I -u any:wrong "$url=git-receive-pack" >head
	grep -q '^HTTP/1.1 401' head
	curl -fsS -m 10 "$(site_url paris)/healthz" >/dev/null
}

refs_are_new() {
	[ "$(git ls-remote "$(site_url paris)/r.git" refs/heads/main | cut -f 1)" = "$(tip london/git/r.git)" ]
}

primary_down() {
	make_pair
	commit_in work
	stop_site london
	git clone -q "$(site_url paris)/r.git" copy
	local start=$SECONDS
	git -C work push origin main 2>err && fail "it came"
	[ $((SECONDS - start)) -le 10 ]
	grep -q "remote: pushes go to the primary, and it does not answer" err
	fails git ls-remote "$(site_url paris)/none.git" 2>err
	grep -q "remote: .*the primary does not answer" err
	set_conf paris serve.freshFor 2s
	kill -HUP "$(site_pid paris)"
	wait_until 10 served_unheard
	start_site london
	wait_until 20 git -C work push -q origin main
}

# What a server in front answers while the node behind it does not run.
web_server() { # PORT STATUS TYPE
	exec python3 -c '
import http.server, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        page = b"<html>Bad Gateway</html>"
        self.send_response(int(sys.argv[2]))
        self.send_header("Content-Type", sys.argv[3])
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)
    do_POST = do_GET
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Answer).serve_forever()' "$@"
}

answers() { # PORT STATUS
	[ "$(curl -s -o answer -w '%{http_code}' "http://127.0.0.1:$1/")" = "$2" ]
}

down_behind_a_web_server() {
	local port server

	make_pair
	commit_in work
	set_conf paris serve.freshFor 2s
	kill -HUP "$(site_pid paris)"
	port=$(site_url london)
	port=${port##*:}
	stop_site london
	web_server "$port" 502 text/html &
	server=$!
	wait_until 20 answers "$port" 502
	wait_until 10 served_unheard
	fails git -C work push -q origin main 2>err
	kill "$server"
	wait "$server" || true
	grep -q "remote: pushes go to the primary, and it does not answer: .*status 502" err
	# Others answer in the words that the primary has, too.
	web_server "$port" 503 text/plain &
	server=$!
	wait_until 20 answers "$port" 503
	wait_until 20 served_in_spite_of 503
	kill "$server"
	wait "$server" || true
}

served_unheard() {
	git ls-remote "$(site_url paris)/r.git" >refs && [ "$(decided read here_primary_down)" -gt 0 ]
}

served_in_spite_of() { # STATUS
	git ls-remote "$(site_url paris)/r.git" >refs &&
		was_logged paris git.served_unheard "answers with status $1"
}

who_may_not() {
	make_pair
	commit_in work
	fails env GIT_TERMINAL_PROMPT=0 git -C work push -q "$(site_url paris)/r.git" main
	fails env GIT_TERMINAL_PROMPT=0 git -C work push -q "$(url_as looker paris r)" main
	[ "$(tip london/git/r.git)" != "$(tip work HEAD)" ]
	set_conf paris http.anonymousRead false
	kill -HUP "$(site_pid paris)"
	wait_until 10 fails env GIT_TERMINAL_PROMPT=0 git ls-remote "$(site_url paris)/r.git"
}

# Both sites get pushes to one branch: git's locks order them, one is refused.
two_sites_one_branch() {
	local one=0 two=0

	make_pair
	make_clone "$(url_as dev london r)" near
	commit_in work a
	commit_in near b
	git -C work push -q origin main 2>err1 &
	git -C near push -q origin main 2>err2 || two=$?
	wait $! || one=$?
	[ $((one == 0)) -ne $((two == 0)) ]
	wait_until 20 in_sync
	same_sites
}

primary_dies_in_a_push() {
	make_pair
	stop_site london
	start_site london "REFRELAY_FAILPOINT=receive_pack.reported=kill"
	commit_in work
	fails git -C work push -q origin main
	wait_until 10 has_died london
	wait "$(site_pid london)" || true
	start_site london
	wait_until 30 in_sync
	same_sites
	git -C work push -q origin main
	[ "$(tip london/git/r.git)" = "$(tip work HEAD)" ]
	wait_until 20 in_sync
	same_sites
}

big_push() {
	make_pair
	no_compression work
	head -c 60000000 /dev/urandom >work/big
	git -C work add big
	git -C work commit -qm big
	git -C work push -q origin main
	[ "$(tip london/git/r.git)" = "$(tip work HEAD)" ]
}

tap_test "fresh repositories are read from the secondary" fresh_reads_stay_here
tap_test "pushes through the secondary arrive, and are seen there at once" through_the_secondary
tap_test "who pushed sees the push though the copy does not have it" see_own_push
tap_test "what is behind or not here yet is read from the primary" behind_is_forwarded
tap_test "without the primary fresh copies are served, and a push says why it fails" primary_down
tap_test "so it is where a server in front answers for the primary" down_behind_a_web_server
tap_test "who may not push does not through the secondary either" who_may_not
tap_test "of two pushes to a branch from two sites one wins" two_sites_one_branch
tap_test "a primary that dies in a push tells nothing wrong" primary_dies_in_a_push
tap_test "a large push goes through" big_push
tap_done
