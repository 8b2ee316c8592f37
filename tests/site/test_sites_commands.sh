#!/usr/bin/env bash
# What people and monitors ask of two sites, by commands and by HTTP, and what they are
# answered when something is wrong.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

converge() {
	wait_until 60 in_sync
	same_sites
}

# r1 to rN, in sync; tokens for operators.
make_some() { # N
	local i
	make_sites
	make_repository template.git 5
	for i in $(seq "$1"); do
		cp -r template.git "london/git/r$i.git"
	done
	for i in london paris; do
		(umask 077 && echo "operator-token-of-$i" >"$i/token")
		set_conf "$i" http.operatorTokenFile "$PWD/$i/token"
	done
	start_sites
	converge
}

# The status of a request; its body stands in ./body.
ask() { # SITE TARGET [CURL-OPTION...]
	local site=$1 target=$2
	shift 2
	curl -sS -o body -w '%{http_code}' "$@" "$(site_url "$site")$target"
}

answers() { # STATUS SITE TARGET [CURL-OPTION...]
	local wanted=$1 status
	shift
	status=$(ask "$@")
	[ "$status" = "$wanted" ] || {
		echo "$status instead of $wanted: $* $(cat body)"
		return 1
	}
}

bearer() { # SITE
	echo "Authorization: Bearer $(cat "$1/token")"
}

# A member of the JSON object on stdin: a path with dots.
member() { # PATH
	python3 -c '
import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."):
    value = value[int(key) if isinstance(value, list) else key]
print(value)' "$1"
}

