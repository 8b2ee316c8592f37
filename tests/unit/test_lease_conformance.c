/*
 * What every backend of leases promises, between real processes: this program started
 * again with "storm" or "hold". Each grant is witnessed twice: by what the lease guards,
 * with the repository's fence (lease_guarded_test.h), and by times in a file to which all
 * append. A backend is judged by these alone.
 *
 * Servers run for all tests, with clocks that a test can set; a key of its own keeps each
 * test's leases apart. Those of the local backend are in one database, which both data
 * directories share, since it is of one machine: nobody can be elsewhere, or cut off.
 */
static char test_key[128];
#define KEY test_key

#include "lease_guarded_test.h"
#include "lease_kinds_test.h"
#include "lease_witness_test.h"

#include <poll.h>

#include "lease/manager.h"

#define STORM_TTL 10000
#define FAULT_TTL 2000
#define KEEP_TTL 3500 /* of who is to keep it while others wait in vain */
#define LATE_MS 20000
#define STEP "300" /* seconds, of a clock */

static char own_boot_id[40];

static void read_own_boot_id(void)
{
	AUTO_FCLOSE FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (!file || fscanf(file, "%39s", own_boot_id) != 1)
		abort();
}

/* Another host than this one, for helpers: $TEST_BOOT_ID. */
const char *clock_boot_id(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const char *other = getenv("TEST_BOOT_ID");

	pthread_once(&once, read_own_boot_id);
	return other ? other : own_boot_id;
}

/* ------------------------------------------------------------------ contenders */

struct contender {
	struct lease_manager *manager;
	int number;
	int64_t until;
	int crash_percent;
	int grants;
	pthread_t thread;
};

/* As a job does: whether the fence let it. */
static bool work_under(int dir, uint64_t fence)
{
	struct err error;

	if (fence_raise(dir, fence, &error) != 0)
		return false;
	uint64_t last = guarded_last(dir);
	usleep(5000);
	return guarded_publish(dir, last + 1, fence, &error) == 0;
}

static void work_once(struct contender *contender, int dir, struct lease *lease)
{
	struct grant_seen one = { .thread = contender->number,
				  .fence = lease_fence(lease),
				  .from = clock_boot_ms() };
	struct err error;

	one.is_published = work_under(dir, one.fence);
	one.to = clock_boot_ms();
	one.is_kept = lease_check(lease, &error) == 0;
	if (!one.is_kept)
		one.to = one.from;
	witness(&one);
	contender->grants++;
}

