# A fresh Debian in a directory, in which packages are installed and programs run. Takes
# root, and debootstrap.
#
#	make_fresh_root DIRECTORY	Debian's least system, of this machine's release and
#					mirror, which can install packages. Takes the network,
#					and half a minute
#	in_root DIRECTORY COMMAND...	there, with /proc and process numbers of its own: what
#					is left is killed when COMMAND ends
#	boot_root DIRECTORY COMMAND...	there, while its systemd runs as the first process. Its
#					root is moved, since in a changed one the kernel makes
#					no user namespaces. COMMAND has five minutes

fresh_root_release() {
	sed -n 's/^VERSION_CODENAME=//p' /etc/os-release
}

# Where this machine gets its own packages from.
fresh_root_mirror() {
	apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
		awk -v release="$(fresh_root_release)" '$2 == release { print $1; exit }'
}

in_root() { # DIRECTORY COMMAND...
	local root=$1
	shift
	# shellcheck disable=SC2016
	unshare --mount --pid --fork --kill-child sh -c '
		mount -t proc proc "$1/proc" || exit 125
		root=$1
		shift
		exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
			LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' sh "$root" "$@"
}

# All in namespaces of its own. cgroups are mounted as far as this kernel gives them.
boot_root() { # DIRECTORY COMMAND...
	local root=$1 booted tries
	shift
	printf '%q ' "$@" >"$root/booted.sh"
	rm -f "$root/booted.status"
	# shellcheck disable=SC2016
	unshare --mount --pid --fork --kill-child --uts --ipc --cgroup sh -ec '
		root=$1
		mount --bind "$root" "$root"
		mount -t proc proc "$root/proc"
		mount -t sysfs sysfs "$root/sys"
		mount -t tmpfs tmpfs "$root/run"
		if [ "$(stat -f -c %T /sys/fs/cgroup)" = cgroup2fs ]; then
			mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
		else
			mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
			mkdir "$root/sys/fs/cgroup/unified" "$root/sys/fs/cgroup/systemd"
			mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
			mount -t cgroup -o none,name=systemd systemd "$root/sys/fs/cgroup/systemd"
		fi
		mkdir -p "$root/old" "$root/dev/shm"
		cd "$root"
		pivot_root . old
		(
			export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
			until systemctl is-system-running >/run/state 2>/dev/null ||
				grep -q -e degraded -e running /run/state; do
				sleep 0.1
			done
			status=0
			bash /booted.sh >/booted.log 2>&1 || status=$?
			echo "$status" >/booted.end
			mv /booted.end /booted.status
		) &
		umount -l /old
		exec env -i container=refrelay-test /lib/systemd/systemd --log-target=null \
			--show-status=0' sh "$root" >/dev/null 2>&1 </dev/null &
	booted=$!
	for ((tries = 0; tries < 3000; tries++)); do
		kill -0 "$booted" 2>/dev/null && [ ! -e "$root/booted.status" ] || break
		sleep 0.1
	done
	kill -KILL "$booted" 2>/dev/null
	wait "$booted" 2>/dev/null
	[ -e "$root/booted.status" ] || return
	cat "$root/booted.log"
	return "$(<"$root/booted.status")"
}

# Clocks of test machines may be far from the mirror's; nothing there needs a disk's care.
fresh_root_settings() { # DIRECTORY
	cat >"$1/etc/apt/apt.conf.d/90tests" <<-END
		Acquire::Check-Valid-Until "false";
		Acquire::Check-Date "false";
		Acquire::Languages "none";
		APT::Sandbox::User "root";
	END
	echo force-unsafe-io >"$1/etc/dpkg/dpkg.cfg.d/tests"
	printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
	chmod +x "$1/usr/sbin/policy-rc.d"
}

make_fresh_root() { # DIRECTORY
	debootstrap --variant=minbase "$(fresh_root_release)" "$1" "$(fresh_root_mirror)" &&
		fresh_root_settings "$1" &&
		cp /etc/resolv.conf "$1/etc/resolv.conf" &&
		in_root "$1" apt-get -qq update
}
