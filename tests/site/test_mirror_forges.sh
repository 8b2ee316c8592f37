#!/usr/bin/env bash
# The lists of GitLab and of Gitea, as their APIs tell them: in pages, with totals. GitHub's is in
# test_mirror_organisation.sh.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/mirrored.sh"

NAMES=(acme/r1 acme/r2 acme/r3 acme/r4 acme/r5 acme/r6 acme/r7)

line_of() { # NAME [WORD...]
	echo "$1 $(site_url london)/$1.git ${*:2}"
}

list_is() { # NAME...
	local name

	for name; do
		line_of "$name"
	done >forge/new
	{
		line_of acme/fork fork
		line_of acme/old archived
		line_of acme/huge size=99999
	} >>forge/new
	mv forge/new forge/repositories
}

set_up() { # KIND PATH
	local name

	make_mirror_sites
	set_conf london http.anonymousRead true
	for name in "${NAMES[@]}" acme/sub/deep acme/fork acme/old acme/huge acme/late; do
		make_repository "london/git/$name.git" 1
	done
	(umask 077 && echo forge-secret >forge.token)
	mkdir forge
	echo 3 >forge/page_size
	list_is "${NAMES[@]}" acme/sub/deep
	python3 "$TESTS/peers/forge.py" forge forge.token "$1" &
	wait_until 10 test -s forge/port
	set_conf paris mirrors.acme.from "$1"
	set_conf paris mirrors.acme.url "http://127.0.0.1:$(cat forge/port)$2"
	set_conf paris mirrors.acme.tokenFile "$PWD/forge.token"
	set_conf paris mirrors.acme.maxSize 50m
	set_conf paris mirrors.acme.interval 1s
	start_site london
	start_site paris
}

are_mirrored() { # NAME...
	local name

	for name; do
		is_mirrored "$name" || return
	done
}

says() { # TEXT
	at paris status >said || :
	head -n 1 said | grep -F "$1"
}

is_away() { # NAME
	[ ! -e "paris/git/$1.git" ]
}

lists_were_read() { # NUMBER OF PAGES
	local from

	from=$(wc -l <forge/asked)
	wait_until 30 has_lines "$((from + $1))" forge/asked
}

has_lines() { # NUMBER FILE
	[ "$(wc -l <"$2")" -ge "$1" ]
}

follows_a_list() { # KIND PATH SUBGROUP...
	local all=("${NAMES[@]}" "${@:3}") name

	set_up "$1" "$2"
	wait_until 60 are_mirrored "${all[@]}"
	wait_until 30 says "${#all[@]} of ${#all[@]} mirrors are up to date"
	for name in fork old huge late; do
		is_away "acme/$name"
	done
	# Cut halfway, or ended before its total: nothing looks deleted, again and again. In another order, so
	# that no page is as it was.
	echo 2 >forge/cut
	list_is "${all[@]:1}" "${all[0]}"
	wait_until 30 says 'the list acme: page 2 of the list'
	lists_were_read 8
	[ "$(at paris status --json | "$SITE_HELP" member mirrors.all)" = "${#all[@]}" ]
	rm forge/cut
	touch forge/ends_early
	list_is "${all[@]:2}" "${all[@]:0:2}"
	wait_until 30 says 'the list acme: the list '
	lists_were_read 8
	are_mirrored "${all[@]}"
	fails was_logged paris mirror.listed 'list=acme .*missing=[1-9]'
	rm forge/ends_early
	# One goes, another one comes.
	list_is "${all[@]:1}" acme/late
	wait_until 30 are_mirrored acme/late
	wait_until 30 is_away acme/r1
	wait_until 30 was_logged paris mirror.listed 'list=acme .*missing=0 gone=1'
	wait_until 30 says "${#all[@]} of ${#all[@]} mirrors are up to date"
	# The forge's own answers to a token that may not.
	echo 401 >forge/status
	wait_until 30 says 'the list acme: page 1 of the list'
	are_mirrored "${all[@]:1}"
}

gitlab_is_followed() {
	follows_a_list gitlab /api/v4/groups/acme acme/sub/deep
}

gitea_is_followed() {
	follows_a_list gitea /api/v1/orgs/acme
}

tap_test 'a group of GitLab, with its subgroups' gitlab_is_followed
tap_test 'an organisation of Gitea' gitea_is_followed
tap_done
