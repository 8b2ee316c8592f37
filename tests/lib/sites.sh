# Trees of bare repositories: making them, and proving with stock git alone that two of
# them are equal. Used by the site tests and by the demo.

# A repository of its own history: PATH [N] makes N commits (default 10) on main, through
# fast-import, in well under a second for thousands. The third argument is git's object
# format.
make_repository() { # PATH [N [FORMAT]]
	local path=$1 count=${2:-10} format=${3:-sha1}

	git init -q --bare --initial-branch=main --object-format="$format" "$path" &&
		add_commits "$path" refs/heads/main "$count"
}

# N more commits on a ref, which may be new; then FROM is where it starts. Each commit
# changes one file of fifty.
add_commits() { # PATH REF N [FROM]
	local path=$1 ref=$2 count=$3 from=${4:-} start=1700000000

	[ -n "$from" ] || from=$(git -C "$path" rev-parse -q --verify "$ref") || from=
	[ -z "$from" ] || start=$(git -C "$path" log -1 --format=%ct "$from" --)
	LC_ALL=C awk -v ref="$ref" -v count="$count" -v from="$from" -v name="${path##*/}" \
		-v start="$start" '
		function data(text) { printf "data %d\n%s\n", length(text), text }
		BEGIN {
			for (i = 1; i <= count; i++) {
				printf "commit %s\n", ref
				printf "committer Sample <sample@example.com> %d +0000\n",
					start + 60 * i
				data("Change " i " of " name)
				if (i == 1 && from)
					printf "from %s\n", from
				printf "M 100644 inline part-%d/file-%d.txt\n", i % 7, i % 50
				data(ref " of " name " at change " i)
			}
			print "done"
		}' | git -C "$path" fast-import --quiet --done --date-format=raw
}

# Paths of the bare repositories below DIRECTORY, relative to it, sorted.
list_repositories() { # DIRECTORY
	[ -d "$1" ] || return 0
	(cd "$1" && find . -mindepth 1 -type d \( -name .git -o -path ./.refrelay \) -prune -o \
		-mindepth 1 -type d -exec test -d {}/objects -a -d {}/refs -a -f {}/HEAD \; \
		-print -prune) | sed 's,^\./,,' | LC_ALL=C sort
}

# Where a copy of that repository stands: always with .git at the end.
copy_path() { # PATH
	echo "${1%.git}.git"
}

# HEAD, all refs, and the description, as text.
repository_picture() { # PATH
	git -C "$1" symbolic-ref -q HEAD || git -C "$1" rev-parse --verify HEAD || return
	git -C "$1" for-each-ref --format='%(refname) %(objectname) %(symref)' || return
	[ ! -f "$1/description" ] || cat "$1/description" || return
	echo end
}

# What a repository lacks, or has broken: nothing, if all is well. FSCK_OPTIONS may say
# --connectivity-only, which is enough where the objects themselves are not in doubt.
repository_faults() { # PATH
	# shellcheck disable=SC2086
	LC_ALL=C git -C "$1" fsck --no-progress --no-dangling ${FSCK_OPTIONS-} 2>&1 |
		grep -v '^notice: '
	return "$((PIPESTATUS[0] != 0))"
}

# Says what differs, and fails. A fault that the source has as well is told, but it is a
# fault of the source.
equal_repositories() { # SOURCE DEST
	local source dest faults

	if [ ! -d "$2" ]; then
		echo "$2 does not exist"
		return 1
	fi
	source=$(repository_picture "$1") || return 1
	dest=$(repository_picture "$2") || return 1
	if [ "$source" != "$dest" ]; then
		printf '%s and %s differ:\n' "$1" "$2"
		diff -a <(printf '%s\n' "$source") <(printf '%s\n' "$dest") || return 1
	fi
	faults=$(repository_faults "$2") && return
	printf '%s has faults:\n%s\n' "$2" "$faults"
	repository_faults "$1" >/dev/null && return 1
	echo "(so has its source)"
}

# Whether DEST has the repositories of SOURCE, no others, and each of them equal.
equal_trees() { # SOURCE DEST
	local path result=0
	local -A wanted=()

	while IFS= read -r path; do
		wanted[$(copy_path "$path")]=1
		equal_repositories "$1/$path" "$2/$(copy_path "$path")" || result=1
	done < <(list_repositories "$1")
	while IFS= read -r path; do
		[ -n "${wanted[$path]-}" ] && continue
		echo "$2/$path has no source"
		result=1
	done < <(list_repositories "$2")
	[ "${#wanted[@]}" -gt 0 ] && return "$result"
	echo "$1 has no repositories"
	return 1
}

# The program under test.
refrelay() {
	"$REFRELAY" "$@"
}
