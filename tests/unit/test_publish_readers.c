/*
 * Stock git reads the refs in a loop, in child processes, while they are flipped
 * between two generations.
 */
#include "publish_test.h"

enum { READERS = 2, REFS = 50 };

/* A shell that lists the refs until the file `stop` appears; each different answer
 * becomes a file seen.<n>/<digest>. */
static pid_t start_reader(int number)
{
	AUTO_FREE char *line = xasprintf(
		"cd %s && mkdir seen.%d && while test ! -e stop; do "
		"git -C r.git for-each-ref --format='%%(objectname) %%(refname)' "
		">list.%d 2>error.%d && ! test -s error.%d || { cp error.%d list.%d; }; "
		"cp list.%d seen.%d/$(sha1sum <list.%d | cut -c 1-40); "
		"echo >>count.%d; done",
		root, number, number, number, number, number, number, number, number,
		number, number);

	return start_shell(line);
}

static void start_readers(pid_t readers[READERS])
{
	for (int i = 0; i < READERS; i++)
		readers[i] = start_reader(i);
}

/* Each reader has read a lot and seen only these two generations. */
static void assert_seen_whole(const pid_t readers[READERS], const char *one,
			      const char *two)
{
	AUTO_SNAPSHOT struct ref_snapshot first = REF_SNAPSHOT_INIT;
	AUTO_SNAPSHOT struct ref_snapshot second = REF_SNAPSHOT_INIT;

	must("touch stop");
	for (int i = 0; i < READERS; i++)
		assert_int_equal(wait_end(readers[i]), 0);
	refs_of(one, &first);
	refs_of(two, &second);
	AUTO_FREE char *first_list = listing_of(&first);
	AUTO_FREE char *second_list = listing_of(&second);
	assert_ok(file_replace(root_fd, "one", first_list, strlen(first_list),
			       FILE_NO_SYNC, &err));
	assert_ok(file_replace(root_fd, "two", second_list, strlen(second_list),
			       FILE_NO_SYNC, &err));
	must("for f in seen.*/*; do cmp -s $f one || cmp -s $f two || "
	     "{ echo a mixture:; cat $f; exit 1; } >&2; done");
	must("test $(cat count.* | wc -l) -gt 30 && test $(ls seen.* | sort -u | grep -c "
	     "'^[0-9a-f]*$') -ge 2");
}

static char *generation(int commit, const char *more)
{
	AUTO_STR struct str line = STR_INIT;

	for (int i = 0; i < REFS; i++)
		str_addf(&line, "refs/heads/r%d=%d ", i, (commit + i) % COMMITS);
	str_add(&line, more);
	return str_take(&line);
}

static void flip(const char *one, const char *two, int times)
{
	for (int i = 0; i < times; i++)
		assert_ok(try_publish(i % 2 ? one : two));
}

TEST(readers_never_see_a_mixture_of_moved_refs)
{
	AUTO_FREE char *one = generation(0, "");
	AUTO_FREE char *two = generation(1, "");
	pid_t readers[READERS];

	assert_ok(try_publish(one));
	start_readers(readers);
	flip(one, two, 300);
	assert_seen_whole(readers, one, two);
}

TEST(readers_never_see_a_mixture_of_created_deleted_and_renamed_refs)
{
	AUTO_FREE char *one = generation(0, "refs/heads/d=1 refs/heads/e/f=2 refs/x=3");
	AUTO_FREE char *two = generation(1, "refs/heads/d/g=1 refs/heads/e=2 refs/y=3");
	pid_t readers[READERS];

	assert_ok(try_publish(one));
	start_readers(readers);
	flip(one, two, 150);
	assert_seen_whole(readers, one, two);
}

/* Ours read without the help of a fingerprint: one packed-refs is one generation. */
TEST(our_own_snapshots_are_whole_too)
{
	AUTO_FREE char *one = generation(0, "");
	AUTO_FREE char *two = generation(1, "");
	pid_t pid;
	int seen[2] = { 0 };
	const int64_t until = clock_boot_ms() + 500, limit = until + 30 * 1000;

	assert_ok(try_publish(one));
	pid = start_helper("flip", "", NULL);
	while (clock_boot_ms() < until ||
	       ((seen[0] <= 10 || seen[1] <= 10) && clock_boot_ms() < limit)) {
		AUTO_SNAPSHOT struct ref_snapshot now = REF_SNAPSHOT_INIT;
		read_refs(&now);
		bool is_second = oid_equal(&ref_snapshot_find(&now, "refs/heads/r0")->oid,
					   &commits[1]);
		AUTO_SNAPSHOT struct ref_snapshot wanted = REF_SNAPSHOT_INIT;
		refs_of(is_second ? two : one, &wanted);
		assert_snapshots_equal(&now, &wanted);
		seen[is_second]++;
	}
	kill(pid, SIGKILL);
	wait_end(pid);
	assert_true(seen[0] > 10 && seen[1] > 10);
}

static int flip_as_helper(void)
{
	AUTO_FREE char *one = generation(0, "");
	AUTO_FREE char *two = generation(1, "");

	for (;;)
		if (try_publish(two) != 0 || try_publish(one) != 0)
			return 1;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		GIT_CASE(readers_never_see_a_mixture_of_moved_refs),
		GIT_CASE(readers_never_see_a_mixture_of_created_deleted_and_renamed_refs),
		GIT_CASE(our_own_snapshots_are_whole_too),
	};

	if (argc > 1) {
		enter_helper(argv);
		return flip_as_helper();
	}
	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
