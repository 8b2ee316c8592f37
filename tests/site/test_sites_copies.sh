#!/usr/bin/env bash
# Copies of a secondary that somebody else writes to: hooks refuse, a watch sees what no
# hook reports, and a copy that was changed does not count as verified from then on.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/verify.sh"

COPY=paris/git/a.git

make_pair() {
	make_sites
	make_repository london/git/a.git 5
	make_repository london/git/group/b.git 3
	start_sites
	wait_until 20 in_sync
}

start_unscanned() {
	make_pair
	set_conf paris sync.scanInterval 1h
	stop_site paris
	start_site paris
	wait_until 10 was_logged paris copy_watch.scanned
}

lists_as() { # SITE LINE
	{ at "$1" hooks list || [ $? -eq 3 ]; } | grep -qxF "$2"
}

was_seen() { # TIMES
	[ "$(logged paris copy.changed)" -ge "$1" ]
}

# Two seconds are ample, but not each time on a busy machine.
seen_soon=0
is_seen_now() { # TIMES
	local begun
	begun=$(date +%s%N)
	wait_until 10 was_seen "$1"
	[ $(($(date +%s%N) - begun)) -gt 2000000000 ] || seen_soon=$((seen_soon + 1))
}

is_in_sync() {
	at paris status
}

right_again() {
	wait_until 20 in_sync
	same_sites
}

a_new_copy_refuses() {
	local before files
	make_pair
	at london hooks install
	# until then a look at the copy's files is no proof that they are ours
	wait_until 10 grep -q '"settled":true' $COPY/refrelay/copy
	wait_until 10 grep -q '"settled":true' paris/git/group/b.git/refrelay/copy
	lists_as paris 'a: installed'
	lists_as paris 'group/b: installed'
	files=$(recorded files_fingerprint)
	git clone -q $COPY work
	git -C work commit -q --allow-empty -m stranger
	before=$(find $COPY/objects -type f | sort)
	fails git -C work push -q origin main 2>err
	grep -qF "remote: refrelay: read-only copy; push to $(site_url london)/a.git" err ||
		fail "$(<err)"
	fails git -C $COPY update-ref refs/heads/x main 2>err
	grep -qF "refrelay: read-only copy; push to $(site_url london)/a.git" err
	fails git -C paris/git/group/b.git update-ref -d refs/heads/main 2>err
	grep -qF "push to $(site_url london)/group/b.git" err
	[ "$(find $COPY/objects -type f | sort)" = "$before" ]
	is_in_sync
	same_sites
	wait_until 5 is_recorded_anew files_fingerprint "$files"
	at paris check
	push_change london/git/a.git
	right_again
	[ "$(logged paris copy.changed)" -eq 0 ]
}

an_adopted_copy_refuses() {
	make_sites
	make_repository london/git/a.git 5
	mkdir -p paris/git
	git clone -q --mirror london/git/a.git $COPY
	git -C $COPY config --remove-section remote.origin
	echo exit >$COPY/hooks/pre-receive
	chmod +x $COPY/hooks/pre-receive
	start_sites
	wait_until 20 in_sync
	wait_until 5 lists_as paris 'a: installed, keeps another pre-receive'
	fails git -C $COPY update-ref refs/heads/x main
}

