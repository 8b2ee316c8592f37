# Mirrors of a real upstream. Needs tap.sh, sites.sh, two_sites.sh and pushed.sh. ./london is the upstream,
# a site of its own to which tokens give access; ./paris mirrors it, and stands alone.
#
#	make_mirror_sites		both, not started
#	mirror NAME [KEY VALUE]...	a section [mirror "NAME"] of london's repository of that name
#	watch NAME WATCHER		a section [watcher] with ./WATCHER.token
#	is_mirrored NAME		paris' repository is as london's
#	begin_to_ask NODE NAME		for a sync by the API; `was_taken NODE` waits for the answer, and sets $job

make_mirror_sites() {
	make_sites
	mkdir -p paris/git
	git config --file paris/refrelay.conf --remove-section primary
	set_conf paris site.role standalone
	set_conf paris http.anonymousRead true
	set_conf london http.anonymousRead false
}

mirror() { # NAME [KEY VALUE]...
	local name=$1

	set_conf paris "mirror.$name.url" "$(site_url london)/$name.git"
	shift
	while [ $# -gt 0 ]; do
		set_conf paris "mirror.$name.$1" "$2"
		shift 2
	done
}

watch() { # NAME WATCHER
	git config --file paris/refrelay.conf --add "watcher.$2.mirror" "$1"
	set_conf paris "watcher.$2.tokenFile" "$PWD/$2.token"
}

is_mirrored() { # NAME
	local source="london/git/$1.git" copy="paris/git/$1.git" refs other

	! differs_still "$source" "$copy" refs/heads/main 2>/dev/null || return
	[ -d "$copy" ] && refs=$(git -C "$source" for-each-ref) &&
		other=$(git -C "$copy" for-each-ref) && [ "$refs" = "$other" ] &&
		same_text "$source/HEAD" "$copy/HEAD"
}

# An upstream, a.git, that everybody may read, and its mirror.
make_open_sites() { # [KEY VALUE of paris]
	make_mirror_sites
	[ $# -eq 0 ] || set_conf paris "$1" "$2"
	set_conf london http.anonymousRead true
	make_repository london/git/a.git 6
	mirror a interval 1s
	start_site london
	start_site paris
	wait_until 20 is_mirrored a
}

# A job in the background, as ./operator.token: NODE may stand still or die before it has answered.
begin_to_ask() { # NODE NAME[?QUERY]
	curl -s -w '\n%{http_code}' -X POST -H "Authorization: Bearer $(cat operator.token)" \
		"$(site_url "$1")/api/v1/mirrors/${2%%\?*}/sync${2#"${2%%\?*}"}" >"$1/asked" &
	asker=$!
}

# What was answered counts: the id of the job is in $job.
was_taken() { # NODE
	wait "$asker" && [ "$(tail -n 1 "$1/asked")" = 202 ] &&
		job=$(head -n 1 "$1/asked" | "$SITE_HELP" member job) && return
	cat "$1/asked"
	return 1
}

mirror_is() { # NAME MEMBER VALUE
	[ "$(at paris mirror show "$1" --json | "$SITE_HELP" member "$2")" = "$3" ]
}
