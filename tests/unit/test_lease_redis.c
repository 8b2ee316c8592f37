/*
 * Leases on one Redis server: what is granted to whom, and what each way of a server to
 * fail is told as. The scripts are run as the manager runs them.
 */
#include "certificate_test.h"
#include "redis_test.h"

#include <stdatomic.h>
#include <sys/syscall.h>

#include "lease/lease_server.h"
#include "lease/lease_settings.h"

#include "lease_renewal.h"

#define SHORT_TTL 1000

/* The next answer that begins so gets lost, and its connection ends. */
static const char *_Atomic lost_answer;

ssize_t recv(int fd, void *data, size_t size, int flags)
{
	ssize_t got = (ssize_t)syscall(SYS_recvfrom, fd, data, size, flags, NULL, NULL);
	const char *lost = lost_answer;

	if (!lost || flags != 0 || got < (ssize_t)strlen(lost) ||
	    memcmp(data, lost, strlen(lost)) != 0)
		return got;
	lost_answer = NULL;
	return 0;
}

static struct redis_server server;
static struct lease_manager *ann, *bob; /* as on two hosts */
static const char *urls[1];

static int setup_for(void **state, int64_t anns_ttl, int64_t bobs_ttl)
{
	log_set_level(LOG_LEVEL_NONE);
	if (test_make_root(state) != 0)
		return -1;
	redis_start(&server, "s", "");
	urls[0] = server.url;
	ann = open_on(urls, 1, NULL, anns_ttl);
	bob = open_on(urls, 1, NULL, bobs_ttl);
	return 0;
}

static int setup(void **state)
{
	return setup_for(state, TTL, TTL);
}

/* Of ann, whose lease is to be lost. */
static int setup_short(void **state)
{
	return setup_for(state, SHORT_TTL, TTL);
}

static int teardown(void **state)
{
	lease_manager_close(ann);
	lease_manager_close(bob);
	redis_end(&server);
	return test_remove_root(state);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define SHORT_CASE(name) cmocka_unit_test_setup_teardown(name, setup_short, teardown)

/* ------------------------------------------------------------------ grants */

TEST(a_lease_excludes_until_it_is_released)
{
	struct lease *lease = must_acquire(ann, 0);

	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_NOBODY);
	assert_denied(bob);
	assert_denied(ann);
	assert_non_null(strstr(err.text, "Cannot obtain an exclusive lease"));
	lease_release(lease);
	lease = must_acquire(bob, 0);
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_RELEASE);
	lease_release(lease);
	assert_string_equal(redis_cli(&server, "EXISTS", SERVER_KEY), "0");
}

TEST(whoever_is_refused_learns_the_holders_job)
{
	struct lease_holder holder;
	struct lease *lease = must_acquire(ann, 0), *none;
	const struct lease_request request = { .key = KEY,
					       .operation = "sync",
					       .holder = &holder };

	assert_fails(lease_acquire(bob, &request, &none, &err), ERR_BUSY);
	assert_string_equal(holder.job, "deadbeef00000001");
	assert_string_equal(holder.node, "here");
	assert_int_equal(holder.pid, getpid());
	assert_int_equal(holder.fence, lease_fence(lease));
	assert_in_range(holder.ttl_left_ms, 1, TTL);
	lease_release(lease);
}

TEST(fences_grow_and_are_above_the_floor)
{
	struct lease *lease;
	uint64_t before = 0;

	for (int i = 0; i < 20; i++) {
		lease = must_acquire(i % 2 ? ann : bob, 0);
		assert_true(lease_fence(lease) > before);
		before = lease_fence(lease);
		lease_release(lease);
	}
	const struct lease_request request = { .key = KEY,
					       .operation = "sync",
					       .fence_floor = before + 1000000000 };
	assert_ok(lease_acquire(ann, &request, &lease, &err));
	assert_int_equal(lease_fence(lease), before + 1000000000 + 3 * LEASE_FENCES);
	lease_release(lease);
	lease = must_acquire(bob, 0);
	assert_int_equal(lease_fence(lease), before + 1000000000 + 4 * LEASE_FENCES);
	lease_release(lease);
}

TEST(fences_grow_although_all_data_was_lost)
{
	struct lease *lease = must_acquire(ann, 0);
	uint64_t before = lease_fence(lease);

	lease_release(lease);
	redis_cli(&server, "FLUSHALL");
	lease = must_acquire(bob, 0);
	assert_true(lease_fence(lease) > before);
	lease_release(lease);
}

TEST(a_fence_that_lua_cannot_count_is_refused)
{
	struct lease *lease;
	const struct lease_request request = { .key = KEY,
					       .operation = "sync",
					       .fence_floor = INT64_MAX / 2 };

	assert_fails(lease_acquire(ann, &request, &lease, &err), ERR_CORRUPT);
	assert_string_equal(redis_cli(&server, "EXISTS", SERVER_KEY), "0");
}

