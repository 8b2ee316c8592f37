#!/usr/bin/env bash
# usage: tools/test.sh [STEP...]        what `make test` runs; without a STEP, all of them
#
#	format  clang-format has nothing to say
#	floors  src/ keeps its floors
#	size    functions, files and headers keep their limits
#	listed  each test is listed in its meson.build, each mark of docs/security.md has one;
#	        no line of a test is of a kind that cannot fail
#	tools   the tests of tools/ and of tests/lib/
#	gcc     in build-gcc/: a build with gcc, unit tests that start no threads (of the others
#	        it only compiles the code: both sanitizers' steps run them), models, a few site
#	        tests (smoke_tests in tests/site/meson.build): that what is installed does not
#	        differ from what has sanitizers
#	asan    in build-asan/, a build with clang: unit and site tests, address and undefined
#	        sanitizers; each fuzz target for $FUZZ_SECONDS seconds (2: its corpus, and a bit
#	        more; soak.sh gives them more), with what the others leave of the processors;
#	        beside them the Debian package, which takes minutes and is built without
#	tsan    in build-tsan/: unit tests that start threads, thread sanitizer
#
# Only if they are named:
#	unit       of gcc, all unit tests
#	touched    of gcc, the site tests of what a change touches: of the files that git says
#	           are changed, or, if there are none, of those of the last commit
#	sanitized  build-asan/ is built
#	threaded   build-tsan/ is built
#	fuzz       of asan, the fuzz targets
#
# Warnings are errors here, and only here.
#
# A step that fails does not keep the others from running, but without a build by gcc
# that passes its tests the slower ones say nothing new, and are not run. Nothing is tried
# a second time: a test that does not always pass is a fault.
#
# Unit tests, and all tests with sanitizers, have their files in memory ($TMPDIR below
# /dev/shm), the others on disk: a file system on a disk takes as much time to make and
# remove so many small repositories as all else. On disk are also the unit tests that are
# about files (disk_tests in tests/unit/meson.build). Tests wait for a good part of their
# time, and run side by side: more at a time than there are processors.
#
# The last lines name what failed; the very last one is "N passed, N failed", with ", N skipped" when there are any: tests of
# all steps together. A step that fails without a failing test counts as one.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
export PYTHONDONTWRITEBYTECODE=1
ulimit -c 0

all_steps=(format floors size listed tools gcc asan tsan)
named_steps=(unit touched sanitized threaded fuzz)
processes=$((3 * $(nproc) + 1))
passed=0 failed=0 skipped=0
findings=() # a line for each program that failed
wrapper=() # what `meson test` runs under

# A python3 that is a script, as pyenv's, costs five times what it starts.
PATH=$(dirname "$(python3 -c 'import sys; print(sys.executable)')"):$PATH

say() {
	printf '%s\n' "$@"
}

step_format() {
	local folders output

	folders=$(find src tests bench -maxdepth 0 2>/dev/null)
	# shellcheck disable=SC2086
	output=$(find $folders -name '*.[ch]' -print0 |
		xargs -0r clang-format --dry-run -Werror 2>&1) && return
	head -n 20 <<<"$output"
	say "To mend it:"
	say "  clang-format -i $(sed -n 's/^\([^:]*\):[0-9]*:.*error:.*/\1/p' <<<"$output" |
		sort -u | tr '\n' ' ')"
	return 1
}

