#!/usr/bin/env bash
# The secondary is killed after a push that went through it, and is back before the primary:
# whoever reads there is not taken back behind that push.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"
. "$TESTS/lib/pushed.sh"

# The database, where the names of such pushes are.
D=paris/data/refrelay.db

make_pair() {
	make_proxied_sites
	make_repository london/git/r.git 5
	make_repository london/git/s.git 5
	give_token london dev push
	set_conf paris http.anonymousRead true
	start_sites
	wait_until 20 in_sync
	make_clone "$(url_as dev paris r)" work
}

told_at_paris() { # REPOSITORY
	git ls-remote "$(site_url paris)/$1.git" refs/heads/main 2>err | cut -f 1
}

is_told() { # REPOSITORY OID
	[ "$(told_at_paris "$1")" = "$2" ]
}

refused_with_a_sentence() { # REPOSITORY
	[ -z "$(told_at_paris "$1")" ]
	grep "remote: the copy here does not have your push yet, and the primary does not answer" err
}

all_is_equal() {
	rules
	wait_until 20 is_told r "$(tip london/git/r.git)"
	wait_until 20 in_sync
	same_sites
	wait_until 10 nothing_is_noted
}

nothing_is_noted() {
	[ "$(noted)" -eq 0 ]
}

noted() {
	python3 -c '
import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute("SELECT COUNT(*) FROM passed_push").fetchone()[0])' "$D"
}

# Who pushed was told that it is done, and has seen it there.
killed_after_a_push() {
	local before

	make_pair
	before=$(tip paris/git/r.git)
	rules 'GET./api/v1/ status 503'
	commit_in work
	git -C work push -q origin main
	is_told r "$(tip work HEAD)"
	kill_site paris
	[ "$(tip paris/git/r.git)" = "$before" ]
	rules refuse
	start_site paris
	refused_with_a_sentence r
	is_told s "$(tip london/git/s.git)"
	kill_site paris
	start_site paris
	refused_with_a_sentence r
	all_is_equal
	wait_until 10 was_logged paris git.marks_found repositories=1
}

# The primary has it; the client was not told yet.
killed_in_a_push() {
	local pid

	make_pair
	rules 'POST.*git-receive-pack stall 0' 'GET./api/v1/ status 503'
	commit_in work
	git -C work push -q origin main 2>err.push &
	pid=$!
	wait_until 10 is_told r "$(tip work HEAD)"
	kill_site paris
	fails wait "$pid"
	rules refuse
	start_site paris
	refused_with_a_sentence r
	all_is_equal
}

# As a primary says that could not record it, or does not understand what follows it, or
# finds that too large.
done_and_called_an_error() {
	local status

	make_pair
	for status in 409 400 413; do
		rules "POST.*git-receive-pack instead $status" 'GET./api/v1/ status 503'
		commit_in work
		fails git -C work push -q origin main 2>err.push
		[ "$(tip london/git/r.git)" = "$(tip work HEAD)" ]
		is_told r "$(tip work HEAD)"
		all_is_equal
	done
}

# More than a request of which the body is kept in memory.
ask_for_refs_at_length() { # SITE
	python3 -c '
import sys
def packet(text):
    return b"%04x" % (len(text) + 4) + text
body = packet(b"command=ls-refs") + b"0001" + packet(b"ref-prefix refs/heads/main")
body += packet(b"ref-prefix refs/" + b"x" * 60000) * 20 + b"0000"
sys.stdout.buffer.write(body)' | curl -sS -m 30 --data-binary @- -H 'Git-Protocol: version=2' \
		-H 'Content-Type: application/x-git-upload-pack-request' \
		"$(site_url "$1")/r.git/git-upload-pack"
}

sees_at_length() { # OID
	ask_for_refs_at_length paris | grep -a "$1 refs/heads/main"
}

seen_by_a_long_request() {
	make_pair
	set_conf paris serve.freshFor 2s
	kill -HUP "$(site_pid paris)"
	rules 'GET./api/v1/ status 503'
	commit_in work
	git -C work push -q "$(url_as dev london r)" main
	wait_until 20 sees_at_length "$(tip work HEAD)"
	rules refuse
	refused_with_a_sentence r
	all_is_equal
}

# What never reached the primary is no reason to refuse anything.
killed_after_a_push_that_failed() {
	make_pair
	rules refuse
	commit_in work
	fails git -C work push -q origin main 2>err.push
	post_push 503
	wait_until 10 nothing_is_noted
	kill_site paris
	start_site paris
	is_told r "$(tip london/git/r.git)"
}

# Its second request, which is the one that changes something.
post_push() { # STATUS [URL [CURL-OPTION...]]
	local wanted=$1 url=${2:-$(url_as dev paris r)}
	shift $(($# > 1 ? 2 : 1))
	curl -sS -m 30 --data-binary 0000 -o answer -w '%{http_code}\n' "$@" \
		-H 'Content-Type: application/x-git-receive-pack-request' \
		"$url/git-receive-pack" >status
	grep -x "$wanted" status
}

# A stranger would have readers sent away by it, for as long as the primary is down.
nothing_is_noted_of_whom_the_primary_has_not_let_in() {
	local url pushing

	make_pair
	url=$(site_url paris)/r.git
	url=http://any:wrong@${url#http://}
	rules 'POST.*git-receive-pack hang'
	{ post_push 000 "$url" -m 8 || true; } &
	pushing=$!
	wait_until 10 asked_for 'POST.*git-receive-pack'
	[ "$(noted)" -eq 0 ]
	is_told r "$(tip london/git/r.git)"
	wait "$pushing"
	[ "$(noted)" -eq 0 ]
	is_told r "$(tip london/git/r.git)"
	rules
	# It is not even tried.
	spoil
	post_push 401 "$url"
	was_logged paris git.push_not_noted && fail "it was tried"
	post_push 503
}

not_noted_not_passed_on() {
	local before

	make_pair
	before=$(tip london/git/r.git)
	spoil
	commit_in work
	fails git -C work push -q origin main 2>err.push
	post_push 503
	grep "this site cannot write down that a push goes through it, so it was not passed" answer
	[ "$(tip london/git/r.git)" = "$before" ]
	fails was_logged london git.pushed
	is_told r "$before"
	wait_until 10 was_logged paris git.push_not_noted
	# By now it is known before git sends anything, when it still shows what is said.
	fails git -C work push -q origin main 2>err.push
	grep 'remote: this site cannot write down that a push goes through it' err.push
}

spoil() {
	python3 -c '
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=10)
database.execute("DROP TABLE passed_push")
database.commit()' "$D"
}

tap_test "killed after a push: nobody is taken back" killed_after_a_push
tap_test "killed in a push: nobody is taken back" killed_in_a_push
tap_test "a push that is done and answered by an error is seen by those who read" \
	done_and_called_an_error
tap_test "nobody is taken back behind the refs that a long request was told" \
	seen_by_a_long_request
tap_test "killed after a push that failed: the copy is read on" killed_after_a_push_that_failed
tap_test "nothing is noted of a push before the primary has let it in" \
	nothing_is_noted_of_whom_the_primary_has_not_let_in
tap_test "a push that cannot be noted is not passed on" not_noted_not_passed_on
tap_done
