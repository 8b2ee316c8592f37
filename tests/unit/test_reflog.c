#include "objects_test.h"

#include "git/reflog.h"

#define NOW ((int64_t)1800000000)
#define DAY ((int64_t)24 * 3600)

static struct repo repo;

/* main is at its second commit in r.git, old is its first. */
static int make_copy(void **state)
{
	if (make_work(state) != 0)
		return -1;
	must(WORK "git tag old; git commit -q --amend -m new");
	must("git clone -q --bare w r.git && git -C r.git tag -d old >/dev/null");
	open_at("r.git", &repo);
	return 0;
}

static int remove_copy(void **state)
{
	repo_close(&repo);
	return test_remove_root(state);
}

#define COPY_CASE(name) cmocka_unit_test_setup_teardown(name, make_copy, remove_copy)

static struct reflog_move move_of(const char *ref, const char *before, const char *after)
{
	AUTO_FREE char *names = xasprintf("%s %s", before, after);
	oid_list list = objects_of("w", names);
	struct reflog_move move = { .ref = ref,
				    .before = list.items[0],
				    .after = list.items[1] };

	vec_clear(&list);
	return move;
}

static void keep(const char *ref, int64_t now)
{
	struct reflog_move move = move_of(ref, "old", "main");

	assert_ok(reflog_keep(repo.fd, &move, now, &err));
}

static size_t tidy(const char *branches, int64_t now, enum reflog_tidying tidying)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	size_t found = 0;

	if (branches) {
		must("git -C r.git for-each-ref --format='delete %%(refname)' | "
		     "git -C r.git -c core.logAllRefUpdates=false update-ref "
		     "--no-deref --stdin 2>/dev/null; "
		     "for b in %s; do git -C r.git update-ref refs/heads/$b "
		     "$(git -C w rev-parse main); done",
		     branches);
		assert_ok(ref_snapshot_read(repo.fd, 20, &refs, &err));
	}
	assert_ok(reflog_tidy(repo.fd, branches ? &refs : NULL, now, tidying, &found,
			      &err));
	return found;
}

/* What git itself makes of it, as of now. */
TEST(git_keeps_and_names_what_a_branch_was)
{
	keep("refs/heads/main", time(NULL));
	must("cd r.git && old=$(git -C ../w rev-parse old) && "
	     "test \"$(git rev-parse 'main@{1}')\" = $old && "
	     "git reflog show --no-abbrev main | grep -q \"^$old main@{1}: refrelay: \" "
	     "&& "
	     "git reflog show main | grep 'main@{0}: refrelay: the upstream rewrote "
	     "refs/heads/main$' >/dev/null && test \"$(git reflog show main | wc -l)\" = "
	     "2 "
	     "&& git gc -q --prune=now && git cat-file -e $old && "
	     "git prune --expire=now && git cat-file -e $old && "
	     "git fsck --strict 2>&1 && git reflog expire --all && "
	     "test \"$(git rev-parse 'main@{1}')\" = $old");
	must("cd r.git && rm -r logs && git gc -q --prune=now && "
	     "! git cat-file -e $(git -C ../w rev-parse old) 2>/dev/null");
}

TEST(what_moved_forward_in_between_is_no_gap)
{
	struct reflog_move back = move_of("refs/heads/main", "main^{tree}", "old");

	keep("refs/heads/main", NOW);
	assert_ok(reflog_keep(repo.fd, &back, NOW + 10, &err));
	must("test $(wc -l <r.git/logs/refs/heads/main) = 4 && "
	     "test \"$(sed -n 3p r.git/logs/refs/heads/main | cut -d ' ' -f 1,2)\" = "
	     "\"$(git -C w rev-parse main) $(git -C w rev-parse 'main^{tree}')\"");
	keep("refs/heads/main", NOW + 20); /* old is what it is by now */
	must("test $(wc -l <r.git/logs/refs/heads/main) = 5");
}

TEST(the_same_is_not_said_twice_within_an_hour)
{
	keep("refs/heads/main", NOW);
	keep("refs/heads/main", NOW + 3599);
	must("test $(wc -l <r.git/logs/refs/heads/main) = 2");
	keep("refs/heads/main", NOW + 3601);
	must("test $(wc -l <r.git/logs/refs/heads/main) = 4");
}

