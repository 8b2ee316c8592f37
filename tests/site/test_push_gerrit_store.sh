#!/usr/bin/env bash
# The task store as Gerrit's replication plugin has it: what it writes we read, what we
# write it could, and what it can never do with its own files is done.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"

# By another way than the program's.
key_of_file() { # FILE
	python3 -c '
import hashlib, json, sys
task = json.load(open(sys.argv[1]))
text = "%s\n[%s]\n%s\n%s" % (task["project"], ", ".join(task["refs"]), task["uri"], task["remote"])
print(hashlib.sha1(text.encode()).hexdigest())' "$1"
}

four_wait() {
	[ "$(waiting | wc -l)" -eq 4 ] && return
	waiting
	return 1
}

an_event_is_a_file_for_each_url() {
	local remote file
	make_node n
	make_source a
	for remote in m1 m2; do
		add_remote n "$remote" replicationDelay 3600 url "$PWD/$remote/\${name}.git"
		git config --file n/refrelay.conf --add "remote.$remote.url" \
			"$PWD/$remote-two/\${name}.git"
	done
	start_ready n
	add_commits git/a.git refs/heads/main 1
	at n changed a
	wait_until 10 four_wait
	for file in store/ref-updates/waiting/*; do
		[ "$(key_of_file "$file")" = "${file##*/}" ]
		[ "$(stat -c %a "$file")" = 600 ]
		grep -q '"refs":\["refs/heads/main"\]' "$file"
	done
	# Another commit of that branch is the same task, and as old as it was.
	stat -c '%n %i %y' store/ref-updates/waiting/* >before
	add_commits git/a.git refs/heads/main 1
	at n changed a
	four_wait
	diff before <(stat -c '%n %i %y' store/ref-updates/waiting/*)
	[ -z "$(in_running)$(ls store/ref-updates/building)" ]
	stop_site n
}

# KEY SIZE: such a file waits.
waits_as() {
	local path=store/ref-updates/waiting/$1
	[ -f "$path" ] && [ "$(stat -c %s "$path")" -eq "$2" ] && return
	head -n 99 store/ref-updates/waiting/* || true
	echo "not $1 of $2 bytes"
	return 1
}

names_and_contents_are_byte_for_byte_those_of_gerrit() {
	local build=git/platform/build.git odd='git/tools/a=b c.git' main
	make_node n
	mkdir -p git/platform git/tools
	make_source platform/build
	make_source 'tools/a=b c'
	add_remote n mirror1 projects platform/build replicationDelay 3600 \
		url "git://mirror1.example.com/git/\${name}.git"
	add_remote n pub projects 'tools/*' replicationDelay 3600 \
		url "https://m.example.com/\${name}.git"
	add_remote n scp projects 'tools/*' replicationDelay 3600 \
		url "git@m.example.com:/srv/\${name}.git"
	start_ready n
	stop_site n
	add_commits "$build" refs/heads/main 1
	at n changed platform/build
	waits_as 0be164775d9516690de16e9194d9acdd645dec07 132
	printf '{"project":"platform/build","refs":["refs/heads/main"],%s,"remote":"mirror1"}\n' \
		'"uri":"git://mirror1.example.com/git/platform/build.git"' |
		cmp - store/ref-updates/waiting/0be164775d9516690de16e9194d9acdd645dec07
	at n push start platform/build
	waits_as 0b232039690df6344fc8a8d48fb9a4b809592f15 124
	main=$(git -C "$build" rev-parse main)
	printf 'create refs/changes/01/1/%s\n' "1 $main" "meta $main" |
		git -C "$build" update-ref --stdin
	at n changed platform/build
	waits_as 42f66d1f0b1d8330d1ab4561719b76d30b097aac 161
	add_commits "$odd" refs/heads/main 1
	at n changed 'tools/a=b c'
	waits_as 05a944dcc1dad4eca80e7fc30fbaa9b2bed98a19 126
	waits_as caa54599a9bd11e686b5b46b91f395801c4e3d76 125
	[ "$(waiting | wc -l)" -eq 5 ]
}

# Until ./read_enough is there, reads all of waiting/ again and again, and prints how many
# there were. It has begun when ./reads is there.
read_while_it_is_written() {
	python3 -c '
import json, os, time
waiting, counts = "store/ref-updates/waiting", set()
while not os.path.exists("read_enough"):
    names = os.listdir(waiting) if os.path.isdir(waiting) else []
    counts.add(len(names))
    for name in names:
        task = json.load(open(os.path.join(waiting, name)))
        assert list(task) == ["project", "refs", "uri", "remote"], task
    open("reads", "w").close()
print(*sorted(counts))'
}

a_reader_never_sees_a_part_of_a_file() {
	local i reader writer
	make_node n
	for i in $(seq 20); do
		add_remote n "m$i" replicationDelay 3600
	done
	make_source r1
	for i in $(seq 2 50); do
		cp -a git/r1.git "git/r$i.git"
	done
	read_while_it_is_written >counts &
	reader=$!
	wait_until 10 test -e reads
	REFRELAY_FAILPOINT=task.linked@500=stop \
		"$REFRELAY" -c n/refrelay.conf push start --all 2>err &
	writer=$!
	wait_until 20 is_stopped "$writer"
	for i in 1 2; do # the second began when they were there
		rm reads
		wait_until 10 test -e reads
	done
	kill -CONT "$writer"
	wait "$writer"
	touch read_enough
	wait "$reader"
	[ "$(waiting | wc -l)" -eq 1000 ]
	# It was there while they came.
	tr ' ' '\n' <counts | awk '$1 > 0 && $1 < 1000 { seen++ } END { exit !seen }'
}

# A node, a repository "a" with main, b1 and b2, and its empty destination m/a.
make_usual() { # [KEY VALUE]... of the remote
	make_node n
	make_a m
	add_remote n m "$@"
}

what_is_no_task_is_set_aside_and_the_others_are_done() {
	local i folder=store/ref-updates
	make_usual
	for i in $(seq 10); do
		git -C git/a.git update-ref "refs/heads/t$i" main~1
		write_task waiting a "refs/heads/t$i" "$(uri_of m/a)" m
	done
	: >$folder/waiting/0000000000000000000000000000000000000000
	printf '{"project":"a","refs":["refs/hea' >$folder/waiting/1111111111111111111111111111111111111111
	printf '{"project":"a","refs":["refs/heads/b1"],"uri":"%s","remote":"m","later":1}\n' \
		"$(uri_of m/a)" >$folder/waiting/2222222222222222222222222222222222222222
	mkdir -p $folder/running
	: >$folder/running/3333333333333333333333333333333333333333
	start_ready n
	for i in $(seq 10); do
		wait_until 10 has_ref m/a "refs/heads/t$i"
	done
	wait_until 10 store_is_empty
	[ "$(received m/a)" -eq 1 ]
	wait_until 10 eval '[ "$(logged n task.set_aside)" -eq 4 ]'
	[ "$(find store/refrelay/unreadable -type f | wc -l)" -eq 4 ]
	at n push queue --json | grep -q '"unreadable":4'
	stop_site n
	start_ready n
	write_task waiting a refs/heads/b1 "$(uri_of m/a)" m
	wait_until 10 has_ref m/a refs/heads/b1
	wait_until 10 store_is_empty
	[ "$(logged n task.set_aside)" -eq 4 ]
	stop_site n
}

two_refs_are_one_push_in_either_order() { # REFS
	make_usual
	write_task waiting a "$1" "$(uri_of m/a)" m
	start_ready n
	wait_until 10 has_ref m/a refs/heads/b1
	wait_until 10 has_ref m/a refs/heads/b2
	wait_until 10 store_is_empty
	[ "$(received m/a)" -eq 1 ]
	[ "$(received m/a refs/heads/b1)" -eq 1 ]
	[ "$(received m/a refs/heads/main)" -eq 0 ]
	stop_site n
}

a_push_of_all_refs_takes_the_files_of_single_ones_along() {
	make_usual
	write_task waiting a refs/heads/b1 "$(uri_of m/a)" m
	write_task waiting a refs/heads/b2 "$(uri_of m/a)" m
	write_task waiting a 'refs/heads/main refs/heads/gone' "$(uri_of m/a)" m
	write_task waiting a ..all.. "$(uri_of m/a)" m
	start_ready n
	wait_until 10 store_is_empty
	[ "$(received m/a)" -eq 1 ]
	diff <(git -C git/a.git for-each-ref) <(git -C m/a.git for-each-ref)
	[ -z "$(letters)" ]
	stop_site n
}

# The plugin asked for "project LF ref LF uri LF remote", without brackets.
write_old_task() { # FILE REF
	mkdir -p "${1%/*}"
	printf '{"project":"a","ref":"%s","uri":"%s","remote":"m"}\n' "$2" "$(uri_of m/a)" >"$1"
}

old_key() { # REF
	printf 'a\n%s\n%s\nm' "$1" "$(uri_of m/a)" | sha1sum | cut -d ' ' -f 1
}

is_unreadable_counted() { # COUNT
	curl -fsS -m 10 "$(site_url n)/metrics" | grep -qx "refrelay_push_unreadable $1"
}

# Its owner is root, say, who copied the store.
what_cannot_be_read_is_told_and_done_when_it_can_be() {
	local key path
	make_usual
	make_unprivileged
	start_ready n
	expect 0 at n status
	key=$(write_task aside a refs/heads/b1 "$(uri_of m/a)" m)
	path=store/ref-updates/waiting/$key
	chmod 0 "store/ref-updates/aside/$key"
	mv "store/ref-updates/aside/$key" "$path"
	wait_until 10 was_logged n task.unreadable
	expect 3 at n status
	grep -q '1 unreadable file is in the task store' out
	wait_until 30 is_unreadable_counted 1
	expect 0 at n push discard --unreadable --dry-run
	grep -qx 'would discard 0 files' out
	expect 0 at n push discard --unreadable
	[ -e "$path" ]
	chmod 600 "$path"
	wait_until 15 has_ref m/a refs/heads/b1
	wait_until 10 store_is_empty
	expect 0 at n status
	wait_until 30 is_unreadable_counted 0
	[ "$(logged n task.unreadable)" -eq 1 ]
	stop_site n
}

files_of_older_releases_are_done() {
	local store=store/ref-updates key
	make_usual
	key=$(old_key refs/heads/b1)
	write_old_task "$store/waiting/$key" refs/heads/b1
	key=$(old_key refs/heads/b2)
	write_old_task "$store/running/$key" refs/heads/b2
	start_ready n
	wait_until 10 has_ref m/a refs/heads/b1
	wait_until 10 has_ref m/a refs/heads/b2
	wait_until 10 store_is_empty
	[ -z "$(find store/refrelay/unreadable store/refrelay/failed -type f)" ]
	stop_site n
}

# The layouts that the plugin had for some months in 2020, and names as others give them.
files_in_odd_places_and_of_odd_names_are_done() {
	local store=store/ref-updates i key
	make_usual
	for i in 1 2 3 4 5; do
		git -C git/a.git update-ref "refs/heads/t$i" main~1
	done
	key=$(write_task waiting a refs/heads/t1 "$(uri_of m/a)" m)
	mv "$store/waiting/$key" "$store/waiting/$key.json"
	key=$(write_task waiting a refs/heads/t2 "$(uri_of m/a)" m)
	mkdir -p "$store/waiting/${key:0:2}"
	mv "$store/waiting/$key" "$store/waiting/${key:0:2}/"
	key=$(write_task running a refs/heads/t3 "$(uri_of m/a)" m)
	mkdir "$store/running/$(printf %s "$(uri_of m/a)" | sha1sum | cut -d ' ' -f 1)"
	mv "$store/running/$key" "$store"/running/*/
	write_task running a refs/heads/t4 "$(uri_of m/a)" m
	key=$(write_task running a refs/heads/t5 "$(uri_of m/a)" m)
	mkdir "$store/running/old"
	mv "$store/running/$key" "$store/running/old/$key.json"
	start_ready n
	for i in 1 2 3 4 5; do
		wait_until 10 has_ref m/a "refs/heads/t$i"
	done
	wait_until 10 store_is_empty
	[ -z "$(find $store/waiting $store/running -mindepth 1)" ]
	[ -z "$(find store/refrelay/unreadable store/refrelay/failed -type f)" ]
	stop_site n
}

