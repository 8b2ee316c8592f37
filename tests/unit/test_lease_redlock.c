/*
 * Leases on several independent Redis servers, of which a majority decides; and those of
 * the format that other programs use. The servers run for all tests, since one that began
 * lately has no vote.
 */
#include "redis_test.h"

#include <stdatomic.h>

#include "lease/lease_give.h"
#include "lease/manager.h"
#include "lease/redis_round.h"

#include "lease_renewal.h"

#define SERVERS 5
#define VOTE_TTL 3000
#define YOUNG_MS (VOTE_TTL + 2500)

static struct redis_server servers[SERVERS];
static const char *urls[SERVERS];
static struct lease_manager *ann, *bob;

static void wait_for_votes(void)
{
	for (int i = 0; i < SERVERS; i++)
		wait_until(clock_boot_ms() - servers[i].started_at > YOUNG_MS);
}

static int start_servers(void **state)
{
	char name[8];

	if (test_make_root(state) != 0)
		return -1;
	for (int i = 0; i < SERVERS; i++) {
		snprintf(name, sizeof(name), "s%d", i);
		redis_start(&servers[i], name, "");
		urls[i] = servers[i].url;
	}
	return 0;
}

static int end_servers(void **state)
{
	for (int i = 0; i < SERVERS; i++)
		redis_end(&servers[i]);
	return test_remove_root(state);
}

