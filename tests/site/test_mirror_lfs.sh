#!/usr/bin/env bash
# Objects of Git LFS come with a mirror: from a real upstream, from one that is wrong in all
# ways, and to the secondary of the site that mirrors.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/two_sites.sh"
. "$TESTS/lib/pushed.sh"
. "$TESTS/lib/lfs.sh"
. "$TESTS/lib/mirrored.sh"
. "$TESTS/lib/lfs_mirrored.sh"

start_lfs_sites() {
	make_lfs_mirror
	start_site london
	start_site paris
	start_site oslo
	lfs_work "$(url_as dev london r)"
}

is_whole() {
	mirror_member state synced && mirror_member lfs.absent 0
}

oslo_in_sync() {
	at oslo status >status
}

real_upstream() {
	local oids=() one

	start_lfs_sites
	lfs_commit a.bin 70000
	lfs_commit b.bin 5000000
	git -C work push -q origin main
	git -C work checkout -q -b side
	lfs_commit c.bin 3000
	git -C work push -q origin side
	git -C work checkout -q main
	# Of what is in no tree any more, too.
	oids+=("$(oid_of work/a.bin)")
	git -C work rm -q a.bin
	git -C work commit -qm gone
	git -C work push -q origin main
	oids+=("$(oid_of work/b.bin)" "$(git -C work show side:c.bin | sed -n 's/^oid sha256://p')")
	wait_until 30 is_mirrored r
	for one in "${oids[@]}"; do
		wait_until 30 has_object paris "$one"
		wait_until 30 has_object oslo "$one"
	done
	wait_until 30 is_whole
	at paris events >events
	grep -q "\"kind\":\"lfs\".*\"event\":\"created\".*${oids[1]:4}" events
	wait_until 30 oslo_in_sync
	mirror_said 'LFS: all objects present'
	# Of another repository it is not to be had.
	lfs_batch looker paris download "${oids[1]}" 5000000 | grep '"download"'
	make_repository paris/git/other.git 1
	wait_until 20 at paris repository show other
	lfs_url() { echo "$(site_url "$1")/other.git"; }
	lfs_batch looker paris download "${oids[1]}" 5000000 | grep '"code":404'
	stop_site london
	lfs_clone "$(url_as looker paris r)" clone
	cmp work/b.bin clone/b.bin
	git -C clone checkout -q side
	stop_site paris
	lfs_clone "$(url_as looker oslo r)" copy
	cmp work/b.bin copy/b.bin
}

# Who may not read the upstream, brings nothing.
token_without_lfs() {
	start_lfs_sites
	lfs_commit a.bin 1000
	git -C work push -q origin main
	wait_until 30 has_object paris "$(oid_of work/a.bin)"
	git config --file london/refrelay.conf --remove-section token.app1
	kill -HUP "$(site_pid london)"
	wait_until 20 was_logged london node.reloaded
	lfs_commit b.bin 1000
	git -C work push -q origin main
	expect 1 at paris mirror sync r --as app1
	[ ! -e "$(lfs_path paris "$(oid_of work/b.bin)")" ]
}

start_forged() {
	make_lfs_mirror
	start_forge
}

switched_on_later() {
	local first

	start_forged
	forge_object 2000
	first=$oid
	forge_object 1000 refs/heads/other
	set_conf paris mirror.r.lfs false
	start_site paris
	wait_until 30 mirror_member state synced
	[ "$(asked)" -eq 0 ]
	mirror_member lfs null || fails mirror_said LFS
	stop_site paris
	set_conf paris mirror.r.lfs true
	start_site paris
	wait_until 30 has_object paris "$first"
	wait_until 30 has_object paris "$oid"
	wait_until 30 is_whole
	[ "$(asked ^POST)" -eq 1 ]
	# Nothing is asked again: not when it is asked for, not by a new start.
	at paris mirror sync r
	stop_site paris
	start_site paris
	at paris mirror sync r
	forge_object 10
	at paris mirror sync r
	[ "$(asked ^POST)" -eq 2 ]
	has_object paris "$oid"
	# What was lost here is brought again.
	rm "$(lfs_path paris "$oid")"
	wait_until 60 has_object paris "$oid"
}

