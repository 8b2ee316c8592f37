#!/usr/bin/env bash
# The page for people in a real Chromium: rows that fail, are held or wait, the buttons that mend
# them, ten thousand rows, hostile names, and a telephone.
cache=${HOME:-/root}
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/sites.sh"
. "$(dirname "$0")/../lib/two_sites.sh"
. "$(dirname "$0")/../lib/pushed.sh"
. "$(dirname "$0")/../lib/paged.sh"

# Others have written to docs; a file is in the way of broken; twelve of eighteen are gone.
make_troubles() {
	local tree

	tree=$(git -C paris/git/docs.git rev-parse 'main^{tree}')
	in_copy docs.git update-ref refs/heads/main \
		"$(in_copy docs.git commit-tree -p main -m foreign "$tree")"
	add_commits london/git/docs.git refs/heads/main 1
	echo >paris/git/broken
	mkdir london/git/broken
	make_repository london/git/broken/app.git 2
	wait_until 30 row_is paris docs word held
	wait_until 30 row_is paris broken/app word failing
	# All at once: up to ten that came one by one would be done. The request for events that
	# waits is answered before.
	kill -STOP "$(site_pid paris)"
	wait_until 10 nobody_asks_london
	mv london/git/old removed
	wait_until 30 have_gone 12
	kill -CONT "$(site_pid paris)"
	wait_until 30 row_is paris old/1 word held
}

# But for this. What was sent before may not be counted yet the first time.
nobody_asks_london() {
	local i

	for i in 1 2; do
		curl -fsS -H "Authorization: Bearer $(<operator.token)" "$(site_url london)/metrics" |
			grep '^refrelay_http_requests_open 1$' || return
	done
}

have_gone() { # COUNT
	[ "$(at london events | grep '"name":"old/' | grep -c '"event":"deleted"')" = "$1" ]
}

shows_what_is_wrong_and_what_to_do() {
	make_troubles
	drive troubles "$(site_url paris)"
	drive words "$(site_url paris)"
}

post() { # VERB NAME [BODY]
	curl -sS -X POST -H "Authorization: Bearer $(<operator.token)" -d "${3-}" \
		"$(site_url paris)/api/v1/repositories/${2//\//%2F}/$1"
}

code_of() { # VERB NAME [BODY]
	post "$@" | "$SITE_HELP" member code
}

# What is let go is what was read, and only that.
releases_only_what_was_read() {
	[ "$(code_of release team/app '{"held_reason":"x"}')" = CONFLICT ]
	[ "$(code_of release docs '{"held_reason":"another"}')" = CONFLICT ]
	[ "$(code_of release docs '{}')" = CONFIG ]
	[ "$(code_of release old/1 "{\"held_reason\":\"$(row_of paris old/1 held_reason)\"}")" = CONFLICT ]
	[ "$(code_of retry team/app)" = CONFLICT ]
	row_is paris docs word held
	row_is paris old/1 word held
}

mends_by_its_buttons() {
	drive release "$(site_url paris)" "$(<operator.token)" docs
	wait_until 30 row_is paris docs word "up to date"
	[ "$(tip london/git/docs.git)" = "$(tip paris/git/docs.git)" ]
	drive retry "$(site_url paris)" "$(<operator.token)" broken/app "$PWD/paris/git/broken"
	at paris repository remove --state held >removed.out
	wait_until 30 in_sync
}

lists_what_waits() {
	set_conf paris sync.repositoryCapacity 0
	reload_paris
	make_repository london/git/fresh.git 2
	add_commits london/git/team/web.git refs/heads/main 1
	drive waiting "$(site_url paris)" fresh team/web
	set_conf paris sync.repositoryCapacity 10
	reload_paris
	wait_until 30 in_sync
}

turns_one_page_at_a_time() {
	drive turning "$(site_url paris)"
}

# Rows as a larger site has them, and six hours of lag with a gap.
fill_rows() {
	python3 - "$PWD/paris/data/refrelay.db" hostile.json <<-'END'
		import json, sqlite3, sys, time
		hostile = ["hostile <img src=x onerror=window.harmed=1>", "hostile \u202egnp.exe",
		           "hostile ' \" & <b>", "hostile /" + "long/" * 800 + "end",
		           "hostile " + "w" * 3000, "hostile \u0645\u0631\u062d\u0628\u0627 1"]
		json.dump(hostile, open(sys.argv[2], "w"))
		names = hostile + [f"many/r{i:05}" for i in range(10000 - len(hostile))]
		db = sqlite3.connect(sys.argv[1])
		columns = [row[1] for row in db.execute("PRAGMA table_info(registry)")]
		model = dict(zip(columns, db.execute(
		    "SELECT * FROM registry WHERE name = 'team/app'").fetchone()))
		marks = ", ".join("?" * len(columns))
		for i, name in enumerate(names):
		    row = {**model, "id": i + 1, "name": name, "due_at": None, "timeline": f"{i:016x}",
		           "verification_due_at": None}
		    db.execute(f"INSERT INTO registry VALUES ({marks})", [row[key] for key in columns])
		for what in "all", "state.2", "verification.2", "proved":
		    if db.execute("UPDATE counters SET value = value + ? WHERE kind = 'repository'"
		                  " AND what = ?", (len(names), what)).rowcount != 1:
		        sys.exit(f"no counter {what}: " + str(db.execute("SELECT * FROM counters").fetchall()))
		db.execute("DELETE FROM lag_sample")
		minute = int(time.time()) // 60
		for i in list(range(1, 120)) + list(range(180, 350)):
		    db.execute("INSERT OR REPLACE INTO lag_sample VALUES ('site', 'paris', ?, ?)",
		               (minute - i, 0 if i % 60 > 9 else 1000 * (10 - i % 60) ** 2 // 4))
		db.commit()
	END
}

# Without its primary paris compares nothing: the rows stay. What a test has started ends with
# it, so from here on each starts paris.
stays_quick_with_ten_thousand_rows() {
	kill "$(site_pid london)" "$(site_pid paris)"
	wait_until 20 has_died london
	wait_until 20 has_died paris
	fill_rows
	start_site paris
	drive many "$(site_url paris)" many/r09000
}

draws_the_lag_of_the_last_hours() {
	start_site paris
	drive curves "$(site_url paris)" "Lag of the last 6 h: at most 25 s"
}

is_not_harmed_by_names() {
	start_site paris
	drive hostile "$(site_url paris)" "$PWD/hostile.json"
}

fits_a_telephone() {
	start_site paris
	drive phone "$(site_url paris)" "$(<operator.token)"
}

tap_set_up set_up_page
tap_test "what fails, is held or is gone is shown with its remedy" \
	at_sites shows_what_is_wrong_and_what_to_do
tap_test "only what was read is released" at_sites releases_only_what_was_read
tap_test "buttons release and retry" at_sites mends_by_its_buttons
tap_test "what waits is listed" at_sites lists_what_waits
tap_test "a page of rows is turned once, and . is searched for" at_sites turns_one_page_at_a_time
tap_test "ten thousand rows do not freeze it" at_sites stays_quick_with_ten_thousand_rows
tap_test "the lag of the last hours is a curve" at_sites draws_the_lag_of_the_last_hours
tap_test "hostile names do no harm" at_sites is_not_harmed_by_names
tap_test "it fits a telephone, dark and light" at_sites fits_a_telephone
tap_done
