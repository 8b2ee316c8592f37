#!/usr/bin/env bash
# Every kind of ref and every way in which refs change is carried over, and the run after
# it finds nothing to do.
. "$(dirname "$0")/../lib/tap.sh"
. "$TESTS/lib/sites.sh"
. "$TESTS/lib/replicate.sh"

source_git() {
	git -C source/a.git "$@"
}

# One repository with branches one, two and three, of which main's tip is the newest.
make_source() {
	mkdir source
	make_repository source/a.git 12
	source_git branch one main~3
	source_git branch two main~2
	source_git branch three main~1
}

copied() {
	make_source
	follows
}

# A dereferenced list of refs, as a server shows it.
same_for_clients() {
	diff <(git ls-remote source/a.git) <(git ls-remote dest/a.git)
	diff <(git -C source/a.git show-ref -d) <(git -C dest/a.git show-ref -d)
}

tags_of_all_kinds() {
	make_source
	source_git tag light main
	source_git tag -m annotated annotated main~1
	source_git -c advice.nestedTag=false tag -m nested nested annotated
	source_git tag -m tree tree 'main^{tree}'
	source_git tag -m blob blob main:part-1/file-1.txt
	source_git tag plain-blob main:part-1/file-1.txt
	source_git tag -m old moved main~5
	follows
	same_for_clients
	source_git tag -f -m new moved main~4
	source_git tag -d annotated light
	source_git tag annotated main~1
	source_git tag -m light light main
	follows
	same_for_clients
}

other_namespaces() {
	local i

	make_source
	source_git notes add -m one main
	source_git notes --ref=review add -m two main~1
	source_git replace main~4 main~5
	for ((i = 1; i <= 300; i++)); do
		printf 'create refs/changes/%02d/%d/%d main~%d\n' \
			$((i % 100)) "$i" $((i % 3 + 1)) $((i % 9))
	done | source_git update-ref --stdin
	source_git update-ref refs/merge-requests/1/head main~1
	source_git update-ref refs/keep-around/x main~2
	source_git update-ref refs/pull/7/merge main~3
	source_git update-ref refs/top main
	follows
	source_git notes add -f -m three main
	source_git replace -d "$(source_git rev-parse main~4)"
	source_git replace main~6 main~7
	source_git update-ref refs/changes/01/1/2 main
	source_git update-ref -d refs/top
	follows
}

odd_names() {
	local long name

	make_source
	long=$(printf 'x%.0s' {1..200})
	for name in $'latin-\xe9' $'\xff\xfe' $'gr\xc3\xb6\xc3\x9fe' $'\xe6\x97\xa5\xe6\x9c\xac' \
		$'e\xcc\x81' $'\xc3\xa9' "quote'\"" '$HOME' '`x`' 'a;b|c&d' '#%=+,!()<>{}' \
		'-dash' HEAD 'a@b' "$long" "in/$long/$long" 1/2/3/4/5/6/7/8/9/10/11/12 UPPER upper; do
		source_git update-ref "refs/heads/$name" main~1
	done
	follows
	for name in $'latin-\xe9' $'gr\xc3\xb6\xc3\x9fe' "quote'\"" "in/$long/$long" HEAD; do
		source_git update-ref "refs/heads/$name" main~2
	done
	source_git update-ref -d $'refs/heads/\xff\xfe'
	source_git update-ref -d refs/heads/UPPER
	follows
}

symbolic_refs() {
	make_source
	source_git update-ref refs/remotes/origin/main main
	source_git update-ref refs/remotes/origin/next main~1
	source_git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main
	source_git symbolic-ref refs/heads/alias refs/heads/one
	source_git symbolic-ref refs/heads/alias-of-alias refs/heads/alias
	follows
	source_git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/next
	source_git update-ref -d refs/remotes/origin/main
	follows
	source_git symbolic-ref -d refs/heads/alias-of-alias
	source_git symbolic-ref -d refs/heads/alias
	source_git update-ref refs/heads/alias main~4
	follows
	source_git update-ref -d refs/heads/alias
	source_git symbolic-ref refs/heads/alias refs/heads/two
	follows
	source_git symbolic-ref refs/heads/alias refs/heads/three
	follows
	source_git symbolic-ref -d refs/remotes/origin/HEAD
	follows
}

