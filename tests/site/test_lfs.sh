#!/usr/bin/env bash
# Git LFS with Debian's git-lfs: pushed to the primary and through the secondary, cloned
# from either; who may; what is wrong is refused, and what is absent is told.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/lfs.sh"

is_at() { # SITE OID
	[ -s "$(lfs_path "$1" "$2")" ]
}

says() { # PATTERN COMMAND...
	local pattern=$1
	shift
	"$@" >said 2>&1
	grep -qE -- "$pattern" said || fail "$* did not say $pattern: $(cat said)"
}

status_says() { # SITE PATTERN
	at "$1" status >status
	grep -qE -- "$2" status
}

one_site() {
	make_lfs_sites
	start_site london
	lfs_work "$(url_as dev london r)"
}

pushed_and_cloned() {
	local oid

	one_site
	lfs_commit a.bin 70000
	lfs_commit b.bin 3000000
	git -C work push -q origin main >push 2>&1 || fail "$(cat push)"
	! grep -iE 'lock|error|warn.*lfs' push || fail "$(cat push)"
	oid=$(oid_of work/b.bin)
	cmp work/b.bin "$(lfs_path london "$oid")"
	at london events >events
	grep -q "\"kind\":\"lfs\".*\"event\":\"created\".*$oid" events
	lfs_clone "$(url_as looker london r)" clone
	cmp work/a.bin clone/a.bin
	cmp work/b.bin clone/b.bin
	# Nothing is sent twice.
	git -C work lfs push --all origin >push 2>&1
	lfs_commit c.bin 1000
	git -C work push -q origin main >push 2>&1 || fail "$(cat push)"
	oid=$(oid_of work/c.bin)
	wait_until 10 was_logged london blob.put "${oid:4}" # behind the others
	[ "$(logged london blob.put)" -eq 3 ]
}

an_object_in_parts() {
	local oid url answer

	one_site
	lfs_commit a.bin 300000
	git -C work push -q origin main
	oid=$(oid_of work/a.bin)
	answer=$(lfs_batch looker london download "$oid" 300000)
	url=$(grep -o 'http://[^"]*' <<<"$answer")
	curl -fsS -u "any:$(cat looker.token)" -r 1000-1999 -o part -D head "$url"
	grep -q '^HTTP/1.1 206' head
	cmp part <(tail -c +1001 work/a.bin | head -c 1000)
	curl -fsSI -u "any:$(cat looker.token)" "$url" >head
	grep -qi '^content-length: 300000' head
}

who_may_not_is_refused() {
	local oid

	one_site
	lfs_commit a.bin 1000
	git -C work push -q origin main
	oid=$(oid_of work/a.bin)
	says '"message":"this needs a password' lfs_batch '' london download "$oid" 1000
	says NO_CREDENTIALS curl -s "$(lfs_url london)/info/lfs/objects/$oid"
	says '"actions"' lfs_batch looker london download "$oid" 1000
	says FORBIDDEN lfs_batch looker london upload "$oid" 1000
	says FORBIDDEN curl -s -u "any:$(cat looker.token)" -T work/a.bin \
		"$(lfs_url london)/info/lfs/objects/$oid"
	# Its name says nothing of what the request does.
	for name in git-upload-pack refs batch; do
		says FORBIDDEN curl -s -u "any:$(cat looker.token)" -T work/a.bin \
			"$(lfs_url london)/info/lfs/objects/$name"
	done
	says FORBIDDEN curl -s -u "any:$(cat looker.token)" -d '{}' \
		-H 'Content-Type: application/vnd.git-lfs+json' "$(lfs_url london)/info/lfs/verify"
}

# Its name is known, but it belongs to a repository that who asks may not read.
another_repositorys_object_is_not_given() {
	local oid

	make_lfs_sites
	make_repository london/git/other.git 1
	give_token london stranger push other
	start_site london
	lfs_work "$(url_as dev london r)"
	lfs_commit a.bin 5000
	git -C work push -q origin main
	oid=$(oid_of work/a.bin)
	lfs_url() { echo "$(site_url "$1")/other.git"; }
	says '"code":404' lfs_batch stranger london download "$oid" 5000
	says FILE_NOT_FOUND curl -s -u "any:$(cat stranger.token)" "$(lfs_url london)/info/lfs/objects/$oid"
	# Who has it, has it.
	says '"upload"' lfs_batch stranger london upload "$oid" 5000
	curl -fsS -u "any:$(cat stranger.token)" -T work/a.bin "$(lfs_url london)/info/lfs/objects/$oid"
	says '"download"' lfs_batch stranger london download "$oid" 5000
}

