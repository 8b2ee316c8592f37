/*
 * Push replication: the cluster's queue, and orders: to push, to try again, to forget.
 */
#include "push/push.h"

#include "push/act.h"
#include "push/push_events.h"
#include "push/queue_view.h"
#include "push/select.h"
#include "web/answer.h"
#include "web/api.h"

#define TEXTS_MAX 1000
#define BODY_MAX (1u << 20)

/* False: this site pushes nowhere, and the response says so. */
static bool needs_push(const struct web_request *request, struct web_response *response)
{
	if (request->services->tasks && request->services->push)
		return true;
	web_answer_problem(response, 409, "NO_REMOTES", "this site pushes nowhere",
			   "add a section [remote \"NAME\"] to its configuration");
	return false;
}

/* ?limit=: of each list only so many of the first; all that there are if it is not said.
 */
static void cut_queue(json_t *object, size_t limit)
{
	static const char *const lists[] = { "queue", "given_up" };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		json_t *list = json_object_get(object, lists[i]);
		while (json_array_size(list) > limit)
			json_array_remove(list, json_array_size(list) - 1);
	}
}

static int get_queue(const struct web_request *request, struct web_response *response,
		     struct err *err)
{
	const struct web_services *services = request->services;
	struct push_settings *settings;
	struct queue_view view;
	json_t *object;
	size_t limit;
	int result;

	if (!needs_push(request, response))
		return 0;
	if (api_limit(request, &limit, err) != 0)
		return -1;
	settings = push_settings_of(services->push);
	result = queue_view_read(services->tasks, services->push_leases, settings, &view,
				 err);
	push_settings_unref(settings);
	if (result != 0)
		return -1;
	object = queue_view_json(&view);
	if (web_query(request, "limit"))
		cut_queue(object, limit);
	web_answer_json(response, 200, object);
	queue_view_clear(&view);
	return 0;
}

static void web_push_answer_no_events(enum event_read how, struct web_response *response)
{
	bool is_gone = how == EVENTS_GONE;

	web_answer_problem(response, 410,
			   is_gone ? WIRE_EVENTS_GONE : WIRE_OTHER_TIMELINE,
			   is_gone ? "the events after that one are no longer kept"
				   : "that event is not in this log",
			   "read without \"after\" all that are kept, and compare "
			   "whatever depends on others");
}

static int web_push_get_events(const struct web_request *request,
			       struct web_response *response, struct err *err)
{
	struct push_events_page page = { .lines = &response->body };

	if (!needs_push(request, response))
		return 0;
	if (web_query_number(request, "after", INT64_MAX, &page.after, err) != 0 ||
	    api_limit(request, &page.limit, err) != 0)
		return -1;
	if (!web_query(request, "after"))
		page.after = EVENTS_FROM_OLDEST;
	if (push_events_read(request->services->data, &page, err) != 0)
		return -1;
	if (page.how == EVENTS_READ)
		response->content_type = "application/x-ndjson";
	else
		web_push_answer_no_events(page.how, response);
	return 0;
}

/* Borrowed from the body; a NULL that is not counted is behind the last. */
typedef VEC(const char *) texts;

enum verb { START = 1, RETRY = 2, DISCARD = 4 };

struct order {
	enum verb verb;
	texts projects, keys, remotes;
	const char *url;
	bool takes_all, is_now, is_forced, is_dry, is_orphans, is_unreadable;
};

static int web_push_refuse_member(struct err *err, const char *key, const char *wanted)
{
	return err_set(err, ERR_CONFIG, "\"%s\" is not %s", key, wanted);
}

static int web_push_read_texts(const char *key, const json_t *array, texts *list,
			       struct err *err)
{
	if (!json_is_array(array) || json_array_size(array) == 0 ||
	    json_array_size(array) > TEXTS_MAX)
		return web_push_refuse_member(err, key, "a list of 1 to 1000 texts");
	for (size_t i = 0; i < json_array_size(array); i++) {
		const json_t *one = json_array_get(array, i);
		if (!json_is_string(one))
			return web_push_refuse_member(err, key,
						      "a list of 1 to 1000 texts");
		vec_add(list, json_string_value(one));
	}
	vec_add(list, NULL);
	list->count--;
	return 0;
}

