#!/usr/bin/env bash
# Odd names, and things that are no files, in the places of blobs: what can be an id
# follows exactly; what cannot stays where it is, is told once and counted; nothing waits
# for ever, and nothing is followed to another place.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/blob_tree.sh"
. "$TESTS/lib/replicate.sh"

# Makes all of it below the first path; writes the ids that must follow to ./ids, and what
# must be told as left out to ./odd, each ended by a NUL.
make_odd_names() { # DIRECTORY
	python3 - "$1" <<-'END'
		import os, sys

		root = os.fsencode(sys.argv[1])
		ids, odd = [], []


		def put(path):
		    above = os.path.dirname(path)
		    os.makedirs(os.path.join(root, above), exist_ok=True)
		    with open(os.path.join(root, path), "wb") as file:
		        file.write(b"content of " + path)


		def good(path):
		    put(path)
		    ids.append(path)


		def bad(path, told=None):
		    put(path)
		    odd.append(told or path)


		for byte in range(1, 256):
		    one = bytes([byte])
		    if one in b"/":
		        continue
		    can_be = 0x20 <= byte < 0x7f
		    for name in (one, b"x" + one + b"y", one * 3):
		        if name == b".":
		            continue
		        good(b"bytes/" + name) if can_be else bad(b"bytes/" + name)
		for name in (
		    b"-rf", b"--all", b"-", b"~", b"...", b"..x", b"x..", b".hidden", b" ", b"  two ",
		    b"%2e%2e%2fetc%2fpasswd", b"%", b"%00", b"a%0", b"?a=b&c=d", b"#part", b"a;b", b"a\\..\\b",
		    b'"quoted"', b"'", b"$HOME", b"`id`", b"*", b"[a-z]", b"{a,b}", b"a|b", b"<a>", b"a:b",
		    b"x.lock", b"x.git", b".git", b"refs.lock/x.lock", b"repo.git/objects/ab/cd",
		    b"HEAD", b"x.new", b"x.part", b"con", b"nul", b"incoming/x", b"trash/y",
		    b"x.refrelay", b"refrelay", b"lost+found/in-a-folder",
		    "gr\u00fc\u00df".encode(), "gru\u0308ss".encode(), "\u65e5\u672c/\u8a9e".encode(),
		    "\U0001f600".encode(), "\u202egpj.exe".encode(), "\ufeffbom".encode(),
		    "\u0085\u2028".encode(), "A".encode(), "a".encode(), "\uffff".encode(),
		    b"n" * 250, b"d" * 250 + b"/" + b"e" * 250, b"/".join([b"d"] * 511) + b"/ef",
		):
		    good(b"names/" + name if len(name) < 1000 else name)
		# Order: a directory's name sorts as if it ended in a slash.
		for name in (b"o.b", b"o/x", b"o0", b"o-", b"o ", b"o/", b"o/x.y/z", b"o/x0"):
		    if not name.endswith(b"/"):
		        good(b"order/" + name)
		bad(b"long/" + b"n" * 251)
		bad(b"long/" + b"n" * 255)
		bad(b"long/" + b"d" * 251 + b"/below", b"long/" + b"d" * 251)
		deep = b"/".join([b"e" * 200] * 5)
		good(deep + b"/" + b"f" * (1024 - len(deep) - 1))
		bad(deep + b"/" + b"g" * (1025 - len(deep) - 1))
		bad(b"folder\xff/a", b"folder\xff")
		bad(b"folder\n/a/b/c", b"folder\n")
		for bytes_ in (b"\xc0\xaf", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\xf0\x82\x82\xac"):
		    bad(b"utf8/" + bytes_)
		# Of refrelay itself: silently left alone, everywhere.
		for name in (b".refrelay/own", b".refrelay-other", b"names/.refrelay", b"names/.refrelay.x/y"):
		    put(name)
		put(b"lost+found/saved")
		# Deeper than any path can be said in one piece.
		home = os.getcwd()
		os.chdir(os.path.join(root, b"long"))
		for i in range(60):
		    os.mkdir("p" * 100)
		    os.chdir("p" * 100)
		open("bottom", "w").close()
		os.chdir(home)
		odd.append(b"long/" + b"/".join([b"p" * 100] * 10))

		open("ids", "wb").write(b"".join(x + b"\0" for x in sorted(ids)))
		open("odd", "wb").write(b"".join(x + b"\0" for x in sorted(odd)))
	END
}

# Exactly these ids, with exactly their content.
ids_are_here() { # SITE
	python3 - "$1" <<-'END'
		import os, sys

		root = os.fsencode(sys.argv[1] + "/tree")
		found = {}
		for folder, folders, names in os.walk(root):
		    if folder == root:
		        folders.remove(b".refrelay")
		    for name in names:
		        path = os.path.join(folder, name)
		        found[os.path.relpath(path, root)] = open(path, "rb").read()
		wanted = {id: b"content of " + id for id in open("ids", "rb").read().split(b"\0")[:-1]}
		for id in wanted:
		    if found.get(id) != wanted[id]:
		        sys.exit("missing or wrong: %r" % id)
		for id in found:
		    if id not in wanted:
		        sys.exit("too much: %r" % id)
	END
}

# Each of ./odd in one line of the log, which shows its begin, and no other.
odd_is_told_once() {
	python3 - <<-'END'
		import codecs, collections, re, sys

		told = collections.Counter()
		for line in open("london/log", "rb"):
		    if b" ev=blob_scan.finding " in line:
		        path = re.search(rb' path=("(?:[^"\\]|\\.)*"|\S+)', line).group(1)
		        told[codecs.escape_decode(path.strip(b'"'))[0][:100]] += 1
		names = open("odd", "rb").read().split(b"\0")[:-1]
		odd = collections.Counter(name[:100] for name in names)
		if told != odd:
		    sys.exit("not told: %r; too often: %r" % (list(odd - told)[:9], list(told - odd)[:9]))
	END
}

primary_says() { # TEXT
	local status=0
	at london status >said || status=$?
	[ "$status" -eq 3 ] && grep -qF -- "$1" said && return
	cat said
	return 1
}

odd_names_follow_or_are_told() {
	local odd
	make_tree_sites
	make_odd_names london/tree
	odd=$(tr -dc '\0' <odd | wc -c)
	start_sites
	wait_until 60 ids_are_here paris
	wait_until 30 in_sync
	odd_is_told_once
	primary_says "$odd files of kind tree left out, e.g. "
	[ "$(status_of london blobs.tree.scan.left_out)" = "$odd" ]

	# Known by the next scan; mended, no more is said of it.
	wait_until 40 scans_are 3 # at their own pace
	odd_is_told_once
	rm -rf london/tree/bytes london/tree/utf8 london/tree/long london/tree/folder* \
		london/tree/eeee*
	wait_until 40 fails primary_says 'left out'
}

scans_are() { # N
	[ "$(logged london blob_watch.scanned 'kind=tree')" -ge "$1" ]
}

# What is put there while the node runs is told once too, by whoever sees it first.
odd_names_that_come_later_are_told_once() {
	make_tree_sites
	echo one >london/tree/one
	start_sites
	wait_until 30 tree_is_here
	make_odd_names london/tree
	printf 'one\0' | cat - ids | LC_ALL=C sort -z -o ids
	printf 'content of one' >london/tree/one
	wait_until 60 ids_are_here paris
	wait_until 30 in_sync
	wait_until 40 scans_are "$(($(logged london blob_watch.scanned) + 2))" # at their own pace
	odd_is_told_once
	(cd london/tree/long && until ! cd pppp*; do :; done; rm -rf p*) 2>/dev/null
}

# What is no file: each kind of it beside good files, below a folder too.
make_odd_files() { # DIRECTORY
	local folder
	for folder in "$1" "$1/sub"; do
		mkdir -p "$folder"
		ln -s "$PWD/outside/secret" "$folder/link-to-file"
		ln -s "$PWD/outside" "$folder/link-to-folder"
		ln -s one "$folder/link-inside"
		ln -s nowhere "$folder/link-dangling"
		ln -s link-loop "$folder/link-loop"
		mkfifo "$folder/pipe"
		python3 -c 'import os, socket, sys
os.chdir(sys.argv[1])
socket.socket(socket.AF_UNIX).bind("socket")' "$folder"
		mknod "$folder/device" c 1 3 2>/dev/null || mkfifo "$folder/device"
		echo good >"$folder/good"
	done
}

finding_of() { # PATH
	logged london blob_scan.finding " path=$1( |\$)"
}

what_is_no_file_is_left_alone() {
	local name left
	make_tree_sites
	mkdir outside
	echo secret >outside/secret
	echo one >london/tree/one
	make_odd_files london/tree
	give_token london someone operate
	start_sites
	wait_until 30 same_tree
	wait_until 20 primary_says '16 files of kind tree left out'
	for name in link-to-file link-to-folder link-inside link-dangling link-loop pipe socket device; do
		[ "$(finding_of "$name")" = 1 ] || fail "$name was not told once"
		[ "$(finding_of "sub/$name")" = 1 ] || fail "sub/$name was not told once"
		[ ! -e "paris/tree/$name" ]
		[ ! -L "paris/tree/$name" ]
	done
	left=$(find paris/tree -path paris/tree/.refrelay -prune -o -type f -print | wc -l)
	[ "$left" = 3 ]

	# Who asks for one of them is told so, at once.
	for name in link-to-file link-to-folder/secret pipe sub/socket; do
		expect 1 at london changed --blob tree "$name"
		[ -s err ]
		[ "$(ask_for "$name")" != 200 ] || fail "$name was given out"
	done
	expect 1 at london changed --blob tree pipe
	grep -q 'pipe is not a regular file' err

	# Mended, they follow, and nothing more is said.
	for name in link-to-file pipe; do
		rm "london/tree/$name"
		echo "a file now" >"london/tree/$name"
	done
	wait_until 20 same_tree
	find london/tree '(' -type l -o -type p -o -type s -o -type c ')' -delete
	wait_until 20 tree_is_here
	wait_until 20 at london status
}

# The status of an answer with the bytes; ./body.
ask_for() { # ID
	curl -sS -m 10 -o body -w '%{http_code}' -u "any:$(cat someone.token)" \
		"$(site_url london)/api/v1/retrieve/tree/$1"
}

# What was a file with a row becomes something else: it fails, its copy stays, and nothing
# behind a link is ever given out.
files_that_become_something_else_are_kept_until_mended() {
	local name
	make_tree_sites
	mkdir outside
	echo secret >outside/secret
	for name in link pipe socket sub/link; do
		put_file "london/tree/$name" "was here: $name"
	done
	mkdir london/tree/folder
	echo x >london/tree/folder/secret
	start_sites
	wait_until 30 tree_is_here
	cp -a paris/tree before

	ln -sf "$PWD/outside/secret" london/tree/link
	ln -sf "$PWD/outside/secret" london/tree/sub/link
	mkfifo pipe
	python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("socket")'
	mv -f pipe socket london/tree
	ln -s "$PWD/outside" london/moved
	change_places london/tree/folder london/moved
	wait_until 20 tree_fails london 5
	primary_says '5 blobs of kind tree failing, e.g. folder/secret: '
	wait_until 20 paris_has_seen_all
	expect 0 at paris blob resync --wait --all
	diff -r -x .refrelay before paris/tree

	# Nor can a copy that was lost be had.
	rm -r paris/tree/link paris/tree/pipe paris/tree/folder
	expect 3 at paris blob resync --wait --all
	tree_fails paris 3
	expect 0 at paris blob list --failed
	[ "$(grep -Ec '(not a regular file|a symbolic link, or below one)' out)" = 3 ]
	fails grep -rq '^secret' paris/tree

	change_places london/tree/folder london/moved
	for name in link pipe socket sub/link; do
		put_file "london/tree/$name" "here again: $name"
	done
	wait_until 20 tree_fails london 0
	at paris blob sync --failed >out
	wait_until 30 tree_is_here
	wait_until 10 at london status
}

# At one moment, so that neither is ever gone.
change_places() { # PATH OTHER
	python3 -c '
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
one, other = (os.fsencode(path) for path in sys.argv[1:])
if libc.renameat2(-100, one, -100, other, 2) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))' "$@"
}

