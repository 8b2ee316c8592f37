#!/usr/bin/env bash
# Many refs, many waiting tasks, and the limits that keep one repository or one remote from
# having all: nobody waits for what is not his.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"

make_refs() { # REPOSITORY N
	local tip
	tip=$(git -C "git/$1.git" rev-parse main)
	{
		head -n 1 "git/$1.git/packed-refs" 2>/dev/null ||
			echo '# pack-refs with: peeled fully-peeled sorted '
		seq -f "$tip refs/changes/%06g" 1 "$2"
		echo "$tip refs/heads/main"
	} >packed
	mv packed "git/$1.git/packed-refs"
	rm -f "git/$1.git/refs/heads/main"
}

many_refs_go_in_one_push() { # N
	make_node home
	add_remote home near
	make_source a
	make_destination near/a
	make_refs a "$1"
	start_site home
	at home push start --wait a
	cmp <(git -C git/a.git for-each-ref) <(git -C near/a.git for-each-ref)
	[ "$(received near/a)" -eq 1 ]
	[ "$(git -C near/a.git for-each-ref | grep -c .)" -eq $(($1 + 1)) ]
	wait_until 10 was_logged home push.done
	grep -a ' ev=push.done ' home/log | grep -o 'dur_ms=[0-9]*'
	# And none of them again.
	change a
	wait_until 20 arrived near a
	[ "$(received near/a)" -eq 2 ]
	stop_site home
}

# As a Gerrit leaves them: one ref each.
make_tasks() { # REPOSITORIES REFS URL-OF-HOST
	python3 - "$@" <<-'END'
		import hashlib, os, sys
		repositories, refs, url = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
		os.makedirs("store/ref-updates/waiting")
		for i in range(repositories):
		    for j in range(refs):
		        project, ref, uri = f"p{i}", f"refs/changes/{j + 1:06}", f"{url}/p{i}.git"
		        key = hashlib.sha1(f"{project}\n[{ref}]\n{uri}\nfar".encode()).hexdigest()
		        with open(f"store/ref-updates/waiting/{key}", "w") as file:
		            file.write(f'{{"project":"{project}","refs":["{ref}"],'
		                       f'"uri":"{uri}","remote":"far"}}\n')
	END
}

now_ms() {
	date +%s%3N
}

within() { # MS COMMAND...
	local began most=$1
	shift
	began=$(now_ms)
	"$@" || return
	echo "$*: $(($(now_ms) - began)) ms"
	[ $(($(now_ms) - began)) -le "$most" ] || fail "$* took longer than $most ms"
}

# As many tasks are kept, be they tried just now or not.
are_kept() { # COUNT
	[ "$( (waiting && in_running) | sort -u | wc -l)" -ge "$1" ]
}

# One that was taken up a moment ago is told neither as waiting nor as running.
all_but_those_being_tried_wait() { # COUNT
	expect 3 at home status
	cat out
	grep -q "^far is .* behind: $1 pushes waiting" out
}

what_waits_for_one_that_is_down_holds_up_nobody() { # REPOSITORIES REFS
	local i
	make_node home
	add_remote home far url "git://127.0.0.1:1/\${name}.git" threads 4 replicationRetry 0
	add_remote home near projects hot
	make_source hot
	make_destination near/hot
	make_source p0
	make_refs p0 "$2"
	for ((i = 1; i < $1; i++)); do
		cp -a git/p0.git "git/p$i.git"
	done
	make_tasks "$1" "$2" git://127.0.0.1:1
	start_site home
	wait_until 20 was_logged home push.failed
	at home push start --wait --remote near hot
	for i in 1 2 3; do
		change hot
		within 60000 wait_until 20 arrived near hot
	done
	within 60000 expect 3 at home status
	wait_until 20 all_but_those_being_tried_wait "$(($1 + 1))"
	wait_until 20 are_kept $(($1 * $2))
	stop_site home
}

