#!/usr/bin/env bash
# What clients read is never old: each change of refs, HEAD, configuration and place is in
# the next answer, whoever made it, and what did not change is answered without git.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"

serve_one() { # [VAR=VALUE...]
	make_served
	start_site one "$@"
}

warm() {
	adv >warm0
	ls_refs >all
	post <all >warm2
}

# Both views, in ./seen0 and ./seen2, by one process; ./all is the request.
see() {
	[ -e all ] || ls_refs >all
	curl -fsS -m 30 -o seen0 "$U/info/refs?service=git-upload-pack" \
		--next -fsS -m 30 -o seen2 -H 'Git-Protocol: version=2' \
		-H 'Content-Type: application/x-git-upload-pack-request' \
		--data-binary @all "$U/git-upload-pack"
}

# In both views the text is there, behind a packet's length or at a line's end.
both_show() { # TEXT
	see
	tr '\0' ' ' <seen0 | grep -aqE "[0-9a-f]{4}$1( |\$)" || {
		cat -v seen0
		fail "not in info/refs: $1"
	}
	grep -aqE "[0-9a-f]{4}$1( |\$)" seen2 || {
		cat -v seen2
		fail "not in ls-refs: $1"
	}
}

both_lack() { # TEXT
	see
	fails grep -aF -e "$1" seen0 seen2
}

# Stock git, on the repository itself.
stock_refs() { # [REPOSITORY]
	git upload-pack --http-backend-info-refs "${1:-$R}"
}

both_are_stock() { # [REPOSITORY]
	see
	cmp seen0 <(printf '001e# service=git-upload-pack\n0000' && stock_refs "$@")
	cmp seen2 <(GIT_PROTOCOL=version=2 git upload-pack --stateless-rpc "${1:-$R}" <all)
}

# Two hundred, in turns: in a bracket, by git alone, and by a plain write of the file.
every_change() {
	local i new commits

	make_served 201
	start_site one
	warm
	mapfile -t commits < <(git -C "$R" rev-list --reverse main)
	for i in {1..200}; do
		new=${commits[i]}
		[ "$i" -ne 200 ] || new=${commits[0]}
		case $((i % 3)) in
		0) bracketed git -C "$R" update-ref refs/heads/moved "$new" ;;
		1) git -C "$R" update-ref refs/heads/moved "$new" ;;
		2) echo "$new" >"$R/refs/heads/moved" ;;
		esac
		see
		grep -aq "$new refs/heads/moved\$" seen0 || fail "change $i: info/refs is old"
		grep -aq "$new refs/heads/moved\$" seen2 || fail "change $i: ls-refs is old"
	done
	both_are_stock
	# And none of it kept the cache from its work.
	i=$(count_reused)
	see
	[ "$(count_reused)" -eq $((i + 1)) ]
}

inside_a_bracket() {
	local old new pending misses hits bracket

	serve_one
	make_repository one/git/other.git 3
	old=$(commit_of main)
	new=$(commit_of side)
	warm
	curl -fsS -o other "$(site_url one)/other.git/info/refs?service=git-upload-pack"
	wait_until 10 is_shelved 2
	mkfifo go
	bracketed sh -c "git -C '$R' update-ref refs/heads/main $new; echo >said; read x <go" &
	bracket=$!
	wait_until 10 test -e said
	at one state r >state || true
	grep -q 'cache: not used: it is being written' state || fail "$(<state)"
	pending=$(count_of bypass_pending)
	misses=$(count_of miss)
	hits=$(count_reused)
	find one/data/cache -type f | sort >files
	both_show "$new refs/heads/main"
	[ "$(count_of bypass_pending)" -eq $((pending + 1)) ]
	[ "$(count_of bypass_pending ls_refs)" -ge 1 ]
	[ "$(count_of miss)" -eq "$misses" ]
	cmp files <(find one/data/cache -type f | sort)
	adv "" -D head >one.now
	fails grep -qi '^etag:' head
	curl -fsS -o other2 "$(site_url one)/other.git/info/refs?service=git-upload-pack"
	cmp other other2
	[ "$(count_reused)" -eq $((hits + 1)) ]
	echo >go
	wait $bracket
	at one state r >state
	grep -q "cache: used" state || fail "$(<state)"
	adv >first
	[ "$(count_of miss)" -eq $((misses + 1)) ]
	adv >second
	[ "$(count_reused)" -eq $((hits + 2)) ]
	cmp first second
	both_show "$new refs/heads/main"
	both_lack "$old refs/heads/main"
}