TEST(half_a_line_is_ended_first)
{
	must("mkdir -p r.git/logs/refs/heads && printf 0123 >r.git/logs/refs/heads/main");
	keep("refs/heads/main", time(NULL));
	must("cd r.git && test \"$(git rev-parse 'main@{1}')\" = "
	     "$(git -C ../w rev-parse old) && test $(wc -l <logs/refs/heads/main) = 3");
}

TEST(entries_of_ours_go_after_fourteen_days)
{
	keep("refs/heads/a/b", NOW);
	keep("refs/heads/main", NOW);
	must("printf '%%s %%s P <p@x> 1 +0000\\tpush\\n' $(git -C w rev-parse old main) "
	     ">>r.git/logs/refs/heads/main");
	keep("refs/heads/c", NOW + DAY);
	assert_int_equal(tidy(NULL, NOW + 14 * DAY, REFLOG_REMOVE), 0);
	assert_int_equal(tidy(NULL, NOW + 14 * DAY + 1, REFLOG_COUNT), 2);
	must("test -s r.git/logs/refs/heads/a/b");
	assert_int_equal(tidy(NULL, NOW + 14 * DAY + 1, REFLOG_REMOVE), 2);
	must("cd r.git/logs/refs/heads && test ! -e a && test -s c && "
	     "test \"$(cut -f 2 main)\" = push");
	assert_int_equal(tidy(NULL, NOW + 15 * DAY + 1, REFLOG_REMOVE), 1);
	must("rm r.git/logs/refs/heads/main");
	keep("refs/heads/main", NOW);
	assert_int_equal(tidy(NULL, NOW + 99 * DAY, REFLOG_REMOVE), 1);
	must("test ! -e r.git/logs");
}

TEST(a_branch_that_is_gone_leaves_its_log_to_heads)
{
	keep("refs/heads/a", NOW);
	keep("refs/heads/x/y", NOW);
	assert_int_equal(tidy("main a/b x", NOW, REFLOG_REMOVE), 2);
	must("cd r.git/logs && test ! -e refs && test $(grep -c 'refs/heads/a' HEAD) = 2 "
	     "&& test $(grep -c 'refs/heads/x/y' HEAD) = 2");
	keep("refs/heads/a/b", NOW);
	keep("refs/heads/x", NOW);
	must("cd r.git/logs/refs/heads && test -s a/b && test -s x");
	must("cd r.git && git reflog expire --expire=never --expire-unreachable=never "
	     "--all && git gc -q --prune=now && "
	     "git cat-file -e $(git -C ../w rev-parse old)");
	assert_int_equal(tidy(NULL, NOW + 15 * DAY, REFLOG_REMOVE), 3);
	must("test ! -e r.git/logs");
}

TEST(where_another_file_is_in_the_way_head_has_it)
{
	must("mkdir -p r.git/logs/refs/heads && echo other >r.git/logs/refs/heads/a");
	keep("refs/heads/a/b", NOW);
	must("grep -q 'rewrote refs/heads/a/b$' r.git/logs/HEAD && "
	     "test \"$(cat r.git/logs/refs/heads/a)\" = other");
}

TEST(the_old_values_of_many_stand_in_one_file)
{
	struct reflog_move one = move_of("refs/heads/main", "old", "main");
	reflog_moves moves = { 0 };

	for (size_t i = 0; i < 500; i++)
		vec_add(&moves, one);
	assert_ok(reflog_keep_many(repo.fd, &moves, time(NULL), &err));
	vec_clear(&moves);
	must("cd r.git && test $(git reflog show HEAD | wc -l) = 500 && "
	     "git gc -q --prune=now && git cat-file -e $(git -C ../w rev-parse old)");
}

TEST(nothing_is_written_by_way_of_a_link)
{
	struct reflog_move move = move_of("refs/heads/main", "old", "main");

	must("mkdir elsewhere && ln -s ../elsewhere r.git/logs");
	assert_int_equal(reflog_keep(repo.fd, &move, NOW, &err), -1);
	must("test -z \"$(ls elsewhere)\" && rm r.git/logs && mkdir -p elsewhere/heads "
	     "r.git/logs && ln -s ../../elsewhere r.git/logs/refs");
	keep("refs/heads/main", NOW);
	must("test -z \"$(ls elsewhere/heads)\" && test -s r.git/logs/HEAD");
	assert_int_equal(tidy("main", NOW + 15 * DAY, REFLOG_REMOVE), 1);
}

