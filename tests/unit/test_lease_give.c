/*
 * Leases of servers that pass between processes of one kernel without the server: this
 * program started again with "hold", which takes the lease, says so, and gives it up at a
 * line. Givers and takers are killed and stopped at each step.
 */
static char test_key[128];
#define KEY test_key

#include "lease_kinds_test.h"

#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/file.h"
#include "lease/lease_give.h"
#include "lease/manager.h"
#include "lease/postgresql_client.h"
#include "lease/redis_round.h"

#define HOLD_TTL 20000
#define AT_ONCE_MS 8000 /* much less than the ttl, whatever else the machine does */

/* ------------------------------------------------------------------ the helper */

static void answer(const char *text)
{
	printf("%s\n", text);
	fflush(stdout);
}

/* A child that has the guard, and outlives us. */
static void start_orphan(const struct lease *lease)
{
	char name[] = "sleep", seconds[] = "60";
	char *argv[] = { name, seconds, NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, lease_guard_fd(lease),
					 lease_guard_fd(lease));
	if (posix_spawnp(&pid, name, &actions, NULL, argv, environ) != 0)
		abort();
	posix_spawn_file_actions_destroy(&actions);
	printf("%d\n", (int)pid);
	fflush(stdout);
}

/* It heard with an answer of a server to whom it is to give what it holds. */
static bool knows_next(struct lease_manager *manager)
{
	struct lease_server *server =
		kind->is_postgresql ? &((struct postgresql *)manager->backend)->server
				    : &redis_of(manager->backend)->server;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	return server->nexts.count > 0;
}

/* Who was stopped has no answer of a server in time. */
static void hold(struct lease_manager *manager, int64_t wait_ms)
{
	struct lease *lease;
	char line[32];

	while (acquire_for(manager, wait_ms, &lease) != 0) {
		if (err.reason == REASON_LOCK_UNAVAILABLE)
			continue;
		answer(err.text);
		return;
	}
	printf("held %" PRIu64 " %d\n", lease_fence(lease),
	       (int)lease_predecessor(lease));
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "orphan\n") == 0)
			start_orphan(lease);
		if (strcmp(line, "check\n") == 0)
			answer(lease_check(lease, &err) == 0 ? "ours" : "lost");
		if (strcmp(line, "next\n") == 0)
			answer(knows_next(manager) ? "known" : "unknown");
		if (strcmp(line, "release\n") == 0)
			break;
	}
	lease_release(lease);
	answer("released");
}

static struct lease_manager *open_at(const char *data)
{
	const char *urls[SERVERS + 1] = { NULL };

	for (size_t i = 0; i < kind->servers; i++)
		urls[i] = url_of(i);
	return open_kind(data, (char *const *)(uintptr_t)urls, HOLD_TTL);
}

/* argv: mode, kind, root, data directory, ttl, how long to wait, -, urls. */
static int helper_main(char *argv[])
{
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* stopped or not */
	log_set_level(LOG_LEVEL_NONE);
	kind = &kinds[atoi(argv[2])];
	snprintf(root, sizeof(root), "%s", argv[3]);
	snprintf(test_key, sizeof(test_key), "%s:repository:7", root);
	struct lease_manager *manager = open_kind(argv[4], argv + 8, atoll(argv[5]));
	if (!manager)
		return 1;
	hold(manager, atoll(argv[6]));
	lease_manager_close(manager);
	return 0;
}

/* ------------------------------------------------------------------ its master */

static struct process ann, bob, carol;

static void tell(struct process *process, const char *line)
{
	fprintf(process->to, "%s\n", line);
	fflush(process->to);
}

static uint64_t hear_held(struct process *process, enum lease_predecessor *how)
{
	uint64_t fence;
	int predecessor;

	if (sscanf(hear(process), "held %" SCNu64 " %d", &fence, &predecessor) != 2)
		fail_msg("%s", process->line);
	if (how)
		*how = (enum lease_predecessor)predecessor;
	return fence;
}

static void release(struct process *process)
{
	tell(process, "release");
	assert_string_equal(hear(process), "released");
	assert_int_equal(finish(process), 0);
}

