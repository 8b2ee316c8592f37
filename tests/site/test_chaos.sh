#!/usr/bin/env bash
# The sites under random operations and faults, for a minute: see tests/chaos/chaos.py. The
# seed is fixed: a full disk for long, then copies that are damaged and gone. For hours and
# other seeds there is tests/chaos/soak.sh.
cd "$(dirname "$0")/../chaos" && exec python3 -B chaos.py --program "${REFRELAY%/*}" --seed 304 --rounds 2 \
	--short --patience "${PATIENCE:-1}"