static int read_flag(const char *key, const json_t *value, bool *flag, struct err *err)
{
	if (!json_is_boolean(value))
		return web_push_refuse_member(err, key, "true or false");
	*flag = json_is_true(value);
	return 0;
}

/* A misspelt member could make more be done than was meant. */
static int web_push_read_member(const char *key, const json_t *value, struct order *order,
				struct err *err)
{
	const struct {
		const char *key;
		unsigned verbs; /* that know it */
		bool *flag;
		texts *list; /* if it is no flag; neither: the URL */
	} members[] = {
		{ "all", START | RETRY | DISCARD, &order->takes_all, NULL },
		{ "now", START, &order->is_now, NULL },
		{ "force", RETRY, &order->is_forced, NULL },
		{ "dry_run", DISCARD, &order->is_dry, NULL },
		{ "orphans", DISCARD, &order->is_orphans, NULL },
		{ "unreadable", DISCARD, &order->is_unreadable, NULL },
		{ "projects", START, NULL, &order->projects },
		{ "keys", RETRY | DISCARD, NULL, &order->keys },
		{ "remotes", START | RETRY | DISCARD, NULL, &order->remotes },
		{ "url", START, NULL, NULL },
	};
	size_t i = 0;

	while (i < ARRAY_SIZE(members) &&
	       (!(members[i].verbs & order->verb) || strcmp(key, members[i].key) != 0))
		i++;
	if (i == ARRAY_SIZE(members))
		return web_push_refuse_member(err, key, "known");
	if (members[i].flag)
		return read_flag(key, value, members[i].flag, err);
	if (members[i].list)
		return web_push_read_texts(key, value, members[i].list, err);
	if (!json_is_string(value))
		return web_push_refuse_member(err, key, "a text");
	order->url = json_string_value(value);
	return 0;
}

/* As the command line has it: all that is to be forgotten is never said by leaving
 * something out. */
static bool decision_is_whole(const struct order *order)
{
	bool has_keys = order->keys.count > 0, takes_all = order->takes_all;
	bool has_remotes = order->remotes.count > 0;

	if (has_keys && takes_all)
		return false;
	if (order->verb == RETRY)
		return has_keys || takes_all || has_remotes;
	if (order->is_unreadable)
		return !has_keys && !takes_all && !has_remotes && !order->is_orphans;
	if (order->is_orphans)
		return !has_keys && !takes_all;
	return has_keys || (takes_all && has_remotes);
}

static int order_read(json_t *body, struct order *order, struct err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach(body, key, value)
	{
		if (web_push_read_member(key, value, order, err) != 0)
			return -1;
	}
	if (order->verb == START)
		return order->takes_all != (order->projects.count > 0)
			       ? 0
			       : web_push_refuse_member(
					 err, "all",
					 "the one of \"all\" and \"projects\" to be set");
	if (!decision_is_whole(order))
		return err_set(err, ERR_CONFIG,
			       "it is not said, or said twice, what is to be %s",
			       order->verb == RETRY ? "retried" : "discarded");
	return 0;
}

static int web_push_start(const struct web_request *request, const struct order *order,
			  const struct push_settings *settings, text_list *keys,
			  struct err *err)
{
	const struct push_start_filter filter = {
		.remotes = order->remotes.count > 0 ? order->remotes.items : NULL,
		.url = order->url,
		.now = order->is_now,
	};
	text_list names = { 0 };
	int result = push_select(request->services->root, order->projects.items,
				 order->projects.count, &names, err);

	if (result == 0)
		result = push_start_repositories(request->services->tasks, settings,
						 &names, &filter, keys, err);
	text_list_clear(&names);
	return result;
}

