#!/usr/bin/env bash
# A primary that does not answer, or not with sense: what the secondary says, that it
# publishes nothing wrong, and that it heals by itself.

. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/sites.sh"
. "$(dirname "$0")/../lib/two_sites.sh"
. "$(dirname "$0")/../lib/proxied.sh"

status_says() { # PATTERN
	at paris status >status && fail "all is well: $(<status)"
	grep -qE "$1" status || { cat status; return 1; }
}

# What was broken off by the change of rules is not waited for, but tried once more.
is_healed() {
	in_sync && same_sites && return
	at paris repository list --failed | grep -q failing && try_again --failed
	return 1
}

heals() {
	rules
	wait_until 40 is_healed
}

prepare() {
	make_proxied_sites
	make_repository london/git/tool.git
	"$@"
	start_sites
	wait_until 30 in_sync
}

refused() {
	local seconds

	prepare :
	rules refuse
	wait_until 20 status_says 'cannot reach its primary for .*, last heard .* ago: .*connect'
	[ "$(status_of paris failure.code)" = network ]
	[ -n "$(status_of paris failure.since)" ]
	was_logged paris primary.unreachable code=network
	try_again tool
	wait_until 20 has_failed tool network
	row_is paris tool retry_count 1
	seconds=$(retries_in tool)
	[ "$seconds" -ge 16 ] && [ "$seconds" -le 75 ] || fail "again in $seconds s"
	git -C paris/git/tool.git fsck --no-progress --no-dangling
	heals
	was_logged paris primary.back
	row_is paris tool retry_count 0
	[ -z "$(row_of paris tool failure)" ]
}

stalled_at_the_start() {
	make_proxied_sites
	make_repository london/git/tool.git
	rules '/events stall' '/repositories.limit stall 20'
	start_sites
	wait_until 45 status_says 'cannot reach its primary.*: .*not answered within'
	[ "$(status_of paris failure.code)" = timeout ]
	heals
}

# What events do not tell the inventory does, though the long poll hangs.
stalled_long_poll() {
	prepare :
	rules '/events stall'
	wait_until 10 asked_for /events
	push_change london/git/tool.git
	wait_until 20 same_sites
	heals
}

stalled_sync() { # PATTERN
	prepare set_conf paris sync.timeout 2s
	rules "$1"
	push_change london/git/tool.git
	wait_until 30 has_failed tool timeout
	heals
}

# The copy is as it was, whatever else is true.
unchanged() {
	repository_picture paris/git/tool.git | cmp - before
	git -C paris/git/tool.git fsck --no-progress --no-dangling
}

# ANSWERS CLASS RULE...: with each rule a sync of a changed repository ends so.
bad_answers() {
	local class=$1 rule
	shift
	prepare :
	repository_picture paris/git/tool.git >before
	rules '/refs drop' 'upload-pack drop'
	push_change london/git/tool.git
	wait_until 20 has_failed tool network
	for rule; do
		echo "$rule:"
		rules "$rule"
		try_again --wait tool && fail "that was taken"
		has_failed tool "$class"
		unchanged
	done
	heals
}

bad_events() {
	local rule

	prepare :
	for rule in '/events cut 30' '/events status 500' '/events status 429' \
		'/events garbage' '/events junk' '/events empty' '/events flip 3' \
		'/events header Refrelay-Timeline: nonsense' \
		'/events header Refrelay-Last-Event: 7'; do
		echo "$rule:"
		rules "$rule" 'limit=10000 drop'
		push_change london/git/tool.git
		wait_until 20 status_says 'cannot reach its primary'
		kill -0 "$(site_pid paris)"
		rules
		wait_until 60 same_sites
	done
	wait_until 20 in_sync
}

# An event is left out of the answer, and inventories still tell of all.
gaps() {
	prepare :
	rules '/events filter sed 1d'
	push_change london/git/tool.git one
	push_change london/git/tool.git two
	wait_until 20 status_says 'event .* stands where|newest is'
	wait_until 20 equal_trees london/git paris/git
	heals
}

other_timeline() {
	local before

	prepare :
	before=$(logged paris cursor.compares)
	rules '/events header Refrelay-Timeline: 0123456789abcdef'
	push_change london/git/tool.git
	wait_until 20 compared_more_than "$before"
	wait_until 20 same_sites
	heals
}

compared_more_than() { # TIMES
	[ "$(logged paris cursor.compares)" -gt "$1" ]
}

