#!/usr/bin/env bash
# Small changes come in one request, without git, and whatever is not small or not as
# expected comes all the same.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/site_crash.sh"
. "$TESTS/lib/secured.sh"

is_there() {
	in_sync && same_sites
}

# How many syncs of r have brought objects in this way.
came() { # delta|git [NUMBER]
	logged paris sync.done "repo=r .*way=$1 " || true
}

has_come() { # WAY NUMBER
	[ "$(came "$1")" -ge "$2" ]
}

# COMMAND changes r at the primary, and that comes so.
comes_by() { # WAY COMMAND...
	local way=$1 before
	shift
	before=$(came "$way")
	echo "$*:"
	"$@"
	wait_until 20 is_there
	wait_until 10 has_come "$way" $((before + 1))
}

count_refused() {
	logged paris sync.delta_refused || true
}

# Else the rule has hit nothing.
was_refused() { # BEFORE
	[ "$(count_refused)" -gt "$1" ]
}

is_sound() {
	in_copy r.git fsck --strict --full --no-dangling >fsck 2>&1 || { cat fsck; return 1; }
}

in_r() {
	git -C work "$@"
}

commits() { # [FILE...]
	local file
	for file in "${@:-file}"; do
		mkdir -p "work/$(dirname "$file")"
		echo "$RANDOM$RANDOM" >"work/$file"
	done
	in_r add -A
	in_r commit -qm change
}

pushes() { # ARGUMENT...
	in_r push -q origin "$@"
}

commits_and_pushes() {
	commits "$@"
	pushes HEAD
}

merges() {
	in_r checkout -q -b side HEAD~1
	commits side/a side/b
	in_r checkout -q main
	commits other
	in_r merge -q --no-edit side
	pushes main
}

moves_a_folder() {
	in_r mv side moved
	in_r commit -qm moved
	pushes main
}

rewrites() {
	in_r commit -q --amend -m another
	pushes -f main
}

starts_a_branch_at_an_old_commit() {
	in_r checkout -q -b old HEAD~2
	commits old/file
	pushes old
	in_r checkout -q main
}

tags() {
	in_r tag -a -m text v1
	in_r tag -a -m text v2 v1
	in_r tag light "HEAD^{tree}"
	pushes v1 v2 light
}

deletes_and_pushes() {
	commits new/file
	pushes :old main main:refs/notes/x
}

makes_an_orphan() {
	in_r checkout -q --orphan lone
	commits lone
	pushes lone
	in_r checkout -q main
}

names_a_submodule() {
	in_r update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,sub
	in_r commit -qm submodule
	pushes main
	in_r rm -q --cached sub
}

start_with_r() { # [MAKE-SITES]
	"${1:-make_sites}"
	make_repository london/git/r.git 5
	start_sites
	wait_until 20 is_there
	git clone -q london/git/r.git work
}

small_changes_come_without_git() {
	start_with_r
	comes_by delta commits_and_pushes
	comes_by delta commits_and_pushes a/b/c/d a/b/e part-1/x
	comes_by delta merges
	comes_by delta moves_a_folder
	comes_by delta rewrites
	comes_by delta starts_a_branch_at_an_old_commit
	comes_by delta tags
	comes_by delta deletes_and_pushes
	comes_by delta names_a_submodule
	comes_by delta makes_an_orphan
	is_sound
	[ "$(came git)" -eq 0 ] # as the first copy did
	in_copy r.git symbolic-ref HEAD >head
	git -C london/git/r.git symbolic-ref HEAD refs/heads/lone
	echo text >london/git/r.git/description
	at london changed r
	wait_until 20 is_there
	[ "$(came git)" -eq 0 ]
}

makes_another() { # NAME
	make_repository "london/git/$1.git" 3
	git -C "london/git/$1.git" tag -a -m text v1 main~1
	at london changed "$1"
}

