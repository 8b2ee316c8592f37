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
	local path=$1 ref=$2 count=$3 from=${4:-} start=1700000000 found

	if found=$(git -C "$path" log -1 --format='%H %ct' "${from:-$ref}" -- 2>/dev/null); then
		from=${from:-${found% *}}
		start=${found#* }
	fi
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

# In the pack that has all its objects, a blob can be inflated no more. No walk over the history
# reads it.
damage_blob() { # REPOSITORY
	local pack at

	pack=$(ls "$1"/objects/pack/pack-*.pack)
	at=$(git verify-pack -v "$pack" | awk '$2 == "blob" && NF == 5 { print $4 + $5 - 4; exit }')
	chmod u+w "$pack"
	printf XXXX | dd of="$pack" bs=1 seek="$at" conv=notrunc status=none
	chmod u-w "$pack"
	git -C "$1" rev-list --objects --quiet --all
	! git -C "$1" fsck --full >/dev/null 2>&1 || return
}

# Paths of the bare repositories below DIRECTORY, relative to it, sorted. What is within
# one of them is none.
list_repositories() { # DIRECTORY
	local path above
	local -A found=()

	[ -d "$1" ] || return 0
	while IFS= read -r path; do
		path=${path#./}
		[ -d "$1/$path/objects" ] && [ -d "$1/$path/refs" ] && [ -f "$1/$path/HEAD" ] || continue
		above=$path
		while [[ $above == */* ]]; do
			above=${above%/*}
			[ -z "${found[$above]-}" ] || continue 2
		done
		found[$path]=1
		echo "$path"
	done < <(cd "$1" && find . -type d \( -name .git -o -path ./.refrelay \) -prune -o \
		-name HEAD -path './*/*' -printf '%h\n' | LC_ALL=C sort)
}

# Noise does not get smaller, however long git tries.
no_compression() { # REPOSITORY...
	local repository
	for repository; do
		git -C "$repository" config core.compression 0
	done
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

# Whether two files have the same text, or neither is there; without a process.
same_text() { # FILE OTHER
	local one='' other=''

	[ ! -f "$1" ] || IFS= read -rd '' one <"$1" || [ -n "$one" ] || true
	[ ! -f "$2" ] || IFS= read -rd '' other <"$2" || [ -n "$other" ] || true
	[ "$one" = "$other" ]
}

# What a ref is by the files of its repository, in $ref_value; without a process. Fails where
# that cannot be told so.
ref_value=
find_ref() { # PATH REF
	local line

	ref_value=
	if [ -f "$1/$2" ]; then
		IFS= read -r ref_value <"$1/$2"
	elif [ -f "$1/packed-refs" ]; then
		while IFS= read -r line; do
			[[ $line != *" $2" ]] || ref_value=${line%% *}
		done <"$1/packed-refs"
	fi
	[[ $ref_value =~ ^[0-9a-f]{40,64}$ ]]
}

# While something is waited for: that ref is surely not the same in both yet.
differs_still() { # PATH OTHER REF
	local value

	[ -n "${is_waiting-}" ] && find_ref "$1" "$3" && value=$ref_value &&
		find_ref "$2" "$3" && [ "$value" != "$ref_value" ]
}

# Whether their pictures are the same: 0 yes, 2 no, 1 that cannot be told so cheaply. What
# git says of HEAD is only asked where the files differ: the same text says the same.
same_pictures() { # PATH OTHER
	local refs other

	[ -f "$1/HEAD" ] && [ -f "$2/HEAD" ] && same_text "$1/HEAD" "$2/HEAD" &&
		same_text "$1/description" "$2/description" || return 1
	refs=$(git -C "$1" for-each-ref --format='%(refname) %(objectname) %(symref)') &&
		other=$(git -C "$2" for-each-ref --format='%(refname) %(objectname) %(symref)') ||
		return 1
	[ "$refs" = "$other" ] || return 2
}

# What a repository lacks, or has broken: nothing, if all is well. FSCK_OPTIONS may say
# --connectivity-only, which is enough where the objects themselves are not in doubt. Git
# starts programs for a commit-graph and for an index of several packs, unless it is told
# that there is none.
repository_faults() { # PATH
	local said status=0 line settings=()

	[ ! -d "$1/objects/pack" ] || [ -e "$1/objects/info/alternates" ] || {
		[ -e "$1/objects/info/commit-graph" ] || [ -e "$1/objects/info/commit-graphs" ] ||
			settings+=(-c core.commitGraph=false)
		[ -e "$1/objects/pack/multi-pack-index" ] ||
			settings+=(-c core.multiPackIndex=false)
	}
	# shellcheck disable=SC2086
	said=$(LC_ALL=C git -C "$1" "${settings[@]}" fsck --no-progress --no-dangling \
		${FSCK_OPTIONS-} 2>&1) || status=1
	while IFS= read -r line; do
		[ -z "$line" ] || [[ $line == 'notice: '* ]] || printf '%s\n' "$line"
	done <<<"$said"
	return "$status"
}

# Says what differs, and fails. While something is waited for, it need not be said.
same_but_for_faults() { # SOURCE DEST
	local source dest status=0

	if [ ! -d "$2" ]; then
		echo "$2 does not exist"
		return 1
	fi
	! differs_still "$1" "$2" refs/heads/main 2>/dev/null || return
	same_pictures "$1" "$2" || status=$?
	[ "$status" -ne 0 ] || return 0
	[ "$status" -ne 2 ] || [ -z "${is_waiting-}" ] || return 1
	source=$(repository_picture "$1") || return 1
	dest=$(repository_picture "$2") || return 1
	[ "$source" != "$dest" ] || return 0
	printf '%s and %s differ:\n' "$1" "$2"
	diff -a <(printf '%s\n' "$source") <(printf '%s\n' "$dest")
	return 1
}

# A fault that the source has as well is told, but it is a fault of the source.
has_no_fault() { # SOURCE DEST
	local faults

	faults=$(repository_faults "$2") && return
	printf '%s has faults:\n%s\n' "$2" "$faults"
	repository_faults "$1" >/dev/null && return 1
	echo "(so has its source)"
}

# Says what differs, and fails.
equal_repositories() { # SOURCE DEST
	same_but_for_faults "$1" "$2" && has_no_fault "$1" "$2"
}

# Whether DEST has the repositories of SOURCE, no others, and each of them equal. Objects
# are read when all else is as it should be.
equal_trees() { # SOURCE DEST
	local path result=0
	local -A wanted=()

	while IFS= read -r path; do
		wanted[${path%.git}.git]=$path
		same_but_for_faults "$1/$path" "$2/${path%.git}.git" || result=1
		[ "$result" -eq 0 ] || [ -z "${is_waiting-}" ] || return
	done < <(list_repositories "$1")
	while IFS= read -r path; do
		[ -n "${wanted[$path]-}" ] && continue
		echo "$2/$path has no source"
		result=1
	done < <(list_repositories "$2")
	if [ "${#wanted[@]}" -eq 0 ]; then
		echo "$1 has no repositories"
		return 1
	fi
	[ "$result" -eq 0 ] || return
	for path in "${!wanted[@]}"; do
		has_no_fault "$1/${wanted[$path]}" "$2/$path" || result=1
	done
	return "$result"
}

# The program under test.
refrelay() {
	"$REFRELAY" "$@"
}
