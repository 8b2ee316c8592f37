#!/usr/bin/env bash
# The primary's Git over HTTP: what git clients of all sorts get, and what those get who
# mean no good.

. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"

start_london() {
	make_sites
	"$@"
	start_site london
}

url_of() { # NAME
	echo "$(site_url london)/$1.git"
}

# A clone has what the repository has.
is_clone_of() { # CLONE REPOSITORY
	git -C "$1" fsck --no-progress --no-dangling
	diff <(git -C "$1" for-each-ref --format='%(refname) %(objectname)' refs) \
		<(git -C "$2" for-each-ref --format='%(refname) %(objectname)' refs)
}

tool() {
	make_repository london/git/tool.git 30
	git -C london/git/tool.git tag -a -m one v1 main
	git -C london/git/tool.git branch side main~10
}

protocols() {
	local version

	start_london tool
	for version in 0 1 2; do
		git -c protocol.version=$version clone -q --mirror "$(url_of tool)" "all$version"
		is_clone_of "all$version" london/git/tool.git
		git -c protocol.version=$version ls-remote "$(url_of tool)" >"refs$version"
		cmp refs0 "refs$version"
		git -c protocol.version=$version clone -q --depth 3 "$(url_of tool)" "few$version"
		[ "$(git -C "few$version" rev-list --count HEAD)" -eq 3 ]
		git -C "few$version" -c protocol.version=$version fetch -q --deepen 2
		[ "$(git -C "few$version" rev-list --count HEAD)" -eq 5 ]
		git -C "few$version" -c protocol.version=$version fetch -q --unshallow
		[ "$(git -C "few$version" rev-list --count HEAD)" -eq 30 ]
	done
	add_commits london/git/tool.git refs/heads/main 3
	for version in 0 1 2; do
		git -C "all$version" -c protocol.version=$version fetch -q
		is_clone_of "all$version" london/git/tool.git
	done
	git clone -q "$(site_url london)/tool" without-git
	git clone -q --filter=blob:none --no-checkout "$(url_of tool)" partial
	[ -n "$(git -C partial rev-list --objects --missing=print HEAD | grep '^?')" ]
	git -C partial checkout -q main # brings blobs one by one
	[ -z "$(git -C partial status --porcelain)" ]
}

# Haves that fill more than a request, sent as gzip.
many_haves() {
	start_london tool
	git clone -q "$(url_of tool)" clone
	add_commits clone/.git refs/heads/own 3000
	git -C clone pack-refs --all
	add_commits london/git/tool.git refs/heads/main 2
	git -C clone -c http.postBuffer=65536 -c protocol.version=0 fetch -q origin
	[ "$(git -C clone rev-parse origin/main)" = \
		"$(git -C london/git/tool.git rev-parse main)" ]
	seq 3000 | sed 's,.*,create refs/heads/many/& main,' |
		sed "s/main\$/$(git -C london/git/tool.git rev-parse main)/" |
		git -C london/git/tool.git update-ref --stdin
	git -C clone -c protocol.version=2 fetch -q origin
	[ "$(git -C clone for-each-ref refs/remotes/origin/many | wc -l)" -eq 3000 ]
	git -c http.postBuffer=65536 clone -q --mirror "$(url_of tool)" whole
	is_clone_of whole london/git/tool.git
}

clones_while_pushing() {
	local i pids=()

	start_london tool
	(
		for i in 1 2 3 4 5; do
			push_change london/git/tool.git "pushed-$i"
		done
	) &
	pids+=($!)
	for i in 1 2 3 4 5 6 7 8 9 10; do
		git clone -q --mirror "$(url_of tool)" "clone$i" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i"
	done
	for i in 1 2 3 4 5 6 7 8 9 10; do
		git -C "clone$i" fsck --no-progress --no-dangling
		git -C "clone$i" fetch -q
		is_clone_of "clone$i" london/git/tool.git
	done
}