TEST(names_that_belong_to_leases_are_no_keys)
{
	static const char *const keys[] = { "a#fence", "a#line", "a#wait:b", "a#wake:b" };
	struct lease *lease;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct lease_request request = { .key = keys[i],
						       .operation = "sync" };
		assert_fails(lease_acquire(ann, &request, &lease, &err), ERR_CONFIG);
	}
}

/* A grant whose answer was lost is granted again, to the same nonce. */
TEST(the_value_tells_its_holder_until_the_release)
{
	struct lease *lease = must_acquire(ann, 0);
	char before[600];

	snprintf(before, sizeof(before), "%s", redis_cli(&server, "GET", SERVER_KEY));
	assert_non_null(strstr(before, " fence="));
	assert_non_null(strstr(before, " job=deadbeef00000001"));
	lease_release(lease);
	assert_string_equal(redis_cli(&server, "EXISTS", SERVER_KEY), "0");
}

TEST(a_lease_that_is_not_renewed_passes_on)
{
	struct lease *lease = must_acquire(ann, 0);
	int64_t began = clock_boot_ms();

	redis_cli(&server, "PEXPIRE", SERVER_KEY, "200");
	struct lease *next = must_acquire(bob, 5000);
	assert_in_range(clock_boot_ms() - began, 150, 5000);
	assert_int_equal(lease_predecessor(next), LEASE_AFTER_LAPSE);
	assert_true(lease_fence(next) > lease_fence(lease));
	lease_release(lease);
	/* That was no release of bob's. */
	assert_string_equal(redis_cli(&server, "EXISTS", SERVER_KEY), "1");
	lease_release(next);
}

TEST(a_held_lease_is_renewed)
{
	struct lease *lease = must_acquire(ann, 0);

	redis_cli(&server, "PEXPIRE", SERVER_KEY, "9000");
	make_renewal_due(ann);
	wait_until(atoi(redis_cli(&server, "PTTL", SERVER_KEY)) > 20000);
	assert_ok(lease_check(lease, &err));
	assert_denied(bob);
	lease_release(lease);
}

TEST(a_lease_that_the_server_lost_is_lost)
{
	struct lease *lease = must_acquire(ann, 0);

	redis_cli(&server, "FLUSHALL");
	wait_until(lease_check(lease, &err) != 0);
	assert_int_equal(err.class, ERR_LOST);
	/* The renewal did not make it anew. */
	assert_string_equal(redis_cli(&server, "EXISTS", SERVER_KEY), "0");
	lease_release(lease);
}

TEST(the_release_of_what_is_gone_is_no_error)
{
	struct lease *lease = must_acquire(ann, 0);

	redis_cli(&server, "DEL", SERVER_KEY);
	lease_release(lease);
	lease_release(must_acquire(bob, 0));
}

/* ------------------------------------------------------------------ the line */

struct in_line {
	struct lease_manager *manager;
	pthread_t thread;
	atomic_int *served;
	int number; /* which one was served */
	int64_t got_at;
};

static void *wait_for_it(void *arg)
{
	struct in_line *waiter = arg;
	struct lease *lease;
	struct err error;
	const struct lease_request request = { .key = KEY,
					       .operation = "sync",
					       .wait_ms = 20000 };

	if (lease_acquire(waiter->manager, &request, &lease, &error) != 0)
		return NULL;
	waiter->got_at = clock_boot_ms();
	waiter->number = ++*waiter->served;
	lease_release(lease);
	return NULL;
}

static void join_line(struct in_line *waiter, struct lease_manager *manager,
		      atomic_int *served, const char *place)
{
	*waiter = (struct in_line){ .manager = manager, .served = served };
	thread_start(&waiter->thread, "waiter", wait_for_it, waiter);
	wait_until(strcmp(redis_cli(&server, "ZCARD", SERVER_KEY "#line"), place) == 0);
	usleep(20000); /* to its second attempt, which is told by a push */
}

#define AT_ONCE 700 /* ms: not by the poll, from 800 on */

static int64_t serve_two_in_order(void)
{
	struct lease_manager *carol = open_on(urls, 1, NULL, TTL);
	struct in_line first, second;
	atomic_int served = 0;
	struct lease *lease = must_acquire(ann, 0);

	join_line(&first, bob, &served, "1");
	join_line(&second, carol, &served, "2");
	int64_t released_at = clock_boot_ms();
	lease_release(lease);
	thread_join(first.thread);
	thread_join(second.thread);
	assert_int_equal(first.number, 1);
	assert_int_equal(second.number, 2);
	assert_string_equal(redis_cli(&server, "EXISTS", SERVER_KEY "#line"), "0");
	lease_manager_close(carol);
	return second.got_at - released_at;
}

/* At once for once: the machine may be busy. */
TEST(waiters_are_served_in_the_order_they_came_and_at_once)
{
	int64_t took = AT_ONCE + 1;

	for (int i = 0; i < 8 && took > AT_ONCE; i++)
		took = serve_two_in_order();
	assert_in_range(took, 0, AT_ONCE);
}

