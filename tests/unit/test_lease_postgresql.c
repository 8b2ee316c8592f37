/*
 * Leases in a PostgreSQL database: a server of its own on a socket in a directory, as the
 * user that may run one. Two managers are as two hosts: each has a data directory.
 */
#include "postgresql_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "lease/lease_server.h"
#include "lease/manager.h"
#include "lease/postgresql.h"

#include "lease_renewal.h"

#define KEY "refrelay:here:geo_sync_ssf_service:repository:7"
#define TTL 5000
#define LONG_TTL 60000

static const char *urls[1];
static struct lease_manager *ann, *bob;
static bool is_to_be_quick; /* the server, as in real life */

/* Those that the test was started with are not looked at. */
static bool is_inherited[4096];

static size_t count_descriptors(bool is_start)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	size_t count = 0;

	while ((entry = readdir(dir)) != NULL) {
		int fd = atoi(entry->d_name);
		if (entry->d_name[0] == '.')
			continue;
		count++;
		if (is_start && fd < 4096)
			is_inherited[fd] = true;
		else if (fd != dirfd(dir) && (fd >= 4096 || !is_inherited[fd]))
			assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	}
	closedir(dir);
	return count;
}

static int group_setup(void **state)
{
	(void)state;
	count_descriptors(true);
	pg_make();
	urls[0] = pg_url;
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	pg_end();
	return 0;
}

/* ------------------------------------------------------------------ managers */

static struct lease_manager *open_as(const char *name, int64_t ttl_ms)
{
	AUTO_FREE char *directory = xasprintf("%s/%s", root, name);
	const struct lease_options options = { .directory = directory,
					       .node = name,
					       .ttl_ms = ttl_ms,
					       .urls = urls,
					       .url_count = 1,
					       .prefix = "refrelay:here:" };
	struct lease_manager *manager;

	mkdir(directory, 0700);
	assert_ok(lease_manager_open_postgresql(&options, &manager, &err));
	return is_to_be_quick ? manager : pg_give_time(manager);
}

static int setup_for(void **state, int64_t ttl_ms)
{
	log_set_level(LOG_LEVEL_NONE);
	if (test_make_root(state) != 0)
		return -1;
	pg_sql("DROP SCHEMA IF EXISTS refrelay CASCADE");
	ann = open_as("ann", ttl_ms);
	bob = open_as("bob", ttl_ms);
	return 0;
}

static int setup(void **state)
{
	return setup_for(state, TTL);
}

static int setup_long(void **state)
{
	return setup_for(state, LONG_TTL);
}

static int setup_stalled(void **state)
{
	is_to_be_quick = true;
	return setup_long(state);
}

static int teardown(void **state)
{
	lease_manager_close(TAKE(ann));
	lease_manager_close(TAKE(bob));
	return test_remove_root(state);
}

static int acquire(struct lease_manager *manager, int64_t wait_ms, struct lease **lease)
{
	return lease_acquire(manager,
			     &(struct lease_request){ .key = KEY,
						      .operation = "sync",
						      .job = "deadbeef00000001",
						      .name = "a",
						      .wait_ms = wait_ms },
			     lease, &err);
}

static struct lease *must_acquire(struct lease_manager *manager, int64_t wait_ms)
{
	struct lease *lease;

	assert_ok(acquire(manager, wait_ms, &lease));
	return lease;
}

/* The server has half a second to answer, which a busy machine may need. */
static bool is_late(void)
{
	return err.reason == REASON_LOCK_UNAVAILABLE &&
	       (err.class == ERR_NETWORK || err.class == ERR_TIMEOUT);
}

/* ------------------------------------------------------------------ grants */

TEST(a_lease_excludes_until_it_is_released)
{
	struct lease *lease = must_acquire(ann, 0), *none;
	struct lease_holder holder;
	const struct lease_request request = { .key = KEY,
					       .operation = "sync",
					       .holder = &holder };

	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_NOBODY);
	assert_fails(lease_acquire(bob, &request, &none, &err), ERR_BUSY);
	assert_string_equal(holder.job, "deadbeef00000001 a");
	assert_string_equal(holder.node, "ann");
	assert_string_equal(holder.proof, "alive");
	assert_int_equal(holder.pid, getpid());
	assert_int_equal(holder.fence, lease_fence(lease));
	assert_in_range(holder.ttl_left_ms, 1, TTL);
	lease_release(lease);
	lease = must_acquire(bob, 0);
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_RELEASE);
	lease_release(lease);
	assert_string_equal(pg_sql("SELECT key FROM refrelay.lease"), KEY);
}

