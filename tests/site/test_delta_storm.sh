#!/usr/bin/env bash
# Many small changes of many repositories at once: each is recorded, all come by deltas, and
# in the end all is equal. STORM_REPOSITORIES and STORM_CHANGES (of each) make it longer.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/chains.sh"

repositories=${STORM_REPOSITORIES:-20} changes=${STORM_CHANGES:-40} seconds=${STORM_PATIENCE:-60}
CHANGER_THREADS=16

# Forward along its chain, and from a third on anywhere: refs are rewritten, too. Never what
# it is already.
write_lines() {
	local number
	for ((number = 0; number < repositories; number++)); do
		awk -v path="$PWD/london/git/r$number.git" -v count="$changes" -v seed="$number" '
			{ commits[NR] = $0 }
			END {
				srand(seed)
				for (i = 1; i <= count; i++) {
					at = i <= NR / 3 ? i : 1 + int(rand() * NR)
					if (at == before)
						at = at % NR + 1
					before = at
					printf "%d %s refs/heads/main %s\n", i, path, commits[at]
				}
			}' "chains/r$number"
	done | sort -ns -k1,1 | cut -d ' ' -f 2- >lines
}

generations_of() { # REPOSITORY
	row_of london "$1" .generation
}

all_is_brought() {
	in_sync && same_sites
}

storms() {
	local number first last begun copied brought
	make_sites
	for ((number = 0; number < repositories; number++)); do
		make_repository "london/git/r$number.git" 2
		make_chain "r$number" 30
	done
	write_lines
	[ "$(wc -l <lines)" -eq $((repositories * changes)) ]
	start_sites
	wait_until 60 in_sync
	first=$(generations_of r0)
	copied=$(logged paris sync.done 'way=delta')
	begun=$(date +%s%N)
	change lines
	wait_until "$seconds" all_is_brought
	begun=$((($(date +%s%N) - begun) / 1000000))
	brought=$(($(logged paris sync.done 'way=delta') - copied))
	echo "# $((repositories * changes)) changes in $begun ms by $brought syncs" >&3
	last=$(generations_of r0)
	[ $((last - first)) -eq "$changes" ]
	[ "$brought" -ge "$repositories" ]
	# what was seen by two at once, so that nobody knows what changed
	[ "$(logged paris sync.done 'way=git' || true)" -le $((repositories * changes / 100)) ]
	[ "$(logged paris sync.disturbed || true)" -eq 0 ]
	[ "$(logged paris sync.delta_refused || true)" -eq 0 ]
	[ "$(logged paris verify.mismatch || true)" -eq 0 ]
	in_copy r0.git fsck --strict --full --no-dangling
	stop_site paris
	stop_site london
}

exec 3>&1 # for figures, which a test that passes does not show
tap_test "$((repositories * changes)) changes of $repositories repositories are brought" storms
tap_done
