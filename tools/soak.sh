#!/usr/bin/env bash
# usage: tools/soak.sh [HOURS]        what `make soak` runs, for so many hours (1) together
#
# What finds more the longer it runs, on a build with the address and undefined sanitizers:
#
#	tests/chaos/soak.sh SECONDS	sites under faults, with seeds of their own
#	tests/chaos/leases.sh SECONDS	leases on all backends under faults
#	tests/chaos/storm.sh SECONDS	10,000 small changes over 100 repositories, again and again
#
# and before, each fuzz target for half a minute.
#
# One after the other; the others go on when one fails. The exit status is 1 then. Each says how to repeat what it found.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

hours=${1:-1}
[[ $hours =~ ^[0-9]+$ ]] && [ "$hours" -gt 0 ] || {
	echo "usage: tools/soak.sh [HOURS]" >&2
	exit 2
}
scripts=(tests/chaos/soak.sh tests/chaos/leases.sh tests/chaos/storm.sh)
tools/test.sh sanitized || exit 1
export BUILD=$PWD/build-asan PATIENCE=3 REFRELAY=$PWD/build-asan/refrelay REFRELAY_RUN=$PWD/build-asan/refrelay-run \
	REFRELAY_HOOK=$PWD/build-asan/refrelay-hook
export ASAN_OPTIONS=halt_on_error=1:abort_on_error=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1
result=0
FUZZ_SECONDS=30 tools/test.sh fuzz || result=1
for script in "${scripts[@]}"; do
	echo "== $script"
	bash "$script" $((hours * 3600 / ${#scripts[@]})) || result=1
done
exit "$result"
