# The page for people in a real Chromium, at ./london and ./paris in $SHARED. Needs tap.sh, sites.sh,
# two_sites.sh and pushed.sh; $cache is where npm keeps what it fetches: playwright-core and
# axe-core, in the versions of the lock file in tests/peers/page. The first run takes a network.
#
#	set_up_page			for tap_set_up: the browser, and two sites that are in sync;
#					tokens operator and looker. london lets nobody read without
#					one, paris lets this machine
#	at_sites FUNCTION		runs it in $SHARED
#	drive SCENARIO ARGUMENT...	one of tests/peers/page/drive.js
#	reload_paris			has it read its configuration again

drive() { # SCENARIO ARGUMENT...
	BROWSER=$SHARED/browser.url node "$SHARED/page/drive.js" "$@"
}

# One browser for all tests.
start_browser() {
	cp -r "$TESTS/peers/page" .
	(cd page && npm ci --prefer-offline --ignore-scripts --no-audit --no-fund --cache "$cache/.npm") ||
		fail "npm cannot fetch playwright-core and axe-core: see above"
	node page/drive.js browser "$PWD/browser.url" >browser.log 2>&1 &
	wait_until 30 test -s browser.url
}

# london lets nobody read without a token; paris lets this machine.
make_page_sites() {
	local site name

	make_sites
	for site in london paris; do
		give_token "$site" operator operate
		give_token "$site" looker read
	done
	set_conf london http.url "$(site_url london)/"
	for name in team/app team/web platform/build docs; do
		make_repository "london/git/$name.git" 5
	done
	mkdir london/git/old
	for ((name = 1; name <= 12; name++)); do
		cp -r london/git/docs.git "london/git/old/$name.git"
	done
	start_sites
	wait_until 30 in_sync
}

set_up_page() {
	start_browser
	make_page_sites
}

reload_paris() {
	local before
	before=$(logged paris node.reloaded) || true
	kill -HUP "$(site_pid paris)"
	wait_until 20 reloaded_more "$before"
}

reloaded_more() { # COUNT
	[ "$(logged paris node.reloaded)" -gt "$1" ]
}

at_sites() { # FUNCTION
	cd "$SHARED"
	"$@"
}
