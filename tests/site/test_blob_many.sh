#!/usr/bin/env bash
# Many small files and few large ones: all arrive, in bounded memory, and a tree that is
# there already is not transferred. REFRELAY_TEST_BLOBS says how many small ones,
# REFRELAY_TEST_LARGE_MB how large the large one is. What it took is printed.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/blob_tree.sh"

many=${REFRELAY_TEST_BLOBS-5000}
large_mb=${REFRELAY_TEST_LARGE_MB-300}

# The most that it ever held, of what is its own. A sanitizer keeps what is freed.
peak_kb() { # SITE
	awk '$1 == "VmHWM:" { print $2 }' "/proc/$(site_pid "$1")/status"
}

held_kb() { # SITE
	awk '$1 == "VmRSS:" { print $2 }' "/proc/$(site_pid "$1")/status"
}

is_sanitized() {
	grep -qaE '__(asan|tsan|ubsan)_' "$REFRELAY"
}

peak_is_below() { # MB
	local site peak
	for site in london paris; do
		peak=$(peak_kb "$site")
		tell "$site: peak $((peak / 1024)) MB, now $(($(held_kb "$site") / 1024)) MB"
		is_sanitized || [ "$peak" -lt $(($1 * 1024)) ] || fail "$site: $peak kB"
	done
}

tell() {
	echo "# $*" >>"$tap_root/told"
}

# Files of 0 to 4000 bytes, in folders of 500; each has a content of its own.
make_small() { # DIRECTORY COUNT
	python3 - "$1" "$2" <<-'END'
		import os, random, sys

		bytes = random.Random(7).randbytes(1 << 16)
		for i in range(int(sys.argv[2])):
		    folder = "%s/%d/%d" % (sys.argv[1], i // 50000, i // 500 % 100)
		    if i % 500 == 0:
		        os.makedirs(folder, exist_ok=True)
		    with open("%s/file-%d.txt" % (folder, i), "wb") as file:
		        if i % 100:
		            at = i * 31 % 60000
		            file.write(b"%d\n" % i + bytes[at : at + i % 4000])
	END
}

make_large() { # FILE MB
	head -c "$(($2 << 20))" /dev/zero |
		openssl enc -aes-128-ctr -nosalt -pass "pass:$1" -pbkdf2 >"$1"
}

# Asked seldom, as it looks at all files.
all_are_here() {
	[ "$(tree_count paris synced)" = "$1" ] && tree_is_verified paris &&
		tree_is_verified london && in_sync
}

cpu_ms() { # SITE
	awk '{ print ($14 + $15) * 10 }' "/proc/$(site_pid "$1")/stat"
}

# Of each site, while nothing happens. Told, not judged: the machine does other things.
tell_idle() { # SECONDS
	local london=$(cpu_ms london) paris=$(cpu_ms paris) end=$((SECONDS + $1))
	wait_until "$1" test_time_is "$end"
	tell "idle: london $((($(cpu_ms london) - london) / $1)) ms/s," \
		"paris $((($(cpu_ms paris) - paris) / $1)) ms/s"
}

test_time_is() { # SECONDS
	[ "$SECONDS" -ge "$1" ]
}

small_files_arrive() {
	local all=$((many + 2)) began before key compared
	make_tree_sites
	make_small london/tree "$many"
	make_large london/tree/one $((many / 500))
	make_large london/tree/two $((many / 500))
	began=$(date +%s%N)
	start_sites
	wait_until 900 all_are_here "$all"
	tell "$all files, $(du -sm london/tree | cut -f 1) MB: $((($(date +%s%N) - began) / 1000000)) ms"
	same_tree
	peak_is_below 128
	[ "$(find paris/tree/.refrelay/incoming -type f 2>/dev/null | wc -l)" = 0 ]
	[ -z "${REFRELAY_TEST_BLOBS-}" ] || tell_idle 20

	# After a restart nothing is transferred or read again.
	compared=$(status_of paris compared_at)
	stop_site paris
	stop_site london
	before=$(for key in bytes count unchanged; do sum_of "$key"; done)
	start_sites
	wait_until 60 was_compared "$compared"
	wait_until 60 in_sync
	[ "$(for key in bytes count unchanged; do sum_of "$key"; done)" = "$before" ]
	fails grep -q ' ev=blob.failed ' paris/log
	put_file london/tree/later 'one more'
	wait_until 60 all_are_here $((all + 1))
	peak_is_below 128
}

was_compared() { # BEFORE
	local now

	now=$(status_of paris compared_at) && [ -n "$now" ] && [ "$now" != "$1" ]
}

# Copied by other means before: compared by content, and not transferred.
a_tree_that_is_there_is_adopted() {
	local began count=$((many / 2 + 1))
	make_tree_sites
	make_small london/tree $((many / 2))
	make_large london/tree/one 20
	cp -a london/tree/. paris/tree
	began=$(date +%s%N)
	start_sites
	wait_until 900 all_are_here "$count"
	tell "$count files adopted: $((($(date +%s%N) - began) / 1000000)) ms"
	same_tree
	# Nothing came over the line.
	[ "$(sum_of bytes)" = 0 ]
	[ "$(sum_of count)" = 0 ]
	[ "$(sum_of unchanged)" = "$count" ]
	peak_is_below 128
}

sum_of() { # KEY of the lines about jobs
	grep -a ' ev=blob.done ' paris/log | grep -oE " $1=[0-9]+" |
		awk -F = '{ sum += $2 } END { print sum + 0 }'
}

a_large_file_needs_little_memory() {
	local began
	make_tree_sites
	make_large london/tree/large "$large_mb"
	began=$(date +%s%N)
	start_sites
	wait_until 900 all_are_here 1
	tell "$large_mb MB: $((($(date +%s%N) - began) / 1000000)) ms"
	cmp london/tree/large paris/tree/large
	peak_is_below 64
	# What it replaces is there until then, and no third one.
	[ "$(find paris/tree -type f | wc -l)" = 1 ]
}

tap_test "$many small files and two large ones arrive" small_files_arrive
tap_test 'a tree that is there is adopted, and nothing is transferred' \
	a_tree_that_is_there_is_adopted
tap_test "$large_mb MB in one file need little memory" a_large_file_needs_little_memory
cat "$tap_root/told"
tap_done
