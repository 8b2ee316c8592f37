#!/usr/bin/env bash
# TLS without a server in front: stock clients, a new certificate while it runs, and what is
# wrong with the files is said.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"

make_certificate() { # NAME
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3 \
		-keyout "$1.key" -out "$1.pem" -subj "/CN=$1" \
		-addext subjectAltName=IP:127.0.0.1 2>/dev/null
	chmod 600 "$1.key"
}

make_old_certificate() {
	faketime '2020-01-01 00:00:00' bash -c "$(declare -f make_certificate); make_certificate old"
}

use_certificate() { # NAME
	cp "$1.pem" shown.pem
	cp "$1.key" shown.key
}

make_secured() {
	local name

	make_served
	for name in first second; do
		make_certificate "$name"
	done
	use_certificate first
	set_conf one http.tlsCertificate "$PWD/shown.pem"
	set_conf one http.tlsKey "$PWD/shown.key"
	U=$(site_url one)/r.git
	export CURL_CA_BUNDLE=$PWD/first.pem
}

trusting() { # NAME COMMAND...
	local name=$1
	shift
	GIT_SSL_CAINFO=$PWD/$name.pem CURL_CA_BUNDLE=$PWD/$name.pem "$@"
}

reload_one() { # EVENT
	local before

	before=$(logged one "$1" || true)
	kill -HUP "$(site_pid one)"
	wait_until 10 was_logged_again "$1" "$before"
}

was_logged_again() { # EVENT BEFORE
	[ "$(logged one "$1")" -gt "$2" ]
}

same_refs() { # REPOSITORY REPOSITORY
	diff <(git -C "$1" for-each-ref) <(git -C "$2" for-each-ref)
}

permissive() { # CURL-OPTION...
	curl -fsS -m 10 --tlsv1.0 --ciphers DEFAULT@SECLEVEL=0 "$@" \
		"$U/info/refs?service=git-upload-pack"
}

clones() {
	make_secured
	start_site one
	git -c http.sslCAInfo="$PWD/first.pem" clone -q --mirror "$U" copy.git
	same_refs "$R" copy.git
	trusting first git -c protocol.version=0 clone -q --depth 1 "$U" shallow
	trusting first git clone -q --filter=blob:none --bare "$U" partial.git
	fails trusting second git ls-remote "$U" 2>error
	grep -i certificate error
	fails curl -fsS -m 10 "http://${U#https://}/info/refs?service=git-upload-pack"
	# A client that would take the old ones.
	permissive -o answer
	expect 35 permissive --tls-max 1.1
}

# More than the worker would take over if it could.
long_packs() {
	local i clones

	make_secured
	git init -q -b main work
	no_compression work "$R"
	head -c 8000000 /dev/urandom >work/noise
	git -C work add noise
	git -C work commit -qm noise
	git -C work push -q "$R" HEAD:refs/heads/noise
	start_site one
	for i in 1 2 3 4; do
		trusting first git clone -q --bare "$U" "long$i.git" &
		clones[i]=$!
	done
	wait "${clones[@]}"
	for i in 1 2 3 4; do
		same_refs "$R" "long$i.git"
		git -C "long$i.git" fsck --no-progress
	done
}

another_certificate() {
	make_secured
	start_site one
	trusting first adv >answer
	use_certificate second
	reload_one node.reloaded
	trusting second adv >answer2
	cmp answer answer2
	fails trusting first adv
	# The wrong key: nothing changes, and that is said.
	use_certificate first
	cp second.key shown.key
	reload_one node.reload_failed
	wait_until 10 was_logged one node.reload_failed 'http.tlsCertificate.*is not that of the certificate'
	trusting second adv >answer2
	cmp answer answer2
	# One that has expired.
	make_old_certificate
	use_certificate old
	reload_one node.reloaded
	was_logged one node.certificate_expired 'http.tlsCertificate: the certificate expired at 2020-01-0.*remedy='
	fails was_logged one node.restart_needed
	trusting second adv >answer2
	cmp answer answer2
	use_certificate first
	reload_one node.reloaded
	trusting first adv >answer2
	cmp answer answer2
	# Whether there is TLS at all is settled at the start.
	git config --file one/refrelay.conf --unset http.tlsKey
	reload_one node.reload_failed
	git config --file one/refrelay.conf --unset http.tlsCertificate
	reload_one node.restart_needed
	trusting first curl -fsS -m 10 "$U/info/refs?service=git-upload-pack" >answer2
	cmp answer answer2
}

answers_to() { # STATUS TOKEN
	[ "$(curl -ksS -m 10 -o answer -w '%{http_code}' -u "x:$2" \
		"$U/info/refs?service=git-upload-pack")" = "$1" ]
}

configuration_failed_is() { # VALUE TOKEN
	curl -kfsS -m 10 -u "x:$2" -o metrics "$(site_url one)/metrics" &&
		grep -x "refrelay_configuration_failed $1" metrics
}

