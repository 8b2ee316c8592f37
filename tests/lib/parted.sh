# Sites that lose each other. Needs tap.sh, sites.sh, two_sites.sh, proxied.sh, pushed.sh.
#
#	make_pair MAKE-SITES	repositories r and s; ./work pushes at paris, ./near at london
#	make_linked_sites	sites with tests/peers/tcp.py between them
#	start_link		that alone, before london
#	rule WORD...		what that does from now on
#	parted_by RULE...	a test: all that must hold while they are parted, and after

peers=$(realpath "${BASH_SOURCE[0]%/*}/../peers")

make_pair() { # MAKE-SITES
	"$1"
	make_repository london/git/r.git 5
	make_repository london/git/s.git 5
	give_token london dev push
	set_conf paris http.anonymousRead true
	start_sites
	wait_until 20 in_sync
	make_clone "$(url_as dev paris r)" work
	make_clone "$(url_as dev london r)" near
}

start_link() {
	local upstream

	mkdir link
	upstream=$(site_url london)
	python3 "$peers/tcp.py" link "${upstream##*:}" "$(free_port)" &
	wait_until 10 test -f link/port
}

make_linked_sites() {
	make_sites
	start_link
	set_conf paris primary.url "http://127.0.0.1:$(cat link/port)"
}

rule() { # WORD...
	echo "$*" >link/rule.new
	mv link/rule.new link/rule
}

# It is told within SECONDS, and succeeds or not as it should.
soon() { # SECONDS COMMAND...
	local seconds=$1 begun=$SECONDS status=0

	shift
	"$@" || status=$?
	[ $((SECONDS - begun)) -le $((seconds * 2)) ] ||
		fail "$((SECONDS - begun)) s: $*"
	return "$status"
}

told_at_paris() { # REPOSITORY
	git ls-remote "$(site_url paris)/$1.git" refs/heads/main 2>err | cut -f 1
}

copies_stay_as_they_are() {
	set_conf paris sync.repositoryCapacity 0
	kill -HUP "$(site_pid paris)"
	wait_until 10 was_logged paris node.reloaded
}

copies_follow() {
	set_conf paris sync.repositoryCapacity 4
	kill -HUP "$(site_pid paris)"
}

# How often a reader waited until the primary did not answer.
waits_in_vain() {
	logged paris 'git\.(served_unheard|not_forwarded)' || true
}

read_in_all_ways() {
	local version before begun=$SECONDS

	before=$(waits_in_vain)
	for version in 0 2; do
		rm -rf copy
		soon 10 git -c "protocol.version=$version" clone -q "$@" "$(site_url paris)/s.git" copy
		[ "$(tip copy HEAD)" = "$(tip paris/git/s.git)" ]
	done
	# Nobody, or one of many after a while; another one ten seconds after that.
	[ "$(waits_in_vain)" -le $((before + 1 + (SECONDS - begun) / 10)) ]
}

everything_is_equal_again() {
	wait_until 20 in_sync
	same_sites
	git -C work fetch -q
	git -C work merge -q -s ours -m merge origin/main
	git -C work push -q origin main
	[ "$(told_at_paris r)" = "$(tip work HEAD)" ]
	git -C near fetch -q
	git -C work merge-base --is-ancestor "$(tip near main)" main
	wait_until 20 in_sync
	same_sites
}

# r has a push that the copy lacks when the sites lose each other, s is fresh.
parted_by() { # RULE...
	local before events

	make_pair make_linked_sites
	set_conf paris serve.freshFor 10m # however long it takes until copies are to be old
	copies_stay_as_they_are
	commit_in work
	git -C work push -q origin main
	git -C near pull -q
	[ "$(told_at_paris r)" = "$(tip work HEAD)" ]
	rule "$@"
	before=$(tip london/git/r.git) events=$(events_of london r)

	read_in_all_ways
	read_in_all_ways --depth=1
	commit_in work
	fails soon 20 git ls-remote "$(site_url paris)/r.git" 2>err.read &
	fails soon 20 git -C work push -q origin main 2>err.push
	wait $!
	grep "remote: pushes go to the primary, and it does not answer" err.push
	grep "remote: the copy here .*, and the primary does not answer" err.read
	[ "$(tip london/git/r.git)" = "$before" ]
	[ "$(events_of london r)" -eq "$events" ]

	# The primary is pushed to all the same, and the copy goes on to say what it knows.
	commit_in near
	git -C near push -q origin main
	git -C near push -q "$(url_as dev london s)" "+main:main"
	[ "$(told_at_paris s)" = "$(tip paris/git/s.git)" ]

	# When it was silent for long, it is asked, but not by each reader.
	set_conf paris serve.freshFor 2s
	copies_follow
	wait_until 10 served_unheard
	read_in_all_ways

	rule pass
	everything_is_equal_again
}

served_unheard() {
	told_at_paris s >/dev/null && was_logged paris git.served_unheard
}
