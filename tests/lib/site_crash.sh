# Deaths of the nodes of two sites (two_sites.sh) at named points, and what must be true
# after each.

# Two sites with two repositories, in sync.
start_crash_sites() {
	make_sites
	set_conf london sync.scanInterval 500ms
	make_repository london/git/a.git 6
	make_repository london/git/deep/b.git 4
	start_sites
	wait_until 10 is_whole
	note_branches
}

# The copies' branches as they are; then that none of them went back since.
note_branches() {
	local path

	while IFS= read -r path; do
		git -C "paris/git/$path" for-each-ref refs/heads \
			--format="$path %(objectname) %(refname)"
	done < <(list_repositories paris/git) >branches
}

# The primary knows, even of a copy whose objects are damaged.
no_branch_went_back() {
	local path oid ref now

	while read -r path oid ref; do
		[ -d "paris/git/$path" ] && [ -d "london/git/$path" ] || continue
		now=$(git -C "paris/git/$path" rev-parse -q --verify "$ref") || continue
		git -C "london/git/$path" merge-base --is-ancestor "$oid" "$now" || {
			echo "$path: $ref went back from $oid"
			return 1
		}
	done <branches
}

# Each name once, whatever is there to be seen of work in progress.
left_overs() {
	find london/git paris/git -path '*/.refrelay/trash/*' -prune -o \
		\( -name '*.lock' -o -name '*.tmp-*' -o -name 'tmp_*' -o -name '.tmp-*' \
		-o -path '*/.refrelay/staging/*' -o -path '*/refrelay/state/pending/*' \
		-o -regextype posix-extended -regex '.*/refrelay/[0-9a-f]{32}' \) -print
	# spool/.late is a hook's mark, whose time counts
	find london/data paris/data \( -name '*.tmp-*' -o -path '*/spool/*' ! -name .late \) -print
	find paris/git -mindepth 1 -name .refrelay -prune -o -type d -empty \
		! -path '*.git/*' -print
}

no_left_overs() {
	local found

	found=$(left_overs)
	[ -z "$found" ] && return
	echo "left over: $found"
	return 1
}

# Ids without gaps; of each repository's life all generations, without gaps, and none
# that changed nothing.
events_are_dense() {
	at london events --json >events 2>events.err || {
		grep -q 'no longer kept' events.err || return
		at london events --json --after "$(grep -o 'up to [0-9]*' events.err |
			cut -d ' ' -f 3)" >events || return
	}
	python3 - <<-'END'
		import json
		last, lives = None, {}
		for line in open("events"):
		    event = json.loads(line)
		    assert last is None or event["id"] == last + 1, f"after {last}: {line}"
		    last = event["id"]
		    life = event["name"], event["timeline"]
		    if life in lives:
		        before = lives[life]
		        assert event["generation"] == before["generation"] + 1, line
		        # No changes of refs: of the description.
		        assert event["event"] == "deleted" or event.get("changes") == [] or \
		            event["checksum"] != before["checksum"], line
		    lives[life] = event
	END
}

no_row_is() { # STATE...
	local state

	for state; do
		[ "$(at paris repository list --state "$state" | grep -c .)" -eq 0 ] || {
			at paris repository list --state "$state"
			return 1
		}
	done
}

is_whole() {
	in_sync && same_sites && in_sync
}

# What must be true when all has settled: SITE had died and was started again.
is_whole_again() { # SITE
	wait_until 20 is_whole
	no_branch_went_back
	wait_until 5 no_row_is started failed pending
	wait_until 5 no_left_overs
	events_are_dense
	no_repository_is_leased
}

# Work in hand has a lease; else nothing but the site's own.
no_repository_is_leased() {
	wait_until 5 no_lease_like geo_sync_ssf_service
}

no_lease_like() { # TEXT
	at paris lease list >leases || return
	! grep -F "$1" leases
}

# SITE is killed, and started again so that it dies at POINT, which the CHANGE brings
# about; then it is started once more.
dies_at() { # SITE POINT CHANGE...
	local site=$1 point=$2
	shift 2
	echo "$site, $point:"
	note_branches
	kill_site "$site"
	launch_site "$site" "REFRELAY_FAILPOINT=$point=kill"
	"$@"
	is_killed_within 15 "$site"
	no_branch_went_back
	note_branches
	start_site "$site"
	is_whole_again "$site"
}

# Branches come, go and move, and HEAD is never one that the copy had before.
number=0
change_a() {
	local repository=london/git/a.git

	number=$((number + 1))
	add_commits "$repository" refs/heads/main 1
	git -C "$repository" update-ref "refs/heads/$((number % 2))/x" main
	git -C "$repository" update-ref -d "refs/heads/$(((number + 1) % 2))/x"
	git -C "$repository" update-ref "refs/heads/trunk-$number" main
	git -C "$repository" symbolic-ref HEAD "refs/heads/trunk-$number"
	git -C "$repository" update-ref -d "refs/heads/trunk-$((number - 1))"
}

dies_at_each() { # POINT...
	local point

	start_crash_sites
	for point; do
		dies_at paris "$point" change_a
	done
}

# Some MB that do not shrink: several pieces of an answer.
push_much() { # [MB]
	local oid

	head -c "${1:-3}000000" /dev/urandom >noise
	oid=$(git -C london/git/a.git hash-object -w --stdin <noise)
	oid=$(printf '100644 blob %s\tnoise\n' "$oid" | git -C london/git/a.git mktree)
	oid=$(git -C london/git/a.git commit-tree -p main -m much "$oid")
	git -C london/git/a.git update-ref refs/heads/main "$oid"
}

# The primary is stopped in the middle of an answer to a fetch of the secondary, which runs.
hang_a_fetch() {
	stop_site london
	start_site london REFRELAY_FAILPOINT=upload_pack.answers@2=stop
	push_much
	wait_until 20 is_paused london
}

# Processes that work for SITE, without the node itself: they have
# its directory in their arguments, or as their own.
site_children() { # SITE
	{
		grep -lsaFf <(echo "$PWD/$1/") /proc/[0-9]*/cmdline
		find /proc/[0-9]* -maxdepth 1 -name cwd -lname "$PWD/$1/*" 2>/dev/null
	} | cut -d / -f 3 | sort -u | grep -vx "$(site_pid "$1")" || true
}

no_site_children() { # SITE
	local pids

	pids=$(site_children "$1")
	[ -n "$pids" ] || return 0
	! ps -o pid,ppid,stat,args -p "${pids//$'\n'/,}"
}

# By SIGTERM, and with all that works for it.
ends_within() { # SECONDS SITE
	local begun=$SECONDS

	stop_site "$2"
	[ $((SECONDS - begun)) -le "$1" ] || fail "$2 needed $((SECONDS - begun)) s to end"
	no_site_children "$2"
}