# Somebody else has brought it: nothing says that its blobs were ever read.
an_adopted_one_is_read() {
	make_sites
	make_repository london/git/a.git 5
	make_repository london/git/group/b.git 3
	mkdir -p paris/git/group
	git clone -q --mirror --no-local london/git/a.git $COPY
	git clone -q --mirror --no-local london/git/group/b.git paris/git/group/b.git
	git -C paris/git/group/b.git config --remove-section remote.origin
	damage_blob $COPY
	start_sites
	wait_until 20 in_sync
	git -C $COPY fsck --full
	same_sites
	[ "$(logged paris sync.damaged)" -eq 1 ]
	[ -e paris/git/.refrelay/trash/*a.git ]
}

# What is no copy yet may have commits that are reached by them alone.
an_adopted_one_keeps_its_links() {
	make_sites
	make_repository london/git/a.git 5
	mkdir -p paris/git
	git clone -q --mirror london/git/a.git $COPY
	git -C $COPY update-ref refs/mine/only HEAD~1
	mv $COPY/refs/mine $COPY/mine
	ln -s ../mine $COPY/refs/mine
	start_sites
	wait_until 20 in_sync
	[ -L paris/git/.refrelay/trash/*a.git/refs/mine ]
	[ -s paris/git/.refrelay/trash/*a.git/mine/only ]
	[ ! -e $COPY/refs/mine ]
}

hooks_that_are_lost_come_back() {
	make_pair
	mv $COPY/hooks gone # at one moment: they come back as soon as one is away
	rm -r gone paris/git/group/b.git/refrelay/node
	wait_until 10 lists_as paris 'a: installed'
	wait_until 10 lists_as paris 'group/b: installed'
	stop_site paris
	rm $COPY/hooks/pre-receive
	ln -sf "$(realpath "$REFRELAY_HOOK")" $COPY/hooks/post-receive
	start_site paris
	wait_until 10 lists_as paris 'a: installed'
}

# All at once: who sees a file without its text would set it right, and see the text then.
write() { # FILE TEXT
	printf '%s\n' "$2" >"$1"
}

# The copies that are damaged in turn: a copy that is made anew again and again has to wait.
turn=0
next_copy() {
	local names=(a group/b c)
	name=${names[turn++ % 3]}
	COPY=paris/git/$name.git
}

# Each is seen, in two seconds unless the machine is busy, counts for nothing from then on,
# and is set right.
what_no_hook_reports_is_seen() {
	local old count=0 name
	make_repository london/git/c.git 4
	start_unscanned

	next_copy
	old=$(git -C $COPY rev-parse main~2)
	in_copy "$name.git" update-ref refs/heads/main "$old"
	is_seen_now $((++count))
	right_again
	next_copy
	in_copy "$name.git" symbolic-ref HEAD refs/heads/none
	is_seen_now $((++count))
	right_again
	next_copy
	write $COPY/refs/heads/editor "$(git -C $COPY rev-parse main~2)"
	is_seen_now $((++count))
	right_again
	next_copy
	ln -s /nonexistent $COPY/refs/heads/main
	is_seen_now $((++count))
	right_again
	[ ! -L $COPY/refs/heads/main ]
	next_copy
	mkdir -p $COPY/refs/heads/deep
	right_again
	count=$(logged paris copy.changed)
	write $COPY/refs/heads/deep/er "$(git -C $COPY rev-parse main~2)"
	is_seen_now $((++count))
	right_again
	next_copy
	chmod -R u+w $COPY/objects
	rm $COPY/objects/pack/*
	is_seen_now $((++count))
	right_again
	next_copy
	mv $COPY gone
	is_seen_now $((++count))
	right_again
	lists_as paris "$name: installed"
	[ "$seen_soon" -gt 0 ]
	! was_logged paris job.failed 'job=sync' || fail "a sync failed"
}

# To another copy.
lay() { # DIVERSION
	local other=group/b
	[ $COPY != paris/git/$other.git ] || other=a
	[[ $1 != */* ]] || mkdir -p "$COPY/${1%/*}"
	case $1 in
	shallow | info/grafts) write $COPY/"$1" "$(git -C $COPY rev-parse main)" ;;
	commondir | gitdir)
		write $COPY/"$1" "$(realpath --relative-to=$COPY paris/git/$other.git)"
		;;
	config.worktree) write $COPY/"$1" '[core]' ;;
	*) write $COPY/"$1" "$(realpath paris/git/$other.git/objects)" ;;
	esac
}

diversions=(shallow commondir gitdir config.worktree info/grafts
	objects/info/alternates objects/info/http-alternates)

# Git would give readers another history, or another repository.
what_diverts_git_is_seen_and_goes() {
	local file count=0 name
	make_repository london/git/c.git 4
	start_unscanned
	for file in "${diversions[@]}"; do
		next_copy
		lay "$file"
		is_seen_now $((++count))
		right_again
		[ ! -e "$COPY/$file" ] || fail "$file is still there"
		wait_until 10 was_logged paris copy.own_file_removed "path=$file"
	done
	! was_logged paris job.failed 'job=sync' || fail "a sync failed"
}

# As if nobody had heard of it.
# The look that follows a sync is over, too: it does not find what is done next.
rests_again() {
	right_again
	wait_until 10 copies_are_settled paris
}