static int setup(void **state)
{
	(void)state;
	log_set_level(LOG_LEVEL_NONE);
	wait_for_votes();
	for (int i = 0; i < SERVERS; i++)
		redis_cli(&servers[i], "FLUSHALL");
	ann = open_on(urls, 3, NULL, VOTE_TTL);
	bob = open_on(urls, 3, NULL, VOTE_TTL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	lease_manager_close(ann);
	lease_manager_close(bob);
	for (int i = 0; i < SERVERS; i++)
		kill(servers[i].pid, SIGCONT);
	return 0;
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void stop(int server)
{
	kill(servers[server].pid, SIGSTOP);
}

static void go_on(int server)
{
	kill(servers[server].pid, SIGCONT);
	wait_until(redis_is_up(&servers[server]));
}

static bool has_key(int server, const char *key)
{
	return strcmp(redis_cli(&servers[server], "EXISTS", key), "1") == 0;
}

/* ------------------------------------------------------------------ at last */

/*
 * Here each server has 150 ms to answer: on a busy machine also one that runs is late now
 * and then, and a call fails with that. It is made again, until it says something of the
 * lease.
 */

/* What a late server was not told of is in the way for a while. */
static bool is_to_be_asked_again(void)
{
	return is_late() || err.class == ERR_BUSY || err.class == ERR_LOCK_TIMEOUT;
}

static struct lease *acquire_key_at_last(struct lease_manager *manager, const char *key,
					 int64_t wait_ms)
{
	const struct lease_request request = { .key = key,
					       .operation = "sync",
					       .job = "deadbeef00000001",
					       .wait_ms = wait_ms };
	int64_t until = clock_boot_ms() + 20000;
	struct lease *lease;

	while (lease_acquire(manager, &request, &lease, &err) != 0) {
		if (!is_to_be_asked_again() || clock_boot_ms() > until)
			fail_msg("%s", err.text);
		usleep(10000);
	}
	return lease;
}

static struct lease *acquire_at_last(struct lease_manager *manager, int64_t wait_ms)
{
	return acquire_key_at_last(manager, KEY, wait_ms);
}

/* With the fence that was decided on: one that was granted too late has another. */
static bool all_have_it(const char *key)
{
	AUTO_FREE char *value = xstrdup(redis_cli(&servers[0], "GET", key));

	return strcmp(value, "(nil)") != 0 &&
	       strcmp(redis_cli(&servers[1], "GET", key), value) == 0 &&
	       strcmp(redis_cli(&servers[2], "GET", key), value) == 0;
}

/* Once two of the three have answered, the last has only an instant: a test that takes a
 * vote away counts on those that are left. */
static struct lease *acquire_key_at_all(struct lease_manager *manager, const char *key)
{
	int64_t until = clock_boot_ms() + 20000;

	for (;;) {
		struct lease *lease = acquire_key_at_last(manager, key, 2000);
		if (all_have_it(key))
			return lease;
		lease_release(lease);
		if (clock_boot_ms() > until)
			fail_msg("never at all servers: %s", key);
		usleep(50000);
	}
}

static struct lease *acquire_at_all(struct lease_manager *manager)
{
	return acquire_key_at_all(manager, KEY);
}

/* Which may take a while, but not until it lapses. */
static void assert_taken_back(int server, const char *key)
{
	int64_t until = clock_boot_ms() + VOTE_TTL * 2 / 3;

	while (has_key(server, key)) {
		if (clock_boot_ms() > until)
			fail_msg("server %d still has %s", server, key);
		usleep(2000);
	}
}

/* One that was only told late has done it all the same. */
static void take_away_at_last(struct lease_manager *manager, const char *key,
			      uint64_t fence)
{
	int result;

	wait_until((result = lease_force_release(manager, key, fence, "eve", "why",
						 &err)) == 0 ||
		   !is_late());
	assert_true(result == 0 || err.class == ERR_CONFLICT);
}

/* ------------------------------------------------------------------ the number */

TEST(only_an_odd_number_has_majorities)
{
	static const size_t wrong[] = { 0, 2, 4, 9 };
	const char *many[9] = { "unix:///0", "unix:///1", "unix:///2",
				"unix:///3", "unix:///4", "unix:///5",
				"unix:///6", "unix:///7", "unix:///8" };
	struct lease_options options = { .urls = many };
	struct lease_manager *manager;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		options.url_count = wrong[i];
		assert_fails(lease_manager_open_redis(&options, &manager, &err),
			     ERR_CONFIG);
		assert_null(manager);
	}
	options.url_count = 3;
	many[2] = many[0];
	assert_fails(lease_manager_open_redis(&options, &manager, &err), ERR_CONFIG);
}

/* ------------------------------------------------------------------ votes */

/* One that is late may never have heard of it. */
TEST(most_servers_have_a_lease_and_all_lose_it)
{
	struct lease *lease = acquire_at_last(ann, 0);

	int count = 0;
	for (int i = 0; i < 3; i++)
		count += has_key(i, SERVER_KEY);
	assert_in_range(count, 2, 3);
	assert_denied_at_last(bob);
	lease_release(lease);
	for (int i = 0; i < 3; i++)
		wait_until(!has_key(i, SERVER_KEY));
	lease_release(acquire_at_last(bob, 0));
}

TEST(a_server_that_stands_still_costs_little)
{
	int64_t least = INT64_MAX;

	stop(2);
	int64_t began = clock_boot_ms();
	struct lease *lease = acquire_at_last(ann, 0);
	assert_in_range(clock_boot_ms() - began, 0, 5000);
	assert_denied_at_last(bob);
	lease_release(lease);
	/* By now it is left alone; whoever waited for its answer would take 150 ms each
	 * time. */
	for (int i = 0; i < 20; i++) {
		began = clock_boot_ms();
		lease_release(acquire_at_last(ann, 0));
		if (clock_boot_ms() - began < least)
			least = clock_boot_ms() - began;
	}
	assert_in_range(least, 0, 100);
	go_on(2);
	/* What came too late to it is taken back. */
	wait_until(!has_key(2, SERVER_KEY));
	lease_release(acquire_at_last(bob, 2000));
}

/* It waits for half a second until a server has removed a key: at least once that is
 * enough. */
static void assert_once_without_key(bool (*close_without_key)(void))
{
	for (int i = 0; i < 8; i++)
		if (close_without_key())
			return;
	fail_msg("who closes leaves its key behind each time");
}

static bool close_after_release(void)
{
	struct lease_manager *carol = open_on(urls, 3, NULL, VOTE_TTL);
	struct lease *lease = acquire_at_all(carol);

	redis_cli(&servers[2], "CLIENT", "PAUSE", "150", "ALL");
	int64_t began = clock_boot_ms();
	lease_release(lease);
	lease_manager_close(carol);
	assert_in_range(clock_boot_ms() - began, 0, 5000);
	return !has_key(2, SERVER_KEY);
}

/* A server that is slow just then still hears of the release. */
TEST(who_closes_right_after_a_release_leaves_no_key_behind)
{
	assert_once_without_key(close_after_release);
}

static bool close_after_waiting(void)
{
	struct lease *lease = acquire_at_last(bob, 0), *none;
	struct lease_manager *carol = open_on(urls, 3, NULL, VOTE_TTL);

	wait_until(acquire_for(carol, 100, &none) == 0 || !is_late());
	assert_int_equal(err.class, ERR_LOCK_TIMEOUT);
	none = acquire_key_at_all(carol, "other");
	redis_cli(&servers[2], "CLIENT", "PAUSE", "150", "ALL");
	lease_release(none);
	lease_manager_close(carol);
	bool is_left = has_key(2, "other");
	lease_release(lease);
	return !is_left;
}

/* One that waits to be told of another key, too. */
TEST(who_closes_ends_its_listening_for_the_removal)
{
	assert_once_without_key(close_after_waiting);
}

TEST(without_a_majority_nothing_is_granted_and_nothing_is_said)
{
	int64_t until = clock_boot_ms() + 20000; /* server 0 may be late */
	struct lease *none;

	stop(1);
	stop(2);
	do {
		int64_t began = clock_boot_ms();
		assert_int_equal(acquire_for(ann, 0, &none), -1);
		assert_int_equal(err.reason, REASON_LOCK_UNAVAILABLE);
		assert_int_not_equal(err.class, ERR_BUSY);
		assert_in_range(clock_boot_ms() - began, 0, 5000);
	} while (strstr(err.text, "0 of 3 servers answer") && clock_boot_ms() < until);
	if (!strstr(err.text, "1 of 3 servers answer"))
		fail_msg("%s", err.text);
	assert_taken_back(0, SERVER_KEY);
	go_on(1);
	go_on(2);
	wait_until(!has_key(1, SERVER_KEY) && !has_key(2, SERVER_KEY));
	lease_release(acquire_at_last(bob, 2000));
}

TEST(of_five_two_may_be_away)
{
	struct lease_manager *carol = open_on(urls, 5, NULL, VOTE_TTL);

	stop(0);
	stop(4);
	lease_release(acquire_at_last(carol, 0));
	go_on(0);
	go_on(4);
	lease_release(acquire_at_last(carol, 2000));
	lease_manager_close(carol);
}

TEST(a_minority_that_was_got_is_given_back)
{
	redis_cli(&servers[0], "SET", SERVER_KEY, "x", "PX", "9000");
	redis_cli(&servers[1], "SET", SERVER_KEY, "x", "PX", "9000");
	assert_denied_at_last(ann);
	wait_until(!has_key(2, SERVER_KEY));
	assert_true(has_key(0, SERVER_KEY));
}

TEST(split_votes_end_with_a_winner)
{
	int64_t began = clock_boot_ms();

	for (int i = 0; i < 3; i++) {
		char value[] = { (char)('x' + i), '\0' };
		redis_cli(&servers[i], "SET", SERVER_KEY, value, "PX", "300");
	}
	struct lease *lease = acquire_at_last(ann, 5000);
	assert_in_range(clock_boot_ms() - began, 200, 5000);
	assert_denied_at_last(bob);
	lease_release(lease);
}

/* Ann has servers 0 and 1; server 1 forgets that, and with server 2 would be a majority
 * for bob. Server 0 has it for longer than ann does, who notices her loss. */
TEST(a_server_that_began_anew_has_no_vote_for_a_ttl)
{
	struct lease *lease = acquire_at_all(ann);
	redis_cli(&servers[2], "DEL", SERVER_KEY);
	redis_cli(&servers[0], "SET", SERVER_KEY, "theirs", "PX", "60000");
	redis_kill(&servers[1]);
	redis_run(&servers[1], "");
	wait_until(redis_is_up(&servers[1]));
	int64_t until = servers[1].started_at + VOTE_TTL;
	for (int i = 0; i < 20 && (i == 0 || clock_boot_ms() < until); i++) {
		assert_denied_at_last(bob);
		assert_taken_back(1, SERVER_KEY); /* what it gave */
		usleep(20000);
	}
	redis_cli(&servers[0], "DEL", SERVER_KEY);
	lease_release(lease);
	wait_for_votes();
	lease_release(acquire_at_last(bob, 2000));
}

TEST(fences_grow_whichever_servers_gave_them)
{
	uint64_t before = 0;

	for (int i = 0; i < 9; i++) {
		stop(i % 3);
		struct lease *lease = acquire_at_last(i % 2 ? ann : bob, 2000);
		assert_true(lease_fence(lease) > before);
		before = lease_fence(lease);
		lease_release(lease);
		go_on(i % 3);
		AUTO_FREE char *ahead =
			xasprintf("%" PRIu64 " released x", before + 1000000);
		/* A majority is ahead of the others. */
		redis_cli(&servers[(i + 1) % 3], "SET", SERVER_KEY "#fence", ahead);
		redis_cli(&servers[(i + 2) % 3], "SET", SERVER_KEY "#fence", ahead);
		lease = acquire_at_last(ann, 2000);
		assert_true(lease_fence(lease) > before + 1000000);
		before = lease_fence(lease);
		lease_release(lease);
	}
}

/* Else the others, without it, would grant a lower one. */
TEST(a_fence_that_one_server_gave_is_known_to_a_majority)
{
	AUTO_FREE char *ahead =
		xasprintf("%" PRId64 " released x", clock_wall_ns() / 1000 + 1000000000);

	redis_cli(&servers[0], "SET", SERVER_KEY "#fence", ahead);
	struct lease *lease = acquire_at_all(ann);
	uint64_t before = lease_fence(lease);
	assert_true(before > (uint64_t)clock_wall_ns() / 1000 + 900000000);
	lease_release(lease);
	stop(0);
	lease = acquire_at_last(bob, 2000);
	assert_true(lease_fence(lease) > before);
	lease_release(lease);
	go_on(0);
}

#define LONG_TTL 10000 /* each server has half a second to answer */

static struct lease_manager *open_long(void)
{
	for (int i = 0; i < 3; i++)
		wait_until(clock_boot_ms() - servers[i].started_at > LONG_TTL + 2500);
	return open_on(urls, 3, NULL, LONG_TTL);
}

static int64_t valid_until(const struct lease *lease)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&lease->manager->mutex);

	return lease->valid_until;
}