# A test that no meson.build names would never run.
check_listed() { # FOLDER PREFIX ENDING
	local file name result=0

	for file in "tests/$1/$2"*"$3"; do
		[ -e "$file" ] || continue
		name=${file##*/"$2"}
		grep -q "'${name%"$3"}'" "tests/$1/meson.build" && continue
		say "$file is not listed in tests/$1/meson.build"
		result=1
	done
	return "$result"
}

# `set -e` does not see a `!` that fails, unless it is a function's last command, nor what
# fails before an `&&`.
check_unheeded() {
	local found

	found=$(find tests -name '*.sh' -exec awk '
		waits && $1 != "}" { print waits }
		{ waits = "" }
		/^\t+! / && !/\|\|/ && !/(\\|&&.*)$/ { waits = FILENAME ":" FNR ": write fails for" $0 }
		' {} + && find tests -name '*.sh' -exec awk -f tests/lib/unheeded.awk {} +) || return
	[ -z "$found" ] && return
	say "These cannot fail:" "$found"
	return 1
}

step_listed() {
	local result=0

	check_listed unit test_ .c || result=1
	check_listed site test_ .sh || result=1
	check_listed fuzz fuzz_ .c || result=1
	check_unheeded || result=1
	tools/security_marks.py || result=1
	return "$result"
}

step_floors() {
	tools/floors.py
}

step_size() {
	tools/size.py --check
}

# Each test of a file by a process of its own: they wait for most of their time.
step_tools() {
	grep -o '^    def test_[a-z0-9_]*' tests/tools/test_*.py | sed 's/:    def / -k /' |
		xargs -P "$processes" -L 1 python3 -m unittest -q
}

# Whatever the folder was configured with before. Meson asks ccache by itself only where no
# compiler is named.
configure() { # FOLDER COMPILER OPTION...
	local folder=$1 compiler=$2 again=() output
	shift 2
	[ -f "$folder/build.ninja" ] && again=(--reconfigure)
	command -v ccache >/dev/null && compiler="ccache $compiler"
	# It links some 600 programs in less than half the time.
	command -v ld.lld >/dev/null && export CC_LD=lld
	output=$(CC=$compiler meson setup "${again[@]}" "$folder" -Dwerror=true \
		-Dtests=enabled -Dchecked_mutexes=true "$@" 2>&1) && return
	say "$output"
	return 1
}

# The program and all tests.
build() { # FOLDER
	ninja -C "$1" --quiet all meson-test-prereq
}

# Runs tests, all or those named. Nothing hangs for ever: each test has its own timeout,
# and all together have one too.
meson_test() { # FOLDER [OPTION...]
	local folder=$1 status
	shift
	rm -f "$folder/meson-logs/testlog.json"
	timeout --kill-after=20 3000 "${wrapper[@]}" meson test -C "$folder" --no-rebuild \
		--print-errorlogs "$@"
	status=$?
	[ "$status" -eq 124 ] && say "The tests took more than 3000 s together."
	return "$status"
}

# Passed, failed, skipped in the last run.
count_run() { # FOLDER
	tools/count_tests.py "$1/meson-logs/testlog.json" || echo "0 0 0"
}

# Runs tests and adds up what they say.
run_tests() { # FOLDER [OPTION...]
	local folder=$1 status name what
	shift
	meson_test "$folder" --num-processes "$processes" "$@"
	status=$?
	read -r step_passed step_failed step_skipped < <(count_run "$folder")
	while IFS=$'\t' read -r name what; do
		findings+=("$name in ${folder#"$PWD/"}: $what")
	done < <(tools/count_tests.py --failed "$folder/meson-logs/testlog.json")
	passed=$((passed + step_passed))
	failed=$((failed + step_failed))
	skipped=$((skipped + step_skipped))
	step_counts="$step_passed passed, $step_failed failed, $step_skipped skipped"
	return "$status"
}

# A folder in memory, if there is enough for all tests that run at a time.
make_memory() {
	local folder

	[ -w /dev/shm ] && [ "$(stat -f -c %T /dev/shm)" = tmpfs ] &&
		[ "$(df --output=avail -k /dev/shm | tail -n 1)" -ge 4000000 ] &&
		folder=$(mktemp -d /dev/shm/refrelay.XXXXXX) && chmod 1777 "$folder" &&
		say "$folder" # as /tmp: some tests are another user's
}

# Unit tests have their files in memory, site tests on disk (tests/lib/tap.sh).
run_plain() { # FOLDER [OPTION...]
	local status memory

	memory=$(make_memory) || memory=
	SITE_TMPDIR=${TMPDIR-/tmp} TMPDIR=${memory:-${TMPDIR-/tmp}} run_tests "$@"
	status=$?
	[ -z "$memory" ] || { chmod -R u+rwX "$memory" && rm -rf "$memory"; } || status=1
	return "$status"
}

# The tests of a build with sanitizers. Any report counts, also that of a child whose
# end no test looks at. These sanitizers need a layout of the address space that newer
# kernels do not always give; without randomization they do.
# MALLOC_PERTURB_, which meson sets, is for the C library's allocator. The sanitizers have
# their own: it would only slow down git and the shell, by a twentieth of all time.
run_sanitized() { # FOLDER [OPTION...]
	local report=$PWD/$1/report status memory

	rm -f "$report".*
	memory=$(make_memory) || memory=
	setarch --addr-no-randomize true 2>/dev/null && wrapper=(setarch --addr-no-randomize)
	TMPDIR=${memory:-${TMPDIR-/tmp}} MALLOC_PERTURB_=0 \
	ASAN_OPTIONS=halt_on_error=1:abort_on_error=1:detect_stack_use_after_return=1:log_path=$report \
	UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1:log_path=$report \
	TSAN_OPTIONS=second_deadlock_stack=1:suppressions=$PWD/tests/tsan.supp:log_path=$report \
		run_tests "$@"
	status=$?
	wrapper=()
	[ -z "$memory" ] || { chmod -R u+rwX "$memory" && rm -rf "$memory"; } || status=1
	compgen -G "$report.*" >/dev/null || return "$status"
	cat "$report".*
	return 1
}

# What it has built is for tests with sanitizers, too: what they only ask for again and
# again until it is true starts in a fifth of the time (`at` in tests/lib/two_sites.sh).
step_gcc() {
	configure build-gcc gcc && build build-gcc &&
		export REFRELAY_PLAIN=$PWD/build-gcc/refrelay &&
		run_plain build-gcc --suite alone --suite model --suite smoke
}

step_unit() {
	configure build-gcc gcc && build build-gcc && run_plain build-gcc --suite unit
}

changed_files() {
	local files

	files=$(git diff --name-only HEAD && git ls-files --others --exclude-standard) ||
		return
	[ -n "$files" ] || files=$(git diff --name-only HEAD~1 HEAD) || return
	say "$files"
}

# Names of site tests: those that are changed themselves, and one of each area that is.
touched_tests() {
	changed_files | while read -r file; do
		case $file in
		tests/site/test_*.sh) file=${file##*/test_} && say "${file%.sh}" ;;
		tests/lib/* | src/base/* | src/store/* | src/job/*) say sites_follow push_basic ;;
		src/push/*) say push_basic push_http ;;
		src/serve/* | src/web/* | src/net/*) say serve_http sites_http ;;
		src/blob/* | src/replicable/*) say blob_commands lfs ;;
		src/hook/* | src/run/*) say hooks state_hooks ;;
		src/cli/*) say sites_commands replicate_basic ;;
		src/*) say sites_follow git_push ;;
		packaging/* | meson.build) say install ;;
		esac
	done | sort -u
}

step_touched() {
	local tests

	mapfile -t tests < <(touched_tests)
	configure build-gcc gcc && build build-gcc || return
	[ "${#tests[@]}" -eq 0 ] || run_tests build-gcc "${tests[@]}"
}

# By clang, which has one runtime for both of these sanitizers; with gcc's two the reports
# of one do not go where the other's do. The program's own code is also what is fuzzed: to
# count what it passes through costs next to nothing in the other tests. -g1 is lines and
# names, which is what reports show. At a fixed address it starts in three quarters of the
# time: what sanitizers add would all be relocated at each start.
step_sanitized() {
	configure build-asan clang -Db_sanitize=address,undefined -Db_lundef=false \
		-Db_pie=false -Dfuzz=true -Doptimization=1 \
		"-Dc_args=-g1 -fno-sanitize-recover=all" && build build-asan
}

step_asan() {
	step_sanitized && run_sanitized build-asan --suite unit --suite site --suite fuzz \
		--suite package --timeout-multiplier 4
}

step_fuzz() {
	step_sanitized && run_sanitized build-asan --suite fuzz
}

step_threaded() {
	configure build-tsan clang -Db_sanitize=thread -Db_lundef=false -Doptimization=1 \
		-Dc_args=-g1 && build build-tsan
}

step_tsan() {
	step_threaded && run_sanitized build-tsan --suite threads --timeout-multiplier 4
}

rows=()
result=0
is_pointless=
is_interrupted=
trap 'is_interrupted=1' INT TERM

finish() {
	local text="$passed passed, $failed failed"

	printf '\n%-8s %-8s %8s   %s\n' step result seconds tests
	printf '%s\n' "${rows[@]}"
	[ "$skipped" -eq 0 ] || text+=", $skipped skipped"
	[ "${#findings[@]}" -eq 0 ] || printf '\n%s\n' "${findings[@]}"
	[ -n "$is_interrupted" ] && result=130
	say "" "$text"
	exit "$result"
}

run_step() { # STEP
	local step=$1 started=$SECONDS verdict=passed failed_before=$failed

	step_counts=
	say "" "== $step"
	if ! "step_$step"; then
		verdict=FAILED result=1
		[ "$failed" -gt "$failed_before" ] || failed=$((failed + 1))
		[ "$step" = gcc ] && is_pointless=1
		say "== $step failed"
	fi
	rows+=("$(printf '%-8s %-8s %8d   %s' "$step" "$verdict" $((SECONDS - started)) \
		"$step_counts")")
}

steps=("$@")
[ $# -gt 0 ] || steps=("${all_steps[@]}")
for step in "${steps[@]}"; do
	[[ " ${all_steps[*]} ${named_steps[*]} " == *" $step "* ]] && continue
	say "usage: tools/test.sh [STEP...]; the steps are: ${all_steps[*]} ${named_steps[*]}" >&2
	exit 2
done
for step in "${steps[@]}"; do
	[ -n "$is_interrupted" ] && break
	if [ -n "$is_pointless" ]; then
		rows+=("$(printf '%-8s %-8s' "$step" "not run")")
		continue
	fi
	run_step "$step"
done
[ -n "$is_pointless" ] && say "" "Mend what gcc found first; the steps after it were not run."
finish
