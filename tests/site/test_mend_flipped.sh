#!/usr/bin/env bash
# A copy in which a byte has changed without a trace, so that Git fails with it: readers get what
# the primary has, by each protocol, and the copy mends itself. No client brings that about.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

make_readable() {
	make_sites
	set_conf paris http.anonymousRead true
	set_conf paris sync.maintenance false # the packs are as the test makes them
	unwatch paris # it is the readers who find what is wrong
	make_repository london/git/first.git 1
	start_sites
	wait_until 20 in_sync
}

# One byte of a file, as a disk rots.
flip() { # REPOSITORY WHERE
	python3 - "$@" <<-'END'
		import glob, os, re, subprocess, sys
		repository, where = sys.argv[1:]

		def git(*command):
		    return subprocess.run(("git", "-C", repository) + command, check=True,
		                          capture_output=True, text=True).stdout.strip()

		def pack(end):
		    [path] = glob.glob(f"{repository}/objects/pack/pack-*.{end}")
		    return path

		def in_pack(what):
		    listed = git("verify-pack", "-v", os.path.relpath(pack("idx"), repository))
		    [line] = re.findall(f"^{git('rev-parse', what)} .*", listed, re.M)
		    return int(line.split()[4])

		def in_index(what):
		    with open(pack("idx"), "rb") as file:
		        return file.read().index(bytes.fromhex(git("rev-parse", what)))

		# Its parent's number, which then is beyond the last.
		def parent_of_tip():
		    with open(graph, "rb") as file:
		        data = file.read()
		    def chunk(name):
		        at = data.index(name) + 4
		        return int.from_bytes(data[at:at + 8], "big")
		    names, commits = chunk(b"OIDL"), chunk(b"CDAT")
		    place = data.index(bytes.fromhex(git("rev-parse", "main")), names)
		    return commits + (place - names) // 20 * 36 + 20 + 2

		graph = repository + "/objects/info/commit-graph"
		path, at = {
		    "index-tip": lambda: (pack("idx"), in_index("main") + 5),
		    "index-old": lambda: (pack("idx"), in_index("main~6") + 5),
		    "index-header": lambda: (pack("idx"), 1),
		    "index-fanout": lambda: (pack("idx"), 8),
		    "pack-header": lambda: (pack("pack"), 1),
		    "pack-count": lambda: (pack("pack"), 11),
		    "pack-tail": lambda: (pack("pack"), -5),
		    "pack-tip": lambda: (pack("pack"), in_pack("main") + 5),
		    "midx": lambda: (repository + "/objects/pack/multi-pack-index", 1),
		    "commit-graph": lambda: (graph, -200),
		    "graph-parents": lambda: (graph, parent_of_tip()),
		}[where]()
		before = os.stat(path)
		with open(path, "rb") as file:
		    data = bytearray(file.read())
		data[at] ^= 0xFF
		os.chmod(path, 0o644)
		with open(path, "r+b") as file:
		    file.write(data)
		os.chmod(path, before.st_mode & 0o777)
		os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
	END
}

# The node looks at a copy once more when its own sync has ended. It must not be the one that
# finds what was flipped.
is_settled() { # NAME
	awk -v name="$1" '
		$0 ~ " ev=copy.doubted .* name=" name "$" { state = "doubted" }
		$0 ~ " ev=lease.acquired job=sync repo=" name " " { state = "begun" }
		/ ev=copy_watch.settled / && state == "begun" { state = "settled" }
		END { exit state != "settled" }' paris/log
}

count_doubts() { # NAME
	logged paris copy.doubted "name=$1\$" || true
}

is_doubted_again() { # NAME BEFORE
	[ "$(count_doubts "$1")" -gt "$2" ]
}

# Where git fails before it has sent much: the reader gets what the primary has, whatever it
# speaks, and the copy is doubted and mended.
met_by_protocol() { # NUMBER
	local where name doubts
	local -a places=(index-tip index-old index-header index-fanout pack-header pack-count
		pack-tail pack-tip midx commit-graph graph-parents)
	cd "$SHARED"
	make_repository rotten.git 20
	git -C rotten.git repack -adq
	for where in "${places[@]}"; do
		cp -r rotten.git copied.git
		mv copied.git "london/git/$where-$1.git" # whole at once: nothing comes later
	done
	rm -rf rotten.git got
	wait_until 40 in_sync
	for where in "${places[@]}"; do
		name=$where-$1
		wait_until 20 row_is paris "$name" verification_state succeeded
		# The node would look at it in the middle, and put in order what is half done.
		kill -STOP "$(site_pid paris)"
		git -C "paris/git/$name.git" repack -adq --no-write-bitmap-index
		[ "$where" != midx ] || git -C "paris/git/$name.git" multi-pack-index write
		[[ $where != *graph* ]] ||
			git -C "paris/git/$name.git" commit-graph write --reachable
		kill -CONT "$(site_pid paris)"
		at paris repository resync --wait "$name"
		wait_until 20 row_is paris "$name" verification_state succeeded
		wait_until 20 is_settled "$name"
		doubts=$(count_doubts "$name")
		flip "paris/git/$name.git" "$where"
		git -c "protocol.version=$1" clone -q --mirror "$(site_url paris)/$name.git" got
		wait_until 2 is_doubted_again "$name" "$doubts"
		equal_repositories "london/git/$name.git" got
		rm -rf got
		wait_until 20 is_settled "$name"
	done
	wait_until 40 in_sync
	for where in "${places[@]}"; do
		equal_repositories "london/git/$where-$1.git" "paris/git/$where-$1.git"
	done
}

