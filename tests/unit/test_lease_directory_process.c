/*
 * Leases in a directory between real processes: this program started again with "hold"
 * or "contend". They are killed, stopped and orphaned.
 */
#include "lease_directory_test.h"

#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

/* ------------------------------------------------------------------ processes */

static pid_t spawn(char *const argv[], int out, int keep)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	if (keep >= 0)
		posix_spawn_file_actions_adddup2(&actions, keep, keep);
	if (posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) != 0)
		abort();
	posix_spawn_file_actions_destroy(&actions);
	return pid;
}

/* "": no child. Else one that keeps the guard until somebody opens that FIFO. */
static void hold(char *fifo)
{
	struct lease *lease = must_acquire(ann, 60000);
	AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char timeout[] = "timeout", seconds[] = "60", cat[] = "cat";
	char *argv[] = { timeout, seconds, cat, fifo, NULL };

	if (fifo[0])
		spawn(argv, null, lease_guard_fd(lease));
	printf("%" PRIu64 "\n", lease_fence(lease));
	fflush(stdout);
	for (;;)
		pause();
}

static pid_t start(const char *mode, int64_t ttl, const char *argument, int out)
{
	char ttl_text[24];
	const char *argv[] = { "/proc/self/exe", mode, root, ttl_text, argument, NULL };

	snprintf(ttl_text, sizeof(ttl_text), "%" PRId64, ttl);
	return spawn((char *const *)(uintptr_t)argv, out, -1);
}

/* Somebody holds it. */
static pid_t start_holder_with(int64_t ttl, const char *fifo, uint64_t *fence)
{
	char text[24] = "";
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid_t pid = start("hold", ttl, fifo, ends[1]);
	close(ends[1]);
	assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
	close(ends[0]);
	*fence = strtoull(text, NULL, 10);
	return pid;
}

static pid_t start_holder(int64_t ttl, uint64_t *fence)
{
	return start_holder_with(ttl, "", fence);
}

static void kill_9(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

TEST(a_killed_holder_is_succeeded_at_once)
{
	uint64_t fence;
	pid_t pid = start_holder(TTL, &fence);

	assert_denied(bob);
	kill_9(pid);
	assert_string_equal(inspect().proof, "dead: process is gone");
	assert_true(pass(bob, LEASE_AFTER_DEATH) > fence);
}

static void *kill_later(void *pid)
{
	usleep(50000);
	kill_9(*(pid_t *)pid);
	return NULL;
}

static int64_t kill_and_take(void)
{
	uint64_t fence;
	pid_t pid = start_holder(TTL, &fence);
	int64_t before = clock_boot_ms();
	pthread_t thread;

	thread_start(&thread, "kill", kill_later, &pid);
	lease_release(must_acquire(bob, 9000));
	thread_join(thread);
	assert_true(clock_boot_ms() - before >= 50);
	return clock_boot_ms() - before;
}

TEST(who_waits_hears_of_a_death)
{
	assert_once_within(AT_ONCE, kill_and_take);
}

/* Of the holder's death. Its child has all of its descriptors for an instant longer: an
 * exec gives the memory back before it closes them. */
static void wait_for_proof(void)
{
	wait_until(strcmp(inspect().proof, "dead: process is gone") == 0);
}

/* Somebody holds it with a child that keeps the guard until end_orphan(). */
static pid_t start_holder_with_child(uint64_t *fence)
{
	AUTO_FREE char *fifo = xasprintf("%s/end", root);

	assert_int_equal(mkfifo(fifo, 0600), 0);
	return start_holder_with(TTL, fifo, fence);
}

static void end_orphan(void)
{
	AUTO_FREE char *fifo = xasprintf("%s/end", root);

	close(open(fifo, O_WRONLY | O_CLOEXEC));
}

static _Atomic int64_t ended_at; /* 0: not yet */

static void *end_orphan_later(void *arg)
{
	usleep(300000);
	ended_at = clock_boot_ms();
	end_orphan();
	return arg;
}

TEST(an_orphan_with_the_guard_delays_the_succession)
{
	uint64_t fence;
	pid_t pid = start_holder_with_child(&fence);
	pthread_t thread;

	kill_9(pid);
	wait_for_proof();
	assert_denied(bob);
	thread_start(&thread, "end", end_orphan_later, NULL);
	struct lease *lease = must_acquire(bob, 9000);
	int64_t got_at = clock_boot_ms();
	assert_true(ended_at != 0);
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_DEATH);
	assert_in_range(got_at - ended_at, 0, SOON);
	thread_join(thread);
	lease_release(lease);
}

TEST(an_orphan_delays_no_longer_than_the_ttl)
{
	uint64_t fence;
	pid_t pid = start_holder_with_child(&fence);

	kill_9(pid);
	wait_for_proof();
	assert_denied(bob);
	set_back(TTL + 1000);
	pass(bob, LEASE_AFTER_DEATH);
	end_orphan();
}

