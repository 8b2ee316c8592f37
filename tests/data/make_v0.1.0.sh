#!/usr/bin/env bash
# usage: REFRELAY=... REFRELAY_RUN=... REFRELAY_HOOK=... make_v0.1.0.sh DIRECTORY
#
# How tests/data/v0.1.0 was made, with the programs of that version: data directories of
# three sites with rows in each state, and what the sites said to each other. They are
# kept as they are; whatever comes later must start from them (tests/site/test_upgrade.sh).
#
#	london.tar.gz	a primary: repositories (one is broken) with hooks, blobs, events,
#			findings, what a secondary reported
#	paris.tar.gz	its secondary, killed: rows synced and verified, held, failed, pending,
#			missing on the primary, for repositories and blobs; a copy in the
#			trash; a push that was passed on
#	kiel.tar.gz	a site that pushes, killed: tasks that wait, one that runs, one given up,
#			one that is tried again, requests; and its destinations
#	exchanges/	NAME.request, NAME.answer: HTTP messages, bodies without chunks
#
# All sites stand in /mnt, in a mount namespace of their own, the programs in /mnt/bin.
if [ -z "${IS_APART-}" ]; then
	export IS_APART=1
	exec unshare --mount --propagation private bash "$0" "$(realpath "$1")"
fi
set -eEuo pipefail
trap 'echo "line $LINENO: status $?: $BASH_COMMAND" >&2' ERR
here=$(cd "$(dirname "$0")" && pwd)
into=$1
trap 'kill -KILL $(jobs -p) 2>/dev/null' EXIT
place=$(mktemp -d)
mkdir "$place/bin"
cp "$REFRELAY" "$REFRELAY_RUN" "$REFRELAY_HOOK" "$place/bin/"
mount --bind "$place" /mnt
cd /mnt
export REFRELAY=/mnt/bin/refrelay REFRELAY_RUN=/mnt/bin/refrelay-run \
	REFRELAY_HOOK=/mnt/bin/refrelay-hook
export HOME=/mnt/home LC_ALL=C TZ=UTC GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/mnt/home/gitconfig
mkdir -p home/template/hooks
git config --global user.name Test
git config --global user.email test@example.com
git config --global init.defaultBranch main
git config --global init.templateDir /mnt/home/template
git config --global gc.auto 0
for library in sites two_sites push pushed proxied transfer; do
	# shellcheck disable=SC1090
	. "$here/../lib/$library.sh"
done

