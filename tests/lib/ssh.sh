# An sshd of one's own on loopback, for bash: its account is whoever runs the tests, its
# keys are made for it, and nothing of the machine's own configuration is used.
#
#	ssh_start DIRECTORY     starts it; DIRECTORY/ then has: port, user_key, known_hosts,
#	                        home/ (what relative paths are relative to), commands (what
#	                        was asked, a line each and an empty line behind), log, and
#	                        login, the script that stands for the account's shell
#	ssh_stop DIRECTORY
#	ssh_url DIRECTORY PATH  prints ssh://USER@127.0.0.1:PORT/PATH

ssh_make_keys() { # DIRECTORY
	local name

	for name in host_key user_key other_key; do
		ssh-keygen -q -t ed25519 -N '' -C test -f "$1/$name" || return
	done
	cp "$1/user_key.pub" "$1/authorized_keys"
}

ssh_write_login() { # DIRECTORY
	cat >"$1/login" <<-END
		#!/bin/sh
		printf '%s\n\n' "\$SSH_ORIGINAL_COMMAND" >>'$1/commands'
		export HOME='$1/home' LC_ALL=C GIT_CONFIG_NOSYSTEM=1
		cd && exec sh -c "\$SSH_ORIGINAL_COMMAND"
	END
	chmod +x "$1/login"
}

# A bash that sshd starts reads .bashrc of its home: the account's own may take longer than
# all else.
ssh_write_config() { # DIRECTORY
	cat >"$1/sshd_config" <<-END
		ListenAddress 127.0.0.1
		HostKey $1/host_key
		AuthorizedKeysFile $1/authorized_keys
		ForceCommand $1/login
		PidFile none
		StrictModes no
		UsePAM no
		UseDNS no
		PermitRootLogin yes
		PasswordAuthentication no
		KbdInteractiveAuthentication no
		SetEnv HOME=$1/home
		MaxStartups 100
	END
}

# It says so when it listens, and ends when the port is taken.
ssh_try_port() { # DIRECTORY PORT
	local pid

	"$(PATH=$PATH:/usr/sbin command -v sshd)" -D -f "$1/sshd_config" -p "$2" \
		-E "$1/log" </dev/null >/dev/null 2>&1 &
	pid=$!
	until grep -qs 'Server listening' "$1/log"; do
		kill -0 "$pid" 2>/dev/null || return
		sleep 0.02
	done
	echo "$pid" >"$1/pid"
	echo "$2" >"$1/port"
}

ssh_start() { # DIRECTORY
	local directory tries port

	mkdir -p "$1/home"
	directory=$(cd "$1" && pwd)
	ssh_make_keys "$directory" || return
	ssh_write_login "$directory"
	ssh_write_config "$directory"
	: >"$directory/commands"
	# Where it is root, sshd insists on this directory of the system's.
	[ "$(id -u)" -ne 0 ] || mkdir -p /run/sshd
	for tries in 1 2 3 4 5 6 7 8 9 10; do
		port=$((10000 + RANDOM % 1000)) # no site's: see free_port
		rm -f "$directory/log"
		ssh_try_port "$directory" "$port" || continue
		printf '[127.0.0.1]:%s %s\n' "$port" "$(cat "$directory/host_key.pub")" \
			>"$directory/known_hosts"
		return
	done
	cat "$directory/log"
	return 1
}

ssh_stop() { # DIRECTORY
	kill "$(cat "$1/pid")"
}

ssh_url() { # DIRECTORY PATH
	echo "ssh://$(id -un)@127.0.0.1:$(cat "$1/port")/${2#/}"
}
