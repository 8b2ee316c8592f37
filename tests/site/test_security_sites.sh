#!/usr/bin/env bash
# What docs/security.md says of two sites: what one trusts the other with, and what each
# sees of the other's users. The mark of the sentence is before each test's name.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/secured.sh"

# Alice is a user of the primary, bob one of the secondary. Copies stay as they are once
# they are there, and "late" came after that.
set_up() {
	make_sites
	make_repository london/git/team/t.git 3
	make_repository london/git/open/o.git 3
	set_conf london http.anonymousRead false
	set_conf london http.passwordFile "$PWD/users-london"
	make_users users-london alice
	give_token london pusher push
	set_conf paris http.anonymousRead false
	set_conf paris http.anonymousRepository 'open/*'
	set_conf paris http.passwordFile "$PWD/users-paris"
	make_users users-paris bob
	give_token paris local push
	(umask 077 && echo 0123456789abcdef-operator >operator.token)
	set_conf paris http.operatorTokenFile "$PWD/operator.token"
	set_conf paris http.trustedProxy 127.0.0.1
	write_down london/git/team/t.git
	start_sites
	wait_until 20 in_sync
	set_conf paris sync.repositoryCapacity 0
	reload paris
	write_down paris/git/team/t.git
	make_repository london/git/open/late.git 3
	make_repository london/git/team/late.git 3
	at london changed open/late team/late
	wait_until 20 is 200 reads user:bob paris team/late
}

decided() { # KIND CLASS
	as token:operator paris /metrics >status
	sed -n "s/^refrelay_git_decisions_total{kind=\"$1\",class=\"$2\"} //p" answer | grep . || echo 0
}

# What the primary lacks a right for is read through the secondary, by its rules.
reads_by_its_own_rules() {
	cd "$SHARED"
	is 401 reads - london open/late
	is 200 reads - paris open/late
	is 401 reads - paris team/late
	is 200 reads user:bob paris team/late
	is 401 reads user:bob london team/late
	is 401 reads user:alice paris team/late
	wait_until 10 was_logged paris git.forwarded 'repo=team/late kind=read'
	rm -rf clone
	git clone -q "$(site_url paris)/open/late.git" clone
	[ "$(tip clone HEAD)" = "$(tip london/git/open/late.git)" ]
}

pushes_by_the_primarys_rules() {
	cd "$SHARED"
	is 401 pushes user:bob paris team/t
	grep -qi '^WWW-Authenticate: Basic' head
	is 401 pushes token:local paris team/t
	is 401 pushes token:operator paris team/t
	fails push_one user:bob "$(site_url paris)/team/t.git"
	fails push_one token:local "$(site_url paris)/team/t.git"
}

the_clients_own() {
	cd "$SHARED"
	rm -f london/git/team/t.git/who
	push_one user:alice "$(site_url paris)/team/t.git"
	grep -q '^user=alice ' london/git/team/t.git/who
	push_one token:pusher "$(site_url paris)/team/t.git"
	grep -q '^user=token pusher ' london/git/team/t.git/who
	is 401 pushes wrong:alice paris team/t
}

nothing_is_kept() {
	local text

	cd "$SHARED"
	push_one user:alice "$(site_url paris)/team/t.git"
	push_one token:pusher "$(site_url paris)/team/t.git"
	for text in 'correct horse' "$(printf 'alice:correct horse' | base64)" \
		"$(cat pusher.token)" "$(printf 'any:%s' "$(cat pusher.token)" | base64 -w 0)"; do
		[ -z "$(grep -raFls "$text" paris/log paris/data)" ]
	done
}

# By a hook that looks while both sites are at it.
in_no_log_or_argument() {
	local name text

	cd "$SHARED"
	rm -f london/git/team/t.git/seen
	push_one token:pusher "$(site_url paris)/team/t.git"
	is 401 pushes wrong:alice paris team/t
	as token:local london "/team/t.git/info/refs?service=git-upload-pack" >status
	grep -q receive-pack london/git/team/t.git/seen
	for name in secret pusher.token local.token operator.token; do
		text=$(cat "$name")
		fails grep -aF "$text" london/log paris/log london/git/team/t.git/seen
		fails grep -aF "$text" answer head
	done
	fails grep -aE 'horse|eyJ[A-Za-z0-9_-]{8}' london/log paris/log london/git/team/t.git/seen
}

the_address_of_the_secondary() {
	cd "$SHARED"
	rm -f london/git/team/t.git/who
	push_one user:alice "$(site_url paris)/team/t.git" \
		-c http.extraHeader='X-Forwarded-For: 192.0.2.9'
	grep -q ' addr=127.0.0.1 ' london/git/team/t.git/who
	fails grep 192.0.2.9 london/git/team/t.git/who
}

nothing_shown() {
	local before

	cd "$SHARED"
	before=$(decided push forwarded)
	is 401 pushes - paris team/t
	grep -qi '^WWW-Authenticate: Basic' head
	is 401 as - paris /team/t.git/git-receive-pack -d 0000 \
		-H 'Content-Type: application/x-git-receive-pack-request'
	[ "$(decided push forwarded)" = "$before" ]
}

no_hook_of_the_copy() {
	cd "$SHARED"
	push_one user:alice "$(site_url paris)/team/t.git"
	[ -e london/git/team/t.git/who ]
	[ ! -e paris/git/team/t.git/who ]
}

