#!/usr/bin/env bash
# The Debian package, as `make deb` builds it: what is in it, what lintian says, and what
# it does in a fresh Debian, from the installation to the purge. Takes root.

# It is no matter of sanitizers, and a system does not belong into memory.
export TMPDIR=/var/tmp SITE_TMPDIR=
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/fresh_root.sh"

build_package() {
	if [ -n "${PACKAGES-}" ]; then
		cp "$PACKAGES"/refrelay* "$SHARED"
	else
		"$TESTS/../tools/deb.sh" --as-it-stands "$SHARED" >/dev/null
	fi
	deb=("$SHARED"/refrelay_*_*.deb)
	[ "${#deb[@]}" = 1 ]
}

# The network makes the one, processors the other.
prepare() {
	[ "$(id -u)" = 0 ] || return 0
	make_fresh_root "$SHARED/root" >"$SHARED/root.log" 2>&1 &
	build_package
	wait $! || fail "$(tail -n 20 "$SHARED/root.log")"
	cp "${deb[0]}" "$SHARED/root/refrelay.deb"
}

needs_root() {
	[ "$(id -u)" = 0 ] || skip "only root installs packages"
	root=$SHARED/root
	deb=$(echo "$SHARED"/refrelay_*_*.deb)
}

lintian_is_content() {
	needs_root
	lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs \
		"$SHARED"/*.changes >said 2>&1 || fail "$(<said)"
}

# By another's hand: elsewhere, in another place of the world, and with other rights.
two_builds_are_equal() {
	local file

	needs_root
	mkdir -p a/longer/path again
	(umask 077 && TMPDIR=$PWD/a/longer/path TZ=Asia/Kolkata LC_ALL=C.UTF-8 LANGUAGE=de \
		"$TESTS/../tools/deb.sh" --as-it-stands "$PWD/again") >said 2>&1 || fail "$(<said)"
	for file in "$SHARED"/*.deb; do
		cmp "$file" "again/${file##*/}"
	done
	[ "$(ls again/*.deb | wc -l)" = 2 ]
}

all_is_in_it() {
	local file

	needs_root
	dpkg-deb --fsys-tarfile "$deb" | tar -t | sed 's,^\./,/,' >files
	for file in /usr/bin/refrelay /usr/libexec/refrelay/refrelay-run \
		/usr/libexec/refrelay/refrelay-hook /lib/systemd/system/refrelay.service \
		/usr/lib/sysusers.d/refrelay.conf /usr/share/man/man1/refrelay.1.gz \
		/usr/share/man/man1/refrelay-version.1.gz /usr/share/man/man5/refrelay.conf.5.gz \
		/usr/share/bash-completion/completions/refrelay \
		/usr/share/fish/vendor_completions.d/refrelay.fish \
		/usr/share/zsh/vendor-completions/_refrelay \
		/usr/share/doc/refrelay/examples/refrelay.conf; do
		grep -qx "$file" files || fail "$file is not in the package"
	done
	# Nothing is configured by it, and nothing of the build's places is in it.
	[ "$(grep '^/etc/.*[^/]$' files)" = '' ]
	dpkg-deb -x "$deb" tree
	fails grep -rla -e "$SHARED" -e /var/tmp/refrelay-deb tree
	"$TESTS/../tools/links.py" tree/usr/share/doc/refrelay
	# Hardened: no writable and executable memory, addresses at random, all bound at once.
	readelf -lW tree/usr/bin/refrelay >segments
	grep -q 'GNU_STACK.* RW ' segments
	grep -q GNU_RELRO segments
	readelf -dW tree/usr/bin/refrelay | grep -q 'Flags: NOW PIE'
}

the_unit_is_tight() {
	needs_root
	dpkg-deb -x "$deb" tree
	systemd-analyze security --offline=true --threshold=15 --no-pager \
		tree/lib/systemd/system/refrelay.service >said 2>&1 || fail "$(tail -n 3 said)"
}

installed() { # PACKAGE-FILE
	in_root "$root" apt-get -qq install -y "$1" >log 2>&1 || fail "$(tail -n 20 log)"
}

# Later versions of the same.
make_later() { # NUMBER
	rm -rf later
	dpkg-deb -R "$deb" later
	sed -i "s/^Version: .*/&+$1/" later/DEBIAN/control
	dpkg-deb -b --root-owner-group later "$root/later$1.deb" >/dev/null
}

modes_of() { # PATH...
	in_root "$root" stat -c '%n %U:%G %a' "$@"
}

# A unit that takes the package's place is named.
is_warned_of() { # UNIT
	mkdir -p "$root${1%/*}"
	echo '[Service]' >"$root$1"
	installed /refrelay.deb
	grep "systemd uses $1 instead" log
	rm "$root$1"
}

files_without_hooks() {
	in_root "$root" sh -c 'cd /srv && find . /etc/refrelay -path "*/hooks/*" -prune -o \
		-type f -print | sort | xargs sha256sum'
}

push_into() { # REPOSITORY
	in_root "$root" setpriv --reuid git --regid git --clear-groups env HOME=/srv/git sh -ec '
		git -C /var/tmp/work -c user.name=A -c user.email=a@example.com \
			commit -q --allow-empty -m last
		git -C /var/tmp/work push -q "$1" HEAD:main' sh "$1"
}

two_sites_follow() { # TEXT
	in_root "$root" bash /root_sites.sh "$london" "$paris" "$1" >said 2>&1 ||
		fail "$(tail -n 40 said "$root/tmp/london.log" "$root/tmp/paris.log")"
	grep -q 'in sync' said
	grep -q 'cloned from the copy' said
}

