#include "web/api.h"

#include "base/bell.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/process.h"
#include "lease/lease_json.h"
#include "replicable/name.h"
#include "replicable/take_away.h"
#include "report/report_metrics.h"
#include "web/answer.h"
#include "web/rows.h"

/*
 * Repositories: their rows are web/rows.c's, their refs web/refs.c's.
 */

#define STATUS_WAIT_MAX_S 55

/* With ?version= and ?wait=: until there is another version than the one that is known.
 */
static int status_wait(const struct web_request *request, struct err *err)
{
	const char *version = web_query(request, "version");
	uint64_t wait_s = 0;

	if (web_query_number(request, "wait", STATUS_WAIT_MAX_S, &wait_s, err) != 0)
		return -1;
	if (!version)
		return 0;
	return bell_wait(version, (int64_t)wait_s * 1000, request->stop, err);
}

static int get_status(const struct web_request *request, struct web_response *response,
		      struct err *err)
{
	char version[BELL_VERSION_SIZE];
	struct report report = { 0 };
	int64_t begun;
	int result;

	if (status_wait(request, err) != 0)
		return -1;
	begun = clock_boot_ms();
	/* Before it is read: what changes meanwhile is told next time. */
	bell_version(version);
	result = api_report(request->services, API_WHOLE, &report, err);
	if (result == 0) {
		json_t *object = report_json(&report);
		json_put_text(object, "version", version);
		json_put_seconds(object, "took", clock_boot_ms() - begun);
		web_answer_json(response, 200, object);
	}
	report_clear(&report);
	return result;
}

const struct web_route web_repository_routes[] = {
	{ "GET", "/api/v1/status{?wait,version}", WEB_READER, WEB_BODY_NONE, get_status },
	{ "GET", "/api/v1/repositories{?after,limit,state,search}", WEB_READER,
	  WEB_BODY_NONE, rows_list },
	{ "GET", "/api/v1/repositories/{name}", WEB_READER, WEB_BODY_NONE, rows_get },
	{ "POST", "/api/v1/repositories/{name}/sync", WEB_OPERATOR, WEB_BODY_MEMORY,
	  rows_sync },
	{ "POST", "/api/v1/repositories/{name}/resync", WEB_OPERATOR, WEB_BODY_MEMORY,
	  rows_resync },
	{ "POST", "/api/v1/repositories/{name}/reverify", WEB_SITE, WEB_BODY_MEMORY,
	  rows_reverify },
	{ "POST", "/api/v1/repositories/{name}/retry", WEB_OPERATOR, WEB_BODY_MEMORY,
	  rows_retry },
	{ "POST", "/api/v1/repositories/{name}/release", WEB_OPERATOR, WEB_BODY_MEMORY,
	  rows_release },
	{ 0 },
};

/* ?held=: all that there are if it is not said. */
static int read_held(const struct web_request *request, bool *is_held_only,
		     struct err *err)
{
	const char *held = web_query(request, "held");

	*is_held_only = held && strcmp(held, "true") == 0;
	if (!held || *is_held_only || strcmp(held, "false") == 0)
		return 0;
	return err_set(err, ERR_CONFIG, "held is true or false");
}

static int get_leases(const struct web_request *request, struct web_response *response,
		      struct err *err)
{
	lease_holders holders = { 0 };
	bool is_held_only = false;
	int result;

	if (read_held(request, &is_held_only, err) != 0)
		return -1;
	result = lease_list(request->services->leases, is_held_only, &holders, err);
	if (result == 0) {
		json_t *array = json_array(), *object = json_object();
		for (size_t i = 0; i < holders.count; i++)
			json_array_append_new(array,
					      lease_holder_json(&holders.items[i]));
		json_put(object, "leases", array);
		web_answer_json(response, 200, object);
	}
	vec_clear(&holders);
	return result;
}

static int get_lease(const struct web_request *request, struct web_response *response,
		     struct err *err)
{
	struct lease_holder holder;

	if (lease_inspect(request->services->leases, request->name, &holder, err) != 0)
		return -1;
	web_answer_json(response, 200, lease_holder_json(&holder));
	return 0;
}

