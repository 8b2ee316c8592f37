# Deaths of the nodes of two sites (two_sites.sh) while they bring, take in and remove
# blobs, and what must be true after each. Needs tap.sh, sites.sh and two_sites.sh.
#
#	start_blob_sites	./SITE/uploads and ./SITE/lfs, in sync
#	put_file ID [BYTES]	a new or other file at the primary, by one rename
#	put_object [BYTES]	an object of LFS, likewise
#	no_half_blob SITE	each file is, as a whole, one that was put
#	is_whole_again		what must be true when all has settled
#	dies_at SITE POINT CHANGE...

start_blob_sites() {
	local site

	[ -s london/refrelay.conf ] || make_sites
	for site in london paris; do
		mkdir -p "$site/uploads" "$site/lfs"
		set_conf "$site" blob.uploads.path "$PWD/$site/uploads"
		set_conf "$site" blob.lfs.path "$PWD/$site/lfs"
		set_conf "$site" blob.lfs.layout lfs
	done
	mkdir new
	: >known
	put_file a/one
	put_file a/deep/er/2
	put_file large 3000000
	put_object
	start_sites
	wait_until 20 is_whole
}

# Where all that was put is written down: "SHA-256  PATH", as sha256sum does.
know() { # FILE PATH
	local sum
	read -r sum _ < <(sha256sum <"$1")
	printf '%s  %s\n' "$sum" "$2" >>known
}

make_new() { # [BYTES]
	head -c "${1:-1000}" /dev/urandom >new/file
}

put_file() { # ID [BYTES]
	make_new "${2:-}"
	know new/file "uploads/$1"
	local path=london/uploads/$1
	[ -d "${path%/*}" ] || mkdir -p "${path%/*}"
	mv new/file "$path"
}

put_object() { # [BYTES]
	local oid

	make_new "${1:-}"
	read -r oid _ < <(sha256sum <new/file)
	oid=lfs/${oid:0:2}/${oid:2:2}/${oid:4}
	know new/file "$oid"
	mkdir -p "london/${oid%/*}"
	mv new/file "london/$oid"
}

# Several small ones, which are brought in one request; one is empty, some are replaced.
number=0
change_blobs() {
	number=$((number + 1))
	put_file a/one
	put_file "a/$number/x" 5
	put_file "a/$number/empty" 0
	put_file "a/$number/y" 300000
	put_object
	put_object 70000
}

blob_sums() { # SITE
	(cd "$1" && find uploads lfs -name '.refrelay*' -prune -o -type f -print0 |
		xargs -0r sha256sum) | LC_ALL=C sort -k 2
}

no_half_blob() { # SITE
	blob_sums "$1" >sums
	if grep -vxFf known sums; then
		fail "$1 has what nobody has put there"
	fi
}

same_blobs() {
	blob_sums london >london.sums
	blob_sums paris | diff london.sums -
}

# Files (as same_blobs has read them), the primary's rows and the secondary's say the same.
rows_agree() {
	local site type

	for site in london paris; do
		for type in uploads lfs; do
			at "$site" blob list --json --type "$type" >"$site.$type.rows" || return
		done
	done
	python3 - <<-'END'
		import json
		files = {}
		for line in open("london.sums"):
		    digest, path = line.rstrip("\n").split("  ", 1)
		    files[path] = digest
		rows = {}
		for site in "london", "paris":
		    for kind in "uploads", "lfs":
		        for row in json.load(open(f"{site}.{kind}.rows"))["blobs"]:
		            rows.setdefault(site, {})[f"{kind}/{row['name']}"] = row
		for path in files.keys() | rows.get("london", {}).keys() | rows.get("paris", {}).keys():
		    here, there = rows["london"].get(path), rows["paris"].get(path)
		    assert path in files and here and there, f"{path}: {files.get(path)} {here} {there}"
		    for key in "timeline", "generation", "checksum", "size":
		        assert here[key] == there[key], f"{path}: {here} {there}"
		    assert here["checksum"] == files[path], f"{path}: {here}"
		    assert here["verification"] == "succeeded", f"{path}: {here}"
		    assert (there["state"], there["verification_state"]) == \
		        ("synced", "succeeded"), f"{path}: {there}"
	END
}

is_whole() {
	in_sync && same_blobs && rows_agree
}

temporaries() { # [FIND-OPTION...]
	find london paris \( -path '*/.refrelay/incoming/*' -o -path '*/.refrelay-incoming/*' \) \
		-type f "$@"
}

# As if they had been lying there for as long as they may: those that nobody continues.
age_temporaries() {
	temporaries -name '*.new' -exec touch -d '8 days ago' {} +
}

no_temporaries() {
	local found

	found=$(temporaries)
	[ -z "$found" ] && return
	echo "left over: $found"
	return 1
}

no_empty_folders() {
	local found

	found=$(find paris/uploads paris/lfs -mindepth 1 -name .refrelay -prune -o \
		-type d -empty -print)
	[ -z "$found" ] && return
	echo "empty: $found"
	return 1
}

# Ids without gaps; of each blob's life all generations, and none without a change.
blob_events_are_dense() {
	at london events --json >events
	python3 - <<-'END'
		import json
		last, lives, now = 0, {}, {}
		for line in open("events"):
		    event = json.loads(line)
		    assert event["id"] == last + 1, f"after {last}: {line}"
		    last = event["id"]
		    if event["kind"] == "repository":
		        continue
		    life = event["kind"], event["name"], event["timeline"]
		    before = lives.get(life)
		    step = event["event"] != "checksum_succeeded"
		    assert event["generation"] == (before["generation"] if before else 0) + step, line
		    assert before is None or before["event"] != "deleted", line
		    if before and before.get("checksum") and event["event"] == "updated":
		        assert event.get("checksum") != before["checksum"], line
		    lives[life] = event
	END
}

is_whole_again() {
	wait_until 20 is_whole
	wait_until 5 no_temporaries
	no_empty_folders
	blob_events_are_dense
}

# It dies at POINT, which the CHANGE brings about; what is there then is looked at before
# it is started again.
dies_at() { # SITE POINT CHANGE...
	local site=$1 point=$2
	shift 2
	echo "$site, $point:"
	kill_site "$site"
	start_or_die "$site" "REFRELAY_FAILPOINT=$point=kill"
	"$@"
	is_killed_within 15 "$site"
	no_half_blob london
	no_half_blob paris
	age_temporaries
	start_site "$site"
	is_whole_again
}

# Whatever is left from before may be enough to die of.
start_or_die() { # SITE VAR=VALUE
	launch_site "$@"
	wait_until 20 is_serving_or_dead "$1"
}

is_serving_or_dead() { # SITE
	has_died "$1" || is_serving "$1"
}
