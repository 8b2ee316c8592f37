# For tests of what sites say of themselves: three repositories, and whether "in sync, verified"
# is said. On top of two_sites.sh.

begin() {
	make_sites
	for name in one two three; do
		make_repository "london/git/$name.git" 2
	done
}

says_in_sync() { # SITE
	at "$1" status >"$1/says" && head -n 1 "$1/says" | grep -q '^in sync, verified: 3 repositories'
}

# Exactly so: what is not known is not said, anywhere.
says_nothing_of_it() { # SITE
	local status=0
	at "$1" status >"$1/says" || status=$?
	[ "$status" -eq 3 ] && ! head -n 1 "$1/says" | grep -q 'in sync, verified'
}

all_say_it() {
	says_in_sync paris && says_in_sync london
}

metric_is() { # SITE NAME VALUE
	local metrics

	metrics=$(curl -sS -m 10 "$(site_url "$1")/metrics")
	grep -qxF "$2 $3" <<<"$metrics"
}

shows() { # SITE PATTERN
	at "$1" status >"$1/says" || [ $? -eq 3 ] && grep -q "$2" "$1/says"
}

# wait_until waits three times as long as it is told.
THIRTY_SECONDS=10
