# Two sites with blobs of the type "tree": any files, at SITE/tree. After two_sites.sh.
#
#	make_tree_sites		directories and configurations
#	same_tree		the same regular files with the same content, nothing else
#	tree_is_here		the same, and in sync and verified at both sites
#	blob_member SITE ID MEMBER	of the blob's row; "a.b" of one within another

make_tree_sites() {
	local site

	make_sites
	for site in london paris; do
		mkdir "$site/tree"
		set_conf "$site" blob.tree.path "$PWD/$site/tree"
	done
}

# Any name, a newline in it too. What the primary leaves out is none of them.
tree_sums() { # SITE
	(cd "$1/tree" && find . -path ./.refrelay -prune -o -type f -print0 |
		LC_ALL=C sort -z | xargs -0r sha256sum)
}

same_tree() {
	tree_sums london >london/sums && tree_sums paris >paris/sums || return
	diff london/sums paris/sums
}

# What london knows of all that is on its disk, paris has, and both have read it.
tree_is_here() {
	same_tree && in_sync && tree_is_verified london && tree_is_verified paris
}

tree_is_verified() { # SITE
	{ at "$1" status --json || [ $? -eq 3 ]; } | python3 -c '
import json, sys
tree = json.load(sys.stdin)["blobs"]["tree"]
done = tree["verification"]
if done["succeeded"] + done["started"] != tree["all"]:
    sys.exit("%s of %d verified" % (done, tree["all"]))'
}

tree_count() { # SITE MEMBER
	status_of "$1" "blobs.tree.$2"
}

tree_count_is() { # SITE MEMBER N
	local count
	count=$(tree_count "$1" "$2") && [ "$count" = "$3" ] && return
	echo "$2 of $1: $count, not $3"
	return 1
}

blob_member() { # SITE ID MEMBER
	at "$1" blob show --json "$2" | "$SITE_HELP" member "$3"
}

blob_member_is() { # SITE ID MEMBER VALUE
	local value
	value=$(blob_member "$1" "$2" "$3") && [ "$value" = "$4" ] && return
	echo "$2 at $1: $3 is $value, not $4"
	return 1
}

# A file that appears whole.
put_file() { # PATH TEXT
	mkdir -p "$(dirname "$1")"
	printf '%s\n' "$2" >beside
	mv -f beside "$1"
}