static void answer_keys(const text_list *keys, struct web_response *response)
{
	json_t *object = json_object();

	json_put(object, "keys", json_texts(keys->items, keys->count));
	web_answer_json(response, 202, object);
}

static int start_and_answer(const struct web_request *request, const struct order *order,
			    struct web_response *response, struct err *err)
{
	struct push *push = request->services->push;
	struct push_settings *settings = push_settings_of(push);
	text_list keys = { 0 };
	int result = web_push_start(request, order, settings, &keys, err);

	push_settings_unref(settings);
	/* Some may be there even if others failed. */
	if (keys.count > 0 || (result != 0 && err->class != ERR_CONFIG))
		push_wake(push);
	if (result == 0 && keys.count > 0)
		answer_keys(&keys, response);
	else if (result == 0)
		web_answer_problem(response, 404, "NOTHING_TO_REPLICATE",
				   "no destination matches", "");
	text_list_clear(&keys);
	return result;
}

/*
 * What was given up, or waits for its next try: tried now, or forgotten.
 */

static void add_acted(void *arg, const struct push_acted *acted)
{
	json_t *entries = arg, *object = json_object();

	json_put_text(object, "result", push_act_end_name(acted->end));
	json_put_text(object, "key", acted->key);
	json_put_text(object, "remote", acted->remote);
	json_put_text(object, "project", acted->project);
	json_put_message(object, "uri", acted->uri);
	json_put_text(object, "request", acted->request);
	json_put(object, "failure", acted->why ? json_from_err(acted->why) : json_null());
	json_array_append_new(entries, object);
}

/* Takes the entries. */
static void answer_acted(const struct push_act_result *result, json_t *entries,
			 struct web_response *response)
{
	json_t *object = json_object();

	json_put_number(object, "done", (int64_t)result->done);
	json_put_number(object, "busy", (int64_t)result->busy);
	json_put_number(object, "orphan", (int64_t)result->orphans);
	json_put(object, "unknown",
		 json_texts(result->unknown.items, result->unknown.count));
	json_put(object, "entries", entries);
	web_answer_json(response, 200, object);
}

static int refuse_unknown_key(const struct push_act_result *result, struct err *err)
{
	err_set(err, ERR_MISSING, "no such key: %s", result->unknown.items[0]);
	return err_remedy(err,
			  "see GET /api/v1/push/queue; a key needs at least %d digits",
			  PUSH_KEY_LEAST);
}

static int decision_run(const struct web_request *request, const struct order *order,
			struct queue_view *view, struct push_settings *settings,
			struct web_response *response, struct err *err)
{
	AUTO_PUSH_ACT_RESULT struct push_act_result result = { 0 };
	json_t *entries = json_array();
	const struct push_act act = {
		.tasks = request->services->tasks,
		.leases = request->services->push_leases,
		.settings = settings,
		.operation = order->verb == RETRY ? "retry" : "discard",
		.stop = request->stop,
		.keys = order->keys.items,
		.key_count = order->keys.count,
		.remotes = order->remotes.items,
		.is_forced = order->is_forced,
		.is_orphans = order->is_orphans,
		.is_dry = order->is_dry,
		.tell = add_acted,
		.arg = entries,
	};
	int done = order->verb == RETRY ? push_act_retry(&act, view, &result, err)
					: push_act_discard(&act, view, &result, err);

	/* Some may be done even if others failed. */
	if (result.done > 0 && !order->is_dry)
		push_wake(request->services->push);
	if (done == 0 && json_array_size(entries) == 0 && result.unknown.count > 0)
		done = refuse_unknown_key(&result, err);
	if (done != 0) {
		json_decref(entries);
		return -1;
	}
	answer_acted(&result, entries, response);
	return 0;
}

