/*
 * The remotes, each with what there is to do for it, much as Gerrit's `replication list`
 * prints it; without passwords.
 */
#include "cli/push.h"
#include "push/pattern.h"

static bool is_listed(const struct push_call *call, const char *name)
{
	for (size_t i = 0; i < call->remotes.count; i++)
		if (strstr(name, call->remotes.items[i]))
			return true;
	return call->remotes.count == 0;
}

static bool push_list_is_of_remote(const struct queued_uri *uri,
				   const struct push_remote *remote, bool is_running)
{
	return uri->is_running == is_running && strcmp(uri->remote, remote->name) == 0;
}

static void print_task(const struct push_call *call, const struct queued_uri *uri)
{
	AUTO_STR struct str refs = STR_INIT;
	AUTO_STR struct str line = STR_INIT;

	push_add_refs(call->push.settings, &uri->refs, &refs);
	if (uri->failures > 0)
		str_addf(&line, "(retry %" PRIu64 ") ", uri->failures);
	str_addf(&line, "[%.*s] push %s [%s]", PUSH_KEY_SHOWN, uri->uri_key, uri->uri,
		 refs.data);
	if (uri->is_running && uri->node[0])
		str_addf(&line, " on %s", uri->node);
	push_print("  %s", line.data);
}

static void print_tasks(const struct push_call *call, const struct queue_view *view,
			const struct push_remote *remote, bool is_running)
{
	size_t count = 0;

	for (size_t i = 0; i < view->uris.count; i++)
		count += push_list_is_of_remote(&view->uris.items[i], remote, is_running);
	push_print("%s: %zu", is_running ? "In flight" : "Pending", count);
	for (size_t i = 0; i < view->uris.count && call->is_detailed; i++)
		if (push_list_is_of_remote(&view->uris.items[i], remote, is_running))
			print_task(call, &view->uris.items[i]);
}

static void print_patterns(const char *label, const name_patterns *patterns)
{
	for (size_t i = 0; i < patterns->count; i++) {
		AUTO_STR struct str text = STR_INIT;
		name_pattern_show(patterns->items[i], &text);
		push_print("%s: %s", label, text.data);
	}
}

static void print_detail(const struct push_remote *remote)
{
	for (size_t i = 0; i < remote->admin_urls.count; i++)
		push_print("AdminUrl: %s", remote->admin_urls.items[i].template);
	print_patterns("Project", &remote->projects);
	print_patterns("ExcludeProject", &remote->excluded_projects);
	for (size_t i = 0; i < remote->specs.count; i++) {
		const struct push_spec *spec = &remote->specs.items[i];
		push_print("Push: %s%s:%s", spec->force ? "+" : "", spec->src, spec->dst);
	}
	print_patterns("ExcludedRefs", &remote->excluded_refs);
}

static void print_remote(const struct push_call *call, const struct queue_view *view,
			 const struct push_remote *remote)
{
	push_print("Remote: %s", remote->name);
	for (size_t i = 0; i < remote->urls.count; i++)
		push_print("Url: %s", remote->urls.items[i].template);
	if (call->is_detailed)
		print_detail(remote);
	print_tasks(call, view, remote, true);
	print_tasks(call, view, remote, false);
	puts("");
}

static json_t *patterns_json(const name_patterns *patterns)
{
	json_t *array = json_array();

	for (size_t i = 0; i < patterns->count; i++) {
		AUTO_STR struct str text = STR_INIT;
		name_pattern_show(patterns->items[i], &text);
		json_array_append_new(array, json_string(text.data));
	}
	return array;
}

static json_t *urls_json(const struct push_url *urls, size_t count)
{
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(array, json_string(urls[i].template));
	return array;
}

static json_t *specs_json(const struct push_remote *remote)
{
	json_t *array = json_array();

	for (size_t i = 0; i < remote->specs.count; i++) {
		const struct push_spec *spec = &remote->specs.items[i];
		AUTO_FREE char *text = xasprintf("%s%s:%s", spec->force ? "+" : "",
						 spec->src, spec->dst);
		json_array_append_new(array, json_string(text));
	}
	return array;
}

static json_t *tasks_json(const struct queue_view *view, const struct push_remote *remote,
			  bool is_running)
{
	json_t *array = json_array();

	for (size_t i = 0; i < view->uris.count; i++)
		if (push_list_is_of_remote(&view->uris.items[i], remote, is_running))
			json_array_append_new(array,
					      queued_uri_json(&view->uris.items[i]));
	return array;
}

static json_t *push_list_remote_to_json(const struct queue_view *view,
					const struct push_remote *remote)
{
	json_t *object = json_object();

	json_put_text(object, "name", remote->name);
	json_put(object, "urls", urls_json(remote->urls.items, remote->urls.count));
	json_put(object, "admin_urls",
		 urls_json(remote->admin_urls.items, remote->admin_urls.count));
	json_put(object, "projects", patterns_json(&remote->projects));
	json_put(object, "exclude_projects", patterns_json(&remote->excluded_projects));
	json_put(object, "push", specs_json(remote));
	json_put(object, "excluded_refs", patterns_json(&remote->excluded_refs));
	json_put(object, "in_flight", tasks_json(view, remote, true));
	json_put(object, "pending", tasks_json(view, remote, false));
	return object;
}

static size_t push_list_print_remotes(const struct push_call *call,
				      const struct queue_view *view)
{
	const struct push_settings *settings = call->push.settings;
	json_auto_t *object = json_object();
	json_t *array = json_array();
	size_t count = 0;

	json_put(object, "remotes", array);
	for (size_t i = 0; i < settings->remotes.count; i++) {
		const struct push_remote *remote = &settings->remotes.items[i];
		if (!is_listed(call, remote->name))
			continue;
		count++;
		if (call->is_json)
			json_array_append_new(array,
					      push_list_remote_to_json(view, remote));
		else
			print_remote(call, view, remote);
	}
	if (call->is_json)
		json_write(stdout, object);
	return count;
}

int push_list_run(struct push_call *call, struct err *err)
{
	struct queue_view view;
	size_t count;

	if (queue_view_read(call->push.tasks, call->push.leases, call->push.settings,
			    &view, err) != 0)
		return -1;
	count = push_list_print_remotes(call, &view);
	queue_view_clear(&view);
	if (count > 0 || call->remotes.count == 0)
		return EXIT_DONE;
	for (size_t i = 0; i < call->remotes.count; i++) {
		AUTO_STR struct str part = STR_INIT;
		str_add_printable(&part, call->remotes.items[i]);
		fprintf(stderr, "refrelay: no remote's name contains \"%s\"\n",
			part.data);
	}
	return EXIT_NOT_FOUND;
}
