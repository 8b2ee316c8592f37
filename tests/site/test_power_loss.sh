#!/usr/bin/env bash
# The power fails a few times, at the primary and at a secondary: see tests/chaos/power.py.
cd "$(dirname "$0")/../chaos" && exec python3 -B power.py --program "${REFRELAY%/*}" --seed 1 --cuts 3 \
	--patience "${PATIENCE:-1.5}"