static void renew(struct lease_manager *manager, struct lease *const *leases,
		  size_t count)
{
	int64_t before[2];

	assert_true(count <= ARRAY_SIZE(before));
	for (size_t i = 0; i < count; i++)
		before[i] = valid_until(leases[i]);
	make_renewal_due(manager);
	for (size_t i = 0; i < count; i++)
		wait_until(valid_until(leases[i]) > before[i]);
}

TEST(a_majority_renews)
{
	struct lease_manager *carol = open_long();
	struct lease *lease = acquire_at_all(carol);

	redis_cli(&servers[0], "DEL", SERVER_KEY);
	for (int i = 0; i < 4; i++)
		renew(carol, &lease, 1);
	assert_ok(lease_check(lease, &err));
	/* What a majority lost is lost. */
	wait_until(strcmp(redis_cli(&servers[0], "DEL", SERVER_KEY), "") != 0 &&
		   strcmp(redis_cli(&servers[1], "DEL", SERVER_KEY), "") != 0 &&
		   (make_renewal_due(carol), lease_check(lease, &err) != 0));
	lease_release(lease);
	lease_manager_close(carol);
}

/* The first has one vote and no answer from a server: it will lapse. */
TEST(one_lease_that_lacks_a_vote_costs_no_other)
{
	struct lease_manager *carol = open_long();
	struct lease *lease = acquire_at_all(carol), *others[2];

	for (int i = 0; i < 2; i++)
		others[i] = acquire_key_at_all(carol, i ? "refrelay:b" : "refrelay:a");
	redis_cli(&servers[2], "SET", SERVER_KEY, "theirs", "PX", "60000");
	stop(1);
	int64_t before = valid_until(lease);
	for (int i = 0; i < 3; i++)
		renew(carol, others, 2);
	assert_true(valid_until(lease) == before);
	assert_ok(lease_check(others[0], &err));
	assert_ok(lease_check(others[1], &err));
	go_on(1);
	lease_release(lease);
	lease_release(others[0]);
	lease_release(others[1]);
	lease_manager_close(carol);
}

