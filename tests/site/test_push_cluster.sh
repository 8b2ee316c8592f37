#!/usr/bin/env bash
# Several nodes on one store: they share the work, and no ref is pushed twice.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"

# 50 repositories with 10 branches, and as many destinations with witnesses, all of them
# copies of two.
make_fifty() {
	local i

	mkdir -p git far
	make_source p1 1
	for i in {1..10}; do
		git -C git/p1.git update-ref "refs/heads/b$i" main
	done
	make_destination far/p1
	for i in {2..50}; do
		cp -a git/p1.git "git/p$i.git"
		cp -a far/p1.git "far/p$i.git"
		sed -i "s,far/p1,far/p$i,; s,far-p1,far-p$i,g" "far/p$i.git/hooks/p"*-receive
	done
}

# The branches FROM to TO of each of them, a task each, as fast as that can be.
ask_for() { # FROM TO
	python3 - "$1" "$2" <<-'END'
		import hashlib, os, sys
		store = "store/ref-updates/"
		os.makedirs(store + "building", exist_ok=True)
		os.makedirs(store + "waiting", exist_ok=True)
		for b in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
		    for p in range(1, 51):
		        uri = f"{os.getcwd()}/far/p{p}.git"
		        ref = f"refs/heads/b{b}"
		        key = hashlib.sha1(f"p{p}\n[{ref}]\n{uri}\nfar".encode()).hexdigest()
		        with open(store + "building/" + key, "w") as f:
		            f.write('{"project":"p%d","refs":["%s"],"uri":"%s","remote":"far"}\n'
		                    % (p, ref, uri))
		        os.rename(store + "building/" + key, store + "waiting/" + key)
	END
}

each_ref_once() {
	local refs

	refs=$(grep -c '^ref ' witness)
	[ "$refs" -eq 500 ] || fail "$refs refs were received, not 500"
	[ "$(grep '^ref ' witness | cut -d ' ' -f 2,3 | sort -u | wc -l)" -eq 500 ]
}

has_pushed() { # NODE
	was_logged "$1" push.done
}

# The first half waits when they start, the other comes while they work.
share() { # NODE...
	local node

	make_fifty
	for node; do
		make_node "$node"
		add_remote "$node" far threads 2 rescheduleDelay 3
	done
	ask_for 1 5
	for node; do
		launch_site "$node"
	done
	for node; do
		wait_until 20 is_serving "$node"
	done
	ask_for 6 10
	wait_until 40 store_is_empty
	for node; do
		stop_site "$node"
		has_pushed "$node"
		fails was_logged "$node" push.failed
	done
	each_ref_once
	never_two_at_once
	for node; do
		fails was_logged "$node" 'push.(not_moved|put_off|orphan)'
	done
	[ -z "$(letters)" ]
}

tap_test "two nodes share 500 tasks for 50 URIs" share a b
tap_test "four nodes share 500 tasks for 50 URIs" share a b c d
tap_done
