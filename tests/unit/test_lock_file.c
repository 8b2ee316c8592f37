/*
 * Owners that die or are paused are child processes; owners that died within this
 * program are descriptors that were closed: the flock is what counts.
 */
#include "git_test.h"

#include <sched.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/thread.h"
#include "git/lock_file.h"

#define FOLDER "refrelay"

static struct lock_owner owner;

static int make_owner(void **state)
{
	if (make_repo(state) != 0)
		return -1;
	assert_ok(lock_owner_open(repo_fd, FOLDER, &owner, &err));
	return 0;
}

static int remove_owner(void **state)
{
	lock_owner_close(&owner);
	return test_remove_root(state);
}

#define OWNER_CASE(name) cmocka_unit_test_setup_teardown(name, make_owner, remove_owner)

/* A process that holds the lock of `path` until it is killed. */
static pid_t start_holder(const char *path)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		die_with_parent();
		struct lock_owner mine;
		struct lock_file lock;
		if (lock_owner_open(repo_fd, FOLDER, &mine, &err) != 0 ||
		    lock_file_take(&mine, path, 0, &lock, &err) != 0 ||
		    write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void kill_holder(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(wait_end(pid), 128 + SIGKILL);
}

static void assert_taken(const char *path)
{
	struct lock_file lock;

	assert_ok(lock_file_take(&owner, path, 0, &lock, &err));
	lock_file_release(&lock);
}

static void assert_locked(const char *path)
{
	struct lock_file lock;

	assert_fails(lock_file_take(&owner, path, 0, &lock, &err), ERR_CONFLICT);
	assert_null(lock.owner);
}

TEST(git_respects_our_lock_and_works_after_it)
{
	struct lock_file lock;

	assert_ok(lock_file_take(&owner, "refs/heads/a/b", 0, &lock, &err));
	must("cd r.git && ! git update-ref refs/heads/a/b $(git --git-dir=%s rev-parse "
	     "v1) "
	     "2>/dev/null",
	     store_path);
	lock_file_release(&lock);
	must("cd r.git && git update-ref refs/heads/a/b $(git --git-dir=%s rev-parse "
	     "main)",
	     store_path);
}

TEST(directories_left_empty_go_but_those_of_git_stay)
{
	assert_taken("refs/heads/a/b/c");
	assert_false(exists("refs/heads/a"));
	assert_true(exists("refs/heads"));
	assert_taken("refs/changes/01/x");
	assert_false(exists("refs/changes/01"));
	assert_taken("refs/x");
	assert_taken("HEAD");
	must("cd r.git && mkdir -p refs/heads/a && touch refs/heads/a/other");
	assert_taken("refs/heads/a/b/c");
	assert_true(exists("refs/heads/a/other"));
	assert_false(exists("refs/heads/a/b"));
}

TEST(a_held_lock_is_waited_for_as_long_as_asked)
{
	struct lock_owner other;
	struct lock_file held, lock;
	int64_t start_ms = clock_boot_ms();

	assert_ok(lock_owner_open(repo_fd, FOLDER, &other, &err));
	assert_ok(lock_file_take(&other, "HEAD", 0, &held, &err));
	assert_fails(lock_file_take(&owner, "HEAD", 150, &lock, &err), ERR_CONFLICT);
	assert_in_range(clock_boot_ms() - start_ms, 150, 5000);
	assert_non_null(strstr(err.text, "HEAD.lock"));
	lock_file_release(&held);
	lock_owner_close(&other);
	assert_taken("HEAD");
}

static void *release_soon(void *lock)
{
	usleep(150000);
	lock_file_release(lock);
	return NULL;
}

/* As where upper and lower case are the same. */
TEST(our_own_lock_by_another_spelling_is_ours)
{
	struct lock_file first, second, other;
	struct lock_owner another;

	must("mkdir r.git/refs/heads/d && ln -s d r.git/refs/heads/D");
	assert_ok(lock_file_take(&owner, "refs/heads/d/x", 0, &first, &err));
	assert_ok(lock_file_take(&owner, "refs/heads/D/x", 0, &second, &err));
	lock_file_release(&second);
	assert_true(exists("refs/heads/d/x.lock"));
	assert_ok(lock_owner_open(repo_fd, FOLDER, &another, &err));
	assert_fails(lock_file_take(&another, "refs/heads/D/x", 0, &other, &err),
		     ERR_CONFLICT);
	lock_owner_close(&another);
	lock_file_release(&first);
	assert_false(exists("refs/heads/d/x.lock"));
}

/* The one who releases removes the directory, after many rounds of waiting. */
TEST(a_lock_whose_directory_vanishes_while_it_is_waited_for_is_taken)
{
	struct lock_owner other;
	struct lock_file held, lock;
	pthread_t thread;

	assert_ok(lock_owner_open(repo_fd, FOLDER, &other, &err));
	assert_ok(lock_file_take(&other, "refs/heads/d/x", 0, &held, &err));
	thread_start(&thread, "releaser", release_soon, &held);
	assert_ok(lock_file_take(&owner, "refs/heads/d/x", 5000, &lock, &err));
	thread_join(thread);
	assert_true(exists("refs/heads/d/x.lock"));
	lock_file_release(&lock);
	lock_owner_close(&other);
}

TEST(the_lock_of_a_killed_process_is_taken_at_once)
{
	pid_t pid = start_holder("refs/heads/a");

	assert_locked("refs/heads/a");
	kill_holder(pid);
	assert_taken("refs/heads/a");
	assert_false(exists("refs/heads/a.lock"));
}

TEST(the_lock_of_a_paused_process_is_never_touched)
{
	pid_t pid = start_holder("packed-refs");

	kill(pid, SIGSTOP);
	backdate("packed-refs.lock", 7 * 86400);
	assert_locked("packed-refs");
	assert_int_equal(lock_file_bury_dead(repo_fd), 0);
	assert_true(exists("packed-refs.lock"));
	kill_holder(pid);
	assert_taken("packed-refs");
}

/* With no descriptor left nobody can tell who owns it, however old it is. */
TEST(a_lock_that_cannot_be_looked_at_is_left_alone)
{
	pid_t pid = start_holder("HEAD");
	struct lock_file lock;
	int spare[64];
	size_t count = 0;
	struct rlimit old, few;

	backdate("HEAD.lock", 7 * 86400);
	getrlimit(RLIMIT_NOFILE, &old);
	few = (struct rlimit){ 64, old.rlim_max };
	setrlimit(RLIMIT_NOFILE, &few);
	while (count < 64 && (spare[count] = dup(repo_fd)) >= 0)
		count++;
	int result = lock_file_take(&owner, "HEAD", 0, &lock, &err);
	while (count > 0)
		close(spare[--count]);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(result, -1);
	assert_true(exists("HEAD.lock"));
	kill_holder(pid);
}

TEST(a_fresh_lock_of_a_stranger_is_respected)
{
	static const char *const contents[] = {
		"", "1111111111111111111111111111111111111111\n", "refrelay"
	};

	for (size_t i = 0; i < ARRAY_SIZE(contents); i++) {
		write_text("refs/heads/a.lock", contents[i]);
		backdate("refs/heads/a.lock", 3000);
		assert_locked("refs/heads/a");
		assert_int_equal(lock_file_bury_dead(repo_fd), 0);
		assert_true(exists("refs/heads/a.lock"));
	}
}

TEST(where_nobody_else_changes_refs_strangers_locks_go_soon)
{
	static const char *const paths[] = { "refs/heads/a", "HEAD", "packed-refs" };
	pid_t pid = start_holder("refs/heads/ours");

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		AUTO_FREE char *name = xasprintf("%s.lock", paths[i]);
		write_text(name, "");
		backdate(name, 5);
	}
	backdate("refs/heads/ours.lock", 3600);
	assert_int_equal(lock_file_bury_strangers(repo_fd, 10), 0);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		AUTO_FREE char *name = xasprintf("%s.lock", paths[i]);
		backdate(name, 15);
	}
	assert_int_equal(lock_file_bury_strangers(repo_fd, 10), ARRAY_SIZE(paths));
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		assert_taken(paths[i]);
	assert_true(exists("refs/heads/ours.lock")); /* of one who lives */
	kill_holder(pid);
}

