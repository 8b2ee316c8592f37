/*
 * The line for a lease: order, wake-ups, time-outs, and what happens when many want it.
 * The askers are threads; those of two managers are to each other as two processes.
 */
#include "test_lease.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "lease/manager.h"

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup_two, teardown_two)

/* A thread that wants the lease. */
struct asker {
	struct lease_manager *manager;
	struct stop stop;
	int64_t wait_ms;
	pthread_t thread;
	struct lease *lease;
	struct err err;
	int64_t done_at;
	int hold_ms;      /* 0: keeps it */
	atomic_int *turn; /* counts those who were served */
	int served;       /* as which one */
};

static void *ask(void *arg)
{
	struct asker *asker = arg;
	const struct lease_request request = { .key = KEY,
					       .operation = "sync",
					       .job = "asker",
					       .wait_ms = asker->wait_ms,
					       .stop = &asker->stop };
	int result = lease_acquire(asker->manager, &request, &asker->lease, &asker->err);

	asker->done_at = clock_boot_ms();
	if (result == 0 && asker->turn)
		asker->served = atomic_fetch_add(asker->turn, 1);
	if (result == 0 && asker->hold_ms > 0) {
		usleep((useconds_t)asker->hold_ms * 1000);
		lease_release(asker->lease);
	}
	return NULL;
}

static void start(struct asker *asker, struct lease_manager *manager, int64_t wait_ms)
{
	asker->manager = manager;
	asker->wait_ms = wait_ms;
	stop_init(&asker->stop);
	thread_start(&asker->thread, "asker", ask, asker);
}

static void join(struct asker *asker)
{
	thread_join(asker->thread);
	stop_clear(&asker->stop);
}

/* How many of this manager's threads stand in the line. */
static int in_line(struct lease_manager *manager)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);
	const struct waiter_queue *queue = map_get(&manager->queues, KEY);
	const struct waiter *waiter;
	int count = 0;

	if (!queue)
		return 0;
	TAILQ_FOREACH(waiter, &queue->waiters, link)
	{
		count++;
	}
	return count;
}

static int64_t release_and_wake(void)
{
	struct lease *lease = must_acquire(ann, 0);
	struct asker next = { 0 };

	start(&next, bob, 5000);
	wait_until(tickets() == 1);
	usleep(50000);
	int64_t released_at = clock_boot_ms();
	lease_release(lease);
	join(&next);
	assert_non_null(next.lease);
	assert_int_equal(lease_predecessor(next.lease), LEASE_AFTER_RELEASE);
	assert_int_equal(tickets(), 0);
	lease_release(next.lease);
	return next.done_at - released_at;
}

TEST(a_release_wakes_another_process_at_once)
{
	assert_once_within(AT_ONCE, release_and_wake);
}

TEST(threads_are_served_in_the_order_they_came)
{
	struct lease *lease = must_acquire(ann, 0);
	struct asker askers[10] = { 0 };
	atomic_int turn = 0;

	for (int i = 0; i < 10; i++) {
		askers[i].hold_ms = 1;
		askers[i].turn = &turn;
		start(&askers[i], ann, 5000);
		wait_until(in_line(ann) == i + 1);
	}
	lease_release(lease);
	for (int i = 0; i < 10; i++)
		join(&askers[i]);
	for (int i = 0; i < 10; i++) {
		assert_non_null(askers[i].lease);
		assert_int_equal(askers[i].served, i);
	}
	assert_int_equal(tickets(), 0);
	lease_release(must_acquire(bob, 0));
}

/* Of ann's waiters one may have it handed on before bob, who waits at the backend. */
TEST(managers_take_turns)
{
	struct lease *lease = must_acquire(ann, 0);
	struct asker asker = { .hold_ms = 1 }, behind[3];
	atomic_int turn = 0;

	asker.turn = &turn;
	start(&asker, bob, 5000);
	wait_until(tickets() == 1);
	for (int i = 0; i < 3; i++) {
		behind[i] = (struct asker){ .hold_ms = 1, .turn = &turn };
		start(&behind[i], ann, 5000);
		wait_until(in_line(ann) == i + 1);
	}
	lease_release(lease);
	join(&asker);
	for (int i = 0; i < 3; i++)
		join(&behind[i]);
	assert_in_range(asker.served, 0, 1);
	assert_int_equal(behind[2].served, 3);
	assert_int_equal(tickets(), 0);
}

