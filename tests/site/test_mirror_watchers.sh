#!/usr/bin/env bash
# Two watchers with different tokens on one clone: their credentials never mix, and leave no trace.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/secured.sh"
. "$TESTS/lib/proxied.sh"
. "$TESTS/lib/mirrored.sh"

# The upstream is asked through a proxy, which has each answer go by ./look: it writes down
# what was shown, and what arguments and environments the test's processes have meanwhile.
set_up() {
	make_mirror_sites
	make_repository london/git/acme/r.git 5
	give_token london app1 read
	give_token london app2 read
	mirror acme/r interval 1h
	watch 'acme/*' app1
	watch acme/r app2
	start_proxy
	set_conf paris mirror.acme/r.url "http://127.0.0.1:$(cat proxy/port)/acme/r.git"
	cat >look <<-END
		grep -ai '^authorization:' proxy/last >>shown
		"$SITE_HELP" below $PPID | sed 's,.*,/proc/&/cmdline /proc/&/environ,' |
			xargs cat 2>/dev/null | tr '\0' '\n' >>seen
		"$SITE_HELP" below "\$(cat paris/pid)" | sed 's,.*,/proc/&/limits,' |
			xargs grep -sh 'Max core file size' >>limits
		exec cat
	END
	rules '. filter sh ./look'
	git config --global credential.helper "store --file=$PWD/stolen"
	ulimit -S -c "$(ulimit -H -c)"
	start_site london
	start_site paris
	wait_until 20 is_mirrored acme/r
}

# As it stands in a request. It is given to grep by a file: ./look sees the arguments of
# the test itself, too, and a mirror may fetch at any time.
header_of() { # WATCHER
	echo "Authorization: Basic $(printf %s "x-access-token:$(cat "$1.token")" | base64 -w 0)"
}

# What was shown to the upstream is this watcher's credential alone.
was_shown_only() { # WATCHER
	[ -s shown ] && ! tr -d '\r' <shown | grep -vxiF -f <(header_of "$1")
}

change_upstream() {
	add_commits london/git/acme/r.git refs/heads/main 1
	git -C london/git/acme/r.git update-ref "refs/heads/at-$RANDOM$RANDOM" main
}

job() { # WATCHER
	rm -f shown
	change_upstream
	at paris mirror sync acme/r --as "$1" --json >synced
	[ "$("$SITE_HELP" member watcher <synced)" = "$1" ]
	[ "$("$SITE_HELP" member changed <synced)" = true ]
	[ "$("$SITE_HELP" member commit <synced)" = "$(tip london/git/acme/r.git)" ]
	was_shown_only "$1"
	[ "$(wc -l <shown)" -ge 2 ] # the program's own request, and those of git
}

# The mirror itself goes on with the other one's.
is_told_off() { # WATCHER
	rm -f shown
	change_upstream
	expect 1 at paris mirror sync acme/r --as "$1"
	grep "refuses the credential of watcher $1" err
	[ ! -s out ]
	head -n 1 shown | grep -iF -f <(header_of "$1")
	wait_until 20 is_mirrored acme/r
	wait_until 20 mirror_is acme/r state synced
}

revoke() { # TOKEN
	git config --file london/refrelay.conf --remove-section "token.$1"
	reload london
}

fifty_jobs() {
	local i

	cd "$SHARED"
	for ((i = 0; i < 13; i++)); do
		job app1
		job app2
	done
	revoke app2
	cp app2.token revoked
	for ((i = 0; i < 12; i++)); do
		is_told_off app2
		job app1
	done
	is_mirrored acme/r
	at paris mirror show acme/r | grep 'watcher app2: credential refused'
}

another_token() {
	cd "$SHARED"
	rm -f new.token
	give_token london new read
	reload london
	mv new.token app2.token
	set_conf london token.new.file "$PWD/app2.token"
	reload london
	job app2
	job app1
	at paris mirror show acme/r >out
	fails grep refused out
}

