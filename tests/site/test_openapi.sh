#!/usr/bin/env bash
# The nodes answer as docs/openapi.json says: schemathesis 4.32.5 asks a primary and a secondary what
# it makes up by that document, right and wrong. pip fetches it, in the versions of the lock file in
# tests/peers/schemathesis, and keeps it in the cache of whoever runs this: the first run takes a
# network.
cache=${HOME:-/root}
# It is started four times: compiled once.
unset PYTHONDONTWRITEBYTECODE
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/blob_tree.sh"

set_up() {
	local site

	python3 -m venv venv
	venv/bin/pip install -q --require-hashes --no-deps --no-compile --cache-dir "$cache/.cache/pip" \
		-r "$TESTS/peers/schemathesis/requirements.txt" || fail "pip cannot fetch schemathesis: see above"
	make_tree_sites
	(umask 077 && echo 0123456789abcdef-operator >operator.token)
	for site in london paris; do
		set_conf "$site" http.operatorTokenFile "$PWD/operator.token"
		set_conf "$site" http.url "$(site_url "$site")/"
		set_conf "$site" http.anonymousRead false
	done
	make_repository london/git/team/a.git 3
	make_repository london/git/b.git 2
	put_file london/tree/one one
	put_file london/tree/sub/two two
	git init -q --bare pushed/b.git
	set_conf london remote.copy.url "$PWD/pushed/\${name}.git"
	set_conf london remote.copy.projects b
	start_sites
	wait_until 20 tree_is_here
	for site in london paris; do
		wait_until 20 site_answers "$site" /readyz
	done
}

# What is asked is the same each time. All checks are made but one: a name may be wrong in ways that
# no schema says, so it may be refused.
ask() { # SITE CONFIGURATION OPTION...
	local site=$1 conf=$2
	shift 2
	# From a file: it would not ask for a document that it had fetched itself.
	curl -fsS -H "Authorization: Bearer $(cat operator.token)" -o openapi.json \
		"$(site_url "$site")/api/v1/openapi.json"
	venv/bin/schemathesis --config-file "$conf" run openapi.json -u "$(site_url "$site")" \
		-H "Authorization: Bearer $(cat operator.token)" --seed 20 --no-color --no-shrink \
		--exclude-checks positive_data_acceptance "$@" >"$site.asked" 2>&1 || {
		cut -c 1-1000 "$site.asked"
		return 1
	}
	grep -q "Selected: $operations/$operations" "$site.asked"
	grep -q "Tested: $operations" "$site.asked"
	tail -n 5 "$site.asked"
}

# Nobody waits for an event that does not come; all else is made up, right and wrong.
as_it_comes() { # SITE
	cd "$SHARED"
	operations=$(number_of_operations)
	cat >made_up.toml <<-END
		[[operations]]
		include-name = "GET /api/v1/events"
		parameters = { "query.wait" = 0 }
	END
	ask "$1" made_up.toml -n 2
}

# Of what is there.
of_what_is_there() { # SITE
	cd "$SHARED"
	operations=$(number_of_operations)
	cat >there.toml <<-END
		[[operations]]
		include-path-regex = "^/api/v1/repositories/"
		parameters = { "path.name" = "team/a" }
		[[operations]]
		include-path-regex = "^/api/v1/(blobs|retrieve)/"
		parameters = { "path.kind" = "tree", "path.name" = "sub/two" }
		[[operations]]
		include-name = "GET /api/v1/events"
		parameters = { "query.wait" = 0, "query.after" = 0 }
	END
	ask "$1" there.toml -m positive -n 2
	grep -aqE 'target=/api/v1/repositories/team%2Fa .*status=200' "$1/log"
	grep -aqE 'target=/api/v1/blobs/tree/sub%2Ftwo .*status=200' "$1/log"
}

number_of_operations() {
	python3 -c 'import json, sys
print(sum(len(methods) for methods in json.load(open(sys.argv[1]))["paths"].values()))' \
		"$TESTS/../docs/openapi.json"
}

tap_set_up set_up
for site in london paris; do
	tap_test "$site answers as the document says" as_it_comes "$site"
	tap_test "$site answers so of what is there" of_what_is_there "$site"
done
tap_done