TEST(fences_grow_above_floor_clock_and_lost_rows)
{
	struct lease *lease;
	uint64_t before = (uint64_t)clock_wall_ns() / 1000 - 1000000;

	for (int i = 0; i < 10; i++) {
		lease = must_acquire(i % 2 ? ann : bob, 0);
		assert_true(lease_fence(lease) > before);
		before = lease_fence(lease);
		lease_release(lease);
	}
	pg_sql("TRUNCATE refrelay.lease");
	lease = must_acquire(ann, 0);
	assert_true(lease_fence(lease) > before);
	lease_release(lease);
	const struct lease_request request = { .key = KEY,
					       .operation = "sync",
					       .fence_floor = before + 1000000000000 };
	assert_ok(lease_acquire(ann, &request, &lease, &err));
	assert_int_equal(lease_fence(lease), before + 1000000000000 + 3 * LEASE_FENCES);
	lease_release(lease);
	lease = must_acquire(bob, 0);
	assert_int_equal(lease_fence(lease), before + 1000000000000 + 4 * LEASE_FENCES);
	lease_release(lease);
}

/* Else the fences after a loss of all rows, which follow the clock, might be those of
 * grants from before. */
TEST(a_takeover_does_not_put_fences_ahead_of_the_clock)
{
	struct lease *lease = must_acquire(ann, 0), *next;

	pg_sql("UPDATE refrelay.lease SET expires_at = clock_timestamp() - interval '1 "
	       "s'");
	next = must_acquire(bob, 0);
	assert_int_equal(lease_predecessor(next), LEASE_AFTER_LAPSE);
	assert_in_range(lease_fence(next), lease_fence(lease) + 1,
			(uint64_t)clock_wall_ns() / 1000);
	lease_release(lease);
	lease_release(next);
}

TEST(the_keeper_renews)
{
	struct lease *lease = must_acquire(ann, 0), *none;

	pg_sql("UPDATE refrelay.lease SET expires_at = clock_timestamp() + interval '9 "
	       "s'");
	make_renewal_due(ann);
	wait_until(strcmp(pg_sql("SELECT expires_at > clock_timestamp() + interval '20 "
				 "s' FROM refrelay.lease"),
			  "t") == 0);
	assert_fails(acquire(bob, 0, &none), ERR_BUSY);
	assert_ok(lease_check(lease, &err));
	lease_release(lease);
}

TEST(what_lapsed_is_granted_anew_and_not_revived)
{
	struct lease *lease = must_acquire(ann, 0), *other;

	pg_sql("UPDATE refrelay.lease SET expires_at = clock_timestamp() - interval '1 "
	       "ms'");
	other = must_acquire(bob, 0);
	assert_int_equal(lease_predecessor(other), LEASE_AFTER_LAPSE);
	assert_true(lease_fence(other) > lease_fence(lease));
	wait_until(lease_check(lease, &err) != 0);
	assert_int_equal(err.class, ERR_LOST);
	lease_release(lease);
	assert_ok(lease_check(other, &err));
	lease_release(other);
}

/* ------------------------------------------------------------------ waiting */

struct asker {
	struct lease_manager *manager;
	int64_t got_at;
	struct lease *lease;
	struct err err;
	pthread_t thread;
};

static void *ask(void *arg)
{
	struct asker *asker = arg;
	const struct lease_request request = { .key = KEY,
					       .operation = "wait",
					       .wait_ms = 10000 };

	lease_acquire(asker->manager, &request, &asker->lease, &asker->err);
	asker->got_at = clock_boot_ms();
	return NULL;
}

static void start_asking(struct asker *asker, struct lease_manager *manager)
{
	*asker = (struct asker){ .manager = manager };
	thread_start(&asker->thread, "asker", ask, asker);
}

TEST(who_waits_is_served_before_who_does_not)
{
	struct lease *lease = must_acquire(ann, 0), *none;
	struct asker asker;

	start_asking(&asker, bob);
	wait_until(strcmp(pg_sql("SELECT count(*) FROM refrelay.lease_line"), "1") == 0);
	lease_release(lease);
	if (acquire(ann, 0, &none) == 0) {
		/* only after it had it and gave it up, which it does not */
		fail_msg("overtaken");
	}
	thread_join(asker.thread);
	assert_non_null(asker.lease);
	lease_release(asker.lease);
}

