# What the tests of verification share: two sites of two_sites.sh, of which ./paris reads
# its copies again each second.

converge() {
	wait_until 60 in_sync
	same_sites
}

# With the repositories that ./london/git has by now; all are in sync. Only verifications
# find what is wrong with copies, once nobody looks any more at what was just synced.
start_verified() {
	unwatch paris
	set_conf paris sync.reverifyInterval 1s
	start_sites
	converge
	wait_until 10 copies_are_settled paris
}

# A copy is looked at after its sync, and again until its files are old enough to be known by
# their times.
copies_are_settled() { # SITE
	local last
	last=$(grep -aoE ' ev=(sync.done|copy_watch.settled) ' "$1/log" | tail -n 1)
	[ "$last" = ' ev=copy_watch.settled ' ]
}

status_is() { # SITE MEMBER VALUE
	local value
	value=$(status_of "$1" "$2")
	[ "$value" = "$3" ] && return
	echo "$1: $2 is $value, not $3"
	return 1
}

# What is found is told, and is not mended yet; then it is.
mending_waits() {
	set_conf paris sync.repositoryCapacity 0
	reload_paris
}

mending_goes_on() {
	set_conf paris sync.repositoryCapacity 4
	reload_paris
}

reload_paris() {
	local before
	before=$(logged paris node.reloaded) || true
	kill -HUP "$(site_pid paris)"
	wait_until 10 reloaded_after "$before"
}

reloaded_after() { # COUNT
	[ "$(logged paris node.reloaded)" -gt "$1" ]
}

# The row failed by a verification, says why in words like these and what to do, and is
# due at once.
is_disproved() { # NAME PATTERN
	at paris repository show --json "$1" >row
	python3 - "$2" <<-'END'
		import datetime, json, re, sys
		row = json.load(open("row"))
		assert row["state"] == "failed" and row["verification_state"] == "failed", row
		assert row["failure_class"] in ("corrupt", "missing"), row
		assert re.search(sys.argv[1], row["failure"]) and row["remedy"], row
		assert row["word"] == "failing" and row["verification_retry_count"] == 1, row
		retry_at = datetime.datetime.fromisoformat(row["retry_at"].replace("Z", "+00:00"))
		wait = (retry_at - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
		assert wait <= 0, (wait, row)
	END
}

# No row is left in the middle of something; what goes on takes a moment.
nothing_is_started() {
	wait_until 10 status_is paris repositories.started 0
	wait_until 10 status_is paris repositories.verification.started 0
}

verified_at() { # SITE
	at "$1" repository list --json | python3 -c '
import json, sys
for row in json.load(sys.stdin)["repositories"]:
    print(row["name"], row["verified_at"])'
}

verified_after() { # SITE PICTURE
	verified_at "$1" >now && [ -s now ] || return
	! grep -qxFf "$2" now
}

# All of the site's have been read again, as often as is said, from now on.
are_verified_again() { # SITE [TIMES]
	local i
	for i in $(seq "${2:-1}"); do
		verified_at "$1" >before
		wait_until 20 verified_after "$1" before
	done
}

metric() { # SITE LINE-START
	curl -fsS "$(site_url "$1")/metrics" | grep -aF "$2" | sed 's/.* //'
}

nothing_failed() {
	local site
	for site in london paris; do
		fails was_logged "$site" verify.mismatch
		fails was_logged "$site" verify.failed
		fails grep -a ' level=error' "$site/log"
	done
	fails was_logged paris job.failed
	fails was_logged paris sync.rebuilt
}

# All of these rows are like this, by one look.
rows_are() { # SITE MEMBER VALUE NAME...
	local site=$1
	shift
	at "$site" repository list --json | python3 -c '
import json, sys
member, value, *names = sys.argv[1:]
rows = {row["name"]: row for row in json.load(sys.stdin)["repositories"]}
odd = [name for name in names if name not in rows or rows[name][member] != value]
sys.exit(f"{member} is not {value}: {odd}" if odd else 0)' "$@"
}
