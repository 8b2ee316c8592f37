#!/usr/bin/env bash
# Requests hidden in others, sent to the node itself and through nginx as the manual sets
# it up: nothing hidden is done, and everybody gets what is his.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"
. "$TESTS/lib/nginx.sh"

PEERS=$TESTS/peers

make_smuggled() {
	make_served
	make_repository one/git/honest.git 3
	git -C one/git/honest.git branch -m main own
	git -C one/git/honest.git symbolic-ref HEAD refs/heads/own
	start_site one
}

port_of_one() {
	local url
	url=$(site_url one)
	echo "${url##*:}"
}

is_well() {
	adv >now
	grep -aq refs/heads/main now
	[ "$(oid2 refs/heads/main)" = "$(commit_of main)" ]
	rm -rf clone
	git clone -q "$U" clone
}

to_the_node() {
	make_smuggled
	python3 "$PEERS/smuggle.py" "$(port_of_one)"
	is_well
	stop_site one
}

through_a_proxy() {
	make_smuggled
	start_nginx
	python3 "$PEERS/smuggle.py" "$NGINX_PORT"
	U=http://127.0.0.1:$NGINX_PORT/r.git
	is_well
	stop_nginx
	stop_site one
}

# The proxy keeps its connections to the node and puts requests of many clients on them.
through_shared_connections() {
	make_smuggled
	NGINX_TO='http://node; proxy_set_header Connection ""'
	start_nginx "upstream node { server 127.0.0.1:$(port_of_one); keepalive 2; }"
	grep -qF 'proxy_pass http://node; proxy_set_header Connection "";' nginx/conf
	python3 "$PEERS/smuggle.py" "$NGINX_PORT"
	U=http://127.0.0.1:$NGINX_PORT/r.git
	is_well
	stop_nginx
	stop_site one
}

pipelines() {
	make_smuggled
	python3 "$PEERS/pipeline.py" "$(port_of_one)"
	start_nginx
	python3 "$PEERS/pipeline.py" "$NGINX_PORT"
	stop_nginx
	stop_site one
}

tap_test "nothing that is hidden in a request is done by the node" to_the_node
tap_test "nothing that is hidden in a request is done behind nginx" through_a_proxy
tap_test "connections that nginx shares bring everybody what is his" \
	through_shared_connections
tap_test "requests in a row are answered in their order" pipelines
tap_done
