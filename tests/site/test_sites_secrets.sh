#!/usr/bin/env bash
# Who may follow a site: secrets, clocks, and tokens that somebody else sends again.

. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"

failing_with() { # PATTERN
	at paris status >status && fail "all is well: $(<status)"
	grep -qE "$1" status || { cat status; return 1; }
}

new_secret() { # FILE
	(umask 077 && head -c 24 /dev/urandom | base64 >"$1")
}

# No secret, and no token made with one, is in a log, an answer or what a command says.
nothing_leaks() { # SECRET-FILE...
	local file where=(london/log paris/log) name told
	for name in status check proxy; do
		[ ! -e "$name" ] || where+=("$name")
	done
	for file; do
		[ -s "$file" ]
		told=$(grep -raF "$(<"$file")" "${where[@]}") || [ $? -eq 1 ]
		[ -z "$told" ] || fail "a secret was told: $told"
	done
	told=$(grep -raE 'eyJ[A-Za-z0-9_-]{8}' "${where[@]}") || [ $? -eq 1 ]
	[ -z "$told" ] || fail "a token was told: $told"
}

prepare() {
	make_sites
	make_repository london/git/tool.git
	"$@"
	start_sites
	wait_until 30 in_sync
}

check_says() { # PATTERN
	at paris check >check && fail "check finds nothing: $(<check)"
	grep -qE "$1" check || { cat check; return 1; }
}

another_secret() {
	make_sites
	make_repository london/git/tool.git
	new_secret other
	set_conf paris primary.secretFile "$PWD/other"
	start_sites
	wait_until 20 failing_with 'not signed with the secret .*same secret'
	[ "$(status_of paris failure.code)" = auth ]
	check_says 'FAIL +primary .*same secret'
	wait_until 10 was_logged london access.refused reason=BAD_SIGNATURE
	[ ! -e paris/git/tool.git ]
	nothing_leaks secret other
	# Another name is for the next start, though the secret is read again.
	set_conf paris site.name rome
	set_conf paris primary.secretFile "$PWD/secret"
	kill -HUP "$(site_pid paris)"
	wait_until 45 in_sync
	was_logged paris node.restart_needed 'key=site.name'
	set_conf paris site.name paris
	same_sites
	at paris check >check
	nothing_leaks secret other
}

# It is changed at one site after the other; in between all fails, and nothing is lost.
changed_secret() {
	local pid

	prepare :
	pid=$(site_pid paris)
	new_secret next
	set_conf london secondary.paris.secretFile "$PWD/next"
	kill -HUP "$(site_pid london)"
	wait_until 10 was_logged london node.reloaded
	push_change london/git/tool.git
	wait_until 20 failing_with 'not signed with the secret'
	set_conf paris primary.secretFile "$PWD/next"
	kill -HUP "$(site_pid paris)"
	wait_until 10 was_logged paris node.reloaded
	at paris repository sync tool || true
	wait_until 60 same_sites # what was pushed may not be noticed yet
	wait_until 60 in_sync
	[ "$pid" = "$(site_pid paris)" ]
	kill -0 "$pid"
	nothing_leaks secret next
}

# A secret that cannot be used leaves the one that was.
bad_reload() {
	prepare :
	echo short >short
	chmod 600 short
	set_conf london secondary.paris.secretFile "$PWD/short"
	kill -HUP "$(site_pid london)"
	wait_until 10 was_logged london node.reload_failed 'fewer than 16'
	push_change london/git/tool.git
	wait_until 20 same_sites
}

disabled() {
	prepare :
	set_conf london secondary.paris.enabled false
	at london check >check || true
	grep -q '^note   secret .*secondary paris is disabled' check
	kill -HUP "$(site_pid london)"
	wait_until 10 was_logged london node.reloaded
	push_change london/git/tool.git
	wait_until 20 failing_with 'site "paris" may not follow this primary.*\[secondary "paris"\]'
	check_says 'FAIL +primary .*may not follow'
	wait_until 10 was_logged london access.refused reason=UNKNOWN_SITE
	set_conf london secondary.paris.enabled true
	kill -HUP "$(site_pid london)"
	wait_until 60 same_sites # what was pushed may not be noticed yet
	wait_until 60 in_sync
}

# As during a planned switch: nothing says that its section is wrong.
no_primary() {
	prepare :
	stop_site london
	set_conf london site.role standalone
	start_site london
	wait_until 20 failing_with 'the site that "paris" asks is no primary.*primary.url'
	check_says 'FAIL +primary .*is no primary'
	wait_until 10 was_logged london access.refused reason=WRONG_ROLE
	at paris status --json >status || true
	grep -q '"code":"config"' status || fail "$(<status)"
	stop_site london
	set_conf london site.role primary
	start_site london
	wait_until 60 in_sync
}

# A token of paris: token SECONDS-FROM-NOW REQUEST [SECONDS-VALID]
token() {
	python3 - "$@" <<-'END'
		import base64, hashlib, hmac, json, os, sys, time
		def text(data):
		    return base64.urlsafe_b64encode(data).rstrip(b"=")
		now = int(time.time()) + int(sys.argv[1])
		valid = int(sys.argv[3]) if len(sys.argv) > 3 else 60
		claims = {"iss": "paris", "iat": now, "exp": now + valid,
		          "jti": os.urandom(16).hex(), "req": sys.argv[2],
		          "body": hashlib.sha256(b"").hexdigest()}
		signed = text(b'{"alg":"HS256","typ":"JWT"}') + b"." + text(json.dumps(claims).encode())
		secret = open("secret", "rb").read().strip()
		print((signed + b"." + text(hmac.new(secret, signed, hashlib.sha256).digest())).decode())
	END
}

