#!/usr/bin/env bash
# What `meson install` puts where, and that it works there.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"

installs() {
	prefix=$(meson introspect --buildoptions "$BUILD" | python3 -c '
import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == "prefix"))')
	tree=$PWD/tree$prefix
	meson install -C "$BUILD" --no-rebuild --destdir "$PWD/tree" >installed 2>&1 || {
		cat installed
		return 1
	}
}

all_is_there() {
	local file

	installs
	for file in bin/refrelay libexec/refrelay/refrelay-run libexec/refrelay/refrelay-hook; do
		test -x "$tree/$file"
	done
	for file in lib/systemd/system/refrelay.service lib/sysusers.d/refrelay.conf \
		share/man/man1/refrelay.1 share/man/man5/refrelay.conf.5 \
		share/man/man7/refrelay-gerrit.7 share/doc/refrelay/LICENSE \
		share/doc/refrelay/README.md share/doc/refrelay/docs/operations.md \
		share/doc/refrelay/docs/guides/two-sites.md share/doc/refrelay/docs/leases.md \
		share/doc/refrelay/examples/refrelay.rules.yml \
		share/doc/refrelay/examples/refrelay-dashboard.json \
		share/doc/refrelay/examples/refrelay.conf; do
		test -s "$tree/$file" || fail "$file is not there"
	done
	[ ! -e tree/etc ]
	# Nothing outside of the prefix, and no tests.
	find tree ! -type d ! -path "tree$prefix/*" >strange
	find tree -name '*test*' >>strange
	[ ! -s strange ] || fail "$(<strange)"
}

the_documents_lead_to_each_other() {
	installs
	"$TESTS/../tools/links.py" "$tree/share/doc/refrelay"
}

# Without the environment that tells tests where the programs are.
it_finds_its_own_programs() {
	installs
	unset REFRELAY_RUN REFRELAY_HOOK
	mkdir source
	make_repository source/a.git 3
	expect 0 "$tree/bin/refrelay" replicate source dest
	equal_trees source dest
	expect 0 "$tree/bin/refrelay" -c "$tree/share/doc/refrelay/examples/refrelay.conf" config list
}

the_unit_starts_the_program() {
	local program

	installs
	program=$(sed -n 's/^ExecStart=\([^ ]*\) serve$/\1/p' "$tree/lib/systemd/system/refrelay.service")
	[ "$program" = "$prefix/bin/refrelay" ]
	test -x "tree$program"
	command -v systemd-analyze >/dev/null || skip "systemd-analyze is not installed"
	mkdir unit
	sed "s,^ExecStart=,&$PWD/tree," "$tree/lib/systemd/system/refrelay.service" \
		>unit/refrelay.service
	systemd-analyze verify --man=no unit/refrelay.service >said 2>&1 || {
		grep -q 'refrelay.service' said || skip "systemd-analyze does not work here"
		fail "$(<said)"
	}
	fails grep -q refrelay.service said
	systemd-sysusers --root="$PWD/tree" --dry-run "$tree/lib/sysusers.d/refrelay.conf" >said 2>&1 ||
		fail "$(<said)"
}

tap_test 'all is there, and nothing else' all_is_there
tap_test 'the links of the installed documents work' the_documents_lead_to_each_other
tap_test 'it finds its own programs' it_finds_its_own_programs
tap_test 'the unit starts the program' the_unit_starts_the_program
tap_done
