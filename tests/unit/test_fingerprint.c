#include "git_test.h"

#include <sys/syscall.h>

#include "git/fingerprint.h"

/* What is added to st_dev: another host, or another mount, numbers its devices itself. */
static dev_t elsewhere;

/* As ext4 with inodes of 128 bytes. */
static bool stamps_seconds;

int fstatat(int dir, const char *restrict path, struct stat *restrict st, int flags)
{
	long result = syscall(SYS_newfstatat, dir, path, st, flags);

	st->st_dev += elsewhere;
	if (stamps_seconds)
		st->st_mtim.tv_nsec = st->st_ctim.tv_nsec = 0;
	return (int)result;
}

int fstat(int fd, struct stat *st)
{
	return fstatat(fd, "", st, AT_EMPTY_PATH);
}

static struct fingerprint take(enum fingerprint_scope scope)
{
	struct fingerprint fingerprint;

	assert_ok(fingerprint_take(repo_fd, scope, &fingerprint, &err));
	return fingerprint;
}

static int make_filled(void **state)
{
	if (make_repo(state) != 0)
		return -1;
	must("cd r.git && for i in 1 2 3; do git update-ref refs/heads/b$i "
	     "$(git --git-dir=%s rev-parse v$i^{}) || exit 1; done && "
	     "git update-ref refs/heads/d/e refs/heads/b1 && git pack-refs --all && "
	     "git update-ref refs/heads/b1 refs/heads/b2 && "
	     "git update-ref refs/heads/d/e refs/heads/b2 && echo d >description && "
	     "git symbolic-ref HEAD refs/heads/b3 && touch objects/pack/x.pack",
	     store_path);
	return 0;
}

#define FILLED_CASE(name)                                                                \
	cmocka_unit_test_setup_teardown(name, make_filled, test_remove_root)

static void assert_seen(enum fingerprint_scope scope, const char *command)
{
	struct fingerprint before = take(scope);

	must("cd r.git && %s", command);
	struct fingerprint after = take(scope);
	if (fingerprint_equal(&before, &after))
		fail_msg("not seen: %s", command);
}

TEST(a_file_system_that_stamps_seconds_settles_after_some)
{
	stamps_seconds = true;
	struct fingerprint fingerprint = take(FINGERPRINT_REFS);
	stamps_seconds = false;
	fingerprint.taken_ns = fingerprint.newest_ns + INT64_C(1900000000);
	assert_false(fingerprint_is_settled(&fingerprint));
	fingerprint.taken_ns = fingerprint.newest_ns + INT64_C(3000000000);
	assert_true(fingerprint_is_settled(&fingerprint));
}

TEST(every_kind_of_change_is_seen)
{
	static const char *const commands[] = {
		"git update-ref refs/heads/b1 refs/heads/b3",
		"git update-ref refs/heads/b2 refs/heads/b3",
		"git update-ref refs/heads/new refs/heads/b3",
		"git update-ref refs/heads/d/e refs/heads/b3",
		"git update-ref -d refs/heads/b2",
		"git update-ref -d refs/heads/d/e",
		"git branch -m b1 moved",
		"git symbolic-ref HEAD refs/heads/moved",
		"git symbolic-ref refs/heads/s refs/heads/moved",
		"git rev-parse b3 >x && cat x >refs/heads/moved",
		"git config transfer.hideRefs refs/x",
		"cp packed-refs y && mv y packed-refs",
		"git pack-refs --all",
		"echo other >description",
		"rm description",
		"echo 1 >shallow",
		"mkdir refs/heads/empty",
		"rmdir refs/heads/empty",
		"touch config.worktree",
	};

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		assert_seen(FINGERPRINT_REFS, commands[i]);
}

/* One hex digit for another, in place: neither size nor directory changes. */
TEST(a_loose_ref_that_is_edited_in_place_is_seen)
{
	assert_seen(FINGERPRINT_REFS, "printf 0 | dd of=refs/heads/d/e bs=1 "
				      "conv=notrunc status=none");
}

