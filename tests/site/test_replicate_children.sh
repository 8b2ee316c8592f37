#!/usr/bin/env bash
# The death of git, of its helpers and of its supervisor in the middle of a transfer, and
# signals to the program itself.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"

# In front of git in PATH, and of what git itself starts: the one that the file ./hold
# names (fetch, git-upload-pack, index-pack, pack-objects) writes its id to ./held, and
# waits until ./hold is gone. If it says "half", git-upload-pack does so after 200 kB.
hold_gits() {
	local real core

	real=$(command -v git)
	core=$(git --exec-path)
	mkdir bin core
	cat >gate <<-END
		#!/bin/sh
		case \$0 in
		*/git-upload-pack) real=$core/git-upload-pack name=git-upload-pack ;;
		*) real=$real name=\${1-} ;;
		esac
		held() {
			echo \$\$ >$TEST_DIR/held.new
			mv $TEST_DIR/held.new $TEST_DIR/held
			while [ -e $TEST_DIR/hold ]; do sleep 0.02; done
		}
		hold=\$(cat $TEST_DIR/hold 2>/dev/null)
		if [ "\$name \$hold" = "git-upload-pack half" ]; then
			\$real "\$@" | { dd bs=1 count=200000 status=none; held; }
			exit
		fi
		[ "\$hold" != "\$name" ] || held
		GIT_EXEC_PATH=$TEST_DIR/core exec \$real "\$@"
	END
	chmod +x gate
	find "$core" -mindepth 1 -maxdepth 1 -exec ln -s -t core {} +
	rm -f core/git core/git-upload-pack
	ln -s ../gate core/git
	ln -s ../gate core/git-upload-pack
	ln -s ../gate bin/git
	PATH=$TEST_DIR/bin:$PATH
	export REFRELAY_RUN=$BUILD/tests/free_run
}

# Copies a and b exist; both have changes to be brought.
make_state() {
	mkdir source
	make_repository source/a.git 5
	make_repository source/b.git 5
	run 0 created=2
	add_commits source/a.git refs/heads/main 200
	add_commits source/b.git refs/heads/main 2
	git -C dest/a.git for-each-ref >before
	hold_gits
}

# Starts a run in the background, and waits until COMMAND is held: its id is in ./held,
# the program's in $program.
start_until() { # COMMAND
	rm -f held
	echo "$1" >hold
	"$REFRELAY" replicate --json --jobs 1 source dest >out 2>err &
	program=$!
	wait_until 10 test -e held
}

ended_with() { # STATUS
	local status=0

	wait "$program" || status=$?
	[ "$status" -eq "$1" ] || fail "status $status, not $1: $(cat out err)"
	wait_until 2 no_workers
}

old_refs_only() {
	git -C dest/a.git for-each-ref | diff before -
	git -C dest/a.git fsck --connectivity-only --no-progress --no-dangling
}

all_is_well_afterwards() {
	rm -f hold
	run 0 not_reached=0 failed=0
	equal_trees source dest
	no_left_overs
}

the_death_of_a_git_is_a_failure_of_one() { # COMMAND
	make_state
	start_until "$1"
	kill -KILL "$(<held)"
	rm hold
	ended_with 3
	says a '"outcome":"failed"' '"failure":"[^"]'
	says b '"outcome":"updated"'
	old_refs_only
	all_is_well_afterwards
}

parent_of() { # PID
	sed -n 's/^PPid:[[:space:]]*//p' "/proc/$1/status"
}

the_death_of_the_supervisor_ends_its_git() {
	local supervisor

	make_state
	start_until fetch
	supervisor=$(parent_of "$(<held)")
	grep -q refrelay-run "/proc/$supervisor/comm"
	kill -KILL "$supervisor"
	wait_until 2 fails test -d "/proc/$(<held)"
	rm hold
	ended_with 3
	says a '"outcome":"failed"'
	old_refs_only
	all_is_well_afterwards
}

the_death_of_the_program_ends_all() { # COMMAND
	make_state
	start_until "$1"
	kill -KILL "$program"
	ended_with 137
	old_refs_only
	all_is_well_afterwards
}

# Half a pack is not kept until the next run makes another.
the_death_of_upload_pack_in_the_middle_of_a_pack() {
	make_state
	add_commits source/a.git refs/heads/main 3000
	start_until half
	wait_until 2 find_half_a_pack dest/a.git
	kill -KILL "$(<held)"
	rm hold
	ended_with 3
	says a '"outcome":"failed"' '"failure_class":"(network|corrupt)"'
	old_refs_only
	no_left_overs
	all_is_well_afterwards
}

the_death_of_the_program_in_the_middle_of_a_pack() {
	make_state
	add_commits source/a.git refs/heads/main 3000
	start_until half
	wait_until 2 find_half_a_pack dest/a.git
	kill -KILL "$program"
	ended_with 137
	old_refs_only
	all_is_well_afterwards
}

find_half_a_pack() { # DIRECTORY
	find "$1" -name 'tmp_pack_*' -size +4k | grep .
}

# Staging, and what git has half received, go as well.
the_death_of_the_program_in_a_first_copy() { # COMMAND
	mkdir source
	make_repository source/a.git 3000
	make_repository source/b.git 3
	hold_gits
	start_until "$1"
	kill -KILL "$program"
	ended_with 137
	fails test -e dest/a.git
	all_is_well_afterwards
}

a_signal_ends_it_soon() { # SIGNAL
	make_state
	make_repository source/c.git 3
	start_until fetch
	kill -s "$1" "$program"
	ended_with 130
	grep -q '"not_reached":3,' out
	says a '"outcome":"not_reached"'
	says b '"outcome":"not_reached"'
	old_refs_only
	fails test -e dest/c.git
	no_left_overs
	all_is_well_afterwards
}

people_are_told_what_was_not_reached() {
	make_state
	rm -f held
	echo fetch >hold
	"$REFRELAY" replicate --jobs 1 source dest >out 2>err &
	program=$!
	wait_until 10 test -e held
	kill -TERM "$program"
	ended_with 130
	grep -q '2 not reached' out
	fails grep -q 'all verified equal' out
	all_is_well_afterwards
}

for command in fetch git-upload-pack index-pack pack-objects; do
	tap_test "the death of $command is a failure of one" \
		the_death_of_a_git_is_a_failure_of_one "$command"
done
tap_test "the death of the supervisor ends its git" the_death_of_the_supervisor_ends_its_git
for command in fetch git-upload-pack index-pack pack-objects; do
	tap_test "the death of the program ends $command" \
		the_death_of_the_program_ends_all "$command"
done
tap_test "the death of git-upload-pack in the middle of a pack" \
	the_death_of_upload_pack_in_the_middle_of_a_pack
tap_test "the death of the program in the middle of a pack" \
	the_death_of_the_program_in_the_middle_of_a_pack
for command in fetch index-pack half; do
	tap_test "the death of the program in a first copy, at $command" \
		the_death_of_the_program_in_a_first_copy "$command"
done
for signal in TERM INT HUP; do
	tap_test "SIG$signal ends it soon" a_signal_ends_it_soon "$signal"
done
tap_test "people are told what was not reached" people_are_told_what_was_not_reached
tap_done
