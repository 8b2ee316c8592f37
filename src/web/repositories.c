/*
 * Repositories: the refs of a primary's; their rows are web/rows.c's.
 */
#include "change/pushed.h"
#include "replicable/name.h"
#include "web/api.h"
#include "web/rows.h"
#include "wire/wire_refs.h"

static int get_status(const struct web_request *request, struct web_response *response,
		      struct err *err)
{
	struct report report = { 0 };
	int result = api_report(request->services, true, &report, err);

	if (result == 0)
		web_answer_json(response, 200, report_json(&report));
	report_clear(&report);
	return result;
}

/* What was noticed stays the caller's. */
static void web_repositories_render_refs(const struct noticed *noticed,
					 const struct pushed *pushed, struct str *body)
{
	struct wire_refs refs = { .refs = noticed->refs,
				  .oid_len = noticed->oid_len,
				  .generation = noticed->row.generation,
				  .changed_at = noticed->row.changed_at,
				  .description = noticed->description,
				  .settings = noticed->settings,
				  .pushed_settled = pushed->settled,
				  .pushed_announced = pushed->announced };

	memcpy(refs.timeline, noticed->row.timeline, sizeof(refs.timeline));
	snprintf(refs.checksum, sizeof(refs.checksum), "%s", noticed->row.checksum);
	wire_refs_render(&refs, body);
}

static int web_repositories_get_refs(const struct web_request *request,
				     struct web_response *response, struct err *err)
{
	struct notice *notice = request->services->notice;
	AUTO_NOTICED struct noticed noticed = { 0 };
	struct pushed before, after;

	if (!api_needs_role(request, SITE_PRIMARY, response))
		return 0;
	if (name_check(request->name, err) != 0 ||
	    pushed_read(notice, request->name, &before, err) != 0)
		return -1;
	if (notice_compare(notice, request->name, &noticed, err) != 0) {
		if (err->class != ERR_CORRUPT && err->class != ERR_CONFLICT &&
		    err->class != ERR_CONFIG)
			return api_repository_failed(response, err);
		api_unreadable(response, err);
		return 0;
	}
	if (pushed_read(notice, request->name, &after, err) != 0)
		return -1;
	after.settled = before.settled; /* read before the refs */
	response->content_type = WIRE_REFS_TYPE;
	web_repositories_render_refs(&noticed, &after, &response->body);
	return 0;
}

static int post_delta(const struct web_request *request, struct web_response *response,
		      struct err *err)
{
	(void)err;
	if (api_needs_role(request, SITE_PRIMARY, response))
		web_answer_problem(response, 409, "DELTA_UNAVAILABLE",
				   "this version gives no deltas",
				   "take the refs and fetch");
	return 0;
}

const struct web_route web_repository_routes[] = {
	{ "GET", "/api/v1/status", WEB_READER, WEB_BODY_NONE, get_status },
	{ "GET", "/api/v1/repositories", WEB_READER, WEB_BODY_NONE, rows_list },
	{ "GET", "/api/v1/repositories/{name}", WEB_READER, WEB_BODY_NONE, rows_get },
	{ "GET", "/api/v1/repositories/{name}/refs", WEB_SITE, WEB_BODY_NONE,
	  web_repositories_get_refs },
	{ "POST", "/api/v1/repositories/{name}/delta", WEB_SITE, WEB_BODY_MEMORY,
	  post_delta },
	{ "POST", "/api/v1/repositories/{name}/sync", WEB_OPERATOR, WEB_BODY_MEMORY,
	  rows_sync },
	{ "POST", "/api/v1/repositories/{name}/resync", WEB_OPERATOR, WEB_BODY_MEMORY,
	  rows_resync },
	{ "POST", "/api/v1/repositories/{name}/reverify", WEB_SITE, WEB_BODY_MEMORY,
	  rows_reverify },
	{ 0 },
};
