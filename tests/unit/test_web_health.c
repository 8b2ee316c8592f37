/*
 * What a monitor is told. Watch, pull and report are as each test says.
 */
#include "web_test.h"

#include "base/metrics.h"
#include "replicable/name.h"
#include "report/report_metrics.h"

static struct {
	struct watch_state watch;
	struct pull_state pull;
	int64_t lag_ms, never_copied, blobs_never_copied;
	bool is_root_lost;
	bool is_brief; /* the report that was made last */
	bool report_fails;
	enum verdict_code verdict;
} now;

void vitals_look(struct vitals *vitals, struct vital_signs *signs)
{
	assert_null(vitals);
	*signs = VITAL_SIGNS_NONE;
}

void vital_signs_clear(struct vital_signs *signs)
{
	assert_int_equal(signs->followers.count, 0);
}

struct pull_settings pull_settings_now(struct pull *pull)
{
	assert_non_null(pull);
	return (struct pull_settings){ 0 };
}

void report_judge(const struct report *report, struct verdict *verdict)
{
	assert_non_null(report);
	*verdict = (struct verdict){ .code = now.verdict };
}

bool watch_look(struct watch *watch, const char *type, struct watch_state *state)
{
	assert_non_null(watch);
	assert_string_equal(type, KIND_REPOSITORY);
	*state = now.watch;
	return true;
}

void pull_look(struct pull *pull, struct pull_state *state)
{
	assert_non_null(pull);
	*state = now.pull;
}

int report_make(const struct report_options *options, struct report *report,
		struct err *e)
{
	struct report_kind blobs = { .counts.never_copied = now.blobs_never_copied };

	assert_string_equal(options->data, root);
	now.is_brief = options->is_brief;
	*report = (struct report){ 0 };
	if (now.report_fails)
		return err_set(e, ERR_DISK, "the database is gone");
	*report = (struct report){ .lag_ms = now.lag_ms,
				   .repositories.never_copied = now.never_copied,
				   .is_root_lost = now.is_root_lost };
	blobs.type = xstrdup("lfs");
	vec_add(&report->blobs, blobs);
	return 0;
}

void report_clear(struct report *report)
{
	for (size_t i = 0; i < report->blobs.count; i++)
		free(report->blobs.items[i].type);
	vec_clear(&report->blobs);
	*report = (struct report){ 0 };
}

void report_duration(int64_t ms, struct str *out)
{
	str_addf(out, "%" PRId64 " min", ms / 60000);
}

void report_metrics(const struct report *report)
{
	metric_set(metric_at(metric_gauge("refrelay_lag_seconds", "Lag.")),
		   (double)report->lag_ms / 1000);
}

static int setup(void **state)
{
	if (test_make_root(state))
		return -1;
	memset(&now, 0, sizeof(now));
	services = (struct web_services){ 0 };
	start_server(web_health_routes, 0);
	return 0;
}

static int teardown(void **state)
{
	web_server_stop(server, 0);
	access_free(services.access);
	return test_remove_root(state);
}

static void assert_ready(bool is_ready, const char *reason)
{
	const char *answer = get("/readyz");

	assert_int_equal(status_of(answer), is_ready ? 200 : 503);
	assert_non_null(strstr(answer, is_ready ? "\"ready\":true" : "\"ready\":false"));
	if (!strstr(answer, reason))
		fail_msg("no \"%s\" in %s", reason, answer);
}

TEST(alive_is_ok)
{
	assert_string_equal(body_of(get("/healthz")), "ok\n");
}

TEST(a_primary_is_ready_when_it_has_scanned)
{
	services.watch = (struct watch *)&now;
	assert_ready(false, "first scan");
	now.watch.has_scanned = true;
	assert_ready(true, "\"reason\":null");
	now.watch.is_failing = true;
	assert_ready(false, "last scan of the repositories failed");
}

TEST(who_is_ready_says_whether_it_is_in_sync)
{
	services.pull = (struct pull *)&now;
	now.pull.has_cursor = true;
	now.pull.compared_at = 1;
	assert_ready(true, "\"in_sync\":true,\"not_in_sync\":null");
	now.verdict = VERDICT_PRIMARY_SILENT;
	assert_ready(true, "\"in_sync\":false,\"not_in_sync\":\"primary_silent\"");
	now.verdict = VERDICT_NOT_WRITTEN;
	assert_ready(false, "it cannot write");
}

TEST(a_secondary_is_ready_when_it_has_caught_up)
{
	services.pull = (struct pull *)&now;
	assert_ready(false, "not yet compared");
	now.pull.has_cursor = true;
	assert_ready(false, "not yet compared");
	now.pull.compared_at = 1;
	assert_ready(true, "\"reason\":null");
	assert_true(now.is_brief); /* however many rows there are */
	now.lag_ms = 4 * 60000;
	assert_ready(true, "\"reason\":null");
	now.lag_ms = 7 * 60000;
	assert_ready(false, "is 7 min old");
	now.blobs_never_copied = 1;
	assert_ready(false, "1 blob of kind lfs has not been copied yet");
	now.blobs_never_copied = 2;
	assert_ready(false, "2 blobs of kind lfs have not been copied yet");
	now.never_copied = 1989;
	assert_ready(false, "1989 repositories have not been copied yet");
	now.is_root_lost = true;
	assert_ready(false, "cannot find its copies");
	now.report_fails = true;
	assert_int_equal(status_of(get("/readyz")), 507);
}

TEST(metrics_are_for_readers)
{
	AUTO_CONF struct conf *conf = NULL;
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();

	assert_ok(conf_load_text("test", "", 0, &conf, &err));
	assert_ok(access_read(conf, true, &services.access, &err));
	now.lag_ms = 2500;
	const char *metrics = get("/metrics");
	assert_non_null(strstr(metrics, "text/plain; version=0.0.4"));
	assert_non_null(strstr(metrics, "\nrefrelay_lag_seconds 2.5\n"));
	metrics = exchange("GET /metrics HTTP/1.1\r\nAccept: application/"
			   "openmetrics-text; version=1.0.0",
			   NULL, 0);
	assert_non_null(strstr(metrics, "application/openmetrics-text; version=1.0.0; "
					"charset=utf-8\r\n"));
	assert_non_null(strstr(metrics, "\r\nVary: Accept\r\n"));
	assert_non_null(strstr(metrics, "\nprocess_open_fds "));
	assert_true(text_ends_with(metrics, "\n# EOF\n"));
	assert_non_null(strstr(metrics,
			       "\nrefrelay_http_request_duration_seconds_count{kind="
			       "\"monitor\",class=\"2xx\"} "));
	assert_non_null(strstr(metrics,
			       "\nrefrelay_http_request_duration_seconds_count{kind="
			       "\"git_refs\",class=\"5xx\"} 0\n"));
	send_text(fd, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nVia: 1.1 x\r\n"
		      "Connection: close\r\n\r\n");
	assert_true(receive_all(fd, 5000, &answer));
	assert_int_equal(status_of(answer.data), 401);
}

#define SERVED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(alive_is_ok),
		SERVED(a_primary_is_ready_when_it_has_scanned),
		SERVED(a_secondary_is_ready_when_it_has_caught_up),
		SERVED(who_is_ready_says_whether_it_is_in_sync),
		SERVED(metrics_are_for_readers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