#define AT_ONCE 700 /* ms: not by the poll, from 800 on */

static int64_t wait_for_release(void)
{
	struct lease *lease = must_acquire(ann, 0);
	int64_t began = clock_boot_ms();
	struct asker asker;

	start_asking(&asker, bob);
	wait_until(strcmp(pg_sql("SELECT count(*) FROM refrelay.lease_line"), "1") == 0);
	usleep(50000);
	lease_release(lease);
	thread_join(asker.thread);
	assert_non_null(asker.lease);
	lease_release(asker.lease);
	return asker.got_at - began;
}

/* Once of several times: the machine may be busy, and for more than a moment. */
static void assert_once_at_once(int64_t (*wait)(void))
{
	int64_t until = clock_boot_ms() + 60000, took;

	do
		took = wait();
	while (took > AT_ONCE && clock_boot_ms() < until);
	assert_in_range(took, 0, AT_ONCE);
}

TEST(a_release_wakes_the_other_at_once)
{
	assert_once_at_once(wait_for_release);
	assert_string_equal(pg_sql("SELECT count(*) FROM refrelay.lease_line"), "0");
}

TEST(who_is_of_this_host_is_told_without_a_notice)
{
	lease_release(must_acquire(ann, 0)); /* makes the schema */
	pg_sql("CREATE OR REPLACE FUNCTION refrelay.lease_wake_1(p_key text) RETURNS void"
	       " LANGUAGE sql AS 'SELECT'");
	assert_once_at_once(wait_for_release);
}

/* In another container, or a version that has none. */
TEST(who_has_no_fifo_that_we_see_is_told_by_a_notice)
{
	AUTO_FREE char *told = xasprintf("%s/bob/server/told", root);

	assert_once_at_once(wait_for_release); /* makes the FIFO */
	assert_ok(tree_remove(AT_FDCWD, told, &err));
	assert_once_at_once(wait_for_release);
}

/* So many are ready to be told: each has asked once more, and says how. */
static void wait_for_line(const char *count)
{
	wait_until(strcmp(pg_sql("SELECT count(*) FROM refrelay.lease_line"
				 " WHERE owner LIKE '% told=%'"),
			  count) == 0);
}

/* Then only whoever is given a lease up can free it. */
static void let_releases_do_nothing(void)
{
	pg_sql("CREATE OR REPLACE FUNCTION refrelay.lease_release_6(p_key text, p_nonce "
	       "text,"
	       " p_boot text, p_is_offered bool, OUT done int, OUT neighbour text) "
	       "LANGUAGE sql AS"
	       " 'SELECT 0, NULL::text'");
}

/* Ann knows of carl since she was granted it, and a child of hers keeps her from giving
 * it to him as it is. No release reaches the server. */
TEST(who_is_next_releases_and_takes_it_in_one)
{
	struct lease_manager *carl = open_as("carl", TTL);
	struct lease *lease = must_acquire(bob, 0);
	struct asker first, second;

	start_asking(&first, ann);
	wait_for_line("1");
	start_asking(&second, carl);
	wait_for_line("2");
	lease_release(lease);
	thread_join(first.thread);
	assert_non_null(first.lease);
	uint64_t fence = lease_fence(first.lease);
	AUTO_CLOSE int child = fcntl(lease_guard_fd(first.lease), F_DUPFD_CLOEXEC, 0);
	let_releases_do_nothing();
	lease_release(first.lease);
	thread_join(second.thread);
	assert_non_null(second.lease);
	assert_true(child >= 0);
	assert_int_equal(lease_predecessor(second.lease), LEASE_AFTER_RELEASE);
	assert_true(lease_fence(second.lease) >= fence + LEASE_FENCES);
	lease_release(second.lease);
	lease_manager_close(carl);
}

/* A crash may have taken the grant of the one that it was given up for. */
TEST(a_release_in_favour_of_the_next_frees_nothing_from_before_a_crash)
{
	struct lease *lease = must_acquire(ann, 0), *none;

	pg_sql("TRUNCATE refrelay.lease_start");
	assert_string_equal(pg_sql("SELECT done FROM refrelay.lease_release_6('" KEY
				   "', (SELECT nonce FROM refrelay.lease), NULL, true)"),
			    "0");
	assert_fails(acquire(bob, 0, &none), ERR_BUSY);
	lease_release(lease);
	lease_release(must_acquire(bob, 0));
}