static int delete_lease(const struct web_request *request, struct web_response *response,
			struct err *err)
{
	struct lease_manager *leases = request->services->leases;
	struct take_away what = {
		.key = request->name,
		.actor = "an operator, over HTTP",
		.reason = web_query(request, "reason"),
		.repositories = request->services->root,
	};
	struct lease_holder holder;

	if (web_query_number(request, "fence", INT64_MAX, &what.fence, err) != 0)
		return -1;
	if (!web_query(request, "fence") || !what.reason || !what.reason[0])
		return err_set(err, ERR_CONFIG,
			       "it takes ?fence=N, as GET /api/v1/leases gives it, and "
			       "&reason=TEXT");
	if (lease_take_away(leases, &what, err) < 0 ||
	    lease_inspect(leases, what.key, &holder, err) != 0)
		return -1;
	web_answer_json(response, 200, lease_holder_json(&holder));
	return 0;
}

const struct web_route web_lease_routes[] = {
	{ "GET", "/api/v1/leases{?held}", WEB_READER, WEB_BODY_NONE, get_leases },
	{ "GET", "/api/v1/leases/{name}", WEB_READER, WEB_BODY_NONE, get_lease },
	{ "DELETE", "/api/v1/leases/{name}{?fence,reason}", WEB_OPERATOR, WEB_BODY_NONE,
	  delete_lease },
	{ 0 },
};

/*
 * For monitors and load balancers: alive, caught up, metrics.
 */

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
	int64_t count = report->repositories.never_copied;

	if (count > 0)
		str_addf(reason, "%" PRId64 " %s not been copied yet", count,
			 count == 1 ? "repository has" : "repositories have");
	for (size_t i = 0; i < report->blobs.count && reason->len == 0; i++) {
		const struct report_kind *kind = &report->blobs.items[i];
		count = kind->counts.never_copied;
		if (count > 0)
			str_addf(reason,
				 "%" PRId64 " %s of kind %s %s not been copied yet",
				 count, count == 1 ? "blob" : "blobs", kind->type,
				 count == 1 ? "has" : "have");
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
		str_add(reason, "it cannot find its copies: see refrelay status there");
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
		str_add(reason, "the first scan of the repositories is not finished");
	else if (state.is_failing)
		str_add(reason, "the last scan of the repositories failed: see refrelay "
				"status there");
}

static void judge_blobs(const struct web_services *services, struct str *reason)
{
	const struct kind *kind = NULL;
	struct watch_state state;

	while (reason->len == 0 && (kind = kinds_next(services->here, kind)) != NULL) {
		if (!watch_look(services->blob_watch, kind->type, &state))
			continue;
		if (!state.has_scanned)
			str_addf(reason,
				 "the first scan of blobs of kind %s is not finished",
				 kind->type);
		else if (state.is_failing)
			str_addf(reason,
				 "the last scan of blobs of kind %s failed: see the log",
				 kind->type);
	}
}

static int get_ready(const struct web_request *request, struct web_response *response,
		     struct err *err)
{
	const struct web_services *services = request->services;
	AUTO_STR struct str reason = STR_INIT;
	struct report report = { 0 };
	struct verdict verdict;
	int64_t leases_away;

	if (api_report(services, API_VERDICT, &report, err))
		return -1;
	report_judge(&report, &verdict);
	if (services->pull)
		judge_secondary(services, &report, &verdict, &reason);
	leases_away = report.signs.leases_away;
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
	/* No reason to send readers away: they take no leases. */
	json_put_time(answer, "leases_away_since", leases_away);
	web_answer_json(response, reason.len == 0 ? 200 : 503, answer);
	response->is_expected = true;
	return 0;
}

static int get_metrics(const struct web_request *request, struct web_response *response,
		       struct err *err)
{
	struct report report = { 0 };