static void kill_it(struct process *process)
{
	kill(process->pid, SIGKILL);
	finish(process);
}

static int count_waiters(void)
{
	AUTO_FREE char *line = xasprintf("%s#line", KEY);
	AUTO_FREE char *count = xasprintf(
		"SELECT count(*) FROM refrelay.lease_line WHERE key LIKE '%%%s'", KEY);

	if (kind->is_postgresql)
		return atoi(pg_sql(count));
	return atoi(redis_say(&servers[0], 2, (const char *[]){ "ZCARD", line }));
}

/* Those at this server that have asked once more, and say how they are told. */
static int count_told(struct redis_server *server)
{
	static const char script[] =
		"local count = 0 "
		"for _, waiter in ipairs(redis.call('ZRANGE', KEYS[1] .. '#line', 0, "
		"-1)) do "
		" local text = redis.call('GET', KEYS[1] .. '#wait:' .. waiter) "
		" if text and text:find(' told=', 1, true) then count = count + 1 end "
		"end return count";

	return atoi(redis_cli(server, "EVAL", script, "1", KEY));
}

static bool are_told_everywhere(int count)
{
	AUTO_FREE char *query = xasprintf("SELECT count(*) FROM refrelay.lease_line WHERE"
					  " key LIKE '%%%s' AND owner LIKE '%% told=%%'",
					  KEY);

	if (kind->is_postgresql)
		return atoi(pg_sql(query)) == count;
	for (size_t i = 0; i < kind->servers; i++)
		if (count_told(&servers[i]) != count)
			return false;
	return true;
}

/* It stands in the line as the last, and hears of its turn. */
static void start_waiting(struct process *process, const char *data, int place,
			  const char *failpoint)
{
	if (failpoint)
		setenv("REFRELAY_FAILPOINT", failpoint, 1);
	run(process, "hold", data, HOLD_TTL, "60000", "0");
	unsetenv("REFRELAY_FAILPOINT");
	wait_until(count_waiters() == place);
	wait_until(are_told_everywhere(place));
}

/* Ann has it and knows that bob waits behind her, and then carol, if she is to. */
static uint64_t start_line(const char *anns, const char *bobs, bool with_carol)
{
	struct lease_manager *manager = open_at("zero");
	struct lease *lease = must_acquire_at_last(manager, 10000);

	start_waiting(&ann, "one", 1, anns);
	start_waiting(&bob, "two", 2, bobs);
	if (with_carol)
		start_waiting(&carol, "three", 3, NULL);
	lease_release(lease);
	uint64_t fence = hear_held(&ann, NULL);
	lease_manager_close(manager);
	return fence;
}

/* 0: nobody has it, or there is no answer. */
static int64_t holder_pid(struct lease_manager *manager)
{
	struct lease_holder holder;

	if (lease_inspect(manager, KEY, &holder, &err) != 0)
		return 0;
	return holder.held ? holder.pid : 0;
}

/* Also at the first server, at which waiters are counted. Of several, it may be the last
 * that hears. */
static bool is_held_by(struct lease_manager *manager, int64_t pid)
{
	AUTO_FREE char *text = xasprintf(" pid=%" PRId64 " ", pid);

	if (holder_pid(manager) != pid)
		return false;
	return kind->is_postgresql ||
	       strstr(redis_say(&servers[0], 2, (const char *[]){ "GET", KEY }), text);
}

/* Of several servers, those that began lately do not vote. */
static bool all_vote(void)
{
	for (size_t i = 0; i < kind->servers && kind->servers > 1; i++)
		if (clock_boot_ms() - servers[i].started_at < HOLD_TTL + 3000)
			return false;
	return true;
}

static int setup(void **state)
{
	kind = *state;
	log_set_level(LOG_LEVEL_NONE);
	if (test_make_root(state) != 0)
		return -1;
	while (!all_vote())
		usleep(100000);
	snprintf(test_key, sizeof(test_key), "%s:repository:7", root);
	return 0;
}

