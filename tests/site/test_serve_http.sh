#!/usr/bin/env bash
# Reading over HTTP: the bytes are git's, whatever the protocol, coding or method; what is
# asked wrongly or without a right gets an error that says so.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"

serve_one() { # [VAR=VALUE...]
	make_served
	start_site one "$@"
}

# What is followed while it is made has no length and no tag: on a busy machine the first, and
# others until it is kept.
warm() {
	wait_until 10 is_tagged
}

# Git would ask: what it asks with leaves a trace.
nobody_pushes() {
	serve_one
	git clone -q "$U" work
	git -C work checkout -q -b mine
	printf '#!/bin/sh\ntouch "%s/asked"\n' "$PWD" >ask
	chmod +x ask
	fails env GIT_ASKPASS="$PWD/ask" git -C work push origin mine 2>err
	grep -q '^remote: nobody may push to this site' err
	grep -q 'error: 403' err
	[ ! -e asked ]
	set_conf one token.dev.file "$PWD/dev"
	set_conf one token.dev.rights push
	(umask 077 && echo 0123456789abcdef-dev >dev)
	kill -HUP "$(site_pid one)"
	wait_until 10 git_asks
}

git_asks() {
	env GIT_ASKPASS="$PWD/ask" git -C work push origin mine 2>err
	[ -e asked ]
}

# The answer in ./answer, its headers in ./head, without the ends of their lines.
get() { # CURL-OPTION...
	rm -f answer
	curl -sS -m 30 -o answer -D raw --path-as-is "$@"
	tr -d '\r' <raw >head
}

header() { # NAME
	sed -n "s/^$1: //Ip" head
}

status() {
	sed -n '1s,^HTTP/[0-9.]* \([0-9]*\).*,\1,p' head
}

refs_of() { # CURL-OPTION...
	get "$@" "$U/info/refs?service=git-upload-pack"
}

stock_v0() {
	printf '001e# service=git-upload-pack\n0000'
	git upload-pack --http-backend-info-refs "$R"
}

stock_v1() {
	printf '001e# service=git-upload-pack\n0000'
	GIT_PROTOCOL=version=1 git upload-pack --http-backend-info-refs "$R"
}

stock_v2() { # with what we offer besides
	GIT_PROTOCOL=version=2 git -c uploadpack.allowFilter=true upload-pack \
		--http-backend-info-refs "$R"
}

bytes_of_each_protocol() {
	local i

	serve_one
	for i in miss hit; do
		adv >answer
		cmp answer <(stock_v0)
	done
	[ "$(count_reused)" -eq 1 ]
	for i in 1 2; do
		adv 1 >answer
		cmp answer <(stock_v1)
		adv 2 >answer
		sed 's/^001e# service=git-upload-pack$//' answer | grep -a version | head -n 1
		cmp <(tail -c "$(stock_v2 | wc -c)" answer) <(stock_v2)
		fails grep -a refs/ answer
	done
	adv 1:x:version=2 >answer2
	cmp answer answer2
	adv 9 >answer
	cmp answer <(stock_v0)
	refs_of -H 'Git-Protocol: version=2:version=1'
	cmp answer answer2
	[ "$(count_of miss)" -eq 1 ]
	ls_refs >all
	post <all >answer
	cmp answer <(GIT_PROTOCOL=version=2 git upload-pack --stateless-rpc "$R" <all)
}

headers() {
	local version

	serve_one
	warm
	for version in 0 1 2 2; do
		refs_of -H "Git-Protocol: version=$version"
		[ "$(status)" = 200 ]
		[ "$(header content-type)" = application/x-git-upload-pack-advertisement ]
		[ "$(header expires)" = 'Fri, 01 Jan 1980 00:00:00 GMT' ]
		[ "$(header pragma)" = no-cache ]
		[ "$(header cache-control)" = 'no-cache, max-age=0, must-revalidate' ]
		[ "$(header vary)" = 'Git-Protocol, Accept-Encoding' ]
		[ "$(header content-length)" -eq "$(wc -c <answer)" ]
		[ -z "$(header content-encoding)" ]
		[[ $(header etag) == '"'*'"' ]]
	done
	ls_refs | get --data-binary @- -H 'Git-Protocol: version=2' \
		-H 'Content-Type: application/x-git-upload-pack-request' "$U/git-upload-pack"
	[ "$(status)" = 200 ]
	[ "$(header content-type)" = application/x-git-upload-pack-result ]
	[ "$(header cache-control)" = 'no-cache, max-age=0, must-revalidate' ]
	[ "$(header content-length)" -eq "$(wc -c <answer)" ]
	[ -z "$(header etag)" ]
}

