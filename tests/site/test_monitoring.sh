#!/usr/bin/env bash
# What a node tells monitors, as Prometheus and its promtool take it; and that the rules and the
# dashboard in packaging/monitoring/ ask for nothing else.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/blob_tree.sh"
monitoring=$TESTS/../packaging/monitoring

# Rome stands alone, mirrors london by its manifest, and has TLS: so each metric is somewhere.
make_rome() {
	mkdir -p rome/git
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3 -subj /CN=rome \
		-addext subjectAltName=IP:127.0.0.1 -keyout rome/key -out rome/certificate 2>openssl.log ||
		{ cat openssl.log; return 1; }
	cat >rome/refrelay.conf <<-END
		[site]
			name = rome
			role = standalone
			repositories = "$PWD/rome/git"
			data = "$PWD/rome/data"
		[http]
			listen = 127.0.0.1:$(free_port)
			tlsCertificate = "$PWD/rome/certificate"
			tlsKey = "$PWD/rome/key"
		[mirrors "all"]
			from = grokmirror
			url = $(site_url london)/manifest.js.gz
			interval = 1s
	END
	export CURL_CA_BUNDLE=$PWD/rome/certificate
}

# Milan stands alone, and its only mirror's upstream is not there.
make_milan() {
	mkdir -p milan/git
	cat >milan/refrelay.conf <<-END
		[site]
			name = milan
			role = standalone
			repositories = "$PWD/milan/git"
			data = "$PWD/milan/data"
		[http]
			listen = 127.0.0.1:$(free_port)
		[mirror "gone"]
			url = http://127.0.0.1:$(free_port)/gone.git
			interval = 1s
	END
}

set_up() {
	command -v promtool >/dev/null || fail "promtool is missing; tools/packages.sh test installs it"
	make_tree_sites
	set_conf paris http.anonymousRead true
	make_rome
	make_repository london/git/a.git 3
	make_repository london/git/b.git 2
	put_file london/tree/one one
	git init -q --bare pushed/b.git
	set_conf london remote.copy.url "$PWD/pushed/\${name}.git"
	set_conf london remote.copy.projects b
	start_site london
	scrape london london.first
	start_site paris
	scrape paris paris.first
	start_site rome
	scrape rome rome.first
	wait_until 20 tree_is_here
	wait_until 20 test -e rome/git/b.git/HEAD
}

scrape() { # SITE FILE [CURL-OPTION...]
	CURL_CA_BUNDLE=$SHARED/rome/certificate curl -fsS "${@:3}" -o "$2" "$(site_url "$1")/metrics"
}

# Those of the documents, none of which names a repository.
labels_are_known() { # FILE
	grep -v '^refrelay_build_info{' "$1" | sed -n 's/^[a-z_]*{\(.*\)} .*/,\1/p' |
		grep -oE ',[a-z]+="' | sort -u >labels
	[ -s labels ]
	fails grep -vxE ',(site|kind|remote|state|class|le)="' labels
}

promtool_takes_them() {
	local site

	cd "$SHARED"
	for site in london paris rome; do
		scrape "$site" now
		promtool check metrics <now >said 2>&1 || { cat said; return 1; }
		[ ! -s said ] || fail "$site: $(<said)"
		labels_are_known now
		grep -q '^refrelay_build_info{version="[0-9.]*",schema="[0-9]*",protocol="1"} 1$' now
	done
}

# Names and labels, without values.
series() {
	sed -n 's/^\([^#].*\) [^ ]*$/\1/p' "$1" | LC_ALL=C sort
}

# What is new since the node's start was counted before it was shown.
all_are_there_from_the_start() {
	local site

	cd "$SHARED"
	add_commits london/git/b.git refs/heads/main 2
	at london changed b
	git clone -q "$(site_url london)/a.git" clone
	git clone -q "$(site_url paris)/a.git" clone.paris
	curl -s -o refused -H 'Authorization: Bearer wrong' "$(site_url london)/api/v1/status"
	curl -s -o missing "$(site_url london)/none"
	rm paris/tree/one
	at paris blob resync one
	at paris repository reverify a
	wait_until 20 tree_is_here
	wait_until 20 same_branch
	for site in london paris rome; do
		scrape "$site" now
		[ -s "$site.first" ]
		comm -13 <(series "$site.first") <(series now) >later
		[ ! -s later ] || fail "$site told these only later: $(<later)"
	done
	scrape london now
	grep -q '^refrelay_http_refused_total{class="BAD_CREDENTIALS"} [1-9]' now
	grep -q '^refrelay_http_request_duration_seconds_count{kind="git_refs",class="2xx"} [1-9]' now
	wait_until 10 a_push_is_counted
	scrape paris now
	grep -q '^refrelay_change_to_verified_seconds_count{kind="repository"} [1-9]' now
}

# A push is counted a moment after its refs have arrived.
a_push_is_counted() {
	scrape london now
	grep '^refrelay_pushes_total{remote="copy",class="ok"} [1-9]' now
}

same_branch() {
	[ "$(git -C london/git/b.git rev-parse main)" = "$(git -C pushed/b.git rev-parse main)" ]
}

