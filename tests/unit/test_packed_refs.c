#include "git_test.h"

#include "git/checksum.h"
#include "git/packed_refs.h"

#define LARGE 6000 /* about 380 kB */
#define WAIT_MS 20000

static struct packed_refs *read_packed(void)
{
	struct packed_refs *packed;

	assert_ok(packed_refs_read(repo_fd, 20, &packed, &err));
	return packed;
}

static void wait_until_old(void)
{
	int64_t until = clock_boot_ms() + WAIT_MS;
	struct stat st;

	assert_int_equal(fstatat(repo_fd, "packed-refs", &st, 0), 0);
	while (!fingerprint_is_old(repo_fd, &st))
		assert_true(clock_boot_ms() < until);
}

/* By then the file is old enough. The caller ends the reference. */
static struct packed_refs *read_until_kept(void)
{
	int64_t until = clock_boot_ms() + WAIT_MS;

	for (;;) {
		struct packed_refs *packed = read_packed(), *again = read_packed();
		packed_refs_leave(again);
		if (packed == again)
			return packed;
		packed_refs_leave(packed);
		assert_true(clock_boot_ms() < until);
	}
}

/* The sum of a snapshot that shares nothing. */
static void plain_sum(const struct ref_snapshot *snapshot, struct checksum *sum)
{
	struct ref_snapshot plain = *snapshot;

	plain.packed = NULL;
	checksum_of(&plain, sum);
}

static void assert_value(const char *name, int commit)
{
	AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;
	struct checksum sum, wanted;

	read_refs(&snapshot);
	const struct ref *ref = ref_snapshot_find(&snapshot, name);
	if (commit < 0) {
		assert_null(ref);
	} else {
		assert_non_null(ref);
		assert_true(oid_equal(&ref->oid, &commits[commit]));
	}
	for (size_t i = 1; i < snapshot.refs.count; i++)
		assert_true(strcmp(snapshot.refs.items[i - 1].name,
				   snapshot.refs.items[i].name) < 0);
	checksum_of(&snapshot, &sum);
	plain_sum(&snapshot, &wanted);
	assert_true(checksum_equal(&sum, &wanted));
}

TEST(a_large_file_is_kept_until_it_is_another)
{
	write_large("r.git/packed-refs", LARGE);
	struct packed_refs *first = read_until_kept();
	assert_int_equal(packed_refs_of(first)->refs.count, LARGE);
	write_large("r.git/packed-refs", LARGE - 1);
	struct packed_refs *second = read_until_kept();
	assert_int_equal(packed_refs_of(second)->refs.count, LARGE - 1);
	assert_int_not_equal(packed_refs_serial(first), packed_refs_serial(second));
	assert_int_equal(packed_refs_of(first)->refs.count, LARGE);
	packed_refs_leave(first);
	packed_refs_leave(second);
}

TEST(what_is_written_in_place_is_seen)
{
	char oid[OID_MAX_TEXT];

	write_large("r.git/packed-refs", LARGE);
	struct packed_refs *kept = read_until_kept();
	assert_value("refs/heads/large/000007", 7);
	must("f=r.git/packed-refs && touch -r $f stamp && "
	     "printf '%%s' %s | dd of=$f bs=1 conv=notrunc seek=$(($(grep -b "
	     "large/000007$ $f | cut -d: -f1))) status=none && touch -r stamp $f",
	     oid_text(&commits[9], oid));
	assert_value("refs/heads/large/000007", 9);
	packed_refs_leave(kept);
}

TEST(a_young_file_is_read_each_time)
{
	for (int i = 6; i <= 9; i++) {
		write_large("r.git/packed-refs", LARGE);
		must("sed -i 's,large/000003,large/00%d003,' r.git/packed-refs", i);
		AUTO_FREE char *name = xasprintf("refs/heads/large/00%d003", i);
		assert_value("refs/heads/large/000003", -1);
		AUTO_SNAPSHOT struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;
		read_refs(&snapshot);
		assert_non_null(ref_snapshot_find(&snapshot, name));
	}
}

TEST(a_small_file_is_not_kept)
{
	write_large("r.git/packed-refs", 10);
	wait_until_old();
	struct packed_refs *one = read_packed(), *two = read_packed();
	assert_ptr_not_equal(one, two);
	packed_refs_leave(one);
	packed_refs_leave(two);
}

