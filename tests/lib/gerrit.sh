# Nodes that push by what a Gerrit site has, ./gerrit/etc/replication.config, and servers
# of Git that they push to. After push.sh.
#
#	make_gerrit_node NODE [KEY VALUE]...   as make_node, but its remotes are Gerrit's
#	gerrit_remote NAME [KEY VALUE]...      one more; to ./NAME/${name}.git, as add_remote
#	gerrit_conf KEY VALUE                  one more value in Gerrit's file
#	secure_conf KEY VALUE                  likewise in secure.config
#	start_ready NODE [VAR=VALUE...]        serves, and has looked at all repositories
#	reload NODE [EVENT]                    sends it SIGHUP; EVENT: not node.reloaded
#	start_git_daemon DIRECTORY             by which one may push; its port: DIRECTORY/port
#	start_git_http DIRECTORY LOGIN         likewise, for user:password
#	make_ssh_home [KEY VALUE]...           ./home with a remote by ssh, to ./far/home;
#	                                       after ssh.sh
#	failure_is CODE                        of the first in home's queue
#	same_refs REPOSITORY REPOSITORY        all of them are equal
#	queue_is NODE VALUE EXPRESSION         a python expression of q, the queue as JSON

git_http_program=$(realpath "${BASH_SOURCE[0]%/*}/../peers/git_http.py")

make_gerrit_node() { # NODE [KEY VALUE]...
	mkdir -p gerrit/etc
	make_node "$@"
	set_conf "$1" replication.config "$PWD/gerrit/etc/replication.config"
}

gerrit_conf() { # KEY VALUE
	git config --file gerrit/etc/replication.config --add "$1" "$2"
}

secure_conf() { # KEY VALUE
	(umask 077 && git config --file gerrit/etc/secure.config --add "$1" "$2")
}

gerrit_remote() { # NAME [KEY VALUE]...
	local name=$1
	shift
	case " $* " in
	*' url '*) ;;
	*) mkdir -p "$name" && gerrit_conf "remote.$name.url" "$PWD/$name/\${name}.git" ;;
	esac
	case " $* " in
	*' replicationDelay '*) ;;
	*) gerrit_conf "remote.$name.replicationDelay" 0 ;;
	esac
	while [ "$#" -gt 0 ]; do
		gerrit_conf "remote.$name.$1" "$2"
		shift 2
	done
}

is_ready() { # NODE
	curl -fsS -m 5 -o /dev/null "$(site_url "$1")/readyz"
}

start_ready() { # NODE [VAR=VALUE...]
	start_site "$@"
	wait_until 20 is_ready "$1"
}

logged_more() { # NODE EVENT COUNT
	[ "$(logged "$1" "$2")" -gt "$3" ]
}

reload() { # NODE [EVENT]
	local event=${2:-node.reloaded} before
	before=$(logged "$1" "$event") || true
	kill -HUP "$(site_pid "$1")"
	wait_until 20 logged_more "$1" "$event" "$before"
}

is_listening() { # PORT
	: 2>/dev/null <"/dev/tcp/127.0.0.1/$1"
}

start_git_daemon() { # DIRECTORY
	local port
	mkdir -p "$1"
	port=$(free_port)
	git daemon --reuseaddr --listen=127.0.0.1 --port="$port" --base-path="$PWD/$1" \
		--export-all --enable=receive-pack "$PWD/$1" 2>"$1/daemon.log" &
	echo "$port" >"$1/port"
	wait_until 20 is_listening "$port"
}

start_git_http() { # DIRECTORY LOGIN
	mkdir -p "$1"
	(umask 077 && echo "$2" >"$1/login")
	python3 "$git_http_program" "$PWD/$1" &
	wait_until 20 test -e "$1/port"
}

same_refs() { # REPOSITORY REPOSITORY
	diff <(git -C "$1" for-each-ref) <(git -C "$2" for-each-ref)
}

queue_is() { # NODE VALUE EXPRESSION
	local value
	value=$(at "$1" push queue --json | python3 -c '
import json, sys
q = json.load(sys.stdin)
print(eval(sys.argv[1]))' "$3") && [ "$value" = "$2" ] && return
	echo "$3 is $value, not $2"
	return 1
}

make_ssh_home() { # [KEY VALUE]... of the remote
	make_gerrit_node home
	ssh_start far
	gerrit_remote far url "$(ssh_url far "$PWD/far/home")/\${name}.git" \
		replicationRetry 60 "$@"
	set_conf home remote.far.sshKey "$PWD/far/user_key"
	set_conf home remote.far.sshKnownHosts "$PWD/far/known_hosts"
}

failure_is() { # CODE
	queue_is home "$1" 'q["queue"][0]["failure"]["code"] if q["queue"] else "none"'
}