# How many files the shelf holds: what was kept before a restart.
is_shelved() { # COUNT
	[ "$(find one/data/cache -type f -path '*/cache/??/*' | wc -l)" -ge "$1" ]
}

a_restart() {
	local new

	serve_one PATH="$(shim_git && echo "$SHIM")"
	warm
	wait_until 10 is_shelved 1
	stop_site one
	: >started
	start_site one PATH="$PWD/shim:$PATH"
	adv >again
	cmp warm0 again
	post <all >again
	cmp warm2 again
	[ "$(count_of disk)" -eq 1 ]
	[ "$(count_of miss)" -eq 0 ]
	[ "$(count_reused ls_refs)" -eq 1 ]
	[ "$(count_started upload-pack)" -eq 0 ]
	stop_site one

	new=$(commit_of side)
	git -C "$R" update-ref refs/heads/main "$new"
	start_site one
	[ "$(oid refs/heads/main)" = "$new" ]
	[ "$(oid2 refs/heads/main)" = "$new" ]
	[ "$(count_of disk)" -eq 0 ]
	[ "$(count_of miss)" -eq 1 ]
}

# No bracket, and for most of it no hook either.
out_of_band() {
	local main side

	serve_one
	main=$(commit_of main)
	side=$(commit_of side)
	warm
	git -C "$R" update-ref refs/heads/a "$side"
	both_show "$side refs/heads/a"
	git -C "$R" -c core.hooksPath=/dev/null update-ref refs/heads/a "$main"
	both_show "$main refs/heads/a"

	git -C "$R" symbolic-ref HEAD refs/heads/side
	both_show "$side HEAD"
	grep -aq 'symref=HEAD:refs/heads/side' seen0
	grep -aq 'HEAD symref-target:refs/heads/side' seen2

	echo "$side" >"$R/refs/heads/a"
	both_show "$side refs/heads/a"
	echo "$main" >"$R/refs/heads/a" # of the same size, in the same inode, at once
	both_show "$main refs/heads/a"

	git -C "$R" branch -m a deep/b
	both_show "$main refs/heads/deep/b"
	both_lack ' refs/heads/a'
	git -C "$R" branch -m side edge # what HEAD names
	both_show "$side refs/heads/edge"
	grep -aq 'symref=HEAD:refs/heads/edge' seen0
	both_lack 'refs/heads/side'

	git -C "$R" config uploadpack.hideRefs refs/heads/deep
	both_lack refs/heads/deep
	git -C "$R" config --unset uploadpack.hideRefs
	both_show "$main refs/heads/deep/b"

	git -C "$R" pack-refs --all
	sed "s,^.* refs/heads/deep/b\$,$side refs/heads/deep/b," "$R/packed-refs" >packed
	mv packed "$R/packed-refs"
	both_show "$side refs/heads/deep/b"
	rm "$R/packed-refs"
	both_lack refs/heads/deep
	both_are_stock
}

# What else decides the answer, or where it is read from.
odd_changes() {
	local main

	serve_one
	main=$(commit_of main)
	warm
	mkdir -p "$R/refs/heads/new/deep" # a directory that was not watched
	echo "$main" >"$R/refs/heads/new/deep/ref"
	both_show "$main refs/heads/new/deep/ref"
	echo "$(commit_of side)" >"$R/refs/heads/new/deep/ref"
	both_show "$(commit_of side) refs/heads/new/deep/ref"
	mv "$R/refs/heads/new" "$R/refs/heads/old"
	both_show "$(commit_of side) refs/heads/old/deep/ref"
	both_lack refs/heads/new
	rm -r "$R/refs/heads/old"
	both_lack refs/heads/old
	echo "$main" >"$R/HEAD" # detached
	both_show "$main HEAD"
	both_are_stock
	echo 'ref: refs/heads/none' >"$R/HEAD"
	both_lack ' HEAD'
	both_are_stock
	echo 'ref: refs/heads/main' >"$R/HEAD"
	echo 'ref: refs/heads/main' >"$R/refs/heads/alias"
	both_show "$main refs/heads/alias"
	grep -aq 'refs/heads/alias symref-target:refs/heads/main' seen2
	both_are_stock
	echo nonsense >"$R/refs/heads/broken"
	both_are_stock
	rm "$R/refs/heads/broken"

	printf '[uploadpack]\n\thideRefs = refs/tags\n' >included
	git -C "$R" config include.path "$PWD/included"
	both_lack refs/tags
	: >included # no file of the repository's
	both_show "$(commit_of v1) refs/tags/v1"
	[ "$(count_of bypass_config)" -ge 2 ]
	[ "$(count_of bypass_config ls_refs)" -ge 2 ]
	git -C "$R" config --unset include.path
	see
	see
	[ "$(count_reused)" -ge 1 ]
	both_are_stock
}