several_jobs() { # WATCHER
	local i

	for ((i = 0; i < 6; i++)); do
		at paris mirror sync acme/r --as "$1" --json >"job.$1.$i" || return
		"$SITE_HELP" member watcher <"job.$1.$i" | grep -qx "$1" || return
		"$SITE_HELP" member state <"job.$1.$i" | grep -qx 'done' || return
	done
}

at_once() {
	local one two

	cd "$SHARED"
	rm -f shown
	change_upstream
	several_jobs app1 &
	one=$!
	several_jobs app2 &
	two=$!
	wait "$one"
	wait "$two"
	is_mirrored acme/r
}

# As they are, as git is given them, and as base64 alone.
write_secrets() {
	local file

	for file in app1.token app2.token revoked; do
		cat "$file"
		printf %s "x-access-token:$(cat "$file")" | base64 -w 0
		echo
		tr -d '\n' <"$file" | base64 -w 0 | cut -c 1-32
	done >secrets
}

no_trace() {
	cd "$SHARED"
	write_secrets
	[ "$(wc -l <secrets)" = 9 ]
	grep -c . seen
	grep -q 'REFRELAY\|refrelay' seen # it did look
	grep -q 'fetch\|index-pack\|remote-http' seen
	fails grep -aF -f secrets seen
	fails grep -raF -f secrets paris london/log home
	[ -s paris/data/refrelay.db-wal ]
	[ ! -e stolen ]
}

# 0: one of the secrets is found; 1: none.
memory_has() { # STATUS
	local status=0

	python3 "$TESTS/lib/memory.py" "$(site_pid paris)" secrets >found 2>&1 || status=$?
	[ "$status" -eq "$1" ] && return
	cat found
	return 1
}

# All jobs are over.
no_core_has_them() {
	cd "$SHARED"
	write_secrets
	memory_has 1
	cat found
	grep 'Max core file size  *[01] ' "/proc/$(site_pid paris)/limits"
	[ -s limits ]
	fails grep -v 'Max core file size  *[01] ' limits
}

core_limit() {
	sed -n 's/^Max core file size  *\([^ ]*\) .*/\1/p' "/proc/$(site_pid paris)/limits"
}

# That the search finds what is there is seen of a job that is stopped while it has the header.
searched_for() {
	local limit

	set_up
	cp app2.token revoked
	write_secrets
	wait_until 20 memory_has 1 # the header goes after the refs have come
	stop_site paris
	set_conf paris site.coreDumps true
	set_conf paris lease.ttl 10m # the search may take longer than the usual one
	start_site paris REFRELAY_FAILPOINT=objects.fetched=stop
	limit=$(core_limit) # a sanitizer of addresses has set it to 0 by itself
	[ "$limit" = "$(ulimit -H -c)" ] || [ "$limit" = 0 ]
	change_upstream
	at paris mirror sync acme/r --as app1 &
	wait_until 20 is_paused paris
	memory_has 0
	kill -CONT "$(site_pid paris)"
	wait "$!"
	wait_until 20 memory_has 1
}

# The helper is one that stores: git itself would have used it.
helper_stores() {
	cd "$SHARED"
	GIT_CONFIG_GLOBAL=$SHARED/home/gitconfig git ls-remote -q "$(url_as app1 london acme/r)" >refs
	[ -s stolen ]
}

redirected() {
	local other

	cd "$SHARED"
	mkdir other
	ln -s ../london other/london
	(cd other && start_proxy)
	other=http://localhost:$(cat other/proxy/port)/acme/r.git
	rules "info/refs redirect $other/info/refs?service=git-upload-pack"
	change_upstream
	expect 1 at paris mirror sync acme/r --as app1
	grep 'redirects elsewhere' err
	rules "^POST redirect $other/git-upload-pack"
	fails at paris mirror sync acme/r --as app1 2>err
	[ ! -s other/proxy/log ]
	rules
	at paris mirror sync acme/r --as app1
	is_mirrored acme/r
}

