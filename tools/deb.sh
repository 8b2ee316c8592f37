#!/usr/bin/env bash
# usage: tools/deb.sh [--as-it-stands] [DIRECTORY]     what `make deb` runs; DIRECTORY: build
#
# Builds the Debian package from a clean copy of the tree: of what is committed, or, where
# there is no Git, of all that stands there; with --as-it-stands of what is not committed,
# too. packaging/debian/ becomes debian/ in it. The package, and that of its debug symbols,
# go to DIRECTORY.
#
# Two builds of one commit are equal, wherever they run: dpkg-buildpackage takes the time
# from debian/changelog, and no directory of the build gets into a program.
set -euo pipefail
cd "$(dirname "$0")/.."

umask 022 # it would get into the package
as_it_stands=
[ "${1-}" != --as-it-stands ] || { as_it_stands=1 && shift; }
target=$(realpath -m "${1:-build}")
work=$(mktemp -d "${TMPDIR:-/tmp}/refrelay-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
tree=$work/refrelay

copy_tree() {
	mkdir "$tree"
	if [ "$(git rev-parse --show-toplevel 2>/dev/null)" != "$PWD" ]; then
		tar -c --exclude='./build*' . | tar -x -C "$tree"
	elif [ -n "$as_it_stands" ]; then
		git ls-files -z --cached --others --exclude-standard |
			xargs -0 ls -d 2>/dev/null | tar -c -T - | tar -x -C "$tree"
	else
		git archive --format=tar HEAD | tar -x -C "$tree"
		git diff --quiet HEAD -- ||
			echo "Changes that are not committed are left out of the package." >&2
	fi
	cp -a "$tree/packaging/debian" "$tree/debian"
}

check_versions() {
	local of_package of_program

	of_package=$(cd "$tree" && dpkg-parsechangelog --show-field Version)
	of_program=$(sed -n "s/^project(.*version: '\([^']*\)'.*/\1/p" "$tree/meson.build")
	[ "$of_package" = "$of_program" ] && return
	echo "packaging/debian/changelog is of $of_package, meson.build of $of_program." >&2
	return 1
}

# The locale would get into the package; flags for other builds are not meant for it.
build_package() {
	unset CFLAGS CPPFLAGS LDFLAGS SOURCE_DATE_EPOCH MAKEFLAGS MFLAGS MAKELEVEL DESTDIR
	(cd "$tree" && LC_ALL=C.UTF-8 dpkg-buildpackage --build=binary -us -uc) \
		>"$work/log" 2>&1 && return
	tail -n 40 "$work/log" >&2
	return 1
}

copy_tree
check_versions
build_package
mkdir -p "$target"
rm -f "$target"/refrelay*.deb "$target"/refrelay*.changes "$target"/refrelay*.buildinfo
cp "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$target"
ls "$target"/refrelay*.deb