# The code of a request's refusal, or its status.
answer_to() { # TOKEN TARGET [METHOD]
	local status
	status=$(curl -s -o answer -w '%{http_code}' -X "${3:-GET}" \
		-H "Authorization: Bearer $1" "$(site_url london)$2")
	[ "$status" = 401 ] || { echo "$status"; return; }
	python3 -c 'import json; print(json.load(open("answer"))["code"])'
}

inventory='/api/v1/repositories?limit=10'

refuses() { # CODE TOKEN [TARGET [METHOD]]
	local code
	code=$(answer_to "$2" "${3:-$inventory}" "${4:-GET}")
	[ "$code" = "$1" ] || fail "$code instead of $1: $(<answer)"
}

# Exactly: so it may take another token, if a second has passed while one was on its way.
names_skew() { # SECONDS PATTERN
	refuses CLOCK_SKEW "$(token "$1" "GET $inventory")"
	grep -q "$2" answer
}

wrong_tokens() {
	local good none

	make_sites
	make_repository london/git/tool.git
	start_site london
	good=$(token 0 "GET $inventory")
	refuses 200 "$good"
	refuses REPLAYED "$good"
	wait_until 20 names_skew -300 'clock of site \\*"paris\\*" is 300 s behind'
	wait_until 20 names_skew 300 '300 s ahead of'
	refuses 200 "$(token 3 "GET $inventory")"
	refuses CLOCK_SKEW "$(token -10 "GET $inventory" 5)" # expired
	refuses WRONG_REQUEST "$(token 0 "GET $inventory" 3600)"
	refuses WRONG_REQUEST "$(token 0 "GET $inventory")" '/api/v1/repositories?limit=11'
	refuses WRONG_REQUEST "$(token 0 "GET $inventory")" /api/v1/repositories/tool/refs
	refuses WRONG_REQUEST "$(token 0 "GET /api/v1/repositories/tool/reverify")" \
		/api/v1/repositories/tool/reverify POST
	refuses WRONG_REQUEST "$(token 0 "GET /tool.git/info/refs?service=git-upload-pack")" \
		'/tool.git/info/refs?service=git-upload-pack'
	refuses BAD_SIGNATURE "${good%????}AAAA"
	none=$(printf '{"alg":"none"}' | base64 | tr -d '=').${good#*.}
	refuses BAD_SIGNATURE "${none%.*}."
	refuses BAD_CREDENTIALS nonsense
}

# What somebody has heard on the way.
replayed() {
	prepare :
	stop_site paris
	start_proxy
	set_conf paris primary.url "http://127.0.0.1:$(cat proxy/port)"
	start_site paris
	wait_until 30 in_sync
	rules '/repositories header X-Seen: yes' '/events stall'
	wait_until 20 has_last /api/v1/repositories
	wait_until 20 was_answered # else the copy might come first, and be good
	python3 - "$(site_url london)" <<-'END'
		import socket, sys
		host, port = sys.argv[1][len("http://"):].split(":")
		request = open("replay", "rb").read()
		with socket.create_connection((host, int(port))) as sock:
		    sock.sendall(request)
		    sock.shutdown(socket.SHUT_WR)
		    answer = b""
		    while True:
		        more = sock.recv(65536)
		        if not more:
		            break
		        answer += more
		open("answer", "wb").write(answer)
	END
	grep -q '^HTTP/1.1 401' answer
	grep -q REPLAYED answer
	wait_until 10 was_logged london access.refused reason=REPLAYED
}

has_last() { # TARGET; kept in ./replay
	cp proxy/last replay
	grep -aq "GET $1" replay
}

# All requests like that in ./replay have got their answers.
was_answered() {
	local line
	read -r line <replay
	line=${line% *}
	[ "$(grep -acxF "+ $line" proxy/log)" -eq "$(grep -acxF -e "- $line" proxy/log)" ]
}

wrong_clock() {
	local library=(/usr/lib/*/faketime/libfaketimeMT.so.1)

	[ -e "${library[0]}" ] || skip "there is no libfaketime"
	! grep -aq __asan_init "$REFRELAY" ||
		skip "libfaketime and AddressSanitizer do not go together; tokens made by" \
			"hand tell the same"
	make_sites
	make_repository london/git/tool.git
	start_site london
	launch_site paris LD_PRELOAD="${library[0]}" FAKETIME=-5m DONT_FAKE_MONOTONIC=1 \
		FAKETIME_DONT_RESET=1
	wait_until 20 failing_with 'clock of site "paris" is (299|300|301) s behind.*NTP'
	[ ! -e paris/git/tool.git ]
	LD_PRELOAD="${library[0]}" FAKETIME=-5m DONT_FAKE_MONOTONIC=1 \
		"$REFRELAY" -c paris/refrelay.conf check >check && fail "check is content"
	grep -qE 'FAIL +primary .*(299|300|301) s behind' check
	stop_site paris
	start_site paris
	wait_until 20 in_sync
}

tap_test "different secrets are named, and nothing leaks" another_secret
tap_test "a secret is changed without a restart" changed_secret
tap_test "a secret that is too short is not taken at a reload" bad_reload
tap_test "a site that is disabled is told so" disabled
tap_test "a site that is no primary says so" no_primary
tap_test "tokens of another time or request, or used before, are refused" wrong_tokens
tap_test "a request that was heard on the way is good for once" replayed
tap_test "a clock that is five minutes off is named" wrong_clock
tap_done
