#!/usr/bin/env bash
# usage: leases.sh [SECONDS]
#
# Leases on all six backends under faults (tests/unit/test_lease_faults.c): 20,000 grants on each
# ($REFRELAY_LEASE_GRANTS), 120,000 together, one backend after the other, again and again until so
# many seconds (1: once) are over. $BUILD (build-asan) is the build; one without sanitizers takes half
# of the time. The table at the end adds up all runs. `overlaps`: so often two held a lease at once,
# where a backend had lost data or its clock jumped; `not stopped` counts those of them that the fence
# let through. The exit status is 1 if there was one, or anything else broke.
set -uo pipefail
cd "${0%/*}/../.." || exit 1

build=${BUILD:-build-asan} end=$((SECONDS + ${1:-1})) status=0
kinds=(local directory redis-1 redis-3 redis-5 postgresql)
columns=(grants published "handed on" takeovers lost refused overlaps timeouts away seconds)
figures=$(mktemp) || exit 1
trap 'rm -f "$figures"' EXIT

ninja -C "$build" tests/unit/test_lease_faults >&2 || exit 1
export TMPDIR=${TMPDIR:-/dev/shm} REFRELAY_LEASE_GRANTS=${REFRELAY_LEASE_GRANTS:-20000}

run_kind() { # KIND
	"$build/tests/unit/test_lease_faults" "$1" | tee -a "$figures" | grep -v '^# figures ' && return
	status=1
}

print_table() {
	printf '\n%-12s' backend
	printf '%11s' "${columns[@]}" "not stopped"
	echo
	awk '$1 == "#" && $2 == "figures" {
		kinds[$3]
		for (i = 4; i <= 13; i++) { sum[$3, i] += $i; sum["together", i] += $i }
	}
	function row(kind) {
		printf "%-12s", kind
		for (i = 4; i <= 13; i++) printf "%11d", sum[kind, i]
		printf "%12d\n", broken[kind]
	}
	/^# (local|directory|redis-[0-9]|postgresql): [0-9]+ by fence / {
		split($2, name, ":"); broken[name[1]]++; broken["together"]++; kinds[name[1]]
	}
	END { for (kind in kinds) row(kind); row("together") }' "$figures"
}

while :; do
	for kind in "${kinds[@]}"; do
		run_kind "$kind"
	done
	[ "$SECONDS" -lt "$end" ] && [ "$status" -eq 0 ] || break
done
print_table
[ "$status" -eq 0 ] || echo "something broke: see above"
exit "$status"
