#!/usr/bin/env bash
# Reading against what means harm, or is as broken as if it did: bodies that lie, odd
# headers and paths, links in the tree, and a directory of the cache that is full, gone,
# not ours, or written by others.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"

# The whole answer to GET info/refs, by git itself.
gits_list() {
	printf '001e# service=git-upload-pack\n0000'
	git upload-pack --http-backend-info-refs "$R"
}

is_right() {
	adv >now && cmp now <(gits_list)
}

rss_kb() {
	awk '/^VmRSS/ { print $2 }' "/proc/$(site_pid one)/status"
}

grew_by_less() { # KB-BEFORE KB
	local now
	now=$(rss_kb)
	echo "from $1 kB to $now kB"
	grep -aq __asan_init "$REFRELAY" && return
	[ $((now - $1)) -lt "$2" ] || fail "memory grew from $1 to $now kB"
}

status_of_post() { # CURL-OPTION...: of standard input
	post -o answer -w '%{http_code}' "$@"
}

is_refused() { # STATUS CURL-OPTION...
	local wanted=$1 said
	shift
	said=$(status_of_post "$@")
	[ "$said" = "$wanted" ] || fail "$said instead of $wanted: $(head -c 300 answer)"
}

bodies_that_lie() {
	local before
	make_served
	start_site one
	is_right
	ls_refs | gzip >whole
	ls_refs | post >wanted
	post -H 'Content-Encoding: gzip' <whole >answer
	cmp answer wanted
	post -H 'Content-Encoding: x-gzip' <whole >answer
	cmp answer wanted
	post -H 'Transfer-Encoding: chunked' -H 'Content-Encoding: gzip' <whole >answer
	cmp answer wanted
	ls_refs | post -H 'Transfer-Encoding: chunked' >answer
	cmp answer wanted
	head -c 30 whole | is_refused 400 -H 'Content-Encoding: gzip'
	head -c 5 whole | is_refused 400 -H 'Content-Encoding: gzip'
	head -c 100000 /dev/urandom | is_refused 400 -H 'Content-Encoding: gzip'
	head -c 100000 /dev/urandom | is_refused 400
	ls_refs | is_refused 415 -H 'Content-Encoding: br'
	ls_refs | is_refused 415 -H 'Content-Encoding: gzip, gzip'
	before=$(rss_kb)
	# 10 GB of zeros in 10 MB: members of gzip one after another are one stream.
	head -c 104857600 /dev/zero | gzip -9 >piece
	for i in $(seq 100); do cat piece; done >bomb
	is_refused 413 -H 'Content-Encoding: gzip' <bomb
	is_refused 413 -H 'Content-Encoding: gzip' -H 'Transfer-Encoding: chunked' <bomb
	grew_by_less "$before" 65536
	[ -z "$(find one/data/tmp -type f)" ]
	is_right
	stop_site one
}