# What is kept; what is passed on as git says it has no tag.
is_tagged() { # CURL-OPTION...
	refs_of "$@"
	[ -n "$(header etag)" ]
}

is_packed() {
	refs_of -H 'Accept-Encoding: gzip'
	[ "$(header content-encoding)" = gzip ]
}

# All representations: protocol and coding; what HEAD says is what GET gives.
representations() {
	local version coding tag tags=

	make_served
	for i in {1..200}; do
		echo "create refs/heads/many/$i $(commit_of main)"
	done | git -C "$R" update-ref --stdin
	start_site one
	adv >/dev/null
	wait_until 10 is_packed # soon after it was made
	for version in 0 1 2; do
		adv "$version" >plain
		for coding in identity gzip 'deflate, gzip, br, zstd' 'gzip;q=0, *'; do
			refs_of -H "Git-Protocol: version=$version" \
				-H "Accept-Encoding: $coding"
			[ "$(status)" = 200 ]
			cp head head.get
			tag=$(header etag)
			[ "$(header content-length)" -eq "$(wc -c <answer)" ]
			case $coding in
			identity | 'gzip;q=0, *')
				[ -z "$(header content-encoding)" ]
				cmp plain answer
				;;
			*)
				[ "$version" != 0 ] || [ "$(header content-encoding)" = gzip ]
				if [ -n "$(header content-encoding)" ]; then
					gzip -dc <answer >unpacked
				else
					cp answer unpacked
				fi
				cmp plain unpacked
				[ "$version" != 0 ] ||
					[ "$(wc -c <answer)" -lt "$(wc -c <plain)" ]
				;;
			esac
			tags+="$version $(header content-encoding) $tag"$'\n'
			refs_of -I -H "Git-Protocol: version=$version" \
				-H "Accept-Encoding: $coding"
			diff <(grep -iv '^date:' head) <(grep -iv '^date:' head.get)
			refs_of -H "Git-Protocol: version=$version" \
				-H "Accept-Encoding: $coding" \
				-H "If-None-Match: \"other\", W/$tag"
			[ "$(status)" = 304 ]
			[ "$(header etag)" = "$tag" ]
			[ "$(header vary)" = 'Git-Protocol, Accept-Encoding' ]
			[ ! -e answer ] || [ ! -s answer ]
		done
	done
	# A tag is of one representation, and the other way round.
	[ "$(sort -u <<<"$tags" | wc -l)" -eq "$(sort -u <<<"$tags" | awk '{ print $NF }' |
		sort -u | wc -l)" ] || fail "$tags"
	refs_of -H 'If-None-Match: *'
	[ "$(status)" = 304 ]
	refs_of -H 'If-None-Match: "none"'
	[ "$(status)" = 200 ]
}

tags_follow_changes() {
	local tag new

	serve_one
	new=$(commit_of side)
	warm
	tag=$(header etag)
	refs_of -H "If-None-Match: $tag"
	[ "$(status)" = 304 ]
	git -C "$R" update-ref refs/heads/main "$new"
	refs_of -H "If-None-Match: $tag"
	[ "$(status)" = 200 ]
	[ "$(header etag)" != "$tag" ]
	grep -aq "$new refs/heads/main" answer
	wait_until 10 is_tagged
	tag=$(header etag)
	git -C "$R" config uploadpack.hideRefs refs/tags
	refs_of -H "If-None-Match: $tag"
	[ "$(status)" = 200 ]
	fails grep -a refs/tags answer
	wait_until 10 is_tagged
	tag=$(header etag)
	bracketed sh -c "curl -s -o /dev/null -w '%{http_code}' \
		-H 'If-None-Match: $tag' '$U/info/refs?service=git-upload-pack'" >code
	[ "$(<code)" = 200 ]
}