/* As one has it whose value lapsed while it was cut off. */
TEST(a_release_that_most_know_is_one_although_another_missed_it)
{
	lease_release(acquire_key_at_all(ann, KEY));
	for (int i = 0; i < 3; i++)
		wait_until(
			strstr(redis_cli(&servers[i], "GET", KEY "#fence"), "released"));
	AUTO_FREE char *latest = xstrdup(redis_cli(&servers[0], "GET", KEY "#fence"));
	char *end = strstr(latest, "released");
	memcpy(end, "held", 4);
	memmove(end + 4, end + 8, strlen(end + 8) + 1);
	redis_cli(&servers[0], "SET", KEY "#fence", latest);
	struct lease *lease = acquire_key_at_all(bob, KEY);
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_RELEASE);
	lease_release(lease);
}

TEST(a_majority_shows_and_takes_away)
{
	struct lease *lease = acquire_at_all(ann);
	struct lease_holder holder;
	lease_holders holders = { 0 };

	stop(0);
	wait_until(lease_inspect(bob, KEY, &holder, &err) == 0);
	assert_true(holder.held);
	assert_int_equal(holder.fence, lease_fence(lease));
	wait_until(lease_list(bob, false, &holders, &err) == 0);
	assert_int_equal(holders.count, 1);
	vec_clear(&holders);
	take_away_at_last(bob, KEY, holder.fence);
	struct lease *next = acquire_at_last(bob, 0);
	assert_true(lease_fence(next) > holder.fence);
	go_on(0);
	lease_release(lease);
	lease_release(next);
}

