/*
 * What was given up, or waits for its next try, is tried now; or it is forgotten. A key
 * names what was given up, a waiting task, or all that there is for a destination.
 */
#include "base/clock.h"
#include "cli/push.h"
#include "push/dead_letters.h"
#include "push/nodes.h"
#include "push/push.h"
#include "push/sink.h"
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

enum {
	HOLD_WAIT_MS = 2000,
	HOLD_LOOK_MS = 50,
};

struct acting {
	struct push_call *call;
	struct queue_view view;
	listed_tasks tasks; /* for retry */
	bool *is_used;      /* for each word: it named something */
	struct stop stop;
	size_t done, busy;
};

/* Counts a busy one and goes on with the others: 0; else -1. */
static int push_retry_pass_over(struct acting *acting, const struct err *err)
{
	if (err->class != ERR_BUSY)
		return -1;
	acting->busy++;
	cli_fail(err);
	return 0;
}

static bool names_key(struct acting *acting, const char *key)
{
	bool found = false;

	for (size_t i = 0; i < acting->call->word_count; i++)
		if (push_key_is(acting->call->words[i], key)) {
			acting->is_used[i] = true;
			found = true;
		}
	return found;
}

static bool takes(struct acting *acting, const char *key, const char *remote)
{
	if (!push_remote_is_named(acting->call->remotes.items, remote))
		return false;
	return acting->call->word_count == 0 || names_key(acting, key);
}

/* By its own key, or by that of its destination. */
static bool takes_letter(struct acting *acting, const struct dead_letter *letter)
{
	const struct task *task = &letter->task;
	char uri_key[URI_KEY_SIZE];

	uri_key_of(task->uri, uri_key);
	return takes(acting, letter->key, task->remote) ||
	       takes(acting, uri_key, task->remote);
}

/* By its own key, or by that of one of its tasks. */
static bool takes_uri(struct acting *acting, const struct queued_uri *uri)
{
	bool found = takes(acting, uri->uri_key, uri->remote);

	for (size_t i = 0; i < uri->keys.count && acting->call->word_count > 0; i++)
		found |= takes(acting, uri->keys.items[i], uri->remote);
	return found;
}

/* What tasks go to, however they were found. */
struct goal {
	const char *remote, *project, *uri, *uri_key;
};

/* 1: taken; 0: another holds it. It is looked at before: who waits for a lease, or is
 * denied one, is logged, which nobody asked this command for. */
static int push_retry_try_lease(struct acting *acting,
				const struct lease_request *request, struct lease **lease,
				struct err *err)
{
	struct lease_manager *leases = acting->call->push.leases;
	struct lease_holder holder = { 0 };

	if (lease_inspect(leases, request->key, &holder, err) != 0 &&
	    err->class != ERR_MISSING)
		return -1;
	if (push_holder_lives(&holder))
		return 0;
	if (lease_acquire(leases, request, lease, err) == 0)
		return 1;
	return err->class == ERR_BUSY ? 0 : -1;
}

/* Who holds the lease writes the state; so a node that pushes to it is not disturbed. */
static int push_retry_hold_uri(struct acting *acting, const struct goal *goal,
			       struct lease **lease, struct err *err)
{
	AUTO_FREE char *key = xasprintf(PUSH_URI_LEASE "%s", goal->uri_key);
	const struct lease_request request = { .key = key,
					       .operation = acting->call->verb };
	int64_t until = clock_boot_ms() + HOLD_WAIT_MS;
	int taken;

	while ((taken = push_retry_try_lease(acting, &request, lease, err)) == 0 &&
	       clock_boot_ms() < until)
		stop_wait(&acting->stop, HOLD_LOOK_MS);
	if (taken != 0)
		return taken > 0 ? 0 : -1;
	return err_set(err, ERR_BUSY, "%s is being pushed to %s now", goal->project,
		       goal->uri);
}