/* ------------------------------------------------------------------ between processes */

static void wait_for_stop(const struct process *process)
{
	int status;

	assert_int_equal(waitpid(process->pid, &status, WUNTRACED), process->pid);
	assert_true(WIFSTOPPED(status));
}

static void wait_for_death(struct process *process)
{
	int status = finish(process);

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void assert_says_nothing(struct process *process, int ms)
{
	struct pollfd heard = { .fd = fileno(process->from), .events = POLLIN };

	if (poll(&heard, 1, ms) != 0)
		fail_msg("it says: %s", hear(process));
}

static void assert_ours(struct process *process)
{
	tell(process, "check");
	assert_string_equal(hear(process), "ours");
}

/* The giver stands still meanwhile: the next one has time to take it. */
static uint64_t pass_from(struct process *giver, struct process *taker)
{
	tell(giver, "release");
	wait_for_stop(giver);
	uint64_t fence = hear_held(taker, NULL);
	kill(giver->pid, SIGCONT);
	assert_string_equal(hear(giver), "released");
	assert_int_equal(finish(giver), 0);
	return fence;
}

TEST(a_grant_passes_from_process_to_process_as_it_is)
{
	uint64_t fence = start_line("lease.given=stop", "lease.given=stop", true);
	struct lease_manager *manager = open_at("zero");

	assert_int_equal(pass_from(&ann, &bob), fence + 1);
	wait_until(is_held_by(manager, bob.pid));
	assert_int_equal(count_waiters(), 1);
	wait_until((tell(&bob, "next"), strcmp(hear(&bob), "known") == 0));
	assert_int_equal(pass_from(&bob, &carol), fence + 2);
	wait_until(is_held_by(manager, carol.pid));
	assert_int_equal(count_waiters(), 0);
	release(&carol);
	struct lease *lease = must_acquire_at_last(manager, 10000);
	assert_true(lease_fence(lease) >= fence + LEASE_FENCES);
	lease_release(lease);
	lease_manager_close(manager);
}

TEST(what_a_giver_gave_before_it_was_killed_is_had_by_one)
{
	uint64_t fence = start_line("lease.given=kill", NULL, true);
	enum lease_predecessor how;

	tell(&ann, "release");
	wait_for_death(&ann);
	assert_true(hear_held(&bob, NULL) > fence);
	assert_says_nothing(&carol, 2500);
	assert_ours(&bob);
	kill_it(&bob);
	int64_t at = clock_boot_ms();
	assert_true(hear_held(&carol, &how) > fence + 1);
	assert_int_equal(how, LEASE_AFTER_DEATH);
	assert_true(clock_boot_ms() - at < AT_ONCE_MS);
	release(&carol);
}

/* The server still says that ann has it. Nobody takes it from bob for that. */
TEST(what_was_taken_before_the_giver_was_killed_stays_the_takers)
{
	uint64_t fence = start_line("lease.given=stop", "lease.taken=stop", true);
	struct lease_manager *manager = open_at("zero");

	tell(&ann, "release");
	wait_for_stop(&ann);
	wait_for_stop(&bob);
	kill_it(&ann);
	assert_says_nothing(&carol, 2500);
	kill(bob.pid, SIGCONT);
	assert_int_equal(hear_held(&bob, NULL), fence + 1);
	wait_until(holder_pid(manager) == bob.pid);
	assert_says_nothing(&carol, 1500);
	assert_ours(&bob);
	release(&bob);
	assert_true(hear_held(&carol, NULL) > fence + 1);
	release(&carol);
	lease_manager_close(manager);
}

TEST(a_giver_that_stops_delays_nobody)
{
	uint64_t fence = start_line("lease.given=stop", NULL, true);

	tell(&ann, "release");
	wait_for_stop(&ann);
	assert_int_equal(hear_held(&bob, NULL), fence + 1);
	release(&bob);
	assert_true(hear_held(&carol, NULL) > fence + 1);
	kill(ann.pid, SIGCONT);
	assert_string_equal(hear(&ann), "released");
	finish(&ann);
	assert_ours(&carol);
	release(&carol);
}

TEST(what_a_stopped_waiter_does_not_take_is_released)
{
	uint64_t fence = start_line(NULL, NULL, true);
	int64_t at = clock_boot_ms();

	kill(bob.pid, SIGSTOP);
	release(&ann);
	assert_true(hear_held(&carol, NULL) >= fence + LEASE_FENCES);
	assert_true(clock_boot_ms() - at < AT_ONCE_MS);
	kill(bob.pid, SIGCONT);
	assert_says_nothing(&bob, 2500);
	assert_ours(&carol);
	release(&carol);
	assert_true(hear_held(&bob, NULL) > fence + LEASE_FENCES);
	release(&bob);
}

TEST(a_taker_that_is_killed_is_succeeded_at_once)
{
	uint64_t fence = start_line("lease.given=stop", "lease.taken=kill", true);
	enum lease_predecessor how;
	int64_t at;

	tell(&ann, "release");
	wait_for_stop(&ann);
	wait_for_death(&bob);
	at = clock_boot_ms();
	assert_true(hear_held(&carol, &how) > fence + 1);
	assert_int_equal(how, LEASE_AFTER_DEATH);
	assert_true(clock_boot_ms() - at < AT_ONCE_MS);
	kill(ann.pid, SIGCONT);
	assert_string_equal(hear(&ann), "released");
	finish(&ann);
	assert_ours(&carol);
	release(&carol);
}

/* Nobody has told the server. */
TEST(a_taker_that_is_killed_after_its_giver_is_succeeded_at_once)
{
	uint64_t fence = start_line("lease.given=stop", "lease.taken=stop", true);
	enum lease_predecessor how;
	int64_t at;

	tell(&ann, "release");
	wait_for_stop(&ann);
	wait_for_stop(&bob);
	kill_it(&ann);
	kill_it(&bob);
	at = clock_boot_ms();
	assert_true(hear_held(&carol, &how) > fence + 1);
	assert_int_equal(how, LEASE_AFTER_DEATH);
	assert_true(clock_boot_ms() - at < AT_ONCE_MS);
	release(&carol);
}

/* The child may still write. */
TEST(nothing_is_given_while_a_child_has_the_guard)
{
	uint64_t fence = start_line(NULL, NULL, false);

	tell(&ann, "orphan");
	pid_t orphan = atoi(hear(&ann));
	release(&ann);
	assert_true(hear_held(&bob, NULL) >= fence + LEASE_FENCES);
	release(&bob);
	kill(orphan, SIGKILL);
}

/* ------------------------------------------------------------------ the guard */

#define FORMER "0123456789abcdef0123456789abcdef"
#define GUARD "/data/server/guard/1-aa.0"

static char *make_file(const char *name, const char *mark)
{
	char text[600] = "";
	char *path = xasprintf("%s%s", root, name);

	snprintf(text, sizeof(text), "%s", mark);
	assert_ok(file_replace(AT_FDCWD, path, text, sizeof(text), FILE_NO_SYNC, &err));
	return path;
}

static int lock_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	return fd;
}

