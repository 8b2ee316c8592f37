# Data directories of an earlier version (tests/data), as they were, at the places where
# they were made: below /mnt, in a mount namespace of the script's own. Needs tap.sh, sites.sh,
# two_sites.sh, push.sh.
#
#	be_apart "$0"			at the script's begin, before tap.sh
#	unpack VERSION SITE...		at their places, with ports that are free
#	stay_in_place SITE		its files count as the ones that were there before
#
# Without leave to make such a namespace the tests are skipped.

earlier_data=$(realpath "${BASH_SOURCE[0]%/*}/../data")

be_apart() { # SCRIPT
	local ways=('--mount' '--user --map-root-user --mount') way

	[ -z "${EARLIER_APART-}" ] || return 0
	for way in "${ways[@]}"; do
		# shellcheck disable=SC2086
		unshare $way --propagation private true 2>/dev/null || continue
		# shellcheck disable=SC2086
		EARLIER_APART=1 exec unshare $way --propagation private bash "$1"
	done
	EARLIER_APART=
}

# The directory of the test becomes /mnt, and stays what it is.
unpack() { # VERSION SITE...
	local version=$1 site

	[ -n "${EARLIER_APART-}" ] || skip "a mount namespace cannot be made here"
	shift
	umount -l /mnt 2>/dev/null || true # of the test before
	mount --bind "$PWD" /mnt
	cd /mnt
	mkdir bin
	# Where that version had it, so that the hooks of repositories lead to ours.
	cp "$REFRELAY_HOOK" bin/refrelay-hook
	export REFRELAY_HOOK=/mnt/bin/refrelay-hook
	cp "$earlier_data/$version/secret" "$earlier_data/$version/dev.token" .
	chmod 600 secret dev.token
	for site; do
		tar -xzf "$earlier_data/$version/$site.tar.gz" --no-same-owner --same-permissions
	done
}

# Where the program compares the identity of a file or directory with a known one, an
# unpacked copy would be another one. The write-ahead log stays.
stay_in_place() { # SITE
	local data root
	data=$(git config --file "$1/refrelay.conf" site.data)
	root=$(git config --file "$1/refrelay.conf" site.repositories)
	python3 - "$data/refrelay.db" "$root" "$1" <<-'END'
		import os, sqlite3, subprocess, sys
		database, root, site = sys.argv[1:]
		def identity(path):
		    inode, second, birth, major, minor = subprocess.run(
		        ["stat", "-c", "%i|%W|%w|%Hd|%Ld", path], check=True, text=True,
		        stdout=subprocess.PIPE).stdout.strip().split("|")
		    if birth == "-":
		        return f"{inode} {int(major):x}:{int(minor):x}"
		    return f"{inode} {second}.{birth.split()[1].split('.')[1]}"
		db = sqlite3.connect(database)
		for (key,) in db.execute("SELECT key FROM site_value").fetchall():
		    place = database if key == "log.file" else None
		    if key.startswith(("origin.root", "copies.root")):
		        place = os.path.join(site, key.split(".")[2]) if key.count(".") == 2 else root
		    if place:
		        db.execute("UPDATE site_value SET value = ? WHERE key = ?",
		                   (identity(place), key))
		db.commit()
		os._exit(0)
	END
}
