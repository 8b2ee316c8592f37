#!/usr/bin/env bash
# What stands already where a mirror is to be: older clones are taken over, with what they have; nothing that
# somebody else made is lost; no token stays in a clone.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/mirrored.sh"

make_adopt_sites() {
	make_mirror_sites
	set_conf london http.anonymousRead true
	make_repository london/git/acme/r.git 5
	mirror acme/r interval 1h
	start_site london
	clone=paris/git/acme/r.git
}

# The inode shows that it is the same directory still.
clone_here() { # GIT-CLONE-OPTION...
	git clone -q --no-local "$@" london/git/acme/r.git "$clone"
	inode=$(stat -c %i "$clone")
}

row_has() { # NAME MEMBER TEXT
	at paris mirror show "$1" --json | "$SITE_HELP" member "$2" | grep -F "$3"
}

is_in_the_trash() { # PATTERN
	compgen -G "paris/git/.refrelay/trash/*$1*"
}

adopts() { # GIT-CLONE-OPTION...
	make_adopt_sites
	clone_here "$@"
	git -C "$clone" config sample.kept yes
	start_site paris
	wait_until 20 is_mirrored acme/r
	wait_until 20 row_has acme/r state synced
	[ "$(stat -c %i "$clone")" = "$inode" ]
	[ "$(git -C "$clone" config sample.kept)" = yes ]
	has_no_fault london/git/acme/r.git "$clone"
}

an_older_clone() {
	make_adopt_sites
	clone_here --mirror
	add_commits london/git/acme/r.git refs/heads/main 2
	git -C london/git/acme/r.git branch new
	start_site paris
	wait_until 20 is_mirrored acme/r
	[ "$(stat -c %i "$clone")" = "$inode" ]
	has_no_fault london/git/acme/r.git "$clone"
}

a_damaged_clone() {
	make_adopt_sites
	clone_here --mirror
	damage_blob "$clone"
	start_site paris
	wait_until 20 row_has acme/r state synced
	is_mirrored acme/r
	has_no_fault london/git/acme/r.git "$clone"
	is_in_the_trash acme
}

# A clone that was taken over counts as changed: it may be tried again, and held again, between two looks.
says_that_it_is_held() { # TEXT
	row_has acme/r held_reason "$1" && row_has acme/r remedy 'sync --force acme/r' &&
		{ at paris status || :; } | grep 'acme/r: .*sync --force acme/r'
}

is_held_for() { # TEXT
	wait_until 20 says_that_it_is_held "$1"
}

commits_of_its_own() {
	local own held

	make_adopt_sites
	clone_here --mirror
	add_commits "$clone" refs/heads/own 1 main
	own=$(tip "$clone" refs/heads/own)
	start_site paris
	is_held_for "the source lacks, e.g. $own in refs/heads/own"
	[ "$(tip "$clone" refs/heads/own)" = "$own" ]
	[ "$(stat -c %i "$clone")" = "$inode" ]
	# What nobody was there to carry out is not carried out later.
	stop_site paris
	held=$(logged paris sync.held)
	expect 1 at paris mirror sync --force --json acme/r
	[ "$("$SITE_HELP" member state <out)" = failed ]
	[ "$("$SITE_HELP" member class <out)" = conflict ]
	start_site paris
	wait_until 20 is_held_again
	[ "$(tip "$clone" refs/heads/own)" = "$own" ]
	# A person who has saved it says so.
	at paris mirror sync --force acme/r
	is_mirrored acme/r
}

is_held_again() {
	[ "$(logged paris sync.held)" -gt "$held" ]
}

another_history() {
	local before

	make_adopt_sites
	make_repository "$clone" 4
	add_commits "$clone" refs/heads/main 1
	repository_picture "$clone" >before
	start_site paris
	is_held_for 'commits that the source lacks'
	repository_picture "$clone" >after
	diff before after
	[ -z "$(is_in_the_trash acme)" ]
}

# Its history ends where nobody knows: it is replaced by a whole one.
a_shallow_clone() {
	make_adopt_sites
	git clone -q --bare --depth 1 "file://$PWD/london/git/acme/r.git" "$clone"
	start_site paris
	wait_until 20 test ! -e "$clone/shallow"
	wait_until 20 row_has acme/r state synced
	is_mirrored acme/r
	has_no_fault london/git/acme/r.git "$clone"
	is_in_the_trash acme
}

