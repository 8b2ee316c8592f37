#!/bin/bash
# The installed unit, under systemd: run as root in a fresh Debian that has sites
# (root_sites.sh). Prints what was proved, a line each.
set -euo pipefail

be_git() {
	setpriv --reuid git --regid git --clear-groups env HOME=/srv/git "$@"
}

fail() {
	echo "$*"
	journalctl --no-pager -u refrelay | tail -n 20
	systemctl status --no-pager refrelay | head -n 12
	exit 1
}

wait_until() { # COMMAND...
	local tries
	for ((tries = 0; tries < 600; tries++)); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.1
	done
	fail "not within a minute: $*"
}

# Field N of /proc/PID/stat, counted behind the name.
field() { # PID N
	local text
	text=$(<"/proc/$1/stat")
	read -ra words <<<"${text##*) }"
	echo "${words[$2 - 3]}"
}

status_line() { # PID NAME
	sed -n "s/^$2:[[:space:]]*//p" "/proc/$1/status"
}

# An upload-pack that works for a reader who does not read.
find_reader() {
	local pid

	for pid in $(cat "/sys/fs/cgroup${systemd_cgroup}$(systemctl show -p ControlGroup --value refrelay)/cgroup.procs"); do
		grep -qz '^upload-pack$' "/proc/$pid/cmdline" 2>/dev/null &&
			[ "$(<"/proc/$pid/comm")" = git ] && reader=$pid && return
	done
	return 1
}

