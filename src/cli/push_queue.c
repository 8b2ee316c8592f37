/*
 * The cluster's queue, and what each remote has in it.
 */
#include "base/clock.h"
#include "change/spool.h"
#include "cli/push.h"
#include "report/report.h"

static void add_span(int64_t from, int64_t to, struct str *out)
{
	report_duration(to > from ? to - from : 0, out);
}

static void push_queue_add_failure(const struct err *failure, struct str *out)
{
	str_addf(out, "%s: %s", err_class_name(failure->class), failure->text);
	if (failure->remedy[0])
		str_addf(out, "; what to do: %s", failure->remedy);
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
		str_add(out,
			view->nodes.count > 0 ? ", due" : ", due, but no node lives");
		return;
	}
	str_add(out, ", next try in ");
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
	push_print("%.*s  %s", PUSH_KEY_SHOWN, uri->uri_key, state.data);
	push_print("  %s: %s", uri->project, refs.data);
	push_print("  to %s: %s", uri->remote, uri->uri);
	if (uri->failures > 0) {
		str_reset(&state);
		push_queue_add_failure(&uri->failure, &state);
		push_print("  failed %" PRIu64 " time%s: %s", uri->failures,
			   uri->failures == 1 ? "" : "s", state.data);
	}
}

static void print_letter(const struct push_call *call, const struct queue_view *view,
			 const struct dead_letter *letter)
{
	AUTO_STR struct str state = STR_INIT;
	AUTO_STR struct str refs = STR_INIT;

	add_span(letter->failed_at, view->now, &state);
	push_print("%.*s  given up %s ago", PUSH_KEY_SHOWN, letter->key, state.data);
	push_add_refs(call->push.settings, &letter->task.refs, &refs);
	push_print("  %s: %s", letter->task.project, refs.data);
	push_print("  to %s: %s", letter->task.remote, letter->task.uri);
	str_reset(&state);
	push_queue_add_failure(&letter->why, &state);
	push_print("  %s", state.data);
	for (size_t i = 0; i < letter->refs.count; i++)
		push_print("    %s: %s", letter->refs.items[i].ref,
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
		push_print("%zu unreadable file%s, for instance %s (to remove %s: "
			   "refrelay push discard --unreadable)",
			   view->unreadable.count, view->unreadable.count == 1 ? "" : "s",
			   view->unreadable.example,
			   view->unreadable.count == 1 ? "it" : "them");
}

static void tell_nodes(const struct queue_view *view)
{
	AUTO_STR struct str names = STR_INIT;

	for (size_t i = 0; i < view->nodes.count; i++)
		str_addf(&names, "%s%s", i > 0 ? ", " : "", view->nodes.items[i]);
	if (view->nodes.count == 0)
		printf("no node of the cluster lives: what waits is pushed when one is "
		       "started\n");
	else
		push_print("nodes: %s", names.data);
}

/* What hooks told without a node: what comes of it is in no queue yet. */
static void tell_spool(size_t count)
{
	if (count > 0)
		printf("and %zu note%s of hooks wait%s for the node of this site, which "
		       "makes tasks of them\n",
		       count, count == 1 ? "" : "s", count == 1 ? "s" : "");
}

int push_queue_run(struct push_call *call, struct err *err)
{
	const struct queue_filter filter = {
		.remotes = call->remotes.count > 0 ? call->remotes.items : NULL,
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
		tell_spool(spooled);
		tell_nodes(&view);
	}
	queue_view_clear(&view);
	return EXIT_DONE;
}