TEST(whoever_does_not_wait_is_refused_before_those_who_do)
{
	struct in_line waiter;
	atomic_int served = 0;
	struct lease *lease = must_acquire(ann, 0);

	join_line(&waiter, bob, &served, "1");
	/* The lease is gone, but bob, who is first, has not heard of that. */
	redis_cli(&server, "DEL", SERVER_KEY);
	lease_release(lease);
	struct lease_manager *carol = open_on(urls, 1, NULL, TTL);
	struct lease *mine;
	if (acquire_for(carol, 0, &mine) == 0)
		assert_true(atomic_load(&served) == 1);
	lease_release(mine);
	thread_join(waiter.thread);
	assert_int_equal(waiter.number, 1);
	lease_manager_close(carol);
}

TEST(a_waiter_that_stopped_asking_is_passed_over)
{
	struct lease *lease;

	redis_cli(&server, "ZADD", SERVER_KEY "#line", "1", "nobody");
	redis_cli(&server, "SET", SERVER_KEY "#wait:nobody", "ttl=1 pid=1 job=", "PX",
		  "5000");
	assert_denied(ann);
	redis_cli(&server, "PEXPIRE", SERVER_KEY "#wait:nobody", "200");
	lease = must_acquire(ann, 10000);
	assert_string_equal(redis_cli(&server, "ZSCORE", SERVER_KEY "#line", "nobody"),
			    "(nil)");
	lease_release(lease);
}

TEST(whoever_stops_waiting_leaves_no_place_behind)
{
	struct lease *lease = must_acquire(ann, 0), *none;

	assert_fails(acquire_for(bob, 100, &none), ERR_LOCK_TIMEOUT);
	assert_string_equal(redis_cli(&server, "EXISTS", SERVER_KEY "#line"), "0");
	lease_release(lease);
}

/* Threads of one process hand it on, in one exchange with the server. */
TEST(threads_hand_a_lease_on)
{
	struct in_line waiters[4];
	atomic_int served = 0;
	struct lease *lease = must_acquire(ann, 0);

	for (int i = 0; i < 4; i++) {
		waiters[i] = (struct in_line){ .manager = ann, .served = &served };
		thread_start(&waiters[i].thread, "waiter", wait_for_it, &waiters[i]);
	}
	usleep(20000);
	lease_release(lease);
	for (int i = 0; i < 4; i++)
		thread_join(waiters[i].thread);
	assert_int_equal(atomic_load(&served), 4);
	assert_string_equal(redis_cli(&server, "EXISTS", SERVER_KEY), "0");
}

/* ------------------------------------------------------------------ operators */

TEST(an_operator_takes_away_the_grant_that_was_shown)
{
	struct lease *lease = must_acquire(ann, 0);
	struct lease_holder holder;

	assert_ok(lease_inspect(bob, KEY, &holder, &err));
	assert_true(holder.held);
	assert_int_equal(holder.fence, lease_fence(lease));
	assert_fails(lease_force_release(bob, KEY, holder.fence + 1, "eve", "why", &err),
		     ERR_CONFLICT);
	assert_ok(lease_force_release(bob, KEY, holder.fence, "eve", "why", &err));
	struct lease *next = must_acquire(bob, 0);
	assert_int_equal(lease_predecessor(next), LEASE_AFTER_FORCE);
	assert_true(lease_fence(next) > holder.fence + 1);
	lease_release(lease);
	lease_release(next);
	assert_fails(lease_force_release(bob, KEY, holder.fence, "eve", "why", &err),
		     ERR_CONFLICT);
	assert_fails(lease_force_release(bob, "other", 1, "eve", "why", &err),
		     ERR_MISSING);
}

TEST(the_list_has_what_is_held_and_what_was)
{
	lease_holders holders = { 0 };
	struct lease *one = must_acquire(ann, 0), *two;
	const struct lease_request request = { .key = "refrelay:paris:b",
					       .operation = "repack" };

	assert_ok(lease_acquire(ann, &request, &two, &err));
	lease_release(two);
	redis_cli(&server, "SET", "refrelay:london:x#fence", "1 held x");
	assert_ok(lease_list(bob, false, &holders, &err));
	assert_int_equal(holders.count, 2);
	assert_string_equal(holders.items[0].key, "refrelay:paris:b");
	assert_false(holders.items[0].held);
	assert_string_equal(holders.items[0].proof, "released");
	assert_string_equal(holders.items[1].key, KEY);
	assert_true(holders.items[1].held);
	assert_string_equal(holders.items[1].job, "deadbeef00000001");
	vec_clear(&holders);
	lease_release(one);
}

/* ------------------------------------------------------------------ refusals */

static void config(const char *name, const char *value)
{
	assert_string_equal(redis_cli(&server, "CONFIG", "SET", name, value), "OK");
}

