/*
 * Push replication: the cluster's queue, and an order to push.
 */
#include "push/push.h"
#include "push/push_events.h"
#include "push/queue_view.h"
#include "push/select.h"
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

static int get_queue(const struct web_request *request, struct web_response *response,
		     struct err *err)
{
	const struct web_services *services = request->services;
	struct push_settings *settings;
	struct queue_view view;
	int result;

	if (!needs_push(request, response))
		return 0;
	settings = push_settings_of(services->push);
	result = queue_view_read(services->tasks, services->push_leases, settings, &view,
				 err);
	push_settings_unref(settings);
	if (result != 0)
		return -1;
	web_answer_json(response, 200, queue_view_json(&view));
	queue_view_clear(&view);
	return 0;
}

static int web_push_get_events(const struct web_request *request,
			       struct web_response *response, struct err *err)
{
	uint64_t after = 0;
	size_t limit = 0;

	if (!needs_push(request, response))
		return 0;
	if (web_query_number(request, "after", INT64_MAX, &after, err) != 0 ||
	    api_limit(request, &limit, err) != 0)
		return -1;
	response->content_type = "application/x-ndjson";
	return push_events_read(request->services->data, &after, limit, &response->body,
				err);
}

typedef VEC(const char *) texts; /* borrowed from the body */

struct order {
	texts projects, remotes; /* remotes ends in a NULL that is not counted */
	const char *url;
	bool takes_all, is_now;
};

static void order_clear(struct order *order)
{
	vec_clear(&order->projects);
	vec_clear(&order->remotes);
}

static int web_push_refuse_member(struct err *err, const char *key, const char *wanted)
{
	err_set(err, ERR_CONFIG, "\"%s\" is not %s", key, wanted);
	return err_remedy(err, "send {\"all\":true} or {\"projects\":[...]}, and if "
			       "wanted \"remotes\":[...], \"url\", \"now\"");
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

/* A misspelt member could make more be pushed than was meant. */
static int web_push_read_member(const char *key, const json_t *value, struct order *order,
				struct err *err)
{
	if (strcmp(key, "all") == 0)
		return read_flag(key, value, &order->takes_all, err);
	if (strcmp(key, "now") == 0)
		return read_flag(key, value, &order->is_now, err);
	if (strcmp(key, "projects") == 0)
		return web_push_read_texts(key, value, &order->projects, err);
	if (strcmp(key, "remotes") == 0)
		return web_push_read_texts(key, value, &order->remotes, err);
	if (strcmp(key, "url") != 0)
		return web_push_refuse_member(err, key, "known");
	if (!json_is_string(value))
		return web_push_refuse_member(err, key, "a text");
	order->url = json_string_value(value);
	return 0;
}

static int read_order(json_t *body, struct order *order, struct err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach(body, key,
			    value) if (web_push_read_member(key, value, order, err) !=
				       0) return -1;
	if (order->takes_all == (order->projects.count > 0))
		return web_push_refuse_member(
			err, "all", "the one of \"all\" and \"projects\" to be set");
	return 0;
}

static int web_push_start(const struct web_request *request, const struct order *order,
			  const struct push_settings *settings, task_keys *keys,
			  struct err *err)
{
	const struct push_start_filter filter = {
		.remotes = order->remotes.count > 0 ? order->remotes.items : NULL,
		.url = order->url,
		.now = order->is_now,
	};
	task_keys names = { 0 };
	int result = push_select(request->services->root, order->projects.items,
				 order->projects.count, &names, err);

	if (result == 0)
		result = push_start_repositories(request->services->tasks, settings,
						 &names, &filter, keys, err);
	task_keys_clear(&names);
	return result;
}

static void answer_keys(const task_keys *keys, struct web_response *response)
{
	json_t *object = json_object(), *array = json_array();

	for (size_t i = 0; i < keys->count; i++)
		json_array_append_new(array, json_string(keys->items[i]));
	json_put(object, "keys", array);
	web_answer_json(response, 202, object);
}

static int start_and_answer(const struct web_request *request, const struct order *order,
			    struct web_response *response, struct err *err)
{
	struct push *push = request->services->push;
	struct push_settings *settings = push_settings_of(push);
	task_keys keys = { 0 };
	int result = web_push_start(request, order, settings, &keys, err);

	push_settings_unref(settings);
	/* Some may be there even if others failed. */
	if (keys.count > 0 || (result != 0 && err->class != ERR_CONFIG))
		push_wake(push);
	if (result == 0 && keys.count > 0)
		answer_keys(&keys, response);
	else if (result == 0)
		web_answer_problem(response, 404, "NOTHING_TO_REPLICATE",
				   "no destination takes what was named", "");
	task_keys_clear(&keys);
	return result;
}

static int post_start(const struct web_request *request, struct web_response *response,
		      struct err *err)
{
	struct order order = { 0 };
	json_auto_t *body = NULL;
	int result;

	if (!needs_push(request, response))
		return 0;
	body = json_parse_object(request->body->data, request->body->len, BODY_MAX, err);
	if (!body) {
		err->class = ERR_CONFIG;
		return -1;
	}
	result = read_order(body, &order, err);
	if (result == 0)
		result = start_and_answer(request, &order, response, err);
	order_clear(&order);
	return result;
}

const struct web_route web_push_routes[] = {
	{ "GET", "/api/v1/push/queue", WEB_READER, WEB_BODY_NONE, get_queue },
	{ "GET", "/api/v1/push/events", WEB_READER, WEB_BODY_NONE, web_push_get_events },
	{ "POST", "/api/v1/push/start", WEB_OPERATOR, WEB_BODY_MEMORY, post_start },
	{ 0 },
};
