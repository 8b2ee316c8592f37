#!/usr/bin/env bash
# What docs/security.md says of the network: loopback, proxies, TLS, and clients that are
# many or large. The mark of the sentence is before each test's name.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/secured.sh"

# ./plain believes a proxy at 127.0.0.3; ./tls speaks TLS.
set_up() {
	make_one plain
	make_one tls
	set_conf plain http.trustedProxy 127.0.0.3
	git config --file plain/refrelay.conf --add http.trustedProxy 10.0.0.0/8
	set_conf plain http.connectionsPerClient 8
	set_conf plain serve.maxPush 1m
	write_down plain/git/r.git
	make_certificate first
	cp first.pem now.pem
	cp first.key now.key
	chmod 600 now.key
	set_conf tls http.tlsCertificate "$PWD/now.pem"
	set_conf tls http.tlsKey "$PWD/now.key"
	start_site plain
	launch_site tls
	wait_until 20 is 200 asked_by_tls /healthz
}

make_one() { # SITE
	mkdir -p "$1/git"
	set_conf "$1" site.name "$1"
	set_conf "$1" site.role standalone
	set_conf "$1" site.repositories "$PWD/$1/git"
	set_conf "$1" site.data "$PWD/$1/data"
	set_conf "$1" http.listen "127.0.0.1:$(free_port)"
	set_conf "$1" http.anonymousRead false
	set_conf "$1" sync.scanInterval 1h
	make_repository "$1/git/r.git" 3
	give_token "$1" pusher push
}

make_certificate() { # NAME
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
		-subj "/CN=$1" -addext subjectAltName=IP:127.0.0.1 \
		-keyout "$1.key" -out "$1.pem" 2>openssl.log
}

asked_by_tls() { # PATH [CURL-OPTION...]
	local path=$1

	shift
	curl -sk -m 30 -o answer -w '%{http_code}\n' "$@" "$(site_url tls)$path"
}

from_loopback() {
	local header

	cd "$SHARED"
	is 200 reads_api - plain
	is 401 reads - plain r
	is 401 as - plain /api/v1/events -d '{"name":"r"}'
	for header in 'X-Forwarded-For: 127.0.0.1' 'Forwarded: for=127.0.0.1' \
		'X-Real-IP: 127.0.0.1' 'Via: 1.1 x' 'X-Forwarded-Proto: https'; do
		is 401 asked plain /api/v1/status -H "$header"
	done
	set_conf plain http.url "$(site_url plain)/"
	reload plain
	is 401 reads_api - plain
	git config --file plain/refrelay.conf --unset http.url
	reload plain
	is 200 reads_api - plain
}

