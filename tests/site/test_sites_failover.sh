#!/usr/bin/env bash
# A primary is lost, one of two secondaries takes over, the other follows it, and the old
# primary comes back: docs/guides/lost-primary.md, step by step. What one site has and another
# lacks is held wherever it is, until a person decides.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/blob_tree.sh"

make_three_sites() {
	make_tree_sites
	mkdir -p berlin/tree
	sed "s,$PWD/paris,$PWD/berlin,; s,= paris,= berlin,; s,listen = .*,listen = 127.0.0.1:$(free_port)," \
		paris/refrelay.conf >berlin/refrelay.conf
	set_conf london secondary.berlin.secretFile "$PWD/secret"
	make_repository london/git/app.git 3
	make_repository london/git/lib.git 3
	put_file london/tree/one 'the first'
	start_sites
	start_site berlin
}

# All that ORIGIN knows is at SITE, verified.
follows() { # SITE ORIGIN
	at "$1" status >"$1/says" && head -n 1 "$1/says" | grep '^in sync, verified: ' &&
		equal_trees "$2/git" "$1/git" &&
		diff <(tree_sums "$2") <(tree_sums "$1")
}

# The primary has heard it of them.
says_so_of_all() { # SITE
	at "$1" status >"$1/says" && head -n 1 "$1/says" | grep '^in sync, verified: '
}

become_primary() { # SITE SECONDARY
	git config --file "$1/refrelay.conf" --remove-section primary
	set_conf "$1" site.role primary
	set_conf "$1" http.anonymousRead true
	set_conf "$1" "secondary.$2.secretFile" "$PWD/secret"
}

follow() { # SITE PRIMARY
	set_conf "$1" site.role secondary
	set_conf "$1" primary.url "$(site_url "$2")/"
	set_conf "$1" primary.secretFile "$PWD/secret"
}

holds() { # SITE NAME
	at "$1" repository list --state held >held && grep -w "$2" held
}

holds_blob() { # SITE NAME
	at "$1" blob list --type tree --state held >held && grep -w "$2" held
}

a_primary_is_lost() {
	local late own

	make_three_sites
	wait_until 20 follows paris london
	wait_until 20 follows berlin london
	wait_until 20 says_so_of_all london
	# What berlin gets and paris does not; and what london tells nobody.
	stop_site paris
	push_change london/git/app.git
	late=$(git -C london/git/app.git rev-parse main)
	make_repository london/git/new.git 2
	put_file london/tree/two 'the second'
	wait_until 20 follows berlin london
	stop_site berlin
	add_commits london/git/lib.git refs/heads/main 1
	own=$(git -C london/git/lib.git rev-parse main)
	kill_site london

	become_primary paris berlin
	start_site paris
	wait_until 10 was_logged paris node.role_changed 'role=primary'
	follow berlin paris
	start_site berlin
	wait_until 20 holds berlin app
	wait_until 20 holds berlin new
	wait_until 20 holds_blob berlin two
	fails at berlin status >said
	fails grep 'in sync, verified' said
	fails says_so_of_all paris
	[ "$(git -C berlin/git/app.git rev-parse main)" = "$late" ]
	[ "$(<berlin/tree/two)" = 'the second' ]
	# It follows in what is not in doubt.
	push_change paris/git/lib.git side
	lib_is_there() {
		[ "$(git -C berlin/git/lib.git rev-parse side)" = "$(git -C paris/git/lib.git rev-parse side)" ]
	}
	wait_until 20 lib_is_there

	# A person keeps the commit and the file, and gives up the repository.
	git -C berlin/git/app.git push -q "$PWD/paris/git/app.git" main
	cp berlin/tree/two paris/tree/two
	at berlin repository remove new
	wait_until 20 follows berlin paris
	[ "$(git -C paris/git/app.git rev-parse main)" = "$late" ]
	compgen -G 'berlin/git/.refrelay/trash/*new*' >/dev/null
	wait_until 20 says_so_of_all paris

	# The old primary comes back: what only it has stays there.
	git config --file london/refrelay.conf --remove-section secondary.paris
	git config --file london/refrelay.conf --remove-section secondary.berlin
	set_conf paris secondary.london.secretFile "$PWD/secret"
	kill -HUP "$(site_pid paris)"
	follow london paris
	start_site london
	wait_until 20 holds london lib
	wait_until 20 was_logged london leftovers.foreign 'example=new'
	at london check >checked || :
	grep -w new checked
	[ "$(git -C london/git/lib.git rev-parse main)" = "$own" ]
	fails says_so_of_all paris
	at london repository sync --force lib
	git -C london/git/new.git rev-parse main
	remove_repository london/git/new.git
	wait_until 20 follows london paris
	wait_until 20 follows berlin paris
	wait_until 20 says_so_of_all paris
	git -C paris/git/app.git fsck --full
}

# Repositories, files and database of a day before; paris had followed since.
a_primary_is_restored_from_a_backup() {
	local late

	make_tree_sites
	make_repository london/git/app.git 3
	make_repository london/git/old.git 3
	put_file london/tree/one 'the first'
	put_file london/tree/old 'deleted later'
	start_sites
	wait_until 20 follows paris london
	stop_site london
	mkdir backup
	cp -a london/git london/tree london/data backup
	start_site london
	push_change london/git/app.git
	late=$(git -C london/git/app.git rev-parse main)
	make_repository london/git/new.git 2
	remove_repository london/git/old.git
	report_removed london old
	put_file london/tree/one 'changed later'
	put_file london/tree/two 'the second'
	rm london/tree/old
	wait_until 20 follows paris london
	[ ! -e paris/git/old.git ]
	[ ! -e paris/tree/old ]

	stop_site london
	rm -r london/git london/tree london/data
	mv backup/* london/
	start_site london
	wait_until 20 holds paris app
	wait_until 20 holds paris new
	wait_until 20 holds_blob paris two
	# What the backup has comes back; what was newer at paris is in the trash.
	wait_until 20 equal_repositories london/git/old.git paris/git/old.git
	wait_until 20 cmp london/tree/old paris/tree/old
	wait_until 20 cmp london/tree/one paris/tree/one
	grep -rqx 'changed later' paris/tree/.refrelay/trash
	[ "$(git -C paris/git/app.git rev-parse main)" = "$late" ]
	[ "$(<paris/tree/two)" = 'the second' ]
	fails says_so_of_all london
	fails says_so_of_all paris
	git -C paris/git/app.git push -q "$PWD/london/git/app.git" main
	git clone -q --bare paris/git/new.git london/git/new.git
	cp paris/tree/two london/tree/two
	wait_until 20 follows paris london
	wait_until 20 says_so_of_all london
}

tap_test "a primary is lost, another site takes over, and the old one comes back" a_primary_is_lost
tap_test "a primary is restored from a backup" a_primary_is_restored_from_a_backup
tap_done