# Nobody can make a copy doubtful who asks for what no ref has.
who_asks_for_what_no_ref_has_causes_no_doubt() {
	local before
	cd "$SHARED"
	make_repository asked.git 3
	mv asked.git london/git/
	wait_until 20 row_is paris asked verification_state succeeded
	before=$(logged paris copy.doubted) || true
	rm -rf asks.git
	git init -q --bare asks.git
	for version in 0 1 2; do
		expect 128 git -C asks.git -c "protocol.version=$version" fetch \
			"$(site_url paris)/asked.git" "$(printf '1%.0s' {1..40})"
	done
	[ "$(logged paris copy.doubted)" = "$before" ]
	in_sync
}

packets() { # LINE...: 0000 and 0001 are as they are
	local line
	for line; do
		case $line in
		0000 | 0001) printf %s "$line" ;;
		*) printf '%04x%s' $((${#line} + 4)) "$line" ;;
		esac
	done
}

says() { # SITE STATUS PROTOCOL LINE...
	local site=$1 wanted=$2 version=$3 said
	shift 3
	said=$(packets "$@" | curl -sS -m 30 -o answer -w '%{http_code}' --data-binary @- \
		-H "Git-Protocol: version=$version" \
		-H 'Content-Type: application/x-git-upload-pack-request' \
		"$(site_url "$site")/asked.git/git-upload-pack")
	[ "$said" = "$wanted" ] || fail "$site said $said to: $*; $(head -c 300 answer)"
}

# Whatever git then says, with the client's own words in it.
nobody_makes_a_repository_doubtful_by_what_he_sends() {
	local site tip doubts
	local -a fetch
	cd "$SHARED"
	tip=$(git -C london/git/asked.git rev-parse main)
	doubts=$(cat london/log paris/log | grep -acE 'ev=(copy|repository).doubted') || true
	fetch=(command=fetch 0001 "want $tip")
	for site in london paris; do
		says "$site" 400 2 command=fetch 'is corrupt' 0000
		says "$site" 400 2 'ERR refrelay says corrupt: bad object' 0000
		says "$site" 400 2 command=fetch 0001 'want bad object' 0000
		says "$site" 400 2 "${fetch[@]}" 'shallow is corrupt' 0000
		says "$site" 400 2 "${fetch[@]}" 'deepen-not bad object' done 0000
		says "$site" 400 2 command=fetch object-format=sha256 0000
		says "$site" 400 2 "${fetch[@]}" 'filter object:type=is corrupt' done 0000
		says "$site" 400 2 "${fetch[@]}" \
			filter\ combine:object:type=is%20corrupt+tree:0 done 0000
		says "$site" 200 2 "${fetch[@]}" filter\ sparse:oid=nosuch done 0000
		grep -a "ERR filter 'sparse:oid' not supported" answer
		says "$site" 400 0 'want bad object' 0000
		says "$site" 400 0 "want $tip" 'shallow is corrupt' 0000
		rm -rf got
		expect 128 git -c protocol.version=2 clone -q --shallow-exclude=nosuch \
			"$(site_url "$site")/asked.git" got
		expect 128 git -c protocol.version=0 clone -q --shallow-exclude=nosuch \
			"$(site_url "$site")/asked.git" got
		at "$site" repository show --json asked >row
		grep -qE '"verification(_state)?":"succeeded"' row || fail "$(cat row)"
	done
	[ "$(cat london/log paris/log | grep -acE 'ev=(copy|repository).doubted')" = "$doubts" ]
	in_sync
}

# The reader gets what the primary says. Of the copy that says nothing.
words_of_git_that_are_not_known_are_no_doubt() {
	local before
	cd "$SHARED"
	before=$(logged paris copy.doubted) || true
	mkdir -p shim
	printf '#!/bin/sh\ncase "$*" in *--http-backend-info-refs*) ;; *upload-pack*)
		echo "fatal: phase of the moon" >&2; exit 128 ;; esac
		exec %s "$@"\n' "$(command -v git)" >shim/git
	chmod +x shim/git
	kill "$(site_pid paris)"
	wait_until 20 has_died paris
	start_site paris PATH="$PWD/shim:$PATH"
	wait_until 20 in_sync
	rm -rf got
	git clone -q --mirror "$(site_url paris)/asked.git" got
	equal_repositories london/git/asked.git got
	[ "$(logged paris copy.doubted)" = "$before" ]
	row_is paris asked verification_state succeeded

	# What only another git may know is not served here either, if there is no primary.
	ln -sf "$(command -v git)" shim/git
	kill "$(site_pid london)"
	wait_until 20 has_died london
	says paris 400 2 command=fetch 'is corrupt' 0000
	fails was_logged paris git.served_unheard
}

tap_set_up make_readable
for version in 0 1 2; do
	tap_test "a flipped byte that git fails with is nobody's answer, by protocol $version" \
		met_by_protocol "$version"
done
tap_test "who asks for what no ref has causes no doubt" \
	who_asks_for_what_no_ref_has_causes_no_doubt
tap_test "nobody makes a repository doubtful by what he sends" \
	nobody_makes_a_repository_doubtful_by_what_he_sends
# The last: that node ends with its test.
tap_test "words of git that are not known are no doubt" \
	words_of_git_that_are_not_known_are_no_doubt
tap_done
