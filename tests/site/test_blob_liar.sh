#!/usr/bin/env bash
# A primary that lies about blobs: nothing wrong comes into place, and all heals afterwards.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

liar_program=$TESTS/peers/blob_primary.py

# paris follows a primary that says what ./liar/lies.py says.
follow_liar() {
	make_sites
	mkdir -p paris/uploads liar
	set_conf paris blob.uploads.path "$PWD/paris/uploads"
	start_liar liar
	set_conf paris primary.url "http://127.0.0.1:$(cat liar/port)"
	lies
	start_site paris
	wait_until 20 is_honest
}

start_liar() { # DIRECTORY
	: >"$1/lies.py"
	python3 "$liar_program" "$1" 2>"$1/err" &
	wait_until 10 test -f "$1/port"
}

# Each time of a new generation, so that it is asked for.
generation=0
lies() { # PYTHON
	generation=$((generation + 1))
	printf 'generation = %s\n%s\n' "$generation" "${1-}" >liar/lies.new
	mv liar/lies.new liar/lies.py
}

# What the honest program has is here, and all is well.
is_honest() {
	[ "$(cat paris/uploads/a paris/uploads/b/c)" = onetwo ] && at paris status >status &&
		grep -q 'in sync, verified: .* 2 blobs of kind uploads (6 bytes)' status
}

tree_of_paris() {
	find paris/uploads "$PWD" -maxdepth 1 ! -name status ! -name row | sort
	find paris/uploads -path '*/.refrelay' -prune -o -type f -print0 | sort -z | xargs -0 sha256sum
	ls paris/uploads/.refrelay/incoming
}

says() { # PATTERN
	at paris status >status
	grep -q "$1" status || { cat status; return 1; }
}

# The row of "a" wants this generation, and failed with such a text.
has_failed() { # PATTERN
	at paris blob show --json --type uploads a >row &&
		grep -q "\"generation_wanted\":$generation[,}]" row &&
		grep -q "\"failure\":\"[^\"]*$1" row || { cat row; return 1; }
}

# LIE PATTERN
refused_with() {
	echo "$1"
	lies "$1"
	wait_until 20 "${refused_by:-says}" "$2"
	tree_of_paris | cmp - before
}

inventories_that_lie() {
	follow_liar
	tree_of_paris >before
	refused_with 'blobs = {"../../x": b"evil"}' 'left out, e.g. ../../x: not an id'
	refused_with 'honest = page
def page(after, limit):
    answer = honest(after, limit)
    return {**answer, "blobs": answer["blobs"][::-1]}' 'a stands behind b/c'
	refused_with 'def page(after, limit):
    return b"{\"blobs\":[" + b"[]," * 3000000 + b"[]]}"' 'not a JSON object'
	[ "$(awk '/VmHWM/ { print $2 }' "/proc/$(site_pid paris)/status")" -lt 250000 ] ||
		fail "$(grep VmHWM "/proc/$(site_pid paris)/status")"
	lies
	wait_until 30 is_honest
}

# Of what is wanted nothing else comes into place, whatever stands above the bytes.
bytes_that_lie() {
	local refused_by=has_failed large='blobs["a"] = b"1" * 100
def frame(name):
    return line({"name": name, "code": "TOO_LARGE", "message": ""})
def give(name, first, size, **more):
    return 206, {"ETag": "\"%s-%d\"" % (timeline, generation),
                 "Content-Range": "bytes %d-%d/%d" % (first, size - 1, size), **more}, \
        (b"2" * 65536 for _ in range(2000))
'
	follow_liar
	tree_of_paris >before
	refused_with 'blobs["a"] = b"1ne"
def frame(name):
    return line({**head(name), "checksum": None}) + b"evi"' 'what came has the SHA-256'
	refused_with 'blobs["a"] = b"1ne"
def frame(name):
    return line({**head(name), "size": 1000, "checksum": None}) + b"e" * 1000' '1000 bytes, and 3 by'
	refused_with 'blobs["a"] = b"1ne"
def frame(name):
    return line({**head(name), "size": 10 ** 13}) + b"e" * 10000000' 'answer of small ones'
	refused_with 'blobs["a"] = b"1ne"
def frame(name):
    return line({**head(name), "name": "../../x"}) + blobs[name]' 'whose turn it is'
	refused_with 'blobs["a"] = b"1ne"
def frames(names):
    for _ in range(100):
        yield b"{" * 65536' 'has no end'
	refused_with "$large"'
def piece(name, first, last):
    return give(name, first, 10 ** 13)' '10000000000000 bytes, and 100 by'
	refused_with "$large"'
def piece(name, first, last):
    return give(name, first, 100)' 'more came than\|longer than it says'
	refused_with "$large"'
def piece(name, first, last):
    status, headers, _ = give(name, first, 100)
    return status, headers, [b"2" * 100]' 'what came has the SHA-256'
	lies
	wait_until 30 is_honest
	at paris blob sync --all # those that wait for their next try
	wait_until 30 is_honest
}

# A server that does not know If-Match.
two_versions() {
	follow_liar
	lies 'S = 65 << 20
honest = row
def row(name):
    return {**honest(name), "checksum": None, "size": S} if name == "a" else honest(name)
def piece(name, first, last):
    last = min(last, S - 1)
    version = generation if first == 0 else generation + 1
    return 206, {"ETag": "\"%s-%d\"" % (timeline, version),
                 "Content-Range": "bytes %d-%d/%d" % (first, last, S)}, \
        [(b"1" if first == 0 else b"2") * (last - first + 1)]'
	wait_until 20 has_failed 'another version came'
	[ "$(cat paris/uploads/a)" = one ]
	lies
	wait_until 30 is_honest
}

sizes_that_lie() {
	follow_liar
	local many='blobs.update(("k%02d" % i, b"x") for i in range(20))'
	lies "$many"'
honest = row
def row(name):
    return {**honest(name), **({"size": 2 ** 63 - 1} if name[0] == "k" else {})}'
	wait_until 20 says '20 blobs of kind uploads failing'
	lies "$many"
	wait_until 30 says 'in sync, verified: .* 22 blobs of kind uploads (26 bytes)'
}

all_are_gone() {
	follow_liar
	lies 'blobs = {"k%02d" % i: b"x" for i in range(30)}'
	wait_until 20 test -f paris/uploads/k29
	lies 'blobs = {}'
	wait_until 20 says '3[0-2] blobs of kind uploads held'
	[ "$(find paris/uploads -maxdepth 1 -name 'k*' | wc -l)" = 30 ]
}

other_hosts_hear_nothing() {
	follow_liar
	mkdir other
	start_liar other
	lies "redirect = 'http://127.0.0.1:$(cat other/port)'"
	wait_until 20 says 'redirects are not followed'
	[ ! -e other/log ]
	lies
	wait_until 20 is_honest
}

tap_test 'inventories that lie are refused whole, in little memory' inventories_that_lie
tap_test 'bytes that are not what was announced never come into place' bytes_that_lie
tap_test 'two versions are not put together' two_versions
tap_test 'sums of sizes that lie do no harm' sizes_that_lie
tap_test 'a primary that has nothing any more empties nothing' all_are_gone
tap_test 'other hosts hear nothing of a redirect' other_hosts_hear_nothing
tap_done
