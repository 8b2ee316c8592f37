# A real PostgreSQL server of the test's own, on a socket. Needs tap.sh. PostgreSQL refuses to be run by root.
#
#	start_postgresql		its URL is in $postgresql_url; it ends with the test

# Of the newest version that Debian has here.
postgresql_program() { # NAME
	local version

	for version in 18 17 16 15; do
		[ ! -x "/usr/lib/postgresql/$version/bin/$1" ] || {
			echo "/usr/lib/postgresql/$version/bin/$1"
			return
		}
	done
	fail "PostgreSQL's $1 is not installed"
}

as_postgresql() { # COMMAND...
	if [ "$(id -u)" -eq 0 ]; then
		(cd / && exec setpriv --reuid=postgres --regid=postgres --clear-groups "$@")
	else
		"$@"
	fi
}

postgresql_url=
start_postgresql() {
	local place=$PWD/postgresql

	mkdir postgresql
	if [ "$(id -u)" -eq 0 ]; then
		chmod o+x "$tap_root" "$PWD"
		chown postgres postgresql
	fi
	as_postgresql "$(postgresql_program initdb)" -D "$place/db" -A trust -U postgres -N >postgresql.log 2>&1
	as_postgresql "$(postgresql_program postgres)" -D "$place/db" -k "$place" -h '' -F \
		-c max_connections=40 >>postgresql.log 2>&1 &
	postgresql_url="postgresql:///postgres?host=$place&user=postgres"
	wait_until 30 as_postgresql "$(postgresql_program pg_isready)" -q -h "$place"
}
