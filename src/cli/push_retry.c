/*
 * What was given up, or waits for its next try, is tried now; or it is forgotten. A key
 * names what was given up, a waiting task, or all that there is for a destination.
 */
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/push.h"
#include "push/act.h"
#include "push/nodes.h"
#include "push/task_list.h"

static int print_rest(struct push_call *call, const struct handed_back *done,
		      struct err *err)
{
	struct queue_view view;
	size_t tasks = 0, requests = 0;

	if (queue_view_read(call->push.tasks, call->push.leases, call->push.settings,
			    &view, err) != 0)
		return -1;
	for (size_t i = 0; i < view.uris.count; i++) {
		tasks += view.uris.items[i].waiting;
		for (int k = 0; k < URI_REQUESTS; k++)
			requests += view.uris.items[i].is_requested[k];
	}
	printf("%zu tasks wait: %zu were running, %zu got another name\n", tasks,
	       done->moved, done->renamed);
	if (view.letters.count + requests > 0)
		printf("not handed back: %zu given up, %zu requests to set HEAD or "
		       "delete a repository\n",
		       view.letters.count, requests);
	queue_view_clear(&view);
	return EXIT_DONE;
}

int push_hand_back_run(struct push_call *call, struct err *err)
{
	struct handed_back done;

	if (push_hand_back(call->push.tasks, call->push.leases, &done, err) != 0)
		return -1;
	return print_rest(call, &done, err);
}

/* What became of an entry, in words for people. */
static void push_retry_tell(void *arg, const struct push_acted *acted)
{
	const struct push_call *call = arg;
	const char *discarded = call->is_dry ? "would be discarded" : "discarded";
	struct err err;

	switch (acted->end) {
	case PUSH_ACT_BUSY:
		cli_fail(acted->why);
		return;
	case PUSH_ACT_ORPHAN:
		err_set(&err, ERR_MISSING,
			"no remote pushes %s to %s any more: it cannot be retried",
			acted->project, acted->uri);
		cli_fail(&err);
		return;
	case PUSH_ACT_UNREQUESTED:
		cli_print("%.*s  %s: request \"%s\" %s for %s", PUSH_KEY_SHOWN,
			  acted->key, acted->project, acted->request, discarded,
			  acted->uri);
		return;
	default:
		cli_print("%.*s  %s: %s for %s", PUSH_KEY_SHOWN, acted->key,
			  acted->project,
			  acted->end == PUSH_ACT_PUT_BACK ? "waits again"
			  : acted->end == PUSH_ACT_DUE    ? "due now"
							  : discarded,
			  acted->uri);
	}
}

static void push_retry_report_unknown(const text_list *unknown)
{
	for (size_t i = 0; i < unknown->count; i++)
		fprintf(stderr, "refrelay: no such key: %s\n", unknown->items[i]);
	if (unknown->count > 0)
		fprintf(stderr,
			"  hint: see refrelay push queue; a key needs at least %d "
			"digits\n",
			PUSH_KEY_LEAST);
}

static int push_retry_print_summary(const struct push_call *call,
				    const struct push_act_result *result)
{
	push_retry_report_unknown(&result->unknown);
	printf("%s %zu entr%s\n",
	       call->is_dry                       ? "would discard"
	       : strcmp(call->verb, "retry") == 0 ? "retried"
						  : "discarded",
	       result->done, result->done == 1 ? "y" : "ies");
	if (result->busy > 0)
		return EXIT_NOT_OBTAINED;
	if (result->unknown.count == 0 && result->orphans == 0)
		return EXIT_DONE;
	if (result->done > 0)
		return EXIT_PARTLY;
	return result->orphans > 0 ? EXIT_FAILED : EXIT_NOT_FOUND;
}

static int push_retry_act(struct push_call *call, struct queue_view *view,
			  struct err *err)
{
	AUTO_PUSH_ACT_RESULT struct push_act_result result = { 0 };
	struct stop stop;
	const struct push_act act = {
		.tasks = call->push.tasks,
		.leases = call->push.leases,
		.settings = call->push.settings,
		.operation = call->verb,
		.stop = &stop,
		.keys = (const char *const *)call->words,
		.key_count = call->word_count,
		.remotes = call->remotes.items,
		.is_forced = call->is_forced,
		.is_orphans = call->is_orphans,
		.is_dry = call->is_dry,
		.tell = push_retry_tell,
		.arg = call,
	};
	int done;

	stop_init(&stop);
	if (strcmp(call->verb, "retry") == 0)
		done = push_act_retry(&act, view, &result, err);
	else
		done = push_act_discard(&act, view, &result, err);
	stop_clear(&stop);
	if (result.done > 0 && !call->is_dry)
		site_wake(call->push.site.data);
	return done == 0 ? push_retry_print_summary(call, &result) : -1;
}

int push_retry_run(struct push_call *call, struct err *err)
{
	struct queue_view view;
	int status;

	if (queue_view_read(call->push.tasks, call->push.leases, call->push.settings,
			    &view, err) != 0)
		return -1;
	if (push_call_knows_remotes(call, &view))
		status = push_retry_act(call, &view, err);
	else
		status = EXIT_NOT_FOUND;
	queue_view_clear(&view);
	return status;
}

static int discard_unreadable(struct push_call *call, struct err *err)
{
	struct queue_view view;
	size_t count = 0;

	if (queue_view_read(call->push.tasks, call->push.leases, call->push.settings,
			    &view, err) != 0)
		return -1;
	count = view.unreadable.count - view.unreadable.kept;
	if (call->is_dry)
		printf("would discard %zu file%s\n", count, count == 1 ? "" : "s");
	queue_view_clear(&view);
	if (call->is_dry)
		return EXIT_DONE;
	if (task_store_drop_unreadable(call->push.tasks, &count, err) != 0)
		return -1;
	printf("discarded %zu file%s\n", count, count == 1 ? "" : "s");
	return EXIT_DONE;
}

int push_discard_run(struct push_call *call, struct err *err)
{
	if (call->is_unreadable)
		return discard_unreadable(call, err);
	return push_retry_run(call, err);
}
