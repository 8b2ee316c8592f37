# Many changes of many repositories of site london, made without a Git process each.
#
#	make_chain REPOSITORY N		N commits above main, which stays where it is, and which no
#					ref names; one a line in chains/REPOSITORY
#	change LINES			does what the file says: path of a repository, ref, value a
#					line; the node has recorded each before the next one of that
#					repository is made
#	wait_for_generation N REPOSITORY	until paris has brought and proved it

CHANGER=${CHANGER:-$BUILD/bench/changer}

make_chain() { # REPOSITORY N
	local path=london/git/$1.git
	mkdir -p chains
	add_commits "$path" refs/chain "$2" refs/heads/main
	git -C "$path" rev-list --reverse refs/heads/main..refs/chain >"chains/$1"
	git -C "$path" update-ref -d refs/chain
}

change() { # LINES
	"$CHANGER" "${CHANGER_THREADS:-4}" london/data/node.sock <"$1"
}

wait_for_generation() { # N REPOSITORY
	wait_until 20 is_brought "$@"
}

is_brought() { # N REPOSITORY
	[ "$(logged paris sync.done "repo=$2 .*generation=$1 ")" -ge 1 ]
}