capabilities() {
	serve_one
	adv 2 >caps
	grep -aq '^....fetch=.*filter' caps
	git -C "$R" config uploadpack.allowFilter false
	adv 2 >caps
	grep -aq '^....fetch=' caps
	fails grep -a filter caps
	adv >seen0
	fails grep -a filter seen0
	git -C "$R" config uploadpack.allowFilter true
	adv | grep -aq ' filter'
	git -C "$R" config uploadpack.allowAnySHA1InWant true
	adv | grep -aq allow-tip-sha1-in-want
	git -C "$R" config lsrefs.unborn ignore
	adv 2 >caps
	fails grep -a unborn caps
}

maintenance() {
	local i pids=()

	make_served 300
	start_site one
	warm
	for i in 1 2 3; do
		(
			while [ ! -e over ]; do
				rm -rf "clone$i"
				git clone -q "$U" "clone$i" 2>>"err$i" ||
					echo failed >>failures
				echo "$i" >>clones
			done
		) &
		pids+=($!)
	done
	wait_until 20 test -e clones
	for i in 'pack-refs --all' 'repack -adq' 'multi-pack-index write' \
		'gc --quiet --prune=now' 'pack-refs --all'; do
		# shellcheck disable=SC2086
		git -C "$R" $i
		see
		cmp warm0 seen0
		cmp warm2 seen2
	done
	touch over
	for i in "${pids[@]}"; do
		wait "$i"
	done
	[ ! -e failures ] || fail "$(cat err?)"
}

no_git_for_hits() {
	local version

	serve_one PATH="$(shim_git && echo "$SHIM")"
	adv 2 >caps
	warm
	wait_until 10 is_shelved 1
	: >started
	for version in 0 1 2; do
		adv "$version" >answer
		adv "$version" --compressed >answer
		adv "$version" -I >answer
		ls_refs refs/heads/ refs/tags/ | post >answer
		git -c protocol.version="$version" ls-remote "$U" >answer
	done
	[ ! -s started ] || fail "$(<started)"
	[ "$(count_reused ls_refs)" -ge 4 ]
	# Many clients at once after a change: one git.
	git -C "$R" update-ref refs/heads/x main
	: >started
	seq 20 | xargs -P 10 -I{} curl -fsS -m 30 -o answer.{} \
		"$U/info/refs?service=git-upload-pack"
	[ "$(sha1sum answer.* | cut -d ' ' -f 1 | sort -u | wc -l)" -eq 1 ]
	[ "$(count_started upload-pack)" -eq 1 ] || fail "$(<started)"
}

code_of() { # NAME
	code "$(site_url one)/$1/info/refs?service=git-upload-pack"
}

other_places() {
	local main new

	serve_one
	main=$(commit_of main)
	warm
	mv "$R" one/git/s.git
	[ "$(code_of r.git)" = 404 ]
	[ "$(ls_refs | post -o answer -w '%{http_code}')" = 404 ]
	U=$(site_url one)/s.git
	both_show "$main refs/heads/main"

	# Another repository under the name of the first.
	make_repository "$R" 7
	new=$(commit_of main)
	[ "$new" != "$main" ]
	U=$(site_url one)/r.git
	both_show "$new refs/heads/main"
	mv "$R" away.git
	mv one/git/s.git "$R"
	both_show "$main refs/heads/main"
	mv "$R" one/git/s.git
	mv away.git "$R"
	both_show "$new refs/heads/main"
	rm -r "$R"
	[ "$(code_of r.git)" = 404 ]

	# A copy with the state of its source, times and all, then changed.
	cp -a one/git/s.git "$R"
	both_show "$main refs/heads/main"
	git -C "$R" update-ref refs/heads/main side
	both_show "$(commit_of side) refs/heads/main"
	U=$(site_url one)/s.git
	both_show "$main refs/heads/main"
}

