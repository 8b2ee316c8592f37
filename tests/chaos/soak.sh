#!/usr/bin/env bash
# usage: soak.sh [SECONDS [SEED]]
#
# Chaos and power cuts for so many seconds (7200), one seed after another. $BUILD (build-asan) is
# the folder with refrelay and its two helpers, sanitized or not. What broke is kept below $TMPDIR, and said;
# status 1 then. $PATIENCE (1; 3 with sanitizers) is a factor of all bounds.
set -uo pipefail

folder=$(cd "${0%/*}" && pwd)
programs=${BUILD:-$folder/../../build-asan} end=$((SECONDS + ${1:-7200})) seed=${2:-$((RANDOM * 7))}
patience=${PATIENCE:-1}
broken=0 count=0 fast_paths=(on off mixed mixed-other)

while [ "$SECONDS" -lt "$end" ]; do
	left=$((end - SECONDS))
	echo "# seed $seed"
	python3 -B "$folder/chaos.py" --program "$programs" --seed "$seed" --patience "$patience" \
		--fast-path "${fast_paths[seed % 4]}" --seconds "$((left < 1200 ? left : 1200))" || broken=$((broken + 1))
	python3 -B "$folder/power.py" --program "$programs" --seed "$seed" --patience "$patience" \
		--cuts 15 || broken=$((broken + 1))
	count=$((count + 2))
	seed=$((seed + 1))
done
echo "$count runs, $broken of them broken"
[ "$broken" -eq 0 ]
