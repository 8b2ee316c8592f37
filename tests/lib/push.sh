# Nodes that push, their destinations, and witnesses there. After sites.sh and two_sites.sh.
#
#	make_node NODE [KEY VALUE]...   a standalone site: repositories in ./git, store in ./store
#	                                (both shared by all nodes), no delays, nothing scanned
#	add_remote NODE NAME [KEY VALUE]...   pushes to ./NAME/${name}.git unless url is given
#	start_ready NODE [VAR=VALUE...]    start_site, until what comes is no longer taken for what
#	                                was there before
#	make_source NAME [N]            ./git/NAME.git with N commits (default 2)
#	make_destination DIR/NAME       an empty bare repository whose hooks tell ./witness
#	received DIR/NAME [REF]         how many pushes (updates of REF) it received
#	never_two_at_once               no repository had two receive-packs at once
#	hold DIR/NAME; let_go           its pushes wait in pre-receive until let_go
#	is_held DIR/NAME                one does
#	write_task FOLDER PROJECT REFS URI REMOTE    a file as Gerrit's plugin writes it
#	waiting, in_running, letters    names of files there
#	store_is_empty                  nothing waits and nothing runs
#	copy_store DIRECTORY            fails where a node takes a file away meanwhile
#	make_a DIR...                   repository "a" with main, b1 and b2; empty DIR/a
#	same_branch SOURCE DEST [BRANCH]    two repositories have the same (default main)
#	has_ref DIR/NAME REF            the destination has it as the source has it
#	head_is REPOSITORY REF          its HEAD is that one
#	uri_of DIR/NAME                 the destination's, as in task files
#	count_is N COMMAND...           it prints so many lines
#	is_older_than MS                the oldest task that waits is
#	add_blob NAME BYTES             ./git/NAME.git gets a branch that cannot be compressed
#	change NAME [REF]               a commit more, of which node home is told
#	arrived REMOTE NAME...          its copies in ./REMOTE have the refs of ./git
#	queue_says PYTHON-EXPRESSION    of `push queue --json` at home, as q
#	no_process_of_pushes            none of git's that push, or are pushed to

make_node() { # NODE [KEY VALUE]...
	local node=$1
	shift
	mkdir -p "$node" git
	set_conf "$node" site.name "$node"
	set_conf "$node" site.role standalone
	set_conf "$node" site.repositories "$PWD/git"
	set_conf "$node" site.data "$PWD/$node/data"
	set_conf "$node" http.listen "127.0.0.1:$(free_port)"
	set_conf "$node" sync.scanInterval 1h
	set_conf "$node" replication.eventsDirectory "$PWD/store"
	set_conf "$node" replication.randomDelay 0
	while [ "$#" -gt 0 ]; do
		set_conf "$node" "$1" "$2"
		shift 2
	done
}

add_remote() { # NODE NAME [KEY VALUE]...
	local node=$1 name=$2
	shift 2
	case " $* " in
	*' url '*) ;;
	*) mkdir -p "$name" && set_conf "$node" "remote.$name.url" "$PWD/$name/\${name}.git" ;;
	esac
	case " $* " in
	*' replicationDelay '*) ;;
	*) set_conf "$node" "remote.$name.replicationDelay" 0 ;;
	esac
	while [ "$#" -gt 0 ]; do
		set_conf "$node" "remote.$name.$1" "$2"
		shift 2
	done
}

is_ready() { # NODE
	site_answers "$1" /readyz
}

start_ready() { # NODE [VAR=VALUE...]
	start_site "$@"
	wait_until 20 is_ready "$1"
}

make_source() { # NAME [N]
	make_repository "git/$1.git" "${2:-2}"
}

# Lines "in|out|PID PLACE" and "ref PLACE REF NEW", each in one write.
make_destination() { # DIR/NAME
	local bare=$1.git
	git init -q --bare --initial-branch=main "$bare"
	cat >"$bare/hooks/pre-receive" <<-END
		#!/bin/sh
		echo "in $1" >>"$PWD/witness"
		[ ! -e "$PWD/hold-${1//\//-}" ] || touch "$PWD/held-${1//\//-}"
		while [ -e "$PWD/hold-${1//\//-}" ]; do sleep 0.05; done
	END
	cat >"$bare/hooks/post-receive" <<-END
		#!/bin/sh
		while read -r old new ref; do echo "ref $1 \$ref \$new" >>"$PWD/witness"; done
		echo "out $1" >>"$PWD/witness"
	END
	chmod +x "$bare/hooks/pre-receive" "$bare/hooks/post-receive"
}

received() { # DIR/NAME [REF]
	if [ "$#" -eq 2 ]; then
		grep -c "^ref $1 $2 " witness
	else
		grep -c "^in $1\$" witness
	fi
}

never_two_at_once() {
	awk '$1 == "in" && ++depth[$2] > 1 { print "two at once: " $2; bad = 1 }
		$1 == "out" { depth[$2]-- }
		END { exit bad }' witness
}

hold() { # DIR/NAME
	touch "hold-${1//\//-}"
}

let_go() {
	rm -f hold-*
}

