#!/usr/bin/env bash
# usage: run.sh PROGRAM CORPUS
#
# Runs a fuzz target on its corpus, then on what it makes of it for $FUZZ_SECONDS (2).
# What it finds new is kept beside the program for the next run; an input that breaks it
# is written there too, and printed.
set -euo pipefail

program=$1 corpus=$2
found=$program.found

[ -n "$(ls "$corpus")" ]
mkdir -p "$found"
# Other tests come first: it takes what they leave of the processors.
nice -n 19 "$program" -max_total_time="${FUZZ_SECONDS:-2}" -timeout=120 -rss_limit_mb=2048 \
	-max_len=4096 -print_final_stats=1 -artifact_prefix="$program." "$found" "$corpus" ||
	exit 1 # libFuzzer ends with 77, which means "skipped" elsewhere
