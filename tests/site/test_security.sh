#!/usr/bin/env bash
# What docs/security.md says of one site: who may do what there, and what its secrets
# open. The mark of the sentence is before each test's name.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/secured.sh"

set_up() {
	local name

	make_sites
	for name in open/o team/t teamwork/w other/x; do
		make_repository "london/git/$name.git" 3
	done
	set_conf london http.anonymousRead false
	set_conf london http.anonymousRepository 'open/*'
	set_conf london http.url "$(site_url london)/"
	set_conf london http.passwordFile "$PWD/users"
	make_users users alice
	echo 'carol:$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/' >>users # "myPassword"
	make_users more operator "token boss"
	cat more >>users
	give_token london reader read
	give_token london pusher push
	give_token london boss operate
	give_token london some-read read 'team/*'
	give_token london some push 'team/*'
	give_token london old push
	set_conf london token.old.expires 2020-01-01
	(umask 077 && echo 0123456789abcdef-operator >operator.token)
	set_conf london http.operatorTokenFile "$PWD/operator.token"
	write_down london/git/team/t.git
	start_site london
}

without_a_credential() {
	cd "$SHARED"
	is 200 reads - london open/o
	for name in team/t teamwork/w other/x; do
		is 401 reads - london $name
	done
	is 401 pushes - london open/o
	is 401 reads_api - london
	is 401 asked london /metrics
	is 401 orders - london
	is 200 asked london /healthz
	[ "$(asked london /readyz)" != 401 ]
}

# For each repository and thing: what this one is answered.
may() { # CREDENTIAL READ PUSH API ORDER
	local name

	cd "$SHARED"
	for name in open/o team/t teamwork/w other/x; do
		[ "$name" = open/o ] || is "$2" reads "$1" london $name
		is 200 reads "$1" london open/o
		is "$3" pushes "$1" london $name
	done
	is "$4" reads_api "$1" london
	is "$5" orders "$1" london
}

a_user() {
	may user:alice 200 200 200 403
	push_one user:alice "$(site_url london)/other/x.git"
}

operators() {
	may token:boss 200 200 200 200
	may token:operator 200 200 200 200
	git_as token:operator ls-remote -q "$(site_url london)/other/x.git" >/dev/null
}

some_repositories() {
	cd "$SHARED"
	is 200 reads token:some london team/t
	is 200 pushes token:some london team/t
	is 200 reads token:some london open/o
	is 403 pushes token:some london open/o
	for name in teamwork/w other/x; do
		is 403 reads token:some london $name
		is 403 pushes token:some london $name
	done
	is 200 reads token:some-read london team/t
	is 403 pushes token:some-read london team/t
	is 403 reads_api token:some london
	is 403 as token:some london /metrics
	is 403 orders token:some london
	push_one token:some "$(site_url london)/team/t.git"
	fails push_one token:some "$(site_url london)/other/x.git"
}

another_site() {
	local body='{"name":"team/t"}'

	cd "$SHARED"
	export SHARED
	is 200 reads "jwt:$(site_token git 'git-upload-pack other/x')" london other/x
	for service in git-receive-pack git-upload-pack; do
		case $(pushes "jwt:$(site_token git "$service other/x")" london other/x) in
		401 | 403) ;;
		*) fail "it pushes by $service: $(cat answer)" ;;
		esac
		case $(as "jwt:$(site_token git "$service other/x")" london \
			/other/x.git/git-receive-pack -d 0000 \
			-H 'Content-Type: application/x-git-receive-pack-request') in
		401 | 403) ;;
		*) fail "it pushes by $service: $(cat answer)" ;;
		esac
	done
	is 200 as "jwt:$(site_token req 'GET /api/v1/status')" london /api/v1/status
	is 403 as "jwt:$(BODY=$body site_token req 'POST /api/v1/events')" london \
		/api/v1/events -d "$body"
	is 200 as "jwt:$(site_token req 'POST /api/v1/repositories/team%2Ft/reverify')" \
		london /api/v1/repositories/team%2Ft/reverify -X POST
}

