#!/usr/bin/env bash
# Nodes start on data directories of earlier versions: rows, copies, tasks, hooks and
# secrets are what they were, and work goes on; a primary answers a secondary that is older.
. "$(dirname "$0")/../lib/earlier.sh"
be_apart "$0"
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/transfer.sh"

healthy=199cc04006cebcfd319c37bf36dc8efa6cc13366536a55c513708a56d18c508c
damaged=d283c852d1382889b892f140c60f704ff893fed41e2684d5e7d6444715c4cc0f

object_path() { # OID
	echo "${1:0:2}/${1:2:2}/${1:4}"
}

# A primary that hears of changes by its hooks alone.
unpack_sites() { # VERSION
	local site

	unpack "$1" london paris
	for site in london paris; do
		set_conf "$site" http.listen "127.0.0.1:$(free_port)"
		set_conf "$site" sync.scanInterval 1h
	done
	set_conf paris primary.url "$(site_url london)/"
}

rows_are() { # NAME STATE...
	while [ $# -gt 0 ]; do
		row_is paris "$1" state "$2" || return
		shift 2
	done
}

# The lock that a running node has, until standard input ends.
hold_data() { # SITE
	exec python3 - "$1/data/node.lock" 3<&0 <<-END
		import fcntl, os, struct, sys
		lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
		whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
		fcntl.fcntl(lock, 37, whole) # F_OFD_SETLK
		print("held", flush=True)
		os.read(3, 1)
	END
}

# It would go on with a database that it does not know.
a_running_node_keeps_its_database() { # SITE
	local held holder pid

	coproc holder { hold_data "$1"; }
	pid=$!
	read -r held <&"${holder[0]}"
	[ "$held" = held ]
	expect 2 at "$1" repository sync no-such-repository
	grep -q 'last used by an older refrelay' err
	grep -q 'restart it with this version' err
	eval "exec ${holder[1]}>&-"
	wait "$pid"
}

# Commands that only read leave a database as it is, and do not read one of an older
# version; one that may write brings it up to date, as a node does.
all_rows_are_there() {
	local name

	a_running_node_keeps_its_database paris
	expect 4 at paris repository sync no-such-repository
	expect 4 at london repository reverify no-such-repository

	rows_are broken failed failing failed group/tool synced held pending \
		missing missing_on_primary new pending passed synced plain synced
	for name in group/tool passed plain; do
		row_is paris "$name" verification_state succeeded
		row_is paris "$name" retry_count 0
		[ -n "$(row_of paris "$name" checksum)" ]
	done
	at paris repository list --state held | grep -q 'held *held .*commits that the source lacks'
	row_is paris broken failure_class corrupt
	row_is paris broken retry_count 1
	row_is paris failing failure_class network
	blob_is paris uploads failing.bin state failed
	blob_is paris uploads new.bin state pending
	blob_is paris uploads plain.bin verification_state succeeded
	blob_is paris lfs "$(object_path "$healthy")" checksum "$healthy"
	[ "$(find paris/git/.refrelay/trash -maxdepth 1 -name '*.trash.git' | wc -l)" = 1 ]

	[ "$(at london repository list --json | grep -o '"name"' | wc -l)" -ge 8 ]
	at london repository list | grep -q '^failing *broken'
	blob_is london lfs "$(object_path "$damaged")" verification failed
	blob_is london uploads plain.bin generation 2
	at london events >events
	[ "$(wc -l <events)" = 32 ]
}

others_are_here() {
	rows_are failing synced missing synced new synced passed synced plain synced &&
		blob_is paris uploads failing.bin state synced &&
		blob_is paris uploads new.bin state synced
}

# What is tried again is started for a moment.
waits_for_a_person() {
	rows_are broken failed && at paris repository list --state held | grep -q 'held *held'
}

mend_all() {
	wait_until 20 waits_for_a_person
	cp paris/git/broken.git/packed-refs london/git/broken.git/packed-refs
	remove_repository london/git/group/tool
	at london changed broken
	report_removed london group/tool
	cp "paris/lfs/$(object_path "$damaged")" "london/lfs/$(object_path "$damaged")"
	at paris repository resync --force --wait held
}

blobs_are_equal() {
	diff -r -x .refrelay london/uploads paris/uploads &&
		diff -r -x .refrelay london/lfs paris/lfs
}

all_is_well() {
	in_sync && rows_are broken synced held synced && same_sites && blobs_are_equal
}

noticed_more() { # THAN
	[ "$(logged london change.noticed)" -gt "$1" ]
}

a_change_gets_through_by_its_hook() {
	local before

	before=$(logged london change.noticed) || true
	push_change london/git/plain.git topic
	wait_until 20 noticed_more "$before" # no scan would, for an hour
	wait_until 20 in_sync
	same_sites
	make_clone "$(url_as dev paris passed)" work
	commit_in work
	git -C work push -q origin main
	[ "$(tip london/git/passed.git)" = "$(tip work HEAD)" ]
	wait_until 20 in_sync
	same_sites
}

two_sites_go_on() { # VERSION
	unpack_sites "$1"
	stay_in_place london
	stay_in_place paris
	all_rows_are_there
	start_sites
	wait_until 30 others_are_here
	mend_all
	wait_until 40 all_is_well
	fails was_logged london log.restored
	fails was_logged paris root.changed
	fails was_logged paris cursor.compares
	wait_until 10 was_logged paris git.marks_found
	a_change_gets_through_by_its_hook
	stop_site paris
	stop_site london
}

# Copied elsewhere, or restored: the log has a timeline of its own.
two_sites_are_restored() { # VERSION
	unpack_sites "$1"
	all_rows_are_there
	start_sites
	wait_until 10 was_logged london log.restored
	wait_until 10 was_logged paris cursor.compares 'another timeline'
	wait_until 30 others_are_here
	mend_all
	wait_until 40 all_is_well
	a_change_gets_through_by_its_hook
	stop_site paris
	stop_site london
}

# What was unpacked has other times, so it is read again first.
all_is_verified() {
	at london status --json >status || [ $? -eq 3 ]
	python3 - <<-'END'
		import json
		def states(value):
		    if isinstance(value, list):
		        return [one for each in value for one in states(each)]
		    if not isinstance(value, dict):
		        return []
		    here = [value["verification"]] if "verification" in value else []
		    return here + states(list(value.values()))
		status = json.load(open("status"))
		assert status["scan"]["whole_at"], "no scan yet"
		assert len(states(status)) > 1, status
		assert not any(one["pending"] or one["started"] for one in states(status)), status
	END
}

an_older_secondary_is_answered() { # VERSION
	unpack_sites "$1"
	stay_in_place london
	start_site london
	wait_until 20 all_is_verified
	python3 "$earlier_data/../lib/replay.py" "$earlier_data/$1/exchanges" secret \
		"$(site_url london)" events-last events events-wait events-gone \
		'~inventory-first' '~inventory-rest' inventory-last inventory-lfs \
		'~inventory-uploads' +refs-plain +refs-tool refs-missing =retrieve \
		'~retrieve-many' '~reverify' delta =git-refs -git-fetch -forwarded-refs \
		-forwarded-push-refs -forwarded-push
	{ at london status --json || [ $? -eq 3 ]; } >status
	grep -q '"paris"' status
	stop_site london
}

queue_before() {
	at home push queue --json >queue || return
	python3 - <<-'END'
		import json
		q = json.load(open("queue"))
		uris = {(u["remote"], u["project"] if "project" in u else u["uri"].split("/")[-1][:-4]): u
		        for u in q["queue"]}
		assert len(uris) == 13, uris.keys()
		assert ("far", "running") in uris
		failing = sorted(name for (remote, name), u in uris.items() if u["failures"] > 0)
		assert failing == ["done", "refused", "running", "waiting"], failing
		assert {u["failure"]["code"] for u in uris.values() if u["failures"]} == {"missing"}
		[letter] = q["given_up"]
		assert [r["ref"] for r in letter["failed_refs"]] == ["refs/heads/bad"], letter
	END
}

# What had changed when the node was killed.
changes_arrived() { # REMOTE [NAME...]
	local remote=$1 name branch
	shift
	for name; do
		case $name in
		refused) branch=good ;;
		owed | waiting) branch=topic ;;
		*) branch=main ;;
		esac
		same_branch "git/$name.git" "$remote/$name.git" "$branch" && continue
		echo "$remote lacks $branch of $name"
		return 1
	done
}

