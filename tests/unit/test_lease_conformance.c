/*
 * What every backend of leases promises, between real processes: this program started
 * again with "storm" or "hold". Each grant is witnessed in a file to which all append; a
 * backend is judged by that alone.
 *
 * Servers run for all tests; a prefix of its own keeps each test's leases apart.
 */
/* Servers are shared: each test has a key of its own. */
static char test_key[128];
#define KEY test_key

#include "lease_kinds_test.h"

#include <poll.h>

#include "lease/manager.h"

#define STORM_TTL 10000
#define FAULT_TTL 2000

static int witness_fd;

/* ------------------------------------------------------------------ the witness */

struct grant_seen {
	int pid;
	uint64_t fence;
	int64_t from, to; /* of the last successful look, by clock_boot_ms() */
};

static void witness_open(void)
{
	AUTO_FREE char *path = xasprintf("%s/witness", root);

	witness_fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (witness_fd < 0)
		abort();
}

/* One write, once the work under the lease is over. */
static void witness(uint64_t fence, int64_t from, int64_t to)
{
	char line[96];
	int len = snprintf(line, sizeof(line), "%d %" PRIu64 " %" PRId64 " %" PRId64 "\n",
			   (int)getpid(), fence, from, to);

	if (write(witness_fd, line, (size_t)len) != len)
		abort();
}

static int compare_fences(const void *a, const void *b)
{
	uint64_t x = ((const struct grant_seen *)a)->fence;
	uint64_t y = ((const struct grant_seen *)b)->fence;

	return x < y ? -1 : x > y;
}

/* No two have a fence in common, and whoever has the higher one began when the one before
 * had ended. Returns how many there are. */
static size_t witness_check(void)
{
	VEC(struct grant_seen) seen = { 0 };
	AUTO_FREE char *path = xasprintf("%s/witness", root);
	AUTO_FCLOSE FILE *file = fopen(path, "re");
	struct grant_seen one;

	while (fscanf(file, "%d %" SCNu64 " %" SCNd64 " %" SCNd64, &one.pid, &one.fence,
		      &one.from, &one.to) == 4)
		vec_add(&seen, one);
	vec_sort(&seen, compare_fences);
	for (size_t i = 1; i < seen.count; i++) {
		assert_true(seen.items[i].fence > seen.items[i - 1].fence);
		if (seen.items[i].from < seen.items[i - 1].to)
			fail_msg("fence %" PRIu64 " began %" PRId64 " ms before %" PRIu64
				 " ended",
				 seen.items[i].fence,
				 seen.items[i - 1].to - seen.items[i].from,
				 seen.items[i - 1].fence);
	}
	size_t count = seen.count;
	vec_clear(&seen);
	return count;
}

/* ------------------------------------------------------------------ contenders */

struct contender {
	struct lease_manager *manager;
	int64_t until;
	int crash_percent;
	int grants;
	pthread_t thread;
};

static void *contend(void *arg)
{
	struct contender *contender = arg;
	unsigned seed = (unsigned)(uintptr_t)contender ^ (unsigned)getpid();
	const struct lease_request request = { .key = KEY,
					       .operation = "sync",
					       .wait_ms = 30000 };
	struct lease *lease;
	struct err error;

	while (clock_boot_ms() < contender->until) {
		if (lease_acquire(contender->manager, &request, &lease, &error) != 0) {
			fprintf(stderr, "# contender: %s\n", error.text);
			continue;
		}
		int64_t from = clock_boot_ms();
		usleep(5000);
		int64_t to = clock_boot_ms();
		if (lease_check(lease, &error) != 0)
			to = from;
		witness(lease_fence(lease), from, to);
		contender->grants++;
		if (rand_r(&seed) % 100 < contender->crash_percent)
			raise(SIGKILL);
		lease_release(lease);
	}
	return NULL;
}

/* Four threads. Says how often the least served of them had it. */
static void storm(struct lease_manager *manager, int64_t ms, int crash_percent)
{
	struct contender contenders[4];
	int least = INT32_MAX;

	for (int i = 0; i < 4; i++) {
		contenders[i] = (struct contender){ .manager = manager,
						    .until = clock_boot_ms() + ms,
						    .crash_percent = crash_percent };
		thread_start(&contenders[i].thread, "contender", contend, &contenders[i]);
	}
	for (int i = 0; i < 4; i++) {
		thread_join(contenders[i].thread);
		if (contenders[i].grants < least)
			least = contenders[i].grants;
	}
	printf("%d\n", least);
}

