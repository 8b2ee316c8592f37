#include "git_test.h"

#include "base/thread.h"

/* Shell: makes a ref of each word, "heads/a=3", with real git. */
static void set_refs(const char *line)
{
	AUTO_FREE char *text = xstrdup(line);
	AUTO_STR struct str input = STR_INIT;
	char *rest = text, *word;

	while ((word = strsep(&rest, " ")) != NULL) {
		struct oid oid = object_of(strchr(word, '=') + 1);
		str_addf(&input, "update refs/%.*s ", (int)strcspn(word, "="), word);
		oid_add_text(&oid, &input);
		str_add_char(&input, '\n');
	}
	write_text("input", input.data);
	must("git -C r.git update-ref --stdin <r.git/input");
}

/* Name and object of each ref, symbolic ones followed, as git lists them. */
static char *list_of(const struct ref_snapshot *snapshot)
{
	AUTO_STR struct str text = STR_INIT;

	for (size_t i = 0; i < snapshot->refs.count; i++) {
		const char *name = snapshot->refs.items[i].name;
		const struct ref *ref = ref_snapshot_resolve(snapshot, name);
		if (!ref)
			continue;
		oid_add_text(&ref->oid, &text);
		str_addf(&text, " %s\n", name);
	}
	return str_take(&text);
}

static void assert_git_lists_the_same(size_t oid_len)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;
	AUTO_FREE char *git = output_of("git -C r.git for-each-ref "
					"--format='%%(objectname) %%(refname)' "
					"2>/dev/null");

	assert_ok(ref_snapshot_read(repo_fd, oid_len, &snapshot, &err));
	AUTO_FREE char *ours = list_of(&snapshot);
	if (strcmp(ours, git) != 0)
		fail_msg("git lists other refs");
}

TEST(a_new_repository_has_no_refs_and_an_unborn_head)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;
	struct oid oid;

	assert_ok(ref_snapshot_read(repo_fd, 20, &snapshot, &err));
	assert_int_equal(snapshot.refs.count, 0);
	assert_true(snapshot.has_packed_only);
	assert_string_equal(snapshot.head_target, "refs/heads/main");
	assert_false(ref_snapshot_head(&snapshot, &oid));
}

TEST(loose_refs_are_read)
{
	set_refs("heads/main=1 heads/a/b=2 tags/t=t1 x=3");
	assert_refs("refs/heads/main=1 refs/heads/a/b=2 refs/tags/t=t1 refs/x=3");
	assert_git_lists_the_same(20);
}

TEST(packed_refs_are_read_with_their_peels)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;

	set_refs("heads/main=1 tags/t=t2 tags/tt=t5");
	must("git -C r.git pack-refs --all");
	assert_refs("refs/heads/main=1 refs/tags/t=t2 refs/tags/tt=t5");
	assert_ok(ref_snapshot_read(repo_fd, 20, &snapshot, &err));
	assert_true(snapshot.has_packed_only);
	assert_int_equal(ref_snapshot_find(&snapshot, "refs/heads/main")->peel,
			 REF_PEEL_SELF);
	assert_int_equal(ref_snapshot_find(&snapshot, "refs/tags/tt")->peel,
			 REF_PEEL_TAG);
	assert_true(oid_equal(&ref_snapshot_find(&snapshot, "refs/tags/tt")->peeled,
			      &tagged[5]));
}

TEST(a_loose_ref_hides_the_packed_one_and_its_peel)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;

	set_refs("heads/main=1 tags/t=t1 tags/u=t1");
	must("git -C r.git pack-refs --all");
	set_refs("tags/t=t2 tags/u=t2");
	set_refs("tags/u=t1");
	assert_ok(ref_snapshot_read(repo_fd, 20, &snapshot, &err));
	assert_false(snapshot.has_packed_only);
	struct ref *moved = ref_snapshot_find(&snapshot, "refs/tags/t");
	struct ref *same = ref_snapshot_find(&snapshot, "refs/tags/u");
	assert_true(oid_equal(&moved->oid, &tags[2]) && moved->is_loose);
	assert_int_equal(moved->peel, REF_PEEL_UNKNOWN);
	assert_true(same->is_loose);
	assert_int_equal(same->peel, REF_PEEL_TAG);
	assert_git_lists_the_same(20);
}