TEST(a_time_that_is_set_back_is_seen)
{
	assert_seen(FINGERPRINT_REFS,
		    "touch -r refs/heads/b1 z && printf 0 | dd of=refs/heads/b1 bs=1 "
		    "conv=notrunc status=none && touch -r z refs/heads/b1");
}

TEST(hosts_that_share_a_file_system_take_equal_ones)
{
	struct fingerprint here = take(FINGERPRINT_COPY), there;

	elsewhere = 1;
	there = take(FINGERPRINT_COPY);
	elsewhere = 0;
	assert_true(fingerprint_equal(&here, &there));
}

TEST(symbolic_links_are_told)
{
	static const char *const links[] = { "HEAD", "packed-refs", "refs/heads/d/e" };

	assert_false(take(FINGERPRINT_REFS).has_links);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		must("cd r.git && mv %s kept && ln -s nowhere %s", links[i], links[i]);
		assert_true(take(FINGERPRINT_REFS).has_links);
		must("cd r.git && mv kept %s", links[i]);
	}
}

TEST(packs_count_for_copies_only)
{
	struct fingerprint before = take(FINGERPRINT_REFS);

	assert_seen(FINGERPRINT_COPY, "touch objects/pack/y.pack");
	assert_seen(FINGERPRINT_COPY, "rm objects/pack/x.pack");
	struct fingerprint after = take(FINGERPRINT_REFS);
	assert_true(fingerprint_equal(&before, &after));
}

TEST(what_diverts_git_counts_for_copies)
{
	static const char *const commands[] = {
		"echo ../x >commondir",
		"echo ../y >commondir",
		"rm commondir",
		"mkdir -p info && : >info/grafts",
		": >objects/info/alternates",
		"rm objects/info/alternates",
		": >gitdir",
	};

	must("rm -f r.git/objects/info/alternates");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		assert_seen(FINGERPRINT_COPY, commands[i]);
	must("rm r.git/info/grafts");
	assert_seen(FINGERPRINT_FILES, ": >info/grafts");
}

TEST(what_is_written_in_place_among_objects_is_seen)
{
	static const char *const commands[] = {
		"printf x >>objects/pack/x.pack",
		"truncate -s 0 objects/pack/x.pack",
		"touch objects/pack/x.idx",
		"printf x >>objects/info/commit-graphs/x",
		"printf x >>objects/pack/multi-pack-index.d/x",
	};

	must("cd r.git/objects && mkdir info/commit-graphs pack/multi-pack-index.d");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		assert_seen(FINGERPRINT_OBJECTS, commands[i]);
	struct fingerprint before = take(FINGERPRINT_OBJECTS);
	must("cd r.git && : >objects/pack/tmp_pack_1 && mkdir refs/heads/more");
	struct fingerprint after = take(FINGERPRINT_OBJECTS);
	assert_true(fingerprint_equal(&before, &after));
}

TEST(times_that_are_put_back_leave_a_later_change)
{
	static const char *const commands[] = { "printf y | dd of=objects/pack/x.pack",
						"ln objects/pack/x.pack z", "rm z" };

	must("cd r.git && printf x >objects/pack/x.pack && "
	     "touch -d 2020-01-01 objects/pack/x.pack");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		struct fingerprint before = take(FINGERPRINT_OBJECTS);
		usleep(20000);
		must("cd r.git && %s 2>/dev/null && "
		     "touch -d 2020-01-01 objects/pack/x.pack",
		     commands[i]);
		struct fingerprint after = take(FINGERPRINT_OBJECTS);
		assert_true(fingerprint_equal(&before, &after));
		assert_true(after.changed_ns > before.changed_ns);
	}
}

TEST(looking_changes_nothing)
{
	struct fingerprint before = take(FINGERPRINT_COPY);

	must("cd r.git && git for-each-ref >/dev/null && git log b1 >/dev/null && "
	     "git rev-parse HEAD >/dev/null && git fsck 2>/dev/null >&2");
	struct fingerprint after = take(FINGERPRINT_COPY);
	assert_true(fingerprint_equal(&before, &after));
}