# Destinations that hold what comes until let_go, and take a moment then, so that others could
# come meanwhile.
make_slow() { # DIR/NAME...
	local name
	for name; do
		make_destination "$name"
		echo 'sleep 0.3' >>"$name.git/hooks/pre-receive"
		hold "$name"
	done
}

have_come() { # COUNT
	[ "$(grep -c '^in' witness)" -eq "$1" ]
}

# As many as may be are at work at once before one of them ends.
push_all() { # COUNT
	at home push start
	wait_until 20 have_come "$1"
	let_go
	wait_until 20 store_is_empty
}

most_at_once() { # PATTERN
	awk -v of="$1" '$2 ~ of && $1 == "in" && ++depth > most { most = depth }
		$2 ~ of && $1 == "out" { depth-- }
		END { print most + 0 }' witness
}

# Another repository to the same remotes has its turn meanwhile.
one_repository_has_no_more_than_its_transfers() {
	local i
	make_node home replication.repositoryTransfers 2
	for ((i = 0; i < 8; i++)); do
		add_remote home "r$i" threads 4
		mkdir -p "r$i"
		make_slow "r$i/a" "r$i/b"
	done
	make_source a
	make_source b
	start_site home
	push_all 4
	[ "$(most_at_once /a)" -eq 2 ]
	[ "$(most_at_once /b)" -eq 2 ]
	[ "$(most_at_once /)" -gt 2 ]
	for ((i = 0; i < 8; i++)); do
		arrived "r$i" a b
	done
	[ "$(grep -c '^in' witness)" -eq 16 ]
	stop_site home
}

bytes_in_flight_let_one_through_at_a_time() {
	local name
	make_node home replication.bytesInFlight 1
	add_remote home near threads 8
	for name in a b c d e; do
		make_source "$name"
		git -C "git/$name.git" repack -a -d -q
		make_slow "near/$name"
	done
	start_site home
	push_all 1
	[ "$(most_at_once .)" -eq 1 ]
	arrived near a b c d e
	stop_site home
}

each_remote_has_its_threads() {
	local name
	make_node home
	add_remote home two threads 2
	add_remote home one
	for name in a b c d e f; do
		make_source "$name"
		make_slow "two/$name" "one/$name"
	done
	start_site home
	push_all 3
	[ "$(most_at_once two/)" -eq 2 ]
	[ "$(most_at_once one/)" -eq 1 ]
	[ "$(most_at_once .)" -eq 3 ]
	stop_site home
}

# Its pushes are counted while it changes all the time: one each second, for five seconds and
# as long as a busy machine takes for the changes, and for three pushes. One that comes while
# another is under way is put off by rescheduleDelay.
a_hot_repository_is_pushed_again_and_again() {
	local began count=0 took=0
	make_node home
	add_remote home near replicationDelay 1
	make_source a
	make_destination near/a
	start_site home
	at home push start --wait --now a
	: >witness
	began=$(now_ms)
	while [ "$took" -lt 5000 ] || [ "$count" -lt 15 ] ||
		{ [ "$(received near/a)" -lt 3 ] && [ "$took" -lt 60000 ]; }; do
		change a >/dev/null
		count=$((count + 1))
		sleep 0.03
		took=$(($(now_ms) - began))
	done
	echo "$count changes, $(received near/a) pushes in $took ms"
	[ "$(received near/a)" -ge 3 ]
	[ "$(received near/a)" -le $((took / 1000 + 2)) ]
	wait_until 10 arrived near a
	stop_site home
}

tap_test "20,000 refs go in one push" many_refs_go_in_one_push 20000
tap_test "5,000 tasks for one that is down hold up nobody" \
	what_waits_for_one_that_is_down_holds_up_nobody 50 100
tap_test "one repository has no more than its transfers" \
	one_repository_has_no_more_than_its_transfers
tap_test "bytesInFlight lets one through at a time" bytes_in_flight_let_one_through_at_a_time
tap_test "each remote has its threads" each_remote_has_its_threads
tap_test "a hot repository is pushed again and again" a_hot_repository_is_pushed_again_and_again
tap_done
