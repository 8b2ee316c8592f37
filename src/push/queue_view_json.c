#include "push/queue_view.h"

static json_t *texts_json(char *const *texts, size_t count)
{
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(array, json_string(texts[i]));
	return array;
}

static json_t *requests_json(const struct queued_uri *uri)
{
	json_t *array = json_array();

	for (int i = 0; i < URI_REQUESTS; i++)
		if (uri->is_requested[i])
			json_array_append_new(array, json_string(uri_request_word(
							     (enum uri_request)i)));
	return array;
}

static void queue_view_json_put_failure(json_t *object, const struct err *failure)
{
	json_put(object, "failure",
		 failure->class == ERR_NONE ? json_null() : json_from_err(failure));
}

json_t *queued_uri_json(const struct queued_uri *uri)
{
	json_t *object = json_object();

	json_put_text(object, "state", queued_uri_word(uri));
	json_put_text(object, "key", uri->uri_key);
	json_put_text(object, "remote", uri->remote);
	json_put_text(object, "project", uri->project);
	json_put_text(object, "uri", uri->uri);
	json_put(object, "refs", texts_json(uri->refs.items, uri->refs.count));
	json_put(object, "tasks", texts_json(uri->keys.items, uri->keys.count));
	json_put_number(object, "waiting", (int64_t)uri->waiting);
	json_put_number(object, "running", (int64_t)uri->running);
	json_put(object, "requests", requests_json(uri));
	json_put_text(object, "node", uri->node[0] ? uri->node : NULL);
	json_put_time(object, "since", uri->since);
	json_put_time(object, "running_since", uri->running_since);
	json_put_time(object, "next_at", uri->next_at);
	json_put_number(object, "failures", (int64_t)uri->failures);
	json_put_time(object, "failing_since", uri->failing_since);
	queue_view_json_put_failure(object, &uri->failure);
	return object;
}

static json_t *failed_refs_json(const ref_failures *refs)
{
	json_t *array = json_array();

	for (size_t i = 0; i < refs->count; i++) {
		json_t *object = json_object();
		json_put_text(object, "ref", refs->items[i].ref);
		if (refs->items[i].text)
			json_put_message(object, "text", refs->items[i].text);
		else
			json_put(object, "text", json_null());
		json_array_append_new(array, object);
	}
	return array;
}

static json_t *letter_json(const struct dead_letter *letter)
{
	json_t *object = json_object();

	json_put_text(object, "key", letter->key);
	json_put_text(object, "remote", letter->task.remote);
	json_put_text(object, "project", letter->task.project);
	json_put_text(object, "uri", letter->task.uri);
	json_put(object, "refs",
		 texts_json(letter->task.refs.items, letter->task.refs.count));
	json_put(object, "failed_refs", failed_refs_json(&letter->refs));
	json_put_time(object, "since", letter->since);
	json_put_time(object, "failed_at", letter->failed_at);
	queue_view_json_put_failure(object, &letter->why);
	return object;
}

json_t *queue_view_json(const struct queue_view *view)
{
	json_t *object = json_object(), *uris = json_array(), *letters = json_array();

	for (size_t i = 0; i < view->uris.count; i++)
		json_array_append_new(uris, queued_uri_json(&view->uris.items[i]));
	for (size_t i = 0; i < view->letters.count; i++)
		json_array_append_new(letters, letter_json(&view->letters.items[i]));
	json_put_time(object, "at", view->now);
	json_put(object, "nodes", texts_json(view->nodes.items, view->nodes.count));
	json_put(object, "queue", uris);
	json_put(object, "given_up", letters);
	json_put_number(object, "unreadable", (int64_t)view->unreadable.count);
	if (view->unreadable.count > 0)
		json_put_message(object, "unreadable_example", view->unreadable.example);
	else
		json_put(object, "unreadable_example", json_null());
	return object;
}