symbolic_ref_to_nothing() {
	make_source
	source_git symbolic-ref refs/heads/alias refs/heads/one
	follows
	source_git update-ref -d refs/heads/one
	follows
	test "$(git -C dest/a.git symbolic-ref refs/heads/alias)" = refs/heads/one
	source_git update-ref refs/heads/one main
	follows
}

head_between_equal_tips() {
	copied
	source_git branch twin main
	follows
	source_git symbolic-ref HEAD refs/heads/twin
	follows
	test "$(git -C dest/a.git symbolic-ref HEAD)" = refs/heads/twin
	source_git symbolic-ref HEAD refs/heads/main
	follows
	test "$(git -C dest/a.git symbolic-ref HEAD)" = refs/heads/main
}

head_away_from_what_is_deleted() {
	copied
	source_git branch trunk main
	source_git symbolic-ref HEAD refs/heads/trunk
	source_git update-ref -d refs/heads/main
	follows
	source_git branch main/line trunk
	source_git symbolic-ref HEAD refs/heads/main/line
	source_git update-ref -d refs/heads/trunk
	follows
	source_git update-ref refs/heads/trunk main/line
	source_git symbolic-ref HEAD refs/heads/trunk
	source_git update-ref -d refs/heads/main/line
	source_git update-ref refs/heads/main trunk~1
	follows
}

head_detached() {
	local only

	copied
	source_git update-ref --no-deref HEAD main~2
	follows
	test "$(git -C dest/a.git rev-parse HEAD)" = "$(source_git rev-parse main~2)"
	only=$(source_git commit-tree -m 'Only HEAD names it' -p main 'main^{tree}')
	source_git update-ref --no-deref HEAD "$only"
	follows
	test "$(git -C dest/a.git rev-parse HEAD)" = "$only"
	source_git symbolic-ref HEAD refs/heads/one
	follows
}

head_unborn() {
	copied
	source_git symbolic-ref HEAD refs/heads/later
	follows
	source_git update-ref refs/heads/later main~1
	follows
	source_git update-ref -d refs/heads/later
	follows
	source_git symbolic-ref HEAD refs/heads/main
	follows
}

files_and_directories() {
	copied
	source_git update-ref -d refs/heads/one
	source_git update-ref refs/heads/one/more main~1
	source_git update-ref refs/heads/one/and/more main~2
	follows
	source_git update-ref -d refs/heads/one/more
	source_git update-ref -d refs/heads/one/and/more
	source_git update-ref refs/heads/one main~4
	source_git update-ref -d refs/heads/two
	source_git update-ref refs/heads/two/deep/er main
	follows
	source_git update-ref -d refs/heads/two/deep/er
	source_git symbolic-ref refs/heads/two refs/heads/one
	follows
	source_git symbolic-ref -d refs/heads/two
	source_git symbolic-ref refs/heads/two/alias refs/heads/one
	follows
	source_git symbolic-ref -d refs/heads/two/alias
	source_git update-ref refs/heads/two main~1
	follows
}

# As before, but the copy's refs were made loose by hand.
files_and_directories_in_a_loose_copy() {
	copied
	git -C dest/a.git update-ref refs/heads/one main~6
	git -C dest/a.git update-ref refs/heads/here/and/there main~6
	source_git update-ref -d refs/heads/one
	source_git update-ref refs/heads/one/more main~1
	source_git update-ref refs/heads/here main~1
	follows
	git -C dest/a.git pack-refs --all
	git -C dest/a.git update-ref refs/heads/one/more main~6
	source_git update-ref -d refs/heads/one/more
	source_git update-ref refs/heads/one main~1
	follows
}

