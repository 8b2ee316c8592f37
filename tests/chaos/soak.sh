#!/usr/bin/env bash
# usage: soak.sh PROGRAMS [HOURS] [SEED]
#
# Chaos and power cuts for hours (2), one seed after another: PROGRAMS is the folder with
# refrelay and its two helpers, sanitized or not. What broke is kept below $TMPDIR, and said;
# status 1 then. $PATIENCE (1; 3 with sanitizers) is a factor of all bounds.
set -uo pipefail

programs=${1:?usage: soak.sh PROGRAMS [HOURS] [SEED]} hours=${2:-2} seed=${3:-$((RANDOM * 7))}
folder=$(cd "${0%/*}" && pwd)
end=$((SECONDS + $(awk -v hours="$hours" 'BEGIN { print int(hours * 3600) }')))
patience=${PATIENCE:-1}
broken=0 count=0

while [ "$SECONDS" -lt "$end" ]; do
	left=$((end - SECONDS))
	echo "# seed $seed"
	python3 -B "$folder/chaos.py" --program "$programs" --seed "$seed" --patience "$patience" \
		--seconds "$((left < 1200 ? left : 1200))" || broken=$((broken + 1))
	python3 -B "$folder/power.py" --program "$programs" --seed "$seed" --patience "$patience" \
		--cuts 15 || broken=$((broken + 1))
	count=$((count + 2))
	seed=$((seed + 1))
done
echo "$count runs, $broken of them broken"
[ "$broken" -eq 0 ]