wrong_content_leaves_nothing() {
	local oid=0000000000000000000000000000000000000000000000000000000000000000

	one_site
	head -c 5000 /dev/urandom >wrong
	says WRONG_DIGEST curl -s -u "any:$(cat dev.token)" -T wrong \
		"$(lfs_url london)/info/lfs/objects/$oid"
	says WRONG_SIZE curl -s -u "any:$(cat dev.token)" -T wrong \
		"$(lfs_url london)/info/lfs/objects/$(oid_of wrong)?size=4999"
	# Nor if only its end shows how long it is.
	for size in 4999 5001; do
		says WRONG_SIZE curl -s -u "any:$(cat dev.token)" -T wrong -H 'Transfer-Encoding: chunked' \
			"$(lfs_url london)/info/lfs/objects/$(oid_of wrong)?size=$size"
	done
	# Longer than announced is enough to know, before its digest is.
	head -c 3000000 /dev/zero >long
	says WRONG_SIZE curl -s -u "any:$(cat dev.token)" -T long -H 'Transfer-Encoding: chunked' \
		"$(lfs_url london)/info/lfs/objects/$oid?size=4999"
	# Of what is much longer the end is not awaited.
	head -c 60000000 /dev/zero >long
	fails curl -s -u "any:$(cat dev.token)" -T long -H 'Transfer-Encoding: chunked' \
		"$(lfs_url london)/info/lfs/objects/$oid?size=4999"
	[ -z "$(find london/lfs -type f)" ]
	! at london events | grep '"kind":"lfs"' || fail "an event of what was refused"
	says BAD_OID curl -s -u "any:$(cat dev.token)" "$(lfs_url london)/info/lfs/objects/nonsense"
	says '"code":422' lfs_batch dev london upload "${oid:1}" 10
	says MISSING curl -s -u "any:$(cat dev.token)" -T wrong \
		"$(site_url london)/none.git/info/lfs/objects/$(oid_of wrong)"
	[ -z "$(find london/lfs -type f)" ]
}

wrong_batches_are_refused() {
	one_site
	lfs_url_of_batch="$(lfs_url london)/info/lfs/objects/batch"
	ask() { curl -s -i -u "any:$(cat dev.token)" -H 'Content-Type: application/vnd.git-lfs+json' -d "$1" "$lfs_url_of_batch"; }
	says '^HTTP/1.1 422' ask 'no JSON'
	says '^HTTP/1.1 422' ask '{"operation":"delete","objects":[]}'
	says '^HTTP/1.1 409' ask '{"operation":"download","hash_algo":"sha512","objects":[]}'
	says '^HTTP/1.1 422' ask '{"operation":"download","transfers":["tus"],"objects":[]}'
	says '^HTTP/1.1 200' ask '{"operation":"download","objects":[]}'
	says '"code":422' ask '{"operation":"download","objects":[7,{"oid":"../../x","size":-1}]}'
	says WRONG_CONTENT_TYPE curl -s -u "any:$(cat dev.token)" -d '{}' "$lfs_url_of_batch"
}

what_is_absent_is_told() {
	local oid

	one_site
	lfs_commit a.bin 1000
	lfs_commit b.bin 2000
	git -C work push -q origin main
	oid=$(oid_of work/b.bin)
	wait_until 20 status_says london '1 repository$|1 repository.*1 blob|lfs'
	rm "$(lfs_path london "$oid")"
	wait_until 20 status_says london '1 repository names LFS objects that are not here: r \(1 of 2\)'
	at london status --json >said || [ $? -eq 3 ]
	grep -q '"lfs_lacking":\[{"named":2,"absent":1,"name":"r"}\]' said
	at london repository show r >said
	grep -q '^lfs .*"absent":1' said
	fails lfs_clone "$(url_as looker london r)" clone
	grep -q 'the object is not here' clone.err
	# Who has it brings it back.
	says '"upload"' lfs_batch dev london upload "$oid" 2000
	git -C work lfs push --all origin >/dev/null 2>&1
	wait_until 20 eval '! status_says london "LFS objects"'
	lfs_clone "$(url_as looker london r)" clone2
	cmp work/b.bin clone2/b.bin
}