# The upstream has shown its refs to the one whose token is revoked before git asks for them.
revoked_in_the_middle() {
	set_up
	stop_site paris
	start_site paris REFRELAY_FAILPOINT=sync.read=stop
	change_upstream
	at paris mirror sync acme/r --json >synced &
	wait_until 20 is_paused paris
	(umask 077 && head -c 24 /dev/urandom | base64 >other.token)
	set_conf london token.app1.file "$PWD/other.token"
	reload london
	kill -CONT "$(site_pid paris)"
	wait "$!"
	[ "$("$SITE_HELP" member commit <synced)" = "$(tip london/git/acme/r.git)" ]
	is_mirrored acme/r
	at paris mirror show acme/r >out
	grep 'watcher app1: credential refused since .*refuses the credential' out
	fails grep 'watcher app2: credential refused' out
	set_conf london token.app1.file "$PWD/app1.token"
	reload london
	at paris mirror sync acme/r --as app1
	at paris mirror show acme/r >out
	fails grep refused out
}

job_is() { # STATE
	curl -s "$(site_url paris)/api/v1/jobs/$job" >job
	[ "$("$SITE_HELP" member state <job)" = "$1" ]
}

# A watcher whose section is removed: what waits for it ends, its credential is not shown again, and the clone
# stays for the others; without any, too.
taken_out() {
	set_up
	stop_site paris
	(umask 077 && echo 0123456789abcdef-operator >operator.token)
	set_conf paris http.operatorTokenFile "$PWD/operator.token"
	start_site paris REFRELAY_FAILPOINT=objects.fetched=stop
	# Until it was asked and has answered, it gets nothing.
	kill -STOP "$(site_pid london)"
	change_upstream
	curl -fs -m 60 -X POST -H "Authorization: Bearer $(<operator.token)" \
		"$(site_url paris)/api/v1/mirrors/acme%2Fr/sync?as=app2" >answer
	job=$("$SITE_HELP" member job <answer)
	kill -CONT "$(site_pid london)"
	wait_until 20 is_paused paris
	# Nobody removes a clone on which a job of it is.
	set_conf paris lease.wait 1s
	cp paris/refrelay.conf kept.conf
	git config --file paris/refrelay.conf --remove-section mirror.acme/r
	git config --file paris/refrelay.conf --remove-section watcher.app1
	git config --file paris/refrelay.conf --remove-section watcher.app2
	expect 5 at paris mirror remove acme/r
	grep 'Lock timeout waiting for repo: acme/r: held by' err
	cp kept.conf paris/refrelay.conf
	kill_site paris
	git config --file paris/refrelay.conf --remove-section watcher.app2
	rm -f shown
	start_site paris
	wait_until 20 job_is failed
	grep 'no watcher \\"app2\\" watches the mirror acme/r' job
	wait_until 20 is_mirrored acme/r
	change_upstream
	at paris mirror sync acme/r
	was_shown_only app1
	at paris mirror show acme/r >out
	fails grep app2 out
	fails at paris mirror sync acme/r --as app2 2>err
	grep 'no watcher "app2" watches the mirror acme/r' err
	# A reload does not take one out, and says so.
	git config --file paris/refrelay.conf --remove-section watcher.app1
	reload paris
	was_logged paris node.restart_needed 'key=mirror'
	stop_site paris
	rm -f shown
	start_site paris
	change_upstream
	fails at paris mirror sync acme/r 2>err
	grep 'HTTP 401' err
	[ ! -s shown ]
	git -C paris/git/acme/r.git fsck --strict
}

tap_set_up set_up
tap_test "fifty jobs of two watchers use each its own token, also when one is revoked" fifty_jobs
tap_test "a new token counts as soon as it is in its file" another_token
tap_test "jobs of both at once have each its own end" at_once
tap_test "neither token is in the clone, the data, the log, arguments or environments" no_trace
tap_test "nor in the memory of the node, of which no core is written, nor of its git's" no_core_has_them
tap_test "a credential helper of the user's would have stored it" helper_stores
tap_test "no token follows a redirect, of git's requests either" redirected
tap_test "the search of memory finds what a job has at the moment" searched_for
tap_test "a token is revoked in the middle of a fetch: the next watcher's brings it" revoked_in_the_middle
tap_test "a watcher that is taken out is used no more, and leaves the clone to others" taken_out
tap_done