TEST(a_server_that_wants_a_password_is_told_as_such)
{
	AUTO_FREE char *path = xasprintf("%s/password", root);
	struct lease_options options = { .urls = urls,
					 .url_count = 1,
					 .password_file = path };

	config("requirepass", "secret");
	assert_unavailable(ann, ERR_AUTH);
	assert_ok(file_replace(root_fd, "password", "wrong\n", 6, FILE_NO_SYNC, &err));
	struct lease_manager *carol = open_redis(&options);
	assert_unavailable(carol, ERR_AUTH);
	assert_null(strstr(err.text, "wrong\n"));
	/* It is read again. */
	assert_ok(file_replace(root_fd, "password", "secret\n", 7, FILE_NO_SYNC, &err));
	lease_release(must_acquire(carol, 0));
	unlink(path);
	lease_manager_close(carol);
	carol = open_redis(&options);
	assert_unavailable(carol, ERR_AUTH);
	lease_manager_close(carol);
}

TEST(a_user_has_just_the_rights_that_leases_take)
{
	AUTO_FREE char *path = xasprintf("%s/password", root);
	struct lease_options options = { .urls = urls,
					 .url_count = 1,
					 .prefix = "refrelay:paris:",
					 .user = "lease",
					 .password_file = path };

	assert_ok(file_replace(root_fd, "password", "pw", 2, FILE_NO_SYNC, &err));
	/* As docs/leases.md has them. */
	redis_cli(&server, "ACL", "SETUSER", "lease", "on", ">pw", "~refrelay:paris:*",
		  "resetchannels", "-@all", "+auth", "+ping", "+select",
		  "+client|setname", "+info", "+eval", "+evalsha", "+get", "+set", "+del",
		  "+exists", "+pexpire", "+pttl", "+time", "+zadd", "+zrem", "+zrange",
		  "+rpush", "+blpop", "+lpop", "+scan");
	assert_int_equal(lease_redis_check(&options, NULL, NULL, NULL), 0);
	struct lease_manager *carol = open_redis(&options);
	struct lease *lease = must_acquire(carol, 0), *none;
	lease_holders holders = { 0 };
	assert_ok(lease_list(carol, false, &holders, &err));
	assert_int_equal(holders.count, 1);
	vec_clear(&holders);
	struct lease_manager *dave = open_redis(&options);
	assert_fails(acquire_for(dave, 1200, &none), ERR_LOCK_TIMEOUT);
	assert_ok(lease_force_release(dave, KEY, lease_fence(lease), "eve", "why", &err));
	lease_release(lease);
	/* To one that waits, and with another in the line behind it. */
	struct in_line first, second;
	atomic_int served = 0;
	lease = must_acquire(carol, 0);
	join_line(&first, dave, &served, "1");
	join_line(&second, bob, &served, "2");
	lease_release(lease);
	thread_join(first.thread);
	thread_join(second.thread);
	assert_int_equal(first.number, 1);
	assert_int_equal(second.number, 2);
	lease_manager_close(dave);
	lease_manager_close(carol);
	options.prefix = "refrelay:london:";
	carol = open_redis(&options);
	assert_fails(lease_acquire(carol,
				   &(struct lease_request){ .key = "refrelay:london:a",
							    .operation = "sync" },
				   &none, &err),
		     ERR_AUTH);
	assert_int_equal(err.reason, REASON_LOCK_UNAVAILABLE);
	assert_non_null(strstr(err.text, "NOPERM"));
	lease_manager_close(carol);
}

TEST(a_full_server_is_told_as_such)
{
	config("maxmemory", "1");
	assert_unavailable(ann, ERR_DISK);
	config("maxmemory", "0");
	lease_release(must_acquire(ann, 0));
}

/* One that becomes a replica meanwhile. */
TEST(a_replica_is_told_as_such)
{
	lease_release(must_acquire(ann, 0));
	redis_cli(&server, "REPLICAOF", "127.0.0.1", "1");
	assert_unavailable(ann, ERR_NETWORK);
	assert_non_null(strstr(err.text, "READONLY"));
	redis_cli(&server, "REPLICAOF", "NO", "ONE");
	lease_release(must_acquire(ann, 0));
}

TEST(a_server_that_lacks_replicas_is_told_as_such)
{
	config("min-replicas-to-write", "1");
	assert_unavailable(ann, ERR_NETWORK);
	assert_non_null(strstr(err.text, "NOREPLICAS"));
}

TEST(a_server_that_cannot_save_is_told_as_such)
{
	AUTO_FREE char *away = xasprintf("%s/away", root);
	AUTO_FREE char *more = xasprintf("--dir %s --save '1 1'", away);

	if (mkdir(away, 0700) != 0)
		abort();
	redis_kill(&server);
	redis_run(&server, more);
	wait_until(redis_is_up(&server));
	rmdir(away); /* also root cannot write there */
	redis_cli(&server, "SET", "x", "1");
	redis_cli(&server, "BGSAVE");
	wait_until(text_starts_with(redis_cli(&server, "SET", "x", "1"), "MISCONF"));
	assert_unavailable(ann, ERR_NETWORK);
	assert_non_null(strstr(err.text, "MISCONF"));
}