# The names come by git, and not by an upload.
history_that_came_without_objects() {
	one_site
	lfs_commit a.bin 1000
	git -C work -c core.hooksPath=/nowhere push -q "$PWD/london/git/r.git" main
	wait_until 20 status_says london 'r \(1 of 1\)'
	git -C work lfs push --all "$(url_as dev london r)" >/dev/null 2>&1
	wait_until 20 eval '! status_says london "LFS objects"'
}

only_what_is_new_is_looked_through() {
	one_site
	lfs_commit a.bin 1000
	git -C work push -q origin main
	wait_until 10 was_logged london lfs.looked 'found=1 named=1'
	lfs_commit b.bin 1000
	git -C work push -q origin main:side
	wait_until 10 was_logged london lfs.looked 'found=1 named=2'
	git -C work push -q origin :side
	wait_until 10 was_logged london lfs.looked 'found=0 named=2'
	# Without what was kept, all of it is.
	rm -r london/data/lfs
	lfs_commit c.bin 1000
	git -C work push -q origin main
	wait_until 10 was_logged london lfs.looked 'found=3 named=3'
}

two_sites() {
	make_lfs_sites
	start_sites
	wait_until 20 in_sync
	lfs_work "$(url_as looker paris r)"
	git -C work remote set-url --push origin "$(url_as dev paris r)"
}

through_the_secondary() {
	local oid

	two_sites
	lfs_commit a.bin 70000
	lfs_commit b.bin 3000000
	git -C work push -q origin main >push 2>&1 || fail "$(cat push)"
	oid=$(oid_of work/b.bin)
	is_at london "$oid"
	# What is not here yet comes from the primary.
	lfs_clone "$(url_as looker paris r)" early
	cmp work/b.bin early/b.bin
	wait_until 20 in_sync
	wait_until 20 is_at paris "$oid"
	cmp "$(lfs_path london "$oid")" "$(lfs_path paris "$oid")"
	stop_site london
	lfs_clone "$(url_as looker paris r)" clone
	cmp work/a.bin clone/a.bin
	cmp work/b.bin clone/b.bin
}

set_closed() { # KEY VALUE
	git -C london/git/r.git config "$1" "$2"
	at london changed r
	wait_until 20 in_sync
}

lists_r() { # SITE
	curl -fsS -u "any:$(cat looker.token)" "$(site_url "$1")/manifest.js.gz" | gzip -dc | grep -q '"/r.git"'
}

says_403() { # PATTERN COMMAND...
	local pattern=$1
	shift
	"$@" -w ' %{http_code}' | tr -d '\n' >said
	grep -qE -- "$pattern.* 403$" said || fail "$* did not say $pattern: $(cat said)"
}

put_of_dev() { # SITE REPOSITORY [CURL-OPTION...]
	curl -s -u "any:$(cat dev.token)" -T work/a.bin "${@:3}" \
		"$(site_url "$1")/$2.git/info/lfs/objects/$oid"
}

verify_of_dev() { # SITE [CURL-OPTION...]
	curl -s "${@:2}" -u "any:$(cat dev.token)" -d "{\"oid\":\"$oid\",\"size\":1000}" \
		-H 'Content-Type: application/vnd.git-lfs+json' "$(lfs_url "$1")/info/lfs/verify"
}

# What git http-backend would not give, LFS does not, nor does the manifest name it.
what_is_closed_has_no_objects() {
	local oid site

	two_sites
	lfs_commit a.bin 1000
	git -C work push -q origin main >push 2>&1 || fail "$(cat push)"
	oid=$(oid_of work/a.bin)
	wait_until 20 is_at paris "$oid"
	set_closed http.uploadpack false
	for site in london paris; do
		says_403 'http.uploadpack is false' lfs_batch looker "$site" download "$oid" 1000
		says_403 'http.uploadpack is false' curl -s \
			-u "any:$(cat looker.token)" "$(lfs_url "$site")/info/lfs/objects/$oid"
		fails lists_r "$site"
		says '^\{\}$' put_of_dev "$site" r
	done
	# A copy that is not there has no settings.
	mv paris/git/r.git away.git
	says_403 'http.uploadpack is false' curl -s \
		-u "any:$(cat looker.token)" "$(lfs_url paris)/info/lfs/objects/${oid//[0-9]/1}"
	mv away.git paris/git/r.git
	set_closed http.uploadpack true
	set_closed http.receivepack false
	for site in london paris; do
		says '"download"' lfs_batch looker "$site" download "$oid" 1000
		lists_r "$site"
		says_403 'http.receivepack is false' lfs_batch dev "$site" upload "$oid" 1000
		says_403 'http.receivepack is false' put_of_dev "$site" r
		says_403 'http.receivepack is false' verify_of_dev "$site"
	done
}