# Copies of which the secondary has nothing yet. What is damaged on its way comes by git.
first_copies_come_without_git() {
	local byte before
	start_with_r make_proxied_sites
	[ "$(came delta)" -eq 1 ]
	git init -q --bare london/git/empty.git
	makes_another sound
	git -C london/git/sound.git symbolic-ref HEAD refs/heads/unborn
	git clone -q --bare london/git/sound.git london/git/detached.git
	git -C london/git/detached.git update-ref --no-deref HEAD main~2
	for byte in empty sound detached; do at london changed $byte; done
	wait_until 20 is_there
	fails asked_for 'POST .*/git-upload-pack'
	fails was_logged paris sync.done 'way=git'
	for byte in -1 -20 -60 -300 10 30 50; do
		rules "/delta flip $byte"
		echo "byte $byte:"
		before=$(count_refused)
		makes_another "flipped$byte"
		wait_until 20 is_there
		# What is new may have any timeline.
		case $byte in 30 | 50) ;; *) was_refused "$before" ;; esac
	done
	for byte in 0 100 700; do
		rules "/delta cut $byte"
		echo "cut $byte:"
		before=$(count_refused)
		makes_another "cut$byte"
		wait_until 30 comes_again
		was_refused "$before"
	done
	rules '/delta junk'
	before=$(count_refused)
	makes_another junk
	wait_until 30 comes_again
	was_refused "$before"
	for byte in paris/git/*.git; do git -C "$byte" fsck --strict --full || return 1; done
	no_left_overs
}

makes_many_commits() {
	add_commits london/git/r.git refs/heads/many 600 refs/heads/main
	at london changed r
}

makes_a_large_file() {
	head -c 3000000 /dev/urandom >work/large
	in_r add large
	in_r commit -qm large
	pushes main
}

what_is_not_small_comes_by_git() {
	start_with_r
	comes_by git makes_many_commits
	comes_by git makes_a_large_file
	comes_by delta commits_and_pushes
	set_conf paris sync.fastPath false
	stop_site paris
	start_site paris
	comes_by git commits_and_pushes
	is_sound
	# The list of its refs has the end of a path of Git.
	makes_another info
	wait_until 20 is_there
}

# Several events, and the log no longer has some of them.
what_was_missed_comes_at_once() {
	local i
	start_with_r
	stop_site paris
	for i in 1 2 3; do
		commits_and_pushes "file$i"
		at london changed r
	done
	pushes HEAD~2:refs/heads/main -f
	at london changed r
	tags
	at london changed r
	comes_by delta start_site paris
	[ "$(events_of london r)" -ge 6 ]
	stop_site paris
	commits_and_pushes again
	at london changed r
	stop_site london
	sqlite3 london/data/refrelay.db 'UPDATE event SET changes = NULL
		WHERE id = (SELECT max(id) FROM event)'
	start_site london
	comes_by git start_site paris
	is_sound
}

other_hashes_come_by_git() {
	local site
	make_sites
	make_repository london/git/r.git 3 sha256
	make_repository london/git/plain.git 1
	start_sites
	wait_until 20 is_there
	comes_by git add_commits london/git/r.git refs/heads/main 1
	for site in london paris; do
		at "$site" repository show r |
			grep -q '^fetched_by_git .*only git reads a repository with SHA-256'
		at "$site" repository show plain >plain
		fails grep -q fetched_by_git plain
	done
}

# Whatever becomes of the answer on its way, no wrong object is there, and what is missing
# comes by git.
answers_that_lie_are_refused() {
	local byte before
	start_with_r make_proxied_sites
	make_swell
	for byte in -1 -20 -60 -120 10 30 50; do
		rules "/delta flip $byte"
		echo "byte $byte:"
		before=$(count_refused)
		commits_and_pushes "file$byte"
		wait_until 20 is_there
		was_refused "$before"
	done
	for byte in 0 100 700; do
		rules "/delta cut $byte"
		echo "cut $byte:"
		before=$(count_refused)
		commits_and_pushes "file$byte"
		wait_until 30 comes_again
		was_refused "$before"
	done
	rules '/delta junk'
	before=$(count_refused)
	commits_and_pushes junk
	wait_until 30 comes_again
	was_refused "$before"
	for byte in 's/^generation .*/generation 1/' 's/^timeline .*/timeline 0123456789abcdef/'; do
		rules "/delta filter LC_ALL=C sed '$byte'"
		echo "$byte:"
		before=$(count_refused)
		commits_and_pushes
		wait_until 30 comes_again
		was_refused "$before"
	done
	was_logged paris sync.delta_refused 'the delta is of another generation'
	rules "/delta filter python3 $PWD/swell.py"
	before=$(count_refused)
	commits_and_pushes
	wait_until 30 comes_again
	was_refused "$before"
	was_logged paris sync.delta_refused 'bytes, where 1048576 were asked for'
	rules
	comes_by delta commits_and_pushes
	is_sound
	no_left_overs
}