	if (api_report(request->services, API_WITHOUT_TASKS, &report, err))
		return -1;
	report_metrics(&report);
	report_clear(&report);
	process_set_metrics();
	enum metrics_format format = metrics_negotiate(web_header(request, "Accept"));
	response->content_type = metrics_content_type(format);
	web_set_header(response, "Vary", "Accept");
	metrics_render_as(format, &response->body);
	return 0;
}

const struct web_route web_health_routes[] = {
	{ "GET", "/healthz", WEB_ANYBODY, WEB_QUICK, get_health },
	{ "GET", "/readyz", WEB_ANYBODY, WEB_BODY_NONE, get_ready },
	{ "GET", "/metrics", WEB_READER, WEB_BODY_NONE, get_metrics },
	{ 0 },
};

void api_wrong_role(struct web_response *response, const char *message)
{
	web_answer_problem(response, 409, "WRONG_ROLE", message,
			   "ask the other site, or see site.role");
}

bool api_needs_role(const struct web_request *request, enum site_role role,
		    struct web_response *response)
{
	AUTO_FREE char *message = NULL;

	if (request->services->role == role)
		return true;
	message = xasprintf(
		"site \"%s\" is a %s; only a %s can do this", request->services->site,
		site_role_name(request->services->role), site_role_name(role));
	api_wrong_role(response, message);
	return false;
}

int api_limit(const struct web_request *request, size_t *limit, struct err *err)
{
	uint64_t value = API_PAGE;

	if (web_query_number(request, "limit", API_PAGE_MAX, &value, err) != 0)
		return -1;
	if (value == 0)
		return err_set(err, ERR_CONFIG, "limit is 1 to %d", API_PAGE_MAX);
	*limit = (size_t)value;
	return 0;
}

int api_repository_failed(struct web_response *response, const struct err *err)
{
	if (err->class != ERR_MISSING)
		return -1;
	web_answer_problem(response, 404, WIRE_REPOSITORY_NOT_FOUND, err->text,
			   err->remedy);
	return 0;
}

void api_unreadable(struct web_response *response, const struct err *err)
{
	struct err said = *err;

	if (said.class != ERR_CORRUPT && said.class != ERR_CONFLICT)
		said.class = ERR_CONFIG;
	answer_err(response, 409, &said);
}

static const struct kind *api_find_kind(const struct web_request *request, bool has_files,
					struct web_response *response)
{
	const struct kind *kind = kinds_find(request->services->here, request->kind);

	if (kind && !kind_is_repository(kind->type) &&
	    (!has_files || (kind->origin && kind->origin->is_file)))
		return kind;
	AUTO_FREE char *message = xasprintf("site \"%s\" has no blob type \"%s\"",
					    request->services->site, request->kind);
	AUTO_FREE char *remedy = xasprintf(
		"add a [blob \"%s\"] section to its configuration", request->kind);
	web_answer_problem(response, 404, WIRE_KIND_NOT_FOUND, message, remedy);
	return NULL;
}

const struct kind *api_kind(const struct web_request *request,
			    struct web_response *response)
{
	return api_find_kind(request, false, response);
}

const struct kind *api_file_kind(const struct web_request *request,
				 struct web_response *response)
{
	return api_find_kind(request, true, response);
}

int api_report(const struct web_services *services, enum api_depth depth,
	       struct report *report, struct err *err)
{
	struct push_settings *settings =
		services->push ? push_settings_of(services->push) : NULL;
	struct vital_signs signs;
	struct pull_settings sync;

	if (services->pull)
		sync = pull_settings_now(services->pull);
	vitals_look(services->vitals, &signs);
	const struct report_options options = { .role = services->role,
						.site = services->site,
						.primary_url = services->primary_url,
						.data = services->data,
						.here = services->here,
						.store = services->store,
						.signs = &signs,
						.settings = services->pull ? &sync : NULL,
						.is_brief = depth == API_VERDICT,
						.leaves_out_tasks = depth != API_WHOLE,
						.tasks = services->tasks,
						.push_leases = services->push_leases,
						.push_settings = settings };
	int result = report_make(&options, report, err);

	vital_signs_clear(&signs);
	push_settings_unref(settings);
	return result;
}