TEST(of_sha256_it_is_the_same)
{
	struct reflog_move move = { .ref = "refs/heads/main" };
	AUTO_FREE char *before = NULL, *after = NULL;
	size_t found = 0;
	AUTO_REPO struct repo copy = REPO_INIT;

	must("git init -q -b main --object-format=sha256 s && cd s && "
	     "git commit -q --allow-empty -m one && git tag old && "
	     "git commit -q --amend --allow-empty -m two && "
	     "git clone -q --bare . ../s.git && git -C ../s.git tag -d old >/dev/null");
	before = output_of("git -C s rev-parse old");
	after = output_of("git -C s rev-parse main");
	assert_true(oid_parse(before, 32, &move.before) &&
		    oid_parse(after, 32, &move.after));
	open_at("s.git", &copy);
	assert_ok(reflog_keep(copy.fd, &move, time(NULL), &err));
	must("cd s.git && git gc -q --prune=now && test \"$(git rev-parse 'main@{1}')\" "
	     "= "
	     "$(git -C ../s rev-parse old)");
	assert_ok(reflog_tidy(copy.fd, NULL, time(NULL) + 15 * DAY, REFLOG_REMOVE, &found,
			      &err));
	assert_int_equal(found, 1);
	must("test ! -e s.git/logs");
}

/* What is there over and over, until there are as many bytes. */
static void fill_log(const char *log, long bytes)
{
	must("cd r.git/logs && cp %s x && while test $(stat -c %%s x) -lt %ld; do "
	     "cat x x >y && mv y x; done && mv x %s",
	     log, bytes, log);
}

TEST(no_log_grows_without_bound)
{
	struct reflog_move one = move_of("refs/heads/main", "old", "main");
	reflog_moves moves = { 0 };

	keep("refs/heads/main", NOW);
	fill_log("refs/heads/main", (16 << 20) - 100);
	must("cp r.git/logs/refs/heads/main full");
	keep("refs/heads/main", NOW + DAY);
	must("cmp full r.git/logs/refs/heads/main && "
	     "test $(grep -c refs/heads/main r.git/logs/HEAD) -gt 0 && "
	     "cp full r.git/logs/HEAD");
	assert_int_equal(reflog_keep(repo.fd, &one, NOW + 2 * DAY, &err), -1);
	assert_int_equal(err.class, ERR_CONFIG);
	vec_add(&moves, one);
	assert_int_equal(reflog_keep_many(repo.fd, &moves, NOW, &err), -1);
	assert_int_equal(err.class, ERR_CONFIG);
	assert_non_null(strstr(err.text, "HEAD"));
	vec_clear(&moves);
	must("cmp full r.git/logs/HEAD");
}

TEST(a_log_that_is_too_long_gets_shorter)
{
	keep("refs/heads/main", NOW);
	must("mv r.git/logs/refs/heads/main r.git/logs/HEAD");
	fill_log("HEAD", 20 << 20);
	assert_int_equal(tidy(NULL, NOW + 15 * DAY, REFLOG_REMOVE), 1);
	must("test ! -e r.git/logs/HEAD");
}

/* git is at work on it. */
TEST(a_log_that_is_locked_is_left_for_later)
{
	keep("refs/heads/main", NOW);
	must("touch r.git/logs/refs/heads/main.lock");
	tidy(NULL, NOW + 15 * DAY, REFLOG_REMOVE);
	must("test -s r.git/logs/refs/heads/main && rm r.git/logs/refs/heads/main.lock");
	tidy(NULL, NOW + 15 * DAY, REFLOG_REMOVE);
	must("test ! -e r.git/logs");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		COPY_CASE(git_keeps_and_names_what_a_branch_was),
		COPY_CASE(what_moved_forward_in_between_is_no_gap),
		COPY_CASE(the_same_is_not_said_twice_within_an_hour),
		COPY_CASE(half_a_line_is_ended_first),
		COPY_CASE(entries_of_ours_go_after_fourteen_days),
		COPY_CASE(a_branch_that_is_gone_leaves_its_log_to_heads),
		COPY_CASE(where_another_file_is_in_the_way_head_has_it),
		COPY_CASE(the_old_values_of_many_stand_in_one_file),
		COPY_CASE(nothing_is_written_by_way_of_a_link),
		COPY_CASE(of_sha256_it_is_the_same),
		COPY_CASE(no_log_grows_without_bound),
		COPY_CASE(a_log_that_is_too_long_gets_shorter),
		COPY_CASE(a_log_that_is_locked_is_left_for_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
