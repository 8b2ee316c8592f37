#!/usr/bin/env bash
# Pushing by ssh: repositories are made, deleted and given HEAD there.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"
. "$TESTS/lib/gerrit.sh"
. "$TESTS/lib/ssh.sh"

a_missing_repository_is_made_whatever_its_name() {
	local name="it's a b/c"
	make_ssh_home
	mkdir bin
	printf '#!/bin/sh\necho "$@" >>%q\nexec git "$@"\n' "$PWD/gits" >bin/git
	printf '#!/bin/sh\necho receive >>%q\nexec git-receive-pack "$@"\n' "$PWD/gits" \
		>bin/git-receive-pack
	printf '#!/bin/sh\necho upload >>%q\nexec git-upload-pack "$@"\n' "$PWD/gits" \
		>bin/git-upload-pack
	chmod +x bin/*
	gerrit_conf remote.far.gitPath "$PWD/bin/git"
	make_source "$name"
	git -C "git/$name.git" branch trunk main
	git -C "git/$name.git" symbolic-ref HEAD refs/heads/trunk
	start_ready home
	expect 0 at home push start --all --wait
	same_refs "git/$name.git" "far/home/$name.git"
	[ "$(git -C "far/home/$name.git" symbolic-ref HEAD)" = refs/heads/trunk ]
	[ ! -e "far/home/$name.git/refrelay-new" ]
	grep -q '^init --bare' gits
	grep -q '^symbolic-ref HEAD refs/heads/trunk$' gits
	grep -q receive gits
	grep -q upload gits
	stop_site home
}

what_fails_there_is_no_success() {
	make_ssh_home gitPath "$PWD/none/git"
	gerrit_conf remote.far.receivepack git-receive-pack
	gerrit_conf remote.far.uploadpack git-upload-pack
	make_source a 1
	start_ready home
	at home push start a
	wait_until 20 failure_is config
	at home push queue | grep -q 'gitPath'
	[ "$(logged home push.created)" -eq 0 ]
	git config --file gerrit/etc/replication.config --unset remote.far.gitPath
	mv far/home/a.git half # what it was about to be
	touch far/home/a.git # a reason that is in no list
	reload home
	at home push retry --all
	wait_until 20 was_logged home push.failed 'invalid gitfile format.* code=config'
	rm far/home/a.git
	mkdir -p far/home/a.git/way
	at home push retry --all
	wait_until 20 was_logged home push.failed 'exists, but is not a repository'
	rm -r far/home/a.git
	at home push retry --all
	wait_until 20 store_is_empty
	same_refs git/a.git far/home/a.git
	stop_site home
}

# A command there that does not come back is left, and what it had begun is no repository.
a_command_that_hangs_is_ended() {
	make_ssh_home gitPath "$PWD/bin/git"
	mkdir bin
	printf '#!/bin/sh\ntouch %q\nexec sleep 600\n' "$PWD/hangs" >bin/git
	chmod +x bin/git
	gerrit_conf remote.far.receivepack git-receive-pack
	gerrit_conf remote.far.uploadpack git-upload-pack
	gerrit_conf gerrit.sshCommandTimeout 6 # enough for the command to begin
	make_source a 1
	start_ready home
	at home push start a
	wait_until 20 failure_is timeout
	[ -e hangs ]
	printf '#!/bin/sh\nexec git "$@"\n' >bin/git
	git config --file gerrit/etc/replication.config gerrit.sshCommandTimeout 60
	reload home
	at home push retry --all
	wait_until 20 store_is_empty
	same_refs git/a.git far/home/a.git
	[ ! -e far/home/a.git/refrelay-new ]
	stop_site home
}

# What is pushed to is made, though the place beside it cannot be.
one_of_two_admin_urls_is_down() {
	make_ssh_home adminUrl "ssh://127.0.0.1:1/none/\${name}.git"
	gerrit_conf remote.far.adminUrl "$(ssh_url far "$PWD/far/home")/\${name}.git"
	make_source a 1
	git -C git/a.git branch more main
	start_ready home
	at home push start a
	wait_until 20 was_logged home push.not_created 'code=network'
	wait_until 20 same_refs git/a.git far/home/a.git
	# One ref changes, and all are missing.
	rm -r far/home/a.git
	add_commits git/a.git refs/heads/main 1
	at home changed a
	wait_until 20 same_refs git/a.git far/home/a.git
	wait_until 20 store_is_empty
	fails was_logged home push.failed
	stop_site home
}

nothing_is_made_unless_asked_for() {
	make_ssh_home createMissingRepositories false
	make_source a 1
	start_ready home
	at home push start a
	wait_until 20 was_logged home push.failed 'createMissingRepositories'
	[ ! -e far/home/a.git ]
	fails grep -q init far/commands
	stop_site home
}

head_and_deletions_go_by_ssh() {
	make_ssh_home replicateProjectDeletions true
	make_source a 1
	make_source stays 1
	start_ready home
	expect 0 at home push start --all --wait
	git -C git/a.git branch trunk main
	git -C git/a.git symbolic-ref HEAD refs/heads/trunk
	at home changed a
	wait_until 20 was_logged home push.head refs/heads/trunk
	[ "$(git -C far/home/a.git symbolic-ref HEAD)" = refs/heads/trunk ]
	remove_repository git/a.git
	report_removed home a
	wait_until 20 was_logged home push.deleted
	[ ! -e far/home/a.git ]
	[ "$(ls -A far/home)" = stays.git ]
	wait_until 20 store_is_empty
	stop_site home
}

# What a person can mend ends neither.
an_error_of_configuration_delays_head_and_deletions() {
	make_ssh_home replicateProjectDeletions true
	make_source a 1
	make_source b 1
	git -C git/b.git branch trunk main
	start_ready home
	expect 0 at home push start --all --wait
	mv far/known_hosts known
	: >far/known_hosts
	git -C git/b.git symbolic-ref HEAD refs/heads/trunk
	at home changed b
	wait_until 20 was_logged home push.failed 'setting HEAD of .*code=config'
	remove_repository git/a.git
	report_removed home a
	wait_until 20 was_logged home push.failed 'deleting .*code=config'
	mv known far/known_hosts
	at home push retry --all
	wait_until 20 was_logged home push.deleted
	[ ! -e far/home/a.git ]
	wait_until 20 head_is far/home/b.git refs/heads/trunk
	wait_until 20 queue_is home 0 'len(q["queue"]) + len(q["given_up"])'
	fails was_logged home 'push.(not_deleted|head_not_set)'
	stop_site home
}

# As at most hosts of repositories: who logs in may fetch and push, and nothing else.
a_head_that_an_account_without_a_shell_refuses_delays_no_ref() {
	make_ssh_home
	make_source a 1
	start_ready home
	expect 0 at home push start --all --wait
	cat >far/login <<-END
		#!/bin/sh
		export HOME='$PWD/far/home' LC_ALL=C GIT_CONFIG_NOSYSTEM=1
		cd && exec git-shell -c "\$SSH_ORIGINAL_COMMAND"
	END
	git -C git/a.git branch trunk main
	git -C git/a.git symbolic-ref HEAD refs/heads/trunk
	at home changed a
	wait_until 20 was_logged home push.head_not_set 'code=config.*adminUrl'
	git -C git/a.git branch later main
	at home changed a
	wait_until 20 same_refs git/a.git far/home/a.git
	wait_until 20 store_is_empty
	is_logged 1 home push.head_not_set
	fails was_logged home push.failed
	stop_site home
}

# Git there refuses to delete the branch that HEAD names.
a_default_branch_is_renamed() {
	make_ssh_home mirror true
	make_source a 1
	start_ready home
	expect 0 at home push start --all --wait
	git -C git/a.git branch -m main trunk
	[ "$(git -C git/a.git symbolic-ref HEAD)" = refs/heads/trunk ]
	at home changed a
	wait_until 20 refs_are far/home/a.git refs/heads/trunk
	[ "$(git -C far/home/a.git symbolic-ref HEAD)" = refs/heads/trunk ]
	wait_until 20 store_is_empty
	fails was_logged home push.gave_up
	# One that HEAD names here as well stays there, and is told.
	git -C git/a.git branch other trunk
	git -C git/a.git update-ref -d refs/heads/trunk
	at home changed a
	wait_until 20 was_logged home push.gave_up 'deletion of the current branch'
	refs_are far/home/a.git refs/heads/other refs/heads/trunk
	stop_site home
}

# HEAD there would name nothing.
a_default_branch_stays_where_its_successor_is_refused() {
	make_ssh_home mirror true
	make_source a 1
	start_ready home
	expect 0 at home push start --all --wait
	printf '#!/bin/sh\n[ "$1" != refs/heads/trunk ]\n' >far/home/a.git/hooks/update
	chmod +x far/home/a.git/hooks/update
	git -C git/a.git branch -m main trunk
	at home changed a
	wait_until 20 was_logged home push.gave_up
	wait_until 20 was_logged home push.failed 'HEAD of .* is not set to refs/heads/trunk'
	refs_are far/home/a.git refs/heads/main
	[ "$(git -C far/home/a.git symbolic-ref HEAD)" = refs/heads/main ] ||
		fail "HEAD names a branch that was refused"
	stop_site home
}

# The connection ends before HEAD is set: that is no reason to give the deletion up.
a_default_branch_is_renamed_when_head_can_be_set() {
	make_ssh_home mirror true
	make_source a 1
	start_ready home
	expect 0 at home push start --all --wait
	sed -i '2i case $SSH_ORIGINAL_COMMAND in *symbolic-ref*) exit 255 ;; esac' far/login
	git -C git/a.git branch -m main trunk
	at home changed a
	wait_until 20 refs_are far/home/a.git refs/heads/main refs/heads/trunk
	wait_until 20 was_logged home push.failed
	ssh_write_login "$PWD/far"
	at home push retry --all
	wait_until 20 refs_are far/home/a.git refs/heads/trunk
	[ "$(git -C far/home/a.git symbolic-ref HEAD)" = refs/heads/trunk ]
	wait_until 20 store_is_empty
	fails was_logged home push.gave_up
	stop_site home
}

tap_test "a missing repository is made, whatever its name" \
	a_missing_repository_is_made_whatever_its_name
tap_test "what fails there is no success" what_fails_there_is_no_success
tap_test "a command that hangs is ended" a_command_that_hangs_is_ended
tap_test "nothing is made unless it is asked for" nothing_is_made_unless_asked_for
tap_test "one of two places cannot make it" one_of_two_admin_urls_is_down
tap_test "a default branch is renamed" a_default_branch_is_renamed
tap_test "a default branch stays where its successor is refused" \
	a_default_branch_stays_where_its_successor_is_refused
tap_test "a default branch is renamed when HEAD can be set" \
	a_default_branch_is_renamed_when_head_can_be_set
tap_test "HEAD and deletions go by ssh" head_and_deletions_go_by_ssh
tap_test "an error of configuration delays HEAD and deletions" \
	an_error_of_configuration_delays_head_and_deletions
tap_test "a HEAD that an account without a shell refuses delays no ref" \
	a_head_that_an_account_without_a_shell_refuses_delays_no_ref
tap_done
