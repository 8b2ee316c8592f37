# A site that serves Git over HTTP, for tests of what clients read: ./one, a site of its
# own, and ./two, another node that shares its tree and its cache. Needs tap.sh, sites.sh
# and two_sites.sh. $R is the repository that the functions below ask for, $U its URL.
#
#	make_served		site ./one with the repository git/r.git of some refs
#	make_second_node	./two beside it
#	adv [VERSION]		GET info/refs under that protocol
#	oid REF, oid2 REF	what a client is told of it under protocol 0, by ls-refs
#	bracketed COMMAND...	a change that is announced as one
#	count_of CLASS [KIND]	how many requests were answered so: hit, miss, shared ...
#	count_reused [KIND]	hit and shared
#	shim_git		git children are written down in ./started, before they run

make_served() { # [COMMITS]
	mkdir -p one/git
	set_conf one site.name one
	set_conf one site.role standalone
	set_conf one site.repositories "$PWD/one/git"
	set_conf one site.data "$PWD/one/data"
	set_conf one http.listen "127.0.0.1:$(free_port)"
	set_conf one http.anonymousRead true
	set_conf one sync.scanInterval 1h
	R=$PWD/one/git/r.git
	make_repository "$R" "${1:-20}"
	git -C "$R" branch side main~3
	git -C "$R" tag -a -m one v1 main~1
	U=$(site_url one)/r.git
}

make_second_node() {
	mkdir -p two
	cp one/refrelay.conf two/refrelay.conf
	set_conf two site.data "$PWD/two/data"
	set_conf two http.listen "127.0.0.1:$(free_port)"
	set_conf one serve.cache "$PWD/cache"
	set_conf two serve.cache "$PWD/cache"
	U2=$(site_url two)/r.git
}

adv() { # [VERSION [CURL-OPTION...]]
	local version=${1:-}
	[ $# -eq 0 ] || shift
	curl -fsS -m 30 ${version:+-H "Git-Protocol: version=$version"} "$@" \
		"$U/info/refs?service=git-upload-pack"
}

pkt() { # TEXT
	printf '%04x%s' $((${#1} + 4)) "$1"
}

# The body of an ls-refs request.
ls_refs() { # [PREFIX...]
	local prefix

	pkt command=ls-refs
	pkt object-format=sha1
	printf 0001
	pkt peel
	pkt symrefs
	for prefix; do
		pkt "ref-prefix $prefix"
	done
	printf 0000
}

# Sends standard input to git-upload-pack under protocol 2.
post() { # [CURL-OPTION...]
	curl -sS -m 30 --data-binary @- -H 'Git-Protocol: version=2' \
		-H 'Content-Type: application/x-git-upload-pack-request' "$@" \
		"$U/git-upload-pack"
}

oid() { # REF
	local said
	said=$(adv | grep -a -o "[0-9a-f]\{40\} $1\$") || return
	echo "${said:0:40}"
}

oid2() { # REF
	local said
	said=$(ls_refs "$1" | post | grep -a -o "[0-9a-f]\{40\} $1") || return
	echo "${said:0:40}"
}

# The status of an answer.
code() { # CURL-OPTION...
	curl -s -m 30 -o /dev/null -w '%{http_code}\n' "$@"
}

commit_of() { # REVISION
	git -C "$R" rev-parse "$1"
}

bracketed() { # COMMAND...
	at one state r -- "$@"
}

metric_of() { # SITE SERIES
	curl -fsS -m 30 "$(site_url "$1")/metrics" | awk -v series="$2" '
		index($0, series) == 1 { sum += $NF } END { printf "%d\n", sum }'
}

count_of() { # CLASS [KIND [SITE]]
	metric_of "${3:-one}" \
		"refrelay_refs_requests_total{kind=\"${2:-info_refs}\",class=\"$1\"}"
}

# Those that started no git: on a busy machine one may come before its forerunner's answer
# is kept, and shares it.
count_reused() { # [KIND]
	echo $(($(count_of hit "$@") + $(count_of shared "$@")))
}

shim_git() {
	mkdir -p shim
	: >started
	printf '#!/bin/sh\necho "$@" >>%s\nexec %s "$@"\n' \
		"$PWD/started" "$(command -v git)" >shim/git
	chmod +x shim/git
	# for start_site one PATH=...
	SHIM=$PWD/shim:$PATH
}

count_started() { # PATTERN
	grep -c -- "$1" started
}