pushes_go_on() { # VERSION MANNER
	unpack "$1" kiel
	cd kiel
	: >witness
	set_conf home http.listen "127.0.0.1:$(free_port)"
	set_conf home sync.scanInterval 1h
	[ "$2" != in-place ] || stay_in_place home
	queue_before
	start_ready home
	wait_until 20 changes_arrived far done running refused waiting owed
	wait_until 20 changes_arrived strict done running waiting owed
	wait_until 20 grep -q refs/heads/topic far/waiting.git/HEAD
	[ "$(letters | wc -l)" = 1 ]
	queue_says '[u["failure"]["code"] for u in q["queue"] if u["remote"] == "away" and
		u["failures"]][:4] == ["missing"] * 4'
	at home push retry --remote slow
	wait_until 20 changes_arrived slow done running refused waiting
	set_conf home remote.away.createMissingRepositories true
	rm strict/refused.git/hooks/update
	kill -HUP "$(site_pid home)"
	wait_until 10 was_logged home node.reloaded
	at home push retry --all
	wait_until 20 changes_arrived away done running refused waiting
	wait_until 20 same_branch git/refused.git strict/refused.git bad
	wait_until 20 queue_says 'q["given_up"] == []'
	push_change git/done.git
	wait_until 20 same_branch git/done.git far/done.git
	never_two_at_once
	stop_site home
}

for version in v0.1.0; do
	tap_test "two sites of $version go on" two_sites_go_on "$version"
	tap_test "two sites of $version are restored" two_sites_are_restored "$version"
	tap_test "a secondary of $version is answered" an_older_secondary_is_answered "$version"
	tap_test "pushes of $version go on" pushes_go_on "$version" in-place
	tap_test "pushes of $version go on elsewhere" pushes_go_on "$version" elsewhere
done
tap_done