tree_fails() { # SITE N
	if [ "$1" = london ]; then
		tree_count_is london verification.failed "$2"
	else
		tree_count_is paris failed "$2"
	fi
}

paris_has_seen_all() {
	[ "$(number_in_status paris cursor)" -ge "$(number_in_status london last_event)" ]
}

# A file where a folder was, and the other way round: as any other change.
files_and_folders_change_places() {
	make_tree_sites
	put_file london/tree/a 'a file'
	put_file london/tree/b/c/d 'a file in folders'
	put_file london/tree/b/e 'another'
	put_file london/tree/z 'z'
	start_sites
	wait_until 30 tree_is_here
	rm london/tree/a
	put_file london/tree/a/b/c 'in a folder now'
	mkdir -p away
	mv london/tree/b away
	put_file london/tree/b 'a file now'
	wait_until 20 london_knows a/b/c b
	settle_paris
	[ "$(cat paris/tree/b)" = 'a file now' ]
	find paris/tree/.refrelay/trash -type f >trashed
	[ "$(wc -l <trashed)" = 3 ]

	# And back.
	rm london/tree/b
	mv away/b london/tree/b
	rm -r london/tree/a
	put_file london/tree/a 'a file again'
	wait_until 20 london_knows a b/c/d
	settle_paris
	wait_until 10 at london status
}

