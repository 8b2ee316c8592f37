#!/usr/bin/env bash
# A primary whose answers about a repository make no sense: what the secondary says, that
# the copy stays as it was, and that it heals by itself.

. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/proxied.sh"

# The copy is as it was, whatever else is true.
unchanged() {
	repository_picture paris/git/tool.git | cmp - before
	git -C paris/git/tool.git fsck --no-progress --no-dangling
}

# CLASS RULE...: with each rule a sync of a changed repository ends so.
bad_answers() {
	local class=$1 rule
	shift
	prepare set_conf paris sync.fastPath false # deltas: test_delta.sh
	repository_picture paris/git/tool.git >before
	rules '/refs drop' 'upload-pack drop'
	push_change london/git/tool.git
	wait_until 20 has_failed tool network
	for rule; do
		echo "$rule:"
		rules "$rule"
		try_again --wait tool && fail "that was taken"
		has_failed tool "$class"
		unchanged
	done
	heals
}

# Names that no ref and no repository can have.
evil_names() {
	local name evil

	prepare set_conf paris sync.fastPath false # deltas: test_delta.sh
	repository_picture paris/git/tool.git >before
	find paris/git -maxdepth 1 | sort >tree
	for name in ../../x refs/heads/../../x refs/heads/.x refs/heads/x.lock /etc/x \
		refs/heads/a..b 'refs/heads/a\x01b' 'refs/heads/x@{1}' refs/heads/ -x; do
		echo "ref $name:"
		rules "/refs filter sed -e 's,refs/heads/main\$,$name,'"
		try_again --wait tool && fail "it took $name"
		has_failed tool corrupt
		unchanged
	done
	for evil in ../../x /x .git/x; do
		echo "repository $evil:"
		rules "/repositories.limit filter sed -e 's,\"tool\",\"$evil\",'" \
			'/events junk'
		: >proxy/log
		push_change london/git/tool.git
		# It asks again when what came has been worked off.
		wait_until 20 asked_for /repositories.limit 2
		find paris/git -maxdepth 1 | sort | cmp - tree
	done
	[ ! -e paris/x ]
	[ ! -e x ]
	heals
}

tap_test "answers that break off or are refused fail as network" bad_answers network \
	'/refs cut 30' '/refs cut 0' '/refs reset' '/refs status 500' '/refs status 429' \
	'/refs status 404' 'info/refs cut 10' 'info/refs reset' 'info/refs status 500' \
	'POST.*upload-pack cut 200' 'POST.*upload-pack reset' 'POST.*upload-pack status 503'
tap_test "answers that make no sense fail as corrupt" bad_answers corrupt \
	'/refs garbage' '/refs junk' '/refs empty' '/refs flip -40' '/refs flip -3' \
	'/refs filter sed s/^checksum.1-./checksum.1-0/' \
	'/refs filter sed /^refs/d'
tap_test "names that lead elsewhere are refused" evil_names
tap_done
