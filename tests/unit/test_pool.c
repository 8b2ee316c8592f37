#include "test.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/thread.h"
#include "job/pool.h"

static atomic_int running, most, done, forgotten;

static void reset(void)
{
	running = most = done = forgotten = 0;
}

static void work(void *arg)
{
	int now = atomic_fetch_add(&running, 1) + 1, before = most;

	(void)arg;
	while (now > before && !atomic_compare_exchange_weak(&most, &before, now))
		;
	usleep(2000);
	atomic_fetch_sub(&running, 1);
	atomic_fetch_add(&done, 1);
}

static void forget(void *arg)
{
	(void)arg;
	atomic_fetch_add(&forgotten, 1);
}

TEST(everything_queued_is_done_and_capacity_is_kept)
{
	struct pool *pool = pool_start("test", 3);

	reset();
	for (int i = 0; i < 60; i++)
		pool_submit(pool, work, NULL);
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
	while (done < 20)
		usleep(500);
	assert_true(most > 3);
	pool_set_capacity(pool, 1);
	usleep(10000); /* those that were running have ended */
	most = 0;
	while (done < 40)
		usleep(500);
	assert_int_equal(most, 1);
	pool_set_capacity(pool, 2);
	pool_drain(pool);
	assert_int_equal(done, 60);
	pool_stop(pool, NULL);
}

TEST(stopping_forgets_what_is_queued_and_waits_for_what_runs)
{
	struct pool *pool = pool_start("test", 2);

	reset();
	for (int i = 0; i < 50; i++)
		pool_submit(pool, work, NULL);
	while (done < 4)
		usleep(200);
	pool_stop(pool, forget);
	assert_int_equal(done + forgotten, 50);
	assert_int_equal(running, 0);
	assert_true(forgotten > 20);
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
