#!/usr/bin/env bash
# Clones and fetches: how many children may run and wait, how long, and what becomes of
# them when their clients stop reading or leave; and requests of all sizes.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"

here=$TESTS

# A history whose pack is longer than what sockets and pipes hold.
make_heavy() { # MEGABYTES
	make_served 5
	{
		printf 'blob\nmark :1\ndata %d\n' $(($1 << 20))
		head -c $(($1 << 20)) /dev/urandom
		printf '\ncommit refs/heads/heavy\ncommitter S <s@e> 1700000000 +0000\n'
		printf 'data 5\nheavy\nM 100644 :1 large\ndone\n'
	} | git -C "$R" -c core.bigFileThreshold=1 -c core.compression=0 fast-import --quiet --done
}

# The body of a fetch under protocol 2 that wants these.
fetch_body() { # OID...
	local oid
	pkt command=fetch
	pkt object-format=sha1
	printf 0001
	pkt ofs-delta
	pkt no-progress
	for oid; do
		pkt "want $oid
"
	done
	pkt done
	printf 0000
}

packs_running() {
	metric_of one 'refrelay_upload_pack_running{kind="packs"}'
}

packs_waiting() {
	metric_of one 'refrelay_upload_pack_waiting{kind="packs"}'
}

packs_are() { # RUNNING WAITING
	local said
	said="$(packs_running) $(packs_waiting)"
	[ "$said" = "$1 $2" ] && return
	echo "$said"
	return 1
}

# Git processes that work in the repository.
gits_in() {
	find /proc/[0-9]* -maxdepth 1 -name cwd -lname "$R" -printf '%h/comm\n' 2>/dev/null |
		xargs -r cat 2>/dev/null | grep -c git || true
}

no_git_is_in() {
	[ "$(gits_in)" -eq 0 ]
}

# Not even what was started in place of git.
nobody_is_in() {
	[ -z "$(find /proc/[0-9]* -maxdepth 1 -name cwd -lname "$R" 2>/dev/null)" ]
}

# Clients of packs that read FIRST bytes and then wait for ./NAME.go.
hold_packs() { # NAME COUNT
	fetch_body "$(commit_of heavy)" >"$1.request"
	python3 "$here/peers/readers.py" "$1" "$2" 1000 "$U/git-upload-pack" \
		-H 'Git-Protocol: version=2' --post "$1.request" >"$1.readers" 2>"$1.errors" &
	eval "readers_$1=$!"
	wait_until 30 test -e "$1.held"
}

end_packs() { # NAME
	local pid="readers_$1"
	touch "$1.go"
	wait "${!pid}" || fail "readers: $(cat "$1.errors")"
	cat "$1.readers"
}

leave_packs() { # NAME
	local pid="readers_$1"
	kill -s KILL "${!pid}"
	wait "${!pid}" 2>/dev/null || true
}

clone() { # DIRECTORY [OPTION...]
	local to=$1
	shift
	git clone -q "$@" "$U" "$to"
}

children_and_their_queue_are_bounded() {
	local before
	make_heavy 30
	set_conf one serve.uploadPacks 1
	set_conf one serve.uploadPackQueue 1
	set_conf one serve.uploadPackWait 60s
	start_site one
	hold_packs first 1
	packs_are 1 0
	fetch_body "$(commit_of main)" >request
	post -m 120 -o waited -w '%{http_code}' <request >status &
	wait_until 20 packs_are 1 1
	before=$(date +%s%N)
	adv >/dev/null
	oid2 refs/heads/main >/dev/null
	echo "$((($(date +%s%N) - before) / 1000000)) ms for two small answers"
	[ $((($(date +%s%N) - before) / 1000000)) -lt 20000 ] # a clone waits for sixty seconds
	post -D headers -o refused <request
	head -n 1 headers | grep -q ' 503 '
	grep -qiE '^Retry-After: [0-9]+' headers
	grep -q '"code":"BUSY"' refused
	fails git -c protocol.version=2 clone -q --bare "$U" refused.git 2>said
	cat said
	grep -q 503 said
	[ ! -e refused.git ]
	[ "$(gits_in)" -le 2 ] # upload-pack and its pack-objects
	end_packs first >out
	grep -qE '^1 200 [0-9]+ [0-9a-f]+ whole$' out
	wait_until 20 grep -q 200 status
	grep -aq PACK waited
	wait_until 10 packs_are 0 0
	clone later --bare
	stop_site one
}