forced_and_deleted() {
	copied
	add_commits source/a.git refs/heads/other 5
	source_git update-ref refs/heads/main refs/heads/other
	source_git update-ref -d refs/heads/other
	source_git update-ref -d refs/heads/one
	follows
	source_git update-ref refs/heads/main two~5
	source_git reflog expire --expire=now --all
	source_git gc -q --prune=now
	follows
	source_git for-each-ref --format='delete %(refname)' | source_git update-ref --stdin
	follows
	source_git update-ref refs/heads/main "$(source_git commit-tree -m new \
		"$(source_git mktree </dev/null)")"
	follows
}

descriptions() {
	make_source
	rm -f source/a.git/description
	follows
	fails test -e dest/a.git/description
	echo one >source/a.git/description
	follows
	printf 'two\n\xe9\nwithout end of line' >source/a.git/description
	follows
	cmp source/a.git/description dest/a.git/description
	: >source/a.git/description
	follows
	rm source/a.git/description
	follows
	fails test -e dest/a.git/description
}

an_empty_repository() {
	mkdir source
	git init -q --bare source/a.git
	git init -q --bare --object-format=sha256 source/b.git
	follows
	git init -q work
	git -C work commit -q --allow-empty -m first
	git -C work push -q ../source/a.git HEAD:main
	follows
	test "$(git -C dest/a.git rev-parse HEAD)" = "$(git -C work rev-parse HEAD)"
	source_git symbolic-ref HEAD refs/heads/elsewhere
	add_commits source/b.git refs/heads/main 2
	follows
	source_git update-ref -d refs/heads/main
	follows
}

names_of_repositories() {
	local name
	local -a names=('with space.git' $'gr\xc3\xb6\xc3\x9fe/\xe6\x97\xa5\xe6\x9c\xac.git'
		'a/b/c/d/e/f/g.git' 'twice.git.git' '.hidden/.repository.git' '-dash.git'
		"quote'\".git" 'back\slash' 'dollar$HOME`x`' 'star*?[a].git' ' lead and end '
		'percent%2F%s' 'semi;colon&|' 'upper.GIT' 'Case.git' 'case.git' '~tilde'
		'#hash' 'a:b' 'x://y' 'objects.git' 'refs/refs/refs.git')

	mkdir source
	make_repository template.git 2
	for name in "${names[@]}"; do
		mkdir -p "source/$(dirname -- "$name")"
		cp -r template.git "source/$name"
		printf '%s\n' "$name" >"source/$name/description"
	done
	follows
	for name in "${names[@]}"; do
		git -C "source/$name" update-ref refs/heads/new main~1
	done
	follows
}

in_sha256() {
	mkdir source
	make_repository source/a.git 6 sha256
	source_git tag -m annotated annotated main~1
	follows
	add_commits source/a.git refs/heads/main 2
	source_git update-ref -d refs/tags/annotated
	source_git update-ref --no-deref HEAD main~1
	follows
	same_for_clients
}

tap_test "tags of all kinds" tags_of_all_kinds
tap_test "notes, replacements, changes and other namespaces" other_namespaces
tap_test "names that are long, odd, or no UTF-8" odd_names
tap_test "symbolic refs below refs/" symbolic_refs
tap_test "a symbolic ref whose target goes and comes back" symbolic_ref_to_nothing
tap_test "HEAD moves between branches with equal tips" head_between_equal_tips
tap_test "HEAD moves and its old target is deleted" head_away_from_what_is_deleted
tap_test "a detached HEAD" head_detached
tap_test "an unborn HEAD" head_unborn
tap_test "a name becomes a directory, and the other way round" files_and_directories
tap_test "the same where the copy has loose refs" files_and_directories_in_a_loose_copy
tap_test "forced pushes and deletions" forced_and_deleted
tap_test "a description comes, changes, and goes" descriptions
tap_test "an empty repository gets its first push" an_empty_repository
tap_test "names of repositories" names_of_repositories
tap_test "all that in SHA-256" in_sha256
tap_done
