#!/usr/bin/env bash
# The manifest of a site's repositories, as grokmirror 2.0.12 reads it: pip fetches it, in the
# versions of the lock file in tests/peers/grokmirror, and keeps it in the cache of whoever runs
# this: the first run takes a network.
cache=${HOME:-/root}
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"

set_up() {
	python3 -m venv venv
	venv/bin/pip install -q --require-hashes --cache-dir "$cache/.cache/pip" \
		-r "$TESTS/peers/grokmirror/requirements.txt" || fail "pip cannot fetch grokmirror: see above"
	make_sites
	make_repository london/git/team/a.git 3
	make_repository london/git/team/b.git 2
	make_repository london/git/other/c.git 1
	give_token london team read 'team/*'
	start_sites
	wait_until 20 in_sync
	mkdir mirror
	cat >grokmirror.conf <<-END
		[core]
		toplevel = $PWD/mirror
		manifest = \${toplevel}/manifest.js.gz
		log = $PWD/grokmirror.log
		loglevel = debug
		[remote]
		site = $(site_url london)
		manifest = \${site}/manifest.js.gz
		[pull]
		default_owner = Nobody
		include = *
		refresh = 1
		purge = yes
		purgeprotect = 90
		projectslist =
		[fsck]
		frequency = 30
	END
}

grok_pull() {
	venv/bin/grok-pull -v -c grokmirror.conf >out 2>&1 || { cat out; return 1; }
}

is_there() { # NAME
	diff <(git -C "london/git/$1.git" for-each-ref) <(git -C "mirror/$1.git" for-each-ref)
}

is_followed() {
	cd "$SHARED"
	grok_pull
	for name in team/a team/b other/c; do
		is_there "$name"
	done
	add_commits london/git/team/a.git refs/heads/main 2
	at london changed team/a
	grok_pull
	is_there team/a
	remove_repository london/git/other/c.git
	report_removed london other/c
	grok_pull
	[ ! -e mirror/other/c.git ]
}

manifest() { # SITE [CURL-OPTION...]
	curl -fsS "${@:2}" "$(site_url "$1")/manifest.js.gz" | gzip -dc
}

keys() {
	python3 -c 'import json, sys; print(*sorted(json.load(sys.stdin)))'
}

for_its_reader() {
	cd "$SHARED"
	[ "$(manifest london | keys)" = '/team/a.git /team/b.git' ]
	set_conf london http.anonymousRead false
	kill -HUP "$(site_pid london)"
	wait_until 20 fails manifest london
	make_repository london/git/secret.git 1
	at london changed secret
	[ "$(manifest london -u "any:$(cat team.token)" | keys)" = '/team/a.git /team/b.git' ]
	fails manifest london -u any:wrong
}

each_change_has_its_time() {
	cd "$SHARED"
	curl -fsS -u "any:$(cat team.token)" -D head -o one "$(site_url london)/manifest.js.gz"
	sed -n 's/^Last-Modified: \(.*\)\r$/\1/p' head >time
	[ "$(curl -s -o same -w '%{http_code}' -u "any:$(cat team.token)" \
		-H "If-Modified-Since: $(cat time)" "$(site_url london)/manifest.js.gz")" = 304 ]
	add_commits london/git/team/b.git refs/heads/main 1
	at london changed team/b
	[ "$(curl -s -o other -w '%{http_code}' -u "any:$(cat team.token)" \
		-H "If-Modified-Since: $(cat time)" "$(site_url london)/manifest.js.gz")" = 200 ]
	fails cmp one other

	# After a reload this reader may be allowed others.
	curl -fsS -u "any:$(cat team.token)" -D head -o one "$(site_url london)/manifest.js.gz"
	sed -n 's/^Last-Modified: \(.*\)\r$/\1/p' head >time
	kill -HUP "$(site_pid london)"
	wait_until 20 is_given_since "$(cat time)"
}

is_given_since() { # TIME
	[ "$(curl -s -o same -w '%{http_code}' -u "any:$(cat team.token)" \
		-H "If-Modified-Since: $1" "$(site_url london)/manifest.js.gz")" = 200 ]
}

of_a_secondary() {
	cd "$SHARED"
	set_conf paris http.anonymousRead true
	kill -HUP "$(site_pid paris)"
	wait_until 20 in_sync
	wait_until 20 manifest paris
	diff <(manifest paris | python3 -c 'import json, sys
print({name: entry["fingerprint"] for name, entry in json.load(sys.stdin).items()}["/team/b.git"])') \
		<(at london checksum --grokmirror team/b)
}

# What grok-manifest wrote, as a mirror of kernel.org has it: a tree of files behind a web server.
tell() { # [OPTION...]
	venv/bin/grok-manifest -m "$PWD/tree/manifest.js.gz" -t "$PWD/tree" "$@" >out 2>&1 || { cat out; return 1; }
}

is_brought() { # NAME
	[ -d "rome/git/$1.git" ] &&
		diff <(git -C "tree/$1.git" for-each-ref) <(git -C "rome/git/$1.git" for-each-ref) &&
		same_text "tree/$1.git/HEAD" "rome/git/$1.git/HEAD"
}

make_grown() { # NAME
	make_repository "tree/$1.git" 3
	git -C "tree/$1.git" update-server-info
}

is_away() { # NAME
	[ ! -e "rome/git/$1.git" ]
}

a_tree_of_grokmirrors() {
	local name

	cd "$SHARED"
	for name in pub/x pub/deep/y pub/z; do
		make_grown "$name"
	done
	tell
	gzip -dc tree/manifest.js.gz | grep fingerprint
	python3 -m http.server --bind 127.0.0.1 --directory tree 0 >served 2>&1 &
	wait_until 10 grep -q 'Serving HTTP' served
	mkdir -p rome/git
	set_conf rome site.name rome
	set_conf rome site.role standalone
	set_conf rome site.repositories "$PWD/rome/git"
	set_conf rome site.data "$PWD/rome/data"
	set_conf rome http.listen "127.0.0.1:$(free_port)"
	set_conf rome mirrors.kernel.from grokmirror
	set_conf rome mirrors.kernel.url "http://127.0.0.1:$(sed -n 's/.* port \([0-9]*\) .*/\1/p' served)/manifest.js.gz"
	set_conf rome mirrors.kernel.interval 1s
	start_site rome
	for name in pub/x pub/deep/y pub/z; do
		wait_until 40 is_brought "$name"
	done
	add_commits tree/pub/x.git refs/heads/main 2
	git -C tree/pub/x.git branch topic
	git -C tree/pub/x.git update-server-info
	tell "$PWD/tree/pub/x.git"
	wait_until 40 is_brought pub/x
	make_grown pub/new
	tell "$PWD/tree/pub/new.git"
	wait_until 40 is_brought pub/new
	tell -x "$PWD/tree/pub/z.git" # its -p ends with an error of Python's
	remove_repository tree/pub/z.git
	gzip -dc tree/manifest.js.gz >told
	fails grep -q pub/z told
	wait_until 40 is_away pub/z
	is_brought pub/deep/y
	# what does not change costs nothing more
	wait_until 10 grep -q '"GET /manifest.js.gz HTTP/1.1" 304' served
}

tap_set_up set_up
tap_test "grokmirror brings what it lists, follows changes, and removes what is gone" is_followed
tap_test "it lists what its reader may read" for_its_reader
tap_test "what changes within a second has another time" each_change_has_its_time
tap_test "a secondary lists its copies" of_a_secondary
tap_test "a tree that grok-manifest tells of is followed: changes, new ones, and those that go" \
	a_tree_of_grokmirrors
tap_done