# Stock clients of all protocols, on all sorts of repositories.
git_clients() {
	local version

	serve_one
	git -C "$R" symbolic-ref refs/heads/alias refs/heads/side
	for version in 0 1 2; do
		git -c protocol.version=$version clone -q --mirror "$U" "clone$version"
		git -C "clone$version" fsck --no-progress --no-dangling
		diff <(git ls-remote "$R") \
			<(git -c protocol.version=$version ls-remote "$U")
		diff <(git ls-remote "$R" 'v*' main) \
			<(git -c protocol.version=$version ls-remote "$U" 'v*' main)
		diff <(git ls-remote --symref "$R" HEAD) \
			<(git -c protocol.version=$version ls-remote --symref "$U" HEAD)
	done
	[ "$(count_of miss)" -eq 1 ]
	# A change between two fetches of a clone.
	for version in 0 1 2; do
		add_commits "$R" refs/heads/main 1
		git -C "clone$version" -c protocol.version=$version fetch -q
		[ "$(git -C "clone$version" rev-parse main)" = "$(commit_of main)" ]
	done
}

sha256() {
	local version all

	serve_one
	R=$PWD/one/git/s.git
	U=$(site_url one)/s.git
	make_repository "$R" 5 sha256
	git -C "$R" tag -a -m one v1 main~1
	for version in 0 1 2; do
		adv "$version" >answer
		cmp <(tail -c "$(stock_v$version | wc -c)" answer) <(stock_v$version)
		git -c protocol.version=$version clone -q --mirror "$U" "clone$version"
		[ "$(git -C "clone$version" rev-parse main)" = "$(commit_of main)" ]
		git -C "clone$version" fsck --no-progress --no-dangling
	done
	{
		pkt command=ls-refs
		pkt object-format=sha256
		printf 0001
		pkt peel
		pkt symrefs
		printf 0000
	} >all
	post <all >answer
	cmp answer <(GIT_PROTOCOL=version=2 git upload-pack --stateless-rpc "$R" <all)
	add_commits "$R" refs/heads/main 1
	post <all >answer
	cmp answer <(GIT_PROTOCOL=version=2 git upload-pack --stateless-rpc "$R" <all)
	[ "$(count_reused ls_refs)" -ge 1 ]
	# The wrong kind of ids for the repository: git's own answer, not a list.
	ls_refs | get --data-binary @- -H 'Git-Protocol: version=2' \
		-H 'Content-Type: application/x-git-upload-pack-request' "$U/git-upload-pack"
	fails grep -a refs/heads answer
}

empty() {
	local version

	serve_one
	R=$PWD/one/git/empty.git
	U=$(site_url one)/empty.git
	git init -q --bare --initial-branch=trunk "$R"
	for version in 0 1 2; do
		adv "$version" >answer
		cmp <(tail -c "$(stock_v$version | wc -c)" answer) <(stock_v$version)
		[ -s answer ]
		git -c protocol.version=$version clone -q "$U" "clone$version" 2>err
		[ -z "$(git -c protocol.version=$version ls-remote "$U")" ]
	done
	[ "$(git -C clone2 symbolic-ref HEAD)" = refs/heads/trunk ]
	# The first commit is seen at once, and HEAD of another branch stays unborn.
	git -C clone2 commit -q --allow-empty -m first
	git -C clone2 push -q "$R" HEAD:refs/heads/other
	for version in 0 1 2; do
		git -C "clone$version" -c protocol.version=$version fetch -q
		[ "$(git -C "clone$version" rev-parse origin/other)" = "$(commit_of other)" ]
		git -c protocol.version=$version clone -q "$U" "late$version" 2>err
	done
	[ "$(git -C late2 symbolic-ref HEAD)" = refs/heads/trunk ]
	git -C "$R" symbolic-ref HEAD refs/heads/leaf
	git clone -q "$U" moved 2>err
	[ "$(git -C moved symbolic-ref HEAD)" = refs/heads/leaf ]
	git -C "$R" update-ref refs/heads/leaf other
	git clone -q "$U" born
	[ "$(git -C born rev-parse HEAD)" = "$(commit_of other)" ]
}