TEST(keys_of_another_program_are_told_as_such)
{
	redis_cli(&server, "LPUSH", SERVER_KEY, "x");
	assert_unavailable(ann, ERR_CONFIG);
	redis_cli(&server, "DEL", SERVER_KEY);
	redis_cli(&server, "LPUSH", SERVER_KEY "#fence", "x");
	assert_unavailable(ann, ERR_CONFIG);
	assert_string_equal(redis_cli(&server, "EXISTS", SERVER_KEY), "0");
}

TEST(scripts_that_the_server_forgot_are_sent_again)
{
	struct lease *lease = must_acquire(ann, 0);

	redis_cli(&server, "SCRIPT", "FLUSH");
	lease_release(lease);
	redis_cli(&server, "SCRIPT", "FLUSH");
	lease_release(must_acquire(ann, 0));
}

static void *run_slow_script(void *arg)
{
	struct redis_connection *connection =
		redis_connection_new(&server.address, &operator_access);
	struct redis_request request;

	redis_request_init(&request, connection);
	redis_request_add(&request, 3, WORDS("EVAL", "while true do end", "0"));
	redis_exchange(&request, 1, 1, clock_boot_ms() + 20000, 0);
	redis_request_clear(&request);
	redis_connection_free(connection);
	return arg;
}

TEST(a_server_that_is_busy_with_a_script_is_told_as_such)
{
	pthread_t thread;

	config("busy-reply-threshold", "20");
	thread_start(&thread, "slow", run_slow_script, NULL);
	wait_until(text_starts_with(redis_cli(&server, "GET", "x"), "BUSY"));
	assert_unavailable(ann, ERR_NETWORK);
	assert_non_null(strstr(err.text, "BUSY"));
	redis_cli(&server, "SCRIPT", "KILL");
	thread_join(thread);
	lease_release(must_acquire(ann, 0));
}

TEST(a_server_that_is_loading_is_told_as_such)
{
	redis_cli(&server, "EVAL",
		  "for i=1,50000 do redis.call('SET','x'..i,string.rep('x',100)) end",
		  "0");
	redis_cli(&server, "SAVE");
	redis_kill(&server);
	redis_run(&server, "--dbfilename dump.rdb --key-load-delay 1000"
			   " --loading-process-events-interval-bytes 1024");
	wait_until(text_starts_with(redis_cli(&server, "GET", "x"), "LOADING"));
	assert_unavailable(ann, ERR_NETWORK);
	assert_non_null(strstr(err.text, "LOADING"));
}

TEST(a_server_that_is_away_is_told_as_such)
{
	redis_kill(&server);
	assert_unavailable(ann, ERR_NETWORK);
}

/* ------------------------------------------------------------------ transport */

TEST(a_restarted_server_is_found_again_without_an_error)
{
	lease_release(must_acquire(ann, 0));
	redis_kill(&server);
	redis_run(&server, "");
	wait_until(redis_is_up(&server));
	lease_release(must_acquire(ann, 0));
}

#define GRANTED "*8\r\n:1\r\n"

/* The request is made again, and finds its own grant. */
TEST(a_grant_whose_answer_was_lost_is_had_at_once)
{
	lease_release(must_acquire(ann, 0));
	lost_answer = GRANTED;
	struct lease *lease = must_acquire(ann, 0);
	assert_null(lost_answer);
	AUTO_FREE char *fence = xasprintf(" fence=%" PRIu64 " ", lease_fence(lease));
	assert_non_null(strstr(redis_cli(&server, "GET", SERVER_KEY), fence));
	/* Nobody knows any more: its work is done as after a crash. */
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_LAPSE);
	assert_denied(bob);
	lease_release(lease);
	lease_release(must_acquire(bob, 0));
}

TEST(a_waiter_whose_grants_answer_was_lost_has_it_and_leaves_the_line)
{
	struct in_line waiter;
	atomic_int served = 0;

	lease_release(must_acquire(bob, 0));
	struct lease *lease = must_acquire(ann, 0);
	join_line(&waiter, bob, &served, "1");
	lost_answer = GRANTED;
	int64_t released_at = clock_boot_ms();
	lease_release(lease);
	thread_join(waiter.thread);
	assert_null(lost_answer);
	assert_int_equal(waiter.number, 1);
	assert_in_range(waiter.got_at - released_at, 0, 5000);
	assert_string_equal(redis_cli(&server, "EXISTS", SERVER_KEY "#line"), "0");
}

