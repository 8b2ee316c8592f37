/*
 * Repositories: the inventory and refs of a primary, the registry of a secondary.
 */
#include "base/clock.h"
#include "origin/inventory.h"
#include "replicable/name.h"
#include "web/api.h"

#define REVERIFY_AT_LEAST_MS 60000

/* Ages are told by the clock that the changes were stamped with. */
static int64_t now_of(const struct web_services *services)
{
	return services->primary ? primary_now_ms(services->primary) : clock_wall_ms();
}

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

/* The header may list several tags, also weak ones; ours has quotes around it. */
static bool has_this_etag(const struct web_request *request, const char *etag)
{
	const char *header = web_header(request, "If-None-Match");

	return header && strstr(header, etag);
}

static int list_inventory(const struct web_request *request, size_t limit,
			  struct web_response *response, struct err *err)
{
	struct store *store = request->services->store;
	char etag[INVENTORY_ETAG_SIZE];
	json_t *page;
	enum event_scanned scanned;

	if (event_log_scanned(store, &scanned, err) != 0)
		return -1;
	if (scanned == SCANNED_NOTHING) {
		web_answer_problem(response, 503, "NOT_SCANNED",
				   "the first scan of the repositories is not done",
				   "wait: it is tried again by itself");
		return 0;
	}
	if (inventory_etag(store, etag, err) != 0)
		return -1;
	if (has_this_etag(request, etag)) {
		web_add_header(response, "ETag", "%s", etag);
		response->status = 304;
		return 0;
	}
	page = inventory_page(store, web_query(request, "after"), limit, etag, err);
	if (!page)
		return -1;
	web_add_header(response, "ETag", "%s", etag);
	web_answer_json(response, 200, page);
	return 0;
}

/* A state's name, or one of the words for rows that wait for a person or are to go. */
static int read_state(const char *word, struct registry_filter *filter, struct err *err)
{
	filter->state = REGISTRY_ANY;
	if (!word)
		return 0;
	for (int i = 0; i < REGISTRY_STATES; i++)
		if (strcmp(word, registry_state_name((enum registry_state)i)) == 0)
			filter->state = i;
	filter->held_only = strcmp(word, "held") == 0;
	filter->gone_only = strcmp(word, "gone") == 0;
	if (filter->state != REGISTRY_ANY || filter->held_only || filter->gone_only)
		return 0;
	return err_set(err, ERR_CONFIG,
		       "there is no state \"%s\"; there are pending, started, synced, "
		       "failed, missing_on_primary, held and gone",
		       word);
}

/* One row more than is answered tells whether there is a next page. */
static int list_registry(const struct web_request *request, size_t limit,
			 struct web_response *response, struct err *err)
{
	const struct web_services *services = request->services;
	struct registry_filter filter = {
		.kind = KIND_REPOSITORY,
		.after = web_query(request, "after"),
		.limit = limit + 1,
	};
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	int64_t now = now_of(services);

	if (read_state(web_query(request, "state"), &filter, err) != 0 ||
	    registry_list(services->store, &filter, &rows, err) != 0)
		return -1;
	json_t *page = json_object(), *array = json_array();
	for (size_t i = 0; i < rows.count && i < limit; i++)
		json_array_append_new(array, report_row_json(&rows.items[i], now));
	json_put(page, "repositories", array);
	if (rows.count > limit)
		json_put_text(page, "next", rows.items[limit - 1].name);
	web_answer_json(response, 200, page);
	return 0;
}

static int refuse_standalone(struct web_response *response)
{
	api_wrong_role(response, "a standalone site replicates no repositories");
	return 0;
}

static int get_repositories(const struct web_request *request,
			    struct web_response *response, struct err *err)
{
	size_t limit;

	if (api_limit(request, &limit, err) != 0)
		return -1;
	switch (request->services->role) {
	case SITE_PRIMARY:
		return list_inventory(request, limit, response, err);
	case SITE_SECONDARY:
		return list_registry(request, limit, response, err);
	case SITE_STANDALONE:
		break;
	}
	return refuse_standalone(response);
}

/* The row as this site's role keeps it. */
static int answer_row(const struct web_request *request, struct web_response *response,
		      struct err *err)
{
	const struct web_services *services = request->services;
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	json_t *object = NULL;

	if (services->role == SITE_STANDALONE)
		return refuse_standalone(response);
	if (services->role == SITE_PRIMARY)
		object = inventory_row(services->store, request->name, err);
	else if (registry_get(services->store, KIND_REPOSITORY, request->name, &row,
			      err) == 0)
		object = report_row_json(&row, now_of(services));
	if (!object)
		return api_repository_failed(response, err);
	web_answer_json(response, 200, object);
	return 0;
}

static void answer_unreadable(struct web_response *response, const struct err *err)
{
	const char *code = err->class == ERR_CORRUPT    ? "CORRUPT"
			   : err->class == ERR_CONFLICT ? "CONFLICT"
							: "CONFIG";

	web_answer_problem(response, 409, code, err->text, err->remedy);
}

static int get_refs(const struct web_request *request, struct web_response *response,
		    struct err *err)
{
	AUTO_NOTICED struct noticed noticed = { 0 };

