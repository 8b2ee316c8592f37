#include "objects_test.h"

/* What git says of the same question, and what is really new: reached by the tips, and by
 * nothing that is known. */
static void ask_git(const char *tips, const char *known)
{
	must("cd w && { git rev-list --objects %s --not %s | cut -c1-40 | sort -u; } "
	     ">../git && { git rev-list --objects %s | cut -c1-40 | sort -u; } >../all "
	     "&& "
	     "{ [ -z '%s' ] || git rev-list --objects %s | cut -c1-40 | sort -u; } "
	     ">../old && comm -23 ../all ../old >../new",
	     tips, known, tips, known, known);
}

/* Nothing that is new is left out, and nothing is there twice. */
static void assert_complete(const char *tips, const char *known)
{
	oid_list list = { 0 };

	assert_int_equal(list_new(tips, known, MOST, &list), 1);
	write_list("ours.raw", &list);
	ask_git(tips, known);
	must("sort ours.raw >ours && [ -z \"$(uniq -d ours)\" ] && "
	     "[ -z \"$(comm -13 ours new)\" ] && [ -z \"$(comm -13 all ours)\" ]");
	vec_clear(&list);
}

static const struct history {
	const char *commands; /* in w; c commits */
	const char *tips, *known;
	bool is_more; /* than git lists */
} histories[] = {
	{ "echo 2 >f; c", "main", "main~1", false },
	{ "echo 2 >f; c; echo 3 >f; c; echo 4 >d/g; c", "main", "main~3", false },
	{ "true", "main", "", false },
	{ "true", "main", "main", false },
	/* merges of old branches */
	{ "git checkout -qb b; echo b >bb; c; git checkout -q main; echo 2 >f; c; "
	  "git merge -q --no-edit b",
	  "main", "main~1", false },
	{ "git checkout -qb b; echo b >bb; c; git checkout -q main; echo 2 >f; c; "
	  "git merge -q --no-edit b",
	  "main", "main~1 b", false },
	{ "git checkout -qb b; echo b >bb; c; git checkout -q main; for i in 2 3 4; do "
	  "echo $i >f; c; done; git merge -q --no-edit b; echo 5 >f; c",
	  "main b", "main~3", false },
	/* an octopus */
	{ "for b in x y z; do git checkout -qb $b main; echo $b >d/$b; c; done; "
	  "git checkout -q main; echo 2 >f; c; git merge -q --no-edit x y z >/dev/null",
	  "main", "main^1 main^2", false },
	/* moves */
	{ "git mv f e; c", "main", "main~1", true },
	{ "mkdir a; git mv d a/d; c", "main", "main~1", true },
	{ "mkdir -p a/b/c; cp f a/b/c/x; c; git mv a z; c; git mv z/b/c y; c", "main",
	  "main~3", true },
	/* a file becomes a folder, and the other way round */
	{ "git rm -q f; mkdir f; echo 1 >f/x; c", "main", "main~1", false },
	{ "git rm -qr d; echo 1 >d; c", "main", "main~1", false },
	{ "mkdir d-a d0; echo a >d-a/x; echo 0 >d0/x; echo . >d.x; c; echo b >d-a/x; "
	  "echo b >d/y; c",
	  "main", "main~1", false },
	/* less, or other modes */
	{ "git rm -q f; c", "main", "main~1", false },
	{ "chmod +x f; c", "main", "main~1", false },
	{ "ln -s f l; c", "main", "main~1", false },
	{ "git rm -qr .; c", "main", "main~1", false },
	{ "git rm -qr .; c; mkdir d; echo 2 >d/g; c", "main", "main~1", true },
	/* an old commit gets a branch */
	{ "for i in 2 3 4 5; do echo $i >f; c; done; git branch b main~2", "b", "main",
	  false },
	{ "chain 60 f; git branch b main~50", "b", "main", false },
	{ "chain 60 f; git tag -am t t main~2; "
	  "git checkout -qb b main~50; echo b >bb; c",
	  "b", "t", false },
	/* forced */
	{ "for i in 2 3 4; do echo $i >f; c; done; git branch old; "
	  "git reset -q --hard HEAD~2; echo x >x; c",
	  "main", "old", false },
	{ "chain 80 f; git branch old; "
	  "git reset -q --hard HEAD~40; chain 40 x",
	  "main", "old", true },
	/* tags */
	{ "git tag -am t t; git -c advice.nestedTag=false tag -am u u t; "
	  "git -c advice.nestedTag=false tag -am v v u",
	  "v", "main", false },
	{ "echo 2 >f; c; git tag -am t t; git -c advice.nestedTag=false tag -am u u t",
	  "u main", "main~1", false },
	{ "git tag -am t t; echo 2 >f; c", "main", "t", false },
	{ "git tag -am t t main^{tree}; git tag -am b b main:f", "t b", "", false },
	{ "git tag -am t t main^{tree}; git tag -am b b main:f", "t b main", "main",
	  true },
	{ "git tag t main:d; git tag b main:f", "t b", "", false },
	/* submodules */
	{ "git update-index --add --cacheinfo 160000,$(git rev-parse HEAD~0),s; "
	  "git commit -qm s; echo 2 >f; git add f; git commit -qm t",
	  "main", "main~2", false },
	{ "git update-index --add --cacheinfo "
	  "160000,1234567890123456789012345678901234567890,s; git commit -qm s; "
	  "git rm -q --cached s; mkdir s; echo 1 >s/f; c",
	  "main", "main~2", false },
	/* other roots */
	{ "git checkout -q --orphan o; git rm -qrf .; echo o >oo; c", "o", "main",
	  false },
	{ "git checkout -q --orphan o; git rm -qrf .; echo o >oo; c; git checkout -q "
	  "main; "
	  "git merge -q --allow-unrelated-histories --no-edit o",
	  "main", "main~1", false },
	/* what was there before comes back */
	{ "echo 2 >f; c; echo one >f; c", "main", "main~1", true },
	{ "mkdir -p x/y; echo 7 >x/y/z; c; git rm -qr x; c; mkdir -p x/y; echo 7 >x/y/z; "
	  "c",
	  "main", "main~1", true },
	/* two new folders change places: neither vouches for the other */
	{ "mkdir q s; echo e >q/e; echo q >q/q; echo e >s/e; echo s >s/s; c; "
	  "git mv q t; git mv s q; git mv t s; c",
	  "main", "main~2", false },
	/* clocks that went backwards, or stood */
	{ "chain 50 f 1599999999 -1; "
	  "git branch b main~10",
	  "main b", "main~12", false },
	{ "chain 50 f 1600000000 0; "
	  "git checkout -qb b main~45; echo b >bb; c 1500000000",
	  "b", "main", true },
};

