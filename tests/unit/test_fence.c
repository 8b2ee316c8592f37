#include "git_test.h"

#include "base/thread.h"
#include "git/lock_file.h"

static uint64_t fence(void)
{
	uint64_t now;

	assert_ok(fence_read(repo_fd, &now, &err));
	return now;
}

TEST(a_repository_without_a_fence_is_at_zero)
{
	must("rm r.git/refrelay/fence");
	assert_int_equal(fence(), 0);
	must("rmdir r.git/refrelay");
	assert_int_equal(fence(), 0);
}

TEST(raising_it_is_seen)
{
	assert_ok(fence_raise(repo_fd, 7, &err));
	assert_int_equal(fence(), 7);
	assert_ok(fence_raise(repo_fd, INT64_MAX, &err));
	assert_true(fence() == INT64_MAX);
	assert_nothing_left();
}

TEST(it_never_goes_down)
{
	assert_ok(fence_raise(repo_fd, 7, &err));
	assert_ok(fence_raise(repo_fd, 7, &err));
	assert_fails(fence_raise(repo_fd, 6, &err), ERR_LOST);
	assert_int_equal(fence(), 7);
}

TEST(a_check_wants_exactly_ours)
{
	assert_ok(fence_raise(repo_fd, 7, &err));
	assert_ok(fence_check_locked(repo_fd, 7, &err));
	assert_fails(fence_check_locked(repo_fd, 6, &err), ERR_LOST);
	assert_fails(fence_check_locked(repo_fd, 8, &err), ERR_LOST);
}

TEST(a_file_that_is_no_number_is_damage)
{
	static const char *const contents[] = {
		"", "\n", "x\n", "7 \n", "-1\n", "7\n\n", "0x7\n", "9223372036854775808\n"
	};
	uint64_t now;

	for (size_t i = 0; i < ARRAY_SIZE(contents); i++) {
		write_text("refrelay/fence", contents[i]);
		assert_fails(fence_read(repo_fd, &now, &err), ERR_CORRUPT);
		assert_fails(fence_raise(repo_fd, 9, &err), ERR_CORRUPT);
		assert_fails(fence_check_locked(repo_fd, 9, &err), ERR_CORRUPT);
	}
	assert_false(exists("packed-refs.lock"));
}

TEST(what_stands_in_its_place_goes_with_a_copy_that_goes)
{
	static const char *const ways[] = {
		"mkdir refrelay && echo x >refrelay/fence",
		"mkdir -p refrelay/fence/x",
		"mkdir refrelay && ln -s nowhere refrelay/fence",
		"mkdir refrelay && mkfifo refrelay/fence",
		"touch refrelay",
		"ln -s nowhere refrelay",
	};

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		must("cd r.git && rm -r refrelay && %s", ways[i]);
		assert_ok(fence_raise_anew(repo_fd, 7, &err));
		assert_int_equal(fence(), 7);
		assert_fails(fence_raise_anew(repo_fd, 6, &err), ERR_LOST);
	}
}

static void *raise_to_eight(void *result)
{
	struct err error;

	*(int *)result = fence_raise(repo_fd, 8, &error);
	return NULL;
}

TEST(raising_waits_for_a_publication)
{
	struct lock_owner owner;
	struct lock_file lock;
	pthread_t thread;
	int result = -2;

	assert_ok(lock_owner_open(repo_fd, "refrelay", &owner, &err));
	assert_ok(lock_file_take(&owner, "packed-refs", 0, &lock, &err));
	thread_start(&thread, "raiser", raise_to_eight, &result);
	usleep(150000);
	assert_int_equal(fence(), 1);
	lock_file_release(&lock);
	thread_join(thread);
	lock_owner_close(&owner);
	assert_int_equal(result, 0);
	assert_int_equal(fence(), 8);
}

TEST(raising_removes_what_a_crashed_publication_left)
{
	write_text("packed-refs.new", "half");
	assert_ok(fence_raise(repo_fd, 2, &err));
	assert_false(exists("packed-refs.new"));
	write_text("packed-refs.new", "half");
	assert_ok(fence_raise(repo_fd, 2, &err));
	assert_false(exists("packed-refs.new"));
}

TEST(a_raise_that_was_killed_does_not_hinder_the_next)
{
	assert_int_equal(wait_end(start_helper("raise", "5", "fence.locked=kill")),
			 128 + SIGKILL);
	assert_true(exists("packed-refs.lock"));
	assert_int_equal(fence(), 1);
	assert_ok(fence_raise(repo_fd, 4, &err));
	assert_int_equal(fence(), 4);
	assert_false(exists("packed-refs.lock"));
}

/* It stops under the lock; nobody passes it, and it does not pass who was granted more.
 */
TEST(a_paused_raise_cannot_lower_it)
{
	struct lock_owner owner;
	struct lock_file lock;
	pid_t pid = start_helper("raise", "5", "fence.locked=stop");

	wait_stopped(pid);
	assert_ok(lock_owner_open(repo_fd, "refrelay", &owner, &err));
	assert_fails(lock_file_take(&owner, "packed-refs", 50, &lock, &err),
		     ERR_CONFLICT);
	lock_owner_close(&owner);
	let_go(pid);
	assert_int_equal(wait_end(pid), 0);
	assert_int_equal(fence(), 5);
	assert_nothing_left();
}

enum { RAISERS = 4, RAISES = 40 };

static void *raise_in_a_loop(void *start_at)
{
	struct err error;

	for (uint64_t i = 0; i < RAISES; i++)
		if (fence_raise(repo_fd, *(uint64_t *)start_at + i * RAISERS, &error) !=
			    0 &&
		    error.class != ERR_LOST)
			abort();
	return NULL;
}

TEST(many_raise_it_and_the_highest_stays)
{
	pthread_t threads[RAISERS];
	uint64_t starts[RAISERS], last = 0;

	for (uint64_t i = 0; i < RAISERS; i++) {
		starts[i] = 10 + i;
		thread_start(&threads[i], "raiser", raise_in_a_loop, &starts[i]);
	}
	for (int i = 0; i < 200; i++) {
		uint64_t now = fence();
		assert_true(now >= last);
		last = now;
		usleep(500);
	}
	for (size_t i = 0; i < RAISERS; i++)
		thread_join(threads[i]);
	assert_int_equal(fence(), 10 + RAISERS * RAISES - 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		GIT_CASE(a_repository_without_a_fence_is_at_zero),
		GIT_CASE(raising_it_is_seen),
		GIT_CASE(it_never_goes_down),
		GIT_CASE(a_check_wants_exactly_ours),
		GIT_CASE(a_file_that_is_no_number_is_damage),
		GIT_CASE(what_stands_in_its_place_goes_with_a_copy_that_goes),
		GIT_CASE(raising_waits_for_a_publication),
		GIT_CASE(raising_removes_what_a_crashed_publication_left),
		GIT_CASE(a_raise_that_was_killed_does_not_hinder_the_next),
		GIT_CASE(a_paused_raise_cannot_lower_it),
		GIT_CASE(many_raise_it_and_the_highest_stays),
	};

	if (argc > 1) {
		enter_helper(argv);
		return fence_raise(repo_fd, strtoull(argv[4], NULL, 10), &err) == 0 ? 0
										    : 1;
	}
	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
