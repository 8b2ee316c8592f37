# Two sites on this machine, for tests and for the demo: ./london is the primary, ./paris
# its secondary. Repositories are in SITE/git, data in SITE/data, the log is SITE/log.
#
#	make_sites			directories, secret, configurations; ports that are free
#	start_site SITE [VAR=VALUE...]	runs the node in the background, until it serves
#	stop_site SITE [SIGNAL]		ends it and waits
#	kill_site SITE			with SIGKILL
#	freeze_site SITE		it sleeps until SIGCONT, and others can write
#	at SITE COMMAND...		refrelay with the site's configuration
#	in_sync				the secondary says so
#	spool_is_empty			no hook's word waits for the primary
#	delete_refs REPOSITORY REF...	all at one moment
#	unwatch SITE			a change of its disk is for verifications to find
#	in_copy REPOSITORY COMMAND...	git there, without hooks
#	make_unprivileged		nodes started from now on read no more than their user may
#
# To change a setting for a test: `set_conf SITE SECTION.KEY VALUE`, before or after the start.

# No other script gets it while this one runs.
free_port() {
	"$SITE_HELP" port ${tap_root:+"$tap_root/port"}
}

set_conf() { # SITE KEY VALUE
	git config --file "$1/refrelay.conf" "$2" "$3"
}

make_sites() {
	local site

	mkdir -p london/git paris
	(umask 077 && head -c 24 /dev/urandom | base64 >secret)
	for site in london paris; do
		cat >"$site/refrelay.conf" <<-END
			[site]
				name = $site
				repositories = "$PWD/$site/git"
				data = "$PWD/$site/data"
			[http]
				listen = 127.0.0.1:$(free_port)
			[sync]
				scanInterval = 1s
				consistencyInterval = 1s
		END
	done
	cat >>london/refrelay.conf <<-END
		[site]
			role = primary
		[secondary "paris"]
			secretFile = "$PWD/secret"
		[http]
			anonymousRead = true
	END
	cat >>paris/refrelay.conf <<-END
		[site]
			role = secondary
		[primary]
			url = $(site_url london)/
			secretFile = "$PWD/secret"
	END
}

# A value of [http] in $http_value, read without a process; its line is as git writes it.
http_value=
find_http_value() { # SITE KEY
	local line section=''

	http_value=
	while read -r line; do
		case $line in
		'['*) section=$line ;;
		"$2 = "*) [ "$section" != '[http]' ] || http_value=${line#*= } ;;
		esac
	done <"$1/refrelay.conf"
	http_value=${http_value#\"}
	http_value=${http_value%\"}
}

# With TLS, CURL_CA_BUNDLE must name the certificate, or who vouches for it.
site_url() { # SITE
	local scheme=http

	find_http_value "$1" tlsCertificate
	[ -z "$http_value" ] || scheme=https
	find_http_value "$1" listen
	echo "$scheme://$http_value"
}

# A site's answer is 200. What asks by HTTP alone takes no program for it.
site_answers() { # SITE PATH
	local code='' node

	find_http_value "$1" tlsCertificate
	[ -z "$http_value" ] || {
		curl -fsS -m 5 -o "$1/answer" "$(site_url "$1")$2"
		return
	}
	find_http_value "$1" listen
	{
		printf 'GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' \
			"$2" "$http_value" >&"$node"
		read -rt 5 _ code _ <&"$node" || true
	} {node}<>"/dev/tcp/${http_value%:*}/${http_value##*:}" || return
	exec {node}<&-
	[ "$code" = 200 ]
}

# Changes nothing, whatever comes behind these words.
is_question() { # COMMAND...
	case "$1 ${2-}" in
	status\ * | events\ * | 'repository show' | 'repository list' | 'blob show' | 'blob list' | \
		'lease show' | 'lease list' | 'push queue' | 'push list' | 'hooks list') ;;
	*) false ;;
	esac
}

