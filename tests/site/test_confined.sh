#!/usr/bin/env bash
# The Git child that answers readers is confined: whatever runs in its place gets nowhere.
# Without the confinement it does, so it is that which stops it.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/served.sh"

# In the place of git: what upload-pack tries to do, a line each.
replace_git() {
	local real port

	real=$(command -v git)
	port=$(git config --file one/refrelay.conf http.listen)
	port=${port##*:}
	echo secret >secret
	mkdir bin
	cat >bin/git <<-END
		#!/bin/sh
		case "\$*" in *upload-pack*) ;; *) exec $real "\$@" ;; esac
		try() {
			name=\$1
			shift
			if "\$@" >/dev/null 2>&1; then echo "\$name: yes"; else echo "\$name: no"; fi
		}
		try 'own repository' cat HEAD
		try 'another program' ls .
		try 'another repository' cat ../other.git/HEAD
		try 'secret' cat $PWD/secret
		try 'data directory' ls $PWD/one/data
		try 'passwords' cat /etc/shadow
		try 'own file' sh -c 'echo x >>description'
		try 'own file for reading' /usr/bin/python3 -c 'import os; os.open("emptied", os.O_TRUNC)'
		try 'own mode' chmod g+r description
		try 'new file' sh -c 'echo x >$PWD/new'
		try 'new name' mv description description
		try 'other processes' cat /proc/\$PPID/environ
		try 'limits' prlimit --core --pid \$PPID
		try 'signals' kill -0 \$PPID
		try 'network' /usr/bin/python3 -c 'import socket; socket.socket()'
		try 'node' /usr/bin/python3 -c 'import socket; socket.create_connection(("127.0.0.1", $port))'
		try 'namespace' unshare -Ur true
		cat >/dev/null
	END
	sed -i "s/'new name' mv description description/'new name' sh -c 'mv description d \&\& mv d description'/" \
		bin/git
	chmod +x bin/git
}

# What the child in upload-pack's place could do.
ask() {
	pkt command=fetch >body
	printf 0000 >>body
	curl -fsS -m 60 -H 'Git-Protocol: version=2' --data-binary @body \
		-H 'Content-Type: application/x-git-upload-pack-request' "$U/git-upload-pack"
}

make_attacked() {
	make_served 5
	git init -q --bare one/git/other.git
	echo text | tee "$R/description" >"$R/emptied"
	replace_git
}

can_confine() {
	at one check >said || true
	grep -q '^ok *confinement' said
}

it_is_stopped() {
	make_attacked
	can_confine || skip "the kernel has no Landlock"
	PATH=$PWD/bin:$PATH start_site one
	ask >said
	diff <(grep -v '^signals' said) - <<-'END'
		own repository: yes
		another program: yes
		another repository: no
		secret: no
		data directory: no
		passwords: no
		own file: no
		own file for reading: no
		own mode: no
		new file: no
		new name: no
		other processes: no
		limits: no
		network: no
		node: no
		namespace: no
	END
	[ ! -e new ]
	[ "$(<"$R/description")" = text ]
	[ "$(<"$R/emptied")" = text ]
}

# On each kernel.
what_the_filter_stops() {
	make_attacked
	PATH=$PWD/bin:$PATH start_site one
	ask >said
	for what in 'own file for reading' 'own mode' limits 'new name' network node namespace; do
		grep -q "^$what: no$" said || fail "$(<said)"
	done
}

without_it_nothing_stops_it() {
	make_attacked
	start_site one "PATH=$PWD/bin:$PATH"
	ask >said
	[ "$(id -u)" = 0 ] || sed -i /^passwords/d said
	fails grep ': no$' said
	[ -e new ]
	[ ! -s "$R/emptied" ]
}

# What check says of kernels with other versions of Landlock.
check_says() {
	local version text

	make_served 5
	cc -shared -fPIC -o older.so "$TESTS/lib/older_landlock.c"
	while IFS='|' read -r version text; do
		LD_PRELOAD=$PWD/older.so LANDLOCK_VERSION=$version ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0 \
			"$REFRELAY" -c one/refrelay.conf check >said || true
		[ "$(sed -n 's/^\(ok\|note\)  *confinement  */\1 /p' said)" = "$text" ] ||
			fail "version $version: $(<said)"
	done <<-'END'
		7|ok git reads repositories under Landlock and a syscall filter
		6|ok git reads repositories under Landlock and a syscall filter
		5|ok git reads repositories under Landlock and a syscall filter; it can signal other processes of its user, which Linux prevents since 6.12
		1|ok git reads repositories under Landlock and a syscall filter; it can signal other processes of its user, which Linux prevents since 6.12
		0|note git reads repositories under a syscall filter only: the kernel offers no Landlock; it can signal other processes of its user; hint: start the kernel with landlock in its list lsm=; it has it since 5.13
	END
}