names_shown() { # NAME...
	[ "$(python3 -c 'import json
print(*(row["name"] for row in json.load(open("out"))["repositories"]))')" = "$*" ]
}

# That is an hour ahead, and the change that paris lacks was made two minutes ago.
lags_are_told_by_the_clock_of_the_primary() {
	stop_site paris
	sqlite3 paris/data/refrelay.db "
		INSERT OR REPLACE INTO site_value (key, value) VALUES ('pull.skew', '3600000');
		UPDATE registry SET behind_since = $((($(date +%s) + 3600 - 120) * 1000))
			WHERE name = 'r2'"
	expect 0 at paris repository list --json r2
	is_two_minutes "$(member repositories.0.lag <out)"
	expect 0 at paris repository show --json r2
	is_two_minutes "$(member lag <out)"
	start_site paris
	converge
}

is_two_minutes() { # SECONDS
	[ "${1%.*}" -ge 115 ] && [ "${1%.*}" -le 240 ]
}

repositories_are_listed_and_shown() {
	local i
	make_some 3
	expect 0 at paris repository list
	[ "$(wc -l <out)" = 3 ]
	grep -qx 'up to date *r2' out
	expect 0 at paris repository list --json --state synced
	[ "$(member repositories.2.name <out)" = r3 ]
	expect 0 at paris repository list --failed
	[ ! -s out ]
	expect 0 at paris repository list r1 r3
	[ "$(wc -l <out)" = 2 ]
	expect 0 at paris repository show r1
	grep -q '^state *synced$' out
	expect 0 at paris repository show --json r1.git
	[ "$(member verification_state <out)" = succeeded ]
	fails grep -qE ':[0-9]{17}' out # no number that readers of JSON would round
	expect 4 at paris repository show nowhere
	grep -q nowhere err
	expect 2 at paris repository show
	expect 0 at paris repository show r1 r2
	[ "$(grep -c '^name  *r[12]$' out)" = 2 ]
	[ "$(grep -cx '' out)" = 1 ]
	expect 0 at paris repository show --json r1 r2
	names_shown r1 r2
	expect 3 at paris repository show r1 nowhere
	[ "$(grep -c '^name  *r1$' out)" = 1 ]
	expect 0 at london repository show --json r1 r2
	names_shown r1 r2
	lags_are_told_by_the_clock_of_the_primary
	expect 2 at paris repository list --state strange
	expect 2 at paris repository

	expect 0 at london repository list
	[ "$(wc -l <out)" = 3 ]
	expect 0 at london repository list r3 r1.git
	[ "$(sed 's/.* //' out | tr '\n' ' ')" = 'r3 r1 ' ]
	for i in london paris; do
		expect 3 at "$i" repository list --json nowhere r2
		[ "$(member repositories.0.name <out)" = r2 ]
		grep -q nowhere err
	done
	expect 0 at london repository show --json r1
	[ "$(member checksum <out)" = "$(row_of paris r1 checksum)" ]
	expect 4 at london repository show nowhere
	expect 2 at london repository sync r1
}

repositories_are_synced_and_verified_when_asked() {
	local before verified
	make_some 3
	before=$(logged paris sync.done)
	expect 0 at paris repository sync --wait r1
	wait_until 10 has_logged_more "$before" paris sync.done
	expect 0 at paris repository sync --dry-run --all
	[ "$(grep -c '^would sync r' out)" = 3 ]
	expect 3 at paris repository sync --wait --no-progress r1 nowhere
	grep -q nowhere err
	expect 2 at paris repository sync --no-progress r1
	expect 2 at paris repository sync
	expect 2 at paris repository sync --all r1

	# A ref that somebody moved in the copy: resync trusts no record.
	in_copy r2.git update-ref refs/heads/main main~1
	expect 0 at paris repository resync --wait r2
	equal_repositories london/git/r2.git paris/git/r2.git

	verified=$(row_of paris r3 verified_at)
	expect 0 at paris repository reverify --all --json
	[ "$(member failed <out)" = 0 ]
	wait_until 20 was_verified_after r3 "$verified"
	expect 4 at paris repository reverify nowhere
	expect 0 at paris repository reverify --wait r3
	row_is paris r3 verification_state succeeded
	the_primary_verifies_when_asked

	# What is removed while the primary has it comes back.
	expect 0 at paris repository remove --json r1
	fails grep -q 'level=' err
	wait_until 60 row_is paris r1 verification_state succeeded
	converge
	expect 4 at paris repository remove -- --all
	expect 4 at paris repository remove nowhere
	# It has been done when the command ends.
	expect 2 at paris repository remove --wait r2
	row_is paris r2 verification_state succeeded
}

the_primary_verifies_when_asked() {
	local before
	expect 0 at london repository reverify r1
	grep -qx 'asked for reverify of 1 repository' out
	expect 0 at london repository reverify --dry-run r1
	grep -qx 'would reverify r1' out
	before=$(row_of london r2 verified_at)
	expect 3 at london repository reverify --wait --json nowhere r2
	[ "$(member repositories.0 <out)" = r2 ]
	grep -q nowhere err
	[ "$(row_of london r2 verified_at)" != "$before" ]
	row_is london r2 verification succeeded
	expect 2 at london repository reverify --all
	expect 2 at london repository reverify
	grep -q -- '--state, --failed or --all' err
}

# The same work as by the commands.
an_operator_asks_for_it_over_http() {
	local api=/api/v1/repositories operator before verified
	make_some 2
	operator="Authorization: Bearer $(cat paris/token)"
	before=$(logged paris sync.done)
	answers 401 paris "$api/r1/sync" -X POST
	answers 200 paris "$api/r1/sync" -X POST -H "$operator"
	wait_until 20 has_logged_more "$before" paris sync.done

	in_copy r2.git update-ref refs/heads/main main~1
	answers 200 paris "$api/r2/resync" -X POST -H "$operator"
	wait_until 20 equal_repositories london/git/r2.git paris/git/r2.git

	converge
	verified=$(row_of paris r1 verified_at)
	answers 200 paris "$api/r1/reverify" -X POST -H "$operator"
	wait_until 20 was_verified_after r1 "$verified"
	answers 404 paris "$api/nowhere/reverify" -X POST -H "$operator"
}

has_logged_more() { # NUMBER SITE EVENT
	[ "$(logged "$2" "$3")" -gt "$1" ]
}

was_verified_after() { # NAME TIME
	local now
	now=$(row_of paris "$1" verified_at)
	[ "$now" != "$2" ] && row_is paris "$1" verification_state succeeded
}

a_damaged_copy_is_found_and_mended() {
	make_some 2
	find paris/git/r1.git/objects/pack -name '*.pack' -exec sh -c \
		'chmod u+w "$1" && printf xxxx | dd of="$1" bs=1 seek=60 conv=notrunc' - {} \;
	expect 0 at paris repository reverify r1
	wait_until 30 was_mended
	converge
}

was_mended() {
	git -C paris/git/r1.git fsck --strict 2>&1 && row_is paris r1 verification_state succeeded
}

commands_the_api_and_metrics_say_the_same() {
	local site
	make_some 4
	# It hears of its secondary with the next request.
	wait_until 10 at london status
	for site in london paris; do
		expect 0 at "$site" status
		grep -q '^in sync' out
		expect 0 at "$site" status --json
		answers 200 "$site" /api/v1/status
		for key in repositories.all repositories.verification.succeeded in_sync role; do
			[ "$(member $key <out)" = "$(member $key <body)" ]
		done
		answers 200 "$site" /metrics
		grep -qx 'refrelay_replicables_all 4' body
		grep -q '^refrelay_verifications{kind="repository",state="succeeded"} 4$' body
	done
	grep -qx 'refrelay_replicables{kind="repository",state="synced"} 4' body
	grep -qx "refrelay_cursor_event $(status_of paris cursor)" body
	expect 0 at london status --json
	[ "$(member secondaries.0.site <out)" = paris ]
	[ "$(member secondaries.0.synced <out)" = 4 ]
	expect 0 at london events
	[ "$(wc -l <out)" = 4 ]
	expect 0 at paris lease list
	expect 0 at paris lease list --json
	member leases <out
}

checks_find_what_is_wrong() {
	make_some 1
	expect 0 at london check
	expect 0 at paris check --json
	[ "$(member wrong <out)" = 0 ]
	fails grep -q "$(cat secret)" out

	# Another secret.
	echo 'another secret of enough bytes' >other
	chmod 600 other
	set_conf paris primary.secretFile "$PWD/other"
	expect 1 at paris check
	grep -q '^FAIL   primary .*hint:' out
	fails grep -qF -e "$(cat secret)" -e "$(cat other)" out err
	set_conf paris primary.secretFile "$PWD/secret"

	# Values that serve would refuse, at either site.
	set_conf paris sync.timeout soon
	expect 1 at paris check
	grep -q '^FAIL   configuration .*sync.timeout' out
	git config --file paris/refrelay.conf --unset sync.timeout
	chmod 644 london/token
	expect 1 at london check
	grep -q '^FAIL   configuration .*london/token' out
	chmod 600 london/token

	# More than are listed: what is not served fails, wherever it stands.
	mkdir -p london/git/{a..l}
	for i in {a..l}; do
		git init -q "london/git/$i"
	done
	expect 0 at london check
	[ "$(grep -c '^note   repositories  [a-l]/.git: ' out)" = 10 ]
	grep -q '^note   repositories  2 more of the kind in site.repositories$' out
	for i in {a..k}; do
		git init -q --bare "london/git/z$i"$'\t.git'
	done
	expect 1 at london check
	[ "$(grep -c '^FAIL   repositories  z.*: not a repository.s name' out)" = 10 ]
	grep -q '^FAIL   repositories  1 more that are not served in site.repositories; hint' out
	[ "$(grep -c '^note   repositories  [a-l]/.git: ' out)" = 10 ]
	rm -rf london/git/{a..l} london/git/z*

	# Nobody there.
	stop_site london
	expect 1 at paris check
	grep -q '^FAIL   primary .*hint:' out
	expect 0 at london check
	grep -q 'no node is running here' out
	expect 3 at london status
	grep -q 'no node is running here' out
	wait_until 20 cannot_reach
	chmod 644 secret
	expect 1 at london check
	grep -q '^FAIL   secret' out
	grep -q chmod out
}

cannot_reach() {
	at paris status >said || true
	grep -q '^paris cannot reach its primary for .*, last heard .* ago: ' said
}

a_site_is_ready_when_it_has_caught_up() {
	make_sites
	make_repository london/git/r1.git 5
	start_site paris
	answers 200 paris /healthz
	answers 503 paris /readyz
	[ "$(member ready <body)" = False ]
	grep -q 'not yet compared' body
	fails grep -aE 'level=(warn|error) ev=http.request .*readyz' paris/log
	start_site london
	wait_until 20 answers 200 london /readyz
	wait_until 20 answers 200 paris /readyz
	converge
}

only_who_may_gets_answers() {
	local target
	make_some 1
	for target in /api/v1/status /metrics /api/v1/repositories /api/v1/repositories/r1; do
		answers 200 paris $target
		answers 401 paris $target -H 'X-Forwarded-For: 203.0.113.7'
		answers 401 paris $target -H 'Forwarded: for=203.0.113.7'
		answers 401 paris $target -H 'Authorization: Bearer wrong-token-of-paris'
		answers 401 paris $target -H "$(bearer london)"
		answers 401 paris $target -H 'Authorization: Basic b3A6d3Jvbmc='
		answers 200 paris $target -H "$(bearer paris)" -H 'X-Forwarded-For: 203.0.113.7'
	done
	answers 401 london /api/v1/events
	fails grep -q '"name"' body
	answers 401 london /api/v1/repositories/r1/refs
	fails grep -q refs/heads body
	answers 401 paris /api/v1/repositories/r1/sync -X POST
	answers 200 paris /api/v1/repositories/r1/sync -X POST -H "$(bearer paris)"
	# A server in front: loopback proves nothing.
	set_conf paris http.url https://paris.example.com/
	kill -HUP "$(site_pid paris)"
	wait_until 10 answers 401 paris /metrics
	answers 200 paris /metrics -H "$(bearer paris)"
	answers 200 paris /healthz
	wait_until 10 was_logged paris access.refused
}

# A site's token for `request`, made by hand: signed with HS256 by the shared secret.
token() { # ISSUER REQUEST AGE
	python3 - "$1" "$2" "$3" "$(cat secret)" <<-'END'
		import base64, hashlib, hmac, json, os, sys, time
		issuer, request, age, secret = sys.argv[1:]
		now = int(time.time()) - int(age)
		def part(data):
		    return base64.urlsafe_b64encode(data).rstrip(b"=")
		claims = {"iss": issuer, "iat": now, "exp": now + 60, "jti": os.urandom(16).hex(),
		          "req": request, "body": hashlib.sha256(b"").hexdigest()}
		text = part(json.dumps({"alg": "HS256", "typ": "JWT"}).encode()) + b"." + \
		    part(json.dumps(claims).encode())
		print((text + b"." + part(hmac.new(secret.encode(), text, hashlib.sha256).digest())).decode())
	END
}

refused() { # CODE TARGET TOKEN [CURL-OPTION...]
	local code=$1 target=$2 token=$3
	shift 3
	answers 401 london "$target" -H "Authorization: Bearer $token" "$@"
	[ "$(member code <body)" = "$code" ]
	member remedy <body
	fails grep -q -e refs/heads -e '"repositories"' body
}

tokens_of_sites_are_for_one_request_and_one_minute() {
	local refs=/api/v1/repositories/r1/refs once
	make_some 1
	once=$(token paris "GET $refs" 0)
	answers 200 london $refs -H "Authorization: Bearer $once"
	grep -q refs/heads/main body
	refused REPLAYED $refs "$once"
	refused CLOCK_SKEW $refs "$(token paris "GET $refs" 90)"
	refused CLOCK_SKEW $refs "$(token paris "GET $refs" -30)"
	refused WRONG_REQUEST $refs "$(token paris 'GET /api/v1/events' 0)"
	refused WRONG_REQUEST $refs "$(token paris 'GET /api/v1/repositories/r2/refs' 0)"
	refused UNKNOWN_SITE $refs "$(token rome "GET $refs" 0)"
	refused BAD_SIGNATURE $refs "$(token paris "GET $refs" 0)x"
	refused BAD_SIGNATURE $refs "$(echo other-secret-than-theirs >secret; token paris "GET $refs" 0)"
}

a_site_is_no_operator() {
	make_some 1
	answers 403 london /api/v1/events -X POST \
		-H "Authorization: Bearer $(token paris 'POST /api/v1/events' 0)"
	[ "$(member code <body)" = OPERATOR_ONLY ]
}

events_are_followed() {
	local status
	make_some 1
	"$REFRELAY" -c london/refrelay.conf events --follow >followed &
	echo $! >follower
	wait_until 10 grep -q '"id":1' followed
	add_commits london/git/r1.git refs/heads/main 1
	wait_until 20 grep -q '"id":2' followed
	kill "$(cat follower)"
	status=0
	wait "$(cat follower)" || status=$?
	[ "$status" = 130 ]
}

capacity_obeys_a_reload() {
	make_some 1
	set_conf paris sync.repositoryCapacity 0
	kill -HUP "$(site_pid paris)"
	wait_until 10 was_logged paris node.reloaded
	add_commits london/git/r1.git refs/heads/main 1
	wait_until 20 row_is paris r1 generation_wanted 2
	before=$(logged paris sync.done)
	# Some rounds of everything else, in which it could have been brought.
	cp -r template.git london/git/r2.git
	wait_until 20 row_is paris r2 state pending
	row_is paris r1 state pending
	[ "$(logged paris sync.done)" = "$before" ]
	set_conf paris sync.repositoryCapacity 4
	kill -HUP "$(site_pid paris)"
	converge

	# What cannot be understood changes nothing.
	set_conf paris sync.repositoryCapacity many
	kill -HUP "$(site_pid paris)"
	wait_until 10 was_logged paris node.reload_failed
	add_commits london/git/r1.git refs/heads/main 1
	wait_until 20 row_is paris r1 generation 3
}

two_nodes_have_not_one_data_directory() {
	make_some 1
	mkdir second
	cp paris/refrelay.conf second/
	set_conf second http.listen "127.0.0.1:$(free_port)"
	expect 5 at second serve
	grep -q 'refrelay: ' err
	kill -0 "$(site_pid paris)"
	converge
}

sigterm_ends_soon_with_requests_that_wait() {
	local i started
	make_some 1
	for i in 1 2 3 4 5; do
		curl -s -H "$(bearer london)" "$(site_url london)/api/v1/events?after=1&wait=55" >wait.$i &
	done
	wait_until 10 six_connections
	started=$SECONDS
	stop_site london
	stop_site paris
	[ $((SECONDS - started)) -le 20 ]
	wait_until 10 was_logged london node.stopped
	wait_until 10 was_logged paris node.stopped
}

# Those five, and the secondary's.
six_connections() {
	[ "$(ss -Htn state established "( sport = :$(site_url london | sed 's/.*://') )" | wc -l)" -ge 6 ]
}

refuses() { # SITE KEY VALUE PATTERN
	cp "$1/refrelay.conf" good.conf
	set_conf "$1" "$2" "$3"
	expect 2 at "$1" serve
	grep -q "$4" err || fail "no \"$4\" in: $(cat err)"
	grep -qE '[;(:] ?[a-z].*' err
	cp good.conf "$1/refrelay.conf"
}

bad_configurations_are_refused() {
	make_sites
	make_repository london/git/r1.git 1
	refuses london blob.uploads.path srv/uploads 'not an absolute path'
	refuses london blob.UP.path /srv/uploads 'cannot be a type'
	refuses london blob.uploads.layout lfs 'blob.uploads.path'
	refuses london http.passwordFile /nowhere/passwords 'http.passwordFile'
	refuses london site.role upstairs 'site.role'
	refuses london site.name 'no name' 'site.name'
	refuses london site.repositories relative/path 'site.repositories'
	refuses london site.repositories /nowhere/at/all 'does not exist'
	refuses london sync.scanInterval soon 'scanInterval'
	refuses london sync.scanInterval 1ms 'scanInterval'
	refuses london sync.strange 1 'strange'
	refuses london http.listen nonsense 'listen'
	refuses paris sync.deleteBrake 7 'deleteBrake'
	refuses paris primary.secretFile /nowhere/secret '/nowhere/secret'
	refuses paris primary.url 'ftp://example.com/' 'primary.url'
	echo short >short
	chmod 600 short
	refuses paris primary.secretFile "$PWD/short" 'short'
	cp secret open
	chmod 644 open
	refuses paris primary.secretFile "$PWD/open" 'chmod'
	git config --file paris/refrelay.conf --unset primary.url
	expect 2 at paris serve
	grep -q 'set url in the section' err
	expect 2 "$REFRELAY" -c nowhere.conf status
}

directories_inside_each_other_are_refused() {
	make_sites
	make_repository london/git/r1.git 1
	mkdir elsewhere
	ln -s "$PWD/london/git" elsewhere/link
	refuses london site.data "$PWD/london/git/.refrelay" \
		"site.repositories $PWD/london/git and site.data $PWD/london/git/.refrelay"
	refuses london site.data "$PWD/elsewhere/link/new/data" 'are inside each other'
	refuses london site.data "$PWD/london/git" 'are inside each other'
	refuses london site.data "$PWD/london" 'are inside each other'
	refuses paris site.repositories "$PWD/paris/data/git" 'are inside each other'
	[ "$(ls -A london/git)" = r1.git ]
	set_conf london site.data "$PWD/elsewhere/link/data"
	expect 1 at london check
	grep -q "^FAIL   configuration .*$PWD/london/git and .*$PWD/elsewhere/link/data" out
	[ "$(ls -A london/git)" = r1.git ]
	# Names that begin alike are no matter.
	set_conf london site.data "$PWD/london/git-data"
	expect 0 at london check
}

sections_of_the_other_role_are_told() {
	make_some 1
	set_conf london primary.url http://127.0.0.1:1/
	set_conf paris secondary.rome.enabled false
	expect 0 at london check
	grep -q '^note   configuration .*primary.url: the section is not used' out
	expect 0 at paris check
	grep -q '^note   configuration .*secondary.rome.enabled: the section is not used' out
	kill -HUP "$(site_pid paris)"
	wait_until 10 was_logged paris node.unused_section
	fails was_logged london node.unused_section
	stop_site london
	start_site london
	wait_until 10 was_logged london node.unused_section primary.url
}

tap_test "repositories are listed and shown" repositories_are_listed_and_shown
tap_test "repositories are synced and verified when asked" \
	repositories_are_synced_and_verified_when_asked
tap_test "an operator asks for it over HTTP" an_operator_asks_for_it_over_http
tap_test "a damaged copy is found and mended" a_damaged_copy_is_found_and_mended
tap_test "commands, the API and metrics say the same" \
	commands_the_api_and_metrics_say_the_same
tap_test "checks find what is wrong" checks_find_what_is_wrong
tap_test "a site is ready when it has caught up" a_site_is_ready_when_it_has_caught_up
tap_test "only who may gets answers" only_who_may_gets_answers
tap_test "tokens of sites are for one request and one minute" \
	tokens_of_sites_are_for_one_request_and_one_minute
tap_test "a site is no operator" a_site_is_no_operator
tap_test "events are followed" events_are_followed
tap_test "capacity obeys a reload" capacity_obeys_a_reload
tap_test "two nodes do not share a data directory" two_nodes_have_not_one_data_directory
tap_test "SIGTERM ends soon with requests that wait" \
	sigterm_ends_soon_with_requests_that_wait
tap_test "bad configurations are refused" bad_configurations_are_refused
tap_test "directories inside each other are refused" \
	directories_inside_each_other_are_refused
tap_test "sections of the other role are told" sections_of_the_other_role_are_told
tap_done