a_shallow_clone_with_commits_of_its_own() {
	local own

	make_adopt_sites
	git clone -q --bare --depth 1 "file://$PWD/london/git/acme/r.git" "$clone"
	add_commits "$clone" refs/heads/own 1 main
	own=$(tip "$clone" refs/heads/own)
	start_site paris
	is_held_for "the source lacks, e.g. $own"
	[ "$(tip "$clone" refs/heads/own)" = "$own" ]
	[ -e "$clone/shallow" ]
	[ -z "$(is_in_the_trash acme)" ]
}

is_nowhere() { # TOKEN
	fails grep -rF "$1" paris
}

# As such a program leaves it (seed: `git clone --depth 1 URL` with a token in it, then `git fetch` and
# `git reset --hard` for each job).
docora_clone() { # [GIT-CLONE-OPTION...]
	tree=paris/git/acme/r
	git clone -q "${@---depth=1}" "file://$PWD/london/git/acme/r.git" "$tree"
	had=$(git -C "$tree" rev-parse HEAD)
	objects=$(stat -c %i "$tree/.git/objects")
	git -C "$tree" remote set-url origin "$(sed "s,://,&x-access-token:$token@," <<<"$(site_url london)/acme/r")"
}

make_tokens() {
	stop_site london
	give_token london build read
	start_site london
	token=$(<build.token)
	other=ghp_Old9876543210
	(umask 077 && echo something-else >else.token)
	watch 'acme/*' else
	watch acme/r build
}

