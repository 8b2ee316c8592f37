#!/usr/bin/env bash
# usage: run.sh [MODEL]         TAP; READS=N: so many reads of each reader (1)
#
# Has SPIN look at all runs of the model: ours must never give a stale answer, each of the
# wrong protocols must. With READS=2 it takes half a minute and 600 MB.
set -uo pipefail

model=$(realpath "${1:-${0%/*}/state.pml}") || exit 1
folder=$(mktemp -d "${TMPDIR:-/tmp}/refrelay-model.XXXXXX") || exit 1
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
count=0 failures=0

result() { # STATUS SENTENCE
	count=$((count + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $count - $2"
	else
		failures=$((failures + 1))
		echo "not ok $count - $2"
		sed 's/^/# /' log
	fi
}

# What pan says is in ./log, in ./trail the run that it found.
search() { # [-DNAME]
	rm -f pan* ./*.trail
	{
		spin -a -DREADS="${READS:-1}" "$@" "$model" &&
			"${CC:-gcc}" -O2 -w -DSAFETY -o pan pan.c && ./pan -m10000
	} >log 2>&1
}

has_looked_at_all() {
	! grep -qE 'not completed|too small|reached -DMEMLIM|out of memory' log
}

is_right() {
	search && has_looked_at_all && grep -q 'errors: 0$' log
}

# A model in which half of the steps never happen would be right, too.
reaches_all() {
	[ "$(grep -c 'unreached in' log)" -eq 3 ] && [ "$(grep -c '(0 of ' log)" -eq 3 ]
}

is_stale() { # -DNAME
	search "$1" && grep -q 'assertion violated (got>=began)' log
}

is_right
result $? "no read gives refs older than those of its beginning"
reaches_all
result $? "each step of the model happens in some run"

variants=$(sed -n 's/^ \*\t\([A-Z_]*\)  .*/\1/p' "$model")
for variant in $variants; do
	is_stale "-D$variant"
	result $? "with $variant a stale read is found"
done
[ "$(wc -w <<<"$variants")" -eq 7 ]
result $? "each wrong protocol was tried"

echo "1..$count"
[ "$failures" -eq 0 ]
