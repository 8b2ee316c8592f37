# Copies that are damaged in every way, by damage.py. After tap.sh, sites.sh and two_sites.sh.
#
#	make_damageable		./london and ./paris with a repository for each kind of damage;
#				for tap_set_up
#	met_by TRIGGER		all are damaged, met, and whole again in time
#	met_at_the_start	the same while paris is down

damage=$(realpath "${BASH_SOURCE[0]%/*}/damage.py")

make_damageable() {
	make_sites
	set_conf paris http.anonymousRead true
	python3 "$damage" make
	make_unprivileged
	start_sites
	wait_until 60 in_sync
}

met_by() { # TRIGGER
	cd "$SHARED"
	python3 "$damage" "$1"
	wait_until 20 in_sync
	fails grep -a backup paris/log
}

met_at_the_start() {
	cd "$SHARED"
	kill "$(site_pid paris)"
	wait_until 20 has_died paris
	python3 "$damage" start-damage
	start_site paris
	python3 "$damage" start
	wait_until 20 in_sync
}