no_token_elsewhere() { # WAY
	local ticket=-

	start_forged
	touch "forge/$1"
	[ "$1" = redirect ] || ticket=for-$(cat forge/place/port)
	forge_object 100000
	start_site paris
	wait_until 30 has_object paris "$oid"
	grep "^GET /media/$oid - $ticket -\$" forge/place/asked
	fails grep Basic forge/place/asked
	grep '^POST .* Basic_' forge/asked
	[ "$(wc -l <forge/place/asked)" -eq 1 ]
}

wrong_content() {
	local good

	start_forged
	forge_object 5000
	good=$oid
	forge_object 6000
	head -c 6000 /dev/zero >"forge/objects/$oid"
	start_site paris
	wait_until 30 has_object paris "$good"
	wait_until 30 mirror_said '^failed .* r '
	mirror_said 'LFS fails: 1 LFS object that its history names is not here: .*SHA-256'
	mirror_member state failed
	mirror_member word failing
	mirror_member failure_class corrupt
	is_forged
	[ -z "$(find paris/lfs -name "${oid:4}*")" ]
	[ -z "$(find paris/lfs -name '*.part')" ]
	# Longer than its pointer says, and shorter.
	head -c 6001 /dev/zero >"forge/objects/$oid"
	expect 1 at paris mirror sync r
	grep '6001 bytes came' err
	head -c 5999 /dev/zero >"forge/objects/$oid"
	expect 1 at paris mirror sync r
	grep '5999 bytes came' err
	[ ! -e "$(lfs_path paris "$oid")" ]
}

# As a stranger's branch may say, of an object that another one names rightly.
wrong_size() {
	local large

	start_forged
	forge_object 5000 refs/heads/main 1000000000000000
	large=$oid
	forge_object 6000 refs/heads/main 10
	start_site paris
	wait_until 30 has_object paris "$oid"
	wait_until 30 has_object paris "$large"
	wait_until 30 is_whole
}

too_large() {
	local large

	start_forged
	set_conf paris mirror.r.maxSize 1m
	forge_object 2000000
	large=$oid
	forge_object 5000
	start_site paris
	wait_until 30 has_object paris "$oid"
	wait_until 30 mirror_said 'LFS fails: 1 LFS object .* more than the 1048576 bytes of maxSize'
	mirror_member failure_class config
	expect 2 at paris mirror sync r --json
	[ "$("$SITE_HELP" member reason <out)" = too_large ]
	is_forged
	[ -z "$(find paris/lfs -name '*.part')" ]
	[ ! -e "$(lfs_path paris "$large")" ]
	stop_site paris
	set_conf paris mirror.r.maxSize 3m
	start_site paris
	at paris mirror sync r
	has_object paris "$large"
	is_whole
}

# They are cut off once, and not at each try.
many_too_large() {
	local i

	start_forged
	set_conf paris mirror.r.maxSize 100k
	for ((i = 0; i < 20; i++)); do
		forge_object 2000$((10 + i))
	done
	start_site paris
	wait_until 30 mirror_said 'LFS fails: 20 LFS objects .* more than the 102400 bytes of maxSize'
	[ "$(asked ^GET)" -eq 20 ]
	# Another try, for what is new.
	forge_object 10
	wait_until 30 has_object paris "$oid"
	wait_until 10 mirror_said 'LFS fails: 20 LFS objects .* more than the 102400 bytes of maxSize'
	[ "$(asked ^GET)" -eq 21 ]
	# Who asks has all tried.
	expect 2 at paris mirror sync r
	[ "$(asked ^GET)" -eq 41 ]
}

is_forged() {
	diff <(git -C forge/r.git for-each-ref) <(git -C paris/git/r.git for-each-ref)
}

