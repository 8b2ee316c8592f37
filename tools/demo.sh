#!/usr/bin/env bash
# usage: tools/demo.sh            what `make demo` runs, after building
#        REPOSITORIES=/srv/git tools/demo.sh
#        tools/demo.sh mirror     what `make demo-mirror` runs
#
# Shows refrelay's main job with two sites on this machine: sample repositories at the
# primary, a secondary that follows, pushes and how long each takes to be at the secondary,
# a deletion. With REPOSITORIES it copies that tree from directory to directory; it is only
# read, so that nothing is changed there. With `mirror` one of the sites is an upstream that takes
# tokens, and the other mirrors it for two watchers. Stock git alone proves that all is equal. The exit
# status is not 0 when anything was not.
set -uo pipefail
project=$(cd "$(dirname "$0")/.." && pwd) || exit 1
REFRELAY=${REFRELAY:-$project/build/refrelay}
. "$project/tests/lib/sites.sh"
. "$project/tests/lib/two_sites.sh"
. "$project/tests/lib/pushed.sh"
. "$project/tests/lib/mirrored.sh"

# Below those that the kernel gives to connections: a node that is down for a while must
# get its own again. A test has ports that no other one takes.
free_port() {
	[ -z "${TAP_PORTS-}" ] || {
		"$SITE_HELP" port "$folder/ports"
		return
	}
	python3 -c '
import random, socket
while True:
    try:
        s = socket.socket()
        s.bind(("127.0.0.1", random.randrange(12000, 32000)))
        break
    except OSError:
        pass
print(s.getsockname()[1])'
}
export LC_ALL=C TZ=UTC
for name in $(compgen -e GIT_); do
	unset "$name"
done

bold='' plain=''
[ -t 1 ] && [ -z "${NO_COLOR-}" ] && bold=$'\e[1m' plain=$'\e[0m'
step=0
result=0

[ -x "$REFRELAY" ] || {
	echo "There is no $REFRELAY yet: type make first." >&2
	exit 1
}
folder=$(mktemp -d "${TMPDIR:-/tmp}/refrelay-demo.XXXXXX") || exit 1