/* For who holds the lease. */
static int clear_retry(struct acting *acting, const struct goal *goal, struct err *err)
{
	struct task_store *tasks = acting->call->push.tasks;
	AUTO_URI_STATE struct uri_state state = { 0 };
	int result = uri_state_read(tasks, goal->uri_key, &state, err);

	if (result > 0 && state.retry_at > 0) {
		state.retry_at = 0;
		result = uri_state_write(tasks, goal->uri_key, &state, err);
	}
	return result < 0 ? -1 : 0;
}

static int make_due(struct acting *acting, const struct goal *goal, struct err *err)
{
	struct lease *lease = NULL;
	int result;

	if (push_retry_hold_uri(acting, goal, &lease, err) != 0)
		return -1;
	result = clear_retry(acting, goal, err);
	lease_release(lease);
	return result;
}

static int hurry(struct acting *acting, struct task *task, struct err *err)
{
	const struct push_site *push = &acting->call->push;

	return push_hurry(push->tasks, push->settings, task, err);
}

static int hurry_all(struct acting *acting, const struct queued_uri *uri, struct err *err)
{
	int result = 0;

	for (size_t i = 0; result == 0 && i < acting->tasks.count; i++) {
		struct listed_task *one = &acting->tasks.items[i];
		if (!one->is_running && strcmp(one->task.uri, uri->uri) == 0)
			result = hurry(acting, &one->task, err);
	}
	return result;
}

static int allow_deletions(struct acting *acting, const struct goal *goal,
			   struct err *err)
{
	AUTO_DESTINATION struct destination destination = { 0 };

	if (!acting->call->is_forced)
		return 0;
	if (destination_find(acting->call->push.settings, goal->remote, goal->project,
			     goal->uri, &destination, err) != 0)
		return -1;
	return uri_request_add(acting->call->push.tasks, &destination, REQUEST_FORCE,
			       err);
}

/* A node that found the permission without the task would take it away again. */
static int put_back_forced(struct acting *acting, const struct dead_letter *letter,
			   const struct goal *goal, struct err *err)
{
	struct lease *lease = NULL;
	int result;

	if (push_retry_hold_uri(acting, goal, &lease, err) != 0)
		return -1;
	result = allow_deletions(acting, goal, err);
	if (result == 0)
		result = task_store_retry(acting->call->push.tasks, letter->key, err);
	if (result == 0)
		result = clear_retry(acting, goal, err);
	lease_release(lease);
	return result;
}

static int push_retry_put_back_letter(struct acting *acting,
				      const struct dead_letter *letter,
				      const struct goal *goal, struct err *err)
{
	if (task_store_retry(acting->call->push.tasks, letter->key, err) != 0)
		return -1;
	if (make_due(acting, goal, err) != 0 && err->class != ERR_BUSY)
		return -1;
	return 0;
}

static int retry_letter(struct acting *acting, struct dead_letter *letter,
			struct err *err)
{
	struct task *task = &letter->task;
	char uri_key[URI_KEY_SIZE];
	const struct goal goal = { task->remote, task->project, task->uri, uri_key };
	int result;

	uri_key_of(task->uri, uri_key);
	if (acting->call->is_forced)
		result = put_back_forced(acting, letter, &goal, err);
	else
		result = push_retry_put_back_letter(acting, letter, &goal, err);
	if (result != 0)
		/* Another did it meanwhile. */
		return err->class == ERR_MISSING ? 0 : push_retry_pass_over(acting, err);
	acting->done++;
	push_fingerprint("%.*s  %s: waits again for %s", PUSH_KEY_SHOWN, letter->key,
			 task->project, task->uri);
	return hurry(acting, task, err);
}

static int retry_uri(struct acting *acting, const struct queued_uri *uri, struct err *err)
{
	const struct goal goal = { uri->remote, uri->project, uri->uri, uri->uri_key };

	if (uri->is_orphan) {
		fprintf(stderr,
			"refrelay: no remote pushes %s to %s any more: it cannot be "
			"retried\n",
			uri->project, uri->uri);
		return 0;
	}
	if (allow_deletions(acting, &goal, err) != 0)
		return -1;
	if (make_due(acting, &goal, err) != 0)
		return push_retry_pass_over(acting, err);
	if (hurry_all(acting, uri, err) != 0)
		return -1;
	acting->done++;
	push_fingerprint("%.*s  %s: due now for %s", PUSH_KEY_SHOWN, uri->uri_key,
			 uri->project, uri->uri);
	return 0;
}

