/*
 * The registry is one for the whole process, so each test has metrics of its own and
 * looks at their lines only.
 */
#include "test.h"

#include "base/metrics.h"
#include "base/process.h"
#include "base/thread.h"

/* The lines of one metric, as rendered. */
static const char *rendered_as(enum metrics_format format, const char *name)
{
	static struct str lines = STR_INIT;
	AUTO_STR struct str all = STR_INIT;
	AUTO_FREE char *head = xasprintf("# HELP %s ", name);

	metrics_render_as(format, &all);
	const char *start = strstr(all.data, head);
	assert_non_null(start);
	const char *end = strstr(start + 1, "# HELP ");
	str_reset(&lines);
	str_add_bytes(&lines, start, end ? (size_t)(end - start) : strlen(start));
	return lines.data;
}

static const char *rendered(const char *name)
{
	return rendered_as(METRICS_PROMETHEUS, name);
}

TEST(a_counter_without_labels_is_there_from_the_start)
{
	struct metric *metric = metric_counter("refrelay_plain_total", "Things.");

	assert_string_equal(rendered("refrelay_plain_total"),
			    "# HELP refrelay_plain_total Things.\n"
			    "# TYPE refrelay_plain_total counter\n"
			    "refrelay_plain_total 0\n");
	metric_add(metric_at(metric), 2);
	metric_add(metric_at(metric), 0.5);
	assert_non_null(
		strstr(rendered("refrelay_plain_total"), "\nrefrelay_plain_total 2.5\n"));
}

TEST(series_are_sorted_by_their_labels)
{
	struct metric *metric =
		metric_counter("refrelay_sorted_total", "Sorted.", "kind", "state");

	metric_add(metric_at(metric, "lfs", "failed"), 1);
	metric_add(metric_at(metric, "git", "synced"), 1e15);
	metric_add(metric_at(metric, "git", "failed"), 3);
	metric_add(metric_at(metric, "git", "failed"), 4);
	assert_string_equal(rendered("refrelay_sorted_total"),
			    "# HELP refrelay_sorted_total Sorted.\n"
			    "# TYPE refrelay_sorted_total counter\n"
			    "refrelay_sorted_total{kind=\"git\",state=\"failed\"} 7\n"
			    "refrelay_sorted_total{kind=\"git\",state=\"synced\"} 1e+15\n"
			    "refrelay_sorted_total{kind=\"lfs\",state=\"failed\"} 1\n");
}

TEST(metrics_are_sorted_by_name)
{
	AUTO_STR struct str all = STR_INIT;

	metric_gauge("refrelay_order_b", "B.");
	metric_gauge("refrelay_order_a", "A.");
	metric_gauge("refrelay_order_c", "C.");
	metrics_render_as(METRICS_PROMETHEUS, &all);
	const char *a = strstr(all.data, "# HELP refrelay_order_a ");
	const char *b = strstr(all.data, "# HELP refrelay_order_b ");
	const char *c = strstr(all.data, "# HELP refrelay_order_c ");
	assert_true(a && a < b && b < c);
}

TEST(registering_again_gives_the_same_metric)
{
	struct metric *metric = metric_gauge("refrelay_again", "A gauge.", "site");

	assert_ptr_equal(metric, metric_gauge("refrelay_again", "A gauge.", "site"));
	assert_ptr_equal(metric_at(metric, "x"), metric_at(metric, "x"));
	assert_ptr_not_equal(metric_at(metric, "x"), metric_at(metric, "y"));
}

TEST(label_values_and_help_are_escaped)
{
	struct metric *metric =
		metric_gauge("refrelay_escaped", "One\nline, \\ and \"q\".", "remote");

	metric_set(metric_at(metric, "a\"b\\c\nd\xff"), -0.1);
	assert_string_equal(rendered("refrelay_escaped"),
			    "# HELP refrelay_escaped One\\nline, \\\\ and \"q\".\n"
			    "# TYPE refrelay_escaped gauge\n"
			    "refrelay_escaped{remote=\"a\\\"b\\\\c\\nd\xef\xbf\xbd\"} "
			    "-0.1\n");
}

TEST(numbers_keep_their_value)
{
	static const struct {
		double value;
		const char *text;
	} table[] = {
		{ 0, " 0\n" },
		{ 1.0 / 3, " 0.33333333333333331\n" },
		{ 1795252443.12, " 1795252443.12\n" },
		{ __builtin_inf(), " +Inf\n" },
		{ -__builtin_inf(), " -Inf\n" },
		{ __builtin_nan(""), " NaN\n" },
	};
	struct metric *metric = metric_gauge("refrelay_number", "A number.");

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		metric_set(metric_at(metric), table[i].value);
		assert_true(text_ends_with(rendered("refrelay_number"), table[i].text));
	}
}