who_pushed() {
	cd "$SHARED"
	push_one user:alice "$(site_url paris)/team/t.git"
	wait_until 5 was_logged london git.pushed 'repo=team/t user=alice'
	wait_until 10 was_logged paris git.forwarded 'repo=team/t kind=push'
	fails was_logged paris git.forwarded alice
}

tokens_of_one_site() {
	cd "$SHARED"
	is 200 reads token:local paris team/t
	is 401 reads token:local london team/t
	is 200 reads token:pusher london team/t
	is 401 reads token:pusher paris team/t
	is 401 reads_api token:operator london
}

# A secondary by itself, whose primary is not what it should be.
start_lost() { # PRIMARY-URL [LISTEN]
	cp "$SHARED/secret" .
	mkdir lost
	set_conf lost site.name lost
	set_conf lost http.listen "${2:-127.0.0.1:$(free_port)}"
	set_conf lost site.role secondary
	set_conf lost site.repositories "$PWD/lost/git"
	set_conf lost site.data "$PWD/lost/data"
	set_conf lost primary.url "$1"
	set_conf lost primary.secretFile "$PWD/secret"
	set_conf lost http.anonymousRead true
	start_site lost
}

no_redirects() {
	local port

	port=$(free_port)
	cat >there.py <<-'END'
		import http.server, sys
		class There(http.server.BaseHTTPRequestHandler):
		    def do_GET(self):
		        if self.path.startswith("/elsewhere"):
		            open("followed", "w").write(str(self.headers))
		        self.send_response(302)
		        self.send_header("Location", "/elsewhere" + self.path)
		        self.send_header("Content-Length", "0")
		        self.end_headers()
		    do_POST = do_GET
		    def log_message(self, *args):
		        open("asked", "a").write(self.path + "\n")
		http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), There).serve_forever()
	END
	python3 there.py "$port" &
	wait_until 10 curl -s -o answer "http://127.0.0.1:$port/"
	start_lost "http://127.0.0.1:$port/"
	is 502 pushes user:alice lost x
	is 502 reads - lost x
	grep -q '^/x.git/info/refs?service=git-receive-pack' asked
	[ ! -e followed ]
}

no_circles() {
	local listen

	listen=127.0.0.1:$(free_port)
	start_lost "http://$listen/" "$listen"
	is 508 pushes user:alice lost x
	case $(reads - lost x) in
	502 | 508) ;;
	*) fail "a read goes round: $(cat answer)" ;;
	esac
}

# Each guess keeps the primary's processors busy for a while, whoever it is said to be of.
guess_through_paris() {
	local url i urls=()

	url=$(site_url paris)
	for i in $(seq 64); do
		urls+=("http://u$i:wrong@${url#http://}/open/late.git/info/refs?service=git-receive-pack")
	done
	curl -sZ --parallel-immediate --parallel-max 64 -m 60 --interface 127.0.0.3 \
		-w '%{http_code}\n' -o /dev/null "${urls[@]}" >guessed || true
}

who_pretends_to_push() {
	local guessing before i

	cd "$SHARED"
	cp users-london users-before
	for i in $(seq 9); do
		echo "slow$i:\$2b\$12\$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e"
	done >>users-london
	wait_until 10 slow_ones_are_known
	was_logged london http.too_many_connections && fail "it was before"
	before=$(logged london access.refused) || true
	guess_through_paris &
	guessing=$!
	wait_until 10 refuses_more "$before"
	for i in $(seq 5); do
		is 200 reads - paris open/late
	done
	was_logged london http.too_many_connections && fail "the primary lets paris in no more"
	kill $guessing 2>/dev/null || true
	wait $guessing || true
	cp users-before users-london
	wait_until 10 is 200 pushes user:alice paris team/t
}

# The file is looked at when somebody logs in.
slow_ones_are_known() {
	reads user:alice london team/t >status && was_logged london access.passwords_read users=10
}

# The primary is at it.
refuses_more() { # BEFORE
	[ "$(logged london access.refused)" -gt "$1" ]
}

tap_set_up set_up
tap_test "[t1] a secondary lets in to read by its own rules, and asks in its own name" \
	reads_by_its_own_rules
tap_test "[t2] what opens the secondary does not push to the primary" pushes_by_the_primarys_rules
tap_test "[t3] a push is passed on with the client's own credential" the_clients_own
tap_test "[t4] the secondary keeps no credential that it passes on" nothing_is_kept
tap_test "[t5] the primary's hooks see the secondary's address" the_address_of_the_secondary
tap_test "[t8] without a credential a push gets no further than the secondary" nothing_shown
tap_test "[t9] redirects of a primary are not followed" no_redirects
tap_test "[t11] a request that goes round is refused" no_circles
tap_test "[t12] who only pretends to push does not keep the secondary from its primary" \
	who_pretends_to_push
tap_test "[s3] a token of one site opens nothing at another" tokens_of_one_site
tap_test "[s8] no secret is in logs, answers and arguments" in_no_log_or_argument
tap_test "[m4] a push that is passed on runs no hook of the copy" no_hook_of_the_copy
tap_test "[x2] who pushed is in the log of the site that takes it" who_pushed
tap_done