static void answer(const char *text)
{
	printf("%s\n", text);
	fflush(stdout);
}

/* Holds it, and looks at it all the time, until it is lost or a line says what to do. */
static void hold(struct lease_manager *manager, int64_t wait_ms)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };
	struct lease *lease;
	char line[32] = "";

	if (acquire_for(manager, wait_ms, &lease) != 0) {
		answer(err.text);
		return;
	}
	int64_t from = clock_boot_ms(), to = from;
	printf("held %" PRIu64 " %d\n", lease_fence(lease),
	       (int)lease_predecessor(lease));
	fflush(stdout);
	while (lease_check(lease, &err) == 0 && in.revents == 0) {
		to = clock_boot_ms();
		poll(&in, 1, 5);
	}
	witness(lease_fence(lease), from, to);
	if (in.revents == 0)
		answer("lost");
	if (!fgets(line, sizeof(line), stdin))
		return;
	lease_release(lease);
	answer("released");
}

/* argv: mode, kind, root, data directory, ttl, two numbers, urls. */
static int contender_main(char *argv[])
{
	log_set_level(LOG_LEVEL_NONE);
	kind = &kinds[atoi(argv[2])];
	snprintf(root, sizeof(root), "%s", argv[3]);
	snprintf(test_key, sizeof(test_key), "%s:repository:7", root);
	witness_open();
	struct lease_manager *manager = open_kind(argv[4], argv + 8, atoll(argv[5]));
	if (!manager)
		return 1;
	if (strcmp(argv[1], "storm") == 0)
		storm(manager, atoll(argv[6]), atoi(argv[7]));
	else
		hold(manager, atoll(argv[6]));
	lease_manager_close(manager);
	store_close(store);
	return 0;
}

/* ------------------------------------------------------------------ their master */

static uint64_t hear_held(struct process *process, enum lease_predecessor *predecessor)
{
	uint64_t fence;
	int how;

	if (sscanf(hear(process), "held %" SCNu64 " %d", &fence, &how) != 2)
		fail_msg("%s", process->line);
	*predecessor = (enum lease_predecessor)how;
	return fence;
}

static void release(struct process *process)
{
	fprintf(process->to, "release\n");
	fflush(process->to);
	assert_string_equal(hear(process), "released");
	assert_int_equal(finish(process), 0);
}

/* Of several servers, those that began lately do not vote. */
static void wait_for_votes(void)
{
	wait_until(kind->servers < 2 ||
		   clock_boot_ms() - servers[0].started_at > STORM_TTL + 3000);
}

static int setup(void **state)
{
	kind = *state;
	log_set_level(LOG_LEVEL_NONE);
	if (test_make_root(state) != 0)
		return -1;
	witness_open();
	return 0;
}

static int teardown(void **state)
{
	close(witness_fd);
	return test_remove_root(state);
}

/* ------------------------------------------------------------------ promises */

static void storm_of_four(const char *crash_percent)
{
	static const char *const data[] = { "one", "two", "one", "two" };
	struct process processes[4];
	int64_t until = clock_boot_ms() + 3000;
	int crashes = 0;

	for (int i = 0; i < 4; i++)
		run(&processes[i], "storm", data[i], STORM_TTL, "3000", crash_percent);
	for (int i = 0; i < 4; i++) {
		while (atoi(crash_percent) > 0 && clock_boot_ms() < until) {
			if (!WIFSIGNALED(finish(&processes[i])))
				abort();
			crashes++;
			run(&processes[i], "storm", data[i], STORM_TTL, "500",
			    crash_percent);
		}
		if (atoi(crash_percent) == 0)
			assert_true(atoi(hear(&processes[i])) > 0);
		finish(&processes[i]);
	}
	size_t grants = witness_check();
	print_message("# %s: %zu grants, %d crashes\n", kind->name, grants, crashes);
	assert_true(grants > 40);
}