rules_are_right() {
	promtool check rules "$monitoring/refrelay.rules.yml"
	promtool test rules "$TESTS/data/monitoring/refrelay.rules.test.yml" >said 2>&1 || {
		cat said
		return 1
	}
	fails grep -i 'no file match' said
	# Each alert is seen to fire.
	sed -n 's/^ *- alert: //p' "$monitoring/refrelay.rules.yml" | sort >alerts
	[ -s alerts ]
	grep -B1 'exp_alerts:' "$TESTS/data/monitoring/refrelay.rules.test.yml" |
		sed -n 's/^ *alertname: //p' | sort -u >fired
	diff alerts fired
}

# A metric that is misspelt, or was renamed, would be silent for ever.
they_ask_for_what_there_is() {
	local site

	cd "$SHARED"
	for site in london paris rome; do
		scrape "$site" "$site.now"
	done
	cat >look.py <<-'END'
		import json, re, sys
		rules, dashboard, *scrapes = sys.argv[1:]
		there = set()
		for path in scrapes:
		    there |= {re.match(r"[a-z0-9_]+", line)[0] for line in open(path) if line[0] != "#"}
		text = open(rules).read()
		there |= set(re.findall(r"record: (\S+)", text))
		asked = [line for line in text.splitlines() if re.match(r" *expr:", line)]
		def expressions(panels):
		    for panel in panels:
		        yield from (target["expr"] for target in panel.get("targets", ()))
		        yield from expressions(panel.get("panels", ()))
		board = json.load(open(dashboard))
		asked += list(expressions(board["panels"]))
		asked += [one["query"] for one in board["templating"]["list"]]
		names = set()
		for expression in asked:
		    bare = re.sub(r'"[^"]*"', '""', expression)
		    names |= set(re.findall(r"\b(?:refrelay_|refrelay:|process_)[a-z0-9_:]+", bare))
		assert len(names) > 50, names
		lacking = sorted(names - there)
		sys.exit("no node has " + ", ".join(lacking) if lacking else 0)
	END
	python3 look.py "$monitoring/refrelay.rules.yml" "$monitoring/refrelay-dashboard.json" ./*.now
	# It would have been found.
	sed 's/refrelay_lag_seconds/refrelay_lagg_seconds/' "$monitoring/refrelay.rules.yml" >wrong.yml
	fails python3 look.py wrong.yml "$monitoring/refrelay-dashboard.json" ./*.now
	# Each expression is one that Prometheus understands.
	python3 - "$monitoring/refrelay-dashboard.json" >panels.yml <<-'END'
		import json, sys
		print("groups:\n  - name: panels\n    rules:")
		for panel in json.load(open(sys.argv[1]))["panels"]:
		    for target in panel.get("targets", ()):
		        print(f"      - record: panel:{panel['id']}:{target['refId']}\n        expr: {json.dumps(target['expr'])}")
	END
	promtool check rules panels.yml
}

ask_prometheus() { # EXPRESSION
	curl -fsS --get --data-urlencode "query=$1" "http://$prometheus/api/v1/query" >answer
	python3 -c 'import json
print(*sorted(one["metric"].get("instance", "") + " " + one["value"][1] for one in json.load(open("answer"))["data"]["result"]))'
}

says() { # EXPRESSION TEXT
	[ "$(ask_prometheus "$1")" = "$2" ] || { ask_prometheus "$1"; return 1; }
}

# It asks for OpenMetrics, and takes no target whose answer has a fault.
prometheus_takes_them() {
	local london paris milan

	cd "$SHARED"
	make_milan
	start_site milan
	find_http_value milan listen
	milan=$http_value
	find_http_value london listen
	london=$http_value
	find_http_value paris listen
	paris=$http_value
	prometheus=127.0.0.1:$(free_port)
	cat >prometheus.yml <<-END
		global: { scrape_interval: 1s, evaluation_interval: 1s }
		rule_files: [ "$monitoring/refrelay.rules.yml" ]
		scrape_configs:
		  - job_name: refrelay
		    static_configs: [{ targets: ["$london", "$paris", "$milan"] }]
	END
	prometheus --config.file=prometheus.yml --storage.tsdb.path="$PWD/tsdb" \
		--web.listen-address="$prometheus" --log.level=warn >prometheus.log 2>&1 &
	wait_until 30 says 'up' "$(printf '%s\n' "$london 1" "$paris 1" "$milan 1" | sort | xargs)"
	wait_until 20 says 'refrelay_in_sync' \
		"$(printf '%s\n' "$london 1" "$paris 1" "$milan 0" | sort | xargs)"
	says 'count(refrelay_http_request_duration_seconds_bucket{le="0.025",kind="git_refs",class="2xx"})' ' 3'
	# An upstream that never answered leads to an alert, half an hour later.
	wait_until 20 says 'ALERTS{alertname="RefrelayMirrorsFail",alertstate="pending"}' "$milan 1"
	wait_until 20 says 'count(ALERTS{alertstate="firing"}) or vector(0)' ' 0'
	# A counter's family is called so in OpenMetrics alone.
	curl -fsS -o metadata "http://$prometheus/api/v1/metadata?metric=refrelay_http_requests"
	grep -q '"type":"counter"' metadata
}

tap_set_up set_up
tap_test "promtool finds no fault in what nodes tell" promtool_takes_them
tap_test "each series is there from the start, with 0" all_are_there_from_the_start
tap_test "the rules are right, and each alert fires and ends" rules_are_right
tap_test "rules and dashboard ask for what nodes have" they_ask_for_what_there_is
tap_test "Prometheus itself takes it, as OpenMetrics" prometheus_takes_them
tap_done
