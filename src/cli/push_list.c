/*
 * The remotes, each with what there is to do for it, much as Gerrit's `replication list`
 * prints it; without passwords.
 */
#include "base/clock.h"
#include "change/spool.h"
#include "cli/cli.h"
#include "cli/push.h"
#include "push/pattern.h"
#include "report/report.h"
#include "store/data_lock.h"

/*
 * The cluster's queue, and what each remote has in it.
 */

static void add_span(int64_t from, int64_t to, struct str *out)
{
	report_duration(to > from ? to - from : 0, out);
}

static void push_queue_add_failure(const struct err *failure, struct str *out)
{
	str_addf(out, "%s: %s", err_class_name(failure->class), failure->text);
	if (failure->remedy[0])
		str_addf(out, "; hint: %s", failure->remedy);
}

/* "waiting for 12 s, next try in 3 s" and the like. */
static void push_queue_add_state(const struct queue_view *view,
				 const struct queued_uri *uri, struct str *out)
{
	str_add(out, queued_uri_word(uri));
	if (uri->is_running) {
		str_addf(out, " on %s", uri->node[0] ? uri->node : "a node");
		if (uri->running_since > 0) {
			str_add(out, " for ");
			add_span(uri->running_since, view->now, out);
		}
		str_add(out, ", asked for ");
		add_span(uri->since, view->now, out);
		str_add(out, " ago");
		return;
	}
	str_add(out, " for ");
	add_span(uri->failing_since > 0 && !uri->is_orphan ? uri->failing_since
							   : uri->since,
		 view->now, out);
	if (uri->is_orphan) {
		str_add(out, ": no remote of the configuration takes it");
		return;
	}
	if (uri->next_at <= view->now) {
		str_add(out, view->nodes.count > 0 ? ", due"
						   : ", due, but no node is running");
		return;
	}
	str_add(out, ", next attempt in ");
	add_span(view->now, uri->next_at, out);
}

static void add_requests(const struct queued_uri *uri, struct str *out)
{
	static const char *const texts[URI_REQUESTS] = {
		[REQUEST_HEAD] = "HEAD",
		[REQUEST_DELETE] = "deletion of the repository",
		[REQUEST_FORCE] = "deletions allowed",
	};

	for (int i = 0; i < URI_REQUESTS; i++)
		if (uri->is_requested[i])
			str_addf(out, "%s%s", out->len > 0 ? ", " : "", texts[i]);
}

static void print_uri(const struct push_call *call, const struct queue_view *view,
		      const struct queued_uri *uri)
{
	AUTO_STR struct str state = STR_INIT;
	AUTO_STR struct str refs = STR_INIT;

	push_queue_add_state(view, uri, &state);
	push_add_refs(call->push.settings, &uri->refs, &refs);
	add_requests(uri, &refs);
	cli_print("%.*s  %s", PUSH_KEY_SHOWN, uri->uri_key, state.data);
	cli_print("  %s: %s", uri->project, refs.data);
	cli_print("  to %s: %s", uri->remote, uri->uri);
	if (uri->failures > 0) {
		str_reset(&state);
		push_queue_add_failure(&uri->failure, &state);
		cli_print("  failed %" PRIu64 " time%s: %s", uri->failures,
			  uri->failures == 1 ? "" : "s", state.data);
	}
}

static void print_letter(const struct push_call *call, const struct queue_view *view,
			 const struct dead_letter *letter)
{
	AUTO_STR struct str state = STR_INIT;
	AUTO_STR struct str refs = STR_INIT;

	add_span(letter->failed_at, view->now, &state);
	cli_print("%.*s  given up %s ago", PUSH_KEY_SHOWN, letter->key, state.data);
	push_add_refs(call->push.settings, &letter->task.refs, &refs);
	cli_print("  %s: %s", letter->task.project, refs.data);
	cli_print("  to %s: %s", letter->task.remote, letter->task.uri);
	str_reset(&state);
	push_queue_add_failure(&letter->why, &state);
	cli_print("  %s", state.data);
	for (size_t i = 0; i < letter->refs.count; i++)
		cli_print("    %s: %s", letter->refs.items[i].ref,
			  letter->refs.items[i].text ? letter->refs.items[i].text : "?");
}

static void print_queue(const struct push_call *call, const struct queue_view *view)
{
	size_t running = 0, failing = 0;

	for (size_t i = 0; i < view->uris.count; i++) {
		print_uri(call, view, &view->uris.items[i]);
		running += view->uris.items[i].is_running;
		failing += view->uris.items[i].failures > 0;
	}
	for (size_t i = 0; i < view->letters.count; i++)
		print_letter(call, view, &view->letters.items[i]);
	printf("%zu running, %zu waiting, %zu of them failing; %zu given up\n", running,
	       view->uris.count - running, failing, view->letters.count);
	if (view->unreadable.count > 0)
		cli_print("%zu unreadable file%s, e.g. %s (check owner and mode; to "
			  "remove what is no task: refrelay push discard --unreadable)",
			  view->unreadable.count, view->unreadable.count == 1 ? "" : "s",
			  view->unreadable.example);
}