TEST(loose_refs_stand_above_what_is_kept)
{
	write_large("r.git/packed-refs", LARGE);
	struct packed_refs *kept = read_until_kept();
	assert_value("refs/heads/large/000000", 0);
	must("git -C r.git update-ref refs/heads/large/000000 refs/heads/large/000005");
	assert_value("refs/heads/large/000000", 5);
	must("git -C r.git update-ref refs/heads/large/005999 refs/heads/large/000005");
	assert_value("refs/heads/large/005999", 5);
	must("git -C r.git update-ref refs/heads/a refs/heads/large/000004");
	assert_value("refs/heads/a", 4);
	must("git -C r.git update-ref refs/tags/z refs/heads/large/000006");
	assert_value("refs/tags/z", 6);
	must("git -C r.git symbolic-ref refs/heads/large/000002 refs/heads/a");
	assert_value("refs/tags/z", 6);
	must("git -C r.git update-ref -d refs/heads/a");
	assert_value("refs/heads/a", -1);
	must("git -C r.git symbolic-ref HEAD refs/heads/large/000003");
	assert_value("refs/heads/large/000000", 5);
	must("git -C r.git update-ref -d refs/heads/large/000000");
	assert_value("refs/heads/large/000000", -1);
	packed_refs_leave(kept);
}

TEST(damage_is_told_each_time)
{
	struct packed_refs *packed;

	write_large("r.git/packed-refs", LARGE);
	must("echo nonsense >>r.git/packed-refs");
	for (int i = 0; i < 3; i++) {
		assert_fails(packed_refs_read(repo_fd, 20, &packed, &err), ERR_CORRUPT);
		assert_null(packed);
		wait_until_old();
	}
}

static void assert_same_diff(const struct ref_past *past,
			     const struct ref_snapshot *before)
{
	AUTO_SNAPSHOT struct ref_snapshot after = REF_SNAPSHOT_INIT;
	AUTO_DIFF struct ref_diff since = { 0 }, wanted = { 0 };

	read_refs(&after);
	ref_diff_compute(before, &after, &wanted);
	assert_true(ref_diff_since(past, &after, &since));
	assert_int_equal(since.changes.count, wanted.changes.count);
	for (size_t i = 0; i < since.changes.count; i++) {
		const struct ref_change *one = &since.changes.items[i];
		const struct ref_change *other = &wanted.changes.items[i];
		assert_string_equal(one->name, other->name);
		assert_true(ref_same_value(one->before, other->before));
		assert_true(ref_same_value(one->after, other->after));
	}
	assert_int_equal(since.deletions, wanted.deletions);
	assert_int_equal(since.head_changed, wanted.head_changed);
	assert_int_equal(since.symbolic_changed, wanted.symbolic_changed);
}

TEST(what_changed_since_is_found_by_loose_refs)
{
	static const char *const commands[] = {
		"update-ref refs/heads/large/000001 refs/heads/large/000005",
		"update-ref refs/heads/new refs/heads/large/000005",
		"update-ref refs/heads/loose refs/heads/large/000009",
		"update-ref -d refs/heads/gone",
		"symbolic-ref HEAD refs/heads/new",
		"symbolic-ref refs/heads/large/000004 refs/heads/new",
		"update-ref refs/heads/large/000007 refs/heads/large/000017",
	};
	AUTO_SNAPSHOT struct ref_snapshot before = REF_SNAPSHOT_INIT;
	AUTO_SNAPSHOT struct ref_snapshot after = REF_SNAPSHOT_INIT;
	struct ref_past past;
	struct ref_diff diff;

	write_large("r.git/packed-refs", LARGE);
	must("cd r.git && for i in loose gone large/000007; do "
	     "git update-ref refs/heads/$i refs/heads/large/000008 || exit 1; done");
	packed_refs_leave(read_until_kept());
	read_refs(&before);
	ref_past_take(&before, &past);
	assert_same_diff(&past, &before);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		must("git -C r.git %s", commands[i]);
		assert_same_diff(&past, &before);
	}
	must("rm r.git/refs/heads/large/000007");
	assert_same_diff(&past, &before);
	must("git -C r.git pack-refs --all");
	read_refs(&after);
	assert_false(ref_diff_since(&past, &after, &diff));
	ref_past_clear(&past);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GIT_CASE(a_large_file_is_kept_until_it_is_another),
		GIT_CASE(what_is_written_in_place_is_seen),
		GIT_CASE(a_young_file_is_read_each_time),
		GIT_CASE(a_small_file_is_not_kept),
		GIT_CASE(loose_refs_stand_above_what_is_kept),
		GIT_CASE(damage_is_told_each_time),
		GIT_CASE(what_changed_since_is_found_by_loose_refs),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
