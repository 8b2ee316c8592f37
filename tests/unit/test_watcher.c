/*
 * When scans come: what they must find is told by a test of each user.
 */
#include "test.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "change/scan_record.h"
#include "change/watcher.h"

static atomic_int scans, tends, burn_ms, failing; /* so many scans are to fail */
static atomic_int lost_scans;                     /* since the first that was lost */
static atomic_int lost_again;                     /* of these, were */
static atomic_int_fast64_t paced_ms;              /* after the first scan */
static atomic_bool only_lost_fail;
static struct watcher *watcher;

static void burn(int64_t ms)
{
	int64_t until = scan_cpu_ms() + ms;

	while (scan_cpu_ms() < until)
		;
}

static int scan(void *arg, const struct watcher_scan *request, struct err *error)
{
	bool counts = lost_scans > 0 || request->was_lost;

	(void)arg;
	assert_null(request->below);
	watcher_add(request->watcher, request->kind, "", ERR_IGNORED);
	burn(burn_ms);
	lost_again += counts && request->was_lost;
	lost_scans += counts;
	atomic_fetch_add(&scans, 1);
	if (failing == 0 || (only_lost_fail && !counts))
		return 0;
	failing--;
	return err_set(error, ERR_DISK, "told to fail");
}

static int look(void *arg, size_t kind, const text_list *ids, struct err *error)
{
	(void)arg;
	(void)kind;
	assert_true(ids->count > 0);
	return err_set(error, ERR_DISK, "told to fail");
}

static void failed(void *arg, size_t kind, const struct err *why)
{
	(void)arg;
	assert_int_equal(kind, 0);
	assert_string_equal(why->text, "told to fail");
}

static void paced(void *arg, size_t kind, int64_t interval_ms)
{
	(void)arg;
	(void)kind;
	if (paced_ms == 0)
		paced_ms = interval_ms;
}

static void tend(void *arg, const struct stop *stop)
{
	(void)arg;
	(void)stop;
	tends++;
}

static void start(int64_t interval_ms, const char *directory)
{
	static const struct watcher_ops ops = { .scan = scan,
						.look = look,
						.failed = failed,
						.paced = paced,
						.tend = tend,
						.limit = "watcher.limit" };
	const char *const roots[] = { directory };

	watcher = watcher_start(&(struct watcher_options){ .ops = &ops,
							   .thread = "watcher",
							   .interval_ms = interval_ms,
							   .roots = roots,
							   .root_count = 1,
							   .descriptor = -1 });
}

static int set_up(void **state)
{
	scans = tends = burn_ms = failing = lost_scans = lost_again = 0;
	paced_ms = 0;
	only_lost_fail = false;
	return test_make_root(state);
}

static int tear_down(void **state)
{
	watcher_stop(watcher);
	watcher = NULL;
	return test_remove_root(state);
}

/* A look that fails loses what it was to look at. */
static void lose(void)
{
	wait_until(scans > 0);
	assert_ok(file_replace(root_fd, "file", "new", 3, FILE_NO_SYNC, &err));
	wait_until(lost_scans > 0);
}

TEST(a_long_scan_that_failed_is_repeated_soon)
{
	burn_ms = 200;
	failing = 1;
	start(100, NULL);
	wait_until(scans >= 2);
	assert_in_range(paced_ms, 2000, 10000);
}

TEST(what_was_lost_before_a_scan_that_failed_is_lost_to_the_next)
{
	failing = 1;
	only_lost_fail = true;
	start(100, root);
	lose();
	wait_until(lost_scans >= 3);
	assert_int_equal(lost_again, 2);
}

TEST(a_scan_that_fails_at_once_waits_for_its_interval)
{
	failing = 1000;
	only_lost_fail = true;
	start(60000, root);
	lose();
	int tended = tends;
	for (int i = 0; i < 3; i++) {
		watcher_nudge(watcher);
		wait_until(tends > tended + i);
	}
	assert_int_equal(lost_scans, 1);
}

#define WATCHER_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WATCHER_CASE(a_long_scan_that_failed_is_repeated_soon),
		WATCHER_CASE(what_was_lost_before_a_scan_that_failed_is_lost_to_the_next),
		WATCHER_CASE(a_scan_that_fails_at_once_waits_for_its_interval),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
