#!/usr/bin/env bash
# The end of a node in which all kinds of requests wait: two seconds at most.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"

PEERS=$TESTS/peers

port_of_one() {
	local url
	url=$(site_url one)
	echo "${url##*:}"
}

make_large() {
	make_served
	git init -q work
	no_compression work "$R"
	head -c 16000000 /dev/urandom >work/noise
	git -C work add noise
	git -C work commit -qm noise
	git -C work push -q "$R" HEAD:refs/heads/noise
	LARGE=$(git -C "$R" rev-parse noise)
	echo "0123456789abcdef0123456789abcdef-slow" >slow.token
	chmod 600 slow.token
	set_conf one token.slow.file "$PWD/slow.token"
	set_conf one token.slow.rights push
	set_conf one http.connections 400
	set_conf one http.connectionsPerClient 400
	start_site one
}

begin() { # PROGRAM ARGUMENT...: in the background, until it says that it is ready
	python3 "$PEERS/$1" "${@:2}" >"$1.out" &
	wait_until 20 grep -qE 'ready|asked' "$1.out"
}

holds() { # KIND COUNT
	curl -fsS "$(site_url one)/metrics" >metrics
	grep -q "^refrelay_upload_pack_running{kind=\"$1\"} $2\$" metrics
}

# Many seconds more, as the machine may be busy: clients would go on for twice as long, or for
# ever.
ends_in_time() {
	local began
	began=$(date +%s%N)
	stop_site one
	echo "$((($(date +%s%N) - began) / 1000000)) ms"
	[ $((($(date +%s%N) - began) / 1000000)) -lt 15000 ]
	wait_until 10 was_logged one node.stopped
}

with_half_requests() {
	make_large
	begin halves.py "$(port_of_one)" 10
	curl -fsS "$(site_url one)/metrics" | grep refrelay_http_requests_open
	ends_in_time
}

# 12 have a place, and 8 wait for one.
with_clones() {
	make_large
	begin slow.py fetch "$(port_of_one)" /r.git 20 127.0.0.1 "$LARGE"
	wait_until 20 holds packs 12
	ends_in_time
}

with_pushes() {
	make_large
	begin slow.py push "$(port_of_one)" /r.git 20 127.0.0.1 "$LARGE" "$(cat slow.token)"
	wait_until 20 holds pushes 12
	ends_in_time
}

# Git hangs where it looks through the history: the thread of the node, or the request, is
# in it, and the other one waits for that.
with_a_search_for_lfs_objects() {
	make_served
	mkdir -p one/lfs bin
	set_conf one blob.lfs.path "$PWD/one/lfs"
	set_conf one blob.lfs.layout lfs
	cat >bin/git <<-END
		#!/bin/sh
		case "\$*" in
		*object:type=blob*) touch "$PWD/hangs"; exec sleep 600 ;;
		esac
		exec $(command -v git) "\$@"
	END
	chmod +x bin/git
	start_site one "PATH=$PWD/bin:$PATH"
	wait_until 20 test -e hangs
	curl -sS -m 60 -o answer -H 'Content-Type: application/vnd.git-lfs+json' --data-binary \
		'{"operation":"download","objects":[{"oid":"'"$(printf %064d 1)"'","size":1}]}' \
		"$U/info/lfs/objects/batch" &
	wait_until 20 requests_are 2
	ends_in_time
}

# That of who asks is one of them.
requests_are() { # COUNT
	curl -fsS "$(site_url one)/metrics" >metrics
	grep -q "^refrelay_http_requests_open $1\$" metrics
}

tap_test "it ends in time with idle connections and half requests" with_half_requests
tap_test "it ends in time with clones that are slow, and others that wait" with_clones
tap_test "it ends in time with pushes that are slow, and others that wait" with_pushes
tap_test "it ends in time with a search of a history for LFS objects" with_a_search_for_lfs_objects
tap_done