struct in_line {
	struct lease_manager *manager;
	pthread_t thread;
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
	int result;

	while ((result = lease_acquire(waiter->manager, &request, &lease, &error)) != 0 &&
	       error.reason == REASON_LOCK_UNAVAILABLE)
		usleep(10000);
	if (result == 0) {
		waiter->got_at = clock_boot_ms();
		lease_release(lease);
	}
	return NULL;
}

static bool somebody_waits(struct lease_manager *manager)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);
	const struct waiter_queue *queue = map_get(&manager->queues, KEY);

	return queue && !TAILQ_EMPTY(&queue->waiters);
}

static int64_t handed_over_in(struct lease_manager *from, struct lease_manager *to)
{
	struct in_line waiter = { .manager = to };
	struct lease *lease = acquire_at_last(from, 0);

	thread_start(&waiter.thread, "waiter", wait_for_it, &waiter);
	wait_until(somebody_waits(to));
	if (from != to) /* until it has asked the servers, too */
		usleep(100000);
	int64_t released_at = clock_boot_ms();
	lease_release(lease);
	thread_join(waiter.thread);
	assert_true(waiter.got_at >= released_at);
	return waiter.got_at - released_at;
}

TEST(whoever_waits_hears_of_a_release)
{
	int64_t took = INT64_MAX;

	/* Nobody who polls is ever so quick. */
	for (int i = 0; i < 8 && took > 300; i++)
		took = handed_over_in(ann, bob);
	assert_in_range(took, 0, 300);
}

static int count_descriptors(void)
{
	AUTO_CLOSEDIR DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(dir))
		count++;
	return count;
}

struct successor {
	struct lease_manager *manager;
	struct lease *lease;
	pthread_t thread;
};

static void *succeed(void *arg)
{
	struct successor *successor = arg;

	successor->lease = acquire_at_last(successor->manager, 20000);
	return NULL;
}

static void start_waiting(struct successor *successor, struct lease_manager *manager,
			  const char *place)
{
	AUTO_FREE char *text =
		xasprintf("%s#wait:%s", KEY, redis_of(manager->backend)->server.me);

	*successor = (struct successor){ .manager = manager };
	thread_start(&successor->thread, "successor", succeed, successor);
	for (int i = 0; i < 3; i++) {
		wait_until(strcmp(redis_cli(&servers[i], "ZCARD", KEY "#line"), place) ==
			   0);
		/* It has asked once more since, and says how it is told. */
		wait_until(strstr(redis_cli(&servers[i], "GET", text), " told="));
	}
}

/* Bob knows of carol since he was granted it. No release reaches a server before carol
 * has it. */