	if (!api_needs_role(request, SITE_PRIMARY, response))
		return 0;
	if (name_check(request->name, err) != 0)
		return -1;
	if (notice_compare(request->services->notice, request->name, &noticed, err) !=
	    0) {
		if (err->class != ERR_CORRUPT && err->class != ERR_CONFLICT &&
		    err->class != ERR_CONFIG)
			return api_repository_failed(response, err);
		answer_unreadable(response, err);
		return 0;
	}
	response->content_type = "application/x-refrelay-refs";
	refs_answer(&noticed, &response->body);
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

struct wish {
	const char *name;
	unsigned wishes;
};

static int ask_for(struct store_tx *tx, void *arg, struct err *err)
{
	const struct wish *wish = arg;
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	int found = registry_get_in(tx, KIND_REPOSITORY, wish->name, &row, err);

	if (found < 0)
		return -1;
	if (found == 0)
		return err_set(err, ERR_MISSING, "there is no repository \"%s\"",
			       wish->name);
	const struct registry_move move = {
		.id = row.id,
		.event = REGISTRY_ASKED, /* whatever there is: at once */
		.wishes = wish->wishes,
	};
	return registry_move_in(tx, &move, err) < 0 ? -1 : 0;
}

static int ask_registry(const struct web_request *request, unsigned wishes,
			struct web_response *response, struct err *err)
{
	const struct web_services *services = request->services;
	struct wish wish = { request->name, wishes };

	if (store_write(services->store, ask_for, &wish, err) != 0)
		return api_repository_failed(response, err);
	pull_wake(services->pull);
	return answer_row(request, response, err);
}

static int post_sync(const struct web_request *request, struct web_response *response,
		     struct err *err)
{
	if (!api_needs_role(request, SITE_SECONDARY, response))
		return 0;
	return ask_registry(request, 0, response, err);
}

static int post_resync(const struct web_request *request, struct web_response *response,
		       struct err *err)
{
	if (!api_needs_role(request, SITE_SECONDARY, response))
		return 0;
	return ask_registry(request, REGISTRY_WISH_RECHECK, response, err);
}

/* One that was verified a moment ago is not verified again: its row is the answer. */
static int reverify_origin(const struct web_request *request,
			   struct web_response *response, struct err *err)
{
	const struct web_services *services = request->services;

	if (verify_origin_ask(services->store, request->name, REVERIFY_AT_LEAST_MS,
			      err) == 0)
		verify_origin_wake(services->verify_origin);
	else if (err->class != ERR_BUSY)
		return api_repository_failed(response, err);
	return answer_row(request, response, err);
}

/* What was proved of the copy is so no longer: anew, at once. */
static int reverify_copy(const struct web_request *request, struct web_response *response,
			 struct err *err)
{
	const struct web_services *services = request->services;
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct registry_move move = { .event = REGISTRY_SUPERSEDED };

	if (registry_get(services->store, KIND_REPOSITORY, request->name, &row, err) != 0)
		return api_repository_failed(response, err);
	if (row.state != REGISTRY_SYNCED)
		return err_set(err, ERR_CONFLICT,
			       "%s is %s: only what is synced can be verified again",
			       row.name, registry_state_name(row.state));
	move.id = row.id;
	if (registry_move(services->store, &move, err) != 0)
		return api_repository_failed(response, err);
	pull_wake(services->pull);
	return answer_row(request, response, err);
}

/* Between sites it is asked of primaries only: what a secondary does is its operator's.
 */
static int post_reverify(const struct web_request *request, struct web_response *response,
			 struct err *err)
{
	if (request->services->role == SITE_PRIMARY)
		return reverify_origin(request, response, err);
	if (!api_needs_role(request, SITE_SECONDARY, response))
		return 0;
	if (!request->site[0])
		return reverify_copy(request, response, err);
	web_answer_problem(response, 403, "FORBIDDEN",
			   "only an operator may ask for this",
			   "send an operator's token");
	return 0;
}

const struct web_route web_repository_routes[] = {
	{ "GET", "/api/v1/status", WEB_READER, WEB_BODY_NONE, get_status },
	{ "GET", "/api/v1/repositories", WEB_READER, WEB_BODY_NONE, get_repositories },
	{ "GET", "/api/v1/repositories/{name}", WEB_READER, WEB_BODY_NONE, answer_row },
	{ "GET", "/api/v1/repositories/{name}/refs", WEB_SITE, WEB_BODY_NONE, get_refs },
	{ "POST", "/api/v1/repositories/{name}/delta", WEB_SITE, WEB_BODY_MEMORY,
	  post_delta },
	{ "POST", "/api/v1/repositories/{name}/sync", WEB_OPERATOR, WEB_BODY_MEMORY,
	  post_sync },
	{ "POST", "/api/v1/repositories/{name}/resync", WEB_OPERATOR, WEB_BODY_MEMORY,
	  post_resync },
	{ "POST", "/api/v1/repositories/{name}/reverify", WEB_SITE, WEB_BODY_MEMORY,
	  post_reverify },
	{ 0 },
};
