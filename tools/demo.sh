#!/usr/bin/env bash
# usage: tools/demo.sh            what `make demo` runs, after building
#        REPOSITORIES=/srv/git tools/demo.sh
#
# Shows refrelay's main job: makes one tree of bare repositories equal to another, changes
# something, does it again, and proves with stock git alone that all is equal. With
# REPOSITORIES it copies that tree, which is only read, so that nothing is changed there.
# The exit status is not 0 when anything was not equal.
set -uo pipefail
project=$(cd "$(dirname "$0")/.." && pwd) || exit 1
REFRELAY=${REFRELAY:-$project/build/refrelay}
. "$project/tests/lib/sites.sh"
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
trap 'chmod -R u+rwX "$folder"; rm -rf "$folder"' EXIT
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

change_samples() {
	local library=$source/sample/library.git

	echo "in sample/library.git: 3 commits on main, a new branch, a new tag," &&
		add_commits "$library" refs/heads/main 3 &&
		add_commits "$library" refs/heads/new-idea 10 refs/heads/main~5 &&
		git -C "$library" tag -m 'Second release' v2.0 main &&
		echo "a deleted branch, a branch pushed by force, HEAD moved to the new branch;" &&
		git -C "$library" update-ref -d refs/heads/abandoned &&
		git -C "$library" update-ref refs/heads/topic refs/heads/main~2000 &&
		add_commits "$library" refs/heads/topic 4 &&
		git -C "$library" symbolic-ref HEAD refs/heads/new-idea &&
		echo "in sample/empty.git: the first 2 commits; a new repository, sample/late.git" &&
		add_commits "$source/sample/empty.git" refs/heads/main 2 &&
		make_repository "$source/sample/late.git" 50
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

sample_demo() {
	title "Sample repositories, in $source"
	if ! make_samples 2>&1 | indented; then
		echo "   The samples could not be made." >&2
		exit 1
	fi
	describe "$source" | indented
	echo "   library.git has tags of all kinds, notes, deep names, names in other scripts," \
		"and one" $'\n'"   that is not even UTF-8."
	took
	title "Copy them all"
	replicate
	title "Ask git whether the copies are equal (for-each-ref, symbolic-ref, fsck)"
	prove
	title "Change something"
	if ! change_samples 2>&1 | indented; then
		echo "   The samples could not be changed." >&2
		exit 1
	fi
	if equal_trees "$source" "$dest" >/dev/null; then
		echo "   Git sees no difference, though there must be one."
		result=1
	else
		echo "   Git now says that source and copies differ."
	fi
	took
	title "Run it again: only what changed is copied"
	replicate
	title "Ask git again"
	prove
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

if [ -n "${REPOSITORIES-}" ]; then
	own_demo
else
	sample_demo
fi

[ "$result" -eq 0 ] && end="All equal." || end="NOT everything was equal; see above."
printf '\n%s%s%s\n' "$bold" "$end" "$plain"
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