static void tell_bob(const char *message, size_t len)
{
	AUTO_FREE char *folder = xasprintf("%s/bob/server/told", root);
	AUTO_CLOSEDIR DIR *dir = opendir(folder);
	struct dirent *entry;

	while ((entry = readdir(dir)) != NULL) {
		AUTO_CLOSE int fd =
			entry->d_name[0] == '.'
				? -1
				: openat(dirfd(dir), entry->d_name, O_WRONLY | O_CLOEXEC);
		if (fd >= 0)
			assert_int_equal(write(fd, message, len), (ssize_t)len);
	}
}

TEST(a_nonce_that_is_not_of_the_grant_takes_nothing)
{
	static const char told[] = KEY "\0\1"
				       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\0" KEY;
	struct lease *lease = must_acquire(ann, 0);
	struct asker asker;

	start_asking(&asker, bob);
	wait_for_line("1");
	tell_bob(told, sizeof(told));
	tell_bob(told, sizeof(told) - 10); /* what has no end is none */
	tell_bob("\1", 2);
	usleep(300000);
	assert_ok(lease_check(lease, &err));
	assert_string_equal(pg_sql("SELECT count(*) FROM refrelay.lease WHERE nonce IS "
				   "NOT NULL AND owner LIKE '%node=ann%'"),
			    "1");
	lease_release(lease);
	thread_join(asker.thread);
	assert_non_null(asker.lease);
	lease_release(asker.lease);
}

TEST(one_that_is_told_out_of_turn_frees_it_for_the_first)
{
	struct lease *lease = must_acquire(ann, 0);

	pg_sql("INSERT INTO refrelay.lease_line (key, waiter, owner, seen) VALUES ('" KEY
	       "', 'ghost', 'ttl=1', clock_timestamp() + interval '1 s')");
	assert_string_equal(pg_sql("SELECT outcome FROM refrelay.lease_acquire_8('" KEY
				   "', 'x', 'o', 1000, 0, (SELECT nonce FROM "
				   "refrelay.lease), false, NULL, 'late', 'w')"),
			    "-1");
	assert_string_equal(pg_sql("SELECT nonce IS NULL AND ended = 'released' FROM "
				   "refrelay.lease"),
			    "t");
	assert_string_equal(pg_sql("SELECT count(*) FROM refrelay.lease_line"), "2");
	/* What a dead one had was not released. */
	pg_sql("UPDATE refrelay.lease SET nonce = 'y', ended = NULL");
	assert_string_equal(pg_sql("SELECT outcome FROM refrelay.lease_acquire_8('" KEY
				   "', 'x', 'o', 1000, 0, 'y', true, NULL, 'late', 'w')"),
			    "-1");
	assert_string_equal(pg_sql("SELECT nonce IS NULL AND ended = 'held' FROM "
				   "refrelay.lease"),
			    "t");
	lease_release(lease);
}

/* Only places before it are in its way: those behind stay, and are passed over later. */
TEST(places_of_those_that_ask_no_more_are_passed_over)
{
	struct lease *lease;

	lease_release(must_acquire(ann, 0)); /* makes the schema */
	pg_sql("INSERT INTO refrelay.lease_line (key, waiter, owner, seen) SELECT '" KEY
	       "', 'ghost' || i, 'ttl=1', clock_timestamp() - interval '4 s' FROM "
	       "generate_series(1, 3) i");
	lease = must_acquire(bob, 0);
	assert_string_equal(pg_sql("SELECT count(*) FROM refrelay.lease_line"), "0");
	lease_release(lease);
}

/* A pooler that gives each request another session. */
TEST(sessions_that_lack_what_was_prepared_serve_as_well)
{
	struct lease *lease = must_acquire(ann, 0), *none;

	pg_sql("CREATE OR REPLACE FUNCTION refrelay.lease_leave_2(p_key text, p_me text)"
	       " RETURNS void LANGUAGE plpgsql AS $$ BEGIN DELETE FROM"
	       " refrelay.lease_line; DEALLOCATE ALL; END $$");
	assert_fails(acquire(bob, 300, &none), ERR_LOCK_TIMEOUT);
	lease_release(lease);
	for (int i = 0; i < 3; i++)
		lease_release(must_acquire(bob, 0));
}

