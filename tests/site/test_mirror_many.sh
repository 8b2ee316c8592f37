#!/usr/bin/env bash
# Three hundred real upstreams with tokens of their own, and what they are asked for: one request an interval, no
# more after a storm of webhooks, rest when they want it, no credential where it is of no use. And one of a
# hundred thousand refs.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/mirrored.sh"

MIRRORS=300
CHANGING=8
INTERVAL_MS=5000
OWN=200 # from here on each has a token that opens nothing else

# The first hundred are one watcher's, the second the other's, and each of the rest has one of its own.
write_sections() {
	local i

	for ((i = OWN; i <= MIRRORS; i++)); do
		(umask 077 && echo "token-of-$i" >"m$i.token")
		printf '[watcher "w%d"]\n\tmirror = acme/m%d\n\ttokenFile = "%s/m%d.token"\n' "$i" "$i" "$PWD" "$i"
	done

	for ((i = 1; i <= MIRRORS; i++)); do
		printf '[mirror "acme/m%d"]\n\turl = http://127.0.0.1:%d/acme/m%d.git\n\tinterval = %dms\n' \
			"$i" "$(<forest/port)" "$i" "$INTERVAL_MS"
	done
	for i in one two; do
		printf '[watcher "%s"]\n\tmirror = *\n\ttokenFile = "%s/%s.token"\n' "$i" "$PWD" "$i"
	done
}

allow_each() {
	local i

	printf 'acme/m%s %s\n' '[1-9]' "$(<one.token)" '[1-9][0-9]' "$(<one.token)" '1[0-9][0-9]' \
		"$(<two.token)" >forest/allowed.new
	for ((i = OWN; i <= MIRRORS; i++)); do
		echo "acme/m$i token-of-$i"
	done >>forest/allowed.new
	mv forest/allowed.new forest/allowed
}

# Objects are shared by hard links; each has a branch of its own.
make_forest() {
	local i

	mkdir -p forest/acme
	make_repository template.git 3
	for ((i = 1; i <= MIRRORS; i++)); do
		cp -al template.git "forest/acme/m$i.git"
		tip template.git >"forest/acme/m$i.git/refs/heads/only-here-$i"
	done
}

set_up() {
	local i

	make_mirror_sites
	(umask 077 && echo token-one >one.token && echo token-two >two.token && echo s3cret >hook.secret)
	make_forest
	allow_each
	: >forest/tags
	python3 "$TESTS/peers/forest.py" forest &
	wait_until 10 test -s forest/port
	write_sections >>paris/refrelay.conf
	set_conf paris mirror.acme/m5.webhookSecretFile "$PWD/hook.secret"
	start_site paris
	wait_until 120 all_are_mirrored
	for ((i = 1; i <= MIRRORS; i++)); do
		[ "$(tip "paris/git/acme/m$i.git" "refs/heads/only-here-$i")" = "$(tip template.git)" ]
	done
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
	at paris mirror show acme/m250 >out
	fails grep refused out
	since=$(($(wc -l <forest/asked) + 1))
	wait_until 60 were_asked 4 "$since"
	ask_seldom "$since"
	# Those with a token of their own never showed another one.
	[ "$(awk -v own="$OWN" '{ split($3, part, /\/m|\.git/) }
		part[2] >= own && $4 != "token-of-" part[2] && $4 != "-" { print }' forest/asked | wc -l)" = 0 ]
	[ "$(grep -c ' token-of-' forest/asked)" -gt $((4 * (MIRRORS - OWN))) ]
}

changes_come() {
	local i

	cd "$SHARED"
	for ((i = 1; i <= CHANGING; i++)); do
		add_commits "forest/acme/m$i.git" refs/heads/main 1
	done
	for ((i = 1; i <= CHANGING; i++)); do
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
	allow_each
	at paris mirror sync acme/m6
}

reason_is() { # REASON
	[ "$(at paris mirror show acme/m6 --json | "$SITE_HELP" member failure_reason)" = "$1" ]
}

# CPU time of the node, in ms, and its children that have ended.
used_ms() {
	awk '{ sub(/.*\) /, ""); print ($12 + $13 + $14 + $15) * 10 }' "/proc/$(site_pid paris)/stat"
}

REFS=100000
POLL_MOST_MS=1000     # of CPU; a 30th of it without a sanitizer on a quiet machine
MEMORY_MOST_KB=800000 # a third of it without a sanitizer

polled_since() { # TIMES LINES
	[ "$(wc -l <forest/asked)" -ge $(($1 + $2)) ]
}

# Polls of the refs as they are cost little, whether the server knows tags or not, and bring nothing.
polls_are_cheap() { # STATUS
	local before used generation

	generation=$(mirror_says generation)
	[ "$generation" -gt 0 ]
	before=$(($(wc -l <forest/asked) + 1))
	wait_until 20 polled_since 1 "$before" # what is under way has ended
	used=$(used_ms)
	before=$(wc -l <forest/asked)
	wait_until 40 polled_since 6 "$before"
	used=$((($(used_ms) - used) / 6))
	echo "$used ms for a poll with the answer $1"
	[ "$used" -le "$POLL_MOST_MS" ]
	[ "$(tail -n +$((before + 1)) forest/asked | awk '{ print $2, $5 }' | sort -u)" = "GET $1" ]
	[ "$(mirror_says generation)" = "$generation" ]
}

mirror_says() { # MEMBER
	at paris mirror show big --json | "$SITE_HELP" member "$1"
}

very_many_refs() {
	local took=$SECONDS

	make_mirror_sites
	make_repository forest/big.git 3
	git -C forest/big.git pack-refs --all
	awk -v oid="$(tip forest/big.git)" -v refs="$REFS" 'BEGIN {
		for (i = 0; i < refs; i++) printf "%s refs/changes/%02d/%06d/1\n", oid, i % 100, i }' |
		sort -k 2 >more
	{ grep '^#' forest/big.git/packed-refs || :; { grep -v '^[#^]' forest/big.git/packed-refs && cat more; } |
		LC_ALL=C sort -k 2; } >packed
	sed -i '/^#/d' packed
	mv packed forest/big.git/packed-refs
	echo 'big -' >forest/allowed
	python3 "$TESTS/peers/forest.py" forest &
	wait_until 10 test -s forest/port
	set_conf paris mirror.big.url "http://127.0.0.1:$(<forest/port)/big.git"
	set_conf paris mirror.big.interval 1s
	start_site paris
	wait_until 60 has_all_refs
	echo "first copy in $((SECONDS - took)) s"
	polls_are_cheap 200
	: >forest/tags
	at paris mirror sync big
	polls_are_cheap 304
	# One more, and one that goes.
	git -C forest/big.git update-ref refs/changes/new/1 main
	git -C forest/big.git update-ref -d refs/changes/05/000005/1
	wait_until 20 has_all_refs
	[ "$(awk '/^VmHWM:/ { print $2 }' "/proc/$(site_pid paris)/status")" -le "$MEMORY_MOST_KB" ]
}

has_all_refs() {
	cmp <(git -C forest/big.git for-each-ref) <(git -C paris/git/big.git for-each-ref)
}

tap_set_up set_up
tap_test "each upstream is asked once an interval, by one request, with its own token" one_request_an_interval
tap_test "what changes comes" changes_come
tap_test "a storm of webhooks has the upstream asked once a second" a_storm
tap_test "one that is gone is so for all credentials" gone_for_all
tap_test "an upstream of a hundred thousand refs is copied, and polled at little cost" very_many_refs
tap_done