TEST(nothing_that_is_new_is_left_out)
{
	void *unused = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(histories); i++) {
		const struct history *history = &histories[i];
		must(WORK "%s", history->commands);
		assert_complete(history->tips, history->known);
		if (!history->is_more && run("cmp -s ours git") != 0)
			fail_msg("history %zu: more, or less, than git lists", i);
		test_remove_root(&unused);
		make_work(&unused);
	}
}

/* Packs, deltas and alternates make no difference. */
TEST(it_is_the_same_however_objects_are_stored)
{
	must(WORK "seq 2000 >n; c; for i in 1 2 3 4; do echo $i >>n; echo $i >d/g; c; "
		  "done");
	assert_complete("main", "main~2");
	must("git -C w repack -qadf --depth=50");
	assert_complete("main", "main~2");
	must("cd w && echo 5 >>n && git commit -qam 5 && git repack -qd --write-midx");
	assert_complete("main", "main~3");
	must("mv w o && git clone -q --shared o w && cd w && echo 6 >>n && "
	     "git commit -qam 6");
	assert_complete("main", "main~4");
}

TEST(a_large_folder_lists_what_changed_in_it)
{
	oid_list list = { 0 };

	must(WORK "for i in $(seq 1000); do echo $i >d/$i; done; c; echo x >d/500; c");
	assert_complete("main", "main~1");
	assert_int_equal(list_new("main", "main~1", 10, &list), 1);
	assert_int_equal(list.count, 4);
	vec_clear(&list);
	assert_int_equal(list_new("main", "main~2", 900, &list), 0);
	vec_clear(&list);
}