who_waits_too_long_is_sent_away() {
	make_heavy 30
	set_conf one serve.uploadPacks 1
	set_conf one serve.uploadPackWait 1s
	start_site one
	hold_packs first 1
	fetch_body "$(commit_of main)" >request
	[ "$(post -o refused -w '%{http_code}' <request)" = 503 ]
	leave_packs first
	wait_until 20 packs_are 0 0
	wait_until 20 no_git_is_in
	[ "$(post -o answered -w '%{http_code}' <request)" = 200 ]
	stop_site one
}

no_answer_outlasts_its_time() {
	make_heavy 30
	set_conf one serve.timeout 10s
	start_site one
	hold_packs slow 3
	wait_until 20 packs_are 0 0
	wait_until 20 no_git_is_in
	end_packs slow >out
	[ "$(awk '$2 == 200 && $5 == "cut" { sum += $1 } END { print sum }' out)" = 3 ] ||
		fail "$(<out)"
	clone whole --bare --single-branch --branch main # which takes no time
	stop_site one
}

who_leaves_takes_his_git_along() {
	make_heavy 30
	start_site one
	hold_packs leaving 5
	packs_are 5 0
	[ "$(gits_in)" -ge 5 ]
	leave_packs leaving
	wait_until 20 packs_are 0 0
	wait_until 20 no_git_is_in
	stop_site one
}

# Also one that waits in the line, or has not had a byte yet.
who_leaves_early_takes_his_git_along() {
	local asking
	make_heavy 30
	mkdir shim
	cat >shim/git <<-END
		#!/bin/sh
		case "\$*" in
		*info-refs*) ;;
		*upload-pack*) touch $PWD/asleep; exec sleep 1000 ;;
		esac
		exec $(command -v git) "\$@"
	END
	chmod +x shim/git
	set_conf one serve.timeout 12s
	start_site one "PATH=$PWD/shim:$PATH"
	fetch_body "$(commit_of main)" >request
	post -o answer -w '%{http_code}' <request >status &
	asking=$!
	wait_until 20 test -e asleep
	fails nobody_is_in
	wait "$asking"
	echo "status $(<status): $(<answer)"
	grep -qE '^50[0-9]$' status
	wait_until 20 packs_are 0 0
	wait_until 20 nobody_is_in
	stop_site one
}

many_clones_at_once() {
	local i
	make_served 300
	start_site one
	seq 20 | xargs -P 20 -I{} git clone -q --bare "$U" clone{}.git
	for i in $(seq 20); do
		[ "$(git -C "clone$i.git" for-each-ref --format='%(refname) %(objectname)')" = \
			"$(git -C "$R" for-each-ref --format='%(refname) %(objectname)')" ]
	done
	git -C clone20.git fsck --no-progress 2>err
	wait_until 10 packs_are 0 0
	stop_site one
}