folders() {
	serve_one
	mkdir -p one/git/a/b
	mv "$R" one/git/a/b/r.git
	[ "$(code_of r.git)" = 404 ]
	R=$PWD/one/git/a/b/r.git
	U=$(site_url one)/a/b/r.git
	warm
	mv one/git/a one/git/c
	[ "$(code_of a/b/r.git)" = 404 ]
	[ "$(ls_refs | post -o answer -w '%{http_code}')" = 404 ]
	[ "$(code_of c/b/r.git)" = 200 ]
	mkdir -p one/git/a/b
	R=$PWD/one/git/a/b/r.git
	make_repository "$R" 4
	both_show "$(commit_of main) refs/heads/main"
	both_lack refs/heads/side
	# Folders change places.
	mv one/git/a one/git/x
	mv one/git/c one/git/a
	mv one/git/x one/git/c
	both_show "$(commit_of side) refs/heads/side"
	git -C "$R" update-ref refs/heads/main side
	both_show "$(commit_of side) refs/heads/main"
	rm -rf one/git/a
	[ "$(code_of a/b/r.git)" = 404 ]
}

names() {
	local main new

	serve_one
	main=$(commit_of main)
	warm
	U=$(site_url one)/r
	both_show "$main refs/heads/main"
	[ "$(count_of miss)" -eq 1 ]
	# A directory without .git, which one with .git then hides.
	U=$(site_url one)/plain.git
	cp -a "$R" one/git/plain
	both_show "$main refs/heads/main"
	U=$(site_url one)/plain
	both_show "$main refs/heads/main"
	R=$PWD/one/git/plain.git
	make_repository "$R" 5
	new=$(commit_of main)
	both_show "$new refs/heads/main"
	both_lack "$main"
	U=$(site_url one)/plain.git
	both_show "$new refs/heads/main"
	mv "$R" away.git
	both_show "$main refs/heads/main"
}

etag_of() {
	adv "$@" -o answer -D head
	tr -d '\r' <head | sed -n 's/^[Ee][Tt][Aa][Gg]: //p'
}

# Not before the repository has been quiet for a moment.
has_etag() {
	[ -n "$(etag_of)" ]
}

clearing() {
	local key etag hits

	serve_one
	warm
	wait_until 10 has_etag
	key=$(at one state r --json | grep -o '"key":"[0-9a-f]*"')
	etag=$(etag_of)
	hits=$(count_reused)
	wait_until 10 is_shelved 1
	[ "$(etag_of)" = "$etag" ]
	[ "$(at one state r --json | grep -o '"key":"[0-9a-f]*"')" = "$key" ]
	at one cache clear r
	[ "$(at one state r --json | grep -o '"key":"[0-9a-f]*"')" != "$key" ]
	[ "$(etag_of)" != "$etag" ]
	[ "$(count_of miss)" -eq 2 ]
	[ "$(count_reused)" -eq $((hits + 1)) ]
	both_are_stock
	wait_until 10 is_shelved 1
	at one cache clear
	[ "$(count_of miss)" -eq 2 ]
	both_are_stock
	[ "$(count_of miss)" -eq 3 ]
	at one state r >state
	grep -q "cache: used" state || fail "$(<state)"
}

secondaries() {
	local i last new

	make_sites
	set_conf paris http.anonymousRead true
	make_repository london/git/r.git 3
	start_sites
	wait_until 30 in_sync
	R=$PWD/london/git/r.git
	U=$(site_url paris)/r.git
	both_show "$(commit_of main) refs/heads/main"
	for i in 1 2 3 4; do
		last=$(number_in_status london last_event)
		new=$(git -C "$R" commit-tree -p main -m "$i" 'main^{tree}')
		case $i in
		3) git -C "$R" symbolic-ref HEAD refs/heads/b1 ;;
		4) git -C "$R" update-ref -d refs/heads/b2 ;;
		*)
			printf '%s\n' "update refs/heads/main $new" \
				"create refs/heads/b$i $new" |
				git -C "$R" update-ref --stdin
			;;
		esac
		wait_until 30 in_sync_after "$last"
		diff <(git ls-remote "$U") <(git ls-remote "$R")
		both_are_stock paris/git/r.git
	done
	[ "$(count_of hit info_refs paris)" -ge 1 ]
}

# The primary has noticed something since, and the secondary has it.
in_sync_after() { # EVENT
	[ "$(number_in_status london last_event)" -gt "$1" ] && in_sync
}