TEST(the_lock_of_a_stranger_is_removed_when_it_is_two_hours_old)
{
	write_text("refs/heads/a.lock", "1111\n");
	backdate("refs/heads/a.lock", 7200);
	assert_taken("refs/heads/a");
	assert_false(exists("refs/heads/a.lock"));
}

/* As after a power failure: the names are there, the content is not. */
TEST(our_lock_that_lost_its_content_is_known_by_its_second_name)
{
	write_text("refrelay/00000000000000000000000000000000", "");
	must("cd r.git && ln refrelay/00000000000000000000000000000000 HEAD.lock");
	assert_taken("HEAD");
}

TEST(a_removed_owner_file_means_that_the_owner_is_lost)
{
	struct lock_file lock;

	assert_true(lock_owner_stands(&owner));
	assert_int_equal(unlinkat(repo_fd, owner.name, 0), 0);
	assert_false(lock_owner_stands(&owner));
	assert_fails(lock_file_take(&owner, "HEAD", 0, &lock, &err), ERR_LOST);
	assert_fails(lock_file_take(&owner, "refs/heads/a/b", 0, &lock, &err), ERR_LOST);
}

TEST(an_owner_file_that_was_replaced_does_not_stand)
{
	must("cd r.git && mv %s x && cp x %s", owner.name, owner.name);
	assert_false(lock_owner_stands(&owner));
}