is_taken_over() {
	[ "$(stat -c %i "$clone/objects")" = "$objects" ] && git -C "$clone" cat-file -e "$had" &&
		[ ! -e paris/git/acme/r ] && [ ! -e paris/git/.refrelay/adopt/*/tree ]
}

is_in_sync_with() { # DEPTH
	row_has acme/r state synced && [ "$(tip "$clone" refs/heads/main)" = "$(tip london/git/acme/r.git refs/heads/main)" ] &&
		[ "$(git -C "$clone" rev-list --count main)" = "$1" ]
}

no_object_came() {
	[ "$(find "$clone/objects" -type f -name '*.pack' | wc -l)" -eq 1 ]
}

a_working_clone() {
	make_adopt_sites
	make_tokens
	set_conf paris mirror.acme/r.depth 1
	set_conf paris mirror.acme/r.checkout true
	docora_clone
	start_site paris
	wait_until 20 is_in_sync_with 1
	is_taken_over
	no_object_came
	[ -e "$clone/shallow" ]
	[ "$(git -C "$clone" for-each-ref --format='%(refname)')" = refs/heads/main ]
	git -C "$clone" fsck --strict
	wait_until 20 cmp paris/git/acme/r.checkout/part-1/file-1.txt <(git -C london/git/acme/r.git show main:part-1/file-1.txt)
	is_in_the_trash r
	was_logged paris mirror.taken_over 'name=acme/r'
	was_logged paris mirror.token_removed 'name=acme/r path=acme/r/.git watcher=build'
	is_nowhere "$token"
	# It goes on as any other.
	add_commits london/git/acme/r.git refs/heads/main 1
	at paris mirror sync acme/r
	wait_until 20 is_in_sync_with 1
}

# It was fetched before the upstream went on, and rewrote what it had.
an_old_working_clone() {
	make_adopt_sites
	make_tokens
	set_conf paris mirror.acme/r.depth 1
	docora_clone
	git -C london/git/acme/r.git update-ref refs/heads/main main~2
	add_commits london/git/acme/r.git refs/heads/main 2
	start_site paris
	wait_until 20 is_in_sync_with 1
	is_taken_over
	is_nowhere "$token"
}

# All of the history is wanted, and all branches: what lacks is fetched.
made_whole() { # GIT-CLONE-OPTION...
	make_adopt_sites
	make_tokens
	git -C london/git/acme/r.git branch other main~1
	docora_clone "$@"
	git -C "$tree" branch mine HEAD
	add_commits london/git/acme/r.git refs/heads/main 1
	start_site paris
	wait_until 20 is_mirrored acme/r
	wait_until 20 row_has acme/r state synced
	is_taken_over
	[ ! -e "$clone/shallow" ]
	has_no_fault london/git/acme/r.git "$clone"
	is_nowhere "$token"
}

kept_tree() {
	compgen -G 'paris/git/.refrelay/kept/*.acme%2Fr'
}

# What somebody changed in the files is kept, and can be looked at.
changed_files() { # COMMAND...
	make_adopt_sites
	make_tokens
	docora_clone
	"$@"
	git -C "$tree" status --porcelain --ignored >before
	start_site paris
	wait_until 20 is_mirrored acme/r
	wait_until 20 row_has acme/r state synced
	is_taken_over
	was_logged paris mirror.work_tree_kept 'level=warn .*name=acme/r path=.refrelay/kept/'
	fails is_in_the_trash r
	git -C "$(kept_tree)" status --porcelain --ignored >after
	diff before after
	[ -s before ]
	is_nowhere "$token"
	# It is told of no more than once, and stays.
	stop_site paris
	start_site paris
	at paris mirror sync acme/r
	[ "$(grep -c mirror.work_tree_kept paris/log)" -eq 1 ]
	[ -e "$(kept_tree)" ]

	# It needs nothing of the clone, which may be made anew, or removed.
	stop_site paris
	rm -rf "$clone"
	git -C "$(kept_tree)" status --porcelain --ignored >after
	diff before after
	git -C "$(kept_tree)" ls-files -s | cut -d ' ' -f 2 | git -C "$(kept_tree)" cat-file --batch-check >objects
	fails grep missing objects
}

changes_one() {
	echo changed >"$tree/part-1/file-1.txt"
}

stages_one() {
	echo new >"$tree/new"
	git -C "$tree" add new
	git -C "$tree" update-index --refresh
}

ignores_one() {
	echo /secret >"$tree/.git/info/exclude"
	echo mine >"$tree/secret"
}

# Another upstream lacks what the clone was fetched from elsewhere: a person decides.
of_another_upstream() {
	make_adopt_sites
	make_tokens
	make_repository london/git/acme/another.git 4
	add_commits london/git/acme/another.git refs/heads/main 1
	docora_clone --no-single-branch
	set_conf paris mirror.acme/r.url "$(site_url london)/acme/another.git"
	start_site paris
	is_held_for "the source lacks, e.g. $had in refs/heads/main"
	[ "$(tip "$clone" refs/heads/main)" = "$had" ]
	at paris mirror sync --force acme/r
	[ "$(tip "$clone" refs/heads/main)" = "$(tip london/git/acme/another.git refs/heads/main)" ]
}

# Commits that only the clone has hold the mirror; nothing is lost.
own_commits() { # COMMAND...
	make_adopt_sites
	make_tokens
	docora_clone
	own=
	"$@"
	start_site paris
	is_held_for "the source lacks, e.g. $own"
	git -C "$clone" cat-file -e "$own^{commit}"
	git -C "$clone" for-each-ref | grep "$own"
	at paris mirror sync --force acme/r
	is_mirrored acme/r
	fails test -e paris/git/acme/r
}

commits_one() {
	git -C "$tree" commit -q --allow-empty -m mine
	own=$(git -C "$tree" rev-parse HEAD)
}

commits_detached() {
	git -C "$tree" checkout -q --detach
	commits_one
}

stashes_one() {
	changes_one
	git -C "$tree" stash -q
	own=$(git -C "$tree" rev-parse refs/stash)
}

older_stashes() {
	stashes_one
	echo more >>"$tree/part-1/file-1.txt"
	git -C "$tree" stash -q
	own=$(git -C "$tree" rev-parse refs/stash)
}

older_stashes_are_kept() {
	own_commits older_stashes
	[ "$(git -C "$(kept_tree)" stash list | wc -l)" -eq 2 ]
	git -C "$(kept_tree)" cat-file -e 'stash@{1}^{tree}'
}

killed_while_it_is_taken() {
	local point

	make_adopt_sites
	make_tokens
	set_conf paris mirror.acme/r.depth 1
	for point in adopt.begins adopt.moved adopt.built adopt.emptied adopt.objects \
		adopt.placed adopt.told adopt.put_away; do
		echo "$point:"
		rm -rf paris/git/acme paris/git/.refrelay paris/data
		docora_clone
		changes_one
		launch_site paris "REFRELAY_FAILPOINT=$point=kill"
		wait_until 30 has_died paris
		start_site paris
		wait_until 30 is_in_sync_with 1
		is_taken_over
		no_object_came
		grep changed "$(kept_tree)/part-1/file-1.txt"
		[ -z "$(ls paris/git/.refrelay/adopt)" ]
		stop_site paris
	done
}

is_traced() {
	grep -q attached strace.err && return
	! grep -q 'not permitted' strace.err || skip "strace may not be used here"
	return 1
}

# After each rename the folder that it went to is flushed before any other: on a file system without a journal,
# what is in neither folder after a power cut is lost.
what_is_moved_is_on_disk_where_it_went() {
	local tracer

	command -v strace >/dev/null || skip "no strace to see the calls with"
	make_adopt_sites
	make_tokens
	set_conf paris mirror.acme/r.depth 1
	docora_clone
	changes_one
	launch_site paris REFRELAY_FAILPOINT=adopt.begins=stop
	wait_until 30 is_paused paris
	strace -f -y -o calls -e trace=fsync,renameat -p "$(site_pid paris)" 2>strace.err &
	tracer=$!
	wait_until 20 is_traced
	kill -CONT "$(site_pid paris)"
	wait_until 30 is_in_sync_with 1
	is_taken_over
	kill "$tracer" && wait "$tracer" || true
	cat calls
	awk '/renameat\(.*"objects", .*"git\/objects"/ { wanted = "/git>"; moved++; next }
		/renameat\(.*"tree", .*refrelay\/kept\// { wanted = "/kept>"; moved++; next }
		wanted && /fsync\(.*refrelay/ { bad += !index($0, wanted); wanted = "" }
		END { exit bad || wanted || moved != 2 }' calls
}

# A person who asks gets the reason, not the end of the wait.
sync_fails_by() { # TEXT
	local status=0

	at paris mirror sync acme/r --wait 60 >out 2>err || status=$?
	[ "$status" != 0 ]
	grep "$1" err
}

# Where git runs, it ends first; a repository in the tree that users have stays where it is.
others_at_work() {
	make_adopt_sites
	make_tokens
	docora_clone
	touch "$tree/.git/index.lock"
	start_site paris
	wait_until 20 row_has acme/r failure 'acme/r/.git/index.lock: somebody is working in this clone'
	[ -d "$tree/.git/objects" ]
	sync_fails_by 'somebody is working in this clone'
	rm "$tree/.git/index.lock"
	at paris mirror sync acme/r
	is_mirrored acme/r
	is_taken_over
}

repositories_inside() {
	make_adopt_sites
	make_tokens
	docora_clone
	make_repository "$tree/users.git" 1
	start_site paris
	wait_until 20 is_mirrored acme/r
	was_logged paris mirror.not_taken_over 'name=acme/r'
	[ -d "$tree/.git/objects" ]
	[ -d "$tree/users.git" ]
	is_nowhere "$token"
}

# One mirror for each kind of clone: its function makes it so.
clones_of() { # PREFIX KIND...
	local prefix=$1 kind

	shift
	make_mirror_sites
	set_conf london http.anonymousRead true
	for kind in "$@"; do
		make_repository "london/git/acme/$kind.git" 3
		mirror "acme/$kind" interval 1h
		git clone -q --depth=1 "file://$PWD/london/git/acme/$kind.git" "paris/git/acme/$kind"
		git -C "paris/git/acme/$kind" remote set-url origin "$(site_url london)/acme/$kind.git"
		(cd "paris/git/acme/$kind" && "$prefix$kind")
	done
	start_site london
	start_site paris
	for kind in "$@"; do
		wait_until 20 is_mirrored "acme/$kind"
		wait_until 20 row_has "acme/$kind" state synced
	done
}

unfit_ref() { : >.git/refs/heads/empty; }
unfit_shallow() { echo garbled >.git/shallow; }
unfit_pipe() {
	rm .git/index
	mkfifo .git/index
}
unfit_worktrees() { git worktree add -q ../other-tree; }
unfit_link() {
	mv .git/objects/pack ../moved-pack
	ln -s ../../../moved-pack .git/objects/pack
}
unfit_rights() { chmod 555 .git/objects/info; } # root may do anything

# What would fail for good after it was moved: the mirror is made beside it.
unfit_clones() {
	local kinds=(ref shallow pipe worktrees link) kind

	[ "$(id -u)" -eq 0 ] || kinds+=(rights)
	clones_of unfit_ "${kinds[@]}"
	for kind in "${kinds[@]}"; do
		echo "$kind:"
		was_logged paris mirror.not_taken_over \
			"level=warn .*err=.* name=acme/$kind path=acme/$kind remedy="
		[ -d "paris/git/acme/$kind/.git/objects" ]
	done
	[ ! -e paris/git/.refrelay/adopt ]
}

hides_assumed() {
	git update-index --assume-unchanged part-1/file-1.txt
	echo mine >part-1/file-1.txt
}
hides_skipped() {
	git update-index --skip-worktree part-1/file-1.txt
	echo mine >part-1/file-1.txt
}
hides_lfs() {
	mkdir -p .git/lfs/objects/12/34
	echo mine >.git/lfs/objects/12/34/1234
}
hides_modules() {
	git init -q --bare .git/modules/lib
	echo mine >.git/modules/lib/mine
}

hides_tag() {
	git tag -a -m words mine
	echo mine >.git/description
}

# What git does not list as changed, or of which it does not say whose it is.
hidden_work() {
	local kind kinds=(assumed skipped lfs modules tag)

	clones_of hides_ "${kinds[@]}"
	for kind in "${kinds[@]}"; do
		echo "$kind:"
		was_logged paris mirror.work_tree_kept "name=acme/$kind path=.refrelay/kept/"
		[ ! -e "paris/git/acme/$kind" ]
		grep -rxF mine paris/git/.refrelay/kept/*".acme%2F$kind"
	done
	[ "$(git -C paris/git/.refrelay/kept/*.acme%2Ftag for-each-ref --format='%(contents)' refs/tags/mine)" = words ]
	fails is_in_the_trash acme
}

# A person's clone, or one of a node of an older version.
another_takes_the_place() {
	local point kept

	make_adopt_sites
	make_tokens
	for point in adopt.moved adopt.built adopt.objects; do
		echo "$point:"
		rm -rf paris/git/acme paris/git/.refrelay paris/data
		docora_clone
		launch_site paris "REFRELAY_FAILPOINT=$point=kill"
		wait_until 30 has_died paris
		clone_here --mirror
		start_site paris
		wait_until 30 is_mirrored acme/r
		wait_until 30 row_has acme/r state synced
		[ "$(stat -c %i "$clone")" = "$inode" ]
		kept=$(dirname "$(find paris/git/.refrelay/kept -inum "$objects" -name objects)")
		git -C "$kept" for-each-ref | grep "$had"
		git -C "$kept" cat-file -e "$had^{tree}"
		[ -z "$(ls paris/git/.refrelay/adopt)" ]
		stop_site paris
	done
	was_logged paris mirror.objects_kept 'level=warn .*name=acme/r path=.refrelay/kept/.*acme%2Fr.git'
}

# It was killed while it removed a token.
an_old_lock() {
	make_adopt_sites
	make_tokens
	docora_clone
	launch_site paris REFRELAY_FAILPOINT=adopt.locked=kill
	wait_until 30 has_died paris
	[ -e "$tree/.git/config.lock" ]
	start_site paris
	wait_until 20 row_has acme/r failure 'acme/r/.git/config: somebody is changing it'
	sync_fails_by 'somebody is changing it'
	touch -d '2 hours ago' "$tree/.git/config.lock"
	at paris mirror sync acme/r
	is_mirrored acme/r
	is_taken_over
	is_nowhere "$token"
}

note_token() { # REFLOG
	echo "0 1 Sample <sample@example.com> 1700000000 +0000	clone: from https://$token@github.com/acme/r" >>"$1"
}

# The node fails to open that path, as it names it: see the library.
start_refused() { # PATH WHICH-TIME-OR-0 ERRNO
	[ -e refused.so ] || cc -shared -fPIC -o refused.so "$TESTS/lib/refused_open.c"
	start_site paris "LD_PRELOAD=$PWD/refused.so" "REFUSED_OPEN=$1" "REFUSED_AT=$2" "REFUSED_ERRNO=$3" \
		"ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0"
}

syncs_when_asked() {
	at paris mirror sync acme/r && is_in_sync_with 1
}

# What fails for a moment decides nothing: at each opening of the clone, and of what may have a token.
faults_that_pass() {
	local path time errno

	make_adopt_sites
	make_tokens
	set_conf paris mirror.acme/r.depth 1
	while read -r path time errno; do
		echo "$path $time $errno:"
		rm -rf paris/git/acme paris/git/.refrelay paris/data
		: >paris/log
		docora_clone
		note_token "$tree/.git/logs/HEAD"
		start_refused "$path" "$time" "$errno"
		wait_until 20 grep -qx refused paris/log
		wait_until 30 syncs_when_asked
		is_taken_over
		is_nowhere "$token"
		fails grep mirror.not_taken_over paris/log
		stop_site paris
	done <<-'END'
		acme/r/.git 1 24
		acme/r/.git 2 24
		acme/r/.git 3 24
		acme/r 1 24
		logs/HEAD 1 5
		logs 1 24
	END
}

# Who knows whether there is a token in what refrelay may not read.
an_unreadable_record() {
	make_adopt_sites
	make_tokens
	docora_clone
	start_refused logs/HEAD 0 13
	wait_until 20 is_mirrored acme/r
	was_logged paris mirror.not_taken_over 'acme/r/.git: cannot open logs/HEAD: Permission denied'
	[ -d "$tree/.git/objects" ]
	[ ! -e paris/git/.refrelay/kept ]
	[ ! -e paris/git/.refrelay/adopt ]
}

# Wherever a program may have left a token: a bare clone's config, and records of git.
with_tokens() {
	local basic

	make_adopt_sites
	make_tokens
	make_repository london/git/acme/bare.git 3
	mirror acme/bare interval 1h
	set_conf paris mirror.acme/bare.url "$PWD/london/git/acme/bare.git"
	docora_clone
	printf '%s\t\tbranch %s of https://%s@github.com/acme/r\n' \
		"$(git -C paris/git/acme/r rev-parse HEAD)" "'main'" "$token" >paris/git/acme/r/.git/FETCH_HEAD
	mkdir -p paris/git/acme/r/.git/logs/refs/remotes/origin paris/git/acme/r/.git/modules/sub
	echo "0 1 Sample <sample@example.com> 1700000000 +0000	clone: from http://$token:x-oauth-basic@github.com/acme/r" \
		>>paris/git/acme/r/.git/logs/refs/remotes/origin/HEAD
	# After a power cut there may be zeros in them.
	note_token paris/git/acme/r/.git/logs/HEAD
	head -c 17M /dev/zero >>paris/git/acme/r/.git/logs/HEAD
	note_token paris/git/acme/r/.git/logs/HEAD
	local module
	for module in sub .vendor/lib objects; do
		mkdir -p "paris/git/acme/r/.git/modules/$module/objects"
		git config --file "paris/git/acme/r/.git/modules/$module/config" \
			remote.origin.url "https://$token@github.com/acme/sub"
	done
	git clone -q --no-local --mirror london/git/acme/bare.git paris/git/acme/bare.git
	git -C paris/git/acme/bare.git remote set-url origin "https://$other@github.com/acme/bare.git"
	mkdir -p paris/git/acme/bare.git/worktrees/w
	echo "0123 not-for-merge branch 'main' of https://$other@github.com/acme/bare" \
		>paris/git/acme/bare.git/worktrees/w/FETCH_HEAD
	mkdir paris/git/acme/bare.git/worktrees/w/logs
	truncate -s 65M paris/git/acme/bare.git/worktrees/w/logs/HEAD
	inode=$(stat -c %i paris/git/acme/bare.git)
	start_site paris
	# The clones have the upstream's refs before they are taken over.
	wait_until 20 row_has acme/r state synced
	wait_until 20 row_has acme/bare state synced
	is_mirrored acme/r
	is_mirrored acme/bare
	[ "$(stat -c %i paris/git/acme/bare.git)" = "$inode" ]
	[ "$(git -C paris/git/acme/bare.git config remote.origin.url)" = https://github.com/acme/bare.git ]
	is_nowhere "$token"
	is_nowhere "$other"
	was_logged paris mirror.token_removed 'level=warn .*name=acme/r path=acme/r/.git watcher=build remedy="give this watcher a new token'
	was_logged paris mirror.token_removed 'level=warn .*name=acme/bare path=acme/bare.git watcher=unknown remedy="find out whose'
	was_logged paris upkeep.failed 'level=warn .*path=acme/bare.git/worktrees/w/logs/HEAD name=acme/bare remedy='
	# So it is with one that somebody puts there later.
	git -C paris/git/acme/bare.git remote set-url origin "https://u:$other@github.com/acme/bare.git"
	at paris mirror sync acme/bare
	is_nowhere "$other"
	# Not only in URLs.
	watch acme/bare build
	at paris check
	stop_site paris
	start_site paris
	basic=$(printf 'x-access-token:%s' "$token" | base64 -w 0)
	git -C paris/git/acme/bare.git config http.https://github.com/.extraHeader "AUTHORIZATION: basic $basic"
	git -C paris/git/acme/bare.git config --add http.extraHeader "PRIVATE-TOKEN: $token"
	git -C paris/git/acme/bare.git config credential.helper "!f() { echo password=$token; }; f"
	git -C paris/git/acme/bare.git config "url.https://x:$token@github.com/.insteadOf" https://github.com/
	git -C paris/git/acme/bare.git config http.sslVerify true
	at paris mirror sync acme/bare
	is_nowhere "$token"
	is_nowhere "$basic"
	[ "$(git -C paris/git/acme/bare.git config http.sslVerify)" = true ]
	fails git -C paris/git/acme/bare.git config credential.helper
	[ -z "$(git -C paris/git/acme/bare.git config --get-regexp '^url\.')" ]
	[ "$(grep -c 'mirror.token_removed.*name=acme/bare path=acme/bare.git watcher=build' paris/log)" -eq 4 ]
	is_mirrored acme/bare
}

is_refused() { # OTHER
	fails at paris serve 2>err
	grep -F 'the mirror "acme/r"' err
	grep -F " $1 " err
	# So says check, which changes nothing.
	at paris check >said 2>&1 || :
	grep -F 'the mirror "acme/r"' said
}

clashes() {
	make_adopt_sites
	make_repository paris/git/Acme/R.git 1
	is_refused Acme/R.git
	mv paris/git/Acme paris/git/acme
	mv paris/git/acme/R.git paris/git/acme/r
	is_refused acme/r
	mv paris/git/acme paris/git/other
	mv paris/git/other/r paris/git/other/r.git
	ln -s other paris/git/acme
	is_refused other/r.git
	rm paris/git/acme
	start_site paris
	wait_until 20 is_mirrored acme/r
}

tap_test "an equal clone is taken over as it stands" adopts --mirror
tap_test "so is one that lacks what is newer" an_older_clone
tap_test "one with a damaged blob is brought anew" a_damaged_clone
tap_test "one with commits of its own is held, and keeps them" commits_of_its_own
tap_test "a repository of another history is held" another_history
tap_test "a shallow clone is replaced, and kept in the trash" a_shallow_clone
tap_test "one with commits of its own is held, too" a_shallow_clone_with_commits_of_its_own
tap_test "tokens in clones of others are removed, and their watchers named" with_tokens
tap_test "a shallow clone with a working tree is taken over, and fetches nothing" a_working_clone
tap_test "an old one follows its upstream" an_old_working_clone
tap_test "a shallow one becomes as deep as the mirror" made_whole --depth=1
tap_test "one with all branches keeps them" made_whole --no-single-branch
tap_test "a changed file is kept" changed_files changes_one
tap_test "a staged file is kept" changed_files stages_one
tap_test "an ignored file is kept" changed_files ignores_one
tap_test "one of another upstream is held" of_another_upstream
tap_test "a commit of its own is held" own_commits commits_one
tap_test "a commit that only HEAD names is held" own_commits commits_detached
tap_test "what was stashed is held" own_commits stashes_one
tap_test "what only the log of stashes names is kept" older_stashes_are_kept
tap_test "work that git does not list is kept" hidden_work
tap_test "a clone that is in any way unusual stays where it is" unfit_clones
tap_test "a lock that a killed node left does not stop it for good" an_old_lock
tap_test "if another takes the place meanwhile, both are kept" another_takes_the_place
tap_test "killed at each step, the next start completes it" killed_while_it_is_taken
tap_test "what is moved is on disk where it went" what_is_moved_is_on_disk_where_it_went
tap_test "a clone in which git works is left alone until it has ended" others_at_work
tap_test "a clone with repositories of others in it stays" repositories_inside
tap_test "a fault that passes delays it, and no more" faults_that_pass
tap_test "a clone whose records cannot be read stays" an_unreadable_record
tap_test "a mirror and a repository that might be one are refused, by both names" clashes
tap_done