static int retry_all(struct acting *acting, struct err *err)
{
	struct queue_view *view = &acting->view;
	int result = task_store_list(acting->call->push.tasks, &acting->tasks, NULL, err);

	for (size_t i = 0; result == 0 && i < view->letters.count; i++) {
		struct dead_letter *letter = &view->letters.items[i];
		if (takes_letter(acting, letter))
			result = retry_letter(acting, letter, err);
	}
	for (size_t i = 0; result == 0 && i < view->uris.count; i++)
		if (takes_uri(acting, &view->uris.items[i]))
			result = retry_uri(acting, &view->uris.items[i], err);
	return result;
}

static int discard_key(struct acting *acting, const char *key, const char *project,
		       const char *uri, struct err *err)
{
	const struct push_call *call = acting->call;

	if (!call->is_dry && task_store_discard(call->push.tasks, key, err) != 0)
		/* Done or discarded meanwhile: gone is gone. */
		return err->class == ERR_MISSING ? 0 : push_retry_pass_over(acting, err);
	acting->done++;
	push_fingerprint("%.*s  %s: %s for %s", PUSH_KEY_SHOWN, key, project,
			 call->is_dry ? "would be discarded" : "discarded", uri);
	return 0;
}

/* A task that is gone was done, as far as `start --wait` can see: this tells it, before
 * the task goes, that it was not. The next push takes it away again. */
static void note_discarded(struct acting *acting, const struct queued_uri *uri)
{
	struct task_store *tasks = acting->call->push.tasks;
	const struct goal goal = { uri->remote, uri->project, uri->uri, uri->uri_key };
	AUTO_URI_STATE struct uri_state state = { 0 };
	struct lease *lease = NULL;

	if (push_retry_hold_uri(acting, &goal, &lease, ERR_IGNORED) != 0)
		return;
	int found = uri_state_read(tasks, uri->uri_key, &state, ERR_IGNORED);
	if (found == 0) {
		state.uri = xstrdup(uri->uri);
		state.remote = xstrdup(uri->remote);
		state.project = xstrdup(uri->project);
	}
	if (found >= 0 && state.failures == 0) {
		err_set(&state.failure, ERR_CANCELED, "discarded");
		uri_state_write(tasks, uri->uri_key, &state, ERR_IGNORED);
	}
	lease_release(lease);
}

static int discard_requests(struct acting *acting, const struct queued_uri *uri,
			    struct err *err)
{
	const struct push_call *call = acting->call;

	for (int i = 0; i < URI_REQUESTS; i++) {
		enum uri_request request = (enum uri_request)i;
		if (!uri->is_requested[i])
			continue;
		if (!call->is_dry &&
		    uri_request_remove(call->push.tasks, uri->uri_key, request, err) != 0)
			return -1;
		acting->done++;
		push_fingerprint("%.*s  %s: request \"%s\" %s for %s", PUSH_KEY_SHOWN,
				 uri->uri_key, uri->project, uri_request_word(request),
				 call->is_dry ? "would be discarded" : "discarded",
				 uri->uri);
	}
	return 0;
}

/* A task that is named goes alone; a destination with all that is for it. */
static int discard_uri(struct acting *acting, const struct queued_uri *uri,
		       struct err *err)
{
	bool whole = acting->call->is_orphans ? uri->is_orphan
					      : takes(acting, uri->uri_key, uri->remote);
	bool is_noted = acting->call->is_dry;
	int result = 0;

	for (size_t i = 0; result == 0 && i < uri->keys.count; i++) {
		if (!whole && (acting->call->is_orphans ||
			       !takes(acting, uri->keys.items[i], uri->remote)))
			continue;
		if (!is_noted)
			note_discarded(acting, uri);
		is_noted = true;
		result = discard_key(acting, uri->keys.items[i], uri->project, uri->uri,
				     err);
	}
	return result == 0 && whole ? discard_requests(acting, uri, err) : result;
}