/* In the format of other programs the value has no fence. */
TEST(a_plain_grant_whose_answer_was_lost_has_its_fence)
{
	struct lease_manager *carol = open_redis(&(struct lease_options){
		.urls = urls, .url_count = 1, .redlock_format = true, .ttl_ms = TTL });
	struct lease *lease = must_acquire(carol, 0);
	uint64_t before = lease_fence(lease);

	lease_release(lease);
	lost_answer = GRANTED;
	lease = must_acquire(carol, 0);
	assert_null(lost_answer);
	assert_true(lease_fence(lease) > before);
	lease_release(lease);
	lease_manager_close(carol);
}

TEST(a_forced_release_whose_answer_was_lost_is_one)
{
	struct lease *lease = must_acquire(ann, 0);
	struct lease_holder holder;

	assert_ok(lease_inspect(bob, KEY, &holder, &err));
	/* The server has the script by then. */
	assert_ok(lease_force_release(bob, KEY, holder.fence, "eve", "why", &err));
	lease_release(lease);
	lease = must_acquire(ann, 0);
	lost_answer = ":1\r\n";
	assert_ok(lease_force_release(bob, KEY, lease_fence(lease), "eve", "why", &err));
	assert_null(lost_answer);
	assert_fails(
		lease_force_release(bob, KEY, lease_fence(lease), "eve", "why", &err),
		ERR_CONFLICT);
	lease_release(lease);
}

/* A grant that came too late to be told is taken back. */
TEST(a_server_that_stands_still_costs_half_a_second_and_leaves_nothing)
{
	int64_t took = 0;

	for (int i = 0; i < 40; i++) {
		if (i % 2)
			lease_release(must_acquire(ann, 2000));
		redis_set_limit(ann, REDIS_COMMAND_MS);
		kill(server.pid, SIGSTOP);
		int64_t began = clock_boot_ms();
		assert_unavailable(ann, ERR_TIMEOUT);
		assert_in_range(clock_boot_ms() - began, 400, 5000);
		took += clock_boot_ms() - began;
		redis_set_limit(ann, redis_limit_ms);
		kill(server.pid, SIGCONT);
		wait_until(redis_is_up(&server));
		wait_until(strcmp(redis_cli(&server, "EXISTS", SERVER_KEY), "0") == 0);
	}
	assert_in_range(took / 40, 400, 900); /* one may be late on a busy machine */
}

TEST(a_release_that_is_not_answered_is_made_good)
{
	struct lease *lease = must_acquire(ann, 0);

	redis_set_limit(ann, REDIS_COMMAND_MS);
	kill(server.pid, SIGSTOP);
	lease_release(lease);
	kill(server.pid, SIGCONT);
	lease_release(must_acquire(bob, 20000));
}

static int open_descriptors(bool *are_closed_on_exec)
{
	AUTO_CLOSEDIR DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;
	int count = 0;

	while ((entry = readdir(dir)) != NULL) {
		int fd = atoi(entry->d_name);
		struct stat st;
		count++;
		if (fd > 2 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) &&
		    !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
			*are_closed_on_exec = false;
	}
	return count;
}

TEST(ten_thousand_grants_take_no_more_descriptors)
{
	struct lease_manager *carol = open_on(urls, 1, root, TTL);
	bool are_closed_on_exec = true;
	struct lease *lease;

	for (int i = 0; i < 10; i++)
		lease_release(must_acquire(carol, 1000));
	int before = open_descriptors(&are_closed_on_exec);
	for (int i = 0; i < 10000; i++) {
		wait_until(acquire_for(carol, 1000, &lease) == 0 || !is_late());
		assert_non_null(lease);
		lease_release(lease);
	}
	/* The rest of the set is opened when two ask at once, or something was late. */
	assert_in_range(open_descriptors(&are_closed_on_exec), before,
			before + LEASE_SERVER_CHANNELS + 1);
	assert_true(are_closed_on_exec);
	lease_manager_close(carol);
}

/* ------------------------------------------------------------------ clocks */

