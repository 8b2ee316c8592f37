#!/usr/bin/env bash
# Git LFS as clients use it: how they show who they are, through TLS and proxies, what they
# take up again, and what they are told while objects are on their way.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/lfs.sh"

TYPE='Content-Type: application/vnd.git-lfs+json'

as() { # NAME
	echo "any:$(cat "$1.token")"
}

object_url() { # SITE FILE
	echo "$(lfs_url "$1")/info/lfs/objects/$(oid_of "$2")"
}

pushed_at_one() {
	make_lfs_sites
	start_site london
	lfs_work "$(url_as dev london r)"
	lfs_commit a.bin 70000
	git -C work push -q origin main
}

clones_with() { # GIT-OPTION...
	rm -rf clone
	git "$@" clone -q "$(lfs_url london)" clone 2>clone.err || fail "$*: $(cat clone.err)"
	cmp work/a.bin clone/a.bin
}

each_way_to_show_a_token() {
	pushed_at_one
	clones_with -c "http.extraHeader=Authorization: Basic $(as looker | tr -d '\n' | base64 -w 0)"
	clones_with -c "http.extraHeader=Authorization: Bearer $(cat looker.token)"
	cat >helper <<-END
		#!/bin/sh
		echo "\$1" >>"$PWD/helper.log"
		[ "\$1" = get ] && printf 'username=any\npassword=%s\n' "\$(cat "$PWD/looker.token")"
		exit 0
	END
	chmod +x helper
	clones_with -c "credential.helper=$PWD/helper"
	grep -q store helper.log
}

# git-lfs asks for them by itself, once, and is told in its own form.
locks_are_no_noise() {
	pushed_at_one
	lfs_commit b.bin 1000
	git -C work push origin main >push 2>&1
	fails grep -iE 'lock|error' push
	[ "$(git -C work config --get-regexp 'locksverify' | awk '{print $2}')" = false ]
	(cd work && fails git lfs lock a.bin) >said 2>&1
	grep -q 'files cannot be locked here' said
}

a_download_is_taken_up() {
	local oid part

	make_lfs_sites
	set_conf paris sync.blobCapacity 0
	start_sites
	lfs_work "$(url_as dev london r)"
	lfs_commit a.bin 900000
	git -C work push -q origin main
	oid=$(oid_of work/a.bin)
	wait_until 20 same_sites
	# From the file at the one, and handed on at the other.
	for site in london paris; do
		rm -rf clone
		GIT_LFS_SKIP_SMUDGE=1 git clone -q "$(url_as looker $site r)" clone
		mkdir -p clone/.git/lfs/incomplete
		head -c 500000 work/a.bin >"clone/.git/lfs/incomplete/$oid.part"
		(cd clone && GIT_TRACE=1 git lfs pull 2>../trace)
		cmp work/a.bin clone/a.bin
		grep -q 'accepted resume download request' trace
		wait_until 10 was_logged $site http.request "objects/$oid .*status=206"
	done
}

lacks_one() { # SITE
	at "$1" status >status || [ $? -eq 3 ]
	grep -q 'LFS objects that are not here: r (1 of 1)' status
}

while_objects_are_on_their_way() {
	local oid

	make_lfs_sites
	set_conf paris sync.blobCapacity 0
	start_sites
	lfs_work "$(url_as dev london r)"
	lfs_commit a.bin 70000
	git -C work push -q origin main
	oid=$(oid_of work/a.bin)
	wait_until 20 same_sites
	wait_until 20 lacks_one paris
	[ ! -e "$(lfs_path paris "$oid")" ]
	lfs_clone "$(url_as looker paris r)" early
	cmp work/a.bin early/a.bin
	curl -fsSI -u "$(as looker)" "$(object_url paris work/a.bin)" >head
	grep -qi '^accept-ranges: bytes' head
	stop_site london
	fails lfs_clone "$(url_as looker paris r)" late
	grep -q 'the object is not at this site yet, and the primary does not answer' clone.err
	start_site london
	set_conf paris sync.blobCapacity 10
	kill -HUP "$(site_pid paris)"
	wait_until 20 in_sync
	stop_site london
	lfs_clone "$(url_as looker paris r)" clone
	cmp work/a.bin clone/a.bin
	# What is lost here is given from there, and comes back.
	rm "$(lfs_path paris "$oid")"
	start_site london
	curl -fsS -u "$(as looker)" -o got "$(object_url paris work/a.bin)"
	cmp work/a.bin got
}

hrefs_are_where_the_client_came_from() {
	pushed_at_one
	href_of() { lfs_batch looker london download "$(oid_of work/a.bin)" 70000 "$@" | grep -o '"href":"[^"]*/r.git/'; }
	[ "$(href_of -H 'Host: git.example.com')" = '"href":"http://git.example.com/r.git/' ]
	# Only a proxy that is trusted is believed.
	[ "$(href_of -H 'Host: git.example.com' -H 'X-Forwarded-Proto: https')" = '"href":"http://git.example.com/r.git/' ]
	stop_site london
	set_conf london http.trustedProxy 127.0.0.1
	start_site london
	[ "$(href_of -H 'Host: git.example.com' -H 'X-Forwarded-Proto: https')" = '"href":"https://git.example.com/r.git/' ]
	stop_site london
	set_conf london http.url https://git.example.org/
	start_site london
	[ "$(href_of -H 'Host: git.example.com')" = '"href":"https://git.example.org/r.git/' ]
}