TEST(a_histogram_counts_into_rising_buckets)
{
	static const double bounds[] = { 0.5, 2, 0 };
	struct metric *metric =
		metric_histogram("refrelay_wait_seconds", "Waits.", bounds, "class");
	struct metric_series *series = metric_at(metric, "lease");

	metric_observe(series, 0.5); /* a bound belongs to its bucket */
	metric_observe(series, 0.75);
	metric_observe(series, 2);
	metric_observe(series, 100);
	assert_string_equal(
		rendered("refrelay_wait_seconds"),
		"# HELP refrelay_wait_seconds Waits.\n"
		"# TYPE refrelay_wait_seconds histogram\n"
		"refrelay_wait_seconds_bucket{class=\"lease\",le=\"0.5\"} 1\n"
		"refrelay_wait_seconds_bucket{class=\"lease\",le=\"2\"} 3\n"
		"refrelay_wait_seconds_bucket{class=\"lease\",le=\"+Inf\"} 4\n"
		"refrelay_wait_seconds_sum{class=\"lease\"} 103.25\n"
		"refrelay_wait_seconds_count{class=\"lease\"} 4\n");

	static const double sizes[] = { 0x1p10, 0x1p14, 0 };
	metric_histogram("refrelay_bare_bytes", "Sizes.", sizes);
	assert_non_null(strstr(rendered("refrelay_bare_bytes"),
			       "refrelay_bare_bytes_bucket{le=\"1024\"} 0\n"));
	assert_non_null(
		strstr(rendered("refrelay_bare_bytes"), "refrelay_bare_bytes_count 0\n"));
	metric_histogram("refrelay_bare_seconds", "Times.", metric_buckets_seconds);
}

TEST(openmetrics_names_families_and_bounds_its_own_way)
{
	static const double bounds[] = { 0.5, 2, 600, 1e22, 0 };
	AUTO_STR struct str all = STR_INIT;

	metric_add(metric_at(metric_counter("refrelay_open_total", "Opened \"by\" all.",
					    "state"),
			     "x"),
		   3);
	metric_observe(
		metric_at(metric_histogram("refrelay_open_seconds", "Times.", bounds)),
		2);
	assert_string_equal(rendered_as(METRICS_OPEN, "refrelay_open"),
			    "# HELP refrelay_open Opened \\\"by\\\" all.\n"
			    "# TYPE refrelay_open counter\n"
			    "refrelay_open_total{state=\"x\"} 3\n");
	assert_string_equal(rendered_as(METRICS_OPEN, "refrelay_open_seconds"),
			    "# HELP refrelay_open_seconds Times.\n"
			    "# TYPE refrelay_open_seconds histogram\n"
			    "refrelay_open_seconds_bucket{le=\"0.5\"} 0\n"
			    "refrelay_open_seconds_bucket{le=\"2.0\"} 1\n"
			    "refrelay_open_seconds_bucket{le=\"600.0\"} 1\n"
			    "refrelay_open_seconds_bucket{le=\"1e+22\"} 1\n"
			    "refrelay_open_seconds_bucket{le=\"+Inf\"} 1\n"
			    "refrelay_open_seconds_sum 2\n"
			    "refrelay_open_seconds_count 1\n");
	metrics_render_as(METRICS_OPEN, &all);
	assert_true(text_ends_with(all.data, "\n# EOF\n"));
	str_reset(&all);
	metrics_render_as(METRICS_PROMETHEUS, &all);
	assert_null(strstr(all.data, "# EOF"));
}

