# Two sites on this machine, for tests and for the demo: ./london is the primary, ./paris
# its secondary. Repositories are in SITE/git, data in SITE/data, the log is SITE/log.
#
#	make_sites			directories, secret, configurations; ports that are free
#	start_site SITE [VAR=VALUE...]	runs the node in the background, until it serves
#	stop_site SITE [SIGNAL]		ends it and waits
#	kill_site SITE			with SIGKILL
#	at SITE COMMAND...		refrelay with the site's configuration
#	in_sync				the secondary says so
#	unwatch SITE			a change of its disk is for verifications to find
#	in_copy REPOSITORY COMMAND...	git there, without hooks
#
# To change a setting for a test: `set_conf SITE SECTION.KEY VALUE`, before or after the start.

free_port() {
	"$SITE_HELP" port
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

# With TLS, CURL_CA_BUNDLE must name the certificate, or who vouches for it.
site_url() { # SITE
	local scheme=http

	[ -z "$(git config --file "$1/refrelay.conf" http.tlsCertificate)" ] || scheme=https
	echo "$scheme://$(git config --file "$1/refrelay.conf" http.listen)"
}

at() { # SITE COMMAND...
	local site=$1
	shift
	"$REFRELAY" -c "$site/refrelay.conf" "$@"
}

site_pid() { # SITE
	echo "$(<"$1/pid")"
}

is_serving() { # SITE
	kill -0 "$(site_pid "$1")" && curl -fsS -m 5 -o "$1/healthz" "$(site_url "$1")/healthz"
}

launch_site() { # SITE [VAR=VALUE...]
	local site=$1 unwatched=()
	shift
	# shellcheck disable=SC2016
	[ "$site" != "${unwatched_site-}" ] ||
		unwatched=(unshare -Ur sh -c
			'echo 0 >/proc/sys/user/max_inotify_watches && exec "$@"' sh)
	env "$@" "${unwatched[@]}" "$REFRELAY" -c "$site/refrelay.conf" serve -v >>"$site/log" 2>&1 &
	echo $! >"$site/pid"
}

start_site() { # SITE [VAR=VALUE...]
	launch_site "$@"
	wait_until 20 is_serving "$1"
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

# A failpoint has ended it.
has_died() { # SITE
	! kill -0 "$(site_pid "$1")" 2>/dev/null
}

is_paused() { # SITE
	[ "$(ps -o state= -p "$(site_pid "$1")")" = T ]
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
	{ at "$1" status --json || [ $? -eq 3 ]; } | "$SITE_HELP" member "$2"
}

# As `at`, by a build without sanitizers if there is one: what is asked again and again
# until it is true starts in a fifth of the time.
asked_often() { # SITE COMMAND...
	local site=$1 program=$REFRELAY
	shift
	[ -z "${REFRELAY_PLAIN-}" ] || [ "$REFRELAY" != "${BUILD-}/refrelay" ] ||
		program=$REFRELAY_PLAIN
	"$program" -c "$site/refrelay.conf" "$@"
}

# A member that is a number.
number_in_status() { # SITE MEMBER
	local said
	said=$(asked_often "$1" status --json) || [ $? -eq 3 ] || return
	[[ $said =~ \"$2\":([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
}

# Everything that the primary has noticed by now is at the secondary, verified.
in_sync() {
	local last cursor
	last=$(number_in_status london last_event) || return
	cursor=$(number_in_status paris cursor) || cursor=none
	[ "$cursor" != none ] && [ "$cursor" -ge "$last" ] &&
		asked_often paris status >status && return
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

was_logged() { # SITE EVENT [PATTERN]
	[ "$(logged "$@")" -gt 0 ]
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

# A commit by way of a real push, with the hooks.
push_change() { # REPOSITORY-PATH [BRANCH]
	local clone
	clone=$(mktemp -d clone.XXXXXX)
	git clone -q "$1" "$clone" 2>/dev/null
	(cd "$clone" && date +%s.%N >file && git add file && git commit -qm change &&
		git push -q origin "HEAD:refs/heads/${2:-main}")
	rm -rf "$clone"
}