# Whether this script has said the same before.
is_said_again() { # COMMAND...
	local name=${*//\//_}
	name=${tap_root-}/said/${name:0:200}
	[ -n "${tap_root-}" ] || return
	[ -e "$name" ] || { : >"$name" && false; }
}

# What is asked again and again until it is true, or was asked by this script before, starts
# in a fifth of the time by a build without sanitizers, if there is one; all else is done by
# the program under test. What it leaks is looked for when it is done for the first time.
at() { # SITE COMMAND...
	local site=$1 program=$REFRELAY asan=${ASAN_OPTIONS-}
	shift
	if [ -n "${is_waiting-}" ] || is_said_again "$@"; then
		asan=${asan:+$asan:}detect_leaks=0
		[ -z "${is_waiting-}" ] && ! is_question "$@" ||
			[ "$REFRELAY" != "${BUILD-}/refrelay" ] ||
			program=${REFRELAY_PLAIN:-$REFRELAY}
	fi
	ASAN_OPTIONS=$asan "$program" -c "$site/refrelay.conf" "$@"
}

site_pid() { # SITE
	echo "$(<"$1/pid")"
}

is_serving() { # SITE
	kill -0 "$(site_pid "$1")" && site_answers "$1" /healthz
}

# A git that a test puts into PATH writes files, so it must not be confined.
launch_site() { # SITE [VAR=VALUE...]
	local site=$1 unwatched=()
	shift
	[[ " $*" != *' PATH='* ]] || set -- "$@" "REFRELAY_RUN=$BUILD/tests/free_run"
	# shellcheck disable=SC2016
	[ "$site" != "${unwatched_site-}" ] ||
		unwatched=(unshare -Ur sh -c
			'echo 0 >/proc/sys/user/max_inotify_watches && exec "$@"' sh)
	env "$@" "${unwatched[@]}" "$REFRELAY" -c "$site/refrelay.conf" serve -v >>"$site/log" 2>&1 &
	echo $! >"$site/pid"
}

# A node may reach the point where it is to pause before it serves.
has_started() { # SITE
	is_paused "$1" || is_serving "$1"
}

start_site() { # SITE [VAR=VALUE...]
	launch_site "$@"
	wait_until 20 has_started "$1"
}

# From its next start on that site sees no change of its disk, as if the disk decayed:
# there is no inotify, and no scan.
unwatch() { # SITE
	unshare -Ur sh -c 'echo 0 >/proc/sys/user/max_inotify_watches' 2>/dev/null ||
		skip "no user namespaces here"
	set_conf "$1" sync.scanInterval 1h
	unwatched_site=$1
}

# Git in one of paris's copies, by somebody who has it obey no hook.
in_copy() { # REPOSITORY COMMAND...
	local repository=$1
	shift
	git -c core.hooksPath=/dev/null -C "paris/git/$repository" "$@"
}

# Also where the tests run as root, who may read all.
make_unprivileged() {
	[ "$(id -u)" -eq 0 ] || return 0
	cat >unprivileged <<-END
		#!/bin/sh
		exec setpriv --bounding-set=-dac_override,-dac_read_search "$REFRELAY" "\$@"
	END
	chmod +x unprivileged
	export REFRELAY=$PWD/unprivileged
}

start_sites() {
	start_site london
	start_site paris
}

# The node is this shell's child; its status is what `wait` says.
stop_site() { # SITE [SIGNAL]
	local status=0

	kill -s "${2:-TERM}" "$(site_pid "$1")" || {
		tail -n 20 "$1/log"
		echo "$1 had ended before"
		return 1
	}
	wait "$(site_pid "$1")" || status=$?
	[ "$status" -eq 0 ] || [ "${2:-TERM}" = KILL ] || {
		tail -n 20 "$1/log"
		echo "$1 ended with status $status"
		return 1
	}
}

kill_site() { # SITE
	stop_site "$1" KILL 2>/dev/null
}

# By whatever.
has_died() { # SITE
	! kill -0 "$(site_pid "$1")" 2>/dev/null
}

# Its failpoint kills it: it ends of nothing else. SECONDS are those of wait_until.
is_killed_within() { # SECONDS SITE
	local status=0
	wait_until "$1" has_died "$2"
	wait "$(site_pid "$2")" || status=$?
	[ "$status" -eq 137 ] && return
	tail -n 20 "$2/log"
	fail "$2 was not killed, but ended with status $status"
}

is_paused() { # SITE
	is_stopped "$(<"$1/pid")"
}

# What a node that sleeps in the middle of a transaction keeps all others from.
nobody_writes() { # SITE
	python3 - "$1/data/refrelay.db" <<-'END'
		import sqlite3, sys
		database = sqlite3.connect(sys.argv[1], timeout=0.3, isolation_level=None)
		try:
		    database.execute("BEGIN IMMEDIATE")
		    database.execute("ROLLBACK")
		except sqlite3.OperationalError as error:
		    sys.exit(str(error))
	END
}

# By SIGSTOP, at a moment when others can write to its database.
freeze_site() { # SITE
	local tries

	for tries in {1..50}; do
		kill -STOP "$(site_pid "$1")"
		wait_until 10 is_paused "$1"
		nobody_writes "$1" && return
		kill -CONT "$(site_pid "$1")"
	done
	fail "$1 always sleeps in a transaction: $tries times"
}

# One member of a registry row: row_of paris NAME .state
row_of() { # SITE NAME MEMBER
	at "$1" repository show --json "$2" | "$SITE_HELP" member "$3"
}

row_is() { # SITE NAME MEMBER VALUE
	local value
	value=$(row_of "$1" "$2" "$3") && [ "$value" = "$4" ] && return
	echo "$2: $3 is $value, not $4"
	return 1
}

# Whether all is well or not.
status_of() { # SITE MEMBER
	find_status "$1" || return
	"$SITE_HELP" member "$2" <<<"${status_said#*$'\r\n\r\n'}"
}

# The node's own answer to what `status --json` asks, without a program. Where it cannot be
# asked so, this fails.
ask_node() { # SITE
	local node

	status_said=
	find_http_value "$1" tlsCertificate
	[ -z "$http_value" ] || return
	find_http_value "$1" listen
	{
		printf 'GET /api/v1/status HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' \
			"$http_value" >&"$node"
		IFS= read -rt 5 -d '' status_said <&"$node" || true
	} {node}<>"/dev/tcp/${http_value%:*}/${http_value##*:}" || return
	exec {node}<&-
	[[ ${status_said%$'\n'} == 'HTTP/1.1 200 '*'}' ]]
}

# Into $status_said. While something is waited for, the node is asked: that takes a tenth.
status_said=
find_status() { # SITE
	[ -n "${is_waiting-}" ] && ask_node "$1" 2>/dev/null && return
	status_said=$(at "$1" status --json) || [ $? -eq 3 ]
}

# A member that is a number.
number_in_status() { # SITE MEMBER
	find_status "$1" || return
	[[ $status_said =~ \"$2\":([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
}

# On a busy machine a hook does not always wait until the node has noticed its change: it
# leaves word for it, which the primary has worked off.
spool_is_empty() {
	! compgen -G 'london/data/spool/[0-9]*'
}

# Everything that the primary was told by now is at the secondary, verified.
in_sync() {
	local last cursor
	spool_is_empty || return
	find_status london && [[ $status_said =~ \"last_event\":([0-9]+) ]] || return
	last=${BASH_REMATCH[1]} cursor=none
	if find_status paris && [[ $status_said =~ \"cursor\":([0-9]+) ]]; then
		cursor=${BASH_REMATCH[1]}
		[ "$cursor" -ge "$last" ] &&
			[[ -z ${is_waiting-} || $status_said != *'"in_sync":false'* ]] &&
			at paris status >status && return
	fi
	cat status 2>/dev/null
	echo "cursor $cursor of $last"
	return 1
}

# The trees are equal, by stock git.
same_sites() {
	equal_trees london/git paris/git
}

# How often this event stands in a site's log.
logged() { # SITE EVENT [PATTERN]
	if [ -n "${3-}" ]; then
		grep -aE " ev=$2( |\$)" "$1/log" | grep -acE "$3"
	else
		grep -acE " ev=$2( |\$)" "$1/log"
	fi
}

# A line is written a moment after the row that it tells of.
is_logged() { # NUMBER SITE EVENT [PATTERN]
	local number=$1
	shift
	[ "$(logged "$@")" -eq "$number" ]
}

was_logged() { # SITE EVENT [PATTERN]
	[ "$(logged "$@")" -gt 0 ]
}

# By the clock of the node, which is so many seconds ahead, it was half an hour at most from now
# that it started.
is_logged_at() { # SITE SECONDS
	local said
	said=$(grep -a -m 1 ' ev=node.started' "$1/log") || return
	said=${said#ts=}
	said=$(date -d "${said%% *}" +%s) || return
	said=$((said - $2 - $(date +%s)))
	[ "${said#-}" -lt 1800 ]
}

# ./wrong_clock.so, to be preloaded.
make_wrong_clock() {
	command -v cc >/dev/null || skip "there is no C compiler"
	cc -shared -fPIC -o wrong_clock.so "$TESTS/lib/wrong_clock.c"
}

# At one moment, so that no scan finds the half of it.
remove_repository() { # PATH...
	local path
	mkdir -p removed
	for path; do
		mv "$path" removed/
		rm -rf "removed/${path##*/}"
	done
}

# At one moment, too: packed ones go with one rename, others one after the other.
delete_refs() { # REPOSITORY REF...
	git -C "$1" pack-refs --all
	printf 'delete %s\n' "${@:2}" | git -C "$1" update-ref --stdin
}

# The site may have noticed it already.
report_removed() { # SITE REPOSITORY
	at "$1" changed "$2" || [ $? -eq 4 ]
}

# A commit by way of a real push, with the hooks.
push_change() { # REPOSITORY-PATH [BRANCH]
	local clone
	clone=$(mktemp -d clone.XXXXXX)
	git clone -q "$1" "$clone" 2>/dev/null
	(cd "$clone" && date +%s.%N >file && git add file && git commit -qm change &&
		git push -q origin "HEAD:refs/heads/${2:-main}")
	rm -rf "$clone"
}