raw() { # BYTES: sent as they are; the first line of the answer
	local host=${U#http://} port
	host=${host%%/*}
	port=${host##*:}
	exec 7<>"/dev/tcp/127.0.0.1/$port"
	printf '%b' "$1" >&7
	timeout 20 head -n 1 <&7 | tr -d '\r' || true
	exec 7>&-
}

odd_headers() {
	local version long
	make_served
	start_site one
	is_right
	for version in 0 9 -1 version=x 'version=0' ':::' 'version=9'; do
		[ "$(adv '' -H "Git-Protocol: $version" | sha1sum)" = "$(sha1sum <now)" ]
	done
	[[ $(raw "GET / HTTP/1.1\r\nHost: x\r\nGit-Protocol: \x01\r\n\r\n") == *" 400 "* ]]
	adv 2 >two
	for version in version=1:x:version=2 version=2:version=2 version=2:version=9 ; do
		adv '' -H "Git-Protocol: $version" | cmp - two
	done
	long=$(printf 'x%.0s' $(seq 5000))
	adv '' -H "Git-Protocol: $long" | cmp - now
	adv '' -H "X-Long: $long" | cmp - now
	long=$(head -c 60000 /dev/zero | tr '\0' x)
	[[ $(raw "GET /r.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\nX: $long\r\n\r\n") != *" 200 "* ]]
	[[ $(raw "GET /$long HTTP/1.1\r\nHost: x\r\n\r\n") != *" 200 "* ]]
	[[ $(raw "POST /r.git/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n") != *" 200 "* ]]
	[[ $(raw "POST /r.git/git-upload-pack HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0000") != *" 200 "* ]]
	is_right
	stop_site one
}

paths_that_lead_elsewhere() {
	local path base
	make_served
	base=${U%/r.git}
	make_repository outside.git 3
	mkdir -p one/git/real
	make_repository one/git/real/x.git 3
	ln -s "$PWD/outside.git" one/git/link.git
	ln -s real one/git/alias
	ln -s x.git one/git/real/y.git
	cp -r one/git/real/x.git one/git/odd.git
	mv one/git/odd.git/refs one/git/odd.git/refs-elsewhere
	ln -s refs-elsewhere one/git/odd.git/refs
	start_site one
	[ "$(code "$base/real/x.git/info/refs?service=git-upload-pack")" = 200 ]
	[ "$(code "$base/real/x/info/refs?service=git-upload-pack")" = 200 ]
	for path in ../r.git ../../one/git/r.git ./r.git r.git/../r.git real//x.git %2e%2e/r.git \
		%2e%2e%2fr.git r.git%00 r.git%2f..%2fr.git link.git alias/x.git real/y.git \
		real r.git/refs r.git/objects .git '' / %ff%fe r.git%0a real/x.git/refrelay \
		"$(printf 'a/%.0s' $(seq 2000))"; do
		said=$(code --path-as-is "$base/$path/info/refs?service=git-upload-pack")
		[[ $said == 4* ]] || fail "$said for $path"
		said=$(ls_refs | U=$base/$path post --path-as-is -o answer -w '%{http_code}')
		[[ $said == 4* ]] || fail "$said for posting to $path"
	done
	said=$(code "$base/odd.git/info/refs?service=git-upload-pack")
	[[ $said != 000 ]]
	ln -sfn "$PWD/outside.git" one/git/r2.git
	[ "$(code "$base/r2.git/info/refs?service=git-upload-pack")" = 404 ]
	is_right
	stop_site one
}

entries() {
	find one/data/cache -type f -regex '.*/[0-9a-f][0-9a-f]/[0-9a-f]*'
}

there_are_entries() { # COUNT
	[ "$(entries | wc -l)" -eq "$1" ]
}

# Without what the node has in memory.
again() {
	stop_site one
	start_site one
}

entries_that_are_broken() {
	local entry other
	make_served
	make_repository one/git/other.git 5
	start_site one
	is_right
	wait_until 10 there_are_entries 1
	entry=$(entries)
	curl -fsS -o /dev/null "${U%r.git}other.git/info/refs?service=git-upload-pack"
	wait_until 10 there_are_entries 2
	other=$(entries | grep -vxF "$entry")
	cp "$entry" good
	again
	head -c 100 good >"$entry"
	is_right
	wait_until 10 cmp good "$entry"
	again
	cp "$other" "$entry"
	is_right
	wait_until 10 cmp good "$entry"
	again
	{ head -c 200 good; head -c 50 /dev/urandom; tail -c +251 good; } >"$entry"
	is_right
	wait_until 10 cmp good "$entry"
	again
	: >"$entry"
	is_right
	again
	rm -f "$entry"
	mkfifo "$entry"
	is_right
	again
	rm -f "$entry"
	ln -s /etc/passwd "$entry"
	is_right
	[ -s /etc/passwd ]
	again
	rm -rf "$entry"
	mkdir "$entry"
	is_right
	stop_site one
}

# The node runs all the time, and has nothing in memory.
a_cache_that_changes_under_it() {
	make_served
	set_conf one serve.cacheMemory 0
	start_site one
	wait_until 10 is_kept
	wait_until 10 rm -rf one/data/cache
	is_right
	bracketed true
	wait_until 10 is_kept
	wait_until 10 make_it_a_file
	is_right
	bracketed true
	is_right
	mkdir elsewhere folders
	ln -sfnT "$PWD/elsewhere" one/data/cache # as its owner may well do
	bracketed true
	wait_until 10 is_kept_elsewhere
	wait_until 10 make_it_anybodys
	bracketed true
	is_right
	there_are_entries 0
	rmdir one/data/cache
	bracketed true
	is_right
	wait_until 10 is_kept
	wait_until 10 make_its_folders_links
	bracketed true
	is_right
	is_right
	[ -z "$(ls folders)" ]
	stop_site one
}

is_kept() {
	is_right || return
	[ "$(entries | wc -l)" -gt 0 ]
}

is_kept_elsewhere() {
	is_right || return
	[ -n "$(find elsewhere -type f)" ]
}

# The node writes to the cache after it has answered, and creates a missing directory for that:
# a write that is still under way can undo the first step before the second one.
make_it_a_file() {
	rm -rf one/data/cache && echo >one/data/cache
}

make_it_anybodys() {
	rm -rf one/data/cache && mkdir -m 777 one/data/cache
}

make_its_folders_links() {
	local folder
	for folder in {0..255}; do
		printf -v folder 'one/data/cache/%02x' "$folder"
		rm -rf "$folder" && ln -sT "$PWD/folders" "$folder" || return
	done
}

is_full_of_nothing_else() {
	[ -z "$(find cache -type f ! -name fill)" ]
}

a_cache_that_cannot_be_written() {
	[ "$(id -u)" -eq 0 ] || skip "only root can mount a file system of a certain size"
	make_served
	mkdir -p -m 700 cache
	set_conf one serve.cache "$PWD/cache"
	mount -t tmpfs -o size=16k,mode=700 refrelay-test cache 2>/dev/null ||
		skip "no tmpfs can be mounted here"
	trap 'umount -l "$TEST_DIR/cache" 2>/dev/null || true' EXIT
	head -c 16384 /dev/zero >cache/fill 2>/dev/null || true
	start_site one
	is_right
	bracketed true
	is_right
	wait_until 10 is_full_of_nothing_else
	rm cache/fill
	wait_until 10 mount -o remount,ro cache # not while a file is being written
	bracketed true
	is_right
	mount -o remount,rw cache
	bracketed true
	is_right
	wait_until 10 eval '[ -n "$(find cache -type f)" ]'
	stop_site one
	umount cache
}

count_fds() {
	find "/proc/$(site_pid one)/fd" -mindepth 1 | wc -l
}

count_watches() {
	cat "/proc/$(site_pid one)"/fdinfo/* 2>/dev/null | grep -c '^inotify wd' || true
}

# Each has four directories or so; nothing of a repository that nobody asks again may
# stay for ever, and what stays is bounded.
many_repositories_asked_once() {
	local before fds count=5000
	! grep -aq __asan_init "$REFRELAY" || count=1000 # it is slow
	make_served 5
	mkdir one/git/many
	python3 - "$R" one/git/many "$count" <<'END'
import os, sys
source, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
oid = os.popen('git -C %s rev-parse main' % source).read().strip()
objects = os.path.abspath(source + '/objects')
for i in range(count):
    path = '%s/%d.git' % (folder, i)
    for each in ('', '/refs', '/refs/heads', '/refs/tags', '/objects', '/objects/info'):
        os.mkdir(path + each)
    for name, text in (('HEAD', 'ref: refs/heads/main\n'),
                       ('config', '[core]\n\trepositoryformatversion = 0\n\tbare = true\n'),
                       ('objects/info/alternates', objects + '\n'),
                       ('packed-refs', oid + ' refs/heads/main\n')):
        with open(path + '/' + name, 'w') as file:
            file.write(text)
END
	seq 0 $((count - 1)) | sed "s,.*,url = ${U%r.git}many/&.git/info/refs?service=git-upload-pack,
		a output = /dev/null" >urls
	start_site one
	is_right
	before=$(rss_kb)
	fds=$(count_fds)
	curl -fsS -Z --parallel-max 8 -K urls
	grew_by_less "$before" 131072
	[ "$(count_watches)" -le 40000 ] || fail "$(count_watches) watches"
	[ "$(count_fds)" -le $((fds + 40)) ] || fail "$(count_fds) descriptors after $fds"
	[ "$(metric_of one refrelay_refs_generations)" -le 4096 ]
	is_right
	stop_site one
}

# A user namespace has limits of its own, so that nobody else's watches go short.
no_watches_are_to_be_had() {
	unshare -U -r sh -c 'echo 0 >/proc/sys/user/max_inotify_watches' 2>/dev/null ||
		skip "no user namespace with limits of its own can be made here"
	make_served
	cat >limited <<-END
		#!/bin/sh
		exec unshare -U -r sh -c 'echo 3 >/proc/sys/user/max_inotify_watches &&
			exec "\$0" "\$@"' "$REFRELAY" "\$@"
	END
	chmod +x limited
	REFRELAY=$PWD/limited launch_site one
	wait_until 20 is_serving one
	is_right
	is_right
	[ "$(count_watches)" -le 3 ]
	git -C "$R" update-ref refs/heads/new main
	[ "$(oid refs/heads/new)" = "$(commit_of main)" ]
	git -C "$R" update-ref -d refs/heads/new
	[ -z "$(oid refs/heads/new || true)" ]
	is_right
	stop_site one
}

# Git would show its reader parts of whatever the link leads to.
links_for_packed_refs() {
	local target
	make_served
	git -C "$R" pack-refs --all
	mv "$R/packed-refs" list
	echo "a secret: of the site" >secret
	start_site one
	for target in "$PWD/secret" "$PWD/list" "$PWD/nowhere" packed-refs "$PWD" /proc/self/environ; do
		ln -sfn "$target" "$R/packed-refs"
		for version in 0 2; do
			curl -s -o answer -w '%{http_code}\n' -H "Git-Protocol: version=$version" \
				"$U/info/refs?service=git-upload-pack" >status
			if [ "$version" = 0 ]; then
				grep -q '^4' status
				grep -q 'packed-refs is a symbolic link' answer
			fi
			grep -q secret answer && fail "$(cat answer)"
		done
		fails git ls-remote "$U" 2>err
		grep -q 'packed-refs is a symbolic link' err
		grep -q 'secret:' err && fail "$(cat err)"
	done
	rm "$R/packed-refs"
	mv list "$R/packed-refs"
	git ls-remote "$U" | grep refs/heads/main
	stop_site one
}

tap_test "bodies that lie are refused, and take no memory" bodies_that_lie
tap_test "odd headers are what git takes them for" odd_headers
tap_test "no path leads elsewhere" paths_that_lead_elsewhere
tap_test "entries that are broken are made anew" entries_that_are_broken
tap_test "the cache may change or vanish while it is used" a_cache_that_changes_under_it
tap_test "the cache may be full or read-only" a_cache_that_cannot_be_written
tap_test "many repositories asked once" many_repositories_asked_once
tap_test "a node without watches" no_watches_are_to_be_had
tap_test "a packed-refs that is a link shows no other file, and no empty repository" \
	links_for_packed_refs
tap_done
