#!/usr/bin/env bash
# A node started with a Gerrit's replication.config pushes what that says, to where it says.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"
. "$TESTS/lib/gerrit.sh"
. "$TESTS/lib/ssh.sh"

all_equal() { # NAME DIRECTORY...
	local name=$1
	shift
	for directory; do
		same_refs "git/$name.git" "$directory/$name.git" || return
	done
}

# By ssh and at a path what is missing is made; a git daemon makes nothing.
one_file_names_places_of_all_kinds() {
	make_gerrit_node home
	make_source tool
	make_source lib/a
	make_destination daemon/tool
	ssh_start far
	start_git_daemon daemon
	gerrit_remote ssh url "$(ssh_url far "$PWD/far/home")/\${name}.git"
	gerrit_remote daemon url "git://127.0.0.1:$(cat daemon/port)/\${name}.git" \
		projects tool
	gerrit_remote local
	set_conf home remote.ssh.sshKey "$PWD/far/user_key"
	set_conf home remote.ssh.sshKnownHosts "$PWD/far/known_hosts"
	at home check >check
	grep -q '^ok     remote        ssh: 2 repositories' check
	start_ready home
	expect 0 at home push start --all --wait
	all_equal tool far/home daemon local
	all_equal lib/a far/home local
	[ ! -e daemon/lib ]
	add_commits git/tool.git refs/heads/main 1
	git -C git/tool.git tag v1 main
	at home changed tool
	wait_until 20 all_equal tool far/home daemon local
	[ "$(git -C far/home/tool.git symbolic-ref HEAD)" = refs/heads/main ]
	wait_until 10 store_is_empty
	stop_site home
}

patterns_decide_which_repositories_go() {
	local name
	make_gerrit_node home
	gerrit_remote m projects 'a/*' threads 4
	gerrit_conf remote.m.projects '^b/(x|y)'
	gerrit_conf remote.m.projects c
	gerrit_conf remote.m.excludeProjects a/private
	for name in a/1 a/private b/x b/x2 c cc A/1; do
		make_source "$name" 1
	done
	start_ready home
	expect 0 at home push start --all --wait
	[ "$(list_repositories m | xargs)" = 'a/1.git b/x.git c.git' ]
	# Nor does an event bring them.
	for name in a/1 a/private b/x2 cc; do
		add_commits "git/$name.git" refs/heads/new 1
		at home changed "$name"
	done
	wait_until 20 same_refs git/a/1.git m/a/1.git
	wait_until 20 store_is_empty
	[ "$(list_repositories m | xargs)" = 'a/1.git b/x.git c.git' ]
	stop_site home
}

refs_of() { # REPOSITORY
	git -C "$1" for-each-ref --format='%(refname)' | xargs
}

specs_decide_which_refs_go_where() {
	make_gerrit_node home
	gerrit_remote plain push 'refs/heads/*:refs/heads/*'
	gerrit_conf remote.plain.push 'refs/tags/*:refs/tags/*'
	gerrit_remote moved push 'refs/heads/*:refs/mirror/*'
	gerrit_remote first push refs/heads/main:refs/heads/first
	gerrit_conf remote.first.push 'refs/heads/*:refs/heads/other/*'
	make_source a
	git -C git/a.git update-ref refs/changes/01/1/1 main
	git -C git/a.git update-ref refs/tags/v1 main
	start_ready home
	expect 0 at home push start --all --wait
	[ "$(refs_of plain/a.git)" = 'refs/heads/main refs/tags/v1' ]
	[ "$(refs_of moved/a.git)" = refs/mirror/main ]
	[ "$(refs_of first/a.git)" = refs/heads/first ]
	git -C git/a.git update-ref refs/changes/01/1/2 main
	git -C git/a.git update-ref refs/heads/new main
	at home changed a
	wait_until 20 store_is_empty
	[ "$(refs_of plain/a.git)" = 'refs/heads/main refs/heads/new refs/tags/v1' ]
	[ "$(refs_of moved/a.git)" = 'refs/mirror/main refs/mirror/new' ]
	[ "$(refs_of first/a.git)" = 'refs/heads/first refs/heads/other/new' ]
	stop_site home
}