# A push whose probe comes from ADDRESS: curl can choose where it comes from, git cannot.
# The hook writes down for whom it runs.
push_from() { # ADDRESS [X-FORWARDED-FOR...]
	local from=$1 commit headers=() one old=0000000000000000000000000000000000000000

	shift
	for one; do
		headers+=(-H "X-Forwarded-For: $one")
	done
	rm -f plain/git/r.git/who
	[ -d work.git ] || git clone -q --bare plain/git/r.git work.git
	commit=$(git -C work.git rev-parse main)
	one="$old $commit refs/heads/from-$RANDOM$RANDOM"
	{
		printf '%04x%s\0%s' $((${#one} + 4 + 1 + 14)) "$one" ' report-status'
		printf 0000
		git -C work.git pack-objects -q --stdout </dev/null
	} >body
	is 200 as token:pusher plain /r.git/git-receive-pack --interface "$from" \
		--data-binary @body "${headers[@]}" \
		-H 'Content-Type: application/x-git-receive-pack-request'
	cat plain/git/r.git/who
}

not_from_others() {
	cd "$SHARED"
	push_from 127.0.0.1 | grep -q ' addr=127.0.0.1 '
	push_from 127.0.0.2 192.0.2.9 | grep -q ' addr=127.0.0.2 '
	push_from 127.0.0.3 192.0.2.9 | grep -q ' addr=192.0.2.9 '
}

the_last_that_is_no_proxy() {
	cd "$SHARED"
	push_from 127.0.0.3 '198.51.100.1, 192.0.2.9' | grep -q ' addr=192.0.2.9 '
	push_from 127.0.0.3 '198.51.100.1, 192.0.2.9, 10.1.2.3' | grep -q ' addr=192.0.2.9 '
	push_from 127.0.0.3 198.51.100.1 192.0.2.9 | grep -q ' addr=192.0.2.9 '
	push_from 127.0.0.3 '192.0.2.9, nonsense' | grep -q ' addr=127.0.0.3 '
}

# Opens N connections from ADDRESS and keeps them; how many were not closed at once.
hold() { # ADDRESS N
	python3 - "$(site_url plain)" "$1" "$2" <<-'END'
		import socket, sys, time
		host, port = sys.argv[1][len("http://"):].split(":")
		socks = []
		for _ in range(int(sys.argv[3])):
		    sock = socket.socket()
		    sock.bind((sys.argv[2], 0))
		    sock.connect((host, int(port)))
		    sock.settimeout(20)
		    socks.append(sock)
		open_ = 0
		for sock in socks:
		    try:
		        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		        open_ += sock.recv(12) == b"HTTP/1.1 200"
		    except OSError:
		        pass
		print(open_)
	END
}

so_many_connections() {
	local got

	cd "$SHARED"
	got=$(hold 127.0.0.2 30)
	[ "$got" -ge 8 ] && [ "$got" -le 16 ] || fail "$got connections"
	[ "$(hold 127.0.0.3 30)" -eq 30 ]
	is 200 asked plain /healthz
	wait_until 10 was_logged plain http.too_many_connections \
		'client=127.0.0.2 limit=8 .*remedy=".*machine in http.trustedProxy'
}

too_large() {
	cd "$SHARED"
	rm -rf big
	git init -q big
	head -c 3000000 /dev/urandom >big/file
	git -C big add file
	git -C big commit -qm big
	before=$(find plain/git/r.git/objects -type f | wc -l)
	git_as token:pusher -C big push -q "$(site_url plain)/r.git" HEAD:refs/heads/big 2>err &&
		fail "it came"
	fails tip plain/git/r.git refs/heads/big
	wait_until 10 eval '[ "$(find plain/git/r.git/objects -type f | wc -l)" -eq "$before" ]'
}

speaks_tls() {
	local version

	cd "$SHARED"
	is 200 asked_by_tls /healthz --cacert first.pem
	curl -s -m 10 --cacert first.pem "$(site_url tls)/healthz" >answer
	is 200 asked_by_tls /healthz --tlsv1.2 --tls-max 1.2
	is 200 asked_by_tls /healthz --tlsv1.3
	for version in tls1 tls1_1; do
		fails openssl s_client -connect "$(site_url tls | cut -c9-)" "-$version" \
			-cipher DEFAULT@SECLEVEL=0 </dev/null
	done
	fails curl -s -m 10 -f "$(site_url tls | sed s/^https/http/)/healthz"
	git_as token:pusher -c http.sslCAInfo="$PWD/first.pem" ls-remote -q "$(site_url tls)/r.git" >refs
	push_one token:pusher "$(site_url tls)/r.git" -c http.sslCAInfo="$PWD/first.pem"
}

# A site with these does not start.
does_not_start() { # CERTIFICATE KEY PATTERN
	rm -rf one
	make_one one
	set_conf one http.tlsCertificate "$1"
	[ -z "$2" ] || set_conf one http.tlsKey "$2"
	at one serve 2>said && fail "it starts"
	grep -qiE "$3" said || { cat said; fail "it says something else"; }
}

wrong_keys() {
	make_certificate one
	make_certificate other
	does_not_start "$PWD/one.pem" "$PWD/other.key" 'not that of the certificate'
	does_not_start "$PWD/one.pem" '' 'tlsKey is not set'
	chmod 644 one.key
	does_not_start "$PWD/one.pem" "$PWD/one.key" 'everybody can read'
}

another_certificate() {
	cd "$SHARED"
	make_certificate second
	python3 - "$(site_url tls)" >said <<-'END' &
		import http.client, os, ssl, sys, time
		host, port = sys.argv[1][len("https://"):].split(":")
		context = ssl._create_unverified_context()
		conn = http.client.HTTPSConnection(host, int(port), context=context, timeout=30)
		def ask():
		    conn.request("GET", "/healthz")
		    print(conn.getresponse().read(), flush=True)
		ask()
		sock = conn.sock
		open("is-there", "w").close()
		while not os.path.exists("go-on"):
		    time.sleep(0.02)
		ask()
		assert conn.sock is sock
		new = ssl.get_server_certificate((host, int(port)))
		assert new == open("second.pem").read(), new
		print("well")
	END
	local pid=$!
	wait_until 10 test -e is-there
	cat second.key >now.key
	cat second.pem >now.pem
	reload tls
	touch go-on
	wait $pid
	grep -q well said
}

tap_set_up set_up
tap_test "[r2] loopback reads the API, unless there is a URL or a proxy" from_loopback
tap_test "[n3] only trusted proxies are believed" not_from_others
tap_test "[n4] the last address counts that is no trusted proxy's" the_last_that_is_no_proxy
tap_test "[n5] a client has only so many connections, proxies more" so_many_connections
tap_test "[n9] a push above serve.maxPush is refused, and nothing of it stays" too_large
tap_test "[n1] TLS is 1.2 or 1.3, and nothing else is spoken there" speaks_tls
tap_test "[n2] a key that is public or another's is refused" wrong_keys
tap_test "[s5] a certificate is changed by a reload" another_certificate
tap_done