/* Ghost is first in the line, and was told that it may have it. How long bob waits. */
static int64_t leave_to_the_next(void)
{
	struct lease *lease = must_acquire(ann, 0);
	struct asker asker;
	int64_t began;

	pg_sql("INSERT INTO refrelay.lease_line (key, waiter, owner, seen) VALUES ('" KEY
	       "', 'ghost', 'ttl=1', clock_timestamp() + interval '1 s')");
	began = clock_boot_ms();
	start_asking(&asker, bob);
	wait_until(strcmp(pg_sql("SELECT count(*) FROM refrelay.lease_line"), "2") == 0);
	usleep(50000);
	lease_release(lease);
	assert_fails(acquire(ann, 0, &lease), ERR_BUSY);
	pg_sql("SELECT refrelay.lease_leave_2('" KEY "', 'ghost')");
	thread_join(asker.thread);
	assert_non_null(asker.lease);
	lease_release(asker.lease);
	return asker.got_at - began;
}

TEST(who_leaves_tells_the_next)
{
	assert_once_at_once(leave_to_the_next);
}

TEST(waiting_ends_in_time_and_leaves_no_place)
{
	struct lease *lease = must_acquire(ann, 0), *none;
	int64_t before = clock_boot_ms();

	assert_fails(acquire(bob, 300, &none), ERR_LOCK_TIMEOUT);
	assert_in_range(clock_boot_ms() - before, 300, 5000);
	assert_string_equal(pg_sql("SELECT count(*) FROM refrelay.lease_line"), "0");
	lease_release(lease);
}

/* ------------------------------------------------------------------ death */