through_tls() {
	local url

	make_lfs_sites
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3 \
		-keyout london.key -out london.pem -subj /CN=london \
		-addext subjectAltName=IP:127.0.0.1 2>/dev/null
	chmod 600 london.key
	set_conf london http.tlsCertificate "$PWD/london.pem"
	set_conf london http.tlsKey "$PWD/london.key"
	export CURL_CA_BUNDLE=$PWD/london.pem GIT_SSL_CAINFO=$PWD/london.pem
	start_site london
	url=$(lfs_url london)
	url="https://$(as dev)@${url#https://}"
	lfs_work "$url"
	lfs_commit a.bin 3000000
	git -C work push -q origin main
	cmp work/a.bin "$(lfs_path london "$(oid_of work/a.bin)")"
	lfs_clone "$url" clone
	cmp work/a.bin clone/a.bin
	# Who may not is told so, though all of it is on its way by then.
	for _ in $(seq 20); do
		curl -s -o answer -w '%{http_code}\n' -H 'Expect:' -T work/a.bin \
			"$(lfs_url london)/info/lfs/objects/$(oid_of work/a.bin)"
	done | sort -u >codes
	diff <(echo 401) codes
}

receives() { # SITE
	find "$1/lfs" -type f | grep -q .
}

# Two clients have the same; a third one goes away in the middle.
uploads_at_once_and_in_part() {
	local oid

	make_lfs_sites
	start_sites
	head -c 3000000 /dev/urandom >file
	wait_until 20 in_sync
	oid=$(oid_of file)
	put() { exec curl -sS -m 60 -o /dev/null -w '%{http_code}\n' -u "$(as dev)" "$@"; }
	put --limit-rate 100k -T file "$(object_url london file)" >codes &
	wait_until 20 receives london
	kill $!
	wait_until 20 eval '! receives london'
	put --limit-rate 3M -T file "$(object_url london file)" >one &
	put --limit-rate 3M -T file "$(object_url london file)?size=3000000" >two &
	put --limit-rate 3M -T file "$(object_url paris file)" >three &
	wait_until 20 eval '[ "$(cat one two three | wc -l)" -eq 3 ]'
	[ "$(cat one two three | sort | uniq -c | awk '{print $1, $2}')" = '3 200' ]
	[ "$(find london/lfs -type f)" = "$(lfs_path london "$oid")" ]
	[ "$(at london events | grep -c "$oid")" -eq 1 ]
	head -c 4000 /dev/zero >zeroes
	gzip -c zeroes >zeroes.gz
	[ "$(put -H 'Content-Encoding: gzip' -T zeroes.gz "$(object_url london zeroes)?size=4000")" -eq 200 ]
	cmp zeroes "$(lfs_path london "$(oid_of zeroes)")"
}

# The answer to a batch gives nothing away, at neither site: who sends no content has none.
to_ask_is_not_to_have() {
	local site oid

	make_lfs_sites
	make_repository london/git/other.git 1
	for site in london paris; do
		give_token $site stranger push other
	done
	start_sites
	lfs_work "$(url_as dev london r)"
	lfs_commit a.bin 5000
	git -C work push -q origin main
	oid=$(oid_of work/a.bin)
	wait_until 20 in_sync
	lfs_url() { echo "$(site_url "$1")/other.git"; }
	ask() { curl -s -u "$(as stranger)" "$@"; }
	for site in london paris; do
		lfs_batch stranger $site upload "$oid" 5000 | grep -q '"upload":'
		ask -H "$TYPE" -d "{\"oid\":\"$oid\",\"size\":5000}" "$(lfs_url $site)/info/lfs/verify" |
			grep -q FILE_NOT_FOUND
		ask -T /dev/null "$(lfs_url $site)/info/lfs/objects/$oid" | grep -q WRONG_DIGEST
		lfs_batch stranger $site download "$oid" 5000 | grep -q '"code":404'
		ask "$(lfs_url $site)/info/lfs/objects/$oid" | grep -q FILE_NOT_FOUND
		ask "$(site_url $site)/r.git/info/lfs/objects/$oid" | grep -q FORBIDDEN
	done
}

many_objects_in_a_batch() {
	pushed_at_one
	batch_of() { # N
		python3 -c '
import json, sys
print(json.dumps({"operation": "download", "objects":
	[{"oid": "%064x" % i, "size": i} for i in range(int(sys.argv[1]))]}))' "$1" >body
		curl -s -m 60 -o answer -w '%{http_code}' -u "$(as dev)" -H "$TYPE" -d @body \
			"$(lfs_url london)/info/lfs/objects/batch"
	}
	[ "$(batch_of 1000)" -eq 200 ]
	[ "$(grep -o '"code":404' answer | wc -l)" -eq 1000 ]
	[ "$(batch_of 2001)" -eq 413 ]
	grep -q 'more than 2000 objects' answer
	[ "$(batch_of 100000)" -eq 413 ]
	grep -q 'the body has more than' answer
}

tap_test "a token may be in a header, of either kind, or come from a credential helper" each_way_to_show_a_token
tap_test "that there are no locks is no noise" locks_are_no_noise
tap_test "a download that was cut is taken up, at both sites" a_download_is_taken_up
tap_test "what is on its way to the secondary is had through it, or told to be absent" while_objects_are_on_their_way
tap_test "URLs of objects are those by which the client came" hrefs_are_where_the_client_came_from
tap_test "git-lfs goes through TLS" through_tls
tap_test "uploads at once make one object, and those in part none" uploads_at_once_and_in_part
tap_test "to ask for an object is not to have it" to_ask_is_not_to_have
tap_test "batches have a limit" many_objects_in_a_batch
tap_done