TEST(what_is_given_up_for_the_next_one_needs_no_release)
{
	AUTO_FREE char *directory = xasprintf("%s/hosts", root);
	mkdir(directory, 0700);
	struct lease_manager *three[3], *carol;
	struct successor second, third;

	for (int i = 0; i < 3; i++)
		three[i] = open_on(urls, 3, directory, VOTE_TTL);
	carol = three[2];
	struct lease *lease = acquire_key_at_all(three[0], KEY);
	start_waiting(&second, three[1], "1");
	start_waiting(&third, carol, "2");
	lease_release(lease);
	thread_join(second.thread);
	struct lease_server *server = &redis_of(three[1]->backend)->server;
	struct lease_giving giving;
	/* Bob was given it, and hears who is next when he tells the servers of that. */
	wait_until((lease_give(server, KEY, &second.lease->grant, &giving),
		    giving.was_told));
	assert_int_equal(giving.fd, -1);
	lease_give_end(&giving);
	thread_join(third.thread);
	assert_int_equal(lease_predecessor(third.lease), LEASE_AFTER_RELEASE);
	assert_true(lease_fence(third.lease) >= lease_fence(second.lease) + LEASE_FENCES);
	lease_release(second.lease);
	assert_ok(lease_check(third.lease, &err));
	assert_true(has_key(0, KEY) + has_key(1, KEY) + has_key(2, KEY) >= 2);
	lease_release(third.lease);
	for (int i = 0; i < 3; i++)
		lease_manager_close(three[i]);
}

TEST(many_grants_take_no_more_descriptors)
{
	const char *wanted = getenv("REFRELAY_LEASE_GRANTS"); /* 10000: half a minute */
	int wanted_count = wanted ? atoi(wanted) : 1000;

	for (int i = 0; i < 10; i++)
		lease_release(acquire_at_last(ann, 2000));
	int before = count_descriptors();
	for (int i = 0; i < wanted_count; i++)
		lease_release(acquire_at_last(ann, 2000));
	/* The rest of the set is opened when two ask at once, or something was late. */
	assert_in_range(count_descriptors(), 0, before + 3 * (LEASE_SERVER_CHANNELS + 1));
}

/* ------------------------------------------------------------------ other programs */

static struct lease_manager *open_redlock(size_t count)
{
	return open_redis(&(struct lease_options){ .urls = urls,
						   .url_count = count,
						   .redlock_format = true,
						   .ttl_ms = VOTE_TTL });
}

TEST(other_programs_locks_and_ours_exclude_each_other)
{
	struct lease_manager *carol = open_redlock(1);
	struct lease_holder holder;
	struct lease *lease, *none;
	const struct lease_request request = { .key = KEY,
					       .operation = "sync",
					       .holder = &holder };

	redis_cli(&servers[0], "SET", KEY, "their {nonce}", "NX", "PX", "5000");
	assert_fails(lease_acquire(carol, &request, &none, &err), ERR_BUSY);
	assert_string_equal(holder.node, "unknown");
	redis_cli(&servers[0], "DEL", KEY);
	lease = acquire_at_last(carol, 0);
	const char *value = redis_cli(&servers[0], "GET", KEY);
	assert_int_equal(strlen(value), 32);
	assert_int_equal(strspn(value, "0123456789abcdef"), 32);
	assert_string_equal(redis_cli(&servers[0], "SET", KEY, "theirs", "NX", "PX", "9"),
			    "(nil)");
	assert_in_range(atoi(redis_cli(&servers[0], "PTTL", KEY)), 1, VOTE_TTL);
	uint64_t before = lease_fence(lease);
	lease_release(lease);
	assert_false(has_key(0, KEY));
	lease = acquire_at_last(carol, 0);
	assert_true(lease_fence(lease) > before);
	/* Theirs came in between: it is not ours to delete, or to renew. */
	redis_cli(&servers[0], "SET", KEY, "theirs");
	wait_until(lease_check(lease, &err) != 0);
	lease_release(lease);
	assert_string_equal(redis_cli(&servers[0], "GET", KEY), "theirs");
	lease_manager_close(carol);
}