coded_requests() {
	serve_one
	ls_refs HEAD refs/heads/ >all
	post <all >plain
	grep -aq refs/heads/main plain
	gzip -c all >all.gz
	for coding in gzip x-gzip; do
		post -H "Content-Encoding: $coding" <all.gz >answer
		cmp plain answer
	done
	send() { # FILE CURL-OPTION...
		get --data-binary "@$1" -H 'Git-Protocol: version=2' "${@:2}" \
			-H 'Content-Type: application/x-git-upload-pack-request' \
			"$U/git-upload-pack"
	}
	head -c -6 all.gz >cut.gz
	send cut.gz -H 'Content-Encoding: gzip'
	[ "$(status)" = 400 ]
	head -c 12 all.gz >cut.gz
	send cut.gz -H 'Content-Encoding: gzip'
	[ "$(status)" = 400 ]
	cp all.gz flipped.gz
	printf 'XXXX' | dd of=flipped.gz bs=1 seek="$(($(wc -c <all.gz) - 8))" \
		conv=notrunc status=none
	send flipped.gz -H 'Content-Encoding: gzip'
	[ "$(status)" = 400 ]
	send all -H 'Content-Encoding: gzip'
	[ "$(status)" = 400 ]
	send all -H 'Content-Encoding: br'
	[ "$(status)" = 415 ]
	send all.gz
	[[ $(status) == 4* ]] || [ -s answer ]
	fails grep -a refs/heads answer
	send all -H 'Content-Encoding: identity'
	[[ $(status) == 200 || $(status) == 415 ]]
}

rss_kb() {
	awk '/^VmRSS/ { print $2 }' "/proc/$(site_pid one)/status"
}

# 10 MB that become 10 GB: the same megabyte of zeros again and again.
a_bomb() {
	local before

	serve_one
	python3 - >bomb.gz <<-'END'
		import sys, zlib
		deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
		zeros = bytes(1 << 20)
		head = deflate.compress(zeros) + deflate.flush(zlib.Z_FULL_FLUSH)
		block = deflate.compress(zeros) + deflate.flush(zlib.Z_FULL_FLUSH)
		sys.stdout.buffer.write(head + block * 10239)
	END
	[ "$(wc -c <bomb.gz)" -gt 10000000 ]
	adv >plain
	before=$(rss_kb)
	send() { # CURL-OPTION...
		get --data-binary @bomb.gz -H 'Content-Encoding: gzip' "$@" \
			-H 'Content-Type: application/x-git-upload-pack-request' \
			-H 'Git-Protocol: version=2' "$U/git-upload-pack"
		grep -q '^HTTP/1.1 413' head
		grep -q 'more than 268435456 bytes' answer
	}
	send
	send -H 'Transfer-Encoding: chunked'
	grep -aq __asan_init "$REFRELAY" || [ $(($(rss_kb) - before)) -lt 65536 ] ||
		fail "$before kB became $(rss_kb)"
	[ -z "$(find one/data -type f -size +1M)" ]
	adv >answer
	cmp plain answer
}

# An error has a status that says what it is, and a text.
is_error() { # STATUS-PATTERN CURL-OPTION...
	get "${@:2}"
	# shellcheck disable=SC2053
	[[ $(status) == $1 ]] || fail "$(status) instead of $1: ${*:2}"
	[ -s answer ] || [ "$2" = -I ] || fail "an empty answer: ${*:2}"
}

errors() {
	local base refs='info/refs?service=git-upload-pack' type i

	serve_one
	base=$(site_url one)
	type='Content-Type: application/x-git-upload-pack-request'
	adv >/dev/null
	for i in 1 2; do # nothing of it depends on what came before
		is_error 403 "$U/info/refs?service=git-receive-pack"
		is_error 403 -X POST -H 'Content-Type: application/x-git-receive-pack-request' \
			"$U/git-receive-pack"
		is_error 403 "$U/info/refs?service=git-annex"
		is_error 403 "$U/info/refs?service="
		is_error 403 "$U/info/refs"
		is_error 404 "$base/none.git/$refs"
		is_error 404 "$base/$refs"
		is_error 404 "$U/objects/info/packs"
		is_error 404 "$U/HEAD"
		is_error 404 --data-binary x -H "$type" "$base/none.git/git-upload-pack"
		is_error 405 -X PUT "$U/$refs"
		[[ $(header allow) == *GET* ]]
		is_error 405 "$U/git-upload-pack"
		[[ $(header allow) == *POST* ]]
		is_error 405 -X DELETE "$U/git-upload-pack"
		is_error 415 --data-binary x -H 'Content-Type: text/plain' "$U/git-upload-pack"
		is_error 415 --data-binary x -H "$type; charset=utf-8" "$U/git-upload-pack"
		is_error '4??' "$base/../x"
		is_error '4??' "$base/../r.git/$refs"
		is_error '4??' "$base/x/../r.git/$refs"
		is_error '4??' "$base/%2e%2e/git/r.git/$refs"
		is_error '4??' "$U//$refs"
		is_error '4??' "$base//r.git/$refs"
		is_error '4??' "$base/r%00.git/$refs"
		is_error '4??' "$U/refs/heads/$refs"
		is_error '4??' "$U/.git/$refs"
	done
	get "$U/info/refs?service=git-upload-pack&service=git-receive-pack"
	[[ $(status) == 200 || $(status) == 4* ]]
	git -C one/git init -q --bare broken.git
	adv >/dev/null
	: >one/git/broken.git/HEAD
	get "$base/broken.git/$refs"
	[ "$(status)" != 200 ]
	[ -s answer ]
	rm one/git/broken.git/HEAD
	is_error '[45]??' "$base/broken.git/$refs"
	ln -s r.git one/git/link.git
	is_error 404 "$base/link.git/$refs"
	adv >answer
	cmp answer <(stock_v0)
}

