#!/usr/bin/env bash
# Many writers and readers at once on two nodes with one storage: nobody is ever told what
# was over before he asked.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"

exec 3>&1 # for figures, which a test that passes does not show

peers=$TESTS/peers

# STORM_SECONDS and STORM_OPTIONS are for longer storms, by hand.
storm() { # [OPTION...]
	python3 "$peers/storm.py" --seconds "${STORM_SECONDS:-7}" "$@" \
		--refrelay "$REFRELAY" "$PWD/one/refrelay.conf" ${STORM_OPTIONS-} \
		"$R" "$U" "$U2" >said || fail "$(<said)"
	sed 's/^/# /' said >&3
}

said_number() { # MEMBER
	grep -o " $1=[0-9]*" said | cut -d = -f 2 || echo 0
}

# A storm that goes past the cache proves nothing. Where a machine is so slow that there is a
# write for each answer, the cache can serve few of them: then so many must be enough, in as
# many storms as that takes.
many_were_hits() { # PERCENT
	local hits=0 storms

	for storms in {1..20}; do
		[ "$(said_number hit_percent)" -lt "$1" ] || return 0
		[ "$(said_number answers)" -lt 200 ] || fail "$(said_number hit_percent) % were hits"
		hits=$((hits + $(said_number hit)))
		[ "$hits" -lt 10 ] || return 0
		storm
	done
	fail "$hits were hits in $storms storms"
}

no_answer_is_stale() {
	make_served
	make_second_node
	at one hooks install r
	start_site one
	start_site two
	storm
	many_were_hits 30
	stop_site one
	stop_site two
}

tap_test "no answer is older than what was written before it was asked for" \
	no_answer_is_stale
tap_done