an_expired_one_that_is_shown() {
	local before after

	make_secured
	make_old_certificate
	use_certificate old
	before=$(openssl rand -hex 20)
	after=$(openssl rand -hex 20)
	(umask 077 && echo "$before" >dev.token)
	set_conf one http.anonymousRead false
	set_conf one token.dev.file "$PWD/dev.token"
	set_conf one token.dev.rights read
	launch_site one
	wait_until 20 was_logged one node.started
	answers_to 200 "$before"
	answers_to 401 "$after"
	echo "$after" >dev.token
	reload_one node.reloaded
	answers_to 401 "$before"
	answers_to 200 "$after"
	was_logged one node.certificate_expired
	wait_until 10 configuration_failed_is 1 "$after"
	# And it can be replaced.
	use_certificate first
	reload_one node.reloaded
	wait_until 10 configuration_failed_is 0 "$after"
	trusting first curl -fsS -m 10 -u "x:$after" "$U/info/refs?service=git-upload-pack" >answer
	[ "$(logged one node.certificate_expired)" -eq 1 ]
	# Its keys as comments revoke it, too.
	sed -i '/^\[token "dev"\]/,$s/^[[:space:]]\(file\|rights\) = /#&/' one/refrelay.conf
	reload_one node.reloaded
	answers_to 401 "$after"
}

refuses_to_start() { # WORDS
	fails "$REFRELAY" -c one/refrelay.conf serve 2>error
	grep -F "$1" error
	fails at one check >found
	grep -F "$1" found
}

wrong_files() {
	make_secured
	cp second.key shown.key
	refuses_to_start 'is not that of the certificate'
	use_certificate first
	chmod 644 shown.key
	refuses_to_start 'everybody can read or change the key'
	chmod 600 shown.key
	head -c 300 first.pem >shown.pem
	refuses_to_start 'shown.pem'
	use_certificate first
	git config --file one/refrelay.conf --unset http.tlsKey
	refuses_to_start 'http.tlsKey is not set'
	set_conf one http.tlsKey "$PWD/shown.key"
	at one check >found || true # it pushes nowhere
	grep 'note *certificate *the certificate expires in [23] days' found
}

# The primary's certificate is one that the system does not know. By packs as files, by git,
# by requests that are handed on, by check and by replicate.
trusts_an_authority_of_its_own() {
	local url

	make_sites
	make_certificate first
	make_certificate second
	make_repository london/git/r.git 20
	set_conf london http.tlsCertificate "$PWD/first.pem"
	set_conf london http.tlsKey "$PWD/first.key"
	(umask 077 && openssl rand -hex 20 >dev.token)
	set_conf london token.dev.file "$PWD/dev.token"
	set_conf london token.dev.rights push
	url=$(site_url london)
	set_conf paris primary.url "$url"
	set_conf paris primary.caFile "$PWD/none.pem"
	fails "$REFRELAY" -c paris/refrelay.conf serve 2>error
	grep 'primary.caFile: cannot read .*none.pem' error
	set_conf paris primary.caFile "$PWD/second.pem"
	export CURL_CA_BUNDLE=$PWD/first.pem
	start_site london
	unset CURL_CA_BUNDLE
	expect 1 at paris check
	grep '^FAIL   primary .*caFile' out
	set_conf paris primary.caFile "$PWD/first.pem"
	at paris check | grep '^ok     primary '
	start_site paris
	wait_until 30 in_sync
	git clone -q "http://x:$(<dev.token)@${url#https://}/r.git" none 2>/dev/null && fail "no TLS"
	git clone -q london/git/r.git work
	echo more >work/more
	git -C work add more
	git -C work commit -qm more
	git -C work push -q "http://x:$(<dev.token)@$(site_url paris | sed 's,^http://,,')/r.git" HEAD:main
	wait_until 30 same_sites
	expect 1 "$REFRELAY" replicate --secret-file secret --site paris "$url" elsewhere
	expect 0 "$REFRELAY" replicate --secret-file secret --site paris \
		--ca-file "$PWD/first.pem" "$url" elsewhere
	equal_trees london/git elsewhere
}

# The fast path would need no git child.
trusts_it_by_git() {
	make_sites
	make_certificate first
	make_repository london/git/r.git 20
	set_conf london http.tlsCertificate "$PWD/first.pem"
	set_conf london http.tlsKey "$PWD/first.key"
	set_conf paris primary.url "$(site_url london)"
	set_conf paris primary.caFile "$PWD/first.pem"
	set_conf paris sync.fastPath false
	export CURL_CA_BUNDLE=$PWD/first.pem
	start_site london
	unset CURL_CA_BUNDLE
	start_site paris
	wait_until 30 in_sync
	push_change london/git/r.git
	wait_until 30 same_sites
}

tap_test "git's own clients clone by TLS and believe no other certificate" clones
tap_test "long packs come whole, several at a time" long_packs
tap_test "a new certificate is shown at SIGHUP, a wrong one is not" another_certificate
tap_test "a reload revokes a token though the certificate that is shown has expired" \
	an_expired_one_that_is_shown
tap_test "certificates and keys that cannot be right are refused" wrong_files
tap_test "a secondary trusts an authority of its own" trusts_an_authority_of_its_own
tap_test "its git children trust it, too" trusts_it_by_git
tap_done
