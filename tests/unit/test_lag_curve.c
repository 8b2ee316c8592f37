/*
 * Lag, minute by minute: what was sampled is told, what was not is a gap, and nothing is
 * kept for longer than a day.
 */
#include "test.h"

#include "report/lag_curve.h"

#define MINUTE ((int64_t)60000)
#define NOW (30000000 * MINUTE + 12345) /* some time in 2027 */

static struct store *store;
static json_t *curves;

static int setup(void **state)
{
	return test_make_root(state) == 0 ? store_open("sqlite::memory:", &store, &err)
					  : -1;
}

static int teardown(void **state)
{
	json_decref(curves);
	curves = NULL;
	store_close(store);
	return test_remove_root(state);
}

static void sample_at(int64_t at, int64_t lag_ms)
{
	struct report report = { .role = SITE_SECONDARY,
				 .site = (char[]){ "paris" },
				 .now = at,
				 .lag_ms = lag_ms };

	assert_ok(lag_curve_write(store, &report, &err));
}

static const json_t *read_curves(int64_t minutes)
{
	json_decref(curves);
	assert_ok(lag_curve_json(store, NOW, minutes, &curves, &err));
	return json_object_get(curves, "curves");
}

/* The lag of the first curve, so many minutes ago; -1: a gap. */
static double lag_before(int64_t minutes)
{
	const json_t *lags = json_object_get(json_array_get(read_curves(60), 0), "lag");
	const json_t *lag = json_array_get(lags, (size_t)(59 - minutes));

	assert_int_equal(json_array_size(lags), 60);
	return json_is_null(lag) ? -1 : json_number_value(lag);
}

TEST(what_was_not_sampled_is_a_gap)
{
	sample_at(NOW - 3 * MINUTE, 2500);
	sample_at(NOW, 0);
	assert_int_equal((int)(lag_before(3) * 10), 25);
	assert_int_equal((int)lag_before(2), -1);
	assert_int_equal((int)lag_before(1), -1);
	assert_int_equal((int)lag_before(0), 0);
	assert_int_equal((int)lag_before(59), -1);
}

TEST(the_last_sample_of_a_minute_counts)
{
	sample_at(NOW, 1000);
	sample_at(NOW, 7000);
	assert_int_equal((int)lag_before(0), 7);
}

TEST(a_day_is_kept)
{
	sample_at(NOW - LAG_CURVE_MINUTES * MINUTE, 1000);
	sample_at(NOW - (LAG_CURVE_MINUTES - 1) * MINUTE, 2000);
	sample_at(NOW, 3000);
	const json_t *all = read_curves(LAG_CURVE_MINUTES);
	const json_t *lags = json_object_get(json_array_get(all, 0), "lag");
	assert_int_equal(json_array_size(all), 1);
	assert_int_equal(json_array_size(lags), LAG_CURVE_MINUTES);
	assert_int_equal((int)json_number_value(json_array_get(lags, 0)), 2);
	/* Its rows, too. */
	json_decref(curves);
	assert_ok(lag_curve_json(store, NOW - 100 * MINUTE, LAG_CURVE_MINUTES, &curves,
				 &err));
	lags = json_object_get(json_array_get(json_object_get(curves, "curves"), 0),
			       "lag");
	assert_true(json_is_null(json_array_get(lags, 99)));
	assert_int_equal((int)json_number_value(json_array_get(lags, 100)), 2);
}

TEST(a_primary_has_a_curve_for_each_site_and_remote)
{
	struct report report = { .role = SITE_PRIMARY, .now = NOW };
	struct report_secondary paris = { .site = (char[]){ "paris" },
					  .seen_at = NOW,
					  .lag_ms = 4000 };
	struct report_secondary never = { .site = (char[]){ "oslo" } };
	struct report_remote remote = { .name = (char[]){ "mirror1" }, .lag_ms = 9000 };

	vec_add(&report.secondaries, paris);
	vec_add(&report.secondaries, never);
	vec_add(&report.push.remotes, remote);
	assert_ok(lag_curve_write(store, &report, &err));
	const json_t *all = read_curves(1);
	assert_int_equal(json_array_size(all), 2);
	AUTO_FREE char *text = json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS);
	assert_string_equal(text,
			    "[{\"kind\":\"remote\",\"lag\":[9.0],\"peer\":\"mirror1\"},"
			    "{\"kind\":\"site\",\"lag\":[4.0],\"peer\":\"paris\"}]");
	vec_clear(&report.secondaries);
	vec_clear(&report.push.remotes);
}

#define LAG_CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LAG_CASE(what_was_not_sampled_is_a_gap),
		LAG_CASE(the_last_sample_of_a_minute_counts),
		LAG_CASE(a_day_is_kept),
		LAG_CASE(a_primary_has_a_curve_for_each_site_and_remote),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
