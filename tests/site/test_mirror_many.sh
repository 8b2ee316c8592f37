#!/usr/bin/env bash
# Two hundred upstreams with tokens of their own, and what they ask for: one request an interval, no
# more after a storm of webhooks, rest when they want it, no credential where it is of no use.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/mirrored.sh"

MIRRORS=200
REAL=8 # of them real ones, the others are empty
INTERVAL_MS=3000

# The first half is one watcher's, the second the other's.
write_sections() {
	local i

	for ((i = 1; i <= MIRRORS; i++)); do
		printf '[mirror "acme/m%d"]\n\turl = http://127.0.0.1:%d/acme/m%d.git\n\tinterval = %dms\n' \
			"$i" "$(<forest/port)" "$i" "$INTERVAL_MS"
	done
	for i in one two; do
		printf '[watcher "%s"]\n\tmirror = *\n\ttokenFile = "%s/%s.token"\n' "$i" "$PWD" "$i"
	done
}

allow_halves() {
	printf 'acme/m%d %s\n' 1 "$(<one.token)" >forest/allowed.new
	printf 'acme/m[1-9] %s\nacme/m[1-9][0-9] %s\nacme/m* %s\n' "$(<one.token)" "$(<one.token)" \
		"$(<two.token)" >>forest/allowed.new
	mv forest/allowed.new forest/allowed
}

set_up() {
	local i

	make_mirror_sites
	mkdir forest
	(umask 077 && echo token-one >one.token && echo token-two >two.token && echo s3cret >hook.secret)
	for ((i = 1; i <= REAL; i++)); do
		make_repository "forest/acme/m$i.git" 3
	done
	allow_halves
	: >forest/tags
	python3 "$TESTS/peers/forest.py" forest &
	wait_until 10 test -s forest/port
	write_sections >>paris/refrelay.conf
	set_conf paris mirror.acme/m5.webhookSecretFile "$PWD/hook.secret"
	start_site paris
	wait_until 60 all_are_mirrored
}

all_are_mirrored() {
	at paris status >said || :
	grep -F "$MIRRORS of $MIRRORS mirrors are up to date" said
}

is_here() { # NUMBER
	diff <(git -C "forest/acme/m$1.git" for-each-ref) <(git -C "paris/git/acme/m$1.git" for-each-ref)
}

# From now on each mirror was asked so often.
were_asked() { # TIMES SINCE-LINE
	[ "$(tail -n +"$2" forest/asked | awk -v least="$1" '{ count[$3]++ }
		END { for (path in count) all += count[path] >= least; print all + 0 }')" -eq "$MIRRORS" ]
}

# From each to the next of one mirror at least an interval, less the tenth that it may be sooner; each a
# single request for the refs, with the token of its own.
ask_seldom() { # SINCE-LINE
	tail -n +"$1" forest/asked | awk -v least="$((INTERVAL_MS * 9 / 10))" '
		$2 != "GET" || $3 !~ /\/info\/refs$/ || ($5 != 200 && $5 != 304) { print; bad++ }
		($3 in last) && $1 - last[$3] < least { print "after " $1 - last[$3] " ms: " $0; bad++ }
		{ last[$3] = $1; tagged += $6 == "if"; same += $5 == 304 }
		END { print NR " requests, " same " of them 304"; exit bad > 0 || same < NR / 2 }'
}

one_request_an_interval() {
	local since

	cd "$SHARED"
	# The other one is marked where it sees nothing: 404 is asked for no more.
	at paris mirror show acme/m150 | grep 'watcher one: credential refused .*no such repository'
	at paris mirror show acme/m5 >out
	fails grep refused out
	since=$(($(wc -l <forest/asked) + 1))
	wait_until 40 were_asked 4 "$since"
	ask_seldom "$since"
}

changes_come() {
	local i

	cd "$SHARED"
	for ((i = 1; i <= REAL; i++)); do
		add_commits "forest/acme/m$i.git" refs/heads/main 1
	done
	for ((i = 1; i <= REAL; i++)); do
		wait_until 20 is_here "$i"
	done
}

# Of a storm of pushes of which each has its webhook.
a_storm() {
	local i before began took codes

	cd "$SHARED"
	echo '{"ref":"refs/heads/main","repository":{"full_name":"acme/m5"}}' >push
	echo "header = \"X-GitHub-Event: push\"
header = \"X-Hub-Signature-256: sha256=$(openssl dgst -sha256 -hmac s3cret -r push | cut -d ' ' -f 1)\"
data-binary = @push
silent
write-out = \"%{http_code}\\n\"
output = /dev/null" >one.curl
	for ((i = 0; i < 300; i++)); do
		echo "url = \"$(site_url paris)/api/v1/mirrors/acme%2Fm5/webhook\""
		cat one.curl
		echo next
	done | sed '$d' >storm.curl
	before=$(asked_for m5)
	began=$SECONDS
	add_commits forest/acme/m5.git refs/heads/main 1
	curl -K storm.curl >codes
	wait_until 20 is_here 5
	took=$((SECONDS - began))
	codes=$(sort codes | uniq -c)
	echo "$codes, in $took s $(($(asked_for m5) - before)) requests"
	[ "$(grep -c '^202$' codes)" = 300 ]
	# One a second, those of the job and of git that bring the change.
	[ "$(($(asked_for m5) - before))" -le $((took + 6)) ]
}

asked_for() { # NAME
	grep -c " GET /acme/$1.git/info/refs" forest/asked
}

# As a person who asks is told it; both had seen the repository before.
gone_for_all() {
	cd "$SHARED"
	printf 'acme/m6 nobody\n' | cat - forest/allowed >forest/allowed.new
	mv forest/allowed.new forest/allowed
	expect 4 at paris mirror sync acme/m6 --json
	[ "$("$SITE_HELP" member reason <out)" = gone ]
	expect 4 at paris mirror sync acme/m6 --as two --json
	[ "$("$SITE_HELP" member reason <out)" = hidden ]
	wait_until 30 reason_is gone
	is_here 6
	allow_halves
	at paris mirror sync acme/m6
}

reason_is() { # REASON
	[ "$(at paris mirror show acme/m6 --json | "$SITE_HELP" member failure_reason)" = "$1" ]
}

tap_set_up set_up
tap_test "each upstream is asked once an interval, by one request, with its own token" one_request_an_interval
tap_test "what changes comes" changes_come
tap_test "a storm of webhooks has the upstream asked once a second" a_storm
tap_test "one that is gone is so for all credentials" gone_for_all
tap_done