# Git itself needs no more: alternates, links, includes, a cut history, a partial clone.
git_gets_what_it_needs() {
	local name

	make_served 5
	git clone -q --bare --shared "$R" one/git/borrowed.git
	git clone -q --bare --reference one/git/borrowed.git "$R" one/git/twice.git
	git clone -q --bare --depth 2 "file://$R" one/git/cut.git
	git clone -q --bare "$R" one/git/linked.git
	mv one/git/linked.git/objects elsewhere
	ln -s ../../../elsewhere one/git/linked.git/objects
	git clone -q --bare "$R" one/git/including.git
	printf '[uploadpack]\n\tallowFilter = true\n' >more
	git -C one/git/including.git config include.path "$PWD/more"
	start_site one
	for name in r borrowed twice cut linked including; do
		git clone -q "$(site_url one)/$name.git" "clone-$name" 2>said || fail "$name: $(<said)"
		git -C "clone-$name" fsck --strict >said 2>&1 || fail "$name: $(<said)"
		[ "$(git -C "clone-$name" rev-parse HEAD)" = "$(git -C "$R" rev-parse HEAD)" ]
	done
	git clone -q --filter=blob:none --no-checkout "$U" clone-partial
	git -C clone-partial rev-list --objects --missing=print HEAD | grep -q '^?'
	git clone -q --depth 1 "$U" clone-shallow
	[ "$(git -C clone-shallow rev-list --count HEAD)" = 1 ]
	git -C clone-shallow fetch -q --unshallow
	[ "$(git -C clone-shallow rev-list --count HEAD)" = "$(git -C "$R" rev-list --count HEAD)" ]
	fails was_logged one git.broken
}

# In a root of our own: in this one nobody may put a program.
run_at_root() { # PROGRAM, as refrelay-run starts it there
	unshare -Urm /usr/bin/python3 - "$BUILD/refrelay-run" "$1" <<-'END'
		import os, shutil, socket, subprocess, sys

		supervisor, program = sys.argv[1:]
		os.mkdir(os.path.basename(program))
		os.chdir(os.path.basename(program))
		os.makedirs('root/srv')
		os.mkdir('root/repository')
		for name in ('usr', 'bin', 'lib', 'lib32', 'lib64', 'dev', 'proc'):
		    if os.path.islink('/' + name):
		        os.symlink(os.readlink('/' + name), 'root/' + name)
		    elif os.path.isdir('/' + name):
		        os.mkdir('root/' + name)
		        subprocess.run(['mount', '--rbind', '/' + name, 'root/' + name], check=True)
		shutil.copy(supervisor, 'root/run')
		with open('root/srv/secret', 'w') as file:
		    file.write('secret\n')
		with open('root/real', 'w') as file:
		    file.write('#!/bin/sh\necho runs\ncat /srv/secret\nls /srv\n')
		os.chmod('root/real', 0o755)
		os.symlink('../real', 'root/srv/link')
		ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		os.chroot('root')
		os.chdir('/repository')
		subprocess.run(['/run', str(its.fileno()), '1000', str(1 << 60), '0', '+0', program],
		               pass_fds=[its.fileno()])
	END
}

a_program_in_the_root() {
	local program

	unshare -Urm true 2>/dev/null || skip "no user namespaces here"
	make_served 5
	can_confine || skip "the kernel has no Landlock"
	for program in /real /srv/link; do
		run_at_root "$program" >said 2>wrong || true
		[ "$(<said)" = runs ] || fail "$program: $(<said) $(<wrong)"
		[ "$(grep -c 'Permission denied' wrong)" = 2 ] || fail "$program: $(<wrong)"
	done
}

tap_test 'a git that was replaced escapes nowhere' it_is_stopped
tap_test 'the filter stops what needs no Landlock' what_the_filter_stops
tap_test 'without the confinement nothing stops it' without_it_nothing_stops_it
tap_test 'a program in the root directory opens nothing else' a_program_in_the_root
tap_test 'check says what the kernel lacks for it' check_says
tap_test 'git itself gets what it needs' git_gets_what_it_needs
tap_done