# It is compressed a moment after it was given for the first time.
comes_compressed() {
	adv 0 --compressed -D head >answer && grep -qi '^content-encoding: gzip' head
}

hidden() {
	local secret version

	serve_one
	secret=$(git -C "$R" commit-tree -m secret 'main^{tree}')
	git -C "$R" update-ref refs/hidden/one "$secret"
	# Enough that it is worth to be compressed.
	seq -f "create refs/heads/many/%g $(commit_of main)" 60 | git -C "$R" update-ref --stdin
	adv >answer
	grep -aq refs/hidden/one answer
	git -C "$R" config transfer.hideRefs refs/hidden
	for version in 0 1 2; do
		for i in 1 2; do
			adv "$version" >answer
			fails grep -a -e hidden -e "$secret" answer
			adv "$version" --compressed >answer
			[ -s answer ]
			fails grep -a -e hidden -e "$secret" answer
		done
	done
	wait_until 10 comes_compressed
	grep -aq refs/heads/many/60 answer
	fails grep -a -e hidden -e "$secret" answer
	for i in 1 2; do
		ls_refs | post >answer
		fails grep -a -e hidden -e "$secret" answer
		ls_refs refs/hidden/ | post >answer
		[ "$(<answer)" = 0000 ]
	done
	get "$U/info/refs"
	fails grep -a -e hidden -e "$secret" answer
	{
		pkt "want $secret side-band-64k"
		printf 0000
		pkt done
	} | get --data-binary @- -H 'Content-Type: application/x-git-upload-pack-request' \
		"$U/git-upload-pack"
	grep -aq 'not our ref' answer
	# Under protocol 2 git gives what it is asked for by id: docs/operations.md says so.
	git init -q puller
	expect 128 git -C puller -c protocol.version=0 fetch -q "$U" "$secret"

	git -C "$R" config --unset transfer.hideRefs
	adv | grep -aq refs/hidden/one
	ls_refs refs/hidden/ | post | grep -aq "$secret refs/hidden/one"
	# HEAD itself, and a namespace but for one in it.
	git -C "$R" config transfer.hideRefs refs/heads
	git -C "$R" config --add transfer.hideRefs '!refs/heads/side'
	adv >answer
	cmp answer <(stock_v0)
	ls_refs >all
	post <all >answer
	cmp answer <(GIT_PROTOCOL=version=2 git upload-pack --stateless-rpc "$R" <all)
	grep -aq refs/heads/side answer
	fails grep -a ' refs/heads/main$' answer
}

