#!/bin/bash
# Two sites in a fresh Debian, by the steps of docs/operations.md: run as root there, with
# the ports of london and paris. Prints what was proved, a line each.
set -euo pipefail

be_git() {
	setpriv --reuid git --regid git --clear-groups env HOME=/srv/git "$@"
}

at() { # SITE COMMAND...
	local site=$1
	shift
	be_git refrelay -c "/etc/refrelay/$site.conf" "$@"
}

configure() { # LONDON-PORT PARIS-PORT
	openssl rand -hex 32 | install -o git -m 0600 /dev/stdin /etc/refrelay/paris.secret
	install -d -o git -g git -m 0755 /srv/paris-git
	install -d -o git -g git -m 0700 /srv/paris
	cat >/etc/refrelay/london.conf <<-END
		[site]
			name = london
			role = primary
			repositories = /srv/git
			data = /srv/refrelay
		[http]
			listen = 127.0.0.1:$1
			anonymousRead = true
		[secondary "paris"]
			secretFile = /etc/refrelay/paris.secret
	END
	cat >/etc/refrelay/paris.conf <<-END
		[site]
			name = paris
			role = secondary
			repositories = /srv/paris-git
			data = /srv/paris
		[http]
			listen = 127.0.0.1:$2
			anonymousRead = true
		[primary]
			url = http://127.0.0.1:$1/
			secretFile = /etc/refrelay/paris.secret
	END
}

make_repository() {
	be_git git init -q --bare -b main /srv/git/app.git
	be_git git clone -q /srv/git/app.git /var/tmp/work 2>/dev/null
	push_commit first
}

push_commit() { # TEXT
	be_git git -C /var/tmp/work -c user.name=A -c user.email=a@example.com \
		commit -q --allow-empty -m "$1"
	be_git git -C /var/tmp/work push -q origin HEAD:main
}

wait_until() { # COMMAND...
	local tries
	for ((tries = 0; tries < 1200; tries++)); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.1
	done
	echo "not within two minutes: $*"
	at paris status || true
	return 1
}

is_listening() { # PORT
	(exec 3<>"/dev/tcp/127.0.0.1/$1")
}

# The copy has the commit, and the secondary proves it.
is_equal() {
	[ "$(be_git git -C /srv/git/app.git rev-parse main)" = \
		"$(be_git git -C /srv/paris-git/app.git rev-parse main)" ] &&
		at paris status | head -n 1 | grep -q '^in sync, verified'
}

if [ ! -e /etc/refrelay/london.conf ]; then
	configure "$1" "$2"
	make_repository
fi
at london serve >/tmp/london.log 2>&1 &
wait_until is_listening "$1"
at london hooks install --all >/dev/null
at paris serve >/tmp/paris.log 2>&1 &
wait_until is_equal
echo "in sync"
at london check
at paris check
push_commit "${3-second}"
wait_until is_equal
echo "a push followed"
be_git git clone -q "http://127.0.0.1:$2/app.git" "/tmp/clone.$$"
be_git git -C "/tmp/clone.$$" fsck --strict 2>/dev/null
echo "cloned from the copy"
kill %1 %2
wait