asks_nothing_for_refs() {
	local before i

	# So often that the next try is minutes away.
	for ((i = 0; i < 4; i++)); do
		expect 4 at paris mirror sync r
	done
	before=$(asked ^POST)
	for i in one two; do # the second comes when all of the first is done
		git -C forge/r.git update-ref "refs/heads/$i" main
		wait_until 30 is_forged
	done
	[ "$(asked ^POST)" -eq "$before" ]
}

# The node sleeps until the job's time is over: that is no failure of LFS.
is_put_off() {
	local begun

	start_forged
	set_conf paris sync.timeout 5s
	forge_object 5000
	launch_site paris REFRELAY_FAILPOINT=mirror.lfs_begins=stop
	wait_until 60 is_paused paris
	begun=$SECONDS
	wait_until 30 is_later $((begun + 7))
	kill -CONT "$(site_pid paris)"
	wait_until 60 has_object paris "$oid"
	wait_until 30 is_whole
	fails was_logged paris mirror.lfs_lacking
}

is_later() { # SECONDS
	[ "$SECONDS" -ge "$1" ]
}

missing_object() {
	local lost

	start_forged
	forge_object 5000
	lost=$oid
	mv "forge/objects/$lost" lost
	forge_object 6000
	start_site paris
	wait_until 30 has_object paris "$oid"
	wait_until 30 mirror_said 'LFS fails: 1 LFS object .*: its upstream does not have 1'
	mirror_member lfs.missing 1
	mirror_member lfs.absent 1
	wait_until 5 was_logged paris mirror.lfs_lacking 'job_id=[0-9a-f]{16} '
	wait_until 5 was_logged paris mirror.lfs_brought 'job_id=[0-9a-f]{16} '
	mirror_said 'LFS: next attempt '
	is_forged
	at paris status >status || :
	head -n 1 status | grep -F '0 of 1 mirror is up to date'
	asks_nothing_for_refs
	# The refs go on.
	forge_object 10
	wait_until 30 is_forged
	wait_until 30 has_object paris "$oid"
	mv lost "forge/objects/$lost"
	at paris mirror sync r
	has_object paris "$lost"
	is_whole
}

no_server() { # STATUS CLASS TEXT
	start_forged
	forge_object 5000
	echo "$1" >forge/status
	echo 600 >forge/rest
	start_site paris
	wait_until 30 mirror_said "LFS fails: .*$3"
	mirror_member failure_class "$2"
	[ "$2" != network ] ||
		wait_until 10 was_logged paris mirror.lfs_lacking 'wait_ms=(59|60)[0-9]{4}( |$)'
	is_forged
	rm forge/status
	at paris mirror sync r
	has_object paris "$oid"
	is_whole
}

refused_credential() {
	start_forged
	forge_object 5000
	echo 403 >forge/status
	start_site paris
	wait_until 30 mirror_said 'LFS fails: .*refuses the credential of watcher app1 for LFS'
	mirror_member failure_class auth
	[ "$(asked ^POST)" -eq 1 ]
	# For refs it is as good as before; for LFS it is not shown again.
	forge_object 10
	wait_until 30 is_forged
	wait_until 30 mirror_said 'LFS fails: 2 LFS objects'
	[ "$(asked ^POST)" -eq 1 ]
	rm forge/status
	at paris mirror sync r
	has_object paris "$oid"
	is_whole
}

nothing_named() {
	start_forged
	echo 404 >forge/status
	start_site paris
	wait_until 30 is_whole
	[ "$(asked)" -eq 0 ]
}

ended_while_it_comes() { # stop_site|kill_site
	start_forged
	forge_object 8000000
	touch forge/stall
	start_site paris
	wait_until 30 eval '[ "$(asked "^GET /media")" -eq 1 ]'
	wait_until 30 eval '[ -n "$(find paris/lfs -name "*.part" -size +3M)" ]'
	"$1" paris
	rm forge/stall
	start_site paris
	wait_until 30 has_object paris "$oid"
	wait_until 30 is_whole
	grep '^GET /media.* bytes=[1-9][0-9]*-$' forge/asked
}

