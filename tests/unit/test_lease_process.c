/*
 * Leases between real processes: this program started again with "hold" (obeys lines on
 * stdin, answers on stdout) or "contend". They are killed, stopped and orphaned.
 */
#include "test_lease.h"

#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define STOP_TTL 2000

extern char **environ;

static struct lease_manager *manager;

/* ------------------------------------------------------------------ the helpers */

static int spawn(char *const argv[], int in, int out, int keep)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, 0);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	if (keep >= 0)
		posix_spawn_file_actions_adddup2(&actions, keep, keep);
	if (posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) != 0)
		abort();
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

static void answer(const char *text)
{
	printf("%s\n", text);
	fflush(stdout);
}

static struct lease *helper_acquire(int64_t wait_ms)
{
	struct lease *lease;

	answer("asking");
	if (acquire_for(manager, wait_ms, &lease) != 0) {
		printf("failed %s\n", err.text);
	} else {
		printf("held %" PRIu64 " %d\n", lease_fence(lease),
		       (int)lease_predecessor(lease));
	}
	fflush(stdout);
	return lease;
}

/* One that outlives us, with the guard in its hands, until somebody opens the FIFO. */
static void start_orphan(const struct lease *lease)
{
	AUTO_FREE char *fifo = xasprintf("%s/end", root);
	char timeout[] = "timeout", seconds[] = "60", cat[] = "cat";
	char *argv[] = { timeout, seconds, cat, fifo, NULL };
	AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	spawn(argv, null, null, lease_guard_fd(lease));
	answer("started");
}

static void obey(int64_t wait_ms)
{
	char line[64];
	struct lease *lease = helper_acquire(wait_ms);

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "check") == 0)
			answer(lease_check(lease, &err) == 0 ? "ours"
							     : err_class_name(err.class));
		if (strcmp(line, "release") == 0) {
			lease_release(TAKE(lease));
			answer("released");
		}
		if (strcmp(line, "acquire") == 0)
			lease = helper_acquire(wait_ms);
		if (strcmp(line, "orphan") == 0)
			start_orphan(lease);
	}
}

/* Shared memory that all contenders see, whatever the leases say. */
struct witness {
	atomic_int holders;
	atomic_int rounds;
	atomic_bool broken;
	_Atomic uint64_t fence;
};

static struct witness *map_witness(void)
{
	AUTO_FREE char *path = xasprintf("%s/witness", root);
	AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (ftruncate(fd, sizeof(struct witness)) != 0)
		abort();
	void *shared = mmap(NULL, sizeof(struct witness), PROT_READ | PROT_WRITE,
			    MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED)
		abort();
	return shared;
}

static void contend(int rounds, int crash_percent)
{
	struct witness *witness = map_witness();
	unsigned seed = (unsigned)getpid();
	struct lease *lease;

	while (atomic_load(&witness->rounds) < rounds) {
		if (acquire_for(manager, 20000, &lease) != 0) {
			fprintf(stderr, "contender: %s\n", err.text);
			witness->broken = true;
			return;
		}
		if (atomic_fetch_add(&witness->holders, 1) != 0 ||
		    atomic_exchange(&witness->fence, lease_fence(lease)) >=
			    lease_fence(lease))
			witness->broken = true;
		usleep((useconds_t)rand_r(&seed) % 500);
		atomic_fetch_add(&witness->rounds, 1);
		atomic_fetch_sub(&witness->holders, 1);
		if (rand_r(&seed) % 100 < crash_percent)
			raise(SIGKILL);
		lease_release(lease);
	}
}

static int helper(char *argv[])
{
	log_set_level(LOG_LEVEL_NONE);
	snprintf(root, sizeof(root), "%s", argv[2]);
	store = open_store();
	manager = open_manager(atoll(argv[3]));
	if (strcmp(argv[1], "hold") == 0)
		obey(atoll(argv[4]));
	else
		contend(atoi(argv[4]), atoi(argv[5]));
	lease_manager_close(manager);
	store_close(store);
	return 0;
}