emptied() {
	local i

	make_proxied_sites
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
		make_repository "london/git/$i.git" 2
	done
	start_sites
	wait_until 30 in_sync
	cat >no_repositories.py <<-'END'
		import json, sys
		page = json.load(sys.stdin)
		page["repositories"] = []
		page.pop("next", None)
		print(json.dumps(page))
	END
	rules '/repositories.limit filter python3 no_repositories.py'
	push_change london/git/1.git
	wait_until 20 was_logged paris registry.held
	[ "$(list_repositories paris/git | wc -l)" -eq 15 ]
	[ "$(status_of paris repositories.held)" -ge 12 ]
	rules
	wait_until 30 in_sync
	same_sites
}

redirected() {
	make_proxied_sites
	make_repository london/git/tool.git
	python3 - <<-'END' &
		import socket
		listener = socket.socket()
		listener.bind(("127.0.0.1", 0))
		listener.listen()
		open("port.new", "w").write(str(listener.getsockname()[1]))
		import os
		os.rename("port.new", "port")
		while True:
		    client, _ = listener.accept()
		    open("stolen", "ab").write(client.recv(65536))
		    client.close()
	END
	wait_until 10 test -f port
	start_sites
	wait_until 30 in_sync
	rules "/ redirect http://localhost:$(<port)/"
	push_change london/git/tool.git
	try_again --wait tool && fail "it followed"
	has_failed tool config
	rules "info/refs redirect http://localhost:$(<port)/tool.git/info/refs"
	try_again --wait tool && fail "git followed"
	row_is paris tool state failed
	rules "POST redirect http://localhost:$(<port)/tool.git/git-upload-pack"
	try_again --wait tool && fail "git followed"
	[ ! -e stolen ] || fail "the other host was asked: $(<stolen)"
	heals
}

# Names that no ref and no repository can have.
evil_names() {
	local name evil

	prepare :
	repository_picture paris/git/tool.git >before
	find paris/git -maxdepth 1 | sort >tree
	for name in ../../x refs/heads/../../x refs/heads/.x refs/heads/x.lock /etc/x \
		refs/heads/a..b 'refs/heads/a\x01b' 'refs/heads/x@{1}' refs/heads/ -x; do
		echo "ref $name:"
		rules "/refs filter sed -e 's,refs/heads/main\$,$name,'"
		try_again --wait tool && fail "it took $name"
		has_failed tool corrupt
		unchanged
	done
	for evil in ../../x /x .git/x; do
		echo "repository $evil:"
		rules "/repositories.limit filter sed -e 's,\"tool\",\"$evil\",'" \
			'/events junk'
		: >proxy/log
		push_change london/git/tool.git
		wait_until 20 asked_for /repositories.limit
		find paris/git -maxdepth 1 | sort | cmp - tree
	done
	[ ! -e paris/x ] && [ ! -e x ]
	heals
}

tap_test "refused connections are told and retried by the formula, and heal" refused
tap_test "a primary that hangs from the start is told, and heals" stalled_at_the_start
tap_test "a long poll that hangs loses no change" stalled_long_poll
tap_test "refs that hang end by sync.timeout" stalled_sync '/refs stall 40'
tap_test "a fetch that hangs before its pack ends by sync.timeout" \
	stalled_sync 'POST.*upload-pack stall'
tap_test "a fetch that hangs in its pack ends by sync.timeout" \
	stalled_sync 'POST.*upload-pack stall 400'
tap_test "answers that break off or are refused fail as network" bad_answers network \
	'/refs cut 30' '/refs cut 0' '/refs reset' '/refs status 500' '/refs status 429' \
	'/refs status 404' 'info/refs cut 10' 'info/refs reset' 'info/refs status 500' \
	'POST.*upload-pack cut 200' 'POST.*upload-pack reset' 'POST.*upload-pack status 503'
tap_test "answers that make no sense fail as corrupt" bad_answers corrupt \
	'/refs garbage' '/refs junk' '/refs empty' '/refs flip -40' '/refs flip -3' \
	'/refs filter sed s/^checksum.1-./checksum.1-0/' \
	'/refs filter sed /^refs/d'
tap_test "bad answers to the question for events are told, and heal" bad_events
tap_test "a gap in the events loses no change" gaps
tap_test "events of another timeline make it compare all" other_timeline
tap_test "an inventory that is suddenly empty removes nothing" emptied
tap_test "redirects are not followed, and no credential goes there" redirected
tap_test "names that lead elsewhere are refused" evil_names
tap_done