TEST(who_does_not_wait_does_not_overtake)
{
	struct lease *lease = must_acquire(ann, 0);

	lease_release(lease);
	sql("INSERT INTO lease_waiter (key, boot_id, pid, alive_file, seen)"
	    " SELECT key, boot_id, 7, alive_file, %" PRId64 " FROM lease",
	    clock_boot_ms());
	assert_denied(bob);
	assert_non_null(strstr(err.text, "process 7"));
	sql("UPDATE lease_waiter SET seen = seen - 5000"); /* it is stopped: passed over
							    */
	lease_release(must_acquire(bob, 0));
	assert_int_equal(tickets(), 1);
	sql("UPDATE lease_waiter SET seen = seen + 5000, boot_id = 'another'");
	lease_release(must_acquire(bob, 0));
	assert_int_equal(tickets(), 0);
}

TEST(a_remnant_of_ones_own_is_no_obstacle)
{
	lease_release(must_acquire(ann, 0));
	sql("INSERT INTO lease_waiter (key, boot_id, pid, alive_file, seen)"
	    " SELECT key, boot_id, pid, alive_file, %" PRId64 " FROM lease",
	    clock_boot_ms());
	lease_release(must_acquire(ann, 0));
	assert_int_equal(tickets(), 0);
}

static int64_t wait_in_vain(struct lease_manager *manager)
{
	int64_t before = clock_boot_ms();
	struct lease *none;

	assert_fails(acquire_for(manager, 150, &none), ERR_LOCK_TIMEOUT);
	int64_t took = clock_boot_ms() - before;
	assert_true(took >= 150);
	assert_non_null(strstr(err.text, "held by here"));
	assert_non_null(strstr(err.text, "deadbeef00000001"));
	assert_int_equal(tickets(), 0);
	return took;
}

static int64_t ann_waits_in_vain(void)
{
	return wait_in_vain(ann);
}

static int64_t bob_waits_in_vain(void)
{
	return wait_in_vain(bob);
}

TEST(waiting_ends_in_time_and_leaves_no_ticket)
{
	struct lease *lease = must_acquire(ann, 0);

	assert_once_within(AT_ONCE, ann_waits_in_vain);
	assert_once_within(AT_ONCE, bob_waits_in_vain);
	lease_release(lease);
}

/* The longest of three. */
static int64_t stop_three_waits(void)
{
	struct lease *lease = must_acquire(ann, 0);
	struct asker askers[3] = { 0 };
	int64_t longest = 0;

	start(&askers[0], ann, 60000); /* behind a holder of its own process */
	start(&askers[1], bob, 60000); /* asks the backend */
	wait_until(tickets() == 1);
	start(&askers[2], bob, 60000); /* behind that one */
	wait_until(in_line(ann) == 1 && in_line(bob) == 2);
	for (int i = 2; i >= 0; i--) {
		int64_t before = clock_boot_ms();
		stop_request(&askers[i].stop);
		join(&askers[i]);
		assert_null(askers[i].lease);
		assert_int_equal(askers[i].err.class, ERR_CANCELED);
		int64_t took = askers[i].done_at - before;
		longest = took > longest ? took : longest;
	}
	assert_int_equal(tickets(), 0);
	lease_release(lease);
	lease_release(must_acquire(bob, 0));
	return longest;
}

TEST(a_stop_ends_the_wait_at_once)
{
	assert_once_within(AT_ONCE, stop_three_waits);
}

/* What a holder hands on may meet somebody who is just leaving. */
static void *come_and_go(void *arg)
{
	struct lease_manager *manager = arg;
	unsigned seed = (unsigned)(uintptr_t)&seed;
	struct lease *lease;
	struct err mine;

	for (int i = 0; i < 60; i++) {
		const struct lease_request request = { .key = KEY,
						       .operation = "sync",
						       .wait_ms = rand_r(&seed) % 4 };
		if (lease_acquire(manager, &request, &lease, &mine) == 0) {
			usleep((useconds_t)rand_r(&seed) % 1500);
			lease_release(lease);
		} else if (mine.class != ERR_BUSY && mine.class != ERR_LOCK_TIMEOUT) {
			return xstrdup(mine.text);
		}
	}
	return NULL;
}

TEST(who_leaves_while_the_lease_is_handed_to_it_passes_it_on)
{
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, come_and_go, i % 4 ? ann : bob);
	for (int i = 0; i < 8; i++) {
		void *complaint;
		pthread_join(threads[i], &complaint);
		if (complaint)
			fail_msg("%s", (char *)complaint);
	}
	assert_int_equal(tickets(), 0);
	lease_release(must_acquire(ann, 0));
	lease_release(must_acquire(bob, 0));
}

