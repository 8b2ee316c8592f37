# Tests that kill `refrelay replicate` in the middle. They start from a prepared state in
# ./source and ./dest, and know the pictures of each repository before and after in
# ./old and ./new (one file a repository).

# Prepares the state once for the script, by the function prepare_state in an empty
# directory, and copies it here.
fresh_state() {
	local state=$tap_root/state

	if [ ! -d "$state" ]; then
		mkdir "$state"
		(cd "$state" && prepare_state)
	fi
	rm -rf source dest old new
	cp -a "$state/." .
}

# HEAD, all refs, and the description. (With fewer processes than repository_picture.)
picture() { # PATH
	echo "$(<"$1/HEAD")"
	git -C "$1" for-each-ref --format='%(refname) %(objectname) %(symref)' || return
	[ ! -f "$1/description" ] || echo "$(<"$1/description")"
}

# Pictures of the repositories below DIRECTORY, as files in INTO.
take_pictures() { # DIRECTORY INTO
	local path

	mkdir -p "$2"
	for path in "$1"/*.git; do
		picture "$path" >"$2/${path##*/}"
	done
}

# Each line that the copy shows now is of the old picture or of the new one; and it is the
# old or the new picture as a whole unless HEAD and other symbolic refs change as well,
# which no rename can do at once.
shows_old_or_new() { # NAME
	picture "dest/$1" >now
	cmp -s now "new/$1" && return
	[ -f "old/$1" ] || fail "dest/$1 is new and not whole: $(diff now "new/$1")"
	cmp -s now "old/$1" && return
	[ -f "two-steps/$1" ] || fail "dest/$1 is a mixture: $(diff "old/$1" now)"
	LC_ALL=C comm -23 <(sort now) <(sort -u "old/$1" "new/$1") >strange
	[ ! -s strange ] || fail "dest/$1 shows what never was: $(<strange)"
}

# What must be true at once after any death.
nothing_is_half_done() {
	local path faults

	wait_until 2 no_workers
	for path in dest/*.git; do
		[ -d "$path" ] || continue
		faults=$(git -C "$path" fsck --connectivity-only --no-progress --no-dangling 2>&1) ||
			fail "$path is damaged: $faults"
		shows_old_or_new "${path##*/}"
	done
}

# The next run makes all equal, and cleans up.
is_whole_after_the_next_run() { # [OPTION...]
	local path

	expect 0 refrelay replicate "$@" source dest
	for path in source/*.git; do
		picture "dest/${path##*/}" | cmp - "new/${path##*/}"
	done
	for path in dest/*.git; do
		test -d "source/${path##*/}"
		git -C "$path" fsck --connectivity-only --no-progress --no-dangling
	done
	no_left_overs
}

# Kills it where POINT is passed for the first time, then where it is for the second
# time, and so on, until it is passed no more.
dies_at() { # POINT [OPTION...]
	local point=$1 times=0 status
	shift
	while true; do
		times=$((times + 1))
		fresh_state
		status=0
		REFRELAY_FAILPOINT=$point@$times=kill refrelay replicate --jobs 1 "$@" \
			source dest >out 2>err || status=$?
		[ "$status" -ne 0 ] || break
		[ "$status" -eq 137 ] || fail "status $status: $(cat out err)"
		echo "$point, time $times:"
		nothing_is_half_done
		is_whole_after_the_next_run "$@"
	done
	[ "$times" -gt 1 ] || fail "$point is never passed"
	no_left_overs
}

# A state for updates. plain: refs come, go and move. head: so does HEAD, from what is deleted. loose: the copy
# has loose refs. gone: the source has it no more. dir/gone: with a folder of its own.
prepare_update() {
	local name

	mkdir source two-steps
	for name in plain head loose; do
		make_repository "source/$name.git" 6
		git -C "source/$name.git" branch one main~1
		git -C "source/$name.git" branch two main~2
		git -C "source/$name.git" pack-refs --all
	done
	make_repository source/dir/gone.git 2
	expect 0 refrelay replicate source dest
	git -C dest/loose.git update-ref refs/heads/two main~3
	git -C dest/loose.git update-ref refs/heads/deep/er main~3
	take_pictures dest old
	rm -r source/dir
	for name in plain head loose; do
		add_commits "source/$name.git" refs/heads/main 1
		git -C "source/$name.git" update-ref -d refs/heads/one
		git -C "source/$name.git" update-ref refs/heads/one/more main~2
		git -C "source/$name.git" update-ref refs/heads/two main~1
	done
	git -C source/head.git update-ref refs/heads/trunk main
	git -C source/head.git symbolic-ref HEAD refs/heads/trunk
	git -C source/head.git update-ref -d refs/heads/main
	git -C source/head.git symbolic-ref refs/heads/alias refs/heads/two
	: >two-steps/head.git
	take_pictures source new
}