TEST(the_form_is_the_one_that_is_preferred)
{
	static const struct {
		const char *accept;
		enum metrics_format format;
	} table[] = {
		{ NULL, METRICS_PROMETHEUS },
		{ "", METRICS_PROMETHEUS },
		{ "*/*", METRICS_PROMETHEUS },
		{ "text/plain", METRICS_PROMETHEUS },
		{ "application/openmetrics-text", METRICS_OPEN },
		{ "Application/OpenMetrics-Text; Version=\"1.0.0\"", METRICS_OPEN },
		{ "application/openmetrics-text; version=0.0.1", METRICS_PROMETHEUS },
		{ "application/openmetrics-text; version=2.0.0", METRICS_PROMETHEUS },
		{ "application/openmetrics-textual", METRICS_PROMETHEUS },
		/* Prometheus 2.42 */
		{ "application/openmetrics-text;version=1.0.0,application/"
		  "openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,"
		  "*/*;q=0.1",
		  METRICS_OPEN },
		{ "application/openmetrics-text; q=0.5, text/plain; q=0.7",
		  METRICS_PROMETHEUS },
		{ "application/openmetrics-text; q=0", METRICS_PROMETHEUS },
		{ "application/openmetrics-text;q=0.0, */*", METRICS_PROMETHEUS },
		{ ",,;q=1,application/openmetrics-text", METRICS_OPEN },
		{ "text/*;q=0.2,application/openmetrics-text;q=0.3", METRICS_OPEN },
		{ "application/openmetrics-text;q=", METRICS_OPEN },
		{ "application/openmetrics-text;version=", METRICS_OPEN },
		{ ";", METRICS_PROMETHEUS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (metrics_negotiate(table[i].accept) != table[i].format)
			fail_msg("%s", table[i].accept);
}

static double value_of(const char *name)
{
	AUTO_FREE char *line = xasprintf("\n%s ", name);
	const char *found = strstr(rendered(name), line);

	assert_non_null(found);
	return strtod(found + strlen(line), NULL);
}

TEST(a_process_tells_what_it_takes)
{
	int64_t now = clock_wall_ms() / 1000;
	AUTO_CLOSE int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	double open_before;

	process_set_metrics();
	assert_true(value_of("process_cpu_seconds_total") >= 0);
	assert_true(value_of("process_resident_memory_bytes") > 1 << 20);
	assert_true(value_of("process_virtual_memory_bytes") >
		    value_of("process_resident_memory_bytes"));
	assert_int_equal((int)value_of("process_threads"), 1);
	assert_true(value_of("process_start_time_seconds") > (double)(now - 600));
	assert_true(value_of("process_start_time_seconds") < (double)(now + 5));
	assert_true(value_of("process_max_fds") >= value_of("process_open_fds"));
	open_before = value_of("process_open_fds");
	close(TAKE_FD(fd));
	process_set_metrics();
	assert_int_equal((int)value_of("process_open_fds"), (int)open_before - 1);
}

TEST(series_that_are_begun_are_there_with_0)
{
	struct metric *metric =
		metric_counter("refrelay_begun_total", "Begun.", "kind", "state");

	metric_add(metric_at(metric, "a", "x"), 2);
	metric_begin(metric, METRIC_LIST("a", "b"), METRIC_LIST("x", "y"));
	assert_string_equal(rendered("refrelay_begun_total"),
			    "# HELP refrelay_begun_total Begun.\n"
			    "# TYPE refrelay_begun_total counter\n"
			    "refrelay_begun_total{kind=\"a\",state=\"x\"} 2\n"
			    "refrelay_begun_total{kind=\"a\",state=\"y\"} 0\n"
			    "refrelay_begun_total{kind=\"b\",state=\"x\"} 0\n"
			    "refrelay_begun_total{kind=\"b\",state=\"y\"} 0\n");
	metric = metric_counter("refrelay_begun_once_total", "Begun.", "state");
	metric_begin(metric, METRIC_LIST("x"), NULL);
	assert_non_null(
		strstr(rendered("refrelay_begun_once_total"), "{state=\"x\"} 0\n"));
}

TEST(a_forgotten_gauge_shows_only_what_is_set_again)
{
	struct metric *metric = metric_gauge("refrelay_rows", "Rows.", "state");

	metric_set(metric_at(metric, "gone"), 5);
	metric_set(metric_at(metric, "kept"), 6);
	metric_forget(metric);
	metric_add(metric_at(metric, "kept"), 2);
	assert_string_equal(rendered("refrelay_rows"),
			    "# HELP refrelay_rows Rows.\n"
			    "# TYPE refrelay_rows gauge\n"
			    "refrelay_rows{state=\"kept\"} 2\n");
}

TEST(names_are_in_base_units)
{
	static const struct {
		enum metric_kind kind;
		const char *name;
		bool good;
	} table[] = {
		{ METRIC_COUNTER, "refrelay_syncs_total", true },
		{ METRIC_COUNTER, "refrelay_received_bytes_total", true },
		{ METRIC_COUNTER, "refrelay_syncs", false },
		{ METRIC_COUNTER, "refrelay_busy_ms_total", false },
		{ METRIC_COUNTER, "refrelay_total", false },
		{ METRIC_COUNTER, "refrelay__total", false },
		{ METRIC_GAUGE, "refrelay_lag_seconds", true },
		{ METRIC_GAUGE, "refrelay_replicables", true },
		{ METRIC_GAUGE, "refrelay_last_success_timestamp_seconds", true },
		{ METRIC_GAUGE, "refrelay_last_success_timestamp", false },
		{ METRIC_GAUGE, "refrelay_build_info", true },
		{ METRIC_GAUGE, "refrelay_rows_total", false },
		{ METRIC_GAUGE, "refrelay_lag_minutes", false },
		{ METRIC_GAUGE, "refrelay_share_percent", false },
		{ METRIC_GAUGE, "refrelay_rows_count", false },
		{ METRIC_GAUGE, "refrelay_Rows", false },
		{ METRIC_GAUGE, "refrelay_", false },
		{ METRIC_GAUGE, "refrelay_x_", false },
		{ METRIC_GAUGE, "git_rows", false },
		{ METRIC_GAUGE, "process_open_fds", true },
		{ METRIC_COUNTER, "process_cpu_seconds_total", true },
		{ METRIC_GAUGE, "", false },
		{ METRIC_HISTOGRAM, "refrelay_sync_seconds", true },
		{ METRIC_HISTOGRAM, "refrelay_sync_milliseconds", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		assert_int_equal(metric_name_is_good(table[i].kind, table[i].name),
				 table[i].good);
}

enum { THREADS = 4, ROUNDS = 20000 };

static void *count(void *data)
{
	static const double bounds[] = { 1, 0 };
	struct metric *counter = data;
	struct metric *histogram =
		metric_histogram("refrelay_race_seconds", "Races.", bounds, "class");
	char name[8];

	for (int i = 0; i < ROUNDS; i++) {
		snprintf(name, sizeof(name), "r%d", i % 16);
		metric_add(metric_at(counter, name), 1);
		metric_observe(metric_at(histogram, "x"), i % 2 ? 0.5 : 2);
		if (i % 5000 == 0) {
			AUTO_STR struct str text = STR_INIT;
			metrics_render_as(METRICS_PROMETHEUS, &text);
		}
	}
	return NULL;
}

TEST(no_update_from_any_thread_is_lost)
{
	struct metric *counter =
		metric_counter("refrelay_race_total", "Races.", "remote");
	pthread_t threads[THREADS];
	size_t lines = 0;

	for (int i = 0; i < THREADS; i++)
		thread_start(&threads[i], "count", count, counter);
	for (int i = 0; i < THREADS; i++)
		thread_join(threads[i]);
	const char *at = rendered("refrelay_race_total");
	while ((at = strstr(at, "\"} 5000\n")) != NULL) {
		lines++;
		at++;
	}
	assert_int_equal(lines, 16);
	at = rendered("refrelay_race_seconds");
	assert_non_null(strstr(at, "refrelay_race_seconds_sum{class=\"x\"} 100000\n"));
	assert_non_null(strstr(at, "refrelay_race_seconds_count{class=\"x\"} 80000\n"));
}

enum { MEETINGS = 2000 };

static struct metric *met;
static pthread_barrier_t barrier;
static struct metric_series *found[THREADS][MEETINGS];

static void *meet(void *data)
{
	struct metric_series **mine = data;
	char name[16];

	for (int i = 0; i < MEETINGS; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		pthread_barrier_wait(&barrier);
		mine[i] = metric_at(met, name);
	}
	return NULL;
}

TEST(threads_that_ask_at_once_get_the_same_series)
{
	pthread_t threads[THREADS];

	met = metric_gauge("refrelay_met", "Meetings.", "remote");
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		thread_start(&threads[i], "meet", meet, found[i]);
	for (int i = 0; i < THREADS; i++)
		thread_join(threads[i]);
	pthread_barrier_destroy(&barrier);
	for (int i = 1; i < THREADS; i++)
		for (int j = 0; j < MEETINGS; j++)
			assert_ptr_equal(found[0][j], found[i][j]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_counter_without_labels_is_there_from_the_start),
		cmocka_unit_test(series_are_sorted_by_their_labels),
		cmocka_unit_test(metrics_are_sorted_by_name),
		cmocka_unit_test(registering_again_gives_the_same_metric),
		cmocka_unit_test(label_values_and_help_are_escaped),
		cmocka_unit_test(numbers_keep_their_value),
		cmocka_unit_test(a_histogram_counts_into_rising_buckets),
		cmocka_unit_test(openmetrics_names_families_and_bounds_its_own_way),
		cmocka_unit_test(the_form_is_the_one_that_is_preferred),
		cmocka_unit_test(a_process_tells_what_it_takes),
		cmocka_unit_test(series_that_are_begun_are_there_with_0),
		cmocka_unit_test(a_forgotten_gauge_shows_only_what_is_set_again),
		cmocka_unit_test(names_are_in_base_units),
		cmocka_unit_test(no_update_from_any_thread_is_lost),
		cmocka_unit_test(threads_that_ask_at_once_get_the_same_series),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