odd_repositories() {
	local name

	start_london git init -q --bare london/git/empty.git
	git clone -q "$(url_of empty)" empty
	[ -z "$(git ls-remote "$(url_of empty)")" ]
	make_repository 'london/git/a b/ü+%25 #x.git' 3
	make_repository london/git/plus+plus.git 3
	for name in 'a%20b/%C3%BC%2B%2525%20%23x' plus+plus plus%2Bplus; do
		git clone -q --mirror "$(url_of "$name")" "clone-${name##*/}"
	done
	is_clone_of 'clone-%C3%BC%2B%2525%20%23x' 'london/git/a b/ü+%25 #x.git'
	expect 128 git clone "$(url_of nobody)" nobody
	grep -q 'not found' err
	[ "$(status "$(url_of nobody)/info/refs?service=git-upload-pack")" = 404 ]
	expect 128 env GIT_TERMINAL_PROMPT=0 git -C clone-plus+plus push \
		"$(url_of plus+plus)" HEAD:refs/heads/x
	grep -q 'nobody may push to this site' err
}

status() { # URL [CURL-OPTION...]
	local url=$1
	shift
	curl -s -o answer -D head -w '%{http_code}' --path-as-is "$@" "$url"
}

private() {
	make_sites
	tool
	set_conf london http.anonymousRead false
	(umask 077 && echo 0123456789abcdef-operator >token)
	set_conf london http.operatorTokenFile "$PWD/token"
	start_site london
	[ "$(status "$(url_of tool)/info/refs?service=git-upload-pack")" = 401 ]
	grep -qi '^WWW-Authenticate: Basic' head
	[ "$(status "$(url_of nobody)/info/refs?service=git-upload-pack")" = 401 ]
	expect 128 env GIT_TERMINAL_PROMPT=0 git clone "$(url_of tool)" none
	! git clone -q "http://me:wrong-wrong-wrong-wrong@$(hostport)/tool.git" none \
		2>err || fail "it took any password"
	git clone -q --mirror "http://me:$(<token)@$(hostport)/tool.git" clone
	is_clone_of clone london/git/tool.git
	! grep -F "$(<token)" london/log || fail "the token is in the log"

	# As docs/operations.md has it: nothing is left in the clone.
	GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="http.http://$(hostport)/.extraHeader" \
		GIT_CONFIG_VALUE_0="Authorization: Bearer $(<token)" \
		git clone -q --mirror "$(url_of tool)" by-header
	is_clone_of by-header london/git/tool.git
	git config --global "credential.http://$(hostport).helper" \
		'!f() { test "$1" = get && echo username=operator &&
		echo "password=$(cat "$TEST_DIR/token")"; }; f'
	git clone -q --mirror "$(url_of tool)" by-helper
	is_clone_of by-helper london/git/tool.git
	fails grep -rF "$(<token)" by-header by-helper
}

hostport() {
	site_url london | sed 's,http://,,'
}

# What comes back for these bytes, and then the end. Backslashes as in printf.
raw() { # BYTES
	printf '%s' "$1" >bytes # by the shell itself: they may be too long for an argument
	python3 - "$(hostport)" bytes <<-'END'
		import codecs, socket, sys
		host, port = sys.argv[1].split(":")
		with socket.create_connection((host, int(port)), 10) as sock:
		    try:
		        sock.sendall(codecs.escape_decode(open(sys.argv[2], "rb").read())[0])
		        sock.shutdown(socket.SHUT_WR)
		        answer = b""
		        while more := sock.recv(65536):
		            answer += more
		    except ConnectionError:
		        pass
		print(answer[:12].decode("latin-1"))
	END
}

is_alive() {
	kill -0 "$(site_pid london)" && [ "$(status "$(site_url london)/healthz")" = 200 ]
}

rss_kb() {
	awk '/^VmRSS/ { print $2 }' "/proc/$(site_pid london)/status"
}

small() {
	grep -aq __asan_init "$REFRELAY" && return
	[ "$(rss_kb)" -lt 61440 ] || fail "$(rss_kb) kB of memory"
}