TEST(a_guard_tells_who_has_what_was_given)
{
	AUTO_FREE char *own = make_file("/own", "");
	AUTO_FREE char *mark = xasprintf("taken %s ", own);
	AUTO_FREE char *path = make_file("/guard", "given");
	int fd = lock_file(path);

	assert_true(lease_give_is_guard_busy(path));
	assert_false(lease_give_is_taker_dead(path));
	close(fd);
	assert_false(lease_give_is_guard_busy(path));
	assert_false(lease_give_is_taker_dead(path));
	free(path);
	path = make_file("/guard", mark);
	assert_false(lease_give_is_guard_busy(path));
	assert_true(lease_give_is_taker_dead(path));
	fd = lock_file(own); /* by a child */
	assert_true(lease_give_is_guard_busy(path));
	assert_true(lease_give_is_taker_dead(path));
	close(fd);
	fd = lock_file(path);
	assert_false(lease_give_is_taker_dead(path));
	close(fd);
	unlink(path);
	assert_false(lease_give_is_guard_busy(path));
	assert_false(lease_give_is_taker_dead(path));
}

static int take_guard(struct lease_server *server)
{
	const struct lease_backend backend = { .ttl_ms = HOLD_TTL };
	const struct lease_request request = { .key = KEY, .operation = "sync" };
	struct lease_attempt attempt = { .request = &request,
					 .hint_fd = -1,
					 .guard_fd = -1 };
	struct owner owner;

	lease_server_describe(server, &backend, &attempt, &owner);
	assert_true(attempt.guard_fd >= 0);
	return attempt.guard_fd;
}