static int64_t force_and_wake(void)
{
	struct lease *lease = must_acquire(ann, 0);
	struct asker next = { 0 };

	start(&next, bob, 5000);
	wait_until(tickets() == 1);
	int64_t before = clock_boot_ms();
	assert_ok(lease_force_release(ann, KEY, lease_fence(lease), "eve", "", &err));
	join(&next);
	assert_non_null(next.lease);
	lease_release(lease);
	lease_release(next.lease);
	return next.done_at - before;
}

TEST(force_release_wakes_those_who_wait)
{
	assert_once_within(AT_ONCE, force_and_wake);
}

/* ------------------------------------------------------------------ a storm */

enum { STORM_THREADS = 16, STORM_MS = 1500, STORM_HOLD_US = 10000 };

static atomic_int storm_holders, storm_ready;
static atomic_bool storm_is_on, storm_broken;
static _Atomic int64_t storm_until;
static _Atomic uint64_t storm_fence;

struct storm {
	pthread_t thread;
	struct lease_manager *manager;
	int grants;
	int64_t held_us;
};

static void *storm(void *arg)
{
	struct storm *mine = arg;
	struct lease *lease;
	struct err error;

	atomic_fetch_add(&storm_ready, 1);
	while (!storm_is_on)
		usleep(500);
	while (clock_boot_ms() < storm_until) {
		const struct lease_request request = { .key = KEY,
						       .operation = "sync",
						       .wait_ms = 60000 };
		if (lease_acquire(mine->manager, &request, &lease, &error) != 0)
			break;
		int64_t from = clock_wall_ns() / 1000;
		if (atomic_fetch_add(&storm_holders, 1) != 0 ||
		    atomic_exchange(&storm_fence, lease_fence(lease)) >=
			    lease_fence(lease))
			storm_broken = true;
		usleep(STORM_HOLD_US);
		atomic_fetch_sub(&storm_holders, 1);
		mine->held_us += clock_wall_ns() / 1000 - from;
		mine->grants++;
		lease_release(lease);
	}
	return NULL;
}

/* Returns how many percent of the time somebody held it, or 0 if that was not fair: above
 * 80 on an idle machine; each grant costs a commit, which may take longer than the hold
 * on a busy disk. */
static int run_storm(int managers)
{
	struct storm storms[STORM_THREADS] = { 0 };
	int64_t held = 0;
	int least = INT_MAX, most = 0, grants = 0;

	storm_ready = 0;
	storm_is_on = false;
	for (int i = 0; i < STORM_THREADS; i++) {
		storms[i].manager = i % managers ? bob : ann;
		thread_start(&storms[i].thread, "storm", storm, &storms[i]);
	}
	wait_until(storm_ready == STORM_THREADS);
	int64_t began = clock_wall_ns() / 1000;
	storm_until = clock_boot_ms() + STORM_MS;
	storm_is_on = true;
	for (int i = 0; i < STORM_THREADS; i++) {
		thread_join(storms[i].thread);
		held += storms[i].held_us;
		grants += storms[i].grants;
		least = storms[i].grants < least ? storms[i].grants : least;
		most = storms[i].grants > most ? storms[i].grants : most;
	}
	int use = (int)(held * 100 / (clock_wall_ns() / 1000 - began));
	print_message("# %d managers: %d grants, %d..%d a thread, in use %d %%\n",
		      managers, grants, least, most, use);
	assert_false(storm_broken);
	return most - least <= 1 + most / 5 ? use : 0;
}

/* Once of several times: a busy machine lets threads stand still, and lose their turn. */
static void assert_storm_is_fair(int managers)
{
	int use = 0;

	for (int i = 0; i < 8 && use <= 25; i++)
		use = run_storm(managers);
	assert_true(use > 25);
}

TEST(a_storm_keeps_the_lease_in_use_and_is_fair)
{
	assert_storm_is_fair(1);
}

TEST(a_storm_of_two_managers_keeps_the_lease_in_use_and_is_fair)
{
	assert_storm_is_fair(2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_release_wakes_another_process_at_once),
		CASE(threads_are_served_in_the_order_they_came),
		CASE(managers_take_turns),
		CASE(who_does_not_wait_does_not_overtake),
		CASE(a_remnant_of_ones_own_is_no_obstacle),
		CASE(waiting_ends_in_time_and_leaves_no_ticket),
		CASE(a_stop_ends_the_wait_at_once),
		CASE(who_leaves_while_the_lease_is_handed_to_it_passes_it_on),
		CASE(a_storm_keeps_the_lease_in_use_and_is_fair),
		CASE(a_storm_of_two_managers_keeps_the_lease_in_use_and_is_fair),
		CASE(force_release_wakes_those_who_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