/* ------------------------------------------------------------------ their master */

struct process {
	pid_t pid;
	FILE *to, *from;
	char line[600]; /* its last answer */
};

static void run(struct process *process, const char *mode, int64_t ttl, const char *a,
		const char *b)
{
	char ttl_text[24];
	int to[2], from[2];

	snprintf(ttl_text, sizeof(ttl_text), "%" PRId64, ttl);
	const char *argv[] = { "/proc/self/exe", mode, root, ttl_text, a, b, NULL };
	if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
		fail_msg("no pipe");
	process->pid = spawn((char *const *)(uintptr_t)argv, to[0], from[1], -1);
	close(to[0]);
	close(from[1]);
	process->to = fdopen(to[1], "w");
	process->from = fdopen(from[0], "r");
}

static const char *hear(struct process *process)
{
	if (!fgets(process->line, sizeof(process->line), process->from))
		fail_msg("a helper ended");
	process->line[strcspn(process->line, "\n")] = '\0';
	return process->line;
}

static const char *tell(struct process *process, const char *command)
{
	fprintf(process->to, "%s\n", command);
	fflush(process->to);
	return hear(process);
}

/* Starts one that asks for the lease and waits so long. */
static void start(struct process *process, int64_t ttl, const char *wait_ms)
{
	run(process, "hold", ttl, wait_ms, NULL);
	assert_string_equal(hear(process), "asking");
}

/* Returns after what. */
static int hear_held_after_any(struct process *process, uint64_t *fence)
{
	int predecessor;

	if (sscanf(hear(process), "held %" SCNu64 " %d", fence, &predecessor) != 2)
		fail_msg("%s", process->line);
	return predecessor;
}

static void hear_held(struct process *process, uint64_t *fence,
		      enum lease_predecessor expected)
{
	assert_int_equal(hear_held_after_any(process, fence), expected);
}

static void finish(struct process *process)
{
	fclose(process->to);
	fclose(process->from);
	waitpid(process->pid, NULL, 0);
}

static void kill_9(struct process *process)
{
	kill(process->pid, SIGKILL);
	finish(process);
}

static int setup(void **state)
{
	log_set_level(LOG_LEVEL_NONE);
	if (test_make_root(state) != 0)
		return -1;
	store = open_store();
	manager = open_manager(TTL);
	return 0;
}