# The answer's pack becomes three million bytes longer.
make_swell() {
	cat >swell.py <<-'END'
		import re, sys
		body = sys.stdin.buffer.read()
		found = re.search(rb"(?m)^pack (\d+)$", body)
		more = 3000000
		sys.stdout.buffer.write(body[:found.start(1)] + b"%d" % (int(found[1]) + more) +
		                        body[found.end(1):] + bytes(more))
	END
}

# The status of the answer to paris if it says to have this.
asks_since() { # TIMELINE GENERATION CHECKSUM
	local body token
	body="{\"timeline\":\"$1\",\"generation\":$2,\"checksum\":\"$3\",\"limit\":1048576}"
	token=$(SHARED=$PWD BODY=$body site_token req "POST $asked_url")
	curl -sS -m 20 -o answer -w '%{http_code}' -H "Authorization: Bearer $token" -d "$body" \
		-H 'Content-Type: application/json' "$(site_url london)$asked_url"
}
asked_url=/api/v1/repositories/r/delta

is_refused_delta() { # TIMELINE GENERATION CHECKSUM
	[ "$(asks_since "$@")" = 409 ]
	grep '"code":"DELTA_UNAVAILABLE"' answer
}

member_of_r() { # NAME
	at london repository show r | awk -v name="$1" '$1 == name { print $2 }'
}

# Whoever has other refs than those of that generation would be given too little.
questions_that_lie_are_refused() {
	local timeline generation checksum before
	start_with_r
	before=$(member_of_r checksum)
	commits_and_pushes
	wait_until 20 is_there
	timeline=$(member_of_r timeline)
	generation=$(member_of_r generation)
	checksum=$(member_of_r checksum)
	[ "$generation" -gt 1 ]
	[ "$(asks_since "$timeline" $((generation - 1)) "$before")" = 200 ]
	grep -a '^pack [1-9]' answer
	[ "$(asks_since "$timeline" "$generation" "$checksum")" = 200 ]
	grep -a '^pack 0$' answer
	is_refused_delta "$timeline" "$generation" "$before"
	is_refused_delta "$timeline" $((generation - 1)) "$checksum"
	is_refused_delta "$timeline" $((generation + 1)) "$checksum"
	is_refused_delta 0123456789abcdef "$generation" "$checksum"
	is_refused_delta "$timeline" 0 "$checksum"
}

comes_again() {
	is_there && return
	at paris repository sync --failed >sync.out 2>&1
	return 1
}

deaths_at_each_step_lose_nothing() {
	local point
	start_with_r
	note_branches
	for point in small_pack.indexed small_pack.packed sync.fetched publish.renamed sync.verified; do
		dies_at paris "$point" commits_and_pushes "at-$point"
		is_sound
	done
	comes_by delta commits_and_pushes
}

commits_and_pushes_many() {
	local i
	for i in {1..36}; do
		commits_and_pushes "file$i"
		has_died paris || wait_until 20 "is_there_or_dead"
	done
}

is_there_or_dead() {
	has_died paris || is_there
}

# The merged pack is there, and those that it was made of are, too.
a_death_while_packs_are_merged_loses_nothing() {
	start_with_r
	note_branches
	dies_at paris pack_merge.put commits_and_pushes_many
	is_sound
	wait_until 20 packs_are_few
	is_sound
}

packs_are_few() {
	[ "$(find paris/git/r.git/objects/pack -name '*.pack' | wc -l)" -le 32 ]
}

tap_test 'small changes come without git' small_changes_come_without_git
tap_test 'first copies of small ones come without git' first_copies_come_without_git
tap_test 'what is not small comes by git' what_is_not_small_comes_by_git
tap_test 'what was missed comes at once' what_was_missed_comes_at_once
tap_test 'other hashes come by git' other_hashes_come_by_git
tap_test 'answers that lie are refused' answers_that_lie_are_refused
tap_test 'questions that lie are refused' questions_that_lie_are_refused
tap_test 'deaths at each step lose nothing' deaths_at_each_step_lose_nothing
tap_test 'a death while packs are merged loses nothing' a_death_while_packs_are_merged_loses_nothing
tap_done