is_held() { # DIR/NAME
	[ -e "held-${1//\//-}" ]
}

# REFS: one or several, separated by spaces, in the order of the file.
write_task() { # FOLDER PROJECT REFS URI REMOTE
	local refs key json
	refs=${3// /, }
	json=\"${3// /\",\"}\"
	key=$(printf '%s\n[%s]\n%s\n%s' "$2" "$refs" "$4" "$5" | sha1sum | cut -d ' ' -f 1)
	mkdir -p "store/ref-updates/$1" store/ref-updates/building
	printf '{"project":"%s","refs":[%s],"uri":"%s","remote":"%s"}\n' "$2" "$json" "$4" "$5" \
		>"store/ref-updates/building/$key"
	mv "store/ref-updates/building/$key" "store/ref-updates/$1/$key"
	echo "$key"
}

waiting() {
	find store/ref-updates/waiting -type f -printf '%f\n' | sort
}

in_running() {
	find store/ref-updates/running -type f -printf '%f\n' | sort
}

letters() {
	find store/refrelay/failed -type f ! -name '*.why' -printf '%f\n' 2>/dev/null | sort
}

store_is_empty() {
	! compgen -G '*/data/spool/[0-9]*' || return # of a hook that did not wait
	[ -z "$(find store/ref-updates/waiting store/ref-updates/running -type f -print -quit)" ]
}

copy_store() { # DIRECTORY
	rm -rf "$1"
	cp -a store "$1"
}

make_a() { # DIR...
	local dir
	make_source a
	git -C git/a.git update-ref refs/heads/b1 main~1
	git -C git/a.git update-ref refs/heads/b2 main~1
	for dir; do
		make_destination "$dir/a"
	done
}

has_ref() { # DIR/NAME REF
	[ "$(git -C "$1.git" rev-parse -q --verify "$2")" = \
		"$(git -C "git/${1#*/}.git" rev-parse -q --verify "$2")" ]
}

same_branch() { # SOURCE DEST [BRANCH]
	local ref=refs/heads/${3:-main}
	[ "$(git -C "$1" rev-parse -q --verify "$ref")" = \
		"$(git -C "$2" rev-parse -q --verify "$ref")" ]
}

head_is() { # REPOSITORY REF
	[ "$(git -C "$1" symbolic-ref HEAD)" = "$2" ]
}

uri_of() { # DIR/NAME
	echo "$PWD/$1.git"
}

count_is() { # N COMMAND...
	local wanted=$1 said
	shift
	said=$("$@" | wc -l)
	[ "$said" -eq "$wanted" ] && return
	echo "$said instead of $wanted: $*"
	return 1
}

is_older_than() { # MS
	python3 -c '
import glob, os, sys, time
age = time.time() - min(map(os.path.getmtime, glob.glob("store/ref-updates/waiting/*")))
sys.exit(age * 1000 < float(sys.argv[1]))' "$1"
}

add_blob() { # REPOSITORY BYTES
	local blob tree
	blob=$(head -c "$2" /dev/urandom | git -C "git/$1.git" hash-object -w --stdin)
	tree=$(printf '100644 blob %s\tlarge\n' "$blob" | git -C "git/$1.git" mktree)
	git -C "git/$1.git" update-ref refs/heads/large \
		"$(git -C "git/$1.git" commit-tree -p main -m large "$tree")"
}

change() { # REPOSITORY [REF]
	add_commits "git/$1.git" "${2:-refs/heads/main}" 1
	at home changed "$1"
}

arrived() { # REMOTE REPOSITORY...
	local remote=$1 name
	shift
	for name; do
		diff <(git -C "git/$name.git" for-each-ref) \
			<(git -C "$remote/$name.git" for-each-ref) || return
	done
}

# A PYTHON-EXPRESSION of the queue q is true.
queue_says() { # PYTHON-EXPRESSION
	at home push queue --json >queue || return
	python3 -c '
import json, sys
q = json.load(open("queue"))
sys.exit(not eval("(" + sys.argv[1] + ")"))' "$1" || { cat queue; return 1; }
}

no_process_of_pushes() {
	local pids
	pids=$({
		grep -lsaFf <(echo "$PWD/"; sed 's/^/127.0.0.1:/' net/port 2>/dev/null) \
			/proc/[0-9]*/cmdline
		find /proc/[0-9]* -maxdepth 1 -name cwd -lname "$PWD/*" 2>/dev/null
	} | cut -d / -f 3 | sort -u | while read -r pid; do
		tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -aE \
			'^(/[^ ]*/)?git( |-).*(push|send-pack|pack-objects|receive-pack|index-pack) |hooks/|sleep ' |
			grep -av 'git.daemon' |
			sed "s/^/$pid /"
	done)
	[ -z "$pids" ] || { echo "$pids"; return 1; }
}

refs_of() { # REPOSITORY
	git -C "$1" for-each-ref --format='%(refname)' | xargs
}

refs_are() { # REPOSITORY REF...
	local repository=$1
	shift
	[ "$(refs_of "$repository")" = "$*" ]
}
