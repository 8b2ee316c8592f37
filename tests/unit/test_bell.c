/*
 * Who watches hears of each change, and of nothing else.
 */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/bell.h"
#include "store/store.h"

#define LONG_MS 60000

static char version[BELL_VERSION_SIZE];

struct watching {
	pthread_t thread;
	const struct stop *stop;
	atomic_bool has_begun, has_ended;
	int result;
	struct err err;
};

static void *watch_once(void *arg)
{
	struct watching *watching = arg;

	watching->has_begun = true;
	watching->result = bell_wait(version, LONG_MS, watching->stop, &watching->err);
	watching->has_ended = true;
	return NULL;
}

static void begin(struct watching *watching, const struct stop *stop)
{
	watching->stop = stop;
	thread_start(&watching->thread, "watching", watch_once, watching);
	wait_until(watching->has_begun);
}

static void end(struct watching *watching)
{
	thread_join(watching->thread);
	assert_int_equal(watching->result, 0);
}

static bool is_another(void)
{
	char now[BELL_VERSION_SIZE];

	bell_version(now);
	return strcmp(now, version) != 0;
}

TEST(the_version_is_another_after_a_ring)
{
	bell_version(version);
	assert_false(is_another());
	bell_ring();
	assert_true(is_another());
}

TEST(a_version_that_is_old_is_not_waited_for)
{
	int64_t begun = clock_boot_ms();

	bell_version(version);
	bell_ring();
	assert_ok(bell_wait(version, LONG_MS, NULL, &err));
	assert_ok(bell_wait("of another run", LONG_MS, NULL, &err));
	assert_true(clock_boot_ms() - begun < LONG_MS / 2);
}

TEST(all_who_wait_are_woken_by_a_ring)
{
	struct watching watching[3] = { 0 };

	bell_version(version);
	for (size_t i = 0; i < ARRAY_SIZE(watching); i++)
		begin(&watching[i], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(watching); i++)
		assert_false(watching[i].has_ended);
	bell_ring();
	for (size_t i = 0; i < ARRAY_SIZE(watching); i++)
		end(&watching[i]);
	assert_true(is_another());
}

TEST(a_stop_ends_the_wait)
{
	struct watching watching = { 0 };
	struct stop stop;

	stop_init(&stop);
	bell_version(version);
	begin(&watching, &stop);
	stop_request(&stop);
	end(&watching);
	assert_false(is_another());
	stop_clear(&stop);
}

TEST(the_time_ends_it)
{
	int64_t begun = clock_boot_ms();

	bell_version(version);
	assert_ok(bell_wait(version, 50, NULL, &err));
	assert_true(clock_boot_ms() - begun >= 50);
	assert_false(is_another());
}

static int do_nothing(struct store_tx *tx, void *arg, struct err *error)
{
	(void)tx;
	return arg ? err_set(error, ERR_CONFLICT, "not so") : 0;
}

TEST(what_is_written_rings_unless_it_fails_or_is_quiet)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	struct store *store;

	assert_ok(store_open(url, &store, &err));
	bell_version(version);
	assert_ok(store_read(store, do_nothing, NULL, &err));
	assert_ok(store_write_quietly(store, do_nothing, NULL, &err));
	assert_fails(store_write(store, do_nothing, store, &err), ERR_CONFLICT);
	assert_false(is_another());
	assert_ok(store_write(store, do_nothing, NULL, &err));
	assert_true(is_another());
	bell_version(version);
	assert_ok(store_write_unsynced(store, do_nothing, NULL, &err));
	assert_true(is_another());
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_version_is_another_after_a_ring),
		CASE(a_version_that_is_old_is_not_waited_for),
		CASE(all_who_wait_are_woken_by_a_ring),
		CASE(a_stop_ends_the_wait),
		CASE(the_time_ends_it),
		CASE(what_is_written_rings_unless_it_fails_or_is_quiet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