whoever_looks_finds_what_diverts_git() {
	local file
	make_pair
	unwatch paris
	stop_site paris
	start_site paris
	wait_until 10 was_logged paris copy_watch.scanned
	for file in "${diversions[@]}"; do
		lay "$file"
		expect 1 at paris check
		grep -qF "$file: git would give readers something else" out || fail "$(<out)"
		rests_again
		lay "$file"
		at paris repository reverify --wait a || true
		rests_again
		lay "$file"
		at paris repository resync --wait a
		rests_again
		[ ! -e "$COPY/$file" ] || fail "$file is still there"
	done
}

# What is no copy yet is left as it was.
an_adopted_one_that_diverts_git_is_made_anew() {
	make_sites
	make_repository london/git/a.git 5
	mkdir -p paris/git
	git clone -q --bare --depth 1 "file://$PWD/london/git/a.git" $COPY
	git -C $COPY config --remove-section remote.origin
	start_sites
	wait_until 20 in_sync
	[ ! -e $COPY/shallow ]
	[ -s paris/git/.refrelay/trash/*a.git/shallow ]
	same_sites
}

# Nobody hears of files when the folder that they are in is moved.
a_folder_of_copies_that_goes_is_seen() {
	start_unscanned
	mv paris/git/group paris/git/moved
	is_seen_now 1
	wait_until 20 test -e paris/git/group/b.git/refrelay/copy
	rm -r paris/git/moved
	right_again
	mv paris/git/group away
	is_seen_now 2
	wait_until 20 test -e paris/git/group/b.git/refrelay/copy
	right_again
	mv paris/git/group gone # at one moment: it comes back while rm is in it
	rm -r gone
	is_seen_now 3
	wait_until 20 test -e paris/git/group/b.git/refrelay/copy
	right_again
}

# In place, and the times put back.
change_byte() { # FILE
	python3 - "$1" <<-'END'
		import os, sys
		path, before = sys.argv[1], os.stat(sys.argv[1])
		os.chmod(path, 0o644)
		with open(path, "r+b") as file:
		    file.seek(before.st_size // 2)
		    byte = file.read(1)[0]
		    file.seek(before.st_size // 2)
		    file.write(bytes([byte ^ 0x5a]))
		os.chmod(path, before.st_mode)
		os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
	END
}

# At once: the look that a change of the mode calls for would else find half of it, and
# what changes under it is brought anew at a later try.
shorten() { # FILE SIZE
	python3 -c 'import os, sys
os.chmod(sys.argv[1], 0o644)
os.truncate(sys.argv[1], int(sys.argv[2]))' "$@"
}

in_packs() { # END
	find $COPY/objects/pack -name "*$1"
}

what_is_written_in_place_is_seen() {
	local count=0
	start_unscanned
	change_byte "$(in_packs .pack)"
	is_seen_now $((++count))
	right_again
	change_byte "$(in_packs .idx)"
	is_seen_now $((++count))
	right_again
	change_byte $COPY/packed-refs
	is_seen_now $((++count))
	right_again
	shorten "$(in_packs .idx)" 1000
	is_seen_now $((++count))
	right_again
}

# While no node ran, and by a look at each.
what_was_written_in_place_is_found() {
	local end
	make_pair
	for end in .pack .idx; do
		stop_site paris
		change_byte "$(in_packs $end)"
		expect 1 at paris check
		grep -q "were changed by others" out || fail "$(<out)"
		start_site paris
		right_again
	done
	stop_site paris
	change_byte $COPY/packed-refs
	start_site paris
	right_again
}

recorded() { # MEMBER
	python3 -c 'import json, sys; print(json.loads(sys.stdin.readline())[sys.argv[1]])' \
		"$1" <$COPY/refrelay/copy
}

is_recorded_anew() { # MEMBER VALUE
	local now
	now=$(recorded "$1") || return
	[ "$now" != "$2" ]
}

# It gives the packs another name for a while, and so another ctime.
a_clone_over_the_path_changes_nothing() {
	local before
	make_pair
	at london hooks install
	wait_until 10 grep -q '"settled":true' $COPY/refrelay/copy
	before=$(recorded files_changed)
	git clone -q $COPY work
	[ "$(stat -c %h "$(in_packs .pack)")" -eq 2 ]
	rm -rf work
	at paris check
	stop_site paris
	at paris check
	start_site paris
	wait_until 10 is_recorded_anew files_changed "$before"
	wait_until 10 is_in_sync
	[ "$(logged paris copy.changed)" -eq 0 ]
	[ "$(logged paris copies.doubted)" -eq 0 ]
	git clone -q $COPY work
	rm -rf work
	push_change london/git/a.git
	right_again
	[ "$(logged paris copy.changed)" -eq 0 ]
}

dies_at() { # POINT
	launch_site paris "REFRELAY_FAILPOINT=$1=kill"
	is_killed_within 20 paris
}

# The record is as it was, and is written at the next look.
killed_before_it_records_a_look() {
	make_pair
	wait_until 10 grep -q '"settled":true' $COPY/refrelay/copy
	stop_site paris
	git clone -q $COPY work
	rm -rf work
	dies_at copy.looked
	python3 - $COPY/refrelay/copy <<-'END'
		import json, sys
		with open(sys.argv[1]) as file:
		    record = json.loads(file.readline())
		record["settled"] = False
		with open(sys.argv[1], "w") as file:
		    json.dump(record, file, separators=(",", ":"))
	END
	dies_at copy.settling
	start_site paris
	wait_until 10 grep -q '"settled":true' $COPY/refrelay/copy
	wait_until 10 is_in_sync
	[ "$(logged paris copy.changed)" -eq 0 ]
	[ "$(logged paris copies.doubted)" -eq 0 ]
}

# It knew nothing of times that are put back, and had no digest behind it.
a_record_of_an_older_version_is_taken_over() {
	make_pair
	wait_until 10 grep -q '"settled":true' $COPY/refrelay/copy
	stop_site paris
	python3 - $COPY/refrelay/copy <<-'END'
		import json, sys
		with open(sys.argv[1]) as file:
		    record = json.loads(file.readline())
		for key in "objects_fingerprint", "files_changed":
		    del record[key]
		with open(sys.argv[1], "w") as file:
		    json.dump(record, file, separators=(",", ":"))
	END
	start_site paris
	wait_until 10 grep -q files_changed $COPY/refrelay/copy
	wait_until 10 is_in_sync
	[ "$(logged paris copy.changed)" -eq 0 ]
	[ "$(logged paris copies.doubted)" -eq 0 ]
	change_byte "$(in_packs .pack)"
	is_seen_now 1
	right_again
}

# A copy without refs cannot be watched: it is again as soon as it is mended.
what_is_mended_is_watched() {
	local old
	make_pair
	set_conf paris sync.scanInterval 1h
	stop_site paris
	start_site paris
	wait_until 10 was_logged paris copy_watch.scanned
	old=$(git -C $COPY rev-parse main~2)
	mv $COPY/refs gone # at one moment: they come back
	rm -r gone
	is_seen_now 1
	right_again
	echo "$old" >$COPY/refs/heads/editor
	is_seen_now 2
	right_again
}

# What only the copy has is not thrown away, but the sentence is gone.
a_commit_of_a_stranger_is_held() {
	make_pair
	wait_until 10 was_logged paris copy_watch.scanned
	git clone -q $COPY work
	git -C work commit -q --allow-empty -m stranger
	in_copy a.git fetch -q "$TEST_DIR/work" main:main
	is_seen_now 1
	wait_until 10 was_logged paris sync.held 'job_id=[0-9a-f]{16} '
	expect 3 at paris status
	fails grep -q 'in sync' out
	at paris repository resync --force a
	right_again
}

# As a power loss may leave them. What the row proved came from the primary.
empty_records_make_nothing_a_strangers() {
	make_pair
	git -C london/git/a.git branch only main~1
	git -C london/git/a.git update-ref refs/heads/only "$(git -C london/git/a.git \
		commit-tree -m only -p main 'main^{tree}')"
	wait_until 20 same_sites
	wait_until 20 in_sync
	stop_site paris
	: >$COPY/refrelay/copy
	: >$COPY/refrelay/intent
	git -C london/git/a.git branch -qD only
	start_site paris
	right_again
	fails was_logged paris sync.held
}

# At one moment: paris would make anew what is away in between.
swap_copies() {
	python3 - $COPY paris/git/group/b.git <<-'END'
		import ctypes, os, sys
		libc = ctypes.CDLL(None, use_errno=True)
		one, two = map(os.fsencode, sys.argv[1:])
		if libc.renameat2(-100, one, -100, two, 2) != 0:
		    sys.exit(os.strerror(ctypes.get_errno()))
	END
}

# The record of what was proved is moved with the directory.
copies_that_are_swapped() {
	make_pair
	set_conf paris http.anonymousRead true
	wait_until 10 was_logged paris copy_watch.scanned
	swap_copies
	is_seen_now 2
	wait_until 10 same_sites
	right_again
	[ "$(find paris/git/.refrelay/trash -mindepth 1 -maxdepth 1 | wc -l)" -eq 2 ]
	stop_site paris
	swap_copies
	fails at paris check >checked
	grep -q '2 of 2 copies .*another copy stands in its place' checked
	start_site paris
	wait_until 10 same_sites
	right_again
	stop_site paris
	unwatch paris
	start_site paris
	wait_until 10 was_logged paris copy_watch.limit
	wait_until 20 is_in_sync
	swap_copies
	git ls-remote "$(site_url paris)/a.git" >read
	cmp read <(git ls-remote london/git/a.git)
	git ls-remote "$(site_url paris)/group/b.git"
	wait_until 10 same_sites
	right_again
}

a_former_state_that_is_put_back() {
	make_pair
	wait_until 10 was_logged paris copy_watch.scanned
	mv $COPY former
	is_seen_now 1
	wait_until 10 same_sites
	right_again
	push_change london/git/a.git
	wait_until 10 same_sites
	right_again
	stop_site paris
	rm -r $COPY
	mv former $COPY
	start_site paris
	wait_until 10 same_sites
	right_again
}

# While it stood under its own name.
a_commit_in_a_swapped_copy_is_held() {
	make_pair
	stop_site paris
	git clone -q $COPY work
	git -C work commit -q --allow-empty -m stranger
	in_copy a.git fetch -q "$TEST_DIR/work" main:main
	swap_copies
	start_site paris
	wait_until 10 was_logged paris sync.held
	[ "$(git -C paris/git/group/b.git rev-parse main)" = "$(git -C work rev-parse main)" ]
	expect 3 at paris status
}

# While no node ran; and where nothing can be watched.
a_look_finds_it() {
	local before
	make_pair
	wait_until 10 was_logged paris copy_watch.scanned
	stop_site paris
	in_copy a.git update-ref -d refs/heads/main
	start_site paris
	wait_until 5 was_found_at_start
	right_again
	stop_site paris
	unwatch paris
	set_conf paris sync.scanInterval 1s
	start_site paris
	wait_until 10 was_logged paris copy_watch.limit
	before=$(logged paris copy.changed) || true
	in_copy a.git update-ref refs/heads/x main
	wait_until 5 was_seen $((before + 1))
	right_again
}

# By the first look at all copies, or by that of the watch, whichever comes first.
was_found_at_start() {
	was_logged paris copy.changed || was_logged paris copies.doubted 'name=a'
}

has_few_packs() {
	[ "$(find $COPY/objects/pack -name '*.pack' | wc -l)" -lt 40 ]
}

# Our own writes, of which there are many here, and what housekeeping does.
what_we_write_is_ours() {
	local i
	make_pair
	at london hooks install
	git clone -q london/git/a.git work
	for i in $(seq 45); do
		date +%s.%N >work/file
		git -C work add file
		git -C work commit -qm "$i"
		git -C work push -q origin main "main:refs/heads/b$i"
		wait_until 10 in_sync
	done
	wait_until 30 has_few_packs
	push_change london/git/group/b.git
	at paris repository reverify a
	wait_until 20 in_sync
	stop_site paris
	start_site paris
	wait_until 10 in_sync
	[ "$(logged paris copy.changed)" -eq 0 ] || fail "$(grep copy.changed paris/log)"
	[ "$(logged paris sync.disturbed)" -eq 0 ] || fail "$(grep sync.disturbed paris/log)"
}

is_whole() {
	git -C $COPY fsck --full >fsck 2>&1 && same_sites
}

# The pack that the first sync brought stays as it is, since git made it and it is large;
# the others are folded, and somebody writes into the large one meanwhile.
what_others_write_while_packs_are_folded() {
	local i pack
	make_sites
	set_conf paris sync.maintenance false
	set_conf paris sync.fastPath false
	make_repository london/git/a.git 60
	start_sites
	wait_until 20 in_sync
	stop_site paris
	pack=$(echo $COPY/objects/pack/*.pack)
	for i in $(seq 40); do
		echo "$i" | git -C $COPY hash-object -w --stdin |
			git -C $COPY pack-objects -q objects/pack/pack
	done
	git -C $COPY prune-packed
	launch_site paris REFRELAY_FAILPOINT=sync.tidied=stop # it may stop before it serves
	wait_until 20 is_paused paris
	[ "$(find $COPY/objects/pack -name '*.pack' | wc -l)" -eq 2 ]
	chmod u+w "$pack"
	printf 'not what Git wrote' | dd of="$pack" bs=1 seek=3000 conv=notrunc
	fails is_whole
	kill -CONT "$(site_pid paris)"
	wait_until 20 is_whole
	wait_until 20 in_sync
}

# The hooks that a copy has do the primary's work when it has become one.
roles_change() {
	make_pair
	stop_site london
	stop_site paris
	set_conf paris site.role primary
	set_conf paris secondary.london.secretFile "$PWD/secret"
	set_conf london site.role secondary
	set_conf london primary.url "$(site_url paris)/"
	set_conf london primary.secretFile "$PWD/secret"
	set_conf paris sync.scanInterval 1h
	start_site paris
	start_site london
	lists_as paris 'a: installed'
	push_change $COPY
	is_there() {
		[ "$(git -C london/git/a.git rev-parse main)" = "$(git -C $COPY rev-parse main)" ]
	}
	wait_until 10 is_there
	wait_until 10 lists_as london 'a: installed'
	fails git -C london/git/a.git update-ref refs/heads/x main 2>err
	grep -qF "read-only copy; push to $(site_url paris)/a.git" err
}

said_by_check() { # WORDS
	at london check >checked || true
	grep -q "$1" checked
}

a_primary_says_that_hooks_are_lost() {
	make_pair
	said_by_check '^note  *hooks  *2 of 2 repositories have no hooks, e.g. a: missing'
	grep -q 'hint: run refrelay hooks install' checked
	wait_until 5 was_logged london hooks.lacking 'repositories=2'
	at london hooks install
	wait_until 5 was_logged london hooks.whole
	said_by_check '^ok  *hooks  *2 repositories have them'
	echo '#!/bin/sh' >london/git/group/b.git/hooks/post-receive
	wait_until 5 was_logged london hooks.lacking 'repositories=1 .*group/b: foreign'
	curl -fsS "$(site_url london)/metrics" >metrics
	grep -qx 'refrelay_hooks{state="foreign"} 1' metrics
	grep -qx 'refrelay_hooks{state="installed"} 1' metrics
	lists_as london 'a: installed'
}

tap_test "a new copy refuses" a_new_copy_refuses
tap_test "an adopted copy refuses" an_adopted_copy_refuses
tap_test "an adopted one is read" an_adopted_one_is_read
tap_test "an adopted one keeps its links" an_adopted_one_keeps_its_links
tap_test "hooks that are lost come back" hooks_that_are_lost_come_back
tap_test "what no hook reports is seen" what_no_hook_reports_is_seen
tap_test "what diverts git is seen and goes" what_diverts_git_is_seen_and_goes
tap_test "whoever looks finds what diverts git" whoever_looks_finds_what_diverts_git
tap_test "an adopted one that diverts git is made anew" an_adopted_one_that_diverts_git_is_made_anew
tap_test "a folder of copies that goes is seen" a_folder_of_copies_that_goes_is_seen
tap_test "what is written in place is seen" what_is_written_in_place_is_seen
tap_test "what was written in place is found" what_was_written_in_place_is_found
tap_test "a clone over the path changes nothing" a_clone_over_the_path_changes_nothing
tap_test "killed before it records a look" killed_before_it_records_a_look
tap_test "a record of an older version is taken over" a_record_of_an_older_version_is_taken_over
tap_test "a commit of a stranger is held" a_commit_of_a_stranger_is_held
tap_test "empty records make nothing a stranger's" empty_records_make_nothing_a_strangers
tap_test "what is mended is watched" what_is_mended_is_watched
tap_test "copies that are swapped are put right" copies_that_are_swapped
tap_test "a former state that is put back is brought again" a_former_state_that_is_put_back
tap_test "a commit in a swapped copy is held" a_commit_in_a_swapped_copy_is_held
tap_test "a look finds it" a_look_finds_it
tap_test "what we write is ours" what_we_write_is_ours
tap_test "what others write while packs are folded is not ours" what_others_write_while_packs_are_folded
tap_test "roles change" roles_change
tap_test "a primary says that hooks are lost" a_primary_says_that_hooks_are_lost
tap_done
