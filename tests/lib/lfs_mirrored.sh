# A mirror with lfs = true. Needs tap.sh, sites.sh, two_sites.sh, pushed.sh, lfs.sh and
# mirrored.sh. ./london is a real upstream, ./forge one that may be wrong
# (tests/peers/lfs_forge.py); ./paris is a primary that mirrors r, ./oslo its secondary.
#
#	make_lfs_mirror			all but the forge, not started; tokens dev and app1 of london
#	start_forge			it runs, has r.git, and paris' mirror r is of it
#	forge_object BYTES [REF [SAID]]	a new object of the forge, with its pointer on main, or REF: $oid;
#					the pointer says SAID bytes
#	has_object SITE OID		in its place, with the right content
#	mirror_said PATTERN		of `mirror show r` at paris
#	mirror_member MEMBER VALUE	of the same in JSON
#	asked [PATTERN]			how many requests for LFS the forge had

forge_program=$(realpath "${BASH_SOURCE[0]%/*}/../peers/lfs_forge.py")

make_lfs_mirror() {
	local site

	make_lfs_sites
	set_conf paris site.role primary
	git config --file paris/refrelay.conf --remove-section primary
	set_conf paris secondary.oslo.secretFile "$PWD/secret"
	mkdir -p paris/git oslo/lfs
	set_conf oslo site.name oslo
	set_conf oslo site.role secondary
	set_conf oslo site.repositories "$PWD/oslo/git"
	set_conf oslo site.data "$PWD/oslo/data"
	set_conf oslo http.listen "127.0.0.1:$(free_port)"
	set_conf oslo sync.consistencyInterval 1s
	set_conf oslo primary.url "$(site_url paris)/"
	set_conf oslo primary.secretFile "$PWD/secret"
	set_conf oslo blob.lfs.path "$PWD/oslo/lfs"
	set_conf oslo blob.lfs.layout lfs
	set_conf oslo http.anonymousRead false
	give_token oslo looker read
	give_token london app1 read
	mirror r interval 1s lfs true
	watch r app1
}

start_forge() {
	mkdir -p forge
	git init -q --bare forge/r.git
	add_commits forge/r.git refs/heads/main 1
	git -C forge/r.git symbolic-ref HEAD refs/heads/main
	python3 "$forge_program" forge app1.token 2>forge/err &
	wait_until 10 test -f forge/port -a -f forge/place/port
	set_conf paris mirror.r.url "http://127.0.0.1:$(cat forge/port)/r.git"
	: >forge/asked
	: >forge/place/asked
}

write_pointer() { # OID BYTES
	printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %s\n' "$@"
}

oid=
forge_object() { # BYTES [REF [SAID]]
	local blob tree commit ref=${2:-refs/heads/main}

	head -c "$1" /dev/urandom >object
	oid=$(oid_of object)
	mv object "forge/objects/$oid"
	blob=$(write_pointer "$oid" "${3:-$1}" | git -C forge/r.git hash-object -w --stdin)
	tree=$(printf '100644 blob %s\tfile.bin\n' "$blob" | git -C forge/r.git mktree)
	commit=$(git -C forge/r.git commit-tree -m file "$tree" -p main)
	git -C forge/r.git update-ref "$ref" "$commit"
}

has_object() { # SITE OID
	[ -f "$(lfs_path "$1" "$2")" ] && [ "$(oid_of "$(lfs_path "$1" "$2")")" = "$2" ]
}

mirror_said() { # PATTERN
	at paris mirror show r >shown && grep -E -- "$1" shown
}

mirror_member() { # MEMBER VALUE
	[ "$(at paris mirror show r --json | "$SITE_HELP" member "$1")" = "$2" ]
}

asked() { # [PATTERN]
	grep -cE -- "${1-.}" forge/asked || :
}