static bool take(struct lease_server *server, const char *mark, uint64_t floor)
{
	AUTO_FREE char *path = make_file(GUARD, mark);
	const struct lease_request request = { .key = KEY,
					       .operation = "sync",
					       .fence_floor = floor };
	struct lease_attempt attempt = { .request = &request,
					 .sent_at = clock_boot_ms(),
					 .hint_fd = -1,
					 .guard_fd = take_guard(server) };
	struct lease_offer offer = { .nonce = FORMER };
	char former[LEASE_NONCE_SIZE];

	snprintf(offer.guard, sizeof(offer.guard), "%s", path);
	bool is_taken = lease_give_take(server, KEY, &offer, HOLD_TTL, &attempt);
	if (is_taken) {
		const struct lease_grant *grant = &attempt.grant;
		assert_int_equal(attempt.outcome, LEASE_GRANTED);
		assert_true(attempt.is_untold);
		assert_int_equal(grant->fence, 78);
		assert_int_equal(grant->passes, 3);
		assert_true(lease_give_is_untold(server, grant->nonce, former));
		assert_string_equal(former, FORMER);
		assert_true(lease_give_is_guard_busy(path));
		attempt.guard_fd = grant->guard_fd;
		assert_false(lease_give_take(server, KEY, &offer, HOLD_TTL, &attempt));
		lease_give_settle(server, grant->nonce, true);
		assert_false(lease_give_is_untold(server, grant->nonce, former));
		assert_false(file_is_there(AT_FDCWD, path));
	}
	lease_server_drop_guard(server, attempt.guard_fd);
	return is_taken;
}

static bool take_given(struct lease_server *server, const char *former, int64_t lasts_ms,
		       unsigned passes, bool is_same_clock, uint64_t floor)
{
	struct stat clock;
	char mark[300];

	assert_int_equal(stat("/proc/self/ns/time", &clock), 0);
	snprintf(mark, sizeof(mark),
		 "given %s fedcba9876543210fedcba9876543210 78 %" PRId64 " %u %" PRIu64
		 " ",
		 former, clock_boot_ms() + lasts_ms, passes,
		 (uint64_t)clock.st_ino + !is_same_clock);
	return take(server, mark, floor);
}

TEST(only_what_is_of_use_is_taken)
{
	AUTO_FREE char *directory = xasprintf("%s/data", root);
	const struct lease_options options = { .directory = directory };
	const int64_t long_ms = HOLD_TTL - 500;
	struct lease_server server;

	assert_int_equal(mkdir(directory, 0700), 0);
	lease_server_init(&server, &options);
	lease_server_drop_guard(&server, take_guard(&server));
	AUTO_FREE char *alive = make_file("/data/server/alive/1-aa", "");
	assert_false(take_given(&server, FORMER, long_ms, 3, true, 77)); /* it is dead */
	int fd = lock_file(alive);
	assert_true(take_given(&server, FORMER, long_ms, 3, true, 77));
	assert_false(take_given(&server, FORMER, long_ms, 3, true, 78));
	assert_false(take_given(&server, FORMER, HOLD_TTL / 2, 3, true, 77));
	assert_false(take_given(&server, FORMER, 3 * HOLD_TTL, 3, true, 77));
	assert_false(take_given(&server, FORMER, long_ms, 32, true, 77));
	assert_false(take_given(&server, FORMER, long_ms, 3, false, 77));
	assert_false(take_given(&server, "1123456789abcdef0123456789abcdef", long_ms, 3,
				true, 77));
	assert_false(take(&server, "taken /x ", 0));
	assert_false(take(&server, "void", 0));
	close(fd);
	lease_server_clear(&server);
}

