#!/usr/bin/env bash
# Who attacks by way of blobs: clients, and somebody on the machine who swaps directories
# for links.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

put() { # SITE ENCODED-ID [CURL-OPTION...]
	local site=$1 id=$2
	shift 2
	curl -s -m 20 -o answer -w '%{http_code}\n' --path-as-is -X PUT --data-binary evil \
		-H "Authorization: Bearer $(cat operator.token)" \
		-H "Content-Digest: sha-256=:$(printf evil | openssl dgst -sha256 -binary | base64):" "$@" \
		"$(site_url "$site")/api/v1/blobs/uploads/$id"
}

get() { # ENCODED-ID
	curl -s -m 20 -o answer -w '%{http_code}\n' --path-as-is \
		-H "Authorization: Bearer $(cat operator.token)" \
		"$(site_url london)/api/v1/retrieve/uploads/$1"
}

make_uploads() {
	local site
	make_sites
	(umask 077 && openssl rand -hex 32 >operator.token)
	for site in london paris; do
		mkdir -p "$site/uploads"
		set_conf "$site" blob.uploads.path "$PWD/$site/uploads"
	done
	set_conf london http.operatorTokenFile "$PWD/operator.token"
	mkdir victim
	echo precious >victim/secret
	ln -s "$PWD/victim" london/uploads/out
	ln -s "$PWD/victim/secret" london/uploads/link
	echo old >london/uploads/old
	start_sites
	wait_until 20 test -f paris/uploads/old
}

ids_that_lead_elsewhere() {
	local id site said
	make_uploads
	for id in ..%2fx %2e%2e%2fx ..%2f..%2fvictim%2fx %2fetc%2fx a%00 a%2f a%2f%2fb . %2e .. \
		.refrelay .refrelay%2fincoming%2fx a%2f.refrelay-x %c0%ae%c0%ae%2fx %ff a%2f.%2fb \
		out%2fsecret link out "$(printf 'x%.0s' {1..251})" %0d%0a; do
		said=$(get "$id")
		[[ $said = 40[049] ]] || fail "GET $id: $said"
		! grep -q precious answer || fail "it is given out"
		for site in london paris; do
			said=$(put "$site" "$id")
			[[ $said = 40[049] ]] || fail "PUT $id at $site: $said"
		done
	done
	for id in %252e%252e%252fx '..%5c..%5cx'; do # names like others
		[ "$(put london "$id")" = 201 ]
	done
	[ "$(find . -name x)" = '' ]
	[ "$(ls victim)" = secret ]
	# What would be ignored is refused at both.
	for site in london paris; do
		[ "$(put "$site" old -H 'If-None-Match: *')" = 400 ]
		[ "$(put "$site" old -H 'Content-Range: bytes 0-3/9')" = 400 ]
	done
	[ "$(cat london/uploads/old)" = old ]
	[ "$(put paris new)" = 201 ]
	wait_until 20 test -f paris/uploads/new
}

# Until ./swap is gone.
swap() { # DIRECTORY
	while [ -e swap ]; do
		rm -f "$1" || :
		mkdir -p "$1" || :
		mv -T "$1" "$1.$RANDOM$RANDOM" && ln -sT "$PWD/victim" "$1" || :
	done 2>/dev/null
}

directories_become_links() {
	local i swappers=
	make_uploads
	: >swap
	for i in london paris; do
		swap "$i/uploads/d" &
		swappers="$swappers $!"
	done
	for i in {1..60}; do
		put london "d%2Fx$((i % 9))" >>said
		get d%2Fsecret >>said
		! grep -q precious answer || fail "a link was followed"
	done
	rm swap
	wait $swappers
	sort said | uniq -c
	grep -q 409 said || fail 'nothing was in the way'
	! grep -v '20[01]\|40[49]' said || fail 'not told as it is'
	[ "$(ls victim)" = secret ]
	[ "$(cat victim/secret)" = precious ]
	# What is still being put there keeps no folder from being removed.
	mkdir removed
	mv london/uploads/d* removed/
	# It may be gone at that moment, and something may still come into one.
	mv paris/uploads/d removed/at-paris || [ ! -e paris/uploads/d ]
	wait_until 10 rm -rf removed
	[ "$(put london d%2Flast)" = 201 ]
	wait_until 40 test -f paris/uploads/d/last
}

tap_test 'ids lead nowhere else, in whatever form' ids_that_lead_elsewhere
tap_test 'who swaps directories for links leads nobody out' directories_become_links
tap_done
