#!/usr/bin/env bash
# Files that change, are cut or vanish while they are listed, read and sent: what arrives
# in the end is what is there in the end, and nothing that never was is called proved.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/blob_tree.sh"

# A content is a line of 40 digits repeated: a mixture is of two lines, and cut ones show.
write_over() { # FILE LINES, for ever
	exec python3 - "$@" <<-'END'
		import os, sys

		number = 0
		while os.path.exists("goes-on"):
		    with open(sys.argv[1], "r+b") as file:
		        file.write(b"%040d\n" % number * int(sys.argv[2]))
		    number += 1
	END
}

append_to() { # FILE, for ever, and it stays open
	exec python3 - "$@" <<-'END'
		import os, sys

		with open(sys.argv[1], "ab", 0) as file:
		    number = 0
		    while os.path.exists("goes-on"):
		        file.write(b"%040d\n" % number)
		        number += 1
	END
}

cut_and_grow() { # FILE SIZE, for ever
	exec python3 - "$@" <<-'END'
		import os, sys

		size = int(sys.argv[2])
		while os.path.exists("goes-on"):
		    with open(sys.argv[1], "r+b") as file:
		        file.truncate(size // 3)
		        file.seek(0, 2)
		        file.write(os.urandom(4096) * ((size - size // 3) // 4096))
	END
}

replace_often() { # FILE LINES, for ever, by rename
	exec python3 - "$@" <<-'END'
		import os, sys

		number = 0
		while os.path.exists("goes-on"):
		    with open("beside", "wb") as file:
		        file.write(b"%040d\n" % number * int(sys.argv[2]))
		    os.rename("beside", sys.argv[1])
		    number += 1
	END
}

# What was replaced whole is never seen as anything else, at any time.
is_one_content() { # FILE LINES
	python3 - "$@" <<-'END'
		import sys

		text = open(sys.argv[1], "rb").read()
		if text != text[:41] * int(sys.argv[2]):
		    sys.exit("a mixture: %d bytes" % len(text))
	END
}

has_seen() { # N generations of ID at london
	[ "$(blob_member london "$2" generation)" -ge "$1" ]
}

end_writers() { # PID...
	rm goes-on
	wait "$@"
}

# A row that is proved has a checksum that is the copy's.
proved_is_right() {
	at paris blob list --json | python3 -c '
import hashlib, json, sys
for row in json.load(sys.stdin)["blobs"]:
    if row["verification_state"] != "succeeded" or row["state"] != "synced":
        sys.exit("%s: %s, %s" % (row["name"], row["state"], row["verification_state"]))
    with open("paris/tree/" + row["name"], "rb") as file:
        if hashlib.sha256(file.read()).hexdigest() != row["checksum"]:
            sys.exit("another content is proved: " + row["name"])'
}

hastened() {
	tree_is_here && proved_is_right && return
	at paris blob sync --failed
	return 1
}

a_file_that_is_written_all_the_time_ends_equal() { # WRITER ID BYTES [ARGUMENT...]
	local writer=$1 id=$2 bytes=$3 pid
	shift 3
	make_tree_sites
	head -c "$bytes" /dev/zero >"london/tree/$id"
	put_file london/tree/calm calm
	touch goes-on
	"$writer" "london/tree/$id" "$@" &
	pid=$!
	start_sites
	wait_until 30 has_seen 4 "$id"
	# Others do not wait for it.
	put_file london/tree/meanwhile meanwhile
	wait_until 30 cmp london/tree/meanwhile paris/tree/meanwhile
	end_writers "$pid"
	wait_until 60 hastened
	fails was_logged paris blob.wrong
}

files_that_are_replaced_are_never_mixed() {
	local pid i
	make_tree_sites
	set_conf paris sync.bandwidth 60m
	{ yes "$(printf %040d 0)" || true; } | head -n 200000 >london/tree/large
	touch goes-on
	(replace_often london/tree/large 200000) &
	pid=$!
	start_sites
	wait_until 30 has_seen 3 large
	for ((i = 0; i < 20; i++)); do
		[ ! -e paris/tree/large ] || is_one_content paris/tree/large 200000
	done
	end_writers "$pid"
	wait_until 60 hastened
	is_one_content paris/tree/large 200000
}

# Thousands come and go, in folders that come and go, while all is listed and copied.
files_that_come_and_go_end_equal() {
	local pid
	make_tree_sites
	touch goes-on
	python3 - <<-'END' &
		import os, random, shutil

		dice = random.Random(3)
		done = 0
		while os.path.exists("goes-on"):
		    folder = "london/tree/%d/%d" % (dice.randrange(9), dice.randrange(9))
		    path = "%s/%d" % (folder, dice.randrange(30))
		    act = dice.randrange(40)
		    if act < 24:
		        os.makedirs(folder, exist_ok=True)
		        with open(path, "wb") as file:
		            file.write(b"%d" % done * dice.randrange(2000))
		    elif act < 36:
		        if os.path.isfile(path):
		            os.remove(path)
		    elif act < 38:
		        shutil.rmtree(folder, ignore_errors=True)
		    elif os.path.isdir(folder):
		        to = "london/tree/%d-%d" % (dice.randrange(9), dice.randrange(9))
		        if not os.path.exists(to):
		            os.rename(folder, to)
		    done += 1
		open("done", "w").write(str(done))
	END
	pid=$!
	set_conf paris sync.deleteBrake 100%
	start_sites
	wait_until 60 has_events 3000
	end_writers "$pid"
	[ "$(cat done)" -gt 1000 ]
	wait_until 90 hastened
}

has_events() { # N
	[ "$(number_in_status london last_event)" -ge "$1" ]
}

tap_test 'a small file that is rewritten all the time ends equal' \
	a_file_that_is_written_all_the_time_ends_equal write_over small 41 1
tap_test 'a large file that is rewritten all the time ends equal' \
	a_file_that_is_written_all_the_time_ends_equal write_over large 4100000 100000
tap_test 'a file that grows all the time ends equal' \
	a_file_that_is_written_all_the_time_ends_equal append_to log 0
tap_test 'a file that is cut all the time ends equal' \
	a_file_that_is_written_all_the_time_ends_equal cut_and_grow cut 6000000 6000000
tap_test 'files that are replaced are never mixed' files_that_are_replaced_are_never_mixed
tap_test 'thousands of files that come and go end equal' files_that_come_and_go_end_equal
tap_done