london_knows() { # ID...
	local id
	for id; do
		at london blob show "$id" || return
	done
}

# What stood in the way goes when it is its turn; what came before that is tried again
# by itself, which a person can hasten.
settle_paris() {
	wait_until 30 hastened
}

hastened() {
	tree_is_here && return
	at paris blob sync --failed
	return 1
}

# Somebody put things at the secondary where copies belong: they wait in the trash.
the_secondary_s_own_obstacles_move_away() {
	make_tree_sites
	mkdir outside paris/tree/dir paris/tree/empty
	echo mine >paris/tree/dir/mine
	ln -s "$PWD/outside" paris/tree/link
	ln -s "$PWD/outside/never" paris/tree/file-link
	mkfifo paris/tree/pipe
	echo mine >paris/tree/parent
	for name in dir empty link/below file-link pipe parent/below free; do
		put_file "london/tree/$name" "of $name"
	done
	start_sites
	wait_until 30 tree_is_here
	[ -z "$(ls -A outside)" ]
	wait_until 10 was_logged paris blob.moved_away
	[ "$(find paris/tree/.refrelay/trash -type f -exec cat {} +)" = "$(printf 'mine\nmine')" ]
	wait_until 30 in_sync

	# A copy that becomes something else is found when it is read, and brought again.
	rm paris/tree/free
	ln -s "$PWD/outside/never" paris/tree/free
	expect 0 at paris blob reverify free
	wait_until 20 tree_is_here
	[ -z "$(ls -A outside)" ]
}