a_mirror_takes_no_objects() {
	local oid

	make_lfs_sites
	git clone -q --bare london/git/r.git upstream.git
	set_conf london mirror.m.url "$PWD/upstream.git"
	start_site london
	lfs_work "$(url_as dev london r)"
	lfs_commit a.bin 1000
	oid=$(oid_of work/a.bin)
	says_403 'm is a mirror: push to .*/upstream.git instead' put_of_dev london m
	[ -z "$(find london/lfs -type f)" ]
}

# A head, and never its body.
begin_upload() { # OID
	local url fd

	url=$(site_url paris)
	exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}"
	printf 'PUT /r.git/info/lfs/objects/%s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n' \
		"$1" >&"$fd"
	printf 'Authorization: Basic %s\r\n\r\n' "$(printf 'any:%s' "$(cat dev.token)" | base64 -w 0)" \
		>&"$fd"
}

are_open() { # SITE COUNT
	[ "$(curl -fsS "$(site_url "$1")/metrics" |
		awk '/^refrelay_http_requests_open/ { n += $NF } END { print n + 0 }')" -ge "$2" ]
}

# They share the places of objects that are passed on, and not those of Git.
uploads_without_end_leave_the_primary_to_others() {
	local oid here i

	two_sites
	lfs_commit a.bin 1000
	git -C work push -q origin main >push 2>&1 || fail "$(cat push)"
	here=$(oid_of work/a.bin)
	wait_until 20 is_at paris "$here"
	oid=$(printf '1%.0s' {1..64})
	for i in $(seq 12); do
		begin_upload "$oid"
	done
	wait_until 10 are_open london 12
	says 'too many requests are being passed on' lfs_batch dev paris upload "$oid" 1000 -w '%{http_code}'
	grep -q '503$' said
	# Only what is not here fails, and what is here is given.
	says '"code":503' lfs_batch looker paris download "$oid" 1000 -w '%{http_code}'
	grep -q 'at this site yet, and too many requests' said
	grep -q '200$' said
	says '"download"' lfs_batch looker paris download "$here" 1000
	git -C work commit -q --allow-empty -m without
	# Long before they are cut off for their silence, after two minutes.
	timeout 60 git -C work push -q origin main >push 2>&1 || fail "$(cat push)"
}

a_secondary_says_what_it_lacks() {
	local oid

	two_sites
	lfs_commit a.bin 1000
	git -C work push -q origin main
	oid=$(oid_of work/a.bin)
	wait_until 20 in_sync
	rm "$(lfs_path london "$oid")"
	wait_until 20 status_says paris '1 repository names LFS objects that are not here: r \(1 of 1\)'
	fails lfs_clone "$(url_as looker paris r)" clone
	grep -q 'the object is not here' clone.err
	says FORBIDDEN lfs_batch looker paris upload "$oid" 1000
	stop_site london
	says 'the primary does not answer' lfs_batch looker paris download "$oid" 1000
	says PRIMARY_UNREACHABLE lfs_batch dev paris upload "$oid" 1000
}

tap_test "git-lfs pushes to the primary and clones from it, each object once" pushed_and_cloned
tap_test "an object is given in parts" an_object_in_parts
tap_test "who may not read or push is told so" who_may_not_is_refused
tap_test "an object of another repository is not given by its name" another_repositorys_object_is_not_given
tap_test "wrong content, size or name leaves nothing" wrong_content_leaves_nothing
tap_test "wrong batches are refused in the client's form" wrong_batches_are_refused
tap_test "an object that is absent is told by status and to who clones" what_is_absent_is_told
tap_test "history that came without its objects is told" history_that_came_without_objects
tap_test "only what is new in a history is looked through" only_what_is_new_is_looked_through
tap_test "what is pushed through the secondary is cloned from it, with and without the primary" through_the_secondary
tap_test "what is closed to readers, or to pushes, is so with LFS" what_is_closed_has_no_objects
tap_test "a mirror takes no objects from anybody" a_mirror_takes_no_objects
tap_test "uploads without end leave the primary to others" \
	uploads_without_end_leave_the_primary_to_others
tap_test "a secondary says what it lacks, and what it cannot ask for" a_secondary_says_what_it_lacks
tap_done
