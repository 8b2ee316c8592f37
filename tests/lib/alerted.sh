# Sites with alerts. Needs tap.sh, sites.sh and two_sites.sh.
#
#	alert SITE [KEY VALUE]...	settings of a section [alert "a"] with short bounds that
#					tells a command, which keeps all in SITE/told
#	begins, is_over SITE KIND SUBJECT	just once, as far as the site has told
#	all_is_told			paris has nothing more to tell
#	reload SITE			the configuration as it is now counts
#	make_alert_sites NAME...	sites with these repositories, not started
#	start_receiver DIRECTORY SECRET	peers/webhook.py
#	make_certificate DIRECTORY DAYS	cert.pem and key.pem, of this machine

alert() { # SITE [KEY VALUE]...
	local site=$1

	shift
	[ -x tell ] || {
		printf '#!/bin/sh\n[ ! -e "$1.refuses" ] || { echo "not now" >&2; exit 3; }\ncat >>"$1"\n' >tell
		chmod +x tell
	}
	touch "$site/told"
	set_conf "$site" alert.a.command "$PWD/tell $PWD/$site/told"
	set_conf "$site" alert.a.settle 1s
	set_conf "$site" alert.a.failures 1s
	set_conf "$site" alert.a.lag 2s
	# Those that a test wants to hear of. This machine's disk may be full.
	while [ $# -gt 0 ]; do
		if [ "$1" = kind ]; then
			git config --file "$site/refrelay.conf" --add alert.a.kind "$2"
		else
			set_conf "$site" "alert.a.$1" "$2"
		fi
		shift 2
	done
}

count_told() { # SITE EVENT KIND SUBJECT
	grep -o "\"event\":\"$2\",\"kind\":\"$3\",\"subject\":\"$4\"" "$1/told" | wc -l
}

begins() { # SITE KIND SUBJECT
	[ "$(count_told "$1" begins "$2" "$3")" -eq 1 ] && return
	cat "$1/told"
	return 1
}

is_over() { # SITE KIND SUBJECT
	begins "$@" && [ "$(count_told "$1" over "$2" "$3")" -eq 1 ] && return
	cat "$1/told"
	return 1
}

# Of what is over too, which the next start would else tell again.
all_is_told() {
	at paris alert list --json | grep '"troubles":\[\]'
}

reload() { # SITE
	local before
	before=$(logged "$1" node.reloaded) || true
	kill -HUP "$(site_pid "$1")"
	wait_until 10 reloaded_again "$1" "$before"
}

reloaded_again() { # SITE BEFORE
	[ "$(logged "$1" node.reloaded)" -gt "$2" ]
}

make_alert_sites() { # NAME...
	local name

	make_sites
	for name; do
		make_repository "london/git/$name.git" 3
	done
}

start_receiver() { # DIRECTORY SECRET
	mkdir -p "$1"
	python3 "$TESTS/peers/webhook.py" "$1" "$2" &
	wait_until 10 test -f "$1/port"
}

make_certificate() { # SITE DAYS
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days "$2" -subj /CN=localhost \
		-addext 'subjectAltName=IP:127.0.0.1,DNS:localhost' \
		-keyout "$1/key.pem" -out "$1/cert.pem" 2>/dev/null
	chmod 600 "$1/key.pem"
}
