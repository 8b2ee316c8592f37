#include "git_test.h"

#include "git/fingerprint.h"

static struct fingerprint take(enum fingerprint_scope scope)
{
	struct fingerprint print;

	assert_ok(fingerprint_take(repo_fd, scope, &print, &err));
	return print;
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

TEST(packs_count_for_copies_only)
{
	struct fingerprint before = take(FINGERPRINT_REFS);

	assert_seen(FINGERPRINT_COPY, "touch objects/pack/y.pack");
	assert_seen(FINGERPRINT_COPY, "rm objects/pack/x.pack");
	struct fingerprint after = take(FINGERPRINT_REFS);
	assert_true(fingerprint_equal(&before, &after));
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
	struct fingerprint print = take(FINGERPRINT_REFS);

	print.is_shared = false;
	print.newest_ns = print.taken_ns - (int64_t)19 * 1000000;
	assert_false(fingerprint_is_settled(&print));
	print.newest_ns = print.taken_ns - (int64_t)20 * 1000000;
	assert_true(fingerprint_is_settled(&print));
	print.is_shared = true;
	assert_false(fingerprint_is_settled(&print));
	print.newest_ns = print.taken_ns - (int64_t)3 * 1000000000;
	assert_true(fingerprint_is_settled(&print));
	print.newest_ns = print.taken_ns + (int64_t)3600 * 1000000000;
	assert_false(fingerprint_is_settled(&print));
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
	struct fingerprint print;

	must("rm -rf r.git/refs");
	assert_fails(fingerprint_take(repo_fd, FINGERPRINT_REFS, &print, &err),
		     ERR_MISSING);
}

TEST(it_is_written_as_64_digits)
{
	struct fingerprint print = take(FINGERPRINT_REFS);
	char text[FINGERPRINT_TEXT_SIZE];

	fingerprint_format(&print, text);
	assert_int_equal(strlen(text), 64);
	assert_int_equal(strspn(text, "0123456789abcdef"), 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FILLED_CASE(every_kind_of_change_is_seen),
		FILLED_CASE(a_loose_ref_that_is_edited_in_place_is_seen),
		FILLED_CASE(a_time_that_is_set_back_is_seen),
		FILLED_CASE(packs_count_for_copies_only),
		FILLED_CASE(looking_changes_nothing),
		FILLED_CASE(a_fingerprint_is_proof_only_when_its_stamps_are_old_enough),
		FILLED_CASE(the_newest_stamp_is_found_wherever_it_is),
		FILLED_CASE(a_missing_refs_directory_is_reported),
		FILLED_CASE(it_is_written_as_64_digits),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
