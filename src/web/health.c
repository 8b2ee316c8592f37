/*
 * For monitors and load balancers: alive, caught up, metrics.
 */
#include "base/metrics.h"
#include "replicable/name.h"
#include "report/report_metrics.h"
#include "web/api.h"

/* A secondary that is further behind than this is not ready. */
enum { LAG_MAX_MS = 5 * 60 * 1000 };

static int get_health(const struct web_request *request, struct web_response *response,
		      struct err *err)
{
	(void)request;
	(void)err;
	response->content_type = "text/plain; charset=utf-8";
	str_add(&response->body, "ok\n");
	return 0;
}

static void say_lag(int64_t lag_ms, struct str *reason)
{
	str_add(reason, "the oldest change that is not here, or the last news of a "
			"silent primary, is ");
	report_duration(lag_ms, reason);
	str_add(reason, " old");
}

static void say_never_copied(const struct report *report, struct str *reason)
{
	if (report->never_copied > 0)
		str_addf(reason, "%" PRId64 " %s not been copied yet",
			 report->never_copied,
			 report->never_copied == 1 ? "repository has"
						   : "repositories have");
	for (size_t i = 0; i < report->blobs.count && reason->len == 0; i++) {
		const struct report_kind *kind = &report->blobs.items[i];
		if (kind->never_copied > 0)
			str_addf(reason,
				 "%" PRId64 " %s of kind %s %s not been copied yet",
				 kind->never_copied,
				 kind->never_copied == 1 ? "blob" : "blobs", kind->type,
				 kind->never_copied == 1 ? "has" : "have");
	}
}

/* Appends why a secondary has not caught up; nothing if it has. A primary that is silent
 * for less than that is no reason: all of its secondaries would go at once. */
static void judge_secondary(const struct web_services *services,
			    const struct report *report, const struct verdict *verdict,
			    struct str *reason)
{
	struct pull_state state;

	pull_look(services->pull, &state);
	if (!state.has_cursor || state.compared_at == 0)
		str_add(reason, "it has not yet compared everything with its primary");
	else if (report->is_root_lost)
		str_add(reason, "it does not find its copies: see refrelay status there");
	else if (verdict->code == VERDICT_NOT_WRITTEN)
		str_add(reason, "it cannot write: see refrelay status there");
	else
		say_never_copied(report, reason);
	if (reason->len == 0 && report->lag_ms >= LAG_MAX_MS)
		say_lag(report->lag_ms, reason);
}

static void judge_primary(const struct web_services *services, struct str *reason)
{
	struct watch_state state;

	watch_look(services->watch, KIND_REPOSITORY, &state);
	if (!state.has_scanned)
		str_add(reason, "the first scan of the repositories is not done");
	else if (state.is_failing)
		str_add(reason, "the last scan of the repositories failed: see refrelay "
				"status there");
}

static void judge_blobs(const struct web_services *services, struct str *reason)
{
	const struct blob_kinds *kinds = services->blob_kinds;

	for (size_t i = 0; i < kinds->items.count && reason->len == 0; i++) {
		const char *type = kinds->items.items[i].type;
		struct watch_state state;
		if (!watch_look(services->blob_watch, type, &state))
			continue;
		if (!state.has_scanned)
			str_addf(reason, "the first scan of blobs of kind %s is not done",
				 type);
		else if (state.is_failing)
			str_addf(reason,
				 "the last scan of blobs of kind %s failed: see the log",
				 type);
	}
}

static int get_ready(const struct web_request *request, struct web_response *response,
		     struct err *err)
{
	const struct web_services *services = request->services;
	AUTO_STR struct str reason = STR_INIT;
	struct report report = { 0 };
	struct verdict verdict;

	if (api_report(services, false, &report, err))
		return -1;
	report_judge(&report, &verdict);
	if (services->pull)
		judge_secondary(services, &report, &verdict, &reason);
	report_clear(&report);
	if (services->watch)
		judge_primary(services, &reason);
	if (services->blob_watch && reason.len == 0)
		judge_blobs(services, &reason);
	json_t *answer = json_object();
	json_put_bool(answer, "ready", reason.len == 0);
	json_put_text(answer, "reason", reason.len > 0 ? reason.data : NULL);
	json_put_bool(answer, "in_sync", verdict.code == VERDICT_IN_SYNC);
	json_put_text(answer, "not_in_sync",
		      verdict.code == VERDICT_IN_SYNC ? NULL
						      : verdict_code_name(verdict.code));
	web_answer_json(response, reason.len == 0 ? 200 : 503, answer);
	response->is_expected = true;
	return 0;
}

static int get_metrics(const struct web_request *request, struct web_response *response,
		       struct err *err)
{
	struct report report = { 0 };

	if (api_report(request->services, false, &report, err))
		return -1;
	report_metrics(&report);
	report_clear(&report);
	response->content_type = METRICS_CONTENT_TYPE;
	metrics_render(&response->body);
	return 0;
}

const struct web_route web_health_routes[] = {
	{ "GET", "/healthz", WEB_ANYBODY, WEB_QUICK, get_health },
	{ "GET", "/readyz", WEB_ANYBODY, WEB_BODY_NONE, get_ready },
	{ "GET", "/metrics", WEB_READER, WEB_BODY_NONE, get_metrics },
	{ 0 },
};
