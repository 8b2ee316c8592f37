#!/usr/bin/env bash
# Projects that a Gerrit does not have are made there, whichever way it says so; by ssh
# they also get another HEAD, and are deleted, without an adminUrl.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"
. "$TESTS/lib/gerrit.sh"
. "$TESTS/lib/ssh.sh"

gerrit_program=$TESTS/peers/gerrit.py

# ./far: an sshd that takes Gerrit's commands, and has its projects in far/home.
start_gerrit_ssh() {
	ssh_start far
	cat >far/login <<-END
		#!/bin/bash
		cd '$PWD/far/home' || exit
		export GIT_CONFIG_NOSYSTEM=1
		echo "\$SSH_ORIGINAL_COMMAND" >>'$PWD/far/commands'
		case "\$SSH_ORIGINAL_COMMAND" in
		git-* | gerrit* | deleteproject*) eval "set -- \$SSH_ORIGINAL_COMMAND" ;;
		*) set -- \$SSH_ORIGINAL_COMMAND ;;
		esac
		case "\$1 \$2" in
		git-receive-pack* | git-upload-pack*)
			name=\${2#/}
			name=\${name%.git}
			[ -d "\$name.git" ] && exec "\$1" "\$name.git"
			echo "fatal: project \$name not found" >&2
			exit 128 ;;
		'gerrit create-project')
			[ "\$3" != --branch ] || shift 2
			git init -q --bare -b main "\$3.git" ;;
		'gerrit set-head')
			git -C "\$3.git" symbolic-ref HEAD "\$5" ;;
		'deleteproject delete')
			rm -r "\$5.git" ;;
		*)
			echo "fatal: Gerrit Code Review: \$1: not found" >&2
			exit 127 ;;
		esac
	END
}

make_gerrit_ssh_home() { # [KEY VALUE]... of the remote
	make_gerrit_node home
	start_gerrit_ssh
	make_source new/two
	gerrit_remote far url "$(ssh_url far '')\${name}.git" replicationRetry 60 "$@"
	set_conf home remote.far.sshKey "$PWD/far/user_key"
	set_conf home remote.far.sshKnownHosts "$PWD/far/known_hosts"
}

is_made_by_ssh() { # [KEY VALUE]...
	make_gerrit_ssh_home "$@"
	start_ready home
	expect 0 at home push start --wait --timeout 30s --now new/two
	same_refs git/new/two.git far/home/new/two.git
	grep -qx 'gerrit create-project --branch refs/heads/main new/two' far/commands
	stop_site home
}

far_head_is() { # REF
	[ "$(git -C far/home/new/two.git symbolic-ref HEAD)" = "$1" ]
}

follows_by_ssh() {
	make_gerrit_ssh_home replicateProjectDeletions true
	make_source stays
	start_ready home
	expect 0 at home push start --wait --timeout 30s --now new/two
	git -C git/new/two.git branch next main
	git -C git/new/two.git symbolic-ref HEAD refs/heads/next
	at home changed new/two
	wait_until 20 far_head_is refs/heads/next
	remove_repository git/new/two.git
	report_removed home new/two
	wait_until 20 was_logged home push.deleted
	[ ! -e far/home/new/two.git ]
	stop_site home
}

is_told_where_nothing_is_made() {
	make_gerrit_ssh_home createMissingRepositories false
	start_ready home
	at home push start --now new/two
	wait_until 20 failure_is missing
	at home push queue | grep -q 'createMissingRepositories'
	[ -z "$(ls far/home)" ]
	stop_site home
}

# ./web/git by HTTP, and ./web as the Gerrit that has it.
start_gerrit_http() {
	mkdir -p web/git/new
	mkfifo web/port
	python3 "$gerrit_program" "$PWD/web" &
	rest_port=$(cat web/port)
	touch web/git/hides
	start_git_http web/git admin:s3cret
}

make_gerrit_http_home() {
	make_gerrit_node home
	start_gerrit_http
	make_source new/two
	gerrit_remote web url "http://127.0.0.1:$(cat web/git/port)/\${name}.git" \
		adminUrl "gerrit+http://127.0.0.1:$rest_port/prefix" replicationRetry 60
	secure_conf remote.web.username admin
	secure_conf remote.web.password s3cret
}

is_made_by_http() {
	make_gerrit_http_home
	start_ready home
	expect 0 at home push start --wait --timeout 30s --now new/two
	same_refs git/new/two.git web/git/new/two.git
	grep -q '^GET /prefix/a/projects/new%2Ftwo ' web/asked
	grep -q '^PUT /prefix/a/projects/new%2Ftwo .*refs/heads/main' web/asked
	stop_site home
}

# It is there, and the user may not push to it.
what_is_forbidden_is_not_taken_for_missing() {
	make_gerrit_http_home
	mkdir -p web/projects
	echo refs/heads/main >web/projects/new%2Ftwo
	start_ready home
	at home push start --now new/two
	wait_until 20 failure_is auth
	grep -q '^GET /prefix/a/projects/new%2Ftwo ' web/asked
	fails grep -q '^PUT ' web/asked
	stop_site home
}

tap_test "a project that is missing is made by ssh" is_made_by_ssh
tap_test "HEAD and a deletion go to a Gerrit by ssh" follows_by_ssh
tap_test "what is missing is told where nothing is to be made" is_told_where_nothing_is_made
tap_test "a project that is missing is made by HTTP" is_made_by_http
tap_test "what is forbidden is not taken for missing" what_is_forbidden_is_not_taken_for_missing
tap_done
