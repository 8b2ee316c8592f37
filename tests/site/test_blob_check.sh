#!/usr/bin/env bash
# What `refrelay check` says of directories of blobs.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"

# Files of a kind at the primary; the directories are made by who asks.
name_kind() { # SITE TYPE
	set_conf "$1" "blob.$2.path" "$PWD/$1/$2"
}

# A line of `check`, which then has this status.
check_says() { # STATUS SITE PATTERN
	expect "$1" at "$2" check
	grep -Eq "$3" out || {
		cat out
		return 1
	}
}

check_is_silent_of() { # SITE PATTERN
	at "$1" check >out || [ $? -eq 1 ]
	! grep -E "$2" out
}

what_is_configured_wrongly_is_told() {
	local command
	make_sites
	name_kind london files
	check_says 1 london '^FAIL   blobs +blobs of type files: .*No such file.*make or mount'
	touch london/files
	check_says 1 london '^FAIL   blobs +blobs of type files: .*Not a directory'
	rm london/files
	mkdir london/files
	check_says 0 london '^ok     blobs +of type files: .* can be read'

	set_conf london blob.inside.path "$PWD/london/files/inside"
	check_says 1 london '^FAIL   configuration +blob.inside.path .* are inside each other'
	set_conf london blob.inside.path "$PWD/london/git"
	check_says 1 london '^FAIL   configuration +blob.inside.path .*site.repositories'
	set_conf london blob.inside.path "$PWD/london/data/x"
	check_says 1 london '^FAIL   configuration +blob.inside.path .*site.data'
	set_conf london blob.inside.path "$PWD/london/inside"
	set_conf london blob.inside.layout flat
	check_says 1 london '^FAIL   configuration .*layout: "flat" is not one of: plain, lfs'
	git config --file london/refrelay.conf --remove-section blob.inside
	check_says 0 london '^ok     blobs +of type files: .* can be read'

	# Its path is a comment.
	printf '[blob "inside"]\n#\tpath = /srv/inside\n' >>london/refrelay.conf
	for command in check serve; do
		expect 2 at london "$command"
		grep -E ':[0-9]+: the section .blob "inside". has no keys' err
	done
}

status_has() { # SITE MEMBER TEXT
	local value
	value=$(status_of "$1" "$2") && [[ $value == *"$3"* ]] && return
	echo "$1: $2 is $value"
	return 1
}

restart_without() { # SITE SECTION
	git config --file "$1/refrelay.conf" --remove-section "$2"
	stop_site "$1"
	start_site "$1"
}

# Of what only one of them has the other can say nothing: no site is in sync by that.
kinds_of_one_site_only_are_told() {
	echo text >london/more/a
	git config --file paris/refrelay.conf --remove-section blob.other
	start_site paris
	wait_until 20 status_has london in_sync true
	restart_without paris blob.more
	wait_until 20 status_has london reason secondary_partial
	status_has london sentence 'paris does not copy 1 blob of kind more (see refrelay check'
	set_conf london secondary.paris.leavesOut mroe
	check_says 0 london '^note   blobs +secondary.paris.leavesOut: there are no blobs of type mroe'
	set_conf london secondary.paris.leavesOut more
	check_is_silent_of london 'secondary.paris.leavesOut'
	kill -HUP "$(site_pid london)"
	wait_until 20 status_has london in_sync true
	git config --file london/refrelay.conf --unset secondary.paris.leavesOut
	kill -HUP "$(site_pid london)"
	wait_until 20 status_has london reason secondary_partial
	name_kind paris more
	stop_site paris
	start_site paris
	wait_until 20 in_sync
	wait_until 20 status_has london in_sync true

	restart_without london blob.more
	wait_until 20 status_has paris reason left_out
	status_has paris sentence \
		'; 1 file of kind more left out, e.g. all of kind more: the primary has no such kind'
	wait_until 20 status_has london sentence \
		'paris is not in sync: it left out names, or a kind of blobs'
	restart_without paris blob.more
	wait_until 20 in_sync
}

kinds_of_both_sites_are_compared() {
	make_sites
	for kind in files lfs more; do
		mkdir -p "london/$kind"
		name_kind london "$kind"
	done
	check_says 0 london '^note   blobs +blobs of type lfs have the layout plain: no Git LFS is served'
	set_conf london blob.lfs.layout lfs
	check_is_silent_of london 'the layout plain'
	start_site london
	name_kind paris files
	name_kind paris lfs
	check_says 1 paris '^note   blobs +blobs of type files: .* does not exist yet: serve will create it'
	grep -Eq '^note   blobs +the primary has blobs of type more' out
	grep -Eq '^FAIL   blobs +blobs of type lfs have the layout plain here and lfs' out
	set_conf paris blob.lfs.layout lfs
	check_says 0 paris '^note   blobs +the primary has blobs of type more'
	name_kind paris more
	check_is_silent_of paris 'blobs of type more.*which are not copied'
	name_kind paris other
	check_says 1 paris '^FAIL   blobs +the primary has no blob type other'
	kinds_of_one_site_only_are_told
}

# As where a file system is not mounted.
takes_away() { # DIRECTORY
	mv "$1" "$1.away"
	mkdir "$1"
}

is_copied() {
	cmp london/files/a paris/files/a && in_sync
}

directories_that_are_others_are_found() {
	make_sites
	mkdir london/files
	echo text >london/files/a
	name_kind london files
	name_kind paris files
	start_sites
	wait_until 20 is_copied
	check_is_silent_of london '^FAIL'
	check_is_silent_of paris '^FAIL'
	stop_site paris
	stop_site london
	takes_away london/files
	takes_away paris/files
	check_says 1 london '^FAIL   blobs +the directory of the blobs "files" .* is not the one that it was'
	check_says 1 paris '^FAIL   copies +blob.files.path .* is empty, but 1 copy should be there'

	# What it says can be done, word by word.
	sed -n 's/.*lost: refrelay \([^,]*\).*/\1/p' out >remedy
	[ -s remedy ]
	# shellcheck disable=SC2046 # words
	expect 0 at paris $(cat remedy) --dry-run
	grep -q 'a$' out
}

tap_test 'what is configured wrongly is told' what_is_configured_wrongly_is_told
tap_test 'kinds of both sites are compared' kinds_of_both_sites_are_compared
tap_test 'directories that are others are found' directories_that_are_others_are_found
tap_done