static bool discards_letter(struct acting *acting, const struct dead_letter *letter)
{
	AUTO_DESTINATION struct destination destination = { 0 };
	struct err why;

	if (!acting->call->is_orphans)
		return takes_letter(acting, letter);
	return push_remote_is_named(acting->call->remotes.items, letter->task.remote) &&
	       destination_find(acting->call->push.settings, letter->task.remote,
				letter->task.project, letter->task.uri, &destination,
				&why) != 0 &&
	       why.class == ERR_MISSING;
}

static int push_retry_discard_all(struct acting *acting, struct err *err)
{
	struct queue_view *view = &acting->view;
	int result = 0;

	for (size_t i = 0; result == 0 && i < view->letters.count; i++) {
		const struct dead_letter *letter = &view->letters.items[i];
		if (discards_letter(acting, letter))
			result = discard_key(acting, letter->key, letter->task.project,
					     letter->task.uri, err);
	}
	for (size_t i = 0; result == 0 && i < view->uris.count; i++)
		result = discard_uri(acting, &view->uris.items[i], err);
	return result;
}

/* How many words named nothing. */
static size_t push_retry_report_unused(const struct acting *acting)
{
	size_t unused = 0;

	for (size_t i = 0; i < acting->call->word_count; i++) {
		if (acting->is_used[i])
			continue;
		unused++;
		fprintf(stderr, "refrelay: no such key: %s\n", acting->call->words[i]);
	}
	if (unused > 0)
		fprintf(stderr,
			"  hint: see refrelay push queue; a key needs at least %d "
			"digits\n",
			PUSH_KEY_LEAST);
	return unused;
}

static int push_retry_print_summary(const struct acting *acting)
{
	size_t unused = push_retry_report_unused(acting);

	if (acting->call->is_dry)
		printf("would discard %zu entr%s\n", acting->done,
		       acting->done == 1 ? "y" : "ies");
	else
		printf("%s %zu entr%s\n",
		       strcmp(acting->call->verb, "retry") == 0 ? "retried" : "discarded",
		       acting->done, acting->done == 1 ? "y" : "ies");
	if (acting->busy > 0)
		return EXIT_NOT_OBTAINED;
	if (unused > 0)
		return EXIT_NOT_FOUND;
	return EXIT_DONE;
}

typedef int (*acting_run)(struct acting *acting, struct err *err);

static int push_retry_run_action(struct push_call *call, acting_run run_it,
				 struct err *err)
{
	AUTO_FREE bool *is_used = xcalloc(call->word_count + 1, sizeof(*is_used));
	struct acting acting = { .call = call, .is_used = is_used };
	int status = -1;

	stop_init(&acting.stop);
	if (queue_view_read(call->push.tasks, call->push.leases, call->push.settings,
			    &acting.view, err) != 0)
		status = -1;
	else if (!push_call_knows_remotes(call, &acting.view))
		status = EXIT_NOT_FOUND;
	else if (run_it(&acting, err) == 0)
		status = push_retry_print_summary(&acting);
	if (acting.done > 0 && !call->is_dry)
		site_wake(call->push.site.data);
	queue_view_clear(&acting.view);
	listed_tasks_clear(&acting.tasks);
	stop_clear(&acting.stop);
	return status;
}

int push_retry_run(struct push_call *call, struct err *err)
{
	return push_retry_run_action(call, retry_all, err);
}

static int discard_unreadable(struct push_call *call, struct err *err)
{
	struct queue_view view;
	size_t count = 0;

	if (queue_view_read(call->push.tasks, call->push.leases, call->push.settings,
			    &view, err) != 0)
		return -1;
	if (call->is_dry)
		printf("would discard %zu file%s\n", view.unreadable.count,
		       view.unreadable.count == 1 ? "" : "s");
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
	return push_retry_run_action(call, push_retry_discard_all, err);
}
