# Tests in bash that speak TAP. A script sources this file, says `tap_test "sentence"
# function [argument...]` for each test, and ends with `tap_done`.
#
# A test is a function. It runs in a subshell with `set -e`, in a fresh directory, which
# is also $TEST_DIR, with HOME and git's configuration of its own; it fails with the first
# command that fails. What it printed is shown only then. Processes that it leaves behind
# are killed, and the directory is removed.
#
# What takes long to start and is only asked can be made once: `tap_set_up function
# [argument...]` before the tests runs it in $SHARED, which lives until the end, as do the
# processes that it starts.
#
# Inside a test:
#	wait_until SECONDS COMMAND...   until the command succeeds; never `sleep`
#	expect STATUS COMMAND...        exactly this exit status; stdout in ./out, stderr in ./err
#	fails COMMAND...                fails, with whatever status
#	fail TEXT...                    ends the test
#	skip TEXT...                    ends the test; it counts as skipped; in what is set up,
#					all tests are
#
# TAP_KEEP=DIRECTORY copies there what a failed test leaves, for a look at its logs.

# By hand, from any directory, on what was built last: bash tests/site/test_NAME.sh. Another
# build is said by BUILD=DIRECTORY, or by $REFRELAY, $REFRELAY_RUN and $REFRELAY_HOOK.

TESTS=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd) || exit 1

# The newest build that has what tests need.
tap_find_build() {
	local program

	for program in "$TESTS"/../build*/tests/site_help; do
		[ -x "${program%/tests/*}/refrelay" ] || continue
		[ -n "${BUILD-}" ] && [ "$BUILD/refrelay" -nt "${program%/tests/*}/refrelay" ] ||
			BUILD=$(realpath "${program%/tests/*}")
	done
}

# Where other tests of the same run have their files in memory.
[ -z "${SITE_TMPDIR-}" ] || export TMPDIR=$SITE_TMPDIR

[ -n "${BUILD-}" ] || tap_find_build
export BUILD REFRELAY=${REFRELAY:-${BUILD-}/refrelay} \
	REFRELAY_RUN=${REFRELAY_RUN:-${BUILD-}/refrelay-run} \
	REFRELAY_HOOK=${REFRELAY_HOOK:-${BUILD-}/refrelay-hook} \
	SITE_HELP=${SITE_HELP:-${BUILD-}/tests/site_help}
[ -x "$SITE_HELP" ] || {
	echo "Bail out! There is no build with tests: ninja -C build-gcc all meson-test-prereq"
	exit 1
}

# All that is started below this process stays below its parent.
[ "${TAP_PARENT-}" = "$PPID" ] || {
	export TAP_PARENT=$$
	[ -n "${BASH_EXECUTION_STRING-}" ] &&
		exec "$SITE_HELP" adopt bash -c "$BASH_EXECUTION_STRING" "$0" "$@"
	exec "$SITE_HELP" adopt bash "$0" "$@"
}

# A python3 that is a script (of pyenv) costs five times what it starts.
[ "$(head -c 2 "$(command -v python3)")" != '#!' ] ||
	PATH=$(dirname "$(python3 -c 'import sys; print(sys.executable)')"):$PATH

tap_count=0
tap_failures=0
tap_is_done=
tap_kept=() # processes of what the tests share
SHARED=
tap_root=$(mktemp -d "${TMPDIR:-/tmp}/refrelay-tap.XXXXXX") || exit 1
mkfifo "$tap_root/never" || exit 1 # nothing ever comes from it: to read it is to sleep
mkdir "$tap_root/said" || exit 1 # command lines, by `at` of two_sites.sh
trap 'tap_leave' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Prints the ids of processes that the tests started.
tap_leftovers() {
	"$SITE_HELP" below "$PPID" "${tap_kept[@]}"
}

tap_kill_leftovers() {
	"$SITE_HELP" sweep "$PPID" "${tap_kept[@]}"
}

tap_leave() {
	local status=$?

	tap_kept=()
	tap_kill_leftovers
	chmod -R u+rwX "$tap_root" $SHARED 2>/dev/null
	rm -rf "$tap_root" $SHARED
	[ -n "$tap_is_done" ] && exit "$status"
	echo "Bail out! The script ended before tap_done."
	exit 1
}

# Nothing of the user's own configuration, and nothing that depends on the machine.
tap_environment() {
	local name

	for name in $(compgen -e GIT_) REFRELAY_CONFIG REFRELAY_FAILPOINT NO_COLOR; do
		unset "$name"
	done
	export TEST_DIR=$PWD HOME=$PWD/home LC_ALL=C TZ=UTC GIT_CONFIG_NOSYSTEM=1
	export GIT_CONFIG_GLOBAL=$HOME/gitconfig
	mkdir "$HOME"
	printf '%s\n' '[user]' 'name = Test' 'email = test@example.com' \
		'[init]' 'defaultBranch = main' '[gc]' 'auto = 0' >"$GIT_CONFIG_GLOBAL"
}