/* This program again, which takes the lease and waits to be killed. */
static pid_t start_holder(void)
{
	char program[] = "/proc/self/exe";
	char *argv[] = { program, root, pg_url, NULL };
	posix_spawn_file_actions_t actions;
	int ends[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	assert_int_equal(posix_spawn(&pid, program, &actions, NULL, argv, environ), 0);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	close(ends[0]);
	return pid;
}

static int hold(char *argv[])
{
	struct lease *lease = NULL;

	log_set_level(LOG_LEVEL_NONE);
	snprintf(root, sizeof(root), "%s", argv[1]);
	urls[0] = argv[2];
	if (acquire(open_as("eve", 60000), 0, &lease) != 0 ||
	    write(STDOUT_FILENO, "x", 1) != 1)
		return 1;
	for (;;)
		pause();
}

TEST(a_dead_process_of_this_host_is_succeeded_at_once)
{
	pid_t pid = start_holder();
	struct lease *lease;
	struct asker asker;

	assert_fails(acquire(bob, 0, &lease), ERR_BUSY);
	start_asking(&asker, ann);
	wait_until(strcmp(pg_sql("SELECT count(*) FROM refrelay.lease_line"), "1") == 0);
	usleep(100000);
	int64_t killed_at = clock_boot_ms();
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	thread_join(asker.thread);
	assert_non_null(asker.lease);
	assert_in_range(asker.got_at - killed_at, 0,
			8000); /* not by the end of the ttl */
	assert_int_equal(lease_predecessor(asker.lease), LEASE_AFTER_DEATH);
	lease_release(asker.lease);
}

TEST(one_of_another_boot_proves_nothing)
{
	pid_t pid = start_holder();
	struct lease *lease;

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	pg_sql("UPDATE refrelay.lease SET owner = regexp_replace(owner, 'boot=[^ ]*', "
	       "'boot=elsewhere')");
	assert_fails(acquire(bob, 0, &lease), ERR_BUSY);
}

/* It may have lost to whom the dead one had given it up. */
TEST(a_server_that_began_anew_proves_nothing_about_what_it_has_from_before)
{
	struct lease *lease;

	for (int i = 0; i < 2; i++) {
		pid_t pid = start_holder();
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		if (i == 0) {
			pg_stop();
			pg_start();
		} else {
			int server = atoi(pg_sql("SELECT pid FROM pg_stat_activity WHERE "
						 "state = 'idle' ORDER BY backend_start "
						 "LIMIT 1"));
			assert_true(server > 0);
			kill(server, SIGKILL); /* after which all start anew */
			wait_until(strcmp(pg_sql("SELECT count(*) FROM "
						 "refrelay.lease_start"),
					  "0") == 0);
		}
		wait_until(acquire(bob, 0, &lease) != 0 && !is_late());
		assert_int_equal(err.class, ERR_BUSY);
		pg_sql("UPDATE refrelay.lease SET expires_at = clock_timestamp() + "
		       "interval '60 s'");
		wait_until(acquire(bob, 0, &lease) == 0);
		assert_int_equal(lease_predecessor(lease), LEASE_AFTER_DEATH);
		lease_release(lease);
	}
}

/* ------------------------------------------------------------------ faults */

TEST(a_server_that_is_away_is_no_answer_about_the_lease)
{
	struct lease *lease = must_acquire(ann, 0), *none;
	int64_t before;

	pg_stop();
	before = clock_boot_ms();
	assert_fails(acquire(bob, 0, &none), ERR_NETWORK);
	assert_int_equal(err.reason, REASON_LOCK_UNAVAILABLE);
	assert_in_range(clock_boot_ms() - before, 0, 5000);
	assert_ok(lease_check(lease, &err));
	pg_start();
	assert_fails(acquire(bob, 0, &none), ERR_BUSY); /* rows survive */
	lease_release(lease);
	lease_release(must_acquire(bob, 0));
}

TEST(a_server_that_is_frozen_is_left_in_time_and_no_grant_stays_behind)
{
	struct lease *none;

	lease_release(must_acquire(ann, 0)); /* connected */
	postgresql_of(ann->backend)->command_ms = POSTGRESQL_COMMAND_MS;
	pg_signal(SIGSTOP);
	int64_t before = clock_boot_ms();
	int result = acquire(ann, 0, &none);
	int64_t took = clock_boot_ms() - before;
	pg_signal(SIGCONT);
	assert_int_equal(result, -1);
	assert_int_equal(err.class, ERR_TIMEOUT);
	assert_in_range(took, 400, 5000);
	wait_until(strcmp(pg_sql("SELECT count(*) FROM refrelay.lease WHERE nonce IS NOT "
				 "NULL"),
			  "0") == 0);
	lease_release(must_acquire(bob, 2000));
}

static _Thread_local bool is_to_stand_still;

/* The answer comes meanwhile, and its time is over afterwards. */
static int stand_still(PGconn *connection)
{
	struct pollfd answer = { PQsocket(connection), POLLIN, 0 };
	int is_busy = PQisBusy(connection);

	if (is_busy && is_to_stand_still) {
		is_to_stand_still = false;
		poll(&answer, 1, 20000);
		usleep(100000);
	}
	return is_busy;
}

TEST(an_answer_that_came_while_we_stood_still_is_taken)
{
	lease_release(must_acquire(ann, 0)); /* connected */
	postgresql_of(ann->backend)->command_ms = 50;
	pq.isBusy = stand_still;
	is_to_stand_still = true;
	struct lease *lease = must_acquire(ann, 0);
	pq.isBusy = PQisBusy;
	pg_give_time(ann);
	assert_false(is_to_stand_still);
	lease_release(lease);
}

/* No commit ends without a standby that there is not. */
static void stall_commits(const char *standby)
{
	AUTO_FREE char *text =
		xasprintf("ALTER SYSTEM SET synchronous_standby_names = '%s'", standby);

	pg_sql(text);
	pg_sql("SELECT pg_reload_conf()");
}

static int end_stall(void **state)
{
	stall_commits("");
	is_to_be_quick = false;
	return teardown(state);
}

/* Nobody sees the grant before; then it is nobody's. */
TEST(a_grant_whose_commit_was_late_is_taken_back)
{
	struct lease *lease;
	int most = 0;

	lease_release(must_acquire(ann, 0));
	lease_release(must_acquire(bob, 0));
	stall_commits("nobody");
	for (int result = 0; result == 0;) { /* the server's processes hear of it soon */
		result = acquire(ann, 0, &lease);
		lease_release(lease);
	}
	assert_int_equal(err.class, ERR_TIMEOUT);
	/* Those that ask meanwhile do not pile up behind it. */
	for (int i = 0; i < 8; i++) {
		assert_int_equal(acquire(bob, 0, &lease), -1);
		assert_int_equal(err.reason, REASON_LOCK_UNAVAILABLE);
		int waiting = atoi(pg_sql("SELECT count(*) FROM pg_stat_activity WHERE "
					  "wait_event_type = 'Lock'"));
		most = waiting > most ? waiting : most;
	}
	assert_in_range(most, 0, 2);
	stall_commits("");
	/* The commit that stalls ends once the server has read its settings. */
	wait_until(acquire(bob, 10000, &lease) == 0 || !is_late());
	assert_non_null(lease);
	lease_release(lease);
}

static void end_of_row(char out[64])
{
	snprintf(out, 64, "%s",
		 pg_sql("SELECT expires_at FROM refrelay.lease WHERE key = '" KEY "'"));
}

/* While no commit ends. False: an answer was late. */
static bool is_handed_over_without_the_disk(void)
{
	struct lease_manager *carl = open_as("carl", LONG_TTL);
	struct lease *lease = must_acquire(bob, 0), *none = NULL;
	char other[LEASE_KEY_SIZE], before[64], after[64];
	const struct lease_request request = { .key = other, .operation = "sync" };
	struct asker first, second;
	int tries = 0;

	start_asking(&first, ann);
	wait_for_line("1");
	start_asking(&second, carl);
	wait_for_line("2");
	lease_release(lease);
	thread_join(first.thread);
	assert_non_null(first.lease);
	int64_t valid_until = first.lease->valid_until;
	end_of_row(before);
	let_releases_do_nothing();
	stall_commits("nobody");
	do { /* until it has heard */
		snprintf(other, sizeof(other), KEY "-%d", tries++);
		lease_release(none);
	} while (lease_acquire(bob, &request, &none, &err) == 0);
	assert_int_equal(err.class, ERR_TIMEOUT);
	lease_release(first.lease);
	thread_join(second.thread);
	if (!second.lease) {
		assert_int_equal(second.err.reason, REASON_LOCK_UNAVAILABLE);
		stall_commits("");
		pg_sql("DROP SCHEMA refrelay CASCADE");
		lease_manager_close(carl);
		return false;
	}
	end_of_row(after);
	assert_string_equal(before, after);
	assert_in_range(second.lease->valid_until, valid_until - 1000, valid_until + 300);
	stall_commits("");
	lease_release(second.lease);
	lease_manager_close(carl);
	return true;
}

/* It ends when the one before would have. */
TEST(who_is_next_has_the_rest_of_the_time_and_waits_for_no_disk)
{
	for (int i = 0; !is_handed_over_without_the_disk(); i++)
		assert_in_range(i, 0, 5);
}

TEST(a_schema_that_goes_away_is_made_again)
{
	struct lease *lease = must_acquire(ann, 0);
	uint64_t before = lease_fence(lease);

	pg_sql("DROP SCHEMA refrelay CASCADE");
	wait_until(lease_check(lease, &err) != 0);
	lease_release(lease);
	lease = must_acquire(ann, 0);
	assert_true(lease_fence(lease) > before);
	lease_release(lease);
	pg_sql("DROP SCHEMA refrelay CASCADE");
	lease_release(must_acquire(ann, 0));
}

TEST(refusals_are_told_apart)
{
	static const struct {
		const char *url;
		enum err_class class;
	} cases[] = {
		{ "nothing?user=postgres", ERR_CONFIG },
		{ "postgres?user=guest", ERR_AUTH },
		{ "postgres?user=nobody-of-that-name", ERR_AUTH },
	};
	struct lease *none;

	lease_release(must_acquire(ann, 0));
	pg_sql("DROP ROLE IF EXISTS guest");
	pg_sql("CREATE ROLE guest LOGIN");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *full =
			xasprintf("postgresql:///%s&host=%s", cases[i].url, pg_place);
		urls[0] = full;
		struct lease_manager *manager = open_as("eve", TTL);
		assert_fails(acquire(manager, 0, &none), cases[i].class);
		assert_int_equal(err.reason, REASON_LOCK_UNAVAILABLE);
		assert_true(err.remedy[0] != '\0');
		lease_manager_close(manager);
	}
	urls[0] = pg_url;
}

