#!/usr/bin/env bash
# usage: tools/soak.sh [HOURS]        what `make soak` runs, for so many hours (1) together
#
# What finds more the longer it runs, on a build with the address and undefined sanitizers,
# the last one also with the thread sanitizer:
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
share=$((hours * 3600 / (${#scripts[@]} + 1)))
tools/test.sh sanitized threaded || exit 1
choose() { # BUILD
	export BUILD=$PWD/$1 REFRELAY=$PWD/$1/refrelay REFRELAY_RUN=$PWD/$1/refrelay-run \
		REFRELAY_HOOK=$PWD/$1/refrelay-hook
}
export PATIENCE=3
choose build-asan
export ASAN_OPTIONS=halt_on_error=1:abort_on_error=1:detect_stack_use_after_return=1
export UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:abort_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tests/tsan.supp
result=0
FUZZ_SECONDS=30 tools/test.sh fuzz || result=1
for script in "${scripts[@]}"; do
	echo "== $script"
	bash "$script" "$share" || result=1
done
echo "== ${scripts[-1]}, thread sanitizer"
choose build-tsan
setarch --addr-no-randomize bash "${scripts[-1]}" "$share" || result=1
exit "$result"