TEST(a_stopped_holder_is_succeeded_after_its_ttl)
{
	uint64_t fence;
	pid_t pid = start_holder(SHORT_TTL, &fence);

	kill(pid, SIGSTOP);
	int64_t before = clock_boot_ms();
	struct lease *lease = must_acquire(bob, 9000);
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_LAPSE);
	assert_in_range(clock_boot_ms() - before, SHORT_TTL / 2, SOON);
	kill(pid, SIGCONT);
	usleep(SHORT_TTL * 1000); /* its late heartbeat lands on its own generation */
	assert_ok(lease_check(lease, &err));
	lease_release(lease);
	kill_9(pid);
}

/* Its guard could be locked, but not by us, who are on another kernel. */
TEST(the_dead_of_another_boot_are_succeeded_after_their_ttl)
{
	uint64_t fence;
	pid_t pid = start_holder(TTL, &fence);

	kill_9(pid);
	change_boot();
	assert_denied(bob);
	assert_string_equal(inspect().proof, "unknown");
	set_back(TTL + 1000);
	pass(bob, LEASE_AFTER_LAPSE);
}

/* ------------------------------------------------------------------ who is next */

/* It waits, and ends once it had the lease. */
static pid_t start_waiter(void)
{
	int before = count_tickets();
	pid_t pid = start("contend", TTL, "1", 1);

	wait_until(count_tickets() == before + 1);
	return pid;
}

static void *take_and_release(void *manager)
{
	lease_release(must_acquire(manager, 60000));
	return NULL;
}

/* Bob waits behind it. How long ann's lease takes to be bob's. */
static int64_t pass_by(int signal)
{
	struct lease *lease = must_acquire(ann, 0);
	pthread_t thread;

	pid_t next = start_waiter();
	thread_start(&thread, "bob", take_and_release, bob);
	wait_until(count_tickets() == 2);
	kill(next, signal);
	int64_t before = clock_boot_ms();
	lease_release(lease);
	thread_join(thread);
	int64_t took = clock_boot_ms() - before;
	kill_9(next);
	return took;
}

/* Bob has not looked since it was passed: it hears of the end of who was before it. */
static int64_t kill_who_was_passed(void)
{
	struct lease *lease = must_acquire(ann, 0);
	pid_t next = start("hold", TTL, "", STDERR_FILENO);
	pthread_t thread;

	wait_until(count_tickets() == 1);
	int64_t before = clock_boot_ms();
	thread_start(&thread, "bob", take_and_release, bob);
	wait_until(count_tickets() == 2);
	usleep(50000);
	lease_release(lease);
	wait_until(inspect().pid == next);
	kill_9(next);
	thread_join(thread);
	return clock_boot_ms() - before;
}

TEST(the_death_of_one_that_was_passed_is_heard_at_once)
{
	assert_once_within(AT_ONCE, kill_who_was_passed);
}

TEST(a_stopped_one_that_is_next_costs_no_ttl)
{
	assert_in_range(pass_by(SIGSTOP), 0, TTL / 2);
	assert_string_equal(inspect().proof, "released");
}

TEST(a_dead_one_that_is_next_costs_nothing)
{
	assert_in_range(pass_by(SIGKILL), 0, SOON);
	pass(ann, LEASE_AFTER_RELEASE);
	assert_int_equal(count_tickets(), 0);
}

/* ------------------------------------------------------------------ torture */

enum { CONTENDERS = 8, ROUNDS = 200, KILLS = 24 };

static int open_witness(int flags)
{
	AUTO_FREE char *path = xasprintf("%s/witness", root);

	return open(path, flags | O_CREAT | O_CLOEXEC, 0600);
}

static void witness(int fd, char what, const struct lease *lease)
{
	char line[64];
	int len = snprintf(line, sizeof(line), "%c %d %" PRIu64 "\n", what, (int)getpid(),
			   lease_fence(lease));

	if (write(fd, line, (size_t)len) != len)
		abort();
}

/* It stays inside now and then, so that it can be killed there. */
static void contend(int rounds)
{
	AUTO_CLOSE int fd = open_witness(O_WRONLY | O_APPEND);
	unsigned seed = (unsigned)getpid();

	for (int i = 0; i < rounds; i++) {
		struct lease *lease = must_acquire(ann, 60000);
		witness(fd, '+', lease);
		int how = rand_r(&seed) % 64;
		if (how == 0)
			usleep(5000);
		else if (how < 9)
			sched_yield();
		witness(fd, '-', lease);
		lease_release(lease);
	}
}

struct torture {
	pid_t running[CONTENDERS];
	pid_t killed[KILLS];
	int kills, sent;
	int inside; /* of the kills */
};

static void restart(struct torture *torture, int i)
{
	char rounds[16];

	snprintf(rounds, sizeof(rounds), "%d", ROUNDS);
	torture->running[i] = start("contend", TTL, rounds, 1);
}