static int teardown(void **state)
{
	lease_manager_close(manager);
	store_close(store);
	return test_remove_root(state);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ------------------------------------------------------------------ tests */

static void contend_in(int processes, const char *crash_percent)
{
	struct process contenders[4];
	struct witness *witness = map_witness();
	int64_t began = clock_boot_ms();
	int crashes = 0, status;

	for (int i = 0; i < processes; i++)
		run(&contenders[i], "contend", TTL, "300", crash_percent);
	for (int i = 0; i < processes; i++) {
		while (waitpid(contenders[i].pid, &status, 0) > 0) {
			fclose(contenders[i].to);
			fclose(contenders[i].from);
			if (WIFSIGNALED(status)) {
				crashes++;
				run(&contenders[i], "contend", TTL, "300", crash_percent);
			}
		}
	}
	print_message("# %d processes: %d rounds, %d crashes, %d ms\n", processes,
		      (int)witness->rounds, crashes, (int)(clock_boot_ms() - began));
	assert_false(witness->broken);
	assert_true(witness->rounds >= 300);
	assert_int_equal(tickets(), 0);
	munmap(witness, sizeof(*witness));
}

TEST(two_processes_exclude_each_other)
{
	contend_in(2, "0");
}

TEST(four_processes_exclude_each_other)
{
	contend_in(4, "0");
}

TEST(processes_that_crash_hold_nobody_up)
{
	contend_in(4, "5");
}

static int64_t kill_and_succeed(void)
{
	struct process holder, waiter;
	uint64_t first, second;

	start(&holder, TTL, "0");
	hear_held_after_any(&holder, &first);
	start(&waiter, TTL, "9000");
	wait_until(tickets() == 1);
	usleep(20000);
	int64_t before = clock_boot_ms();
	kill_9(&holder);
	hear_held(&waiter, &second, LEASE_AFTER_DEATH);
	int64_t took = clock_boot_ms() - before;
	assert_true(second > first);
	finish(&waiter);
	return took;
}

TEST(a_killed_holder_is_succeeded_at_once)
{
	assert_once_within(AT_ONCE, kill_and_succeed);
}

/* As after a commit that failed: the holder's guard has no name any more. */
static int64_t kill_without_guard_and_succeed(void)
{
	AUTO_FREE char *guards = xasprintf("%s/lease/guard", root);
	struct process holder, waiter;
	uint64_t fence;

	start(&holder, TTL, "0");
	hear_held_after_any(&holder, &fence);
	assert_ok(tree_remove(AT_FDCWD, guards, &err));
	assert_ok(dir_make(AT_FDCWD, guards, &err));
	start(&waiter, TTL, "9000");
	wait_until(tickets() == 1);
	usleep(20000);
	int64_t before = clock_boot_ms();
	kill_9(&holder);
	hear_held(&waiter, &fence, LEASE_AFTER_DEATH);
	int64_t took = clock_boot_ms() - before;
	finish(&waiter);
	return took;
}

TEST(a_death_is_noticed_without_a_guard)
{
	assert_once_within(AT_ONCE, kill_without_guard_and_succeed);
}

TEST(a_stopped_holder_is_succeeded_after_its_ttl_and_finds_out)
{
	struct process sleeper, next;
	struct lease_holder holder;
	uint64_t first, second;

	start(&sleeper, STOP_TTL, "0");
	hear_held(&sleeper, &first, LEASE_AFTER_NOBODY);
	kill(sleeper.pid, SIGSTOP);
	int64_t before = clock_boot_ms();
	start(&next, TTL, "9000");
	hear_held(&next, &second, LEASE_AFTER_LAPSE);
	assert_in_range(clock_boot_ms() - before, STOP_TTL / 2, 20000);
	assert_true(second > first);

	kill(sleeper.pid, SIGCONT);
	assert_string_equal(tell(&sleeper, "check"), "lost");
	assert_string_equal(tell(&sleeper, "release"), "released");
	assert_string_equal(tell(&next, "check"), "ours");
	assert_ok(lease_inspect(manager, KEY, &holder, &err));
	assert_true(holder.held && holder.fence == second);
	finish(&sleeper);
	finish(&next);
}

static bool is_holder_dead(void)
{
	struct lease_holder holder;

	assert_ok(lease_inspect(manager, KEY, &holder, &err));
	return strcmp(holder.proof, "dead: process is gone") == 0;
}

/* Somebody held it and is dead; its child has the guard until end_orphan(). */
static void leave_orphan(void)
{
	AUTO_FREE char *fifo = xasprintf("%s/end", root);
	struct process holder;
	struct lease *none;
	uint64_t fence;

	assert_int_equal(mkfifo(fifo, 0600), 0);
	start(&holder, TTL, "0");
	hear_held(&holder, &fence, LEASE_AFTER_NOBODY);
	assert_string_equal(tell(&holder, "orphan"), "started");
	kill_9(&holder);
	wait_until(is_holder_dead());
	assert_fails(acquire_for(manager, 0, &none), ERR_BUSY);
}

static void end_orphan(void)
{
	AUTO_FREE char *fifo = xasprintf("%s/end", root);

	close(open(fifo, O_WRONLY | O_CLOEXEC));
}

/* The supervisor kills orphans; until it has, nobody else may start. */
TEST(an_orphan_with_the_guard_delays_the_succession_and_its_end_allows_it)
{
	struct process next;
	uint64_t fence;

	leave_orphan();
	start(&next, TTL, "20000");
	wait_until(tickets() == 1);
	usleep(300000);
	assert_int_equal(tickets(), 1);
	end_orphan();
	hear_held(&next, &fence, LEASE_AFTER_DEATH); /* waits for less than the ttl */
	finish(&next);
}

TEST(an_orphan_delays_no_longer_than_the_ttl)
{
	struct process next;
	uint64_t fence;

	leave_orphan();
	sql("UPDATE lease SET expires_at = expires_at - %d", TTL);
	start(&next, TTL, "9000");
	hear_held(&next, &fence, LEASE_AFTER_DEATH);
	end_orphan();
	finish(&next);
}

static int64_t pass_by_the_dead(void)
{
	struct process holder, dead, next;
	uint64_t fence;

	start(&holder, TTL, "0");
	hear_held_after_any(&holder, &fence);
	start(&dead, TTL, "9000");
	wait_until(tickets() == 1);
	start(&next, TTL, "9000");
	wait_until(tickets() == 2);
	kill_9(&dead);
	int64_t before = clock_boot_ms();
	assert_string_equal(tell(&holder, "release"), "released");
	hear_held(&next, &fence, LEASE_AFTER_RELEASE);
	int64_t took = clock_boot_ms() - before;
	assert_int_equal(tickets(), 0);
	finish(&holder);
	finish(&next);
	return took;
}

TEST(a_killed_waiter_does_not_block_the_line)
{
	assert_once_within(AT_ONCE, pass_by_the_dead);
}

/* The longest of three waits for one's turn. */
static int64_t serve_three_in_order(void)
{
	struct process holder, waiters[3];
	uint64_t fence;
	int64_t longest = 0;

	start(&holder, TTL, "0");
	hear_held_after_any(&holder, &fence);
	for (int i = 0; i < 3; i++) {
		start(&waiters[i], TTL, "9000");
		wait_until(tickets() == i + 1);
	}
	tell(&holder, "release");
	for (int i = 0; i < 3; i++) {
		int64_t before = clock_boot_ms();
		hear_held(&waiters[i], &fence, LEASE_AFTER_RELEASE);
		int64_t took = clock_boot_ms() - before;
		longest = took > longest ? took : longest;
		assert_int_equal(tickets(), 2 - i);
		tell(&waiters[i], "release");
	}
	for (int i = 0; i < 3; i++)
		finish(&waiters[i]);
	finish(&holder);
	return longest;
}

TEST(processes_are_served_in_the_order_they_came)
{
	assert_once_within(AT_ONCE, serve_three_in_order);
}

TEST(a_timeout_names_the_holder)
{
	struct process holder, other;
	char pid[32];
	uint64_t fence;

	start(&holder, TTL, "0");
	hear_held(&holder, &fence, LEASE_AFTER_NOBODY);
	start(&other, TTL, "100");
	assert_true(text_starts_with(hear(&other), "failed "));
	snprintf(pid, sizeof(pid), "process %d,", (int)holder.pid);
	assert_non_null(strstr(other.line, pid));
	assert_non_null(strstr(other.line, "job deadbeef00000001"));
	assert_int_equal(tickets(), 0);
	finish(&other);
	finish(&holder);
}

int main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		CASE(two_processes_exclude_each_other),
		CASE(four_processes_exclude_each_other),
		CASE(processes_that_crash_hold_nobody_up),
		CASE(a_killed_holder_is_succeeded_at_once),
		CASE(a_death_is_noticed_without_a_guard),
		CASE(a_stopped_holder_is_succeeded_after_its_ttl_and_finds_out),
		CASE(an_orphan_with_the_guard_delays_the_succession_and_its_end_allows_it),
		CASE(an_orphan_delays_no_longer_than_the_ttl),
		CASE(a_killed_waiter_does_not_block_the_line),
		CASE(processes_are_served_in_the_order_they_came),
		CASE(a_timeout_names_the_holder),
	};

	if (argc > 1)
		return helper(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