static void make_long_history(void)
{
	AUTO_STR struct str script = STR_INIT;

	for (int i = 1; i <= 2000; i++)
		str_addf(&script,
			 "commit refs/heads/long\nmark :%d\ncommitter A <a@b> %d +0000\n"
			 "data 2\nc\nM 644 inline n\ndata 8\n%08d\n",
			 i, 1600000000 + i, i);
	assert_ok(file_replace(root_fd, "script", script.data, script.len, FILE_NO_SYNC,
			       &err));
	must("git -C w fast-import --quiet <script");
}

TEST(the_bounds_are_kept)
{
	oid_list list = { 0 };

	make_long_history();
	assert_int_equal(list_new("long", "", MOST, &list), 0);
	vec_clear(&list);
	assert_int_equal(list_new("long", "long~1500", MOST, &list), 0);
	vec_clear(&list);
	assert_int_equal(list_new("long~1900", "long", MOST, &list), 0);
	vec_clear(&list);
	assert_complete("long", "long~150");
	assert_complete("long~100", "long");
}

/* More values than could be read: they are compared by name. */
TEST(many_known_values_cost_nothing)
{
	oid_list list = { 0 }, tips, known;

	make_long_history();
	tips = objects_of("w", "long");
	known = objects_of("w", "$(git -C w rev-list long~40)");
	assert_true(known.count > MOST);
	assert_int_equal(list_in("w/.git", &tips, &known, MOST, &list), 1);
	assert_int_equal(list.count, 40 * 3);
	vec_clear(&list);
	vec_clear(&tips);
	vec_clear(&known);
}

/* The file of a loose object. */
static void remove_object(const char *name)
{
	must("cd w && o=$(git rev-parse %s) && "
	     "rm -f .git/objects/$(echo $o | cut -c1-2)/$(echo $o | cut -c3-)",
	     name);
}

TEST(what_is_missing_is_named)
{
	static const char *const missing[] = { "main",   "main~1",   "main^{tree}",
					       "main:d", "main:d/g", "t" };

	for (size_t i = 0; i < ARRAY_SIZE(missing); i++) {
		void *unused = NULL;
		oid_list list = { 0 }, tips, known;
		must(WORK "echo 2 >f; c; echo 3 >d/g; c; git tag -am t t");
		AUTO_FREE char *name = output_of("git -C w rev-parse %s", missing[i]);
		tips = objects_of("w", "main t");
		known = objects_of("w", "main~2");
		remove_object(missing[i]);
		assert_int_equal(list_in("w/.git", &tips, &known, MOST, &list), -1);
		assert_int_equal(err.class, ERR_CORRUPT);
		name[40] = '\0';
		assert_non_null(strstr(err.text, name));
		vec_clear(&list);
		vec_clear(&tips);
		vec_clear(&known);
		test_remove_root(&unused);
		make_work(&unused);
	}
}

/* Nothing can be told then; a known value that is not needed does no harm. */
TEST(known_objects_that_are_missing_are_for_git)
{
	static const char *const needed[] = { "main~1", "main~1^{tree}", "main~1:d" };

	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		void *unused = NULL;
		oid_list list = { 0 }, tips, known;
		must(WORK "git branch b; echo 2 >d/g; c; echo 3 >d/g; c");
		tips = objects_of("w", "main");
		known = objects_of("w", "main~1 b");
		remove_object("b");
		assert_int_equal(list_in("w/.git", &tips, &known, MOST, &list), 1);
		assert_int_equal(list.count, 4);
		remove_object(needed[i]);
		assert_int_equal(list_in("w/.git", &tips, &known, MOST, &list), 0);
		vec_clear(&list);
		vec_clear(&tips);
		vec_clear(&known);
		test_remove_root(&unused);
		make_work(&unused);
	}
}