pushes_are_split_into_batches_but_not_with_an_interval() {
	make_gerrit_node home
	gerrit_remote m pushBatchSize 1
	make_source a
	git -C git/a.git branch side main
	make_destination m/a
	start_ready home
	expect 0 at home push start --all --wait
	[ "$(received m/a)" -eq 2 ]
	same_refs git/a.git m/a.git
	gerrit_conf replication.distributionInterval 1
	reload home
	add_commits git/a.git refs/heads/main 1
	add_commits git/a.git refs/heads/side 1
	at home changed a
	wait_until 20 same_refs git/a.git m/a.git
	[ "$(received m/a)" -eq 3 ]
	stop_site home
}

names_stand_in_urls_as_the_style_says() {
	local style
	make_gerrit_node home
	for style in slash dash underscore basenameOnly; do
		gerrit_remote "$style" remoteNameStyle "$style"
	done
	make_source 'a b/c=d' 1
	start_ready home
	expect 0 at home push start --all --wait
	[ "$(list_repositories slash)" = 'a b/c=d.git' ]
	[ "$(list_repositories dash)" = 'a b-c=d.git' ]
	[ "$(list_repositories underscore)" = 'a b_c=d.git' ]
	[ "$(list_repositories basenameOnly)" = 'c=d.git' ]
	stop_site home
}

# By the paths that Gerrit's file has, from Gerrit's site.
the_plugins_leftovers_are_done() {
	local uri left
	make_gerrit_node home
	gerrit_remote m
	gerrit_conf replication.eventsDirectory data/replication
	git config --file home/refrelay.conf --unset replication.eventsDirectory
	mkdir -p gerrit/data/replication
	ln -s gerrit/data/replication store # for write_task
	make_source a
	make_source b
	make_source c
	uri=$PWD/m
	write_task waiting a ..all.. "$uri/a.git" m
	write_task waiting b "refs/heads/none refs/heads/main" "$uri/b.git" m
	write_task running c refs/heads/main "$uri/c.git" m
	write_task waiting a refs/heads/main "$uri/a.git" gone
	start_ready home
	wait_until 20 same_refs git/a.git m/a.git
	wait_until 20 same_refs git/b.git m/b.git
	wait_until 20 same_refs git/c.git m/c.git
	wait_until 20 store_is_empty
	stop_site home
	left=$(find gerrit/data/replication/refrelay -path '*/failed/*' -o -path '*/unreadable/*')
	[ -z "$left" ]
}

each_file_beside_is_a_remote() {
	make_gerrit_node home
	gerrit_remote main
	mkdir -p gerrit/etc/replication one
	printf '[remote]\n\turl = %s\n\treplicationDelay = 0\n' "$PWD/one/\${name}.git" \
		>gerrit/etc/replication/one.config
	printf '[remote "two"]\n\turl = %s\n' "$PWD/two/\${name}.git" \
		>gerrit/etc/replication/two.config
	make_source a
	at home check >check
	grep -q '^note   push .*its \[remote\] sections are not obeyed' check
	grep -q '^note   push .*two.config: the file is not obeyed' check
	start_ready home
	expect 0 at home push start --all --wait
	same_refs git/a.git one/a.git
	[ -z "$(ls main)" ]
	[ ! -e two ]
	at home push list | grep -q '^Remote: one$'
	stop_site home
}

tap_test "one file names places of all kinds" one_file_names_places_of_all_kinds
tap_test "patterns decide which repositories go" patterns_decide_which_repositories_go
tap_test "specs decide which refs go, and where" specs_decide_which_refs_go_where
tap_test "pushes are split into batches, but not with an interval" \
	pushes_are_split_into_batches_but_not_with_an_interval
tap_test "names stand in URLs as the style says" names_stand_in_urls_as_the_style_says
tap_test "the plugin's leftovers are done" the_plugins_leftovers_are_done
tap_test "each file beside it is a remote" each_file_beside_is_a_remote
tap_done