TEST(symbolic_refs_keep_their_targets)
{
	set_refs("heads/main=1 heads/b=2");
	must("cd r.git && git symbolic-ref refs/heads/s refs/heads/b && "
	     "git symbolic-ref refs/heads/dangling refs/heads/none && git pack-refs "
	     "--all");
	assert_refs("refs/heads/main=1 refs/heads/b=2 refs/heads/s=>refs/heads/b "
		    "refs/heads/dangling=>refs/heads/none");
	assert_git_lists_the_same(20);
}

TEST(symbolic_refs_are_followed_as_far_as_git_does)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;
	struct oid oid;

	set_refs("heads/s0=1");
	must("cd r.git/refs/heads && for i in 1 2 3 4 5 6 7; do echo ref: "
	     "refs/heads/s$((i-1)) >s$i; done; echo ref: refs/heads/loop >loop");
	assert_git_lists_the_same(20);
	for (int i = 0; i < 7; i++) {
		must("echo ref: refs/heads/s%d >r.git/HEAD", i);
		bool git = run("git -C r.git rev-parse -q --verify HEAD >/dev/null "
			       "2>&1") == 0;
		ref_snapshot_clear(&snapshot);
		assert_ok(ref_snapshot_read(repo_fd, 20, &snapshot, &err));
		assert_int_equal(ref_snapshot_head(&snapshot, &oid), git);
	}
}

TEST(heads_of_every_kind_are_read)
{
	set_refs("heads/main=1");
	must("cd r.git && git symbolic-ref HEAD refs/heads/other");
	assert_refs("HEAD=>refs/heads/other refs/heads/main=1");
	must("cd r.git && git update-ref --no-deref HEAD refs/heads/main");
	assert_refs("HEAD=1 refs/heads/main=1");
	must("cd r.git && rm HEAD && ln -s refs/heads/main HEAD");
	assert_refs("HEAD=>refs/heads/main refs/heads/main=1");
	must("cd r.git && rm HEAD && printf 'ref:\\t refs/heads/main \\n\\n' >HEAD");
	assert_refs("HEAD=>refs/heads/main refs/heads/main=1");
}

TEST(a_symbolic_link_is_a_symbolic_ref)
{
	set_refs("heads/main=1");
	must("cd r.git/refs/heads && ln -s refs/heads/main link");
	assert_refs("refs/heads/main=1 refs/heads/link=>refs/heads/main");
}

TEST(what_git_ignores_is_ignored)
{
	set_refs("heads/main=1");
	must("cd r.git/refs/heads && cp main main.lock && cp main .hidden && "
	     "cp main 'a b' && cp main a..b && cp main a. && mkdir d.lock empty .x && "
	     "cp main d.lock/x && cp main .x/y && cp main 'a~' && touch ../heads/z.lock");
	assert_refs("refs/heads/main=1");
	assert_git_lists_the_same(20);
}

TEST(names_need_not_be_utf8)
{
	set_refs("heads/\xff\xfe=1 heads/\xc3\xa4=2 heads/a=3 tags/\x80=t1");
	assert_refs("refs/heads/\xff\xfe=1 refs/heads/\xc3\xa4=2 refs/heads/a=3 "
		    "refs/tags/\x80=t1");
	assert_git_lists_the_same(20);
	must("git -C r.git pack-refs --all");
	assert_git_lists_the_same(20);
}

static void assert_broken(const char *content, const char *name)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;

	write_text(name, content);
	assert_fails(ref_snapshot_read(repo_fd, 20, &snapshot, &err), ERR_CORRUPT);
	if (!strstr(err.text, name))
		fail_msg("%s", err.text);
}

TEST(a_broken_ref_is_named)
{
	static const char *const contents[] = {
		"",
		"\n",
		"ref:",
		"ref: \n",
		"xyz\n",
		"1111\n",
		"11111111111111111111111111111111111111111\n",
		"0000000000000000000000000000000000000000\n",
		" 1111111111111111111111111111111111111111\n",
	};
	AUTO_STR struct str big = STR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(contents); i++)
		assert_broken(contents[i], "refs/heads/x");
	while (big.len < 5000)
		str_add_char(&big, '1');
	assert_broken(big.data, "refs/heads/x");
	must("rm r.git/refs/heads/x");
	assert_broken("garbage\n", "HEAD");
}

TEST(a_missing_head_is_damage)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;

	must("rm r.git/HEAD");
	assert_fails(ref_snapshot_read(repo_fd, 20, &snapshot, &err), ERR_CORRUPT);
	assert_non_null(strstr(err.text, "HEAD"));
}

