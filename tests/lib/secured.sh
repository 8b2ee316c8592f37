# For the tests of docs/security.md. Needs tap.sh, sites.sh, two_sites.sh and pushed.sh.
#
#	make_users FILE USER...		passwords are "correct horse"
#	asked SITE PATH [CURL-OPTION...]	the status; the body is in ./answer
#	reads, pushes CREDENTIAL SITE REPOSITORY	what is said to who begins to
#	orders CREDENTIAL SITE		... to who asks by the API for what an operator may
#	site_token KEY VALUE [SECONDS]	a token of paris: KEY is git or req
#
# A CREDENTIAL is -, token:NAME (./NAME.token), user:NAME, or jwt:TOKEN.

make_users() { # FILE USER...
	local file=$1 user

	shift
	for user; do
		echo "$user:\$2b\$04\$abcdefghijklmnopqrstuujydOTSfIH/d5oUHpsygqV5X9xJLQc6e"
	done >"$file"
}

asked() { # SITE PATH [CURL-OPTION...]
	local site=$1 path=$2

	shift 2
	curl -sk -m 30 -o answer -D head -w '%{http_code}\n' "$@" "$(site_url "$site")$path"
}

as() { # CREDENTIAL SITE PATH [CURL-OPTION...]
	local credential=$1

	shift
	case $credential in
	-) asked "$@" ;;
	token:*) asked "$@" -H "Authorization: Bearer $(cat "$SHARED/${credential#*:}.token")" ;;
	user:*) asked "$@" -u "${credential#*:}:correct horse" ;;
	wrong:*) asked "$@" -u "${credential#*:}:incorrect horse" ;;
	jwt:*) asked "$@" -H "Authorization: Bearer ${credential#*:}" ;;
	esac
}

reads() { # CREDENTIAL SITE REPOSITORY
	as "$1" "$2" "/$3.git/info/refs?service=git-upload-pack"
}

pushes() { # CREDENTIAL SITE REPOSITORY
	as "$1" "$2" "/$3.git/info/refs?service=git-receive-pack"
}

reads_api() { # CREDENTIAL SITE
	as "$1" "$2" /api/v1/status
}

orders() { # CREDENTIAL SITE
	as "$1" "$2" /api/v1/events -d '{"name":"team/t"}'
}

is() { # STATUS COMMAND...
	local wanted=$1 got

	shift
	got=$("$@")
	[ "$got" = "$wanted" ] || fail "$got instead of $wanted: $* $(cat answer)"
}

# For git, without a trace in its arguments.
git_as() { # CREDENTIAL GIT-ARGUMENT...
	local credential=$1 text

	shift
	case $credential in
	token:*) text="any:$(cat "$SHARED/${credential#*:}.token")" ;;
	user:*) text="${credential#*:}:correct horse" ;;
	esac
	GIT_TERMINAL_PROMPT=0 GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=http.extraHeader \
		GIT_CONFIG_VALUE_0="Authorization: Basic $(printf %s "$text" | base64 -w 0)" \
		git "$@"
}

site_token() { # KEY VALUE [SECONDS]
	python3 - "$@" <<-'END'
		import base64, hashlib, hmac, json, os, sys, time
		def text(data):
		    return base64.urlsafe_b64encode(data).rstrip(b"=")
		now = int(time.time())
		claims = {"iss": "paris", "iat": now - 60, sys.argv[1]: sys.argv[2]}
		claims["exp"] = now + int(sys.argv[3] if len(sys.argv) > 3 else 600)
		if sys.argv[1] == "req":
		    body = os.environ.get("BODY", "").encode()
		    claims.update(iat=now, exp=now + 60, jti=os.urandom(16).hex(),
		                  body=hashlib.sha256(body).hexdigest())
		signed = text(b'{"alg":"HS256","typ":"JWT"}') + b"." + text(json.dumps(claims).encode())
		secret = open(os.environ["SHARED"] + "/secret", "rb").read().strip()
		print((signed + b"." + text(hmac.new(secret, signed, hashlib.sha256).digest())).decode())
	END
}

# New settings count.
reload() { # SITE
	local before
	before=$(logged "$1" node.reloaded) || true
	kill -HUP "$(site_pid "$1")"
	wait_until 10 reloaded_again "$1" "$before"
}

reloaded_again() { # SITE BEFORE
	[ "$(logged "$1" node.reloaded)" -gt "$2" ]
}

# A hook of the repository writes down who pushes, and the arguments of this test's processes:
# what other tests start may well say a password.
write_down() { # REPOSITORY-PATH
	cat >"$1/hooks/pre-receive" <<-HOOK
		#!/bin/sh
		echo "user=\$REMOTE_USER addr=\$REMOTE_ADDR uid=\$(id -u)" >>who
		ps -eo pid=,ppid=,args= | awk '{ parent[\$1] = \$2; args[\$1] = \$0 }
			END { for (id in args) {
				for (at = id; at in parent && at != $PPID;)
					at = parent[at]
				if (at == $PPID)
					print args[id]
			} }' >seen
	HOOK
	chmod +x "$1/hooks/pre-receive"
}

# One commit on REF of a repository, pushed there.
push_one() { # CREDENTIAL URL [GIT-OPTION...]
	local credential=$1 url=$2 commit

	shift 2
	[ -d work.git ] || git init -q --bare work.git
	commit=$(git -C work.git commit-tree -m "$RANDOM$RANDOM" \
		"$(git -C work.git mktree </dev/null)")
	git_as "$credential" "$@" -C work.git push -q "$url" "$commit:refs/heads/by-$RANDOM$RANDOM"
}