# While a node runs, as a Gerrit that was started by mistake, or a script, writes them.
files_that_come_later_are_done() {
	local store=store/ref-updates key
	make_usual
	set_conf n replication.distributionInterval 1s
	start_ready n
	key=$(old_key refs/heads/b1)
	write_old_task "$store/waiting/$key" refs/heads/b1
	key=$(write_task "building/aa" a refs/heads/b2 "$(uri_of m/a)" m)
	mv "$store/building/aa" "$store/waiting/"
	write_task running a refs/heads/main "$(uri_of m/a)" m
	wait_until 10 has_ref m/a refs/heads/b1
	wait_until 10 has_ref m/a refs/heads/b2
	wait_until 10 has_ref m/a refs/heads/main
	wait_until 10 store_is_empty
	stop_site n
}

states_are() { # STATE...
	local said
	said=$(at n push queue --json | python3 -c '
import json, sys
print(*sorted(u["state"] for u in json.load(sys.stdin)["queue"]))')
	[ "$said" = "$*" ] && return
	echo "states: $said"
	return 1
}

tasks_of_a_remote_that_is_gone_wait_for_it() {
	make_usual
	write_task waiting a refs/heads/b1 "$PWD/old/a.git" old
	write_task waiting a refs/heads/b2 "$(uri_of m/a)" m
	make_destination old/a
	start_ready n
	wait_until 10 has_ref m/a refs/heads/b2
	wait_until 10 was_logged n push.orphan
	states_are orphan
	[ "$(received old/a)" -eq 0 ]
	expect 3 at n status
	grep -q '1 destination is no longer in any remote' out
	stop_site n
	start_ready n
	states_are orphan
	add_remote n old
	kill -HUP "$(site_pid n)"
	wait_until 10 has_ref old/a refs/heads/b1
	wait_until 10 store_is_empty
	stop_site n
}

tasks_of_a_remote_that_was_renamed_are_done() {
	make_usual
	write_task waiting a refs/heads/b1 "$(uri_of m/a)" as_it_was_called
	write_task waiting a refs/heads/b2 "$(uri_of m/a)" m
	start_ready n
	wait_until 10 has_ref m/a refs/heads/b1
	wait_until 10 has_ref m/a refs/heads/b2
	wait_until 10 store_is_empty
	never_two_at_once
	stop_site n
}

# The others of its file are pushed, and the file goes.
a_ref_that_the_remote_does_not_take_is_left_out() {
	make_usual push refs/heads/main:refs/heads/main
	git config --file n/refrelay.conf --add remote.m.push 'refs/heads/b*:refs/heads/b*'
	set_conf n remote.m.excludedRefsPattern 'refs/heads/b2'
	git -C git/a.git update-ref refs/changes/01/1/1 main~1
	write_task waiting a 'refs/changes/01/1/1 refs/heads/b1' "$(uri_of m/a)" m
	write_task waiting a 'refs/heads/main refs/heads/b2' "$(uri_of m/a)" m
	write_task waiting a refs/changes/01/1/2 "$(uri_of m/a)" m
	start_ready n
	wait_until 10 has_ref m/a refs/heads/b1
	wait_until 10 has_ref m/a refs/heads/main
	wait_until 10 store_is_empty
	[ "$(git -C m/a.git for-each-ref | wc -l)" -eq 2 ]
	[ -z "$(letters)" ]
	stop_site n
}

start_daemon() { # PORT
	git daemon --base-path="$PWD" --export-all --enable=receive-pack --reuseaddr \
		--listen=127.0.0.1 --port="$1" >daemon.log 2>&1 &
	wait_until 10 git ls-remote "git://127.0.0.1:$1/m/a.git"
}

# It stands in no file, so what is there is not equal to what the configuration has.
tasks_of_a_url_with_a_password_are_done() {
	local port key
	port=$(free_port)
	make_usual url "git://gerrit:sesame@127.0.0.1:$port/m/\${name}.git"
	start_daemon "$port"
	key=$(write_task waiting a refs/heads/b1 "git://gerrit@127.0.0.1:$port/m/a.git" m)
	start_ready n
	wait_until 10 has_ref m/a refs/heads/b1
	wait_until 10 store_is_empty
	add_commits git/a.git refs/heads/main 1
	at n changed a
	wait_until 10 has_ref m/a refs/heads/main
	wait_until 10 store_is_empty
	fails grep -rqs sesame store n/log n/data
	stop_site n
}

a_push_that_fails_or_is_stopped_leaves_its_task_waiting() {
	local key
	make_usual createMissingRepositories false replicationRetry 1h
	make_source lone
	key=$(write_task waiting lone refs/heads/main "$(uri_of m/lone)" m)
	start_ready n
	wait_until 10 was_logged n push.failed
	wait_until 10 eval '[ -z "$(in_running)" ]'
	[ "$(waiting)" = "$key" ]
	hold m/a
	write_task waiting a refs/heads/b1 "$(uri_of m/a)" m
	wait_until 10 is_held m/a
	[ "$(in_running | wc -l)" -eq 1 ]
	stop_site n
	[ -z "$(in_running)" ]
	[ "$(waiting | wc -l)" -eq 2 ]
	let_go
	start_ready n
	wait_until 10 has_ref m/a refs/heads/b1
	states_are failing
	stop_site n
}

hand_back() {
	expect 0 at home push hand-back
}

# What a node that was killed was pushing, and names that the plugin does not compute.
it_can_be_handed_back() {
	local key odd json
	make_node home
	add_remote home m
	make_a m
	start_ready home
	hold m/a
	at home push start a
	wait_until 20 is_held m/a
	key=$(in_running)
	[ -z "$(find store/ref-updates/running -maxdepth 1 -type f)" ]
	expect 5 at home push hand-back
	grep -q 'home.* works on this store' err
	kill -KILL "$(site_pid home)"
	odd=$(write_task waiting a 'refs/heads/b1' "$(uri_of m/a)" m)
	mv "store/ref-updates/waiting/$odd" store/ref-updates/waiting/0123456789abcdef
	touch -d '2 hours ago' store/ref-updates/waiting/0123456789abcdef
	json=$(write_task waiting a 'refs/heads/b2' "$(uri_of m/a)" m)
	mv "store/ref-updates/waiting/$json" "store/ref-updates/waiting/$json.json"
	: >store/ref-updates/waiting/89abcdef
	wait_until 60 hand_back
	[ "$(waiting)" = "$(printf '%s\n' "$key" "$odd" "$json" | sort)" ]
	[ -z "$(ls store/ref-updates/running)" ]
	[ "$(($(date +%s) - $(stat -c %Y "store/ref-updates/waiting/$odd")))" -ge 7200 ]
	for key in $(waiting); do
		[ "$(key_of_file "store/ref-updates/waiting/$key")" = "$key" ]
	done
	expect 0 at home push hand-back
	grep -q '^3 tasks wait: 0 were running, 0 got another name$' out
	let_go
}

tap_test "an event is a file for each URL, of the same name as Gerrit's" \
	an_event_is_a_file_for_each_url
tap_test "names and contents are byte for byte those of Gerrit" \
	names_and_contents_are_byte_for_byte_those_of_gerrit
tap_test "a reader never sees a part of a file" a_reader_never_sees_a_part_of_a_file
tap_test "what is no task is set aside, and the others are done" \
	what_is_no_task_is_set_aside_and_the_others_are_done
tap_test "what cannot be read is told, and done when it can be" \
	what_cannot_be_read_is_told_and_done_when_it_can_be
tap_test "two refs of a file are one push" \
	two_refs_are_one_push_in_either_order 'refs/heads/b1 refs/heads/b2'
tap_test "two refs of a file are one push in the other order, too" \
	two_refs_are_one_push_in_either_order 'refs/heads/b2 refs/heads/b1'
tap_test "a push of all refs takes the files of single ones along" \
	a_push_of_all_refs_takes_the_files_of_single_ones_along
tap_test "files of older releases are done" files_of_older_releases_are_done
tap_test "files in odd places, and of odd names, are done" \
	files_in_odd_places_and_of_odd_names_are_done
tap_test "files that come later are done" files_that_come_later_are_done
tap_test "tasks of a remote that is gone wait for it" \
	tasks_of_a_remote_that_is_gone_wait_for_it
tap_test "tasks of a remote that was renamed are done" \
	tasks_of_a_remote_that_was_renamed_are_done
tap_test "a ref that the remote does not take is left out" \
	a_ref_that_the_remote_does_not_take_is_left_out
tap_test "tasks of a URL with a password are done" tasks_of_a_url_with_a_password_are_done
tap_test "a push that fails or is stopped leaves its task waiting" \
	a_push_that_fails_or_is_stopped_leaves_its_task_waiting
tap_test "it can be handed back to Gerrit" it_can_be_handed_back
tap_done
