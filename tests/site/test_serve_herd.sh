#!/usr/bin/env bash
# Many who read at once, and some of them slowly: one generator for all, which nobody
# holds and nobody's end disturbs, and memory that does not grow with the readers.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"

here=$TESTS

# git/r.git with 100,000 more refs: about 6 MB of list.
make_big() { # [REFS]
	make_served
	set_conf one http.connectionsPerClient 0
	git -C "$R" pack-refs --all
	git -C "$R" rev-list main >commits
	awk -v count="${1:-100000}" 'NR == FNR { commit[n++] = $0; next } { print }
		END {
			for (i = 0; i < count; i++)
				printf "%s refs/zz/number-%06d\n", commit[i % n], i
		}' commits "$R/packed-refs" >packed
	mv packed "$R/packed-refs"
}

# The whole answer to GET info/refs, by git itself.
gits_list() { # [VERSION]
	printf '001e# service=git-upload-pack\n0000'
	GIT_PROTOCOL=${1:+version=$1} git upload-pack --http-backend-info-refs "$R"
}

sum_of() {
	sha1sum | cut -d ' ' -f 1
}

# One process for each reader; prints each sum once, with how often it came.
herd() { # COUNT VERSION
	seq "$1" | xargs -P "$1" -I{} sh -c "curl -fsS -m 60 -H Git-Protocol:version=$2 \
		'$U/info/refs?service=git-upload-pack' | sha1sum" |
		sort | uniq -c | awk '{ print $1, $2 }'
}

ls_herd() { # COUNT
	ls_refs >request
	seq "$1" | xargs -P "$1" -I{} sh -c "curl -fsS -m 60 -H Git-Protocol:version=2 \
		-H Content-Type:application/x-git-upload-pack-request \
		--data-binary @request '$U/git-upload-pack' | sha1sum" |
		sort | uniq -c | awk '{ print $1, $2 }'
}

readers() { # NAME COUNT FIRST URL [OPTION...]
	python3 "$here/peers/readers.py" "$@" >"$1.readers" 2>"$1.errors" &
	eval "readers_$1=$!"
}

hold_readers() { # NAME COUNT FIRST URL [OPTION...]
	readers "$@"
	wait_until 30 test -e "$1.held"
}

end_readers() { # NAME
	local pid="readers_$1"
	touch "$1.go"
	wait "${!pid}" || fail "readers: $(cat "$1.errors")"
	cat "$1.readers"
}

# Git that stops in the middle of a list, until there is a file ./go; what it does then
# is the rest of the script.
shim_slow() { # SCRIPT: gets git's output
	mkdir -p shim
	cat >shim/git <<-END
		#!/bin/sh
		echo "\$@" >>$PWD/started
		case "\$*" in
		*http-backend-info-refs*)
			$(command -v git) "\$@" | $1
			exit ;;
		esac
		exec $(command -v git) "\$@"
	END
	chmod +x shim/git
	: >started
	SHIM=$PWD/shim:$PATH
}