targets() {
	local url path refs='info/refs?service=git-upload-pack'

	start_london tool
	url=$(site_url london)
	make_repository london/secret.git 1 # beside the root
	for path in /../secret.git /%2e%2e/secret.git /tool.git/../../secret.git \
		/tool%2f..%2f..%2fsecret.git /..%2fsecret.git /%00 /tool%00.git \
		/%zz //tool.git /tool.git/objects/.. /./../secret.git /.git /. ''; do
		case $(status "$url$path/$refs") in
		400 | 404) ;;
		*) fail "$path: $(head -n 1 head)" ;;
		esac
		[ -s answer ] || fail "$path: an empty answer"
	done
	[ "$(status "$url/tool.git/$refs" -X DELETE)" = 405 ]
	grep -qi '^Allow: GET' head
	[ "$(status "$url/tool.git/git-upload-pack")" = 405 ]
	[ "$(status "$url/tool.git/$refs" -X BREW)" = 405 ]
	[ "$(status "$url/tool.git/$refs" -I)" = 200 ]
	[ "$(status "$url/tool.git/$refs" -r 0-10)" = 200 ]
	[ "$(wc -c <answer)" -gt 100 ]
	[ "$(status "$url/tool.git/HEAD")" = 404 ]
	[ "$(status "$url/tool.git/info/refs")" = 403 ]
	[ "$(status "$url/tool.git/info/refs?service=git-receive-pack")" = 403 ]
	case $(raw "GET http://other/tool.git/$refs HTTP/1.1\r\nHost: other\r\n\r\n") in
	'HTTP/1.1 400' | 'HTTP/1.1 404') ;;
	*) fail "an absolute URI" ;;
	esac
	is_alive
}

post() { # CURL-OPTION...
	status "$(url_of tool)/git-upload-pack" "$@" \
		-H 'Content-Type: application/x-git-upload-pack-request'
}

bodies() {
	start_london tool
	head -c 100000 /dev/urandom >noise
	head -c 300 <(gzip -c noise) >cut.gz
	printf '0032want 0123456789012345678901234567890123456789\n00000009done\n' >want
	[ "$(post -H 'Content-Encoding: gzip' --data-binary @noise)" = 400 ]
	[ "$(post -H 'Content-Encoding: gzip' --data-binary @cut.gz)" = 400 ]
	[ "$(post -H 'Content-Encoding: br' --data-binary @want)" = 415 ]
	case $(post --data-binary @noise) in
	4*) ;;
	*) fail "noise: $(head -n 1 head)" ;;
	esac
	[ "$(post --data-binary @want)" = 200 ]
	grep -aq 'ERR upload-pack: not our ref' answer
	case $(post --data-binary '') in
	200) [ -s answer ] || fail "200 with nothing" ;;
	esac
	[ "$(status "$(url_of tool)/git-upload-pack" --data-binary @want)" = 415 ]
	[[ $(raw 'POST /tool.git/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-git-upload-pack-request\r\nContent-Length: 99999999999\r\n\r\nabc') == *413 ]]
	[[ $(raw 'POST /tool.git/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-git-upload-pack-request\r\nContent-Length: 10\r\nContent-Length: 20\r\n\r\n0123456789') == *400 ]]
	# 300 MiB of zeros in one.
	head -c 314572800 /dev/zero | gzip -1 | post -H 'Content-Encoding: gzip' \
		-H 'Transfer-Encoding: chunked' --data-binary @- >bomb || true
	[[ $(<bomb) == 413 || $(<bomb) == 000 ]] || fail "a bomb: $(<bomb) $(<answer)"
	find london/data -type f -size +1M | grep . && fail "something was left"
	small
	is_alive
}

heads() {
	local big
	start_london tool
	big=$(head -c 200000 /dev/zero | tr '\0' a)
	case $(raw "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Big: $big\r\n\r\n" || true) in
	'' | 'HTTP/1.1 4'*) ;;
	*) fail "a giant header was taken" ;;
	esac
	case $(raw "GET /$big HTTP/1.1\r\nHost: x\r\n\r\n" || true) in
	'' | 'HTTP/1.1 4'*) ;;
	*) fail "a giant target was taken" ;;
	esac
	raw 'no http at all\r\n\r\n' >/dev/null
	raw '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' >/dev/null
	raw '' >/dev/null
	small
	is_alive
}

# A hundred that say nothing, and twenty that say little, while a secondary works.
tool_for_many() {
	tool
	set_conf london http.connectionsPerClient 256
}

