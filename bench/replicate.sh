#!/bin/sh
# What `refrelay replicate` costs beside stock git and rsync, on the same repositories in
# the same run: quote the ratios, absolute figures move with the machine.
#
#	bench/replicate.sh [REPOSITORIES [ROUNDS]]
#
# REPOSITORIES is a directory of bare repositories (default: 300 small ones are made and
# one of 20,000 commits). Needs git, rsync and python3. Everything happens in a temporary
# directory beside nothing of yours. Medians of ROUNDS (default 3).
set -eu

refrelay=${REFRELAY:-$(dirname "$0")/../build/refrelay}
source=${1:-}
rounds=${2:-3}
work=$(mktemp -d "${TMPDIR:-/tmp}/refrelay-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT INT TERM
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=Bench GIT_AUTHOR_EMAIL=bench@example.com
export GIT_COMMITTER_NAME=Bench GIT_COMMITTER_EMAIL=bench@example.com

commits() { # PATH N TEXT: a bare repository with N commits
	git init -q --bare -b main "$1"
	python3 -c '
import sys
n, text = int(sys.argv[1]), sys.argv[2]
for i in range(1, n + 1):
    body = "%s line %d\n" % (text, i) * (1 + i % 40)
    print("commit refs/heads/main\ncommitter B <b@example.com> %d +0000\ndata 2\nc\n"
          "M 100644 inline d%d/f%d\ndata %d\n%s" %
          (1700000000 + i, i % 50, i % 997, len(body), body))
' "$2" "$3" | git -C "$1" fast-import --quiet
}

if [ -z "$source" ]; then
	source=$work/source
	for i in $(seq 300); do
		commits "$source/small/r$i.git" 5 "repository $i"
	done
	commits "$source/large.git" 20000 large
	git -C "$source/large.git" repack -adq
fi
# The change is made in a copy, never in what was named.
cp -r "$source" "$work/tree"
source=$work/tree
list=$(cd "$source" && find . -name '*.git' -type d -prune | sort)
first=$(echo "$list" | head -n 1)

seconds() { # COMMAND...: wall seconds; its output is thrown away
	python3 - "$@" <<'P'
import subprocess, sys, time
start = time.monotonic()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL,
                      stderr=subprocess.DEVNULL).returncode
print("%.4f" % (time.monotonic() - start))
sys.exit(code)
P
}

cat >"$work/clone" <<'P'
set -e
cd "$1"; for r in $3; do git clone -q --no-local --mirror "file://$1/$r" "$2/$r"; done
P
cat >"$work/fetch" <<'P'
set -e
for r in $3; do
	git -C "$2/$r" -c core.fsync=all fetch -q --prune "$1/$r" '+refs/*:refs/*'
done
P

branch=$(git -C "$source/$first" symbolic-ref HEAD)
change() { # one commit in the first repository, on its default branch
	tree=$(git -C "$source/$first" rev-parse "$branch^{tree}")
	git -C "$source/$first" update-ref "$branch" "$(
		git -C "$source/$first" commit-tree -m "$1" -p "$branch" "$tree")"
}

measure() { # NAME COMMAND...
	name=$1
	shift
	seconds "$@" >>"$work/$name"
}

for round in $(seq "$rounds"); do
	rm -rf "$work/ours" "$work/git" "$work/rsync"
	mkdir "$work/git"
	sync
	measure first.refrelay "$refrelay" replicate "$source" "$work/ours"
	sync
	measure first.git sh "$work/clone" "$source" "$work/git" "$list"
	sync
	measure first.rsync rsync -a --fsync "$source/" "$work/rsync/"
	measure none.refrelay "$refrelay" replicate "$source" "$work/ours"
	measure none.git sh "$work/fetch" "$source" "$work/git" "$list"
	measure none.rsync rsync -a --fsync --delete "$source/" "$work/rsync/"
	change "round $round"
	measure one.refrelay "$refrelay" replicate "$source" "$work/ours"
	measure one.git sh "$work/fetch" "$source" "$work/git" "$list"
	measure one.rsync rsync -a --fsync --delete "$source/" "$work/rsync/"
done

python3 - "$work" "$(echo "$list" | wc -l)" <<'P'
import statistics, sys
work, count = sys.argv[1:]
def median(name):
    return statistics.median(float(line) for line in open(work + "/" + name))
print("%s repositories, medians in seconds, ratio = other / refrelay" % count)
print("%-12s %10s %18s %18s" % ("", "refrelay", "stock git", "rsync"))
for key, text in (("first", "first copy"), ("none", "no change"), ("one", "one commit")):
    ours, git, rsync = (median(key + "." + w) for w in ("refrelay", "git", "rsync"))
    print("%-12s %10.3f %10.3f %6.1fx %10.3f %6.1fx" %
          (text, ours, git, git / ours, rsync, rsync / ours))
P