TEST(a_ref_where_the_directory_must_be_is_a_conflict)
{
	write_text("refs/heads/a", "1111111111111111111111111111111111111111\n");
	assert_locked("refs/heads/a/b");
	assert_locked("refs/heads/a/b/c");
}

TEST(a_lock_that_another_has_taken_since_is_not_released)
{
	struct lock_file lock;

	assert_ok(lock_file_take(&owner, "HEAD", 0, &lock, &err));
	must("cd r.git && rm HEAD.lock && echo git >HEAD.lock");
	lock_file_release(&lock);
	assert_true(exists("HEAD.lock"));
}

TEST(all_locks_of_the_dead_are_buried_and_no_others)
{
	pid_t dead = start_holder("refs/heads/d/e/a"), gone = start_holder("HEAD");
	pid_t paused = start_holder("packed-refs");

	kill(paused, SIGSTOP);
	kill_holder(dead);
	kill_holder(gone);
	write_text("refs/heads/git.lock", "1111\n");
	assert_int_equal(lock_file_bury_dead(repo_fd), 2);
	assert_true(exists("packed-refs.lock") && exists("refs/heads/git.lock"));
	assert_false(exists("HEAD.lock"));
	kill_holder(paused);
}

/* Stands in for libc's: somebody may come between making the file and locking it. */
static _Atomic enum { NOBODY, BURIER, BURIER_AT_WORK } comes;

int flock(int fd, int operation)
{
	char path[64], name[PATH_MAX] = "";

	if (comes == NOBODY)
		return (int)syscall(SYS_flock, fd, operation);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, name, sizeof(name) - 1) > 0)
		unlink(name);
	errno = EWOULDBLOCK;
	int result = comes == BURIER ? 0 : -1;
	comes = NOBODY;
	return result;
}

TEST(an_owner_file_that_was_buried_while_it_was_made_is_made_anew)
{
	struct lock_owner other;

	comes = BURIER;
	assert_ok(lock_owner_open(repo_fd, FOLDER, &other, &err));
	assert_true(lock_owner_stands(&other));
	lock_owner_close(&other);
	comes = BURIER_AT_WORK;
	assert_ok(lock_owner_open(repo_fd, FOLDER, &other, &err));
	assert_true(lock_owner_stands(&other));
	lock_owner_close(&other);
}

TEST(the_state_of_an_owner_is_told)
{
	int fd;
	char name[LOCK_OWNER_NAME_SIZE];

	assert_int_equal(lock_owner_probe(repo_fd, "nothing", &fd), LOCK_OWNER_GONE);
	assert_int_equal(lock_owner_probe(repo_fd, owner.name, &fd), LOCK_OWNER_ALIVE);
	assert_int_equal(fd, -1);
	assert_int_equal(lock_owner_probe(repo_fd, "HEAD", &fd), LOCK_OWNER_FOREIGN);
	close(fd);
	memcpy(name, owner.name, sizeof(name));
	close(TAKE_FD(owner.fd));
	assert_int_equal(lock_owner_probe(repo_fd, name, &fd), LOCK_OWNER_DEAD);
	int second;
	assert_int_equal(lock_owner_probe(repo_fd, name, &second), LOCK_OWNER_ALIVE);
	close(fd);
}