systemd_cgroup=
[ ! -d /sys/fs/cgroup/systemd ] || systemd_cgroup=/systemd
port=$(git config --file /etc/refrelay/london.conf http.listen)
port=${port##*:}

# Not before it is configured.
systemctl start refrelay
! systemctl --quiet is-active refrelay || fail "it runs without a configuration"
echo "waits for its configuration"

openssl rand -hex 32 | install -o git -m 0600 /dev/stdin /etc/refrelay/ci.token
sed '$r /dev/stdin' /etc/refrelay/london.conf >/etc/refrelay/refrelay.conf <<-END
	[token "ci"]
		file = /etc/refrelay/ci.token
		rights = push
END
systemctl start refrelay || fail "it does not start"
node=$(systemctl show -p MainPID --value refrelay)
[ "$(stat -c %U "/proc/$node")" = git ] || [ "$(status_line "$node" Uid | cut -f 1)" = "$(id -u git)" ]
echo "runs"

# It sees nothing of /proc but its own processes, and yet knows this boot by its name.
[ ! -e "/proc/$node/root/proc/sys" ] || fail "it sees /proc/sys"
! nsenter --target "$node" --mount setpriv --reuid git --regid git --clear-groups \
	test -e /proc/1 || fail "it sees others' processes"
tr '\0' '\n' <"/proc/$node/environ" >/tmp/environment
grep -qx "REFRELAY_BOOT_ID=$(tr -d - </proc/sys/kernel/random/boot_id)" /tmp/environment ||
	fail "it does not hear which boot this is"
echo "sees no other processes"

# Pushes run hooks inside, over HTTP.
be_git git -C /var/tmp/work -c user.name=A -c user.email=a@example.com \
	commit -q --allow-empty -m "by HTTP"
head -c 30000000 /dev/urandom | be_git tee /var/tmp/work/large >/dev/null
be_git git -C /var/tmp/work add large
be_git git -C /var/tmp/work -c user.name=A -c user.email=a@example.com commit -q -m large
be_git git -C /var/tmp/work push -q \
	"http://ci:$(</etc/refrelay/ci.token)@127.0.0.1:$port/app.git" HEAD:main ||
	fail "a push by HTTP fails"
wait_until sh -c "setpriv --reuid git --regid git --clear-groups refrelay events | tail -n 1 | grep -q app"
[ "$(be_git git -C /srv/git/app.git rev-parse main)" = "$(be_git git -C /var/tmp/work rev-parse HEAD)" ]
echo "takes pushes"

# Git makes new directories of a shared repository setgid.
be_git git -C /srv/git/app.git config core.sharedRepository group
be_git git -C /var/tmp/work -c user.name=A -c user.email=a@example.com \
	commit -q --allow-empty -m shared
be_git git -C /var/tmp/work push -q \
	"http://ci:$(</etc/refrelay/ci.token)@127.0.0.1:$port/app.git" HEAD:refs/heads/new/shared ||
	fail "a push to a shared repository fails"
[ -g /srv/git/app.git/refs/heads/new ] || fail "its new directories are not setgid"
be_git git -C /srv/git/app.git config --unset core.sharedRepository
echo "takes pushes to shared repositories"

# A child that the kernel kills for its memory must not end the node.
[ "$(systemctl show -p OOMPolicy --value refrelay)" = continue ] ||
	fail "it stops when one of its children is killed"
echo "outlives its children"

# A database of millions of rows that is brought up to date.
[ "$(systemctl show -p TimeoutStartUSec --value refrelay)" = infinity ] ||
	fail "its start is cut off"
echo "takes its time to start"

# Children that answer readers have a lower priority, are confined once more, and work.
want=$(be_git git -C /srv/git/app.git rev-parse main)
body=$(printf '0011command=fetch0016object-format=sha10001%04xwant %s\n0009done\n0000' $((10 + ${#want})) "$want"; echo .)
body=${body%.}

ask() { # on descriptor 5
	exec 5<>"/dev/tcp/127.0.0.1/$port"
	printf '%s\r\n' 'POST /app.git/git-upload-pack HTTP/1.1' "Host: 127.0.0.1:$port" \
		'Connection: close' 'Git-Protocol: version=2' \
		'Content-Type: application/x-git-upload-pack-request' \
		"Content-Length: ${#body}" '' >&5
	printf %s "$body" >&5
}

has_left() {
	! find_reader
}

# The kernel takes only ten changes of a session's niceness a second, of all processes of the
# machine together, and other tests make many: a reader may have had none.
for ((readers = 0; ; readers++)); do
	ask
	wait_until find_reader
	[ "$(field "$reader" 19)" = $(($(field "$node" 19) + 5)) ] ||
		fail "its niceness is $(field "$reader" 19)"
	[ "$(field "$reader" 41)" = 3 ] ||
		fail "its policy is $(field "$reader" 41), not SCHED_BATCH"
	[ -e "/proc/$reader/autogroup" ] && ! grep -q 'nice 5$' "/proc/$reader/autogroup" || break
	[ "$readers" -lt 30 ] ||
		fail "its session is not nice: $(<"/proc/$reader/autogroup")"
	exec 5>&-
	wait_until has_left
done
echo "lowers the priority of its children"
[ "$(status_line "$reader" Seccomp_filters)" -gt "$(status_line "$node" Seccomp_filters)" ] ||
	fail "the child has no filter of its own"
exec 5>&-
be_git git clone -q "http://127.0.0.1:$port/app.git" /tmp/unit-clone
rm -r /tmp/unit-clone

# What runs in git's place reads the repository, and not what its user may read besides.
install -d /opt/probe /etc/systemd/system/refrelay.service.d
cat >/opt/probe/git <<-'END'
	#!/bin/sh
	case "$*" in *upload-pack*) ;; *) exec /usr/bin/git "$@" ;; esac
	cat >/dev/null
	for file in HEAD /etc/refrelay/ci.token /etc/passwd; do
		if cat "$file" >/dev/null 2>&1; then echo "reads $file"; else echo "not $file"; fi
	done
	if ls /srv/refrelay >/dev/null 2>&1; then echo "reads /srv"; else echo "not /srv"; fi
	echo .
END
chmod 0755 /opt/probe/git
printf '[Service]\nEnvironment=PATH=/opt/probe:/usr/bin:/bin\n' \
	>/etc/systemd/system/refrelay.service.d/probe.conf
systemctl daemon-reload
systemctl restart refrelay
ask
tr -d '\r' <&5 >/tmp/answer
exec 5>&-
grep -q '^reads HEAD$' /tmp/answer || fail "nothing ran in git's place: $(</tmp/answer)"
refrelay version --json >/tmp/version
if grep -q '"landlock":true' /tmp/version; then
	! grep '^reads /' /tmp/answer || fail "it reads more than the repository"
	[ "$(grep -c '^not /' /tmp/answer)" = 3 ]
	be_git refrelay check >/tmp/check || true
	grep -q '^ok *confinement' /tmp/check || fail "$(</tmp/check)"
else
	echo "the kernel has no Landlock"
fi
rm -r /opt/probe /etc/systemd/system/refrelay.service.d
systemctl daemon-reload
systemctl restart refrelay
node=$(systemctl show -p MainPID --value refrelay)
echo "confines them"

has_line() { # PRIORITY BEGINNING PATTERN
	journalctl --no-pager -u refrelay _PID="$node" -p "$1..$1" -o cat >/tmp/lines
	grep "$3" /tmp/lines | grep -q "^$2"
}

# A change is announced as 6, a wrong configuration as 3; without the mark that says so.
cp /etc/refrelay/refrelay.conf /tmp/right.conf
for format in text json journald; do
	case $format in
	text) begins=ts= ;;
	json) begins='{"ts":' ;;
	journald) begins=node. ;;
	esac
	sed '$r /dev/stdin' /tmp/right.conf >/etc/refrelay/refrelay.conf <<-END
		[log]
			format = $format
	END
	systemctl reload refrelay
	wait_until has_line 6 "$begins" node.reloaded
	echo "	wrong-for-$format = 1" >>/etc/refrelay/refrelay.conf
	systemctl reload refrelay
	wait_until has_line 3 "$begins" "node.reload_failed.*wrong-for-$format"
	! has_line 6 '' node.reload_failed || fail "an error has the priority of a change"
done
cp /tmp/right.conf /etc/refrelay/refrelay.conf
echo "logs with priorities"

# policy-rc.d of this system keeps packages from starting anything.
rm /usr/sbin/policy-rc.d
dpkg -i /later1.deb >/tmp/upgrade.log 2>&1 || fail "$(tail -n 5 /tmp/upgrade.log)"
[ "$(systemctl show -p MainPID --value refrelay)" != "$node" ] || fail "the old program runs on"
node=$(systemctl show -p MainPID --value refrelay)
systemctl --quiet is-active refrelay || fail "it does not run after the upgrade"
[ "/proc/$node/exe" -ef /usr/bin/refrelay ] || fail "another program runs"
be_git git ls-remote -q "http://127.0.0.1:$port/app.git" >/dev/null
echo "is started again by an upgrade"

systemctl stop refrelay
[ "$(systemctl show -p Result --value refrelay)" = success ]
echo "reloads and stops"
rm /etc/refrelay/refrelay.conf
