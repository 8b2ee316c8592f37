# Git LFS with its own client, against ./london and ./paris. Needs tap.sh, sites.sh,
# two_sites.sh and pushed.sh; skips the test where git-lfs is not installed.
#
#	make_lfs_sites			two sites with the kind lfs, and git/r.git; tokens dev, looker
#	lfs_work URL [FOLDER]		a work tree ./work that tracks *.bin
#	lfs_commit FILE BYTES		one commit of a random file
#	lfs_clone URL FOLDER		a clone with its objects; nothing is tried twice
#	oid_of FILE			its SHA-256
#	lfs_path SITE OID		where the site keeps it
#	lfs_batch CREDENTIAL SITE OPERATION OID SIZE [CURL-OPTION...]	the answer
#	lfs_url SITE			of the repository

make_lfs_sites() {
	local site

	command -v git-lfs >/dev/null || skip "git-lfs is not installed"
	export GIT_TERMINAL_PROMPT=0
	git lfs install --skip-repo >/dev/null
	git config --global lfs.transfer.maxretries 1
	git config --global lfs.concurrenttransfers 2
	make_sites
	for site in london paris; do
		mkdir -p "$site/lfs"
		set_conf "$site" blob.lfs.path "$PWD/$site/lfs"
		set_conf "$site" blob.lfs.layout lfs
		set_conf "$site" http.anonymousRead false
		give_token "$site" looker read
	done
	give_token london dev push
	make_repository london/git/r.git 2
}

lfs_work() { # URL
	git clone -q "$1" work 2>clone.err || { cat clone.err; return 1; }
	git -C work checkout -q -B main
	git -C work lfs track '*.bin' >/dev/null
	git -C work add .gitattributes
}

lfs_commit() { # FILE BYTES
	head -c "$2" /dev/urandom >"work/$1"
	git -C work add "$1"
	git -C work commit -qm "$1"
}

lfs_clone() { # URL FOLDER
	git clone -q "$1" "$2" 2>clone.err || { cat clone.err; return 1; }
}

oid_of() { # FILE
	sha256sum "$1" | cut -c 1-64
}

lfs_path() { # SITE OID
	echo "$1/lfs/${2:0:2}/${2:2:2}/${2:4}"
}

lfs_url() { # SITE
	echo "$(site_url "$1")/r.git"
}

lfs_body() { # OPERATION OID SIZE
	printf '{"operation":"%s","transfers":["basic"],"objects":[{"oid":"%s","size":%s}]}' "$@"
}

lfs_batch() { # CREDENTIAL SITE OPERATION OID SIZE [CURL-OPTION...]
	local credential=$1 site=$2 body

	body=$(lfs_body "$3" "$4" "$5")
	shift 5
	curl -sS -m 30 ${credential:+-u "any:$(cat "$credential.token")"} "$@" --data-binary "$body" \
		-H 'Content-Type: application/vnd.git-lfs+json' \
		"$(lfs_url "$site")/info/lfs/objects/batch"
}