are_found() { # PATH...
	local path
	for path; do
		[ "$(finding_of "$path")" -gt 0 ] || return 1
	done
}

# Root may read everything: so the node runs as another user.
what_may_not_be_read_is_told() {
	make_tree_sites
	put_file london/tree/shut/in/a 'a'
	put_file london/tree/shut/b 'b'
	put_file london/tree/private 'private'
	put_file london/tree/open 'open'
	mkdir london/tree/later
	start_as_nobody
	start_site paris
	wait_until 30 tree_is_here
	chmod 000 london/tree/shut london/tree/private london/tree/later
	put_file london/tree/open 'open, and changed'
	(umask 777 && echo new >london/tree/never)
	wait_until 20 tree_fails london 3
	wait_until 20 primary_says 'files of kind tree left out, e.g. '
	wait_until 20 are_found shut later never
	[ "$(finding_of shut)" = 1 ]
	[ "$(finding_of later)" = 1 ]
	[ "$(finding_of never)" = 1 ]
	wait_until 20 grep -q changed paris/tree/open
	# Kept, and not deleted.
	[ "$(cat paris/tree/shut/in/a paris/tree/shut/b paris/tree/private)" = "$(printf 'a\nb\nprivate')" ]
	chmod 755 london/tree/shut london/tree/later
	chmod 644 london/tree/private london/tree/never
	wait_until 20 tree_fails london 0
	wait_until 30 tree_is_here
	wait_until 10 at london status
	[ ! -d paris/tree/.refrelay/trash ] || [ -z "$(find paris/tree/.refrelay/trash -type f)" ]
}

start_as_nobody() {
	local real=$REFRELAY
	command -v setpriv >/dev/null || skip "no setpriv to become another user with"
	become_nobody
	cat >as-nobody <<-END
		#!/bin/sh
		[ "\$(id -u)" -eq 0 ] || exec "$real" "\$@"
		exec setpriv --reuid=65534 --regid=65534 --clear-groups "$REFRELAY" "\$@"
	END
	chmod +x as-nobody
	REFRELAY=$PWD/as-nobody
	start_site london
}

tap_test 'odd names follow exactly, or are told once' odd_names_follow_or_are_told
tap_test 'odd names that come later are told once' odd_names_that_come_later_are_told_once
tap_test 'what is no file is left alone and told once' what_is_no_file_is_left_alone
tap_test 'files that become something else are kept until mended' \
	files_that_become_something_else_are_kept_until_mended
tap_test 'files and folders change places' files_and_folders_change_places
tap_test "the secondary's own obstacles move away, and nothing behind them is touched" \
	the_secondary_s_own_obstacles_move_away
tap_test 'what may not be read is told, and its copies stay' what_may_not_be_read_is_told
tap_done
