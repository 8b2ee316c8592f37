# Blobs that are brought from ./london to ./paris. Needs tap.sh, sites.sh, two_sites.sh and
# proxied.sh.
#
#	make_blob_sites MAKE-SITES	the kinds uploads and lfs, their files in SITE/KIND
#	make_blob ID BYTES		random bytes, an upload at the primary
#	put_object TEXT DIRECTORY	a file of the kind lfs; its id is in $object
#	name_object			london's repository r names it, and the size of $text
#	get_object SITE			the status that a reader is answered with; the body in ./got
#	gives_object SITE		a reader gets $text
#	blob_of SITE TYPE ID MEMBER	one member of a row
#	blob_is SITE TYPE ID MEMBER VALUE
#	blob_fails TYPE ID CLASS [TEXT]	the copy's failure has this class, and says this; both are
#					regular expressions
#	fails_again TYPE ID CLASS [TEXT]	the same, and what failed is tried at once
#	sent PATTERN			how many bytes of answers the proxy has passed on
#	same_blobs, all_is_here		the copies are equal; and all is well, verified
#	comes				the same, and what failed is tried at once
#	no_leftovers [SITE]		no temporary file is left

make_blob_sites() { # MAKE-SITES
	local site
	"$1"
	for site in london paris; do
		mkdir -p "$site/uploads" "$site/lfs"
		set_conf "$site" blob.uploads.path "$PWD/$site/uploads"
		set_conf "$site" blob.lfs.path "$PWD/$site/lfs"
		set_conf "$site" blob.lfs.layout lfs
	done
}

make_blob() { # ID BYTES
	mkdir -p "$(dirname "london/uploads/$1")"
	head -c "$2" /dev/urandom >london/uploads.new
	mv london/uploads.new "london/uploads/$1"
}

put_object() { # TEXT DIRECTORY
	local oid
	oid=$(printf %s "$1" | sha256sum | cut -c 1-64)
	object=${oid:0:2}/${oid:2:2}/${oid:4}
	mkdir -p "$2/${object%/*}"
	printf %s "$1" >"$2/$object"
}

name_object() {
	git clone -q london/git/r.git work
	printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n' \
		"${object//\//}" "${#text}" >work/object.bin
	git -C work add object.bin
	git -C work commit -qm pointer
	git -C work push -q origin HEAD:refs/heads/main
	rm -r work
}

get_object() { # SITE
	curl -sS -m 20 -o got -w '%{http_code}' \
		"$(site_url "$1")/r.git/info/lfs/objects/${object//\//}"
}

gives_object() { # SITE
	[ "$(get_object "$1")" = 200 ] && [ "$(<got)" = "$text" ]
}

blob_of() { # SITE TYPE ID MEMBER
	at "$1" blob show --json --type "$2" "$3" | python3 -c '
import json, sys
value = json.load(sys.stdin)[sys.argv[1]]
print("" if value is None else str(value).lower() if isinstance(value, bool) else value)' "$4"
}

blob_is() { # SITE TYPE ID MEMBER VALUE
	local value
	value=$(blob_of "$1" "$2" "$3" "$4") && [ "$value" = "$5" ] && return
	echo "$3: $4 is ${value-not known}, not $5"
	return 1
}

blob_fails() { # TYPE ID CLASS [TEXT]
	local said
	said=$(at paris blob show --json --type "$1" "$2") || return
	[[ $said == *'"state":"failed"'* && $said =~ '"failure_class":"'($3)\" &&
		$said =~ '"failure":"'[^\"]*(${4-}) ]] && return
	echo "$said"
	return 1
}

# What failed for another reason is tried again at once.
fails_again() { # TYPE ID CLASS [TEXT]
	blob_fails "$@" && return
	at paris blob sync --failed >sync.out 2>&1
	return 1
}

# What failed is not waited for, but tried once more.
comes() {
	all_is_here && return
	at paris blob sync --failed >sync.out 2>&1
	return 1
}

sent() { # PATTERN
	awk -v pattern="$1" '$0 ~ pattern { sum += $1 } END { printf "%d\n", sum }' proxy/sent
}

same_blobs() {
	diff -r -x .refrelay london/uploads paris/uploads && diff -r -x .refrelay london/lfs paris/lfs
}

all_is_here() {
	in_sync && same_blobs
}

no_leftovers() { # [SITE]
	local left
	left=$(find "${1:-paris}"/*/.refrelay/incoming -type f 2>/dev/null)
	[ -z "$left" ] && return
	echo "$left"
	return 1
}
