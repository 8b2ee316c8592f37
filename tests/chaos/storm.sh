#!/usr/bin/env bash
# usage: storm.sh [SECONDS]
#
# Storms of 10,000 small changes over 100 repositories (tests/site/test_delta_storm.sh), one after
# another for so many seconds (600), at least one. $BUILD says which program.
set -uo pipefail

folder=$(cd "${0%/*}" && pwd)
end=$((SECONDS + ${1:-600})) result=0

while
	STORM_REPOSITORIES=100 STORM_CHANGES=100 STORM_PATIENCE=300 \
		bash "$folder/../site/test_delta_storm.sh" || result=1
	[ "$SECONDS" -lt "$end" ]
do :; done
exit "$result"