/* Who made the last mark, if it is that of an entry; 0: nobody. */
static pid_t who_is_inside(int fd)
{
	char text[65] = "";
	struct stat st;
	int pid;

	if (fstat(fd, &st) != 0)
		abort();
	off_t from = st.st_size < 64 ? 0 : st.st_size - 64;
	ssize_t len = pread(fd, text, (size_t)(st.st_size - from), from);
	const char *entry = len > 0 ? strrchr(text, '+') : NULL;
	return entry && !strchr(entry, '-') && sscanf(entry, "+ %d", &pid) == 1 ? pid : 0;
}

/* Of those that run, one that was inside a moment ago, most likely one that stays there;
 * -1: there was none for a while. */
static int choose_inside(const struct torture *torture, int fd)
{
	int64_t until = clock_boot_ms() + 100;

	while (clock_boot_ms() < until) {
		pid_t inside = who_is_inside(fd);
		for (int i = 0; i < CONTENDERS; i++)
			if (inside > 0 && torture->running[i] == inside)
				return i;
		usleep(200);
	}
	return -1;
}

/* Kills one now and then, until all others are done: wherever it is just then, or one
 * that is inside. */
static void run_torture(struct torture *torture)
{
	AUTO_CLOSE int fd = open_witness(O_RDONLY);
	unsigned seed = 1;
	int left = CONTENDERS, status;

	for (int i = 0; i < CONTENDERS; i++)
		restart(torture, i);
	while (left > 0) {
		int i = rand_r(&seed) % CONTENDERS;
		usleep(rand_r(&seed) % 20000);
		if (torture->sent % 2 == 0 && torture->sent < KILLS)
			i = choose_inside(torture, fd);
		if (torture->sent < KILLS && i >= 0 && torture->running[i] > 0) {
			kill(torture->running[i], SIGKILL);
			torture->sent++;
		}
		for (i = 0; i < CONTENDERS; i++) {
			pid_t pid = torture->running[i];
			if (pid <= 0 || waitpid(pid, &status, WNOHANG) != pid)
				continue;
			torture->running[i] = 0;
			left--;
			if (!WIFSIGNALED(status)) {
				assert_int_equal(status, 0);
				continue;
			}
			torture->killed[torture->kills++] = pid;
			restart(torture, i);
			left++;
		}
	}
}

static bool was_killed(const struct torture *torture, pid_t pid)
{
	for (int i = 0; i < torture->kills; i++)
		if (torture->killed[i] == pid)
			return true;
	return false;
}

/* Who entered and did not leave was killed; nobody entered before that. */
static int check_witness(struct torture *torture)
{
	AUTO_FREE char *path = xasprintf("%s/witness", root);
	AUTO_FCLOSE FILE *file = fopen(path, "r");
	uint64_t fence, last = 0;
	int pid, inside = 0, rounds = 0;
	char what;

	while (fscanf(file, "%c %d %" SCNu64 "\n", &what, &pid, &fence) == 3) {
		if (what == '-') {
			assert_int_equal(inside, pid);
			assert_true(fence == last);
			inside = 0;
			continue;
		}
		if (inside != 0) {
			assert_true(was_killed(torture, inside));
			torture->inside++;
		}
		assert_true(fence > last);
		last = fence;
		inside = pid;
		rounds++;
	}
	return rounds;
}

TEST(processes_that_are_killed_anywhere_never_let_two_in)
{
	struct torture torture = { 0 };
	int64_t began = clock_boot_ms();

	run_torture(&torture);
	int rounds = check_witness(&torture);
	print_message("# %d rounds, %d kills, %d of them inside, %d ms\n", rounds,
		      torture.kills, torture.inside, (int)(clock_boot_ms() - began));
	assert_true(rounds >= CONTENDERS * ROUNDS);
	assert_true(torture.inside > 0);
	pass(bob, strcmp(inspect().proof, "released") == 0 ? LEASE_AFTER_RELEASE
							   : LEASE_AFTER_DEATH);
}

static int helper(char *argv[])
{
	log_set_level(LOG_LEVEL_NONE);
	snprintf(root, sizeof(root), "%s", argv[2]);
	ann = open_shared(atoll(argv[3]));
	if (strcmp(argv[1], "hold") == 0)
		hold(argv[4]);
	contend(atoi(argv[4]));
	lease_manager_close(ann);
	return 0;
}

int main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		CASE(a_killed_holder_is_succeeded_at_once),
		CASE(who_waits_hears_of_a_death),
		CASE(an_orphan_with_the_guard_delays_the_succession),
		CASE(an_orphan_delays_no_longer_than_the_ttl),
		CASE(a_stopped_holder_is_succeeded_after_its_ttl),
		CASE(the_dead_of_another_boot_are_succeeded_after_their_ttl),
		CASE(the_death_of_one_that_was_passed_is_heard_at_once),
		CASE(a_stopped_one_that_is_next_costs_no_ttl),
		CASE(a_dead_one_that_is_next_costs_nothing),
		CASE_IN_MEMORY(processes_that_are_killed_anywhere_never_let_two_in),
	};

	if (argc > 1)
		return helper(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
