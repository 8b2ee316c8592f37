# Trees of many repositories or refs, made fast. How long things took is only printed, by
# `tell_times` before tap_done; the test decides nothing by it.

# N repositories, each with tips of its own in packed-refs, in folders of a hundred.
make_many() { # N
	local i

	mkdir source
	make_repository template.git 200
	rm -rf template.git/hooks
	git -C template.git rev-list main >commits
	rm -r template.git/refs/heads/main template.git/logs 2>/dev/null || true
	for ((i = 0; i < $1; i += 100)); do
		mkdir -p "source/$((i / 100))"
	done
	for ((i = 0; i < $1; i++)); do
		echo "source/$((i / 100))/repo-$i.git"
	done >paths
	xargs -n 1 -P 2 cp -r template.git <paths
	awk 'NR == FNR { commit[n++] = $0; next }
		{
			file = $0 "/packed-refs"
			print commit[FNR % n] " refs/heads/main" >file
			print commit[FNR * 7 % n] " refs/tags/t-" FNR >file
			close(file)
		}' commits paths
}

# All refs of all repositories of a tree, as their packed-refs have them.
all_refs() { # TREE
	(cd "$1" && find . -path ./.refrelay -prune -o -name packed-refs -print0 |
		xargs -0 grep -v '^[#^]' | LC_ALL=C sort)
}

all_are_equal() {
	all_refs source >refs-source
	all_refs dest >refs-dest
	cmp refs-source refs-dest
	test -z "$(find dest -path dest/.refrelay -prune -o -path '*/refs/*' -type f -print)"
}

sample_is_sound() { # PATH...
	local path

	for path; do
		equal_repositories "source/$path" "dest/$path"
	done
}

took() {
	echo "# $1: $(grep -o '"duration":[0-9.]*' out) s" >>"$tap_root/took"
}

tell_times() {
	cat "$tap_root/took"
}