killed_at() { # POINT...
	start_forged
	killed_from_here "$@"
}

killed_from_here() { # POINT...
	local point

	start_site paris
	wait_until 30 is_whole
	for point; do
		echo "$point:"
		stop_site paris
		start_site paris "REFRELAY_FAILPOINT=$point=kill"
		forge_object 3000
		wait_until 30 has_died paris
		start_site paris
		wait_until 30 has_object paris "$oid"
		wait_until 30 is_whole
		wait_until 30 eval 'at paris events | grep "\"kind\":\"lfs\".*${oid:4}"'
		# The next stop is of a node that runs.
	done
}

from_a_path() {
	start_forged
	forge_object 5000
	set_conf paris mirror.r.url "$PWD/forge/r.git"
	start_site paris
	wait_until 30 mirror_said 'LFS fails: .*no directory lfs/objects'
	mkdir -p "forge/r.git/lfs/objects/${oid:0:2}/${oid:2:2}"
	cp "forge/objects/$oid" "forge/r.git/lfs/objects/${oid:0:2}/${oid:2:2}/$oid"
	at paris mirror sync r
	has_object paris "$oid"
	is_whole
}

many_objects() {
	local i last

	start_forged
	for ((i = 0; i < 230; i++)); do
		forge_object $((i % 7 + 1))$i
	done
	last=$oid
	start_site paris
	start_site oslo
	wait_until 60 has_object paris "$last"
	wait_until 60 is_whole
	# A slow machine may need another try for the rest.
	[ "$(asked ^POST)" -ge 3 ]
	[ "$(asked ^POST)" -le 6 ]
	[ "$(asked ^GET)" -eq 230 ]
	wait_until 60 oslo_in_sync
	[ "$(find oslo/lfs -type f -path '*/??/??/*' | wc -l)" -eq 230 ]
}

checked() {
	make_lfs_mirror
	expect 0 at paris check
	git config --file paris/refrelay.conf --remove-section blob.lfs
	expect 1 at paris check
	grep '"r" has lfs, but this site stores no LFS objects' out
	set_conf paris site.role standalone
	git config --file paris/refrelay.conf --remove-section secondary.oslo
	expect 1 at paris check
	grep '"r" has lfs, but this site stores no LFS objects' out
	# A standalone site keeps no other blobs.
	set_conf paris blob.lfs.path "$PWD/paris/lfs"
	expect 1 at paris check
	grep '"r" has lfs, but this site stores no LFS objects' out
	set_conf paris mirror.r.lfs false
	expect 0 at paris check
	grep 'the section is not used: .* standalone' out
	set_conf paris mirror.r.lfs true
	set_conf paris blob.lfs.layout lfs
	expect 0 at paris check
	fails grep 'not used' out
	set_conf paris site.role primary
	git config --file paris/refrelay.conf --remove-section blob.lfs
	set_conf paris blob.lfs.path "$PWD/paris/lfs"
	set_conf paris blob.lfs.layout lfs
	set_conf paris mirror.r.url ssh://git@127.0.0.1/r.git
	expect 1 at paris check
	grep 'LFS objects come by https, http or a path only' out
}

# paris has no secondary and no event log that anybody reads.
alone() {
	set_conf paris site.role standalone
	git config --file paris/refrelay.conf --remove-section secondary.oslo
}