TEST(urls_that_make_no_sense_or_tell_a_password_are_refused)
{
	static const char *const wrong[] = { "postgresql://a:secret@h/d",
					     "postgresql://h/d?password=secret",
					     "redis://h",
					     "postgresql://,h/d",
					     "postgresql:///d?host=a,b&port=1,2,3",
					     "postgresql:///d?host=a,b&hostaddr=::1" };
	struct lease_manager *manager;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		const struct lease_options options = { .urls = &wrong[i],
						       .url_count = 1 };
		assert_fails(lease_manager_open_postgresql(&options, &manager, &err),
			     ERR_CONFIG);
		assert_null(strstr(err.text, "secret"));
	}
}

TEST(connections_stay_as_many_however_many_leases_there_were)
{
	const char *wanted = getenv("REFRELAY_LEASE_GRANTS"); /* 10000: half a minute */
	int count = wanted ? atoi(wanted) : 1000;

	lease_release(must_acquire(ann, 0));
	size_t before = count_descriptors(false);
	for (int i = 0; i < count;) {
		struct lease *lease = NULL;
		if (acquire(ann, 0, &lease) == 0)
			i++;
		else if (err.reason !=
			 REASON_LOCK_UNAVAILABLE) /* late, on a busy machine */
			fail_msg("%s", err.text);
		lease_release(lease);
	}
	/* What was late is taken back by one that has a connection of its own. */
	assert_in_range(count_descriptors(false), before,
			before + LEASE_SERVER_CHANNELS + 1);
}