tap_result() { # STATUS NAME LOG
	case $1 in
	0) echo "ok $tap_count - $2" ;;
	77) echo "ok $tap_count - $2 # SKIP $(tail -n 1 "$3")" ;;
	*)
		tap_failures=$((tap_failures + 1))
		echo "not ok $tap_count - $2"
		sed 's/^/# /' "$3"
		;;
	esac
}

# To the log, wherever the output of the command that failed goes.
tap_say_failed() { # LINE STATUS COMMAND
	[ "$BASH_SUBSHELL" -gt 1 ] || echo "line $1: status $2: $3" >>"$tap_root/log"
}

tap_test() { # NAME FUNCTION [ARGUMENT...]
	local name=$1 folder status
	shift
	tap_count=$((tap_count + 1))
	folder=$tap_root/$tap_count
	mkdir "$folder"
	: >"$tap_root/log"
	(
		set -eEuo pipefail
		trap 'tap_say_failed "$LINENO" "$?" "$BASH_COMMAND"' ERR
		cd "$folder"
		tap_environment
		"$@"
	) >>"$tap_root/log" 2>&1 </dev/null
	status=$?
	tap_kill_leftovers
	tap_result "$status" "$name" "$tap_root/log"
	[ "$status" -eq 0 ] || [ -z "${TAP_KEEP-}" ] || cp -a "$folder" "$TAP_KEEP"
	chmod -R u+rwX "$folder" 2>/dev/null
	rm -rf "$folder"
}

# Without it no test makes sense. The subshell is a command of its own: in a condition no
# failing command would end it.
tap_set_up() { # FUNCTION [ARGUMENT...]
	local status
	SHARED=$(mktemp -d "${TMPDIR:-/tmp}/refrelay-shared.XXXXXX") || exit 1
	(
		set -eEuo pipefail
		trap 'tap_say_failed "$LINENO" "$?" "$BASH_COMMAND"' ERR
		cd "$SHARED"
		tap_environment
		"$@"
	) >>"$tap_root/log" 2>&1 </dev/null
	status=$?
	[ "$status" -ne 0 ] || {
		mapfile -t tap_kept < <(tap_leftovers)
		return
	}
	tap_count=1
	tap_result "$status" "what the tests share is set up" "$tap_root/log"
	[ -z "${TAP_KEEP-}" ] || cp -a "$SHARED" "$TAP_KEEP"
	tap_done
}

tap_done() {
	tap_is_done=1
	echo "1..$tap_count"
	[ "$tap_count" -gt 0 ] && [ "$tap_failures" -eq 0 ]
	exit
}

fail() {
	echo "failed: $*"
	exit 1
}

skip() {
	echo "$*"
	exit 77
}

# SECONDS are ample where nothing else runs; elsewhere it may take longer. The command finds
# $is_waiting set: what only asks may ask by what costs little, and need not say why not;
# in the end it is asked once more, without.
wait_until() { # SECONDS COMMAND...
	local seconds=$(($1 * 3)) start=$SECONDS output pause=0.05 never
	shift
	exec {never}<>"$tap_root/never"
	until (exec {never}<&- && is_waiting=1 && "$@" >/dev/null 2>&1); do
		if [ $((SECONDS - start)) -gt "$seconds" ]; then
			output=$(exec {never}<&- && "$@" 2>&1) && break
			fail "in $seconds s this did not become true: $*${output:+; it says: $output}"
		fi
		read -rt "$pause" -u "$never" || true
		# What takes long shall not be kept from it by being asked.
		case $pause in
		0.05) pause=0.1 ;;
		0.1) pause=0.15 ;;
		0.15) pause=0.25 ;;
		0.25) pause=0.4 ;;
		esac
	done
	exec {never}<&-
}

# As /proc/PID/stat has it: T if it is stopped, Z if it is dead and nobody has asked how it
# ended; nothing, if there is none. It starts no program, and is asked often.
process_state=
find_process_state() { # PID
	process_state=
	{ read -r process_state <"/proc/$1/stat"; } 2>/dev/null || true
	process_state=${process_state##*) }
	process_state=${process_state%% *}
}

is_stopped() { # PID
	find_process_state "$1"
	[ "$process_state" = T ]
}

is_dead() { # PID
	find_process_state "$1"
	[[ ${process_state:-Z} = Z ]]
}

expect() { # STATUS COMMAND...
	local wanted=$1 status=0
	shift
	"$@" >out 2>err || status=$?
	[ "$status" -eq "$wanted" ] && return
	echo "stdout:"
	cat out
	echo "stderr:"
	cat err
	fail "exit status $status instead of $wanted: $*"
}

fails() {
	! "$@" || fail "this should have failed: $*"
}
