#!/usr/bin/env bash
# Clients that hold as many places as they can get, and take or send next to nothing:
# others are served in seconds (a busy machine has more of them).
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"

PEERS=$TESTS/peers

# A pack that no buffer holds.
make_large() {
	make_served
	git init -q work
	no_compression work "$R"
	head -c 16000000 /dev/urandom >work/noise
	git -C work add noise
	git -C work commit -qm noise
	git -C work push -q "$R" HEAD:refs/heads/noise
	LARGE=$(git -C "$R" rev-parse noise)
	for name in slow other quick; do
		echo "0123456789abcdef0123456789abcdef-$name" >"$name.token"
		chmod 600 "$name.token"
		set_conf one "token.$name.file" "$PWD/$name.token"
		set_conf one "token.$name.rights" push
	done
	start_site one
}

port_of_one() {
	local url
	url=$(site_url one)
	echo "${url##*:}"
}

slow() { # fetch|push COUNT SOURCE [TOKEN]
	python3 "$PEERS/slow.py" "$1" "$(port_of_one)" /r.git "$2" "$3" "$LARGE" \
		"${4:-}" >"$1-$3" &
	wait_until 20 grep -q asked "$1-$3"
}

holds() { # KIND COUNT
	curl -fsS "$(site_url one)/metrics" >metrics
	grep -q "^refrelay_upload_pack_running{kind=\"$1\"} $2\$" metrics
}

within() { # SECONDS COMMAND...
	local seconds=$1 began
	shift
	began=$(date +%s%N)
	"$@"
	echo "$((($(date +%s%N) - began) / 1000000)) ms"
	[ $((($(date +%s%N) - began) / 1000000000)) -lt "$seconds" ]
}

pushes() { # BRANCH
	git -C work push -q "http://x:$(cat quick.token)@127.0.0.1:$(port_of_one)/r.git" \
		"$LARGE:refs/heads/$1"
}

one_client_that_reads() {
	make_large
	slow fetch 16 127.0.0.2
	wait_until 20 holds packs 12
	within 40 git clone -q "$U" clone
	wait_until 20 holds packs 12
	fails grep -q cut fetch-127.0.0.2
	stop_site one
}

# All places are taken: who is slow gives way to who waits.
two_clients_that_read() {
	make_large
	slow fetch 16 127.0.0.2
	wait_until 20 holds packs 12
	slow fetch 16 127.0.0.3
	wait_until 20 holds packs 16
	within 60 git clone -q "$U" clone
	wait_until 10 was_logged one http.too_slow
	stop_site one
}

one_user_that_pushes() {
	make_large
	slow push 16 127.0.0.2 "$(cat slow.token)"
	wait_until 20 holds pushes 12
	slow push 8 127.0.0.3 "$(cat slow.token)"
	within 40 pushes one
	wait_until 20 holds pushes 12
	[ "$(git -C "$R" rev-parse one)" = "$LARGE" ]
	stop_site one
}

two_users_that_push() {
	make_large
	slow push 16 127.0.0.2 "$(cat slow.token)"
	wait_until 20 holds pushes 12
	slow push 16 127.0.0.3 "$(cat other.token)"
	wait_until 20 holds pushes 16
	within 60 pushes two
	[ "$(git -C "$R" rev-parse two)" = "$LARGE" ]
	stop_site one
}

tap_test "a client that reads slowly leaves places to others" one_client_that_reads
tap_test "who reads slowly gives way when all places are taken" two_clients_that_read
tap_test "a user that pushes slowly leaves places to others" one_user_that_pushes
tap_test "who pushes slowly gives way when all places are taken" two_users_that_push
tap_done