TEST(no_two_of_sixteen_contenders_hold_it_and_all_get_it)
{
	wait_for_votes();
	storm_of_four("0");
}

TEST(contenders_that_crash_leave_no_gap_and_no_overlap)
{
	wait_for_votes();
	storm_of_four("5");
}

TEST(a_killed_holder_is_succeeded_at_once)
{
	struct process holder, waiter;
	enum lease_predecessor how;

	wait_for_votes();
	run(&holder, "hold", "one", STORM_TTL, "0", "0");
	uint64_t first = hear_held(&holder, &how);
	run(&waiter, "hold", "two", STORM_TTL, "20000", "0");
	usleep(200000); /* it waits, or is about to */
	int64_t before = clock_boot_ms();
	kill(holder.pid, SIGKILL);
	finish(&holder);
	uint64_t second = hear_held(&waiter, &how);
	assert_in_range(clock_boot_ms() - before, 0, 5000);
	assert_int_equal(how, LEASE_AFTER_DEATH);
	assert_true(second > first);
	release(&waiter);
}

TEST(a_holder_that_slept_through_its_ttl_finds_it_lost)
{
	struct process holder, waiter;
	enum lease_predecessor how;

	wait_for_votes();
	run(&holder, "hold", "one", FAULT_TTL, "0", "0");
	uint64_t first = hear_held(&holder, &how);
	run(&waiter, "hold", "two", FAULT_TTL, "20000", "0");
	int64_t before = clock_boot_ms();
	kill(holder.pid, SIGSTOP);
	uint64_t second = hear_held(&waiter, &how);
	assert_in_range(clock_boot_ms() - before, FAULT_TTL / 2, 3 * FAULT_TTL);
	assert_int_equal(how, LEASE_AFTER_LAPSE);
	assert_true(second > first);
	kill(holder.pid, SIGCONT);
	assert_string_equal(hear(&holder), "lost");
	release(&holder); /* which is no release of the waiter's */
	release(&waiter);
	assert_int_equal(witness_check(), 2);
}

static void lose_data(void)
{
	if (kind->is_postgresql) {
		pg_sql("TRUNCATE refrelay.lease");
		return;
	}
	for (size_t i = 0; i < kind->servers; i++)
		redis_cli(&servers[i], "FLUSHALL");
}

/* Then two hold it, until the next renewal. */
TEST(lost_data_is_noticed_and_fences_still_grow)
{
	struct process holder, next;
	enum lease_predecessor how;

	wait_for_votes();
	run(&holder, "hold", "one", FAULT_TTL, "0", "0");
	uint64_t first = hear_held(&holder, &how);
	lose_data();
	run(&next, "hold", "two", FAULT_TTL, "5000", "0");
	assert_true(hear_held(&next, &how) > first);
	assert_string_equal(hear(&holder), "lost");
	release(&holder);
	release(&next);
}

/* Of one server, all of it is away; of several, a minority, which costs nothing. */
TEST(a_partition_ends_the_lease_before_others_have_it)
{
	struct process through, holder, waiter;
	enum lease_predecessor how;
	char url[192];

	wait_for_votes();
	proxy_start(0, "0", url, &through);
	run_by(&holder, "hold", "one", FAULT_TTL, "0", "0",
	       (const char *[SERVERS]){ url });
	uint64_t first = hear_held(&holder, &how);
	kill(through.pid, SIGSTOP);
	run(&waiter, "hold", "two", FAULT_TTL, "4000", "0");
	if (kind->servers == 1) {
		assert_true(hear_held(&waiter, &how) > first);
		assert_string_equal(hear(&holder), "lost");
		kill(through.pid, SIGCONT);
		release(&holder);
		release(&waiter);
		assert_int_equal(witness_check(), 2);
	} else {
		assert_non_null(strstr(hear(&waiter), "Lock timeout"));
		finish(&waiter);
		kill(through.pid, SIGCONT);
		release(&holder);
	}
	proxy_end(&through);
}

struct behind {
	struct lease_manager *manager;
	struct lease *lease;
	pthread_t thread;
};

