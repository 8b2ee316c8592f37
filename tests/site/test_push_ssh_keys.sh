#!/usr/bin/env bash
# Pushing by ssh: with whose key, and to whom one speaks.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/push.sh"
. "$TESTS/lib/gerrit.sh"
. "$TESTS/lib/ssh.sh"

a_host_must_be_known_and_a_key_taken() {
	make_ssh_home
	make_source a 1
	mv far/known_hosts far/known
	printf '[127.0.0.1]:%s %s\n' "$(cat far/port)" "$(cat far/other_key.pub)" \
		>far/known_hosts
	start_ready home
	at home push start a
	wait_until 20 failure_is config
	at home push queue | grep -q 'known_hosts'
	: >far/known_hosts
	at home push retry --all
	wait_until 20 queue_is home True 'q["queue"][0]["failures"] >= 2'
	failure_is config
	[ ! -s far/commands ]
	[ ! -s far/known_hosts ]
	mv far/known far/known_hosts
	set_conf home remote.far.sshKey "$PWD/far/other_key"
	reload home
	at home push retry --all
	wait_until 20 failure_is auth
	[ ! -s far/commands ]
	set_conf home remote.far.sshKey "$PWD/far/user_key"
	reload home
	at home push retry --all
	wait_until 20 store_is_empty
	same_refs git/a.git far/home/a.git
	stop_site home
}

a_configuration_of_ssh_may_say_all() {
	make_gerrit_node home
	ssh_start far
	gerrit_remote far url "mirror:$PWD/far/home/\${name}.git"
	cat >ssh_config <<-END
		Host mirror
			HostName 127.0.0.1
			Port $(cat far/port)
			User $(id -un)
			IdentityFile $PWD/far/user_key
			IdentitiesOnly yes
			UserKnownHostsFile $PWD/far/known_hosts
	END
	set_conf home replication.sshConfig "$PWD/ssh_config"
	make_source a 1
	start_ready home
	expect 0 at home push start --all --wait
	same_refs git/a.git far/home/a.git
	stop_site home
}

tap_test "a host must be known, and a key taken" a_host_must_be_known_and_a_key_taken
tap_test "a configuration of ssh may say all" a_configuration_of_ssh_may_say_all
tap_done
