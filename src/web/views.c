/*
 * What the page for people asks for beside the status and the rows: who asks, what runs,
 * what was done of late, how the lag has been, which mirrors there are. All of it may be
 * read by whoever may read the API.
 */
#include "base/clock.h"
#include "mirror/lfs_lack.h"
#include "mirror/marks.h"
#include "mirror/mirrors.h"
#include "pull/history.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "report/lag_curve.h"
#include "report/report_mirrors.h"
#include "web/api.h"
#include "web/rows.h"

#define HISTORY_MOST 200
#define REFS_MOST 50
#define RUNNING_MOST 200

static int get_who(const struct web_request *request, struct web_response *response,
		   struct err *err)
{
	const char *name = request->site[0] ? request->site : request->user;
	json_t *object = json_object(), *rights = json_array();

	(void)err;
	json_array_append_new(rights, json_string("read"));
	if (request->may_operate)
		json_array_append_new(rights, json_string("operate"));
	json_put_text(object, "name", name[0] ? name : NULL);
	json_put(object, "rights", rights);
	json_put_text(object, "site", request->services->site);
	json_put_text(object, "role", site_role_name(request->services->role));
	json_put_text(object, "program", REFRELAY_VERSION);
	web_answer_json(response, 200, object);
	return 0;
}

static int get_lag(const struct web_request *request, struct web_response *response,
		   struct err *err)
{
	uint64_t minutes = LAG_CURVE_MINUTES;
	json_t *object;

	if (web_query_number(request, "minutes", LAG_CURVE_MINUTES, &minutes, err) != 0)
		return -1;
	if (minutes == 0)
		return err_set(err, ERR_CONFIG, "minutes is 1 to %d", LAG_CURVE_MINUTES);
	if (lag_curve_json(request->services->store, clock_wall_ms(), (int64_t)minutes,
			   &object, err) != 0)
		return -1;
	web_answer_json(response, 200, object);
	return 0;
}

/* That of mirrors at a primary or a standalone site. NULL: nothing is brought here. */
static struct pull *views_pull(const struct web_services *services)
{
	return services->pull ? services->pull : services->mirror_pull;
}

static int get_running(const struct web_request *request, struct web_response *response,
		       struct err *err)
{
	struct pull *pull = views_pull(request->services);
	struct history *history = pull ? pull_history(pull) : NULL;
	json_t *object = json_object();

	(void)err;
	json_put(object, "running",
		 history ? history_running_json(history, RUNNING_MOST) : json_array());
	json_put(object, "rates", history ? history_rates_json(history) : json_null());
	web_answer_json(response, 200, object);
	return 0;
}

/* Only a primary knows which refs changed when. */
static int views_put_refs(const struct web_request *request, json_t *object,
			  struct err *err)
{
	AUTO_EVENTS event_list events = { 0 };
	json_t *array;

	if (request->services->role != SITE_PRIMARY)
		return 0;
	if (event_log_latest(request->services->store, request->name, REFS_MOST, &events,
			     err) != 0)
		return -1;
	array = json_array();
	for (size_t i = 0; i < events.count; i++)
		json_array_append_new(array, wire_event_json(&events.items[i]));
	json_put(object, "events", array);
	return 0;
}

/* Also of a repository without a row: it may have gone since. */
static int get_history(const struct web_request *request, struct web_response *response,
		       struct err *err)
{
	struct pull *pull = views_pull(request->services);
	struct history *history = pull ? pull_history(pull) : NULL;
	const char *kind = request->services->pull ? KIND_REPOSITORY : KIND_MIRROR;
	json_t *object = json_object();

	json_put_text(object, "name", request->name);
	json_put(object, "history",
		 history ? history_of_json(history, kind, request->name, HISTORY_MOST)
			 : json_array());
	if (views_put_refs(request, object, err) != 0) {
		json_decref(object);
		return -1;
	}
	web_answer_json(response, 200, object);
	return 0;
}

static json_t *views_watchers_json(const struct web_services *services,
				   const struct mirror *mirror)
{
	json_t *array = json_array();
	const struct watcher *watcher;

	for (size_t at = 0;
	     (watcher = mirrors_next_watcher(services->mirrors, mirror, &at)) != NULL;) {
		json_t *object = json_object();
		AUTO_FREE char *message = NULL;
		int64_t refused_at = 0;
		if (credential_mark_read(services->store, mirror->name, watcher->name,
					 &refused_at, &message, ERR_IGNORED) != 0)
			refused_at = 0;
		json_put_text(object, "name", watcher->name);
		json_put_time(object, "refused_at", refused_at);
		if (message)
			json_put_message(object, "failure", message);
		json_array_append_new(array, object);
	}
	return array;
}