wrong_ones() {
	cd "$SHARED"
	is 401 reads wrong:alice london open/o
	is 401 reads user:nobody london open/o
	is 401 reads jwt:no-such-token-at-all london open/o
	is 401 asked london '/open/o.git/info/refs?service=git-upload-pack' \
		-H 'Authorization: Nonsense'
	is 401 asked london /api/v1/status -H 'Authorization: '
}

known_or_not() {
	cd "$SHARED"
	is 401 reads - london other/x
	grep -qi '^WWW-Authenticate: Basic' head
	is 401 reads wrong:alice london other/x
	grep -qi '^WWW-Authenticate: Basic' head
	is 403 pushes token:reader london other/x
	is 403 reads token:some london other/x
}

# All of the answer, but for its time.
same_answer() { # COMMAND CREDENTIAL
	"$1" "$2" london other/x >status1
	cat answer <(grep -vi '^Date' head) >answer1
	"$1" "$2" london other/none >status2
	cat answer <(grep -vi '^Date' head) >answer2
	cmp status1 status2
	diff answer1 answer2
}

there_or_not() {
	cd "$SHARED"
	for credential in - token:some wrong:alice; do
		same_answer reads $credential
		same_answer pushes $credential
	done
	same_answer pushes token:reader
	is 404 reads token:reader london other/none
	is 404 pushes token:pusher london other/none
	is 404 reads - london open/none
}

# The new settings may count only when a short time has passed: then it gets a longer one.
until_it_expires() {
	local seconds expires said

	cd "$SHARED"
	is 401 reads token:old london team/t
	is 401 pushes token:old london team/t
	is 401 reads token:old london open/o
	is 401 reads_api token:old london
	give_token london soon read
	for seconds in 4 16 64; do
		expires=$(($(date +%s) + seconds))
		set_conf london token.soon.expires "$(date -u -d "@$expires" +%Y-%m-%dT%H:%M:%SZ)"
		reload london
		said=$(reads token:soon london team/t)
		[ "$said" = 401 ] && [ "$(date +%s)" -ge "$expires" ] || break
	done
	[ "$said" = 200 ] || fail "$said instead of 200"
	wait_until $((10 + seconds)) is 401 reads token:soon london team/t
}

users_come_and_go() {
	cd "$SHARED"
	is 401 reads user:dora london team/t
	make_users new dora
	cat new >>users
	wait_until 10 is 200 reads user:dora london team/t
	is 200 reads user:alice london team/t
	sed -i /dora/d users
	wait_until 10 is 401 reads user:dora london team/t
	is 200 reads user:alice london team/t
}

other_hashes() {
	cd "$SHARED"
	is 401 as - london '/team/t.git/info/refs?service=git-upload-pack' -u carol:myPassword
	is 401 reads user:operator london team/t
	is 401 reads "user:token boss" london team/t
}

patterns() {
	cd "$SHARED"
	is 200 reads token:some london team/t
	is 403 reads token:some london teamwork/w
	is 403 reads token:some london team
	is 401 reads - london openly
	is 401 reads - london open/../team/t
}

rules_of_the_repository() {
	local path=london/git/rules.git url

	cd "$SHARED"
	url=$(site_url london)/rules.git
	make_repository $path 3
	git -C $path config receive.denyDeletes true
	printf '#!/bin/sh\n[ "$1" != refs/heads/never ]\n' >$path/hooks/update
	chmod +x $path/hooks/update
	git -C $path branch keep main
	git_as token:pusher -C $path push -q "$url" main:refs/heads/fine
	fails git_as token:pusher -C $path push -q "$url" main:refs/heads/never
	fails git_as token:pusher -C $path push -q "$url" :refs/heads/keep
	tip $path refs/heads/keep
	git -C $path config receive.denyDeletes false
	git_as token:pusher -C $path push -q "$url" :refs/heads/keep
	fails tip $path refs/heads/keep
}