static void run_shell(const char *command)
{
	AUTO_FREE char *all = xasprintf("%s", command);
	char shell[] = "sh", flag[] = "-c";
	char *argv[] = { shell, flag, all, NULL };
	pid_t pid;
	int status;
	if (posix_spawnp(&pid, shell, NULL, NULL, argv, environ) != 0)
		abort();
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

static void set_clock(const char *path, const char *offset)
{
	assert_ok(
		file_replace(AT_FDCWD, path, offset, strlen(offset), FILE_NO_SYNC, &err));
}

/* A jump forward ends the lease at the server; the holder hears of that at its next
 * renewal. One back is no reason for anybody to wait for a lease that was released. */
TEST(a_clock_that_jumps_never_takes_fences_back)
{
	AUTO_FREE char *path = xasprintf("%s/clock", root);
	const char *tests = getenv("TESTS");
	AUTO_FREE char *make =
		xasprintf("cc -shared -fPIC -o %s/clock.so %s/lib/wrong_clock.c", root,
			  tests ? tests : "tests");
	AUTO_FREE char *wrapper =
		xasprintf("env LD_PRELOAD=%s/clock.so WRONG_CLOCK=%s", root, path);

	run_shell(make);
	set_clock(path, "+0");
	redis_kill(&server);
	redis_wrapper = wrapper;
	redis_run(&server, "");
	redis_wrapper = "";
	wait_until(redis_is_up(&server));
	struct lease *lease = must_acquire(ann, 0), *next;
	uint64_t before = lease_fence(lease);
	assert_denied(bob);
	set_clock(path, "+300");
	next = must_acquire(bob, 0);
	assert_true(lease_fence(next) > before);
	wait_until(lease_check(lease, &err) != 0);
	lease_release(lease);
	before = lease_fence(next);
	set_clock(path, "-600");
	assert_denied(ann);
	assert_ok(lease_check(next, &err));
	lease_release(next);
	lease = must_acquire(ann, 0);
	assert_true(lease_fence(lease) > before);
	lease_release(lease);
}

/* ------------------------------------------------------------------ proofs of death */

/* Another process would have its own; here the alive file is unlocked by hand. */
TEST(a_holder_of_this_host_whose_process_is_gone_is_succeeded_at_once)
{
	AUTO_FREE char *folder = xasprintf("%s/carol", root);
	struct lease_manager *carol = open_on(urls, 1, folder, TTL);
	struct lease *lease = must_acquire(carol, 0), *next;
	struct lease_holder holder;

	assert_true(lease_guard_fd(lease) >= 0);
	assert_ok(lease_inspect(bob, KEY, &holder, &err));
	assert_string_equal(holder.proof, "alive");
	assert_denied(bob);

	AUTO_FREE char *alive = xasprintf("%s/server/alive", folder);
	AUTO_CLOSEDIR DIR *dir = opendir(alive);
	struct dirent *entry;
	while ((entry = readdir(dir)) != NULL && entry->d_name[0] == '.')
		;
	AUTO_FREE char *path = xasprintf("%s/%s", alive, entry->d_name);
	/* A new file of that name is one that nobody has locked. */
	unlink(path);
	assert_denied(bob);
	assert_ok(file_replace(AT_FDCWD, path, "", 0, FILE_NO_SYNC, &err));
	assert_denied(bob); /* its children may live: the guard is locked */
	AUTO_CLOSE int guard = dup(lease_guard_fd(lease));
	lease_release(lease);
	(void)guard;
	assert_ok(acquire_for(bob, 0, &next));
	lease_release(next);
	lease_manager_close(carol);
}

/* ------------------------------------------------------------------ addresses */

TEST(addresses_say_what_is_wrong_with_them)
{
	static const char *const wrong[] = {
		"",
		"http://a",
		"redis://",
		"redis://a:0",
		"redis://a:65536",
		"redis://a:b",
		"redis://a/x",
		"redis://me:secret@a",
		"redis://a?db=1",
		"redis://[::1",
		"unix://relative",
		"unix:///a?x=1",
		"unix:///a?db=x",
	};
	struct redis_address address;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		assert_fails(redis_address_parse(wrong[i], &address, &err), ERR_CONFIG);
		assert_null(strstr(err.text, "secret"));
		assert_true(err.remedy[0]);
	}
	assert_ok(redis_address_parse("rediss://[::1]:7/3", &address, &err));
	assert_string_equal(address.host, "::1");
	assert_string_equal(address.port, "7");
	assert_int_equal(address.database, 3);
	assert_true(address.has_tls);
	redis_address_clear(&address);
	assert_ok(redis_address_parse("redis://a", &address, &err));
	assert_string_equal(address.port, "6379");
	redis_address_clear(&address);
	assert_ok(redis_address_parse("unix:///a/b?db=2", &address, &err));
	assert_string_equal(address.path, "/a/b");
	assert_int_equal(address.database, 2);
	redis_address_clear(&address);
}

static void grant_over(const char *url, const char *ca_file)
{
	const char *one[] = { url };
	struct lease_manager *carol = open_redis(&(struct lease_options){
		.urls = one, .url_count = 1, .ca_file = ca_file });

	lease_release(must_acquire(carol, 0));
	lease_manager_close(carol);
}

