/*
 * Events: a secondary reads them and waits for them, a webhook tells where to look.
 */
#include "base/clock.h"
#include "base/log.h"
#include "web/api.h"

#define WAIT_MAX_S 55
#define REPORTED_MAX 1000
#define BODY_MAX (1u << 20)

struct reading {
	struct event_question question;
	enum event_read how;
	event_list events;
	struct event_ends ends;
};

static int read_question(const struct web_request *request,
			 struct event_question *question, struct err *err)
{
	uint64_t wait_s = 0;

	*question = (struct event_question){ .stop = request->stop };
	if (web_query_number(request, "after", INT64_MAX, &question->after, err) != 0 ||
	    web_query_number(request, "wait", WAIT_MAX_S, &wait_s, err) != 0 ||
	    api_limit(request, &question->limit, err) != 0)
		return -1;
	question->wait_ms = (int64_t)wait_s * 1000;
	question->mark = question->after > 0 ? web_query(request, "mark") : NULL;
	return 0;
}

/* What a secondary says of itself is for people's eyes: that it cannot be kept does not
 * cost it its events. A request with neither report nor position may be of a command,
 * such as check, while its node is dead. */
static void keep_report(const struct web_request *request, uint64_t after)
{
	struct followers *followers = request->services->followers;
	const char *report = web_header(request, WIRE_REPORT);
	struct err err;

	if (!request->site[0])
		return;
	if (followers && (report || web_query(request, "after")))
		followers_seen(followers, request->site, report);
	if (!report)
		return;
	if (followers_record(request->services->store, request->site, after, report,
			     &err) != 0)
		log_warn("secondary.report_not_kept", LOG_TEXT("peer", request->site),
			 LOG_ERR(&err));
	else if (followers)
		followers_told(followers, request->site);
}

static int read_events(const struct web_request *request, struct reading *reading,
		       struct err *err)
{
	bool from_oldest = !web_query(request, "after");
	int tries = 0;

	/* Only the answer tells which event is the oldest, and by the next try it may
	 * have been dropped. */
	do {
		if (tries > 0)
			reading->question.after = reading->ends.first - 1;
		event_list_clear(&reading->events);
		if (event_log_read(request->services->events, &reading->question,
				   &reading->how, &reading->events, &reading->ends,
				   err) != 0)
			return -1;
	} while (from_oldest && reading->how == EVENTS_GONE && tries++ < 3);
	return 0;
}

/* Its position is of this very timeline, and yet not in the log. Generations would count
 * a second time as well, so all must get another timeline before it compares. */
static bool proves_rollback(const struct web_request *request,
			    const struct reading *reading)
{
	const char *timeline = web_query(request, "timeline");

	return reading->how == EVENTS_OTHER_TIMELINE && request->site[0] && timeline &&
	       strcmp(timeline, reading->ends.timeline) == 0;
}

static int read_and_judge(const struct web_request *request, struct reading *reading,
			  struct err *err)
{
	char timeline[TIMELINE_SIZE];

	if (read_events(request, reading, err) != 0)
		return -1;
	if (!proves_rollback(request, reading))
		return 0;
	memcpy(timeline, reading->ends.timeline, sizeof(timeline));
	if (event_log_went_back(request->services->events, timeline, err) != 0)
		return -1;
	if (request->services->watch)
		watch_wake(request->services->watch); /* no inventory before a scan */
	return read_events(request, reading, err);
}

static void web_events_add_headers(const struct event_ends *ends,
				   struct web_response *response)
{
	char last[WIRE_LAST_EVENT_SIZE], now[CLOCK_TEXT_SIZE];

	wire_ends_render(ends, last);
	clock_format(clock_wall_ms(), now);
	web_add_header(response, WIRE_TIMELINE, "%s", ends->timeline);
	web_add_header(response, WIRE_LAST_EVENT, "%s", last);
	web_add_header(response, WIRE_TIME, "%s", now);
}