static void *wait_behind(void *arg)
{
	struct behind *behind = arg;
	const struct lease_request request = { .key = KEY,
					       .operation = "repack",
					       .job = "deadbeef00000002",
					       .wait_ms = 20000 };
	struct err error;

	lease_acquire(behind->manager, &request, &behind->lease, &error);
	return NULL;
}

static bool somebody_waits(struct lease_manager *manager)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);
	const struct waiter_queue *queue = map_get(&manager->queues, KEY);

	return queue && !TAILQ_EMPTY(&queue->waiters);
}

/* Whether the backend was asked for it or not. */
TEST(whoever_it_was_handed_to_within_a_process_is_shown_with_its_own_fence)
{
	char *urls[SERVERS + 1] = { NULL };
	struct lease_holder holder;

	wait_for_votes();
	snprintf(test_key, sizeof(test_key), "%s:repository:7", root);
	for (size_t i = 0; i < kind->servers; i++)
		urls[i] = (char *)(uintptr_t)url_of(i);
	struct lease_manager *manager = open_kind("one", urls, STORM_TTL);
	struct behind behind = { .manager = manager };
	struct lease *lease = must_acquire(manager, 0);
	uint64_t first = lease_fence(lease);
	thread_start(&behind.thread, "behind", wait_behind, &behind);
	wait_until(somebody_waits(manager));
	lease_release(lease);
	thread_join(behind.thread);
	assert_non_null(behind.lease);
	assert_true(lease_fence(behind.lease) > first);
	assert_ok(lease_inspect(manager, KEY, &holder, &err));
	assert_true(holder.held);
	assert_int_equal(holder.fence, lease_fence(behind.lease));
	assert_true(text_starts_with(holder.job, "deadbeef00000002"));
	assert_string_equal(holder.operation, "repack");
	lease_release(behind.lease);
	assert_ok(lease_inspect(manager, KEY, &holder, &err));
	assert_false(holder.held);
	lease = must_acquire(manager, 0);
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_RELEASE);
	assert_true(lease_fence(lease) > holder.fence);
	lease_release(lease);
	lease_manager_close(manager);
	store_close(TAKE(store));
}

struct promise {
	const char *name;
	CMUnitTestFunction test;
	bool is_of_servers; /* they alone can lose data, or be cut off */
};

#define PROMISE(test, is_of_servers)                                                     \
	{                                                                                \
#test, test, is_of_servers                                               \
	}

static const struct promise promises[] = {
	PROMISE(no_two_of_sixteen_contenders_hold_it_and_all_get_it, false),
	PROMISE(contenders_that_crash_leave_no_gap_and_no_overlap, false),
	PROMISE(a_killed_holder_is_succeeded_at_once, false),
	PROMISE(a_holder_that_slept_through_its_ttl_finds_it_lost, false),
	PROMISE(whoever_it_was_handed_to_within_a_process_is_shown_with_its_own_fence,
		false),
	PROMISE(lost_data_is_noticed_and_fences_still_grow, true),
	PROMISE(a_partition_ends_the_lease_before_others_have_it, true),
};

int main(int argc, char *argv[])
{
	struct CMUnitTest tests[ARRAY_SIZE(kinds) * ARRAY_SIZE(promises)];
	size_t count = 0;

	if (argc > 7)
		return contender_main(argv);
	wanted_kind = argv[1];
	if (argc > 2 && strtoul(argv[2], NULL, 10) != ARRAY_SIZE(kinds))
		fail_msg("not every kind is a part in tests/unit/meson.build");
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(promises); j++) {
			if (!is_wanted(&kinds[i]) ||
			    (promises[j].is_of_servers && kinds[i].servers == 0))
				continue;
			tests[count++] = (struct CMUnitTest){
				.name = xasprintf("%s: %s", kinds[i].name,
						  promises[j].name),
				.test_func = promises[j].test,
				.setup_func = setup,
				.teardown_func = teardown,
				.initial_state = (void *)(uintptr_t)&kinds[i],
			};
		}
	}
	if (count == 0)
		fail_msg("there is no kind %s", wanted_kind);
	int failed = _cmocka_run_group_tests("conformance", tests, count, start_servers,
					     end_servers);
	while (count > 0)
		free((void *)(uintptr_t)tests[--count].name);
	return failed;
}