enum { THREADS = 6 };

static atomic_int holders, rounds;
static _Atomic(const char *) complaint;

/* A stranger's lock of two hours ago, if there is none. */
static void plant_old_lock(int number)
{
	char name[32];

	snprintf(name, sizeof(name), "old%d", number);
	write_text(name, "stranger\n");
	backdate(name, 7200);
	if (linkat(repo_fd, name, repo_fd, "refs/heads/x.lock", 0) != 0 &&
	    errno != EEXIST)
		complaint = "a lock could not be planted";
	unlinkat(repo_fd, name, 0);
}

/* Takes it once; ends by releasing it, or by dying with it. */
static void hold_once(int number)
{
	struct lock_owner mine;
	struct lock_file lock;
	struct err error;

	if (lock_owner_open(repo_fd, FOLDER, &mine, &error) != 0) {
		complaint = "no owner file";
		return;
	}
	if (lock_file_take(&mine, "refs/heads/x", 2000, &lock, &error) != 0) {
		if (error.class != ERR_CONFLICT)
			complaint = "a taker failed";
		lock_owner_close(&mine);
		return;
	}
	if (atomic_fetch_add(&holders, 1) != 0)
		complaint = "two held the lock at once";
	sched_yield();
	atomic_fetch_sub(&holders, 1);
	atomic_fetch_add(&rounds, 1);
	if (number % 3 == 0) {
		close(TAKE_FD(mine.fd)); /* it died */
		free(lock.path);
		return;
	}
	lock_file_release(&lock);
	lock_owner_close(&mine);
	if (number % 3 == 1)
		plant_old_lock(number);
}

static void *contend(void *number)
{
	int64_t enough_at = clock_boot_ms() + 1000, until = enough_at + 59000;

	/* a second, or longer where that is too short for some rounds */
	while (!complaint &&
	       (clock_boot_ms() < enough_at || (rounds <= 50 && clock_boot_ms() < until)))
		hold_once(*(int *)number);
	return NULL;
}

TEST(one_holds_it_at_a_time_whatever_the_others_bury)
{
	pthread_t threads[THREADS];
	int numbers[THREADS];

	for (int i = 0; i < THREADS; i++) {
		numbers[i] = i;
		thread_start(&threads[i], "contender", contend, &numbers[i]);
	}
	for (int i = 0; i < THREADS; i++)
		thread_join(threads[i]);
	if (complaint)
		fail_msg("%s", complaint);
	assert_true(rounds > 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		OWNER_CASE(git_respects_our_lock_and_works_after_it),
		OWNER_CASE(directories_left_empty_go_but_those_of_git_stay),
		OWNER_CASE(a_held_lock_is_waited_for_as_long_as_asked),
		OWNER_CASE(our_own_lock_by_another_spelling_is_ours),
		OWNER_CASE(
			a_lock_whose_directory_vanishes_while_it_is_waited_for_is_taken),
		OWNER_CASE(the_lock_of_a_killed_process_is_taken_at_once),
		OWNER_CASE(the_lock_of_a_paused_process_is_never_touched),
		OWNER_CASE(a_lock_that_cannot_be_looked_at_is_left_alone),
		OWNER_CASE(a_fresh_lock_of_a_stranger_is_respected),
		OWNER_CASE(where_nobody_else_changes_refs_strangers_locks_go_soon),
		OWNER_CASE(the_lock_of_a_stranger_is_removed_when_it_is_two_hours_old),
		OWNER_CASE(our_lock_that_lost_its_content_is_known_by_its_second_name),
		OWNER_CASE(a_removed_owner_file_means_that_the_owner_is_lost),
		OWNER_CASE(an_owner_file_that_was_replaced_does_not_stand),
		OWNER_CASE(a_ref_where_the_directory_must_be_is_a_conflict),
		OWNER_CASE(a_lock_that_another_has_taken_since_is_not_released),
		OWNER_CASE(all_locks_of_the_dead_are_buried_and_no_others),
		OWNER_CASE(an_owner_file_that_was_buried_while_it_was_made_is_made_anew),
		OWNER_CASE(the_state_of_an_owner_is_told),
		OWNER_CASE(one_holds_it_at_a_time_whatever_the_others_bury),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