clones_of_all_kinds() {
	local version
	make_served 300
	start_site one
	for version in 0 1 2; do
		git -c protocol.version=$version clone -q --depth 3 "$U" "shallow$version"
		[ "$(git -C "shallow$version" rev-list --count main)" -eq 3 ]
		git -C "shallow$version" -c protocol.version=$version fetch -q --deepen 5
		[ "$(git -C "shallow$version" rev-list --count main)" -eq 8 ]
		git -C "shallow$version" -c protocol.version=$version fetch -q --unshallow
		[ "$(git -C "shallow$version" rev-list --count main)" -eq 300 ]
		git -C "shallow$version" fsck --no-progress 2>err
		git -c protocol.version=$version clone -q --single-branch -b main \
			--shallow-exclude v1 "$U" "excluding$version"
		[ "$(git -C "excluding$version" rev-list --count main)" -eq 1 ]
	done
	clone partial --filter=blob:none --no-checkout
	[ "$(git -C partial rev-list --objects --missing=print --all | grep -c '^?')" -gt 0 ]
	git -C partial checkout -q main
	[ "$(git -C partial rev-parse HEAD)" = "$(commit_of main)" ]
	git -C partial log -p --all >log
	git init -q --bare one.git
	git -C one.git fetch -q "$U" "$(commit_of main~7)"
	[ "$(git -C one.git rev-list --count FETCH_HEAD)" -eq 293 ]
	stop_site one
}

# 100,000 refs of as many commits: a request of 5 MB, sent in chunks after a probe.
as_many_wants_as_there_are_refs() {
	make_served
	awk 'BEGIN {
		for (i = 0; i < 100000; i++)
			printf "commit refs/zz/many\ncommitter S <s@e> %d +0000\ndata 0\n\n",
				1700000000 + i
		print "done" }' | git -C "$R" fast-import --quiet --done
	git -C "$R" pack-refs --all
	git -C "$R" rev-list refs/zz/many |
		awk '{ printf "%s refs/zz/number-%06d\n", $1, NR }' >>"$R/packed-refs"
	start_site one
	GIT_TRACE_CURL=$PWD/trace GIT_TRACE_CURL_NO_DATA=1 git clone -q --mirror "$U" copy.git
	grep -q 'Transfer-Encoding: chunked' trace
	[ "$(git -C copy.git rev-list --count refs/zz/many)" -eq 100000 ]
	cmp <(git -C copy.git for-each-ref) <(git -C "$R" for-each-ref)
	[ -z "$(find one/data/tmp -type f)" ]
	stop_site one
}

odd_requests() {
	make_served
	start_site one
	[ "$(printf 0000 | code --data-binary @- -H \
		'Content-Type: application/x-git-upload-pack-request' "$U/git-upload-pack")" = 200 ]
	[ "$(printf 0000 | post -w '%{http_code}')" = 200 ]
	[ "$(printf '' | code --data-binary @- -H \
		'Content-Type: application/x-git-upload-pack-request' "$U/git-upload-pack")" != 500 ]
	fetch_body 1111111111111111111111111111111111111111 | post -o answer -w '%{http_code}' >status
	[ "$(<status)" = 200 ]
	grep -aq 'ERR upload-pack: not our ref' answer
	[ "$(pkt command=nothing | post -o answer -w '%{http_code}')" = 400 ]
	[ "$(printf 'zzzz' | post -o answer -w '%{http_code}')" = 400 ]
	printf '0123' | post -o answer # to git a packet that is cut is an end like another
	[ ! -s answer ] || grep -q '"code"' answer
	{
		ls_refs
		ls_refs
	} | post -o answer -w '%{http_code}' >status
	ls_refs | GIT_PROTOCOL=version=2 git upload-pack --stateless-rpc "$R" >wanted
	cmp answer wanted
	stop_site one
}

tap_test "children and their queue are bounded" children_and_their_queue_are_bounded
tap_test "who waits too long is sent away" who_waits_too_long_is_sent_away
tap_test "no answer outlasts its time" no_answer_outlasts_its_time
tap_test "who leaves takes his git along" who_leaves_takes_his_git_along
tap_test "a git that says nothing ends in time" who_leaves_early_takes_his_git_along
tap_test "many clones at once" many_clones_at_once
tap_test "clones of all kinds" clones_of_all_kinds
tap_test "as many wants as there are refs" as_many_wants_as_there_are_refs
tap_test "odd requests get an answer" odd_requests
tap_done
