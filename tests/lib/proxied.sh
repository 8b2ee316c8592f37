# Two sites as in two_sites.sh, with tests/peers/proxy.py between them: paris asks london
# through it.
#
#	make_proxied_sites		as make_sites
#	start_proxied_sites		the proxy and both sites
#	rules [LINE...]			what the proxy does from now on; none: it passes all

proxy_program=$(realpath "${BASH_SOURCE[0]%/*}/../peers/proxy.py")

make_proxied_sites() {
	make_sites
	start_proxy
	set_conf paris primary.url "http://127.0.0.1:$(cat proxy/port)"
}

start_proxy() {
	local upstream

	mkdir proxy
	: >proxy/rules
	: >proxy/log
	upstream=$(site_url london)
	python3 "$proxy_program" proxy "${upstream##*:}" "$(free_port)" 2>proxy/err &
	echo $! >proxy/pid
	wait_until 10 test -f proxy/port
}

rules() { # [LINE...]
	printf '%s\n' "$@" >proxy/rules.new
	mv proxy/rules.new proxy/rules
}

# A pattern of requests that have come.
asked_for() { # PATTERN [TIMES]
	[ "$(grep -cE "^[+] .*$1" proxy/log)" -ge "${2:-1}" ]
}

# The row's failure has this class, and a text.
has_failed() { # NAME CLASS
	local said
	said=$(at paris repository show --json "$1") || return
	[[ $said == *'"state":"failed"'* && $said == *"\"failure_class\":\"$2\""* &&
		$said =~ '"failure":"'[^\"] ]] && return
	echo "$said"
	return 1
}

# How many seconds from its last attempt, by the site's clock, the row is tried again.
retries_in() { # NAME
	at paris repository show --json "$1" | python3 -c '
import datetime, json, sys
row = json.load(sys.stdin)
def at(name):
    return datetime.datetime.fromisoformat(row[name].replace("Z", "+00:00"))
print(round((at("retry_at") - at("last_attempt_at")).total_seconds()))'
}

# Tried at once, whatever retry_at says.
try_again() { # NAME-OR-OPTION...
	at paris repository sync "$@" >sync.out 2>&1
}

status_says() { # PATTERN
	at paris status >status && fail "all is well: $(<status)"
	grep -qE "$1" status || { cat status; return 1; }
}

# What was broken off by the change of rules is not waited for, but tried once more.
is_healed() {
	in_sync && same_sites && return
	! at paris repository list --failed | grep -q failing || try_again --failed
	return 1
}

heals() {
	rules
	wait_until 40 is_healed
}

prepare() {
	make_proxied_sites
	make_repository london/git/tool.git
	"$@"
	start_sites
	wait_until 30 in_sync
}