static int decision_check_remotes(const struct order *order,
				  const struct queue_view *view,
				  const struct push_settings *settings, struct err *err)
{
	for (size_t i = 0; i < order->remotes.count; i++) {
		const char *remote = order->remotes.items[i];
		if (queue_view_knows_remote(view, settings, remote))
			continue;
		err_set(err, ERR_MISSING, "no such remote: \"%s\"", remote);
		return err_remedy(err, "see remotes of GET /api/v1/status");
	}
	return 0;
}

static int drop_unreadable(const struct web_request *request, const struct order *order,
			   const struct queue_view *view, struct web_response *response,
			   struct err *err)
{
	struct push_act_result result = {
		.done = view->unreadable.count - view->unreadable.kept,
	};

	if (!order->is_dry &&
	    task_store_drop_unreadable(request->services->tasks, &result.done, err) != 0)
		return -1;
	answer_acted(&result, json_array(), response);
	return 0;
}

static int decide(const struct web_request *request, const struct order *order,
		  struct web_response *response, struct err *err)
{
	const struct web_services *services = request->services;
	struct push_settings *settings = push_settings_of(services->push);
	struct queue_view view;
	int result = queue_view_read(services->tasks, services->push_leases, settings,
				     &view, err);

	if (result == 0) {
		result = decision_check_remotes(order, &view, settings, err);
		if (result == 0 && order->is_unreadable)
			result = drop_unreadable(request, order, &view, response, err);
		else if (result == 0)
			result = decision_run(request, order, &view, settings, response,
					      err);
		queue_view_clear(&view);
	}
	push_settings_unref(settings);
	return result;
}

static int obey(const struct web_request *request, struct order *order,
		const char *remedy, struct web_response *response, struct err *err)
{
	json_auto_t *body = NULL;
	int result = -1;

	if (!needs_push(request, response))
		return 0;
	body = json_parse_object(request->body->data, request->body->len, BODY_MAX, err);
	if (!body)
		err->class = ERR_CONFIG;
	if (!body || order_read(body, order, err) != 0)
		err_remedy(err, "%s", remedy);
	else
		result = order->verb == START
				 ? start_and_answer(request, order, response, err)
				 : decide(request, order, response, err);
	vec_clear(&order->projects);
	vec_clear(&order->keys);
	vec_clear(&order->remotes);
	return result;
}

static int post_start(const struct web_request *request, struct web_response *response,
		      struct err *err)
{
	return obey(request, &(struct order){ .verb = START },
		    "send {\"all\":true} or {\"projects\":[...]}, and if wanted "
		    "\"remotes\":[...], \"url\", \"now\"",
		    response, err);
}

static int post_retry(const struct web_request *request, struct web_response *response,
		      struct err *err)
{
	return obey(request, &(struct order){ .verb = RETRY },
		    "send {\"keys\":[...]}, {\"all\":true} or {\"remotes\":[...]}, and "
		    "if wanted \"force\"",
		    response, err);
}

static int post_discard(const struct web_request *request, struct web_response *response,
			struct err *err)
{
	return obey(request, &(struct order){ .verb = DISCARD },
		    "send {\"keys\":[...]}, {\"all\":true,\"remotes\":[...]}, "
		    "{\"orphans\":true} or {\"unreadable\":true}, and if wanted "
		    "\"dry_run\"",
		    response, err);
}

const struct web_route web_push_routes[] = {
	{ "GET", "/api/v1/push/queue{?limit}", WEB_READER, WEB_BODY_NONE, get_queue },
	{ "GET", "/api/v1/push/events{?after,limit}", WEB_READER, WEB_BODY_NONE,
	  web_push_get_events },
	{ "POST", "/api/v1/push/start", WEB_OPERATOR, WEB_BODY_MEMORY, post_start },
	{ "POST", "/api/v1/push/retry", WEB_OPERATOR, WEB_BODY_MEMORY, post_retry },
	{ "POST", "/api/v1/push/discard", WEB_OPERATOR, WEB_BODY_MEMORY, post_discard },
	{ 0 },
};