static bool is_readable(int fd)
{
	struct pollfd watched = { .fd = fd, .events = POLLIN };

	return poll(&watched, 1, 0) > 0;
}

TEST(a_waiter_is_told_by_a_fifo_of_its_own)
{
	static const char given[] = "other\0\1aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\0a key\0\1"
				    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\0\2/guard/1-aa.0";
	AUTO_FREE char *directory = xasprintf("%s/fifo", root);
	const struct lease_options options = { .directory = directory };
	const struct lease_backend backend = { .ttl_ms = HOLD_TTL };
	const struct lease_request request = { .key = "a key", .operation = "sync" };
	struct lease_server server;
	struct lease_offer offer;
	struct owner owner;

	assert_int_equal(mkdir(directory, 0700), 0);
	lease_server_init(&server, &options);
	struct lease_attempt attempt = { .request = &request, .guard_fd = -1 };
	AUTO_CLOSE int other = lease_server_hint_open(&server);
	AUTO_CLOSE int hint = lease_server_hint_open(&server);
	attempt.hint_fd = hint;
	lease_server_describe(&server, &backend, &attempt, &owner);
	assert_int_equal(owner.told, 2);
	AUTO_FREE char *path = xasprintf("%s/server/told/%s.2", directory,
					 strrchr(owner.alive, '/') + 1);
	assert_true(file_is_there(AT_FDCWD, path));
	lease_server_hint(&server, request.key, hint, &offer);
	assert_string_equal(offer.nonce, "");
	assert_true(lease_server_write_told(&owner, given, sizeof(given)));
	assert_true(is_readable(hint));
	assert_false(is_readable(other));
	lease_server_signal(&server, request.key); /* the server, too, says that */
	lease_server_hint(&server, request.key, hint, &offer);
	assert_string_equal(offer.nonce, "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb");
	assert_string_equal(offer.guard, "/guard/1-aa.0");
	assert_false(is_readable(hint));
	lease_server_signal(&server, NULL);
	assert_true(is_readable(hint));
	lease_server_hint(&server, request.key, hint, &offer);
	assert_string_equal(offer.nonce, "");
	lease_server_drop_guard(&server, attempt.guard_fd);
	lease_server_clear(&server);
	assert_false(file_is_there(AT_FDCWD, path));
	assert_false(lease_server_tell(&owner, request.key));
}

#define OF_KIND(test)                                                                    \
	cmocka_unit_test_prestate_setup_teardown(test, setup, test_remove_root, of)

int main(int argc, char *argv[])
{
	if (argc > 7)
		return helper_main(argv);
	wanted_kind = argv[1];
	void *of = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(kinds[i].name, wanted_kind) == 0)
			of = (void *)(uintptr_t)&kinds[i];
	if (!of)
		fail_msg("there is no kind %s", wanted_kind);
	const struct CMUnitTest tests[] = {
		OF_KIND(a_grant_passes_from_process_to_process_as_it_is),
		OF_KIND(what_a_giver_gave_before_it_was_killed_is_had_by_one),
		OF_KIND(what_was_taken_before_the_giver_was_killed_stays_the_takers),
		OF_KIND(a_giver_that_stops_delays_nobody),
		OF_KIND(what_a_stopped_waiter_does_not_take_is_released),
		OF_KIND(a_taker_that_is_killed_is_succeeded_at_once),
		OF_KIND(a_taker_that_is_killed_after_its_giver_is_succeeded_at_once),
		OF_KIND(nothing_is_given_while_a_child_has_the_guard),
		OF_KIND(a_guard_tells_who_has_what_was_given),
		OF_KIND(only_what_is_of_use_is_taken),
		OF_KIND(a_waiter_is_told_by_a_fifo_of_its_own),
	};
	return cmocka_run_group_tests(tests, start_servers, end_servers);
}