TEST(a_fingerprint_is_proof_only_when_its_stamps_are_old_enough)
{
	struct fingerprint fingerprint = take(FINGERPRINT_REFS);

	fingerprint.is_shared = false;
	fingerprint.newest_ns = fingerprint.taken_ns - (int64_t)19 * 1000000;
	assert_false(fingerprint_is_settled(&fingerprint));
	fingerprint.newest_ns = fingerprint.taken_ns - (int64_t)20 * 1000000;
	assert_true(fingerprint_is_settled(&fingerprint));
	fingerprint.is_shared = true;
	assert_false(fingerprint_is_settled(&fingerprint));
	fingerprint.newest_ns = fingerprint.taken_ns - (int64_t)3 * 1000000000;
	assert_true(fingerprint_is_settled(&fingerprint));
	fingerprint.newest_ns = fingerprint.taken_ns + (int64_t)3600 * 1000000000;
	assert_false(fingerprint_is_settled(&fingerprint));
}

/* Which of all stamps is the newest must not depend on where it is. */
TEST(the_newest_stamp_is_found_wherever_it_is)
{
	static const char *const commands[] = { "touch HEAD", "touch refs",
						"touch packed-refs",
						"touch refs/heads/d/e",
						"chmod 644 config" };

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		usleep(30000);
		struct fingerprint before = take(FINGERPRINT_REFS);
		assert_true(fingerprint_is_settled(&before));
		must("cd r.git && %s", commands[i]);
		struct fingerprint after = take(FINGERPRINT_REFS);
		assert_true(after.newest_ns > before.taken_ns - 10000000);
	}
}

TEST(a_missing_refs_directory_is_reported)
{
	struct fingerprint fingerprint;

	must("rm -rf r.git/refs");
	assert_fails(fingerprint_take(repo_fd, FINGERPRINT_REFS, &fingerprint, &err),
		     ERR_MISSING);
}

/* It took all descriptors, or the stack. */
TEST(a_repository_that_is_nested_too_deep_is_refused)
{
	struct fingerprint fingerprint;

	must("cd r.git/refs/heads && for i in $(seq 100); do mkdir n && cd n || exit 1; "
	     "done");
	assert_fails(fingerprint_take(repo_fd, FINGERPRINT_REFS, &fingerprint, &err),
		     ERR_CONFIG);
}

TEST(it_is_written_as_64_digits)
{
	struct fingerprint fingerprint = take(FINGERPRINT_REFS);
	char text[FINGERPRINT_TEXT_SIZE];

	fingerprint_format(&fingerprint, text);
	assert_int_equal(strlen(text), 64);
	assert_int_equal(strspn(text, "0123456789abcdef"), 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FILLED_CASE(a_file_system_that_stamps_seconds_settles_after_some),
		FILLED_CASE(every_kind_of_change_is_seen),
		FILLED_CASE(a_loose_ref_that_is_edited_in_place_is_seen),
		FILLED_CASE(a_time_that_is_set_back_is_seen),
		FILLED_CASE(hosts_that_share_a_file_system_take_equal_ones),
		FILLED_CASE(symbolic_links_are_told),
		FILLED_CASE(packs_count_for_copies_only),
		FILLED_CASE(what_diverts_git_counts_for_copies),
		FILLED_CASE(what_is_written_in_place_among_objects_is_seen),
		FILLED_CASE(times_that_are_put_back_leave_a_later_change),
		FILLED_CASE(looking_changes_nothing),
		FILLED_CASE(a_fingerprint_is_proof_only_when_its_stamps_are_old_enough),
		FILLED_CASE(the_newest_stamp_is_found_wherever_it_is),
		FILLED_CASE(a_missing_refs_directory_is_reported),
		FILLED_CASE(a_repository_that_is_nested_too_deep_is_refused),
		FILLED_CASE(it_is_written_as_64_digits),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
