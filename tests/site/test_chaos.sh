#!/usr/bin/env bash
# The sites under random operations and faults, for a minute: see tests/chaos/chaos.py. The
# seed is fixed; for hours and other seeds there is tests/chaos/soak.sh.
cd "${0%/*}/../chaos" && exec python3 -B chaos.py --program "${REFRELAY%/*}" --seed 1 --rounds 2 \
	--short --patience "${PATIENCE:-1}"
