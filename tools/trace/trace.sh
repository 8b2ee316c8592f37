#!/bin/bash
# Through how many functions and files does a push go, a hot info/refs, a blob? Two sites
# of a build with -finstrument-functions are started, each flow is recorded alone, and
# counted beside the noise of two seconds without any. LIST=1 names the files.
#
#	tools/trace/trace.sh

set -eu
cd "${0%/*}/../.."
here=$PWD
build=$here/build-trace
entered() { python3 "$here/tools/trace/entered.py" "$@"; }

mkdir -p "$build"
cc -O2 -g -c -o "$build/entered.o" tools/trace/entered.c
[ -f "$build/build.ninja" ] ||
	meson setup "$build" -Dtests=enabled -Doptimization=1 \
		-Dc_args=-finstrument-functions -Dc_link_args="$build/entered.o" >/dev/null
ninja -C "$build" refrelay refrelay-hook refrelay-run tests/site_help >/dev/null
export SITE_HELP=$build/tests/site_help REFRELAY=$build/refrelay REFRELAY_RUN=$build/refrelay-run \
	REFRELAY_HOOK=$build/refrelay-hook BUILD=$build LC_ALL=C

work=$(mktemp -d)
# shellcheck disable=SC1091
{
	. tests/lib/tap.sh
	. tests/lib/sites.sh
	. tests/lib/two_sites.sh
}
trap 'stop_site paris; stop_site london; rm -rf "$work" "$tap_root"' EXIT
cd "$work"
mkdir home traces backup
export HOME=$PWD/home GIT_CONFIG_NOSYSTEM=1
git config --global user.name Somebody
git config --global user.email somebody@example.com
git config --global safe.directory '*'

make_sites
for site in london paris; do
	mkdir -p "$site/blobs"
	set_conf "$site" sync.scanInterval 1h
	set_conf "$site" sync.consistencyInterval 1h
	set_conf "$site" blob.uploads.path "$PWD/$site/blobs"
	entered make "traces/$site"
done
git config --file london/refrelay.conf remote.backup.url "$PWD/backup/\${name}.git"
git config --file london/refrelay.conf remote.backup.push '+refs/*:refs/*'
git config --file london/refrelay.conf remote.backup.replicationDelay 0s
make_repository london/git/app.git 20
echo one >london/blobs/one
for site in london paris; do
	start_site "$site" ENTERED="$PWD/traces/$site"
done
at london hooks install >/dev/null
wait_until 30 in_sync
at london push start --all --wait >/dev/null
git clone -q london/git/app.git checkout
url=$(site_url london)/app.git/info/refs?service=git-upload-pack

# FLOW COMMAND...: what both sites entered meanwhile
record() {
	local flow=$1 site

	shift
	for site in london paris; do entered on "traces/$site"; done
	"$@"
	for site in london paris; do
		entered off "traces/$site"
		entered take "traces/$site" "traces/$flow-$site"
	done
}
push() {
	git -C checkout commit -q --allow-empty -m more
	git -C checkout push -q origin HEAD:main
	wait_until 20 in_sync
	sleep 2
}
info_refs() {
	curl -sS --fail -o refs "$url"
	sleep 0.5
}
add_blob() {
	echo two >london/blobs/two
	wait_until 20 test -f paris/blobs/two
	sleep 2
}

sleep 3
record idle sleep 2
record push push
sleep 2
git -C london/git/app.git update-ref refs/heads/more main
sleep 4
record cold info_refs
record hot info_refs
record blob add_blob
entered show "$REFRELAY" "nothing, primary"=traces/idle-london \
	"nothing, secondary"=traces/idle-paris "push, primary"=traces/push-london \
	"push, secondary"=traces/push-paris "info/refs cold"=traces/cold-london \
	"info/refs hot"=traces/hot-london "blob, primary"=traces/blob-london \
	"blob, secondary"=traces/blob-paris