/* A commit, `bad`, whose tree has two entries, "<mode> <name>" each, of these objects; an
 * entry without object ends there. */
static void commit_tree_of(const char *const entries[4])
{
	AUTO_STR struct str tree = STR_INIT;

	for (size_t i = 0; i < 4 && entries[i]; i += 2) {
		str_add(&tree, entries[i]);
		if (!entries[i + 1])
			continue;
		oid_list list = objects_of("w", entries[i + 1]);
		str_add_char(&tree, '\0');
		str_add_bytes(&tree, list.items[0].bytes, 20);
		vec_clear(&list);
	}
	assert_ok(file_replace(root_fd, "tree", tree.data, tree.len, FILE_NO_SYNC, &err));
	must("cd w && t=$(git hash-object -t tree --literally -w ../tree) && "
	     "git update-ref refs/heads/bad $(git commit-tree -p main -m bad $t)");
}

TEST(an_object_must_be_what_it_is_said_to_be)
{
	static const char *const trees[][4] = {
		{ "40000 a", "main:n" },  /* a blob is no tree */
		{ "100644 a", "main:d" }, /* a tree is no blob */
		{ "40000 f", "main:f" },  /* ... nor under the name that it has */
		{ "100644 d", "main:d" },
		{ "100644 f", "main" }, /* a commit is neither */
		{ "40000 d", "main" },
		{ "100644 x", "main:n", "40000 y", "main:n" }, /* not both */
		{ "40000 x", "main:d", "100644 y", "main:d" },
		{ "100644 a" }, /* cut */
		{ "100644" },
		{ "nonsense a", "main:f" },
	};

	must(WORK "echo new >n; c; echo new >d/n; c");
	for (size_t i = 0; i < ARRAY_SIZE(trees); i++) {
		oid_list list = { 0 };
		commit_tree_of(trees[i]);
		int result = list_new("bad", "main", MOST, &list);
		if (result != -1 || err.class != ERR_CORRUPT)
			fail_msg("tree %zu: %d", i, result);
		vec_clear(&list);
	}
	oid_list list = { 0 };
	commit_tree_of(
		(const char *const[4]){ "100644 n", "main:n", "40000 o", "main:d" });
	assert_int_equal(list_new("bad", "main", MOST, &list), 1);
	vec_clear(&list);
}

TEST(a_tag_names_the_kind_of_its_object)
{
	oid_list list = { 0 };

	must("cd w && printf 'object %%s\\ntype tree\\ntag x\\ntagger A <a@b> 1 +0000\\n"
	     "\\nx\\n' $(git rev-parse main) >t && git update-ref refs/tags/x "
	     "$(git hash-object -t tag --literally -w t)");
	assert_int_equal(list_new("x", "main~0^{tree}", MOST, &list), -1);
	assert_int_equal(err.class, ERR_CORRUPT);
	vec_clear(&list);
}

/* Folders in each other, until the stack would be too small. */
/* A commit of `count` parents, which have one tree; `many` of them are others. */
static void make_octopus(const char *count, const char *many)
{
	must("cd w && t=$(git rev-parse main^{tree}) && "
	     "{ echo tree $t; for i in $(seq %s); do "
	     "echo parent $(git commit-tree -m $((i %% %s)) $t); done; "
	     "echo 'author a <a@b> 1700000000 +0000'; "
	     "echo 'committer a <a@b> 1700000000 +0000'; echo; echo m; } >../octopus && "
	     "git update-ref refs/heads/octopus "
	     "$(git hash-object --literally -t commit -w ../octopus)",
	     count, many);
}