/* ------------------------------------------------------------------ operators */

TEST(leases_are_listed_and_taken_away)
{
	struct lease *lease = must_acquire(ann, 0), *none;
	struct lease_holder holder;
	lease_holders all = { 0 };

	assert_ok(lease_list(bob, false, &all, &err));
	assert_int_equal(all.count, 1);
	assert_string_equal(all.items[0].key, KEY);
	assert_true(all.items[0].held);
	vec_clear(&all);
	assert_fails(lease_inspect(bob, "nothing", &holder, &err), ERR_MISSING);
	assert_fails(
		lease_force_release(bob, KEY, lease_fence(lease) + 1, "eve", "why", &err),
		ERR_CONFLICT);
	assert_ok(lease_force_release(bob, KEY, lease_fence(lease), "eve", "why", &err));
	assert_ok(lease_inspect(bob, KEY, &holder, &err));
	assert_false(holder.held);
	assert_int_equal(holder.fence, lease_fence(lease) + 1);
	assert_string_equal(holder.proof, "released");
	wait_until(lease_check(lease, &err) != 0);
	lease_release(lease);
	lease = must_acquire(bob, 0);
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_FORCE);
	assert_fails(acquire(ann, 0, &none), ERR_BUSY);
	lease_release(lease);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define LONG_CASE(name) cmocka_unit_test_setup_teardown(name, setup_long, teardown)
#define STALLED_CASE(name) cmocka_unit_test_setup_teardown(name, setup_stalled, end_stall)

int main(int argc, char *argv[])
{
	const struct CMUnitTest tests[] = {
		CASE(a_lease_excludes_until_it_is_released),
		CASE(fences_grow_above_floor_clock_and_lost_rows),
		CASE(a_takeover_does_not_put_fences_ahead_of_the_clock),
		LONG_CASE(the_keeper_renews),
		CASE(what_lapsed_is_granted_anew_and_not_revived),
		CASE(a_release_wakes_the_other_at_once),
		CASE(who_waits_is_served_before_who_does_not),
		CASE(who_leaves_tells_the_next),
		CASE(who_is_of_this_host_is_told_without_a_notice),
		CASE(who_has_no_fifo_that_we_see_is_told_by_a_notice),
		CASE(who_is_next_releases_and_takes_it_in_one),
		CASE(a_release_in_favour_of_the_next_frees_nothing_from_before_a_crash),
		CASE(a_nonce_that_is_not_of_the_grant_takes_nothing),
		CASE(one_that_is_told_out_of_turn_frees_it_for_the_first),
		CASE(places_of_those_that_ask_no_more_are_passed_over),
		CASE(sessions_that_lack_what_was_prepared_serve_as_well),
		CASE(waiting_ends_in_time_and_leaves_no_place),
		CASE(a_dead_process_of_this_host_is_succeeded_at_once),
		CASE(one_of_another_boot_proves_nothing),
		LONG_CASE(
			a_server_that_began_anew_proves_nothing_about_what_it_has_from_before),
		LONG_CASE(a_server_that_is_away_is_no_answer_about_the_lease),
		CASE(a_server_that_is_frozen_is_left_in_time_and_no_grant_stays_behind),
		LONG_CASE(an_answer_that_came_while_we_stood_still_is_taken),
		STALLED_CASE(a_grant_whose_commit_was_late_is_taken_back),
		STALLED_CASE(who_is_next_has_the_rest_of_the_time_and_waits_for_no_disk),
		CASE(a_schema_that_goes_away_is_made_again),
		CASE(refusals_are_told_apart),
		CASE(urls_that_make_no_sense_or_tell_a_password_are_refused),
		CASE(connections_stay_as_many_however_many_leases_there_were),
		CASE(leases_are_listed_and_taken_away),
	};

	if (argc == 3)
		return hold(argv);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