slowly() { # BYTES
	echo "(head -c $1; while [ ! -e $PWD/go ]; do sleep 0.05; done; cat)"
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

nothing_temporary_is_left() {
	local found
	found=$(find one/data/cache -type f ! -regex '.*/[0-9a-f][0-9a-f]/[0-9a-f]*')
	[ -z "$found" ] || fail "left: $found"
}

a_cold_herd_starts_one_git() {
	make_big
	shim_git
	start_site one "PATH=$SHIM"
	adv >/dev/null # git's version and capabilities are known from here on
	bracketed true
	: >started
	[ "$(herd 100 0)" = "100 $(gits_list | sum_of)" ]
	[ "$(count_started upload-pack)" -eq 1 ]
	[ "$(count_of shared)" -gt 0 ]
	[ "$(count_of bypass_pending)" -eq 0 ]
	stop_site one
}

all_kinds_of_readers_share_it() {
	make_big
	shim_git
	start_site one "PATH=$SHIM"
	adv >/dev/null
	bracketed true
	: >started
	herd 25 0 >zero &
	herd 25 1 >ones &
	herd 25 2 >two &
	ls_herd 25 >list &
	wait_until 60 test -s zero -a -s ones -a -s two -a -s list
	[ "$(<zero)" = "25 $(gits_list | sum_of)" ]
	[ "$(<ones)" = "25 $(gits_list 1 | sum_of)" ]
	[ "$(cut -d ' ' -f 1 two)" = 25 ]
	[ "$(<list)" = "25 $(ls_refs | GIT_PROTOCOL=version=2 \
		git upload-pack --stateless-rpc "$R" | sum_of)" ]
	[ "$(count_started upload-pack)" -eq 1 ]
	stop_site one
}

a_list_grows_to_its_readers() {
	make_big
	shim_slow "$(slowly 1000000)"
	start_site one "PATH=$SHIM"
	hold_readers first 3 800000 "$U/info/refs?service=git-upload-pack"
	hold_readers late 3 800000 "$U/info/refs?service=git-upload-pack" \
		-H 'Git-Protocol: version=1'
	[ "$(count_started upload-pack)" -eq 1 ]
	touch go
	end_readers first >out
	gits_list >wanted
	[ "$(<out)" = "3 200 $(stat -c %s wanted) $(sum_of <wanted) whole" ]
	end_readers late >out
	gits_list 1 >wanted
	[ "$(<out)" = "3 200 $(stat -c %s wanted) $(sum_of <wanted) whole" ]
	: >started
	adv >now
	cmp now <(gits_list)
	[ "$(count_started upload-pack)" -eq 0 ]
	stop_site one
}

a_reader_that_dies_hurts_nobody() {
	make_big
	shim_slow "$(slowly 1000000)"
	start_site one "PATH=$SHIM"
	readers dying 5 1000 "$U/info/refs?service=git-upload-pack" --leave
	hold_readers whole 5 1000 "$U/info/refs?service=git-upload-pack"
	wait_until 20 test -e dying.held
	touch go
	end_readers whole >out
	gits_list >wanted
	[ "$(<out)" = "5 200 $(stat -c %s wanted) $(sum_of <wanted) whole" ]
	[ "$(count_started 'upload-pack.*info-refs')" -eq 2 ] # the refs, the capabilities
	wait_until 10 eval '[ -n "$(find one/data/cache -type f)" ]'
	stop_site one
	nothing_temporary_is_left
}

all_readers_may_die() {
	make_big
	shim_slow "$(slowly 1000000)"
	start_site one "PATH=$SHIM"
	hold_readers dying 5 1000 "$U/info/refs?service=git-upload-pack" --leave
	touch go
	adv >now
	cmp now <(gits_list)
	[ "$(count_started 'upload-pack.*info-refs')" -eq 2 ]
	stop_site one
	nothing_temporary_is_left
}

slow_readers_hold_nobody() {
	local before
	make_big
	start_site one
	adv >/dev/null
	before=$(rss_kb)
	hold_readers slow 50 1000 "$U/info/refs?service=git-upload-pack"
	hold_readers lists 50 1000 "$U/git-upload-pack" -H 'Git-Protocol: version=2' \
		--post <(ls_refs)
	grew_by_less "$before" 65536
	adv >now
	cmp now <(gits_list)
	gits_list >wanted
	ls_refs | GIT_PROTOCOL=version=2 git upload-pack --stateless-rpc "$R" >listed
	bracketed git -C "$R" update-ref refs/heads/new main
	[ "$(oid refs/heads/new)" = "$(commit_of main)" ]
	[ "$(oid2 refs/heads/new)" = "$(commit_of main)" ]
	grew_by_less "$before" 90112
	end_readers slow >out
	[ "$(<out)" = "50 200 $(stat -c %s wanted) $(sum_of <wanted) whole" ]
	end_readers lists >out
	[ "$(<out)" = "50 200 $(stat -c %s listed) $(sum_of <listed) whole" ]
	stop_site one
}

all_answers() { # COUNT: statuses, each once with how often it came
	seq "$1" | xargs -P "$1" -I{} curl -s -m 60 -o /dev/null -w '%{http_code}\n' \
		"$U/info/refs?service=git-upload-pack" | sort | uniq -c | awk '{ print $1, $2 }'
}

a_generator_that_fails_fails_for_all() {
	make_big
	shim_slow "(cat >/dev/null; while [ ! -e $PWD/go ]; do sleep 0.05; done; exit 1)"
	start_site one "PATH=$SHIM"
	all_answers 20 >answers &
	wait_until 20 grep -q upload-pack started
	touch go
	wait_until 30 test -s answers
	[ "$(<answers)" = '20 500' ]
	shim_git
	adv >now
	cmp now <(gits_list)
	stop_site one
}

a_generator_that_breaks_off_is_no_whole_answer() {
	make_big
	shim_slow "(head -c 1000000; while [ ! -e $PWD/go ]; do sleep 0.05; done; exit 1)"
	start_site one "PATH=$SHIM"
	hold_readers cut 20 1000 "$U/info/refs?service=git-upload-pack"
	touch go
	end_readers cut >out
	grep -qE '^20 200 [0-9]+ [0-9a-f]+ cut$' out || fail "$(<out)"
	[ -z "$(find one/data/cache -type f)" ]
	shim_git
	adv >now
	cmp now <(gits_list)
	stop_site one
}

tap_test "a cold herd starts one git" a_cold_herd_starts_one_git
tap_test "all kinds of readers share it" all_kinds_of_readers_share_it
tap_test "a list grows to its readers" a_list_grows_to_its_readers
tap_test "a reader that dies hurts nobody" a_reader_that_dies_hurts_nobody
tap_test "all readers of a list may die" all_readers_may_die
tap_test "slow readers hold nobody, and little memory" slow_readers_hold_nobody
tap_test "a generator that fails fails for all" a_generator_that_fails_fails_for_all
tap_test "one that breaks off gives no whole answer" \
	a_generator_that_breaks_off_is_no_whole_answer
tap_done