# A site with this secret readable by everybody does not start, and says why.
everybody_may_read() { # KEY
	mkdir -p one/git
	set_conf one site.name one
	set_conf one site.role primary
	set_conf one site.repositories "$PWD/one/git"
	set_conf one site.data "$PWD/one/data"
	set_conf one http.listen "127.0.0.1:$(free_port)"
	echo 0123456789abcdef0123 >file
	chmod 644 file
	set_conf one "$1" "$PWD/file"
	at one serve 2>said && fail "it starts"
	grep -qi "everybody can read" said || { cat said; fail "it says something else"; }
	at one check >said 2>&1 && fail "check finds nothing"
	grep -qi "everybody can read" said || { cat said; fail "check says something else"; }
	rm -r one
}

modes() {
	everybody_may_read http.operatorTokenFile
	everybody_may_read token.one.file
	everybody_may_read secondary.two.secretFile
}

the_file_of_passwords() {
	cd "$SHARED"
	is 200 reads user:alice london team/t
	chmod o+w users
	wait_until 10 is 401 reads user:alice london team/t
	is 200 reads token:boss london team/t
	chmod o-w users
	wait_until 10 is 200 reads user:alice london team/t
	mv users elsewhere
	wait_until 10 is 401 reads user:alice london team/t
	mv elsewhere users
	wait_until 10 is 200 reads user:alice london team/t
}

changed_tokens() {
	cd "$SHARED"
	cp reader.token was.token
	give_token london next read
	is 401 reads token:next london team/t
	cp next.token reader.token
	git config --file london/refrelay.conf --remove-section token.next
	reload london
	is 200 reads token:reader london team/t
	is 401 reads token:was london team/t
	(umask 077 && echo abcdef0123456789-operator >next.token && cat operator.token >was.token)
	cat next.token >operator.token
	reload london
	is 200 orders token:operator london
	is 401 orders token:was london
}

token_for_git() {
	local token

	cd "$SHARED"
	export SHARED
	token=$(site_token git 'git-upload-pack other/x')
	is 200 reads "jwt:$token" london other/x
	is 200 reads "jwt:$token" london other/x
	is 401 reads "jwt:$token" london team/t
	is 401 as "jwt:$token" london /api/v1/status
	is 401 reads "jwt:$(site_token git 'git-upload-pack other/x' -30)" london other/x
}

nothing_outside() {
	local place

	cd "$SHARED"
	for place in refs objects/pack logs; do
		mkdir outside
		make_repository london/git/team/led.git 1
		git -C london/git/team/led.git config core.logAllRefUpdates true
		mkdir -p "london/git/team/led.git/$place"
		mv "london/git/team/led.git/$place" outside/its
		ln -s "$PWD/outside/its" "london/git/team/led.git/$place"
		cp -a outside before
		push_one token:some "$(site_url london)/team/led.git" 2>err && fail "it came: $place"
		grep -q "^remote: $place is a link that leads out of the repository" err
		diff -r before outside
		rm -r "london/git/team/led.git/$place" before
		mv outside/its "london/git/team/led.git/$place"
		push_one token:some "$(site_url london)/team/led.git"
		rm -r london/git/team/led.git outside
	done
}

hooks_run_as_us() {
	cd "$SHARED"
	push_one user:alice "$(site_url london)/team/t.git"
	grep -q "uid=$(id -u)$" london/git/team/t.git/who
}

bad_objects() {
	local path=london/git/team/t.git bad

	cd "$SHARED"
	git init -q --bare bad.git
	bad=$(printf 'tree %s\nauthor nobody 1 +0000\ncommitter nobody 1 +0000\n\nbad\n' \
		"$(git -C bad.git mktree </dev/null)" |
		git -C bad.git hash-object -t commit -w --literally --stdin)
	git_as token:pusher -C bad.git push -q "$(site_url london)/team/t.git" "$bad:refs/heads/bad"
	tip $path refs/heads/bad
	git -C london/git/other/x.git config receive.fsckObjects true
	fails git_as token:pusher -C bad.git push -q "$(site_url london)/other/x.git" \
		"$bad:refs/heads/bad"
	fails tip london/git/other/x.git refs/heads/bad
}