static void *contend(void *arg)
{
	struct contender *contender = arg;
	AUTO_CLOSE int dir = guarded_open(0);
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
		work_once(contender, dir, lease);
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
						    .number = i,
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

/* Looks at it all the time, until it is lost or a line comes. False: it is lost. */
static bool keep_looking(struct lease *lease, struct grant_seen *one)
{
	struct pollfd in = { .fd = 0, .events = POLLIN };

	while (lease_check(lease, &err) == 0 && in.revents == 0) {
		one->to = clock_boot_ms();
		poll(&in, 1, 5);
	}
	return in.revents != 0;
}

/* Servers have half a second for an answer, several of them a twentieth of the ttl, which
 * a busy machine may well need: that is no test's business. */
static int acquire_at_last(struct lease_manager *manager, int64_t wait_ms,
			   struct lease **lease)
{
	int64_t until = clock_boot_ms() + wait_ms, left = wait_ms;
	int result;

	while ((result = acquire_for(manager, left, lease)) != 0 &&
	       err.reason == REASON_LOCK_UNAVAILABLE &&
	       clock_boot_ms() < until + LATE_MS) {
		usleep(10000);
		left = until - clock_boot_ms();
		if (left < FAULT_TTL / 2) /* once more, for an answer about the lease */
			left = FAULT_TTL / 2;
	}
	return result;
}

/* Holds it, and at the end changes what it guards, lost or not. */
static void hold(struct lease_manager *manager, int64_t wait_ms)
{
	AUTO_CLOSE int dir = guarded_open(0);
	struct lease *lease;
	char line[32] = "";

	if (acquire_at_last(manager, wait_ms, &lease) != 0 ||
	    fence_raise(dir, lease_fence(lease), &err) != 0) {
		answer(err.text);
		return;
	}
	struct grant_seen one = { .fence = lease_fence(lease), .from = clock_boot_ms() };
	uint64_t last = guarded_last(dir);
	one.to = one.from;
	printf("held %" PRIu64 " %d\n", one.fence, (int)lease_predecessor(lease));
	fflush(stdout);
	one.is_kept = keep_looking(lease, &one);
	one.is_published = guarded_publish(dir, last + 1, one.fence, &err) == 0;
	witness(&one);
	if (!one.is_kept)
		answer(one.is_published ? "lost, published" : "lost, refused");
	if (!fgets(line, sizeof(line), stdin))
		return;
	lease_release(lease);
	answer(one.is_kept && !one.is_published ? err.text : "released");
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

/* It waits in vain for so long. */
static void assert_waits_in_vain(const char *wait_ms)
{
	struct process waiter;

	run(&waiter, "hold", "two", FAULT_TTL, wait_ms, "0");
	if (!strstr(hear(&waiter), "Lock timeout"))
		fail_msg("%s", waiter.line);
	finish(&waiter);
}

/* Of several servers, those that began lately do not vote. */
static void wait_for_votes(void)
{
	int64_t latest = 0;

	for (size_t i = 0; i < kind->servers && kind->servers > 1; i++)
		if (servers[i].started_at > latest)
			latest = servers[i].started_at;
	wait_until(latest == 0 || clock_boot_ms() - latest > STORM_TTL + 3000);
}

static int setup(void **state)
{
	kind = *state;
	log_set_level(LOG_LEVEL_NONE);
	if (test_make_root(state) != 0)
		return -1;
	witness_open();
	wait_for_votes();
	return 0;
}

static int teardown(void **state)
{
	close(witness_fd);
	return test_remove_root(state);
}

/* ------------------------------------------------------------------ promises */

static const char *const storm_data[] = { "one", "two", "one", "two" };

static void assert_many_grants(void)
{
	size_t grants = witness_check();

	print_message("# %s: %zu grants\n", kind->name, grants);
	/* How many more it could have been is for the benchmark. */
	assert_true(grants >= 16);
}

/* Whether all got it alike. */
static bool storm_of_sixteen(void)
{
	struct process processes[4];

	for (int i = 0; i < 4; i++)
		run(&processes[i], "storm", storm_data[i], STORM_TTL, "3000", "0");
	for (int i = 0; i < 4; i++) {
		assert_true(atoi(hear(&processes[i])) > 0);
		assert_int_equal(finish(&processes[i]), 0);
	}
	assert_many_grants();
	bool is_fair = witness_is_fair();
	assert_int_equal(ftruncate(witness_fd, 0), 0);
	return is_fair;
}

/* Once of several times: a busy machine lets processes stand still. */
TEST(no_two_of_sixteen_contenders_hold_it_and_all_get_it_alike)
{
	bool is_fair = false;

	for (int i = 0; i < 3 && !is_fair; i++)
		is_fair = storm_of_sixteen();
	assert_true(is_fair);
}

/* Whether it killed itself. Who ends otherwise has something to say, and is heard. */
static bool has_crashed(struct process *process)
{
	while (fgets(process->line, sizeof(process->line), process->from))
		continue;
	int status = finish(process);
	if (status != 0)
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	return status != 0;
}

/* The first process crashes at its first grant, so that there is a crash however few
 * grants there are. A death that nobody notices costs the ttl. */
TEST(contenders_that_crash_leave_no_gap_and_no_overlap)
{
	struct process processes[4];
	int64_t until = clock_boot_ms() + 3000;
	int crashes = 0;

	for (int i = 0; i < 4; i++)
		run(&processes[i], "storm", storm_data[i], STORM_TTL, "3000",
		    i == 0 ? "100" : "5");
	for (int i = 0; i < 4; i++) {
		while (clock_boot_ms() < until) {
			crashes += has_crashed(&processes[i]);
			run(&processes[i], "storm", storm_data[i], STORM_TTL, "500", "5");
		}
		crashes += has_crashed(&processes[i]);
	}
	assert_many_grants();
	int64_t gap = witness_longest_gap();
	print_message("# %s: %d crashes, nobody had it for %" PRId64 " ms\n", kind->name,
		      crashes, gap);
	assert_true(crashes > 0);
	assert_in_range(gap, 0, STORM_TTL / 2);
}

TEST(a_killed_holder_is_succeeded_at_once)
{
	struct process holder, waiter;
	enum lease_predecessor how;

	run(&holder, "hold", "one", STORM_TTL, "5000", "0");
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

/* Of a server the holder's data directory cannot be seen, of a shared directory the
 * holder is of another host: nothing proves its death, but that it is silent. */
TEST(elsewhere_a_killed_holder_is_succeeded_after_its_ttl_and_not_before)
{
	AUTO_FREE char *seen = xasprintf("%s/one", root);
	AUTO_FREE char *hidden = xasprintf("%s/hidden", root);
	struct process holder, waiter;
	enum lease_predecessor how;

	run(&holder, "hold", "one", FAULT_TTL, "5000", "0");
	uint64_t first = hear_held(&holder, &how);
	if (kind->servers > 0 && rename(seen, hidden) != 0)
		abort();
	int64_t before = clock_boot_ms();
	kill(holder.pid, SIGKILL);
	finish(&holder);
	if (kind->servers == 0)
		setenv("TEST_BOOT_ID", "0e2f7bb6-0000-4000-8000-000000000000", 1);
	run(&waiter, "hold", "two", STORM_TTL, "20000", "0");
	unsetenv("TEST_BOOT_ID");
	uint64_t second = hear_held(&waiter, &how);
	assert_in_range(clock_boot_ms() - before, FAULT_TTL / 4, 4 * FAULT_TTL);
	assert_int_equal(how, LEASE_AFTER_LAPSE);
	assert_true(second > first);
	release(&waiter);
}

TEST(a_holder_that_slept_through_its_ttl_finds_it_lost)
{
	struct process holder, waiter;
	enum lease_predecessor how;

	run(&holder, "hold", "one", FAULT_TTL, "5000", "0");
	uint64_t first = hear_held(&holder, &how);
	run(&waiter, "hold", "two", STORM_TTL, "20000", "0");
	int64_t before = clock_boot_ms();
	kill(holder.pid, SIGSTOP);
	uint64_t second = hear_held(&waiter, &how);
	assert_in_range(clock_boot_ms() - before, FAULT_TTL / 4, 4 * FAULT_TTL);
	assert_int_equal(how, LEASE_AFTER_LAPSE);
	assert_true(second > first);
	kill(holder.pid, SIGCONT);
	assert_string_equal(hear(&holder), "lost, refused");
	release(&holder); /* which is no release of the waiter's */
	release(&waiter);
	assert_int_equal(witness_check(), 2);
}

static int delete_rows(struct store_tx *tx, void *arg, struct err *error)
{
	return store_exec(tx, arg, error);
}

static void lose_rows(void)
{
	static char all[] = "DELETE FROM lease";
	AUTO_FREE char *database = xasprintf("sqlite:%s/db", root);
	struct store *theirs;

	assert_ok(store_open(database, &theirs, &err));
	assert_ok(store_write(theirs, delete_rows, all, &err));
	store_close(theirs);
}

static void lose_directories(void)
{
	AUTO_FREE char *path = xasprintf("%s/shared", root);
	AUTO_CLOSEDIR DIR *dir = opendir(path);
	struct dirent *entry;

	while ((entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.')
			assert_ok(tree_remove(dirfd(dir), entry->d_name, &err));
}

static void lose_data(void)
{
	if (kind->is_local)
		lose_rows();
	else if (kind->servers == 0)
		lose_directories();
	else if (kind->is_postgresql)
		pg_sql("TRUNCATE refrelay.lease");
	for (size_t i = 0; i < kind->servers && !kind->is_postgresql; i++)
		redis_cli(&servers[i], "FLUSHALL");
}

/* Then two hold it, until the next renewal; the fence stops the first. That one pauses
 * until somebody else has it: else its renewal may come first, and right so. */
TEST(lost_data_is_noticed_and_fences_still_grow)
{
	struct process holder, next;
	enum lease_predecessor how;

	run(&holder, "hold", "one", FAULT_TTL, "5000", "0");
	uint64_t first = hear_held(&holder, &how);
	kill(holder.pid, SIGSTOP);
	lose_data();
	run(&next, "hold", "two", STORM_TTL, "5000", "0");
	assert_true(hear_held(&next, &how) > first);
	kill(holder.pid, SIGCONT);
	assert_string_equal(hear(&holder), "lost, refused");
	release(&holder);
	release(&next);
	assert_int_equal(guarded_check(1, kind->name), 1);
}

/* ------------------------------------------------------------------ partitions */

/* A holder whose way to the first so many servers can be cut. */
struct cut {
	struct process proxies[SERVERS];
	char urls[SERVERS][192];
	size_t count;
};

static void hold_through(struct cut *cut, size_t count, int64_t ttl,
			 struct process *holder)
{
	const char *through[SERVERS] = { NULL };

	cut->count = count;
	for (size_t i = 0; i < count; i++) {
		proxy_start(i, "0", cut->urls[i], &cut->proxies[i]);
		through[i] = cut->urls[i];
	}
	run_by(holder, "hold", "one", ttl, "5000", "0", through);
}

static void cut_signal(const struct cut *cut, int number)
{
	for (size_t i = 0; i < cut->count; i++)
		kill(cut->proxies[i].pid, number);
}

static void cut_end(struct cut *cut)
{
	for (size_t i = 0; i < cut->count; i++)
		proxy_end(&cut->proxies[i]);
}

static void assert_passes_on_after_a_cut(struct process *holder, uint64_t first)
{
	struct process waiter;
	enum lease_predecessor how;

	run(&waiter, "hold", "two", STORM_TTL, "20000", "0");
	assert_true(hear_held(&waiter, &how) > first);
	assert_true(text_starts_with(hear(holder), "lost, "));
	release(&waiter);
}

/* Of one server, or a majority. */
TEST(a_holder_that_is_cut_off_loses_it_before_others_have_it)
{
	struct process holder;
	enum lease_predecessor how;
	struct cut cut;

	hold_through(&cut, kind->servers / 2 + 1, FAULT_TTL, &holder);
	uint64_t first = hear_held(&holder, &how);
	cut_signal(&cut, SIGSTOP);
	assert_passes_on_after_a_cut(&holder, first);
	cut_signal(&cut, SIGCONT);
	release(&holder);
	cut_end(&cut);
	assert_int_equal(witness_check(), 2);
}

TEST(a_holder_that_is_cut_from_a_minority_keeps_it)
{
	struct process holder;
	enum lease_predecessor how;
	struct cut cut;

	hold_through(&cut, kind->servers / 2, KEEP_TTL, &holder);
	hear_held(&holder, &how);
	cut_signal(&cut, SIGSTOP);
	assert_waits_in_vain("4000"); /* longer than its ttl */
	cut_signal(&cut, SIGCONT);
	release(&holder);
	cut_end(&cut);
	assert_int_equal(witness_check(), 1);
}

/* What it asks of the file server does not even fail. */
TEST(a_holder_whose_file_server_hangs_loses_it_before_others_have_it)
{
	AUTO_FREE char *preload = make_preload(root, "hung_server");
	AUTO_FREE char *flag = xasprintf("%s/hung", root);
	struct process holder, waiter;
	enum lease_predecessor how;

	setenv("LD_PRELOAD", preload, 1);
	setenv("HUNG_SERVER", flag, 1);
	run(&holder, "hold", "one", FAULT_TTL, "5000", "0");
	unsetenv("LD_PRELOAD");
	uint64_t first = hear_held(&holder, &how);
	assert_ok(file_replace(AT_FDCWD, flag, "", 0, FILE_NO_SYNC, &err));
	run(&waiter, "hold", "two", STORM_TTL, "20000", "0");
	assert_true(hear_held(&waiter, &how) > first);
	unlink(flag);
	assert_string_equal(hear(&holder), "lost, refused");
	release(&holder);
	release(&waiter);
	assert_int_equal(witness_check(), 2);
}

/* ------------------------------------------------------------------ clocks */

static char *wrong_clock; /* for servers; owned */

static void set_clock(const char *path, const char *offset)
{
	assert_ok(
		file_replace(AT_FDCWD, path, offset, strlen(offset), FILE_NO_SYNC, &err));
	chmod(path, 0644);
}

static void set_server_clock(size_t i, const char *offset)
{
	AUTO_FREE char *path = xasprintf("%s/clock%zu", servers_root, i);

	set_clock(path, offset);
}

static void run_with_clock(struct process *process, const char *path, const char *data)
{
	setenv("LD_PRELOAD", wrong_clock, 1);
	setenv("WRONG_CLOCK", path, 1);
	run(process, "hold", data, KEEP_TTL, "5000", "0");
	unsetenv("LD_PRELOAD");
	unsetenv("WRONG_CLOCK");
}

/* That of the backend: of all servers, or of the file server of those that are started
 * from here on. */
static void set_backend_clock(const char *offset)
{
	AUTO_FREE char *path = xasprintf("%s/file-clock", root);

	for (size_t i = 0; i < kind->servers; i++)
		set_server_clock(i, offset);
	if (kind->servers > 0)
		return;
	set_clock(path, offset);
	setenv("LD_PRELOAD", wrong_clock, 1);
	setenv("WRONG_FILE_CLOCK", path, 1);
}

static void end_backend_clock(void)
{
	set_backend_clock("+0");
	unsetenv("LD_PRELOAD");
	unsetenv("WRONG_FILE_CLOCK");
}

/* As if it was on another host. */
static void run_elsewhere(struct process *process, int64_t ttl, const char *wait_ms)
{
	if (kind->servers == 0)
		setenv("TEST_BOOT_ID", "0e2f7bb6-0000-4000-8000-000000000000", 1);
	run(process, "hold", "two", ttl, wait_ms, "0");
	unsetenv("TEST_BOOT_ID");
}

/* Of a server its data directory cannot be seen from there. */
static void kill_unseen(struct process *holder)
{
	AUTO_FREE char *seen = xasprintf("%s/one", root);
	AUTO_FREE char *hidden = xasprintf("%s/hidden", root);

	if (kind->servers > 0 && rename(seen, hidden) != 0)
		abort();
	kill(holder->pid, SIGKILL);
	finish(holder);
}

/* An hour ahead, then an hour behind. Whoever takes it then has a higher fence. */
TEST(a_step_of_its_own_clock_costs_no_holder_the_lease_and_takes_no_fence_back)
{
	AUTO_FREE char *path = xasprintf("%s/clock", root);
	struct process holder, next;
	enum lease_predecessor how;

	set_clock(path, "+3600");
	run_with_clock(&holder, path, "one");
	uint64_t first = hear_held(&holder, &how);
	set_clock(path, "-3600");
	assert_waits_in_vain("2000");
	release(&holder);
	run_with_clock(&next, path, "two");
	uint64_t second = hear_held(&next, &how);
	assert_true(second > first);
	set_clock(path, "+7200");
	assert_waits_in_vain("2000");
	release(&next);
	run(&next, "hold", "one", STORM_TTL, "5000", "0");
	assert_true(hear_held(&next, &how) > second);
	release(&next);
	assert_int_equal(witness_check(), 3);
	assert_int_equal(guarded_check(1, kind->name), 3);
}

/* A step of most servers ends the lease there; its holder hears of that at its next
 * renewal, and the fence stops it until then. One of a minority is nothing. The holder
 * pauses until somebody else has it: else its renewal may come first, and right so. */
TEST(a_step_of_the_servers_clock_is_stopped_by_the_fence)
{
	struct process holder, next;
	enum lease_predecessor how;
	size_t few = kind->servers / 2;

	run(&holder, "hold", "one", few > 0 ? KEEP_TTL : FAULT_TTL, "5000", "0");
	uint64_t first = hear_held(&holder, &how);
	for (size_t i = 0; i < few; i++)
		set_server_clock(i, "+" STEP);
	if (few > 0)
		assert_waits_in_vain("3000");
	kill(holder.pid, SIGSTOP);
	for (size_t i = 0; i < kind->servers; i++)
		set_server_clock(i, i < few ? "+0" : "+" STEP);
	run(&next, "hold", "two", STORM_TTL, "5000", "0");
	uint64_t second = hear_held(&next, &how);
	kill(holder.pid, SIGCONT);
	assert_true(second > first);
	assert_string_equal(hear(&holder), "lost, refused");
	for (size_t i = 0; i < kind->servers; i++)
		set_server_clock(i, "+0");
	release(&holder);
	release(&next);
	run(&next, "hold", "one", STORM_TTL, "5000", "0");
	assert_true(hear_held(&next, &how) > second);
	release(&next);
	assert_int_equal(guarded_check(1, kind->name), 2);
}

/* The same of a file server. */
TEST(a_step_forward_of_the_file_servers_clock_is_stopped_by_the_fence)
{
	struct process holder, next;
	enum lease_predecessor how;

	set_backend_clock("+0");
	run(&holder, "hold", "one", FAULT_TTL, "5000", "0");
	uint64_t first = hear_held(&holder, &how);
	kill(holder.pid, SIGSTOP);
	set_backend_clock("+" STEP);
	run_elsewhere(&next, KEEP_TTL, "5000");
	uint64_t second = hear_held(&next, &how);
	kill(holder.pid, SIGCONT);
	assert_true(second > first);
	assert_string_equal(hear(&holder), "lost, refused");
	release(&holder);
	assert_waits_in_vain("3000");
	release(&next);
	end_backend_clock();
	assert_int_equal(guarded_check(1, kind->name), 1);
}

/* Who holds it keeps it; of one that dies then, on another host, it ends a ttl after
 * somebody has looked, and not at the time that its heartbeats had. */
TEST(a_step_back_of_the_servers_clock_ends_no_lease_and_keeps_none)
{
	struct process holder, waiter;
	enum lease_predecessor how;

	set_backend_clock("+600");
	run(&holder, "hold", "one", KEEP_TTL, "5000", "0");
	uint64_t first = hear_held(&holder, &how);
	set_backend_clock("+300");
	assert_waits_in_vain("5000"); /* longer than a renewal and its ttl */
	kill_unseen(&holder);
	set_backend_clock("+0");
	int64_t before = clock_boot_ms();
	run_elsewhere(&waiter, STORM_TTL, "20000");
	uint64_t second = hear_held(&waiter, &how);
	assert_in_range(clock_boot_ms() - before, KEEP_TTL / 4, 4 * KEEP_TTL);
	assert_int_equal(how, LEASE_AFTER_LAPSE);
	assert_true(second > first);
	release(&waiter);
	run(&holder, "hold", "one", STORM_TTL, "5000", "0");
	assert_true(hear_held(&holder, &how) > second);
	release(&holder);
	end_backend_clock();
	assert_int_equal(witness_check(), 2);
}

/* It pauses in its work, until somebody else has it since the clock is ahead. */
static void step_over_a_holder(void)
{
	AUTO_CLOSE int dir = guarded_open(0);
	struct process holder;
	enum lease_predecessor how;

	run(&holder, "hold", "one", FAULT_TTL, "5000", "0");
	uint64_t fence = hear_held(&holder, &how);
	kill(holder.pid, SIGSTOP);
	set_backend_clock("+300");
	wait_until(guarded_fence(dir) > fence);
	kill(holder.pid, SIGCONT);
	assert_string_equal(hear(&holder), "lost, refused");
	release(&holder);
}

/* Back and forth, while they pass it on all the time. */
TEST(steps_of_the_file_servers_clock_under_a_storm_are_stopped_by_the_fence)
{
	static const char *const offsets[] = { "-300", "+0", "+3", "-4", "+1000", "+0" };
	struct process contenders[4];

	set_backend_clock("+0");
	for (size_t i = 0; i < 4; i++)
		run(&contenders[i], "storm", storm_data[i], FAULT_TTL, "8000", "0");
	step_over_a_holder();
	for (size_t i = 0; i < ARRAY_SIZE(offsets); i++) {
		usleep(900000);
		set_backend_clock(offsets[i]);
	}
	for (size_t i = 0; i < 4; i++) {
		assert_true(atoi(hear(&contenders[i])) > 0);
		assert_int_equal(finish(&contenders[i]), 0);
	}
	end_backend_clock();
	size_t published = guarded_check(1, kind->name);
	print_message("# %s: %zu published\n", kind->name, published);
	assert_true(published > 0);
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

	snprintf(test_key, sizeof(test_key), "%s:repository:7", root);
	for (size_t i = 0; i < kind->servers; i++)
		urls[i] = (char *)(uintptr_t)url_of(i);
	struct lease_manager *manager = open_kind("one", urls, STORM_TTL);
	struct behind behind = { .manager = manager };
	struct lease *lease = must_acquire_at_last(manager, 0);
	uint64_t first = lease_fence(lease);
	thread_start(&behind.thread, "behind", wait_behind, &behind);
	wait_until(somebody_waits(manager));
	lease_release(lease);
	thread_join(behind.thread);
	assert_non_null(behind.lease);
	assert_true(lease_fence(behind.lease) > first);
	wait_until(lease_inspect(manager, KEY, &holder, &err) == 0);
	assert_true(holder.held);
	assert_int_equal(holder.fence, lease_fence(behind.lease));
	assert_true(text_starts_with(holder.job, "deadbeef00000002"));
	assert_string_equal(holder.operation, "repack");
	lease_release(behind.lease);
	wait_until(lease_inspect(manager, KEY, &holder, &err) == 0);
	assert_false(holder.held);
	lease = must_acquire_at_last(manager, 0);
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_RELEASE);
	assert_true(lease_fence(lease) > holder.fence);
	lease_release(lease);
	lease_manager_close(manager);
	store_close(TAKE(store));
}

/* By another process, as long as that lives and waits. */
TEST(a_holder_sees_who_waits_for_it_elsewhere)
{
	char *urls[SERVERS + 1] = { NULL };
	enum lease_predecessor how;
	struct process waiter;

	snprintf(test_key, sizeof(test_key), "%s:repository:7", root);
	for (size_t i = 0; i < kind->servers; i++)
		urls[i] = (char *)(uintptr_t)url_of(i);
	struct lease_manager *manager = open_kind("one", urls, STORM_TTL);
	struct lease *lease = must_acquire_at_last(manager, 0);
	assert_false(lease_is_wanted(lease));
	run(&waiter, "hold", "two", STORM_TTL, "20000", "0");
	wait_until(lease_is_wanted(lease));
	kill(waiter.pid, SIGKILL);
	finish(&waiter);
	wait_until(!lease_is_wanted(lease));
	run(&waiter, "hold", "three", STORM_TTL, "20000", "0");
	wait_until(lease_is_wanted(lease));
	lease_release(lease);
	hear_held(&waiter, &how);
	release(&waiter);
	lease = must_acquire_at_last(manager, 0);
	assert_false(lease_is_wanted(lease));
	lease_release(lease);
	lease_manager_close(manager);
	if (store)
		store_close(TAKE(store));
}

enum { OF_LOCAL = 1, OF_DIRECTORY = 2, OF_ONE = 4, OF_SEVERAL = 8, OF_ALL = 15 };

static unsigned mark_of(const struct kind *one)
{
	if (one->is_local)
		return OF_LOCAL;
	if (one->servers == 0)
		return OF_DIRECTORY;
	return one->servers == 1 ? OF_ONE : OF_SEVERAL;
}

struct promise {
	const char *name;
	CMUnitTestFunction test;
	unsigned of; /* those that can be so */
};

#define PROMISE(test, of)                                                                \
	{                                                                                \
#test, test, of                                                          \
	}

static const struct promise promises[] = {
	PROMISE(no_two_of_sixteen_contenders_hold_it_and_all_get_it_alike, OF_ALL),
	PROMISE(contenders_that_crash_leave_no_gap_and_no_overlap, OF_ALL),
	PROMISE(a_killed_holder_is_succeeded_at_once, OF_ALL),
	PROMISE(elsewhere_a_killed_holder_is_succeeded_after_its_ttl_and_not_before,
		OF_DIRECTORY | OF_ONE | OF_SEVERAL),
	PROMISE(a_holder_that_slept_through_its_ttl_finds_it_lost, OF_ALL),
	PROMISE(whoever_it_was_handed_to_within_a_process_is_shown_with_its_own_fence,
		OF_ALL),
	PROMISE(a_holder_sees_who_waits_for_it_elsewhere, OF_ALL),
	PROMISE(lost_data_is_noticed_and_fences_still_grow, OF_ALL),
	PROMISE(a_holder_that_is_cut_off_loses_it_before_others_have_it,
		OF_ONE | OF_SEVERAL),
	PROMISE(a_holder_that_is_cut_from_a_minority_keeps_it, OF_SEVERAL),
	PROMISE(a_holder_whose_file_server_hangs_loses_it_before_others_have_it,
		OF_DIRECTORY),
	PROMISE(a_step_of_its_own_clock_costs_no_holder_the_lease_and_takes_no_fence_back,
		OF_ALL),
	PROMISE(a_step_of_the_servers_clock_is_stopped_by_the_fence, OF_ONE | OF_SEVERAL),
	PROMISE(a_step_forward_of_the_file_servers_clock_is_stopped_by_the_fence,
		OF_DIRECTORY),
	PROMISE(a_step_back_of_the_servers_clock_ends_no_lease_and_keeps_none,
		OF_DIRECTORY | OF_ONE | OF_SEVERAL),
	PROMISE(steps_of_the_file_servers_clock_under_a_storm_are_stopped_by_the_fence,
		OF_DIRECTORY),
};

/* Each server has a clock that its tests set. PostgreSQL is run by another user. */
static int start_all(void **state)
{
	if (test_make_root(state) != 0 || chmod(root, 0755) != 0)
		return -1;
	memcpy(servers_root, root, sizeof(root));
	wrong_clock = make_preload(root, "wrong_clock");
	for (size_t i = 0; i < SERVERS; i++)
		set_server_clock(i, "+0");
	AUTO_FREE char *wrapper = xasprintf("env LD_PRELOAD=%s WRONG_CLOCK=%s/clock0",
					    wrong_clock, servers_root);
	pg_wrapper = wrapper;
	int result = start_servers_in_root(wrong_clock);
	pg_wrapper = "";
	return result;
}

static int end_all(void **state)
{
	free(wrong_clock);
	return end_servers(state);
}

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
			    !(promises[j].of & mark_of(&kinds[i])))
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
	int failed =
		_cmocka_run_group_tests("conformance", tests, count, start_all, end_all);
	while (count > 0)
		free((void *)(uintptr_t)tests[--count].name);
	return failed;
}
