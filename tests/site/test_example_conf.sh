#!/usr/bin/env bash
# The configuration that people start from: as it is, and with its marks of comment away.
. "$(dirname "$0")/../lib/tap.sh"

example=$TESTS/../packaging/refrelay.conf.example

# What is commented out begins with "#" and no space: sections, settings.
uncommented() {
	sed -E 's/^(\t?)#(\[|\t?[A-Za-z]+ = )/\1\2/' "$example"
}

it_is_read_as_it_is() {
	expect 0 "$REFRELAY" -c "$example" config list
	grep -q '^site.role=primary$' out
}

all_that_it_offers_is_known() {
	local key
	uncommented >all.conf
	[ "$(grep -c '^\[blob "lfs"\]$' all.conf)" = 2 ] # for either site
	expect 0 "$REFRELAY" -c all.conf config list
	for key in 'blob.lfs.layout=lfs' 'blob.uploads.path=/srv/uploads' \
		'sync.blobCapacity=10' 'remote.mirror.threads=1'; do
		grep -qx "$key" out
	done
}

# Either site's half, with directories that there are.
each_half_passes_the_checks() {
	local half
	mkdir -p srv/git srv/lfs srv/uploads srv/refrelay
	chmod 700 srv/refrelay
	(umask 077 && head -c 24 /dev/urandom | base64 >paris.secret)
	uncommented | sed "s,/srv/,$PWD/srv/,; s,/etc/refrelay/paris,$PWD/paris," |
		grep -Ev 'operatorTokenFile|passwordFile|tls(Certificate|Key)' >all.conf
	sed -n '/^# -* at the primary/,/^# -* at the secondary/p' all.conf |
		sed '/^\[token/,/^$/d' >primary.conf
	sed -n '/^# -* at the secondary/,/^# -* at a site of any role/p' all.conf >secondary.conf
	for half in primary secondary; do
		"$REFRELAY" -c "$half.conf" check >out 2>&1 || true
		grep -q "^ok *configuration .*, a $half\$" out
		grep -q '^ok *blobs *of type lfs' out
		grep -q '^ok *blobs *of type uploads' out
	done
}

tap_test 'it is read as it is' it_is_read_as_it_is
tap_test 'all that it offers is known' all_that_it_offers_is_known
tap_test 'each half passes the checks' each_half_passes_the_checks
tap_done