alone_real_upstream() {
	local one two lists

	make_lfs_mirror
	alone
	start_site london
	start_site paris
	lfs_work "$(url_as dev london r)"
	lfs_commit a.bin 70000
	lfs_commit b.bin 5000000
	git -C work push -q origin main
	one=$(oid_of work/a.bin)
	two=$(oid_of work/b.bin)
	wait_until 30 is_mirrored r
	wait_until 30 has_object paris "$one"
	wait_until 30 has_object paris "$two"
	wait_until 30 is_whole
	wait_until 20 at paris status
	at paris status >status
	grep -F ', 2 blobs of kind lfs (' status
	lists=$(at paris blob list)
	grep -F "${one:4}" <<<"$lists"
	stop_site london
	lfs_clone "$(url_as looker paris r)" clone
	cmp work/a.bin clone/a.bin
	cmp work/b.bin clone/b.bin
	# Who may not read the repository, gets nothing.
	fails lfs_batch '' paris download "$two" 5000000 --fail
}

tells_damage() {
	fails at paris status >said && grep '1 blob of kind lfs failing' said
}

# What rots here is found, given to nobody, told, and brought again.
alone_damage() {
	local id

	start_forged
	alone
	forge_object 5000
	start_site paris
	wait_until 30 is_whole
	id=$(lfs_path . "$oid")
	id=${id#./lfs/}
	wait_until 20 eval 'at paris blob show "$id" | grep succeeded'
	mv "forge/objects/$oid" lost
	printf changed | dd of="$(lfs_path paris "$oid")" bs=1 seek=1000 conv=notrunc status=none
	at paris blob reverify "$id"
	wait_until 20 tells_damage
	wait_until 30 mirror_member lfs.absent 1
	fails at paris mirror sync r
	lfs_batch looker paris download "$oid" 5000 | grep '"error"'
	at paris changed --blob lfs "$id" | grep unchanged
	mv lost "forge/objects/$oid"
	at paris mirror sync r
	has_object paris "$oid"
	is_whole
	wait_until 20 eval 'at paris blob show "$id" | grep succeeded'
	lfs_batch looker paris download "$oid" 5000 | grep '"download"'
	grep -q changed paris/lfs/.refrelay/trash/*/"$id"
	# What is put away, too.
	rm "$(lfs_path paris "$oid")"
	wait_until 60 has_object paris "$oid"
	wait_until 30 is_whole
}

alone_killed() { # POINT...
	start_forged
	alone
	killed_from_here "$@"
}

tap_test "what is wrong with lfs is found by check" checked
tap_test "a standalone site brings the objects, and serves them" alone_real_upstream
tap_test "a standalone site tells what has rotted, and brings again what is lost" alone_damage
tap_test "a standalone site killed before and behind an object's place" alone_killed mirror_lfs.arrived mirror_lfs.placed
tap_test "objects of all history come, and are served by mirror and secondary" real_upstream
tap_test "a token that was taken away brings nothing" token_without_lfs
tap_test "switched on later, all history is looked at once; nothing is asked again" switched_on_later
tap_test "no token goes to another place that objects are offered at" no_token_elsewhere elsewhere
tap_test "no token follows a redirect" no_token_elsewhere redirect
tap_test "wrong content is told, and nothing of it stays" wrong_content
tap_test "a pointer's wrong size keeps no object back" wrong_size
tap_test "an object above maxSize is told, and keeps no other back" too_large
tap_test "many objects above maxSize are cut off once" many_too_large
tap_test "what comes to its turn too late is put off" is_put_off
tap_test "an object that the upstream lacks is told, and keeps no ref back" missing_object
tap_test "an upstream without LFS is told" no_server 404 missing 'has no LFS for this repository'
tap_test "an upstream that limits is told" no_server 429 network 'limits how much is downloaded'
tap_test "an upstream whose quota is used up is told" no_server 509 network 'limits how much'
tap_test "a credential that is refused for LFS is good for refs" refused_credential
tap_test "nothing is asked where no history names an object" nothing_named
tap_test "killed while an object comes, it goes on where it was" ended_while_it_comes kill_site
tap_test "stopped while an object comes, it goes on where it was" ended_while_it_comes stop_site
tap_test "killed before and behind its place" killed_at mirror_lfs.arrived mirror_lfs.placed
tap_test "objects of a path come from its directory" from_a_path
tap_test "many objects come in batches" many_objects
tap_done
