#include "test.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/thread.h"
#include "job/pool.h"

/* Jobs end as they are permitted to, whatever the scheduler does. */
static atomic_int running, most, done, forgotten, permits;

static void reset(void)
{
	running = most = done = forgotten = permits = 0;
}

static bool take_permit(void)
{
	int left = permits;

	return left > 0 && atomic_compare_exchange_strong(&permits, &left, left - 1);
}

static void work(void *arg)
{
	int now = atomic_fetch_add(&running, 1) + 1, before = most;

	(void)arg;
	while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
		;
	while (!take_permit())
		usleep(200);
	atomic_fetch_sub(&running, 1);
	atomic_fetch_add(&done, 1);
}

/* The pool is not locked meanwhile. */
static void forget(void *pool)
{
	if (atomic_fetch_add(&forgotten, 1) > 0)
		return;
	pool_set_capacity(pool, 2);
	permits = 2; /* what runs is waited for: it may end now */
}

TEST(everything_queued_is_done_and_capacity_is_kept)
{
	struct pool *pool = pool_start("test", 3);

	reset();
	for (int i = 0; i < 60; i++)
		pool_submit(pool, work, NULL);
	wait_until(running == 3);
	permits = 60;
	pool_drain(pool);
	assert_int_equal(done, 60);
	assert_int_equal(most, 3);
	pool_stop(pool, NULL);
}

TEST(capacity_can_grow_and_shrink_while_jobs_run)
{
	struct pool *pool = pool_start("test", 1);

	reset();
	for (int i = 0; i < 60; i++)
		pool_submit(pool, work, NULL);
	pool_set_capacity(pool, 6);
	wait_until(running == 6);
	pool_set_capacity(pool, 1);
	permits = 6;
	wait_until(done == 6 && running == 1);
	most = 0;
	permits = 20;
	wait_until(done == 26 && running == 1);
	assert_int_equal(most, 1);
	pool_set_capacity(pool, 2);
	wait_until(running == 2);
	permits = 34;
	pool_drain(pool);
	assert_int_equal(done, 60);
	pool_stop(pool, NULL);
}

TEST(stopping_forgets_what_is_queued_and_waits_for_what_runs)
{
	struct pool *pool = pool_start("test", 2);

	reset();
	for (int i = 0; i < 50; i++)
		pool_submit(pool, work, pool);
	permits = 4;
	wait_until(done == 4 && running == 2);
	pool_stop(pool, forget);
	assert_int_equal(done, 6);
	assert_int_equal(forgotten, 44);
	assert_int_equal(running, 0);
}

TEST(draining_an_idle_pool_returns_at_once)
{
	struct pool *pool = pool_start("test", 2);

	pool_drain(pool);
	pool_stop(pool, NULL);
	pool_stop(NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(everything_queued_is_done_and_capacity_is_kept),
		CASE(capacity_can_grow_and_shrink_while_jobs_run),
		CASE(stopping_forgets_what_is_queued_and_waits_for_what_runs),
		CASE(draining_an_idle_pool_returns_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