# One connection that reads main again and again, until ./over: each value that it saw, by
# both views in turns.
read_on() { # FILE
	python3 - "$U" all over >"$1" <<-'END'
		import http.client, os, re, sys
		from urllib.parse import urlsplit
		url = urlsplit(sys.argv[1])
		body = open(sys.argv[2], "rb").read()
		kind = "application/x-git-upload-pack-request"
		conn = http.client.HTTPConnection(url.hostname, url.port, timeout=60)
		last, count, left = None, 0, 2 # both views once more behind the end
		while left > 0:
		    count += 1
		    left -= os.path.exists(sys.argv[3])
		    if count % 2:
		        conn.request("GET", url.path + "/info/refs?service=git-upload-pack")
		    else:
		        conn.request("POST", url.path + "/git-upload-pack", body,
		                     {"Content-Type": kind, "Git-Protocol": "version=2"})
		    answer = conn.getresponse()
		    data = answer.read()
		    found = re.search(rb"([0-9a-f]{40}) refs/heads/main\n", data)
		    if answer.status != 200 or not found:
		        print("bad", answer.status, data[:200])
		        break
		    if found[1] != last:
		        print(found[1].decode(), flush=True)
		    last = found[1]
		print(count, "answers", file=sys.stderr)
	END
}

# All of them are commits of main, in their order.
is_forward() { # FILE
	git -C "$R" rev-list --reverse main | awk '
		NR == FNR { at[$1] = NR; next }
		!($1 in at) { print "what is this: " $0; bad = 1; next }
		at[$1] <= last { print "went back to " $1; bad = 1 }
		{ last = at[$1] }
		END { exit bad }' - "$1"
}

push_one_more() { # TEXT
	git -C work commit -q --allow-empty -m "$1"
	git -C work push -q origin main
}

pushes_and_readers() { # COMMAND...: that awaits the last
	local i readers=()

	for i in 1 2; do
		read_on "saw$i" 2>>counts &
		readers+=($!)
	done
	git clone -q "$R" work
	wait_until 20 test -s saw1 -a -s saw2
	for i in {1..15}; do
		push_one_more "$i"
	done
	"$@"
	touch over
	for i in "${readers[@]}"; do
		wait "$i"
	done
	for i in 1 2; do
		is_forward "saw$i"
		[ "$(tail -n 1 "saw$i")" = "$(commit_of main)" ]
	done
	cat counts
}

push_until_five_are_seen() {
	local i
	for i in {16..100}; do
		[ "$(wc -l <saw1)" -lt 5 ] || break
		push_one_more "$i"
	done
}

never_back_here() {
	serve_one
	warm
	pushes_and_readers push_until_five_are_seen
	[ "$(wc -l <saw1)" -ge 5 ]
}

# The last push may not have been noticed yet, which in_sync cannot know.
copy_has_main() {
	[ "$(git -C paris/git/r.git rev-parse main)" = "$(commit_of main)" ]
}

never_back_there() {
	make_sites
	set_conf paris http.anonymousRead true
	make_repository london/git/r.git 3
	start_sites
	wait_until 30 in_sync
	R=$PWD/london/git/r.git
	U=$(site_url paris)/r.git
	warm
	pushes_and_readers wait_until 30 copy_has_main
	wait_until 30 in_sync
	both_are_stock paris/git/r.git
}

tap_test "each of two hundred changes is in the next answer" every_change
tap_test "inside a bracket git answers, nothing is kept, others still hit" inside_a_bracket
tap_test "a restart keeps what is true, and nothing else" a_restart
tap_test "changes past all hooks are seen at once" out_of_band
tap_test "odd refs, new directories and included files are seen at once" odd_changes
tap_test "capabilities follow the configuration at once" capabilities
tap_test "maintenance changes no answer and breaks no clone" maintenance
tap_test "hits start no git, and a crowd after a change starts one" no_git_for_hits
tap_test "a moved, removed or replaced repository is seen at once" other_places
tap_test "a renamed folder is seen at once" folders
tap_test "NAME and NAME.git are one, and what hides the other is seen at once" names
tap_test "cache clear makes everything anew" clearing
tap_test "a secondary that is in sync shows the new refs" secondaries
tap_test "while others push no reader sees a ref go back" never_back_here
tap_test "while others push at the primary no reader of a copy sees a ref go back" \
	never_back_there
tap_done