TEST(tls_takes_a_certificate_that_the_ca_signed_for_that_host)
{
	AUTO_FREE char *make = xasprintf("cd %s && " MAKE_CERTIFICATES, root);
	AUTO_FREE char *ca_file = xasprintf("%s/ca.pem", root);
	int port = redis_free_port();
	AUTO_FREE char *more =
		xasprintf("--tls-port %d --bind 127.0.0.1 --tls-auth-clients no"
			  " --tls-cert-file %s/cert.pem --tls-key-file %s/key.pem",
			  port, root, root);
	AUTO_FREE char *by_name = xasprintf("rediss://localhost:%d", port);
	AUTO_FREE char *by_number = xasprintf("rediss://127.0.0.1:%d", port);
	AUTO_FREE char *without = xasprintf("redis://127.0.0.1:%d", port);

	run_shell(make);
	redis_kill(&server);
	redis_run(&server, more);
	wait_until(redis_is_up(&server));
	grant_over(by_name, ca_file);
	const char *refused[] = { by_number };
	struct lease_manager *carol = open_redis(&(struct lease_options){
		.urls = refused, .url_count = 1, .ca_file = ca_file });
	assert_unavailable(carol, ERR_CONFIG); /* another host's name */
	lease_manager_close(carol);
	refused[0] = by_name;
	carol = open_redis(&(struct lease_options){ .urls = refused, .url_count = 1 });
	assert_unavailable(carol, ERR_CONFIG); /* not signed by those of the system */
	lease_manager_close(carol);
	refused[0] = without;
	carol = open_redis(&(struct lease_options){ .urls = refused, .url_count = 1 });
	assert_unavailable(carol, ERR_NETWORK);
	lease_manager_close(carol);
}

TEST(a_name_is_looked_up_and_a_database_selected)
{
	int port = redis_free_port();
	AUTO_FREE char *more = xasprintf("--port %d --bind 127.0.0.1", port);
	AUTO_FREE char *url = xasprintf("redis://localhost:%d/3", port);

	redis_kill(&server);
	redis_run(&server, more);
	wait_until(redis_is_up(&server));
	grant_over(url, NULL);
	redis_cli(&server, "SELECT", "3");
	assert_string_equal(redis_cli(&server, "EXISTS", KEY "#fence"), "1");
	const char *nowhere[] = { "redis://no-such-host.invalid" };
	struct lease_manager *carol =
		open_redis(&(struct lease_options){ .urls = nowhere, .url_count = 1 });
	struct lease *none;
	redis_set_limit(carol, REDIS_COMMAND_MS);
	int64_t began = clock_boot_ms();
	assert_int_equal(acquire_for(carol, 0, &none), -1);
	assert_int_equal(err.reason, REASON_LOCK_UNAVAILABLE);
	assert_in_range(clock_boot_ms() - began, 0, 5000);
	lease_manager_close(carol);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_lease_excludes_until_it_is_released),
		CASE(whoever_is_refused_learns_the_holders_job),
		CASE(fences_grow_and_are_above_the_floor),
		CASE(fences_grow_although_all_data_was_lost),
		CASE(a_fence_that_lua_cannot_count_is_refused),
		CASE(names_that_belong_to_leases_are_no_keys),
		CASE(the_value_tells_its_holder_until_the_release),
		CASE(a_lease_that_is_not_renewed_passes_on),
		CASE(a_held_lease_is_renewed),
		SHORT_CASE(a_lease_that_the_server_lost_is_lost),
		CASE(the_release_of_what_is_gone_is_no_error),
		CASE(waiters_are_served_in_the_order_they_came_and_at_once),
		CASE(whoever_does_not_wait_is_refused_before_those_who_do),
		CASE(a_waiter_that_stopped_asking_is_passed_over),
		CASE(whoever_stops_waiting_leaves_no_place_behind),
		CASE(threads_hand_a_lease_on),
		CASE(an_operator_takes_away_the_grant_that_was_shown),
		CASE(the_list_has_what_is_held_and_what_was),
		CASE(a_server_that_wants_a_password_is_told_as_such),
		CASE(a_user_has_just_the_rights_that_leases_take),
		CASE(a_full_server_is_told_as_such),
		CASE(a_replica_is_told_as_such),
		CASE(a_server_that_lacks_replicas_is_told_as_such),
		CASE(a_server_that_cannot_save_is_told_as_such),
		CASE(keys_of_another_program_are_told_as_such),
		CASE(scripts_that_the_server_forgot_are_sent_again),
		CASE(a_server_that_is_busy_with_a_script_is_told_as_such),
		CASE(a_server_that_is_loading_is_told_as_such),
		CASE(a_server_that_is_away_is_told_as_such),
		CASE(a_restarted_server_is_found_again_without_an_error),
		CASE(a_grant_whose_answer_was_lost_is_had_at_once),
		CASE(a_waiter_whose_grants_answer_was_lost_has_it_and_leaves_the_line),
		CASE(a_plain_grant_whose_answer_was_lost_has_its_fence),
		CASE(a_forced_release_whose_answer_was_lost_is_one),
		CASE(a_server_that_stands_still_costs_half_a_second_and_leaves_nothing),
		CASE(a_release_that_is_not_answered_is_made_good),
		CASE(ten_thousand_grants_take_no_more_descriptors),
		SHORT_CASE(a_clock_that_jumps_never_takes_fences_back),
		CASE(a_holder_of_this_host_whose_process_is_gone_is_succeeded_at_once),
		CASE(addresses_say_what_is_wrong_with_them),
		CASE(tls_takes_a_certificate_that_the_ca_signed_for_that_host),
		CASE(a_name_is_looked_up_and_a_database_selected),
	};

	redis_limit_ms = 20000;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