idle_crowd() {
	start_london tool_for_many
	python3 - "$(hostport)" <<-'END' &
		import socket, sys, time
		host, port = sys.argv[1].split(":")
		socks = [socket.create_connection((host, int(port))) for _ in range(120)]
		open("crowd", "w").close()
		while True:
		    for sock in socks[:20]:
		        try:
		            sock.sendall(b"G")
		        except OSError:
		            pass
		    time.sleep(0.2)
	END
	wait_until 20 test -e crowd
	start_site paris
	wait_until 30 in_sync
	push_change london/git/tool.git
	wait_until 20 same_sites
	small
	is_alive
}

no_git_of_london() {
	! tap_leftovers | xargs -r ps -o args= -p | grep '[u]pload-pack'
}

broken_clones() {
	local i

	start_london make_repository london/git/big.git 20
	head -c 30000000 /dev/urandom >file
	git clone -q london/git/big.git clone
	no_compression clone london/git/big.git
	cp file clone/file
	(cd clone && git add file && git commit -qm big && git push -q origin HEAD:main)
	rm -rf clone file
	printf '0032want %s\n00000009done\n' "$(git -C london/git/big.git rev-parse main)" >want
	for i in 1 2 3 4 5; do
		rm -f part
		curl -sN --limit-rate 100k -o part --data-binary @want \
			-H 'Content-Type: application/x-git-upload-pack-request' \
			"$(url_of big)/git-upload-pack" &
		wait_until 30 test -s part
		kill "$!"
		wait "$!" || true
	done
	wait_until 10 no_git_of_london
	small
	is_alive
}

# The most syncs at once since paris read its configuration, by its log: the proxy hears of an
# end when the next may have begun.
most_at_once() {
	awk '
		/ ev=node.reloaded / { most = now }
		!/ job=sync / { next }
		/ ev=lease.acquired / { now++; if (now > most) most = now }
		/ ev=job.(done|deferred|failed) / { now-- }
		END { print most + 0 }' paris/log
}

twelve_are_pending() {
	[ "$(at paris repository list --state pending | grep -c .)" -eq 12 ]
}

capacity() {
	local i most

	make_proxied_sites
	for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
		make_repository "london/git/$i.git" 2
	done
	set_conf paris sync.fastPath false
	set_conf paris sync.repositoryCapacity 1
	rules 'upload-pack slow 0.3'
	start_sites
	wait_until 20 asked_for upload-pack 6
	most=$(most_at_once)
	[ "$most" -eq 1 ] || fail "$most at once"
	wait_until 60 in_sync
	most=$(most_at_once)
	[ "$most" -eq 1 ] || fail "$most at once"
	# All are waiting when some may be copied at once.
	set_conf paris sync.repositoryCapacity 0
	kill -HUP "$(site_pid paris)"
	wait_until 10 was_logged paris node.reloaded
	for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
		add_commits "london/git/$i.git" refs/heads/main 1
	done
	wait_until 20 twelve_are_pending
	set_conf paris sync.repositoryCapacity 8
	rules 'upload-pack slow 1.5' # each for longer than a busy machine takes to begin some
	kill -HUP "$(site_pid paris)"
	wait_until 30 same_sites
	most=$(most_at_once)
	[ "$most" -le 8 ] && [ "$most" -ge 4 ] || fail "$most at once"
}

tap_test "git of all protocols clones, fetches, and takes a part" protocols
tap_test "requests with many haves and wants are served" many_haves
tap_test "ten clone while others push" clones_while_pushing
tap_test "empty repositories and odd names are served, unknown ones are 404" \
	odd_repositories
tap_test "a private site asks for a password, and an operator's token is one" private
tap_test "targets that lead elsewhere, and other methods, are refused" targets
tap_test "bodies that are too large, damaged or no request are refused" bodies
tap_test "heads that are too large or no HTTP do no harm" heads
tap_test "a hundred silent clients do not keep a secondary away" idle_crowd
tap_test "clients that go away leave no git behind" broken_clones
tap_test "no more are copied at once than sync.repositoryCapacity says" capacity
tap_done
