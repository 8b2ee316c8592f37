#include "notice_stub.h"

#include "base/hook_wire.h"
#include "change/owed.h"
#include "change/scan_record.h"
#include "change/watch.h"
#include "replicable/name.h"

static atomic_int scans, recorded, recorded_as, pruned, burn_ms;
static atomic_bool scan_fails, scan_hangs, scan_is_part, scan_lacks_rows;
static atomic_int told_failing, told_good;

static atomic_bool may_owe;
static atomic_int asked, settled;

bool owed_may_be(struct notice *notice)
{
	const bool may = may_owe; /* before whoever waits for the question goes on */

	assert_ptr_equal(notice, &stub);
	atomic_fetch_add(&asked, 1);
	return may;
}

int owed_settle(struct notice *notice, const struct stop *stop, size_t *left,
		struct err *error)
{
	(void)notice;
	(void)error;
	assert_non_null(stop);
	atomic_fetch_add(&settled, 1);
	*left = 0;
	return 0;
}

static int64_t used_ms(void)
{
	struct timespec used;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

static void burn(int64_t ms)
{
	int64_t until = used_ms() + ms;

	while (used_ms() < until)
		;
}

int scan_all(const struct scan_request *request, struct scan_result *result,
	     struct err *error)
{
	assert_ptr_equal(request->kind->notice, &stub);
	atomic_fetch_add(&scans, 1);
	burn(burn_ms);
	*result = (struct scan_result){ .found = 7,
					.is_complete = !scan_is_part,
					.lacks_rows = scan_lacks_rows };
	if (scan_hangs && stop_wait(request->stop, 60000))
		return err_set(error, ERR_CANCELED, "stopped");
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

int event_log_set_scanned(struct store *store, const char *kind,
			  enum event_scanned scanned, struct err *error)
{
	(void)store;
	assert_string_equal(kind, KIND_REPOSITORY);
	recorded_as = scanned;
	(void)error;
	atomic_fetch_add(&recorded, 1);
	return 0;
}

int event_log_scanned(struct store *store, const char *kind, enum event_scanned *scanned,
		      struct err *error)
{
	(void)store;
	(void)kind;
	(void)error;
	*scanned = recorded > 0 ? (enum event_scanned)recorded_as : SCANNED_NOTHING;
	return 0;
}

int scan_record_keep(struct store *store, const char *kind, const struct scan_record *now,
		     struct err *error)
{
	(void)store;
	(void)kind;
	(void)error;
	atomic_fetch_add(now->failing_since ? &told_failing : &told_good, 1);
	assert_int_equal(now->failing_since > 0, now->failure.class == ERR_DISK);
	return 0;
}

static void finish(const struct origin_kind *kind, const struct scan_result *result,
		   int64_t took_ms)
{
	assert_ptr_equal(kind->notice, &stub);
	assert_int_equal(result->found, 7);
	assert_in_range(took_ms, 0, 60000);
}

static atomic_int tended;
static bool is_second; /* not the watch that has the spool, and looks at it often */

static void tend(const struct origin_kind *kind)
{
	assert_ptr_equal(kind->notice, &stub);
	assert_true(scans > 0); /* it may take long */
	atomic_fetch_add(&tended, 1);
}

static struct watch *start(int64_t interval_ms)
{
	static const struct origin_kind_ops ops = {
		.events = { "finding", "failed", "not_kept" },
		.finish = finish,
	};
	const struct origin_kind kind = {
		.of = { .type = KIND_REPOSITORY, .origin = &ops }, .notice = &stub
	};

	return watch_start(&(struct watch_options){ .thread = "watch",
						    .kinds = &kind,
						    .kind_count = 1,
						    .notice = &stub,
						    .data = is_second ? NULL : root,
						    .scan_interval_ms = interval_ms,
						    .tend = tend,
						    .keep_ms = 5,
						    .keep_count = 6 });
}

static int reset(void **state)
{
	told_failing = told_good = 0;
	is_second = false;
	asked = tended = scans = recorded = pruned = burn_ms = 0;
	scan_fails = scan_hangs = scan_is_part = scan_lacks_rows = false;
	return reset_stub(state);
}

static void wait_for_scans(int count)
{
	for (int64_t started = clock_boot_ms(); scans < count; poll(NULL, 0, 1))
		if (since(started) > 20000)
			fail_msg("%d scans in place of %d", scans, count);
}

static struct watch_state look_after_scan(struct watch *watch)
{
	struct watch_state state = { 0 };

	wait_until(watch_look(watch, KIND_REPOSITORY, &state) && state.has_scanned);
	return state;
}

TEST(the_spool_and_the_first_scan_come_at_once)
{
	write_file(HOOK_SPOOL "/1.1", "/root/a");
	struct watch *watch = start(60000);
	struct watch_state seen = look_after_scan(watch);

	assert_true(seen.has_scanned);
	assert_int_equal(compared, 1);
	assert_false(is_there(HOOK_SPOOL "/1.1"));
	watch_stop(watch);
	assert_int_equal(scans, 1);
	assert_int_equal(pruned, 1);
}

TEST(what_is_tended_each_day_is_tended_right_after_the_first_scan)
{
	is_second = true;
	struct watch *watch = start(3600000);

	wait_until(tended > 0);
	watch_stop(watch);
	assert_int_equal(tended, 1);
	assert_int_equal(scans, 1);
}

TEST(scans_come_again_and_prune_less_often)
{
	struct watch *watch = start(10);

	wait_for_scans(4);
	watch_stop(watch);
	assert_int_equal(pruned, 1);
	assert_int_equal(tended, 1);
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

TEST(what_is_owed_is_told_again_at_each_round)
{
	settled = 0;
	struct watch *watch = start(60000);
	look_after_scan(watch);
	wait_until(asked >= 2);       /* before and after the scan */
	assert_int_equal(settled, 0); /* nothing is */
	may_owe = true;
	watch_wake(watch);
	wait_for_scans(2);
	watch_stop(watch);
	may_owe = false;
	assert_int_equal(settled, 1);
}

/* Of the first it is not known whether it had to read everything. */
TEST(a_scan_that_costs_much_comes_less_often_from_the_second_on)
{
	struct watch_state seen = { 0 };

	burn_ms = 40;
	struct watch *watch = start(10);
	look_after_scan(watch);
	wait_until(watch_look(watch, KIND_REPOSITORY, &seen) && seen.interval_ms > 10);
	watch_stop(watch);
	assert_in_range(seen.interval_ms, 40 * 250 - 1000, 40 * 250 + 5000);
	assert_int_equal(scans, 2);
}

TEST(a_scan_that_failed_does_not_count_as_the_first)
{
	struct watch_state seen;

	scan_fails = true;
	struct watch *watch = start(5);
	wait_for_scans(3);
	watch_look(watch, KIND_REPOSITORY, &seen);
	assert_false(seen.has_scanned);
	assert_true(seen.is_failing);
	assert_int_equal(recorded, 0);
	assert_int_equal(told_failing, 1); /* once, when it begins */
	assert_int_equal(told_good, 0);
	scan_fails = false;
	assert_true(look_after_scan(watch).has_scanned);
	watch_look(watch, KIND_REPOSITORY, &seen);
	assert_false(seen.is_failing);
	wait_for_scans(scans + 2);
	watch_stop(watch);
	assert_int_equal(recorded, 1);
	assert_int_equal(told_good, 1);
}

TEST(a_scan_that_could_not_read_everything_is_recorded_as_such)
{
	scan_is_part = true;
	struct watch *watch = start(5);
	wait_for_scans(3);
	assert_int_equal(recorded, 1);
	assert_int_equal(recorded_as, SCANNED_PART);
	scan_is_part = false;
	wait_for_scans(scans + 3);
	assert_int_equal(recorded, 2);
	assert_int_equal(recorded_as, SCANNED_ALL);
	scan_is_part = true;
	wait_for_scans(scans + 3);
	watch_stop(watch);
	assert_int_equal(recorded, 2);
}

TEST(a_scan_of_which_something_has_no_row_is_recorded_as_a_part)
{
	scan_lacks_rows = true;
	struct watch *watch = start(5);
	wait_for_scans(3);
	assert_int_equal(recorded, 1);
	assert_int_equal(recorded_as, SCANNED_PART);
	scan_lacks_rows = false;
	wait_for_scans(scans + 3);
	watch_stop(watch);
	assert_int_equal(recorded, 2);
	assert_int_equal(recorded_as, SCANNED_ALL);
}

TEST(a_stop_interrupts_a_scan)
{
	int64_t started = clock_boot_ms();

	scan_hangs = true;
	struct watch *watch = start(60000);
	wait_for_scans(1);
	watch_stop(watch);
	assert_in_range(since(started), 0, 30000);
}

#define WATCH_CASE(name) cmocka_unit_test_setup_teardown(name, reset, test_remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WATCH_CASE(the_spool_and_the_first_scan_come_at_once),
		WATCH_CASE(what_is_tended_each_day_is_tended_right_after_the_first_scan),
		WATCH_CASE(scans_come_again_and_prune_less_often),
		WATCH_CASE(a_wake_scans_at_once_and_sees_the_spool),
		WATCH_CASE(what_is_owed_is_told_again_at_each_round),
		WATCH_CASE(a_scan_that_costs_much_comes_less_often_from_the_second_on),
		WATCH_CASE(a_scan_that_failed_does_not_count_as_the_first),
		WATCH_CASE(a_scan_that_could_not_read_everything_is_recorded_as_such),
		WATCH_CASE(a_scan_of_which_something_has_no_row_is_recorded_as_a_part),
		WATCH_CASE(a_stop_interrupts_a_scan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