TEST(very_many_parents_are_for_git)
{
	oid_list list = { 0 };

	setenv("GIT_COMMITTER_DATE", "1700000000 +0000", 1);
	setenv("GIT_AUTHOR_DATE", "1700000000 +0000", 1);
	make_octopus("200", "3");
	assert_int_equal(list_new("octopus", "", MOST, &list), 1);
	list.count = 0;
	make_octopus("60", "60");
	assert_int_equal(list_new("octopus", "", MOST, &list), 1);
	list.count = 0;
	make_octopus("70", "70");
	assert_int_equal(list_new("octopus", "", MOST, &list), 0);
	vec_clear(&list);
	unsetenv("GIT_COMMITTER_DATE");
	unsetenv("GIT_AUTHOR_DATE");
}

TEST(very_deep_folders_are_for_git)
{
	oid_list list = { 0 };

	must(WORK "p=$(printf 'a/%%.0s' $(seq 100)); mkdir -p $p; echo 1 >$p/x; c");
	assert_complete("main", "main~1");
	must(WORK "p=$(printf 'b/%%.0s' $(seq 400)); mkdir -p $p; echo 1 >$p/x; c");
	assert_int_equal(list_new("main", "main~1", MOST, &list), 0);
	vec_clear(&list);
}

/* Random histories of a few files in a few folders, with merges, moves and wrong clocks;
 * any commits may be the tips, and any may be known. */
static void make_random_history(unsigned *seed)
{
	AUTO_STR struct str script = STR_INIT;

	for (int i = 1; i <= 60; i++) {
		str_addf(&script,
			 "commit refs/heads/r%d\nmark :%d\ncommitter A <a@b> %d +0000\n"
			 "data 2\nc\n",
			 i, i, 1600000000 + i * 10 - rand_r(seed) % 100);
		if (i > 3 && rand_r(seed) % 20 != 0)
			str_addf(&script, "from :%d\n", i - 1 - rand_r(seed) % 3);
		if (i > 3 && rand_r(seed) % 3 == 0)
			str_addf(&script, "merge :%d\n", 1 + rand_r(seed) % (i - 1));
		if (rand_r(seed) % 4 == 0)
			str_addf(&script, "D f%d\n", rand_r(seed) % 3);
		for (int change = rand_r(seed) % 4; change >= 0; change--)
			str_addf(&script, "M 644 inline f%d/f%d/f%d\ndata 2\n%d\n",
				 rand_r(seed) % 3, rand_r(seed) % 3, rand_r(seed) % 3,
				 rand_r(seed) % 10);
		str_add_char(&script, '\n');
	}
	assert_ok(file_replace(root_fd, "script", script.data, script.len, FILE_NO_SYNC,
			       &err));
	must("git -C w fast-import --quiet <script");
}

TEST(random_histories_are_complete)
{
	unsigned seed = 1;

	for (int round = 0; round < 3; round++) {
		void *unused = NULL;
		make_random_history(&seed);
		for (int i = 0; i < 15; i++) {
			AUTO_FREE char *tips =
				xasprintf("r%d r%d", 1 + rand_r(&seed) % 60,
					  1 + rand_r(&seed) % 60);
			AUTO_FREE char *known =
				xasprintf("r%d r%d", 1 + rand_r(&seed) % 60,
					  1 + rand_r(&seed) % 60);
			assert_complete(tips, known);
		}
		test_remove_root(&unused);
		make_work(&unused);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WORK_CASE(nothing_that_is_new_is_left_out),
		WORK_CASE(it_is_the_same_however_objects_are_stored),
		WORK_CASE(a_large_folder_lists_what_changed_in_it),
		WORK_CASE(the_bounds_are_kept),
		WORK_CASE(many_known_values_cost_nothing),
		WORK_CASE(what_is_missing_is_named),
		WORK_CASE(known_objects_that_are_missing_are_for_git),
		WORK_CASE(an_object_must_be_what_it_is_said_to_be),
		WORK_CASE(a_tag_names_the_kind_of_its_object),
		WORK_CASE(very_many_parents_are_for_git),
		WORK_CASE(very_deep_folders_are_for_git),
		WORK_CASE(random_histories_are_complete),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