# Sites that run are ended by their ids.
leave() {
	local site

	cd "$folder" || exit 1
	for site in london paris; do
		[ -f "$site/pid" ] && kill "$(site_pid "$site")" 2>/dev/null
	done
	wait
	cd / && chmod -R u+rwX "$folder" && rm -rf "$folder"
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
source=$folder/source dest=$folder/dest

# Git as it comes, whatever is configured here, and whoever owns the repositories.
mkdir "$folder/home"
git() {
	GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=$folder/home/gitconfig command git "$@"
}
command git config --file "$folder/home/gitconfig" user.name Sample
command git config --file "$folder/home/gitconfig" user.email sample@example.com
command git config --file "$folder/home/gitconfig" safe.directory '*'

title() {
	step=$((step + 1))
	printf '\n%s%d. %s%s\n' "$bold" "$step" "$*" "$plain"
	started=${EPOCHREALTIME/[.,]/}
}

took() {
	local ms=$(((${EPOCHREALTIME/[.,]/} - started) / 1000))

	printf '   (%d.%02d s)\n' $((ms / 1000)) $((ms % 1000 / 10))
}

indented() {
	sed 's/^/   /'
}

# The project's own history, where there is one and it is whole.
clone_project() {
	local top

	top=$(git -C "$project" rev-parse --show-toplevel 2>/dev/null)
	if [ "$top" != "$project" ]; then
		echo "refrelay.git is left out: these sources come without their history."
	elif [ "$(git -C "$project" rev-parse --is-shallow-repository)" = true ]; then
		echo "refrelay.git is left out: this clone has only a part of its history."
	else
		git clone -q --mirror "$project" "$source/refrelay.git"
	fi
}

# Whatever may stand in a repository: names of refs in other scripts, one that is not
# even UTF-8, deep ones, tags of all kinds, notes, a ref that names another.
make_library() {
	local path=$source/sample/library.git number

	make_repository "$path" 4000 &&
		add_commits "$path" refs/heads/topic 200 'refs/heads/main~500' &&
		add_commits "$path" refs/heads/abandoned 3 'refs/heads/main~900' &&
		add_commits "$path" $'refs/heads/gr\xc3\xb6\xc3\x9fe/\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e' 5 &&
		add_commits "$path" $'refs/heads/caf\xe9-in-latin-1' 5 &&
		add_commits "$path" refs/heads/a/b/c/d/e/f/g/h/i/j/k/l/m 2 &&
		git -C "$path" tag -m 'First release' v1.0 main~1000 &&
		git -C "$path" -c advice.nestedTag=false tag -m 'Approved' v1.0-approved v1.0 &&
		git -C "$path" notes add -m 'Reviewed' main &&
		git -C "$path" symbolic-ref refs/heads/default refs/heads/main &&
		for number in {1..100}; do
			echo "create refs/tags/build-$number refs/heads/main~$number"
		done | git -C "$path" update-ref --stdin
}

make_samples() {
	mkdir -p "$source/sample"
	clone_project && make_library &&
		make_repository "$source/sample/small.git" 20 &&
		make_repository "$source/sample/sha256.git" 20 sha256 &&
		git init -q --bare --initial-branch=main "$source/sample/empty.git" &&
		make_repository "$source/sample/unborn.git" 5 &&
		git -C "$source/sample/unborn.git" symbolic-ref HEAD refs/heads/not-yet-there
}

# One line a repository, or only their number if they are many.
describe() { # DIRECTORY
	local path count commits refs

	count=$(list_repositories "$1" | wc -l)
	if [ "$count" -gt 20 ]; then
		printf '%d repositories, %s\n' "$count" "$(du -sh "$1" | cut -f 1)"
		return
	fi
	while IFS= read -r path; do
		commits=$(git -C "$1/$path" rev-list --count --all 2>/dev/null)
		refs=$(git -C "$1/$path" for-each-ref --format=. 2>/dev/null | wc -l)
		printf '%-24s %6d commits %5d refs   HEAD is %s\n' "$path" "${commits:-0}" "$refs" \
			"$(git -C "$1/$path" symbolic-ref -q --short HEAD || echo detached)"
	done < <(list_repositories "$1")
}

replicate() {
	local status

	printf '   $ refrelay replicate %s %s\n' "$source" "$dest"
	"$REFRELAY" replicate --no-progress "$source" "$dest" 2>&1 | indented
	status=${PIPESTATUS[0]}
	took
	[ "$status" -eq 0 ] && return
	echo "   It ended with exit status $status."
	result=1
}

# Only git is asked here.
prove() {
	local output count

	count=$(list_repositories "$source" | wc -l)
	if output=$(equal_trees "$source" "$dest"); then
		[ -z "$output" ] || indented <<<"$output"
		echo "   All $count are equal: every ref, HEAD, and fsck finds no fault."
	else
		indented <<<"$output"
		echo "   NOT EQUAL"
		result=1
	fi
	took
}

# The command's own output, as it says it; its status counts.
show() { # SITE COMMAND...
	printf '   %s$ refrelay %s\n' "$1" "${*:2}"
	at "$@" 2>&1 | indented
	return "${PIPESTATUS[0]}"
}

stop_with() { # TEXT...
	echo "   $*" >&2
	for site in london paris; do
		[ -f "$site/log" ] && tail -n 3 "$site/log" >&2
	done
	exit 1
}

wait_until() { # SECONDS COMMAND...
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || return 1
		sleep 0.02
	done
}

# Says how far it is, a line when that changes.
watch_status() {
	local sentence before='' end=$((SECONDS + 60))

	while [ "$SECONDS" -lt "$end" ]; do
		sentence=$(at paris status | head -n 1)
		[ "$sentence" = "$before" ] || echo "$sentence"
		before=$sentence
		in_sync >/dev/null 2>&1 && at paris status | head -n 1 | grep -q '^in sync' && return
		sleep 0.1
	done
	return 1
}

now_ms() {
	echo $((${EPOCHREALTIME/[.,]/} / 1000))
}

# The copy has that commit, and status says that its refs were read again: until then
# its row is one that a worker has.
has_arrived() { # REPOSITORY BRANCH COMMIT
	[ "$(git -C "paris/git/$1.git" rev-parse -q --verify "refs/heads/$2")" = "$3" ] &&
		at paris status
}

push_and_wait() { # REPOSITORY BRANCH WHAT
	local began ended commit

	echo "$3" >>clone/file
	git -C clone add file && git -C clone commit -qm "$3" || return 1
	commit=$(git -C clone rev-parse HEAD)
	began=$(now_ms)
	git -C clone push -qf "$PWD/london/git/$1.git" "HEAD:refs/heads/$2" || return 1
	ended=$(now_ms)
	wait_until 20 has_arrived "$1" "$2" "$commit" || return 1
	printf '%-38s push took %4d ms; verified at paris within %4d ms after it\n' "$3" \
		$((ended - began)) $(($(now_ms) - ended))
}

pushes() {
	git clone -q london/git/sample/small.git clone 2>/dev/null &&
		push_and_wait sample/small main 'A commit on main' &&
		push_and_wait sample/small topic 'A new branch' &&
		git -C clone reset -q --hard HEAD~2 &&
		push_and_wait sample/small main 'main, by force, without 2 commits'
}

is_gone() {
	[ ! -e paris/git/sample/small.git ] && in_sync
}

stop_both() {
	local site result=0

	for site in paris london; do
		stop_site "$site" || result=1
		rm -f "$site/pid"
	done
	return "$result"
}

sample_demo() {
	cd "$folder" || exit 1
	make_sites || exit 1
	git config --file london/refrelay.conf --unset sync.scanInterval
	git config --file paris/refrelay.conf --unset sync.consistencyInterval
	source=$PWD/london/git dest=$PWD/paris/git

	title "Sample repositories at the primary, $source"
	make_samples 2>&1 | indented
	[ "${PIPESTATUS[0]}" -eq 0 ] || stop_with "The samples could not be made."
	describe "$source" | indented
	echo "   library.git has tags of all kinds, notes, deep names, names in other scripts," \
		"and one" $'\n'"   that is not even UTF-8."
	took
	title "The primary: hooks into its repositories, and its node"
	show london hooks install || stop_with "The hooks could not be installed."
	start_site london || stop_with "london did not start."
	took
	title "The secondary, which has nothing yet"
	start_site paris || stop_with "paris did not start."
	watch_status | indented
	[ "${PIPESTATUS[0]}" -eq 0 ] || stop_with "paris did not come into sync."
	took
	title "Ask git whether the sites are equal (for-each-ref, symbolic-ref, fsck)"
	prove
	title "Three pushes to the primary"
	pushes 2>&1 | indented
	[ "${PIPESTATUS[0]}" -eq 0 ] || stop_with "A push did not arrive."
	echo "   (Until refs are equal and status says \"in sync, verified\"; asking takes some ms of it.)"
	took
	title "A repository is deleted at the primary"
	rm -rf london/git/sample/small.git
	echo "   No hook tells of that: the next scan finds it, within a minute (with thousands of"
	echo "   repositories a few minutes), or we tell now."
	show london changed sample/small
	wait_until 20 is_gone || stop_with "The copy is still there."
	printf '   its copy waits in the trash for 14 days:\n   %s\n' paris/git/.refrelay/trash/*
	took
	title "Ask git again"
	prove
	show paris status || result=1
	title "Stop both"
	stop_both || result=1
	took
}

# What stands in files that outlive a request.
search_tokens() {
	grep -raFq -e "$(cat desk.token)" -e "$build_token" paris/git paris/data paris/log && return 1
	echo "Neither token is in the clone, the database or the log."
}

mirror_demo() {
	cd "$folder" || exit 1
	make_mirror_sites && make_repository london/git/acme/app.git 20 || exit 1
	rm -f london/git/acme/app.git/description # which no upstream tells
	give_token london build read
	give_token london desk read
	build_token=$(cat build.token)
	mirror acme/app interval 1m
	watch acme/app build
	watch acme/app desk
	source=$PWD/london/git dest=$PWD/paris/git

	title "An upstream at $(site_url london), which takes tokens alone"
	start_site london || stop_with "london did not start."
	describe "$source" | indented
	took
	title "A site that mirrors it for two watchers, each with a token of its own"
	sed -n '/^\[mirror/,$p' paris/refrelay.conf | indented
	start_site paris || stop_with "paris did not start."
	wait_until 20 is_mirrored acme/app || stop_with "The mirror did not come."
	show paris mirror list || result=1
	took
	title "Something changes there; the watcher desk has it brought at once, and is told what came"
	add_commits london/git/acme/app.git refs/heads/main 1
	show paris mirror sync acme/app --as desk || result=1
	took
	title "The token of build is revoked: the mirror goes on with the other's"
	echo revoked >build.token
	add_commits london/git/acme/app.git refs/heads/main 1
	show paris mirror sync acme/app || result=1
	show paris mirror show acme/app || result=1
	took
	title "Look for the tokens, and ask git whether the mirror is equal"
	search_tokens | indented
	[ "${PIPESTATUS[0]}" -eq 0 ] || result=1
	prove
	title "Stop both"
	stop_both || result=1
	took
}

# Room for a second copy, before anything is written.
check_room() {
	local needed free

	needed=$(du -sk "$source" | cut -f 1)
	free=$(df -Pk "$folder" | awk 'NR == 2 { print $4 }')
	[ "$needed" -lt "$free" ] && return
	echo "The copy would take $((needed / 1024)) MiB, and below ${TMPDIR:-/tmp} only" \
		"$((free / 1024)) MiB are free. Name another place with TMPDIR=/a/directory." >&2
	exit 1
}

own_demo() {
	source=$(cd "$REPOSITORIES" && pwd -P) || exit 1
	check_room
	FSCK_OPTIONS=--connectivity-only
	title "Your repositories, in $source (they are only read)"
	describe "$source" | indented
	took
	title "Copy them all"
	replicate
	title "Ask git whether the copies are equal (for-each-ref, symbolic-ref, fsck --connectivity-only)"
	prove
	title "Run it again: nothing changed, so there is nothing to do"
	echo "   (A change is not shown, since it would have to be made in your directory.)"
	replicate
	title "Ask git again"
	prove
}

if [ "${1-}" = mirror ]; then
	mirror_demo
elif [ -n "${REPOSITORIES-}" ]; then
	own_demo
else
	sample_demo
fi

[ "$result" -eq 0 ] && end="All equal." || end="NOT everything was equal; see above."
printf '\n%s%s%s\n' "$bold" "$end" "$plain"
[ "${1-}" != mirror ] || exit "$result"
if [ -z "${REPOSITORIES-}" ]; then
	cat <<-END
		The same with your own directory of bare repositories, which is only read:
		  make demo REPOSITORIES=/srv/git
	END
fi
cat <<-END
	To keep the copies:
	  $REFRELAY replicate ${REPOSITORIES:-/srv/git} /srv/copies
END
exit "$result"
