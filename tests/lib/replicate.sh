# What the tests of `refrelay replicate` share. The tree to copy stands in ./source, the
# copies in ./dest.

# A run with --json, which must end with STATUS and tell these totals:
#	run 3 --delete created=5 failed=1
run() { # STATUS [OPTION...] [KEY=VALUE...]
	local status=$1 argument totals key
	local -a options=() wanted=()
	shift
	for argument; do
		case $argument in
		-*) options+=("$argument") ;;
		*) wanted+=("$argument") ;;
		esac
	done
	expect "$status" refrelay replicate --json "${options[@]}" source dest
	totals=$(<out)
	totals=${totals%%\"repositories\":*}
	for argument in "${wanted[@]}"; do
		key=${argument%%=*}
		[[ $totals == *"\"$key\":${argument#*=},"* ]] ||
			fail "not $argument but $(grep -o "\"$key\":[^,]*" out | head -n 1): $(<out)"
	done
}

# What the last run's JSON says of one repository, or of one finding.
said_of() { # NAME
	grep -aoF -e "{\"name\":\"$1\",\"outcome\"" -e "{\"path\":\"$1\",\"left_out\"" out >/dev/null ||
		fail "nothing is said of $1: $(<out)"
	sed -e 's/{"name":"/\n&/g' -e 's/{"path":"/\n&/g' out |
		grep -aF -e "{\"name\":\"$1\",\"outcome\"" -e "{\"path\":\"$1\",\"left_out\""
}

# The last run said all these of NAME; patterns are extended regular expressions.
says() { # NAME PATTERN...
	local name=$1 text pattern
	shift
	text=$(said_of "$name")
	for pattern; do
		grep -qE -e "$pattern" <<<"$text" || fail "$name: no \"$pattern\" in $text"
	done
}

# A finding or failure with its remedy.
is_bad() { # NAME PATTERN...
	says "$@" '"(failure|message|held_reason)":"[^"]' '"remedy":"[^"]'
}

# Whatever a run writes when there is something to do, with what tells when.
what_counts() {
	find dest -path dest/.refrelay -prune -o \( -name '*.pack' -o -name packed-refs -o \
		-name HEAD -o -name description -o -path '*/refs/*' -type f \) \
		-printf '%p %i %s %T@\n' | LC_ALL=C sort
}

# Left-overs of work that was cut short, of which nothing may stay.
no_left_overs() {
	local found

	found=$(find dest \( -name '*.lock' -o -name packed-refs.new -o -name 'tmp_*' -o \
		-name '*.tmp-*' -o -path '*/refrelay/state/pending/*' -o \
		-path '*/refrelay/ref' -o -path 'dest/.refrelay/staging/*' -o \
		-regextype posix-extended -regex '.*/refrelay/[0-9a-f]{32}' \) -print)
	[ -z "$found" ] || fail "left over: $found"
}

# The source has changed: one run makes all equal, and the next has nothing to do.
follows() { # [OPTION...]
	run 0 "$@" failed=0 held=0 left_out=0 not_reached=0
	equal_trees source dest
	what_counts >counts-before
	run 0 created=0 updated=0 deleted=0 bytes=0
	what_counts >counts-after
	diff counts-before counts-after
	no_left_overs
}

# Processes of the program and of git that work for this test, one id a line.
workers() {
	local path name

	find /proc/[0-9]* -maxdepth 1 -name cwd -lname "$TEST_DIR*" -printf '%h\n' 2>/dev/null |
		while read -r path; do
			name=
			read -r name 2>/dev/null <"$path/comm" || continue
			case $name in
			git* | refrelay*) echo "${path#/proc/}" ;;
			esac
		done
}

no_workers() {
	local left

	left=$(workers)
	[ -z "$left" ] || {
		ps -o pid,ppid,stat,args -p "${left//$'\n'/,}"
		return 1
	}
}

# What follows is done as a user without rights, even if the test itself runs as root.
# The current directory becomes that user's, with all that is in it.
become_nobody() {
	[ "$(id -u)" -eq 0 ] || return 0
	command -v setpriv >/dev/null || skip "no setpriv to become another user with"
	git config --global safe.directory '*'
	mkdir bin
	cp "$REFRELAY" "$REFRELAY_RUN" bin
	chmod a+rx "$tap_root"
	chown -R 65534:65534 .
	REFRELAY=$PWD/bin/${REFRELAY##*/}
	export REFRELAY_RUN=$PWD/bin/${REFRELAY_RUN##*/}
	as_nobody test -x "$REFRELAY" || skip "another user cannot reach $PWD"
	refrelay() {
		as_nobody "$REFRELAY" "$@"
	}
}

as_nobody() { # COMMAND...
	if [ "$(id -u)" -eq 0 ]; then
		setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
	else
		"$@"
	fi
}