static int views_mirror_json(const struct web_services *services,
			     const struct mirror *mirror, json_t **object,
			     struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	AUTO_LFS_LACK struct lfs_lack lack = { 0 };
	int found = registry_get(services->store, KIND_MIRROR, mirror->name, &row, err);
	int has_lfs = 0;

	if (found != 0 && err->class != ERR_MISSING)
		return -1;
	if (mirror->has_lfs)
		has_lfs = lfs_lack_get(services->store, mirror->name, &lack, err);
	if (has_lfs < 0)
		return -1;
	*object = found == 0 ? report_row_json(&row, clock_wall_ms()) : json_object();
	json_put_text(*object, "name", mirror->name);
	json_put_message(*object, "url", mirror->url);
	json_put(*object, "watchers", views_watchers_json(services, mirror));
	if (found == 0 && has_lfs > 0 && report_mirror_is_lacking(&row, &lack))
		report_mirror_put_lacking(&lack, *object);
	return 0;
}

/* What no configuration and no list has any more. */
static json_t *views_left_mirror_json(const struct registry_row *row)
{
	json_t *object = report_row_json(row, clock_wall_ms());

	json_put(object, "url", json_null());
	json_put(object, "watchers", json_array());
	return object;
}

/* Those that wait for a person are counted, so they are shown. One more than the limit
 * tells whether there is a next page. */
static int views_read_left_mirrors(const struct web_request *request, size_t limit,
				   registry_rows *left, struct err *err)
{
	const struct registry_filter filter = { .kind = KIND_MIRROR,
						.after = web_query(request, "after"),
						.limit = limit + 1,
						.state = REGISTRY_ANY,
						.held_only = true,
						.gone_only = true };

	return registry_list(request->services->store, &filter, left, err);
}

static const struct mirror *views_next_mirror(const struct web_request *request,
					      const struct mirror *mirror)
{
	const char *after = web_query(request, "after");

	if (!request->services->mirrors)
		return NULL;
	while ((mirror = mirrors_next(request->services->mirrors, mirror)) != NULL)
		if (!after || strcmp(mirror->name, after) > 0)
			break;
	return mirror;
}

/* One of them may be NULL: then the other comes first. */
static int views_compare(const struct mirror *mirror, const struct registry_row *row)
{
	if (!mirror || !row)
		return mirror ? -1 : 1;
	return strcmp(mirror->name, row->name);
}

/* Both are in byte order. */
static int views_add_mirrors(const struct web_request *request, size_t limit,
			     json_t *page, struct err *err)
{
	AUTO_REGISTRY_ROWS registry_rows left = { 0 };
	const struct mirror *mirror = views_next_mirror(request, NULL);
	json_t *array = json_object_get(page, "mirrors"), *object;

	if (views_read_left_mirrors(request, limit, &left, err) != 0)
		return -1;
	for (size_t at = 0; mirror || at < left.count;) {
		const struct registry_row *row = at < left.count ? &left.items[at] : NULL;
		const int order = views_compare(mirror, row);
		if (json_array_size(array) == limit) {
			object = json_array_get(array, limit - 1);
			json_put(page, "next",
				 json_incref(json_object_get(object, "name")));
			return 0;
		}
		if (order > 0)
			object = views_left_mirror_json(row);
		else if (views_mirror_json(request->services, mirror, &object, err) != 0)
			return -1;
		json_array_append_new(array, object);
		at += order >= 0;
		mirror = order <= 0 ? views_next_mirror(request, mirror) : mirror;
	}
	return 0;
}

static int get_mirrors(const struct web_request *request, struct web_response *response,
		       struct err *err)
{
	json_t *page = json_object();
	size_t limit;

	json_put(page, "mirrors", json_array());
	if (api_limit(request, &limit, err) != 0 ||
	    views_add_mirrors(request, limit, page, err) != 0) {
		json_decref(page);
		return -1;
	}
	web_answer_json(response, 200, page);
	return 0;
}

const struct web_route web_view_routes[] = {
	{ "GET", "/api/v1/whoami", WEB_READER, WEB_BODY_NONE, get_who },
	{ "GET", "/api/v1/lag{?minutes}", WEB_READER, WEB_BODY_NONE, get_lag },
	{ "GET", "/api/v1/running", WEB_READER, WEB_BODY_NONE, get_running },
	{ "GET", "/api/v1/mirrors{?after,limit}", WEB_READER, WEB_BODY_NONE,
	  get_mirrors },
	{ "GET", "/api/v1/repositories/{name}/history", WEB_READER, WEB_BODY_NONE,
	  get_history },
	{ 0 },
};