fail() {
	echo "failed: $*" >&2
	tail -n 5 ./*/log >&2
	exit 1
}

wait_until() { # SECONDS COMMAND...
	local end=$((SECONDS + $1)) said
	shift
	until said=$("$@" 2>&1); do
		[ "$SECONDS" -lt "$end" ] || fail "$*: $said"
		sleep 0.1
	done
}

reload() { # SITE
	local before
	before=$(logged "$1" node.reloaded) || true
	kill -HUP "$(site_pid "$1")"
	wait_until 10 has_reloaded "$1" "$before"
}

has_reloaded() { # SITE BEFORE
	[ "$(logged "$1" node.reloaded)" -gt "$2" ]
}

signed() { # CURL-ARGUMENT...: as paris would ask, by the recorder
	local method=$1 target=$2
	shift 2
	python3 "$here/ask_signed.py" secret paris "http://127.0.0.1:$(cat record/port)" \
		"$method" "$target" "$@"
}

# The newest exchange whose request line fits, under a name of its own.
keep_exchange() { # NAME PATTERN [STATUS]
	local file status
	for file in $(printf '%s\n' record/*.request | sort -r); do
		head -n 1 "$file" | grep -aqE "$2" || continue
		read -r _ status _ <"${file%.request}.answer"
		[ "$status" = "${3:-200}" ] || continue
		cp "$file" "exchanges/$1.request"
		cp "${file%.request}.answer" "exchanges/$1.answer"
		return
	done
	fail "no exchange $1"
}

pack() { # SITE
	rm -f "$1/log" "$1/pid" "$1/healthz" "$1/readyz"
	find "$1" \( -type s -o -name '*-shm' \) -delete
	tar --sort=name --owner=0 --group=0 --numeric-owner -C /mnt -c "$1" | gzip -9n >"$into/$1.tar.gz"
}

# ----- two sites

make_proxied_sites
mkdir record exchanges
python3 "$here/record.py" record "$(cat proxy/port)" &
wait_until 10 test -s record/port
set_conf paris primary.url "http://127.0.0.1:$(cat record/port)"
for site in london paris; do
	mkdir -p "$site/uploads" "$site/lfs"
	set_conf "$site" blob.uploads.path "$PWD/$site/uploads"
	set_conf "$site" blob.lfs.path "$PWD/$site/lfs"
	set_conf "$site" blob.lfs.layout lfs
	set_conf "$site" sync.verificationCapacity 1
done
give_token london dev push
set_conf paris http.anonymousRead true
echo 'a primary of the test data, not secret at all' >secret
for name in plain group/tool held broken missing passed trash; do
	make_repository "london/git/$name.git" 3
done
echo 'a description' >london/git/plain.git/description
git -C london/git/plain.git tag -m annotated v1 main~1
git -C london/git/plain.git branch topic main~1
git -C london/git/plain.git symbolic-ref HEAD refs/heads/topic
git -C london/git/group/tool.git pack-refs --all
text='an object of some length'
put_object "$text" london/lfs
git clone -q london/git/plain.git work 2>/dev/null
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n' \
	"${object//\//}" "${#text}" >work/object.bin
git -C work add object.bin
git -C work commit -qm pointer
git -C work push -q origin HEAD:refs/heads/lfs
make_blob plain.bin 700
make_blob folder/deep.bin 300
make_blob empty.bin 0
make_blob gone.bin 100
start_site london
at london hooks install --all
start_site paris
wait_until 30 in_sync
push_change london/git/plain.git topic
make_blob plain.bin 500
put_object "another object" london/lfs
wait_until 20 in_sync
wait_until 20 blob_is paris uploads plain.bin verification_state succeeded

# What a secondary may ask; the rest it has asked itself.
signed GET "/api/v1/events?limit=1000"
signed GET "/api/v1/events?after=99999&mark=0123456789abcdef"
signed GET "/api/v1/repositories?limit=3"
signed GET "/api/v1/repositories?after=held&limit=1000"
signed GET "/api/v1/blobs/uploads?limit=1000"
signed GET "/api/v1/repositories/group%2Ftool/refs"
signed GET "/api/v1/repositories/plain/refs"
signed GET "/api/v1/repositories/nowhere/refs"
signed GET "/api/v1/retrieve/uploads/plain.bin"
signed POST "/api/v1/retrieve/uploads" \
	'{"ids":["plain.bin","folder/deep.bin","empty.bin","nowhere.bin"]}'
signed POST "/api/v1/repositories/plain/reverify"
signed POST "/api/v1/repositories/plain/delta" \
	'{"timeline":"0123456789abcdef","generation":1,"checksum":"1-00","wanted":2,"object_format":"sha1","limit":1000}'
keep_exchange events '^GET /api/v1/events.limit=1000 '
keep_exchange events-gone '^GET /api/v1/events.after=99999' 410
keep_exchange inventory-first '^GET /api/v1/repositories.limit=3'
keep_exchange inventory-rest '^GET /api/v1/repositories.after=held&limit='
keep_exchange inventory-uploads '^GET /api/v1/blobs/uploads.limit='
keep_exchange refs-tool '^GET /api/v1/repositories/group%2Ftool/refs'
keep_exchange refs-plain '^GET /api/v1/repositories/plain/refs'
keep_exchange refs-missing '^GET /api/v1/repositories/nowhere/refs' 404
keep_exchange retrieve '^GET /api/v1/retrieve/uploads/plain.bin'
keep_exchange retrieve-many '^POST /api/v1/retrieve/uploads '
keep_exchange reverify '^POST /api/v1/repositories/plain/reverify'
keep_exchange delta '^POST /api/v1/repositories/plain/delta' 409

# ----- rows in each state

is_listed() { # SITE KIND STATE NAME
	at "$1" "$2" list --state "$3" | grep -q "$4"
}

is_not_listed() { # SITE KIND NAME
	fails at "$1" "$2" show "$3" >/dev/null
}

fails() {
	! "$@"
}

git -C paris/git/held.git update-ref refs/heads/main "$(git -C paris/git/held.git \
	commit-tree -p main -m 'only here' 'main^{tree}')"
push_change london/git/held.git
wait_until 20 is_listed paris repository held held
remove_repository london/git/trash.git
rm london/uploads/gone.bin
wait_until 20 is_not_listed paris repository trash
wait_until 20 is_not_listed paris blob gone.bin

rules '/repositories/failing/refs status 503' '/api/v1/retrieve/ drop'
echo /api/v1/repositories/missing/refs >record/missing
make_repository london/git/failing.git 1
push_change london/git/missing.git
make_blob failing.bin 200
wait_until 20 row_is paris failing state failed
wait_until 20 row_is paris missing state missing_on_primary
wait_until 20 blob_is paris uploads failing.bin state failed

# At the primary: one that it cannot read, two of one name, an object that was damaged.
echo nonsense >london/git/broken.git/packed-refs.new
mv london/git/broken.git/packed-refs.new london/git/broken.git/packed-refs
rm -rf london/git/broken.git/refs/heads/*
cp -r london/git/group/tool.git london/git/group/tool
damaged=$object
printf 'another objecT' >"london/lfs/$damaged"
wait_until 20 blob_is london lfs "$damaged" verification failed
wait_until 20 is_listed paris repository failed broken

set_conf paris sync.repositoryCapacity 0
set_conf paris sync.blobCapacity 0
reload paris
make_repository london/git/new.git 1
make_blob new.bin 100
wait_until 20 row_is paris new state pending
wait_until 20 blob_is paris uploads new.bin state pending

# While nothing is heard of the primary's events.
make_clone "$(url_as dev paris passed)" pushed
rules '/repositories/failing/refs status 503' \
	'/api/v1/(retrieve/|events|repositories\?|blobs/) drop'
commit_in pushed
git -C pushed push -q origin main
git ls-remote "$(site_url paris)/passed.git" >/dev/null
kill_site paris
rules
signed GET "/api/v1/events?limit=999"
signed GET "/api/v1/repositories?limit=999"
signed GET "/api/v1/blobs/lfs?limit=999"
stop_site london
set_conf paris sync.repositoryCapacity 4
set_conf paris sync.blobCapacity 4

keep_exchange events-wait '^GET /api/v1/events.limit=[0-9]+&wait=[1-9]'
keep_exchange events-last '^GET /api/v1/events.limit=999 '
keep_exchange inventory-last '^GET /api/v1/repositories.limit=999 '
keep_exchange inventory-lfs '^GET /api/v1/blobs/lfs.limit=999 '
keep_exchange inventory-same '^GET /api/v1/repositories.limit=10000' 304
keep_exchange git-refs '^GET /plain.git/info/refs.service=git-upload-pack'
keep_exchange git-fetch '^POST /plain.git/git-upload-pack'
keep_exchange forwarded-refs '^GET /passed.git/info/refs.service=git-upload-pack'
keep_exchange forwarded-push-refs '^GET /passed.git/info/refs.service=git-receive-pack'
keep_exchange forwarded-push '^POST /passed.git/git-receive-pack'
mkdir -p "$into/exchanges"
rm -f "$into/exchanges/"*
cp exchanges/* "$into/exchanges/"
cp secret dev.token "$into/"
pack london
pack paris
rm -rf london paris

# ----- a site that pushes

mkdir kiel
(
	cd kiel
	make_node home
	add_remote home far
	add_remote home strict
	add_remote home away replicationRetry 60 createMissingRepositories false
	add_remote home slow replicationDelay 1d
	set_conf home sync.scanInterval 1s
	for name in done running refused waiting owed; do
		make_source "$name"
		for remote in far strict slow; do
			make_destination "$remote/$name"
		done
	done
	: >witness
	cat >strict/refused.git/hooks/update <<-END
		#!/bin/sh
		[ "\$1" != refs/heads/bad ]
	END
	chmod +x strict/refused.git/hooks/update
	start_ready home
	at home hooks install --all
	git -C git/refused.git update-ref refs/heads/bad main
	git -C git/refused.git update-ref refs/heads/good main
	push_change git/done.git
	wait_until 20 queue_says 'len(q["given_up"]) == 1'
	wait_until 20 same_branch git/done.git far/done.git
	wait_until 20 same_branch git/done.git strict/done.git
	wait_until 20 queue_says '[u for u in q["queue"] if u["remote"] == "away" and u["failures"]]'
	git -C git/waiting.git branch topic main
	git -C git/waiting.git symbolic-ref HEAD refs/heads/topic
	at home changed waiting
	wait_until 20 same_branch git/waiting.git far/waiting.git topic
	wait_until 20 queue_says '[u for u in q["queue"] if u["remote"] == "slow"]'
	hold far/running
	push_change git/running.git
	wait_until 20 is_held far/running
	mv store/ref-updates/building away.building
	: >store/ref-updates/building
	git -C git/owed.git branch topic main
	at home changed owed || true
	wait_until 20 was_logged home change.owed
	rm store/ref-updates/building
	mv away.building store/ref-updates/building
	kill_site home
	let_go
	rm -f home/log home/pid home/healthz home/readyz queue held-* witness
)
wait_until 20 no_process_of_pushes
rm -f kiel/witness
pack kiel
ls -l "$into"
