#!/usr/bin/env bash
# usage: leases.sh [SECONDS]
#
# Leases on all backends under faults (tests/unit/test_lease_faults.c): 20,000 grants on each,
# again and again until so many seconds (600) are over. $BUILD (build-asan) is the build. Each
# run says what was granted, taken over, lost and refused; status 1: something broke.
set -uo pipefail
cd "${0%/*}/../.." || exit 1

build=${BUILD:-build-asan} end=$((SECONDS + ${1:-600}))
ninja -C "$build" tests/unit/test_lease_faults >&2 || exit 1
export TMPDIR=${TMPDIR:-/dev/shm} REFRELAY_LEASE_GRANTS=${REFRELAY_LEASE_GRANTS:-20000}
while :; do
	"$build/tests/unit/test_lease_faults" || exit 1
	[ "$SECONDS" -lt "$end" ] || exit 0
done