hidden_refs() {
	local path=london/git/open/o.git hidden

	cd "$SHARED"
	hidden=$(git -C $path commit-tree -m hidden "main^{tree}")
	git -C $path update-ref refs/private/one "$hidden"
	git -C $path config transfer.hideRefs refs/private
	git ls-remote "$(site_url london)/open/o.git" >refs
	fails grep "$hidden" refs
	git init -q --bare thief.git
	git -C thief.git -c protocol.version=2 fetch -q "$(site_url london)/open/o.git" "$hidden"
	git -C thief.git cat-file -e "$hidden"
}

no_line_of_reading() {
	cd "$SHARED"
	# At one moment, so that no scan finds the half of it.
	make_repository read.git 3
	mv read.git london/git/open/
	wait_until 10 was_logged london change.noticed 'repo=open/read'
	grep -a open/read london/log | grep -ac 'level=\(info\|warn\|error\)' >before || true
	git clone -q "$(site_url london)/open/read.git" clone
	git_as user:alice -C clone fetch -q
	grep -a open/read london/log | grep -ac 'level=\(info\|warn\|error\)' >after || true
	cmp before after
}

# Git asks without a credential first: that is no line, and hides none.
wrong_password_is_logged() {
	local before

	cd "$SHARED"
	before=$(logged london access.refused reason=BAD_CREDENTIALS) || true
	sleep 1.1 # a line a second
	fails git ls-remote "$(site_url london | sed 's,//,//alice:wrong@,')/team/t.git"
	wait_until 10 is_logged $((before + 1)) london access.refused reason=BAD_CREDENTIALS
}

guesses() {
	local before start seconds i

	wrong_password_is_logged
	before=$(logged london access.refused) || true
	sleep 1.1 # a line a second
	start=$SECONDS
	for i in $(seq 30); do
		is 401 reads wrong:alice london team/t
	done
	seconds=$((SECONDS - start + 1))
	[ "$(logged london access.refused)" -gt "$before" ]
	[ $(($(logged london access.refused) - before)) -le $((seconds + 1)) ]
	is 200 reads user:alice london team/t
}

tap_set_up set_up
tap_test "[r1] without a credential what is open is read, and nothing else" without_a_credential
tap_test "[r3] a user reads and pushes all, and reads the API" a_user
tap_test "[r4] a token to read reads" may token:reader 200 403 200 403
tap_test "[r5] a token to push reads, too" may token:pusher 200 200 200 403
tap_test "[r6] an operator may do everything" operators
tap_test "[r7] a token with patterns is for Git of these alone" some_repositories
tap_test "[r8] a site's secret reads everything, and neither pushes nor orders" another_site
tap_test "[r9] a wrong credential is refused where none is needed" wrong_ones
tap_test "[r10] 401 is for who is not known, 403 for who may not" known_or_not
tap_test "[r11] who may not cannot tell whether there is a repository" there_or_not
tap_test "[r12] a token is good until it expires" until_it_expires
tap_test "[r13] users come and go with their line, without a reload" users_come_and_go
tap_test "[r14] other hashes than bcrypt open nothing" other_hashes
tap_test "[r15] a pattern takes no name that only begins like it" patterns
tap_test "[r16] the repository's hooks and settings are obeyed" rules_of_the_repository
tap_test "[r20] a push writes nothing outside of its repository" nothing_outside
tap_test "[s1] a secret that everybody may read is refused" modes
tap_test "[s11] without the file of passwords, or if everybody may change it, nobody is a user" \
	the_file_of_passwords
tap_test "[s2] a token is changed by a reload" changed_tokens
tap_test "[s7] a token for git reads one repository, until its time is over" token_for_git
tap_test "[m1] hooks run as the user that runs refrelay" hooks_run_as_us
tap_test "[u5] malformed objects are refused if the repository says so" bad_objects
tap_test "[x1] a hidden ref's objects are had by name" hidden_refs
tap_test "[x3] reading leaves no line in the log" no_line_of_reading
tap_test "[x4] guesses are refused, logged once a second, and lock nobody out" guesses
tap_done