TEST(a_packed_refs_that_was_cut_short_is_refused)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;

	set_refs("heads/main=1 heads/other=2");
	must("cd r.git && git pack-refs --all && truncate -s -7 packed-refs");
	assert_fails(ref_snapshot_read(repo_fd, 20, &snapshot, &err), ERR_CORRUPT);
	assert_non_null(strstr(err.text, "line 3"));
}

TEST(packed_refs_of_other_writers_are_read)
{
	set_refs("heads/main=1 heads/a=2 tags/t=t1");
	must("cd r.git && git pack-refs --all && "
	     "grep -v '^[#^]' packed-refs | sort -r >x && mv x packed-refs");
	assert_refs("refs/heads/main=1 refs/heads/a=2 refs/tags/t=t1");
	assert_git_lists_the_same(20);
}

TEST(repositories_of_sha256_are_read)
{
	must("rm -rf r.git && git init -q --bare -b main --object-format=sha256 r.git && "
	     "cd r.git && T=$(git mktree </dev/null) && C=$(git commit-tree -m c $T) && "
	     "git update-ref refs/heads/main $C && git tag -a -m t t $C && "
	     "git pack-refs --all && git update-ref refs/heads/loose $C");
	open_repo();
	assert_git_lists_the_same(32);
}

TEST(a_hundred_thousand_refs_are_the_ones_git_lists)
{
	AUTO_STR struct str text = STR_INIT;
	char oid[OID_MAX_TEXT];

	for (int i = 0; i < 100000; i++)
		str_addf(&text, "%s refs/changes/%02d/%d\n",
			 oid_text(&commits[i % COMMITS], oid), i % 100, i);
	write_text("packed-refs", text.data);
	set_refs("heads/main=1 changes/00/100=7");
	assert_git_lists_the_same(20);
}

static atomic_bool packer_stops;

/* Makes every ref loose again, one after the other, and packs them, over and over. */
static void *pack_in_a_loop(void *unused)
{
	(void)unused;
	while (!atomic_load(&packer_stops))
		if (run("cd r.git && git update-ref --stdin <input && git pack-refs "
			"--all --prune") != 0)
			abort();
	return NULL;
}

static void write_flips(int generation)
{
	AUTO_STR struct str text = STR_INIT;
	char oid[OID_MAX_TEXT];

	for (int i = 0; i < 20; i++)
		str_addf(&text, "update refs/heads/d%d/b%d %s\n", i % 5, i,
			 oid_text(&commits[(generation + i) % COMMITS], oid));
	assert_ok(
		file_replace(repo_fd, "input", text.data, text.len, FILE_NO_SYNC, &err));
}

TEST(no_ref_is_missed_while_git_packs_them)
{
	pthread_t packer;
	int64_t until = clock_boot_ms() + 1200;

	write_flips(0);
	must("git -C r.git update-ref --stdin <r.git/input");
	atomic_store(&packer_stops, false);
	thread_start(&packer, "packer", pack_in_a_loop, NULL);
	for (int round = 1; clock_boot_ms() < until; round++) {
		AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;
		if (round % 16 == 0)
			write_flips(round);
		assert_ok(ref_snapshot_read(repo_fd, 20, &snapshot, &err));
		assert_int_equal(snapshot.refs.count, 20);
	}
	atomic_store(&packer_stops, true);
	thread_join(packer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GIT_CASE(a_new_repository_has_no_refs_and_an_unborn_head),
		GIT_CASE(loose_refs_are_read),
		GIT_CASE(packed_refs_are_read_with_their_peels),
		GIT_CASE(a_loose_ref_hides_the_packed_one_and_its_peel),
		GIT_CASE(symbolic_refs_keep_their_targets),
		GIT_CASE(symbolic_refs_are_followed_as_far_as_git_does),
		GIT_CASE(heads_of_every_kind_are_read),
		GIT_CASE(a_symbolic_link_is_a_symbolic_ref),
		GIT_CASE(what_git_ignores_is_ignored),
		GIT_CASE(names_need_not_be_utf8),
		GIT_CASE(a_broken_ref_is_named),
		GIT_CASE(a_missing_head_is_damage),
		GIT_CASE(a_packed_refs_that_was_cut_short_is_refused),
		GIT_CASE(packed_refs_of_other_writers_are_read),
		GIT_CASE(repositories_of_sha256_are_read),
		GIT_CASE(a_hundred_thousand_refs_are_the_ones_git_lists),
		GIT_CASE(no_ref_is_missed_while_git_packs_them),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