static void answer_events(const struct reading *reading, struct web_response *response)
{
	static const char remedy[] = "compare the whole inventory, then go on after the "
				     "event that was newest before";

	web_events_add_headers(&reading->ends, response);
	if (reading->how == EVENTS_GONE) {
		web_answer_problem(response, 410, WIRE_EVENTS_GONE,
				   "the events after that one are no longer kept",
				   remedy);
		return;
	}
	if (reading->how == EVENTS_OTHER_TIMELINE) {
		web_answer_problem(response, 410, WIRE_OTHER_TIMELINE,
				   "that event is not in this log", remedy);
		return;
	}
	response->content_type = "application/x-ndjson";
	wire_events_render(&reading->events, &response->body);
}

static int web_events_get(const struct web_request *request,
			  struct web_response *response, struct err *err)
{
	struct reading reading = { 0 };
	int result;

	if (!api_needs_role(request, SITE_PRIMARY, response))
		return 0;
	if (read_question(request, &reading.question, err) != 0)
		return -1;
	keep_report(request, reading.question.after);
	result = read_and_judge(request, &reading, err);
	if (result == 0)
		answer_events(&reading, response);
	event_list_clear(&reading.events);
	return result;
}

/* The id of the event is appended, null when nothing had changed. A repository that is
 * gone is a change like any other, once. */
static int web_events_observe(const struct web_request *request, const json_t *reported,
			      json_t *ids, struct err *err)
{
	struct notice *notice = request->services->notice;
	AUTO_NOTICED struct noticed noticed = { 0 };
	AUTO_STR struct str place = STR_INIT;
	AUTO_FREE char *name = NULL;

	if (json_get_bytes(reported, "name", &place, err) != 0) {
		err->class = ERR_CONFIG;
		return -1;
	}
	name = notice_name_of(notice, place.data, err);
	if (!name)
		return -1;
	if (notice_compare_hint(notice, name, &noticed, err) != 0 &&
	    !(err->class == ERR_MISSING && noticed.is_changed))
		return -1;
	json_array_append_new(ids, noticed.is_changed
					   ? json_integer((json_int_t)noticed.event.id)
					   : json_null());
	return 0;
}

/* All are looked at; the first failure is the answer, so that who told tells again. */
static int web_events_observe_all(const struct web_request *request, const json_t *list,
				  json_t *ids, struct err *err)
{
	struct err other;
	int result = 0;

	if (json_array_size(list) > REPORTED_MAX)
		return err_set(err, ERR_CONFIG, "more than %d events in one request",
			       REPORTED_MAX);
	for (size_t i = 0; i < json_array_size(list); i++)
		if (web_events_observe(request, json_array_get(list, i), ids,
				       result == 0 ? err : &other) != 0)
			result = -1;
	return result;
}

static int post_events(const struct web_request *request, struct web_response *response,
		       struct err *err)
{
	json_auto_t *reported = NULL;
	json_auto_t *ids = json_array();
	const json_t *list;
	int result;

	if (!request->services->notice &&
	    !api_needs_role(request, SITE_PRIMARY, response))
		return 0;
	reported =
		json_parse_object(request->body->data, request->body->len, BODY_MAX, err);
	if (!reported) {
		err->class = ERR_CONFIG;
		return -1;
	}
	list = json_object_get(reported, "events");
	result = json_is_array(list) ? web_events_observe_all(request, list, ids, err)
				     : web_events_observe(request, reported, ids, err);
	if (result != 0)
		return api_repository_failed(response, err);
	json_t *answer = json_object();
	json_put(answer, "events", json_incref(ids));
	web_answer_json(response, 200, answer);
	return 0;
}

const struct web_route web_event_routes[] = {
	{ "GET", "/api/v1/events{?after,limit,mark,timeline,wait}", WEB_SITE,
	  WEB_BODY_NONE, web_events_get },
	{ "POST", "/api/v1/events", WEB_OPERATOR, WEB_BODY_MEMORY, post_events },
	{ 0 },
};