static void report_nodes(const struct queue_view *view)
{
	AUTO_STR struct str names = STR_INIT;

	for (size_t i = 0; i < view->nodes.count; i++)
		str_addf(&names, "%s%s", i > 0 ? ", " : "", view->nodes.items[i]);
	if (view->nodes.count == 0)
		printf("no node of the cluster is running: waiting pushes start when a "
		       "node does\n");
	else
		cli_print("nodes: %s", names.data);
}

/* What hooks told without a node: what comes of it is in no queue yet. */
static void report_spool(size_t count)
{
	if (count > 0)
		printf("%zu change%s reported by hooks wait%s for the node of this site, "
		       "which creates the tasks\n",
		       count, count == 1 ? "" : "s", count == 1 ? "s" : "");
}

int push_queue_run(struct push_call *call, struct err *err)
{
	const struct queue_filter filter = {
		.remotes = call->remotes.items,
		.failed_only = call->is_failed,
	};
	const size_t spooled = spool_count(call->push.site.data);
	struct queue_view view;

	if (queue_view_read(call->push.tasks, call->push.leases, call->push.settings,
			    &view, err) != 0)
		return -1;
	if (!push_call_knows_remotes(call, &view)) {
		queue_view_clear(&view);
		return EXIT_NOT_FOUND;
	}
	queue_view_filter(&view, &filter);
	if (call->is_json) {
		json_auto_t *object = queue_view_json(&view);
		json_put_number(object, "spooled", (int64_t)spooled);
		json_write(stdout, object);
	} else {
		print_queue(call, &view);
		report_spool(spooled);
		report_nodes(&view);
	}
	queue_view_clear(&view);
	return EXIT_DONE;
}

/*
 * The remotes that a command line names.
 */

/* What is left of a remote that was taken out of the configuration can still be named. */
bool push_call_knows_remotes(const struct push_call *call, const struct queue_view *view)
{
	bool result = true;

	for (size_t i = 0; i < call->remotes.count; i++) {
		AUTO_STR struct str name = STR_INIT;
		if (queue_view_knows_remote(view, call->push.settings,
					    call->remotes.items[i]))
			continue;
		str_add_printable(&name, call->remotes.items[i]);
		fprintf(stderr, "refrelay: no such remote: \"%s\"\n", name.data);
		result = false;
	}
	if (!result)
		fputs("  hint: see refrelay push list\n", stderr);
	return result;
}

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
	cli_print("  %s", line.data);
}

static void print_tasks(const struct push_call *call, const struct queue_view *view,
			const struct push_remote *remote, bool is_running)
{
	size_t count = 0;

	for (size_t i = 0; i < view->uris.count; i++)
		count += push_list_is_of_remote(&view->uris.items[i], remote, is_running);
	cli_print("%s: %zu", is_running ? "In flight" : "Pending", count);
	for (size_t i = 0; i < view->uris.count && call->is_detailed; i++)
		if (push_list_is_of_remote(&view->uris.items[i], remote, is_running))
			print_task(call, &view->uris.items[i]);
}

static void print_patterns(const char *label, const name_patterns *patterns)
{
	for (size_t i = 0; i < patterns->count; i++) {
		AUTO_STR struct str text = STR_INIT;
		name_pattern_show(patterns->items[i], &text);
		cli_print("%s: %s", label, text.data);
	}
}

static void print_detail(const struct push_remote *remote)
{
	for (size_t i = 0; i < remote->admin_urls.count; i++)
		cli_print("AdminUrl: %s", remote->admin_urls.items[i].template);
	print_patterns("Project", &remote->projects);
	print_patterns("ExcludeProject", &remote->excluded_projects);
	for (size_t i = 0; i < remote->specs.count; i++) {
		AUTO_STR struct str spec = STR_INIT;
		push_spec_render(&remote->specs.items[i], &spec);
		cli_print("Push: %s", spec.data);
	}
	print_patterns("ExcludedRefs", &remote->excluded_refs);
}

static void print_remote(const struct push_call *call, const struct queue_view *view,
			 const struct push_remote *remote)
{
	cli_print("Remote: %s", remote->name);
	for (size_t i = 0; i < remote->urls.count; i++)
		cli_print("Url: %s", remote->urls.items[i].template);
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
		AUTO_STR struct str spec = STR_INIT;
		push_spec_render(&remote->specs.items[i], &spec);
		json_array_append_new(array, json_string(spec.data));
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

	if (!data_lock_is_held(call->push.site.data))
		cli_note("no node is running here");
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