# Under a systemd of its own, where this kernel lets one run.
the_unit_works() {
	in_root "$root" apt-get -qq install -y --no-install-recommends systemd >log 2>&1 ||
		fail "$(tail -n 20 log)"
	if ! boot_root "$root" true; then
		echo "systemd does not run here" >>"$SHARED/skipped"
		return 0
	fi
	cp "$TESTS/lib/root_unit.sh" "$root/root_unit.sh"
	make_later 1
	boot_root "$root" bash /root_unit.sh >said 2>&1 || fail "$(<said)"
	cp said "$SHARED/unit"
}

the_unit_did() { # TEXT
	needs_root
	[ ! -e "$SHARED/skipped" ] || skip "$(<"$SHARED/skipped")"
	grep -qx "$1" "$SHARED/unit"
}

# One after the other, in one system.
from_installation_to_purge() {
	needs_root
	london=$(free_port) paris=$(free_port)
	cp "$TESTS/lib/root_sites.sh" "$root/root_sites.sh"

	installed /refrelay.deb
	fails grep 'systemd uses' log
	[ "$(in_root "$root" refrelay version)" = "refrelay $(dpkg-deb -f "$deb" Version)" ]
	diff <(modes_of /etc/refrelay /srv/git /srv/refrelay) - <<-'END'
		/etc/refrelay root:git 750
		/srv/git git:git 755
		/srv/refrelay git:git 700
	END
	two_sites_follow second

	the_unit_works

	# An upgrade, this time where nothing runs.
	make_later 2
	in_root "$root" chmod 0751 /etc/refrelay
	installed /later2.deb
	[ "$(in_root "$root" dpkg-query -W -f '${Version}' refrelay)" = \
		"$(dpkg-deb -f "$deb" Version)+2" ]
	[ "$(modes_of /etc/refrelay)" = '/etc/refrelay root:git 751' ]
	two_sites_follow third

	in_root "$root" cp -p /etc/refrelay/london.conf /etc/refrelay/refrelay.conf
	files_without_hooks >before
	in_root "$root" dpkg --remove refrelay >log 2>&1
	[ ! -e "$root/usr/bin/refrelay" ]
	grep '^remove hooks: 1 repository$' log
	in_root "$root" dpkg --purge refrelay >log 2>&1
	files_without_hooks >after
	grep -q paris.secret before
	grep -q git/app.git before
	diff before after
	push_into /srv/git/app.git
	in_root "$root" getent passwd git >/dev/null
	is_removed_all_the_same
	is_installed_beside_a_user
	is_installed_again
}

# Where the hooks cannot be, which is said.
is_removed_all_the_same() {
	echo '[site' >"$root/etc/refrelay/refrelay.conf"
	installed /refrelay.deb
	in_root "$root" dpkg --remove refrelay >log 2>&1
	[ ! -e "$root/usr/bin/refrelay" ]
	grep 'refuses every push.* still has them' <(tr '\n' ' ' <log)
}

# That of a Git server, which has no group of its name.
is_installed_beside_a_user() {
	in_root "$root" userdel git
	fails in_root "$root" getent group git
	in_root "$root" adduser --system --quiet --no-create-home git
	[ "$(in_root "$root" id -gn git)" = nogroup ]
	rm -r "$root/srv/git" "$root/srv/refrelay" "$root/etc/refrelay"
	installed /refrelay.deb
	diff <(modes_of /etc/refrelay /srv/git /srv/refrelay) - <<-'END'
		/etc/refrelay root:git 750
		/srv/git git:git 755
		/srv/refrelay git:git 700
	END
	# The user may look at what is for the group.
	in_root "$root" setpriv --reuid git --regid nogroup --init-groups ls /etc/refrelay
}

# Without a configuration, so that dpkg removes its directory and makes it anew.
is_installed_again() {
	in_root "$root" dpkg --remove refrelay >log 2>&1
	[ ! -e "$root/etc/refrelay" ]
	is_warned_of /etc/systemd/system/refrelay.service
	[ "$(modes_of /etc/refrelay)" = '/etc/refrelay root:git 750' ]
	in_root "$root" dpkg --remove refrelay >log 2>&1
	is_warned_of /usr/local/lib/systemd/system/refrelay.service
}

tap_set_up prepare
tap_test 'lintian has nothing to say' lintian_is_content
tap_test 'two builds are equal, byte for byte' two_builds_are_equal
tap_test 'all is in it, hardened, and no configuration' all_is_in_it
tap_test 'the unit is tight' the_unit_is_tight
tap_test 'it works from the installation to the purge, and leaves data alone' \
	from_installation_to_purge
tap_test 'the unit starts when it is configured, and not before' \
	the_unit_did 'waits for its configuration'
tap_test 'the node sees no other processes' the_unit_did 'sees no other processes'
tap_test 'it takes pushes, with hooks' the_unit_did 'takes pushes'
tap_test 'it takes pushes to shared repositories' \
	the_unit_did 'takes pushes to shared repositories'
tap_test 'it outlives its children' the_unit_did 'outlives its children'
tap_test 'it lowers the priority of its children' \
	the_unit_did 'lowers the priority of its children'
tap_test 'it confines them' the_unit_did 'confines them'
tap_test 'it reloads and stops' the_unit_did 'reloads and stops'
tap_test 'its lines have their priority in the journal, in each format' \
	the_unit_did 'logs with priorities'
tap_test 'an upgrade starts it again' the_unit_did 'is started again by an upgrade'
tap_done