/* So many lines are written of this and of further denials. */
static int denials_told(struct lease_manager *manager, int times)
{
	AUTO_FREE char *path = xasprintf("%s/log", root);
	AUTO_STR struct str text = STR_INIT;
	int saved = dup(2), fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int count = 0;

	dup2(fd, 2);
	log_set_level(LOG_LEVEL_INFO);
	for (int i = 0; i < times; i++)
		assert_denied_at_last(manager);
	log_set_level(LOG_LEVEL_NONE);
	dup2(saved, 2);
	close(saved);
	close(fd);
	assert_ok(file_read(AT_FDCWD, path, 1 << 20, &text, &err));
	for (const char *at = text.data; (at = strstr(at, "ev=lease.denied")); at++)
		count++;
	return count;
}

/* Their locks have no fence. */
TEST(each_lock_of_another_program_is_told_of_once)
{
	struct lease_manager *carol = open_redlock(1);

	redis_cli(&servers[0], "SET", KEY, "their nonce", "PX", "60000");
	assert_int_equal(denials_told(carol, 3), 1);
	assert_int_equal(denials_told(carol, 3), 0);
	redis_cli(&servers[0], "SET", KEY, "their next nonce", "PX", "60000");
	assert_int_equal(denials_told(carol, 3), 1);
	redis_cli(&servers[0], "DEL", KEY);
	lease_manager_close(carol);
}

TEST(a_lock_of_another_program_is_waited_for)
{
	struct lease_manager *carol = open_redlock(3);
	int64_t began = clock_boot_ms(), took = INT64_MAX;

	for (int i = 0; i < 3; i++)
		redis_cli(&servers[i], "SET", KEY, "theirs", "NX", "PX", "300");
	struct lease *lease = acquire_at_last(carol, 5000);
	assert_in_range(clock_boot_ms() - began, 200, 5000);
	for (int i = 0; i < 3; i++)
		assert_false(has_key(i, KEY "#line"));
	lease_release(lease);
	/* Others that poll find it free in between. */
	for (int i = 0; i < 8 && took > 1000; i++) {
		took = handed_over_in(carol, carol);
		assert_true(took >= 30);
	}
	assert_in_range(took, 30, 1000);
	lease_manager_close(carol);
}

TEST(an_operator_sees_and_removes_a_lock_of_another_program)
{
	struct lease_manager *carol = open_redlock(1);
	struct lease_holder holder;
	struct lease *lease = acquire_at_last(carol, 0);

	wait_until(lease_inspect(carol, KEY, &holder, &err) == 0);
	assert_true(holder.held);
	assert_int_equal(holder.fence, lease_fence(lease));
	lease_release(lease);
	redis_cli(&servers[0], "SET", KEY, "their nonce", "PX", "9000");
	wait_until(lease_inspect(carol, KEY, &holder, &err) == 0);
	assert_true(holder.held);
	assert_int_equal(holder.fence, 0);
	take_away_at_last(carol, KEY, 0);
	lease_release(acquire_at_last(carol, 0));
	lease_manager_close(carol);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(only_an_odd_number_has_majorities),
		CASE(most_servers_have_a_lease_and_all_lose_it),
		CASE(a_server_that_stands_still_costs_little),
		CASE(who_closes_right_after_a_release_leaves_no_key_behind),
		CASE(who_closes_ends_its_listening_for_the_removal),
		CASE(without_a_majority_nothing_is_granted_and_nothing_is_said),
		CASE(of_five_two_may_be_away),
		CASE(a_minority_that_was_got_is_given_back),
		CASE(split_votes_end_with_a_winner),
		CASE(fences_grow_whichever_servers_gave_them),
		CASE(a_fence_that_one_server_gave_is_known_to_a_majority),
		CASE(a_majority_renews),
		CASE(one_lease_that_lacks_a_vote_costs_no_other),
		CASE(a_release_that_most_know_is_one_although_another_missed_it),
		CASE(a_majority_shows_and_takes_away),
		CASE(whoever_waits_hears_of_a_release),
		CASE(what_is_given_up_for_the_next_one_needs_no_release),
		CASE(many_grants_take_no_more_descriptors),
		CASE(other_programs_locks_and_ours_exclude_each_other),
		CASE(each_lock_of_another_program_is_told_of_once),
		CASE(a_lock_of_another_program_is_waited_for),
		CASE(an_operator_sees_and_removes_a_lock_of_another_program),
		CASE(a_server_that_began_anew_has_no_vote_for_a_ttl),
	};

	return cmocka_run_group_tests(tests, start_servers, end_servers);
}
