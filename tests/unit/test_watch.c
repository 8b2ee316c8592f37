#include "notice_stub.h"

#include "base/hook_wire.h"
#include "change/watch.h"

static atomic_int scans, recorded, pruned, burn_ms;
static atomic_bool scan_fails, scan_hangs;

static void burn(int64_t ms)
{
	struct timespec used;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	} while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < ms);
}

int notice_scan(struct notice *notice, const struct stop *stop,
		struct notice_scan_result *result, struct err *error)
{
	assert_ptr_equal(notice, &stub);
	atomic_fetch_add(&scans, 1);
	burn(burn_ms);
	if (scan_hangs && stop_wait(stop, 5000))
		return err_set(error, ERR_CANCELED, "stopped");
	result->repositories = 7;
	return scan_fails ? err_set(error, ERR_DISK, "told to fail") : 0;
}

int event_log_prune(struct store *store, int64_t keep_ms, uint64_t keep_count,
		    uint64_t *dropped, struct err *error)
{
	(void)store;
	(void)error;
	assert_int_equal(keep_ms, 5);
	assert_int_equal(keep_count, 6);
	*dropped = 0;
	atomic_fetch_add(&pruned, 1);
	return 0;
}

int event_log_set_scanned(struct store *store, struct err *error)
{
	(void)store;
	(void)error;
	atomic_fetch_add(&recorded, 1);
	return 0;
}

int event_log_is_scanned(struct store *store, bool *is_scanned, struct err *error)
{
	(void)store;
	(void)error;
	*is_scanned = recorded > 0;
	return 0;
}

static struct watch *start(int64_t interval_ms)
{
	return watch_start(&(struct watch_options){ .notice = &stub,
						    .data = root,
						    .scan_interval_ms = interval_ms,
						    .keep_ms = 5,
						    .keep_count = 6 });
}

static int reset(void **state)
{
	scans = recorded = pruned = burn_ms = 0;
	scan_fails = scan_hangs = false;
	return reset_stub(state);
}

static void wait_for_scans(int count)
{
	for (int64_t started = clock_boot_ms(); scans < count; poll(NULL, 0, 1))
		if (since(started) > 5000)
			fail_msg("%d scans in place of %d", scans, count);
}

static struct watch_state look_after_scan(struct watch *watch)
{
	struct watch_state state = { 0 };

	for (int i = 0; i < 1000 && !state.has_scanned; i++) {
		poll(NULL, 0, 2);
		watch_look(watch, &state);
	}
	return state;
}

TEST(the_spool_and_the_first_scan_come_at_once)
{
	write_file(HOOK_SPOOL "/1.1", "/root/a");
	struct watch *watch = start(60000);
	struct watch_state seen = look_after_scan(watch);

	assert_true(seen.has_scanned);
	assert_int_equal(seen.repositories, 7);
	assert_int_equal(compared, 1);
	assert_false(is_there(HOOK_SPOOL "/1.1"));
	watch_stop(watch);
	assert_int_equal(scans, 1);
	assert_int_equal(pruned, 1);
}

TEST(scans_come_again_and_prune_less_often)
{
	struct watch *watch = start(10);

	wait_for_scans(4);
	watch_stop(watch);
	assert_int_equal(pruned, 1);
}

TEST(a_wake_scans_at_once_and_sees_the_spool)
{
	struct watch *watch = start(60000);

	look_after_scan(watch);
	write_file(HOOK_SPOOL "/1.1", "/root/a");
	watch_wake(watch);
	wait_for_scans(2);
	watch_stop(watch);
	assert_int_equal(compared, 1);
}

TEST(a_scan_that_costs_much_comes_less_often)
{
	struct watch_state seen = { 0 };

	burn_ms = 40;
	struct watch *watch = start(10);
	look_after_scan(watch);
	for (int i = 0; i < 1000 && seen.interval_ms <= 10; i++) {
		poll(NULL, 0, 2);
		watch_look(watch, &seen);
	}
	watch_stop(watch);
	assert_in_range(seen.interval_ms, 40 * 500 - 2000, 40 * 500 + 10000);
	assert_int_equal(scans, 1);
}

TEST(a_scan_that_failed_does_not_count_as_the_first)
{
	struct watch_state seen;

	scan_fails = true;
	struct watch *watch = start(5);
	wait_for_scans(3);
	watch_look(watch, &seen);
	assert_false(seen.has_scanned);
	assert_int_equal(recorded, 0);
	scan_fails = false;
	assert_true(look_after_scan(watch).has_scanned);
	wait_for_scans(scans + 2);
	watch_stop(watch);
	assert_int_equal(recorded, 1);
}

TEST(a_stop_interrupts_a_scan)
{
	int64_t started = clock_boot_ms();

	scan_hangs = true;
	struct watch *watch = start(60000);
	wait_for_scans(1);
	watch_stop(watch);
	assert_in_range(since(started), 0, 2000);
}

#define WATCH_CASE(name) cmocka_unit_test_setup_teardown(name, reset, test_remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WATCH_CASE(the_spool_and_the_first_scan_come_at_once),
		WATCH_CASE(scans_come_again_and_prune_less_often),
		WATCH_CASE(a_wake_scans_at_once_and_sees_the_spool),
		WATCH_CASE(a_scan_that_costs_much_comes_less_often),
		WATCH_CASE(a_scan_that_failed_does_not_count_as_the_first),
		WATCH_CASE(a_stop_interrupts_a_scan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
