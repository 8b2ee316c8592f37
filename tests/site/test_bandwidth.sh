#!/usr/bin/env bash
# How much a secondary takes: sync.bandwidth counts git and blobs together,
# sync.blobCapacity says how many requests for blobs are under way at once.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

make_blob_sites() {
	local site
	make_sites
	for site in london paris; do
		mkdir -p "$site/files"
		set_conf "$site" blob.files.path "$PWD/$site/files"
	done
}

# What does not shrink.
put_random() { # PATH KIBIBYTES
	head -c "$(($2 * 1024))" /dev/urandom >"$1"
}

put_repository() { # PATH KIBIBYTES
	git init -q --bare --initial-branch=main "$1"
	put_random noise "$2"
	{
		printf 'commit refs/heads/main\ncommitter A <a@example.com> 1 +0000\ndata 1\nx\n'
		printf 'M 100644 inline noise\ndata %d\n' "$(stat -c %s noise)"
		cat noise
		printf '\ndone\n'
	} | git -C "$1" fast-import --quiet --done
	rm noise
}

blobs_are_here() {
	diff -r -x .refrelay london/files paris/files && in_sync
}

all_is_here() {
	blobs_are_here && same_sites
}

# Of what SITE has logged with a duration: their number, how many were under way at once, and
# milliseconds from the first one's begin to the last one's end.
spans_of() { # SITE EVENT [PATTERN]
	python3 - "$1/log" "$2" "${3-}" <<'END'
import datetime, re, sys
spans = []
for line in open(sys.argv[1], errors="replace"):
    found = re.search(rf"^ts=(\S+)Z .* ev={sys.argv[2]} .*dur_ms=(\d+) .*{sys.argv[3]}", line)
    if found:
        end = datetime.datetime.fromisoformat(found[1]).timestamp() * 1000
        spans.append((end - int(found[2]), end))
# The end of one may be told a moment after the next has begun.
inner = [(begin + 50, end - 50) for begin, end in spans if end - begin > 100]
most = max((sum(b <= at < e for b, e in inner) for at, _ in inner), default=0)
print(len(spans), most, round(max(e for _, e in spans) - min(b for b, _ in spans)) if spans else 0)
END
}

git_and_blobs_share_what_there_is() {
	local i count took

	make_blob_sites
	put_repository london/git/r.git 10240
	put_random london/files/large 5120
	for i in 1 2 3 4 5 6 7 8 9 10; do
		put_random "london/files/small$i" 512
	done
	start_site london
	wait_until 20 all_is_read
	set_conf paris sync.bandwidth 5m
	start_site paris
	wait_until 60 all_is_here
	read -r count _ took < <(spans_of london 'http\.request' 'target=\S*(git-upload-pack|retrieve/files)')
	echo "$count requests, $took ms"
	# 20 MiB, of which a moment's worth is not waited for.
	[ "$took" -ge 3800 ]
}

# The primary has computed all checksums.
all_is_read() {
	at london blob list >list && [ "$(wc -l <list)" -gt 0 ] && ! grep -v '^read ' list
}

no_more_requests_than_allowed_are_under_way() {
	local i count most

	make_blob_sites
	for i in 1 2 3 4 5 6 7 8; do
		put_random "london/files/f$i" 1200
	done
	set_conf paris sync.blobCapacity 2
	set_conf paris sync.bandwidth 5m # each takes a while
	start_site london
	wait_until 20 all_is_read
	start_site paris
	wait_until 60 blobs_are_here
	read -r count _ < <(spans_of london 'http\.request' 'target=\S*retrieve/files')
	# A request may be logged late, when others have begun; a job is before the next one begins, and has
	# one blob of this size.
	read -r _ most _ < <(spans_of paris 'blob\.done' 'count=1 ')
	echo "$count requests, $most at once"
	[ "$count" -ge 8 ]
	[ "$most" -eq 2 ]
}

tap_test 'git and blobs share what there is' git_and_blobs_share_what_there_is
tap_test 'no more requests than allowed are under way' \
	no_more_requests_than_allowed_are_under_way
tap_done