no_right() {
	local url token=0123456789abcdef-operator tag

	make_served
	(umask 077 && echo "$token" >token)
	set_conf one http.operatorTokenFile "$PWD/token"
	set_conf one http.anonymousRead false
	start_site one
	url="$U/info/refs?service=git-upload-pack"
	refs_of -H "Authorization: Bearer $token"
	[ "$(status)" = 200 ]
	wait_until 10 is_tagged -H "Authorization: Bearer $token"
	tag=$(header etag)
	[ "$(count_of_private hit)" -ge 1 ]
	ls_refs >all
	private_post -H "Authorization: Bearer $token"
	[ "$(status)" = 200 ]
	for right in '' 'Authorization: Bearer 0123456789abcdef-operatoR' \
		"Authorization: Basic $(printf 'x:wrong-wrong-wrong' | base64)"; do
		refs_of -H "$right"
		is_denied
		refs_of -H "$right" -H "If-None-Match: $tag"
		is_denied
		refs_of -H "$right" -H "If-None-Match: *"
		is_denied
		refs_of -H "$right" -I
		is_denied
		refs_of -H "$right" -H 'Accept-Encoding: gzip'
		is_denied
		private_post -H "$right"
		is_denied
		get -H "$right" "$(site_url one)/none.git/info/refs?service=git-upload-pack"
		is_denied
	done
	# On a connection that had the right before.
	curl -s -m 30 -o first -H "Authorization: Bearer $token" "$url" \
		--next -s -m 30 -o second -w '%{http_code} %{num_connects}\n' "$url" >code
	[ "$(<code)" = '401 0' ]
	fails grep -a refs/ second
	refs_of -H "Authorization: Bearer $token" -H "If-None-Match: $tag"
	[ "$(status)" = 304 ]
}

private_post() { # CURL-OPTION...
	get --data-binary @all -H 'Git-Protocol: version=2' "$@" \
		-H 'Content-Type: application/x-git-upload-pack-request' "$U/git-upload-pack"
}

is_denied() {
	[ "$(status)" = 401 ] || fail "$(status)"
	[ -z "$(header etag)" ]
	[[ $(header www-authenticate) == Basic* ]]
	[ ! -e answer ] || fails grep -a refs/heads answer
}

count_of_private() { # CLASS
	curl -fsS -m 30 -H "Authorization: Bearer $(<token)" "$(site_url one)/metrics" |
		awk -v want="kind=\"info_refs\",class=\"$1\"" 'index($0, want) { print $NF }'
}

classes() {
	serve_one
	adv >answer
	adv >answer
	ls_refs | post >answer
	bracketed curl -fsS -o answer "$U/info/refs?service=git-upload-pack"
	git -C "$R" config include.path none
	adv >answer
	git -C "$R" config --unset include.path
	[ "$(count_of miss)" -eq 1 ]
	[ "$(count_reused)" -eq 1 ]
	[ "$(count_reused ls_refs)" -eq 1 ]
	[ "$(count_of bypass_pending)" -eq 1 ]
	[ "$(count_of bypass_config)" -eq 1 ]
	[ "$(count_of disk)" -eq 0 ]
	[ "$(metric_of one refrelay_refs_generations)" -eq 1 ]
	[ "$(metric_of one refrelay_refs_memory_bytes)" -gt 500 ]
	# A writer that was killed on the way. Its command still writes, for all that is known.
	bracketed sh -c 'echo $$ >killer; kill -KILL $PPID' || true
	wait_until 10 is_dead "$(<killer)"
	adv >answer
	[ "$(metric_of one refrelay_refs_recoveries_total)" -eq 1 ]
	# The same key, and other refs.
	adv >answer
	git -C "$R" -c core.hooksPath=/dev/null update-ref refs/heads/unseen main
	adv >answer
	[ "$(metric_of one refrelay_refs_fingerprint_mismatches_total)" -ge 1 ]
}

tap_test "the bytes are git's under each protocol" bytes_of_each_protocol
tap_test "answers have a length, a tag and are asked for again" headers
tap_test "GET, HEAD and 304 agree, with gzip and without, each with its own tag" \
	representations
tap_test "a tag is good until something changes" tags_follow_changes
tap_test "git's own clients see what the repository has" git_clients
tap_test "a repository of SHA-256 is served from the cache as well" sha256
tap_test "an empty repository and an unborn HEAD are cloned and grow" empty
tap_test "requests in gzip are the same, damaged ones are refused" coded_requests
tap_test "ten gigabytes in ten megabytes are refused without harm" a_bomb
tap_test "wrong requests get errors that say what is wrong" errors
tap_test "where nobody could push git says so, and asks for no password" nobody_pushes
tap_test "no answer names a hidden ref" hidden
tap_test "what is cached is for those with a right to it" no_right
tap_test "metrics tell what answered apart" classes
tap_done
