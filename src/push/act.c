/*
 * Who holds a destination's lease writes its state: so a node that pushes there is not
 * disturbed. What others did or discarded meanwhile counts for nothing, and is no error.
 */
#include "push/act.h"

#include "base/clock.h"
#include "push/push.h"

enum {
	HOLD_WAIT_MS = 2000,     /* for one destination */
	HOLD_WAIT_ALL_MS = 5000, /* for all of them: a person waits for the answer */
	HOLD_LOOK_MS = 50,
};

/* What a key was found to name; borrowed. */
struct named {
	const char *uri; /* all that is for one is one thing; NULL: it names nothing */
	char key[TASK_KEY_SIZE];
};

struct acting {
	const struct push_act *act;
	struct push_act_result *result;
	listed_tasks tasks;          /* for retry */
	const dead_letters *letters; /* for discard */
	struct named *named;         /* for each key */
	int64_t wait_ms;             /* that is left for what is busy */
};

bool push_key_is(const char *word, const char *key)
{
	return strcmp(word, key) == 0 ||
	       (strlen(word) >= PUSH_KEY_LEAST && text_starts_with(key, word));
}

const char *push_act_end_name(enum push_act_end end)
{
	static const char *const names[PUSH_ACT_ENDS] = {
		[PUSH_ACT_PUT_BACK] = "put_back",   [PUSH_ACT_DUE] = "due",
		[PUSH_ACT_DISCARDED] = "discarded", [PUSH_ACT_UNREQUESTED] = "discarded",
		[PUSH_ACT_BUSY] = "busy",           [PUSH_ACT_ORPHAN] = "orphan",
	};

	return names[end];
}

void push_act_result_clear(struct push_act_result *result)
{
	text_list_clear(&result->unknown);
}

/* What tasks go to, however they were found. */
struct goal {
	const char *remote, *project, *uri, *uri_key;
	bool allows_deletions;
};

static void act_tell(struct acting *acting, const struct goal *goal,
		     const struct push_acted *what)
{
	struct push_acted acted = *what;

	acted.remote = goal->remote;
	acted.project = goal->project;
	acted.uri = goal->uri;
	if (acted.end == PUSH_ACT_BUSY)
		acting->result->busy++;
	else if (acted.end == PUSH_ACT_ORPHAN)
		acting->result->orphans++;
	else
		acting->result->done++;
	acting->act->tell(acting->act->arg, &acted);
}

/* A busy one is told of, and the others go on: 0; else -1. */
static int act_pass_over(struct acting *acting, const struct goal *goal, const char *key,
			 const struct err *err)
{
	if (err->class != ERR_BUSY)
		return -1;
	act_tell(acting, goal,
		 &(struct push_acted){ .end = PUSH_ACT_BUSY, .key = key, .why = err });
	return 0;
}

static bool act_names_key(const struct acting *acting, const char *key)
{
	for (size_t i = 0; i < acting->act->key_count; i++)
		if (push_key_is(acting->act->keys[i], key))
			return true;
	return false;
}

static bool act_takes(const struct acting *acting, const char *key, const char *remote)
{
	if (!push_remote_is_named(acting->act->remotes, remote))
		return false;
	return acting->act->key_count == 0 || act_names_key(acting, key);
}

/* By its own key, or by that of its destination. */
static bool act_takes_letter(const struct acting *acting,
			     const struct dead_letter *letter)
{
	const struct task *task = &letter->task;
	char uri_key[URI_KEY_SIZE];

	uri_key_of(task->uri, uri_key);
	return act_takes(acting, letter->key, task->remote) ||
	       act_takes(acting, uri_key, task->remote);
}

/* By its own key, or by that of one of its tasks. */
static bool act_takes_uri(const struct acting *acting, const struct queued_uri *uri)
{
	bool found = act_takes(acting, uri->uri_key, uri->remote);

	for (size_t i = 0; i < uri->keys.count && !found; i++)
		found = act_takes(acting, uri->keys.items[i], uri->remote);
	return found;
}

static int act_find_named(struct acting *acting, const char *key, const char *uri,
			  struct err *err)
{
	for (size_t i = 0; i < acting->act->key_count; i++) {
		struct named *named = &acting->named[i];
		if (!push_key_is(acting->act->keys[i], key))
			continue;
		if (named->uri && strcmp(named->uri, uri) != 0) {
			err_set(err, ERR_CONFIG,
				"%s is not unique: it names %.40s and %.40s",
				acting->act->keys[i], named->key, key);
			return err_remedy(err, "give more digits of the key");
		}
		named->uri = uri;
		snprintf(named->key, sizeof(named->key), "%s", key);
	}
	return 0;
}

static int act_find_named_letter(struct acting *acting, const struct dead_letter *letter,
				 struct err *err)
{
	const struct task *task = &letter->task;
	char uri_key[URI_KEY_SIZE];

	if (!push_remote_is_named(acting->act->remotes, task->remote))
		return 0;
	uri_key_of(task->uri, uri_key);
	if (act_find_named(acting, uri_key, task->uri, err) != 0)
		return -1;
	return act_find_named(acting, letter->key, task->uri, err);
}

static int act_find_named_uri(struct acting *acting, const struct queued_uri *uri,
			      struct err *err)
{
	int result = 0;

	if (!push_remote_is_named(acting->act->remotes, uri->remote))
		return 0;
	result = act_find_named(acting, uri->uri_key, uri->uri, err);
	for (size_t i = 0; i < uri->keys.count && result == 0; i++)
		result = act_find_named(acting, uri->keys.items[i], uri->uri, err);
	return result;
}

/* Before anything is done. */
static int act_find_all_named(struct acting *acting, const struct queue_view *view,
			      struct err *err)
{
	int result = 0;

	if (acting->act->key_count == 0)
		return 0;
	for (size_t i = 0; i < view->letters.count && result == 0; i++)
		result = act_find_named_letter(acting, &view->letters.items[i], err);
	for (size_t i = 0; i < view->uris.count && result == 0; i++)
		result = act_find_named_uri(acting, &view->uris.items[i], err);
	return result;
}

/* 1: taken; 0: another holds it. It is looked at before: who waits for a lease, or is
 * denied one, is logged, which nobody asked for. */
static int act_try_lease(struct acting *acting, const struct lease_request *request,
			 struct lease **lease, struct err *err)
{
	struct lease_manager *leases = acting->act->leases;
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

/* As act_try_lease(), which did not take it. */
static int act_wait_for_lease(struct acting *acting, const struct lease_request *request,
			      struct lease **lease, struct err *err)
{
	const int64_t began_at = clock_boot_ms();
	const int64_t until = began_at + (acting->wait_ms < HOLD_WAIT_MS ? acting->wait_ms
									 : HOLD_WAIT_MS);
	int taken = 0;

	while (taken == 0 && clock_boot_ms() < until &&
	       !stop_wait(acting->act->stop, HOLD_LOOK_MS))
		taken = act_try_lease(acting, request, lease, err);
	acting->wait_ms -= clock_boot_ms() - began_at;
	return taken;
}

static int act_hold_uri(struct acting *acting, const struct goal *goal,
			struct lease **lease, struct err *err)
{
	AUTO_FREE char *key = xasprintf(PUSH_URI_LEASE "%s", goal->uri_key);
	const struct lease_request request = { .key = key,
					       .operation = acting->act->operation };
	int taken = act_try_lease(acting, &request, lease, err);

	if (taken == 0)
		taken = act_wait_for_lease(acting, &request, lease, err);
	if (taken != 0)
		return taken > 0 ? 0 : -1;
	return err_set(err, ERR_BUSY, "%s is being pushed to %s now", goal->project,
		       goal->uri);
}

/* For who holds the lease. */
static int act_clear_retry(struct acting *acting, const struct goal *goal,
			   struct err *err)
{
	struct task_store *tasks = acting->act->tasks;
	AUTO_URI_STATE struct uri_state state = { 0 };
	int result = uri_state_read(tasks, goal->uri_key, &state, err);

	if (result > 0 && state.retry_at > 0) {
		state.retry_at = 0;
		result = uri_state_write(tasks, goal->uri_key, &state, err);
	}
	return result < 0 ? -1 : 0;
}

static int act_hurry(struct acting *acting, struct task *task, struct err *err)
{
	return push_hurry(acting->act->tasks, acting->act->settings, task, err);
}

static int act_hurry_all(struct acting *acting, const struct queued_uri *uri,
			 struct err *err)
{
	int result = 0;

	for (size_t i = 0; result == 0 && i < acting->tasks.count; i++) {
		struct listed_task *one = &acting->tasks.items[i];
		if (!one->is_running && strcmp(one->task.uri, uri->uri) == 0)
			result = act_hurry(acting, &one->task, err);
	}
	return result;
}

/* From now on, whatever was allowed before. */
static int act_allow_deletions(struct acting *acting, const struct goal *goal,
			       struct err *err)
{
	AUTO_DESTINATION struct destination destination = { 0 };

	if (!goal->allows_deletions)
		return 0;
	if (destination_find(acting->act->settings, goal->remote, goal->project,
			     goal->uri, &destination, err) != 0)
		return -1;
	if (uri_request_remove(acting->act->tasks, destination.uri_key, REQUEST_FORCE,
			       err) != 0)
		return -1;
	return uri_request_add(acting->act->tasks, &destination, REQUEST_FORCE, err);
}

/* What is busy stays as it was, its brake as well. */
static int act_make_due(struct acting *acting, const struct goal *goal, struct err *err)
{
	struct lease *lease = NULL;
	int result;

	if (act_hold_uri(acting, goal, &lease, err) != 0)
		return -1;
	result = act_allow_deletions(acting, goal, err);
	if (result == 0)
		result = act_clear_retry(acting, goal, err);
	lease_release(lease);
	return result;
}

/* A node that found the permission without the task would take it away again. */
static int act_put_back_forced(struct acting *acting, const struct dead_letter *letter,
			       const struct goal *goal, struct err *err)
{
	struct lease *lease = NULL;
	int result;

	if (act_hold_uri(acting, goal, &lease, err) != 0)
		return -1;
	result = act_allow_deletions(acting, goal, err);
	if (result == 0)
		result = task_store_retry(acting->act->tasks, letter->key, err);
	if (result == 0)
		result = act_clear_retry(acting, goal, err);
	lease_release(lease);
	return result;
}

static int act_put_back(struct acting *acting, const struct dead_letter *letter,
			const struct goal *goal, struct err *err)
{
	if (task_store_retry(acting->act->tasks, letter->key, err) != 0)
		return -1;
	if (act_make_due(acting, goal, err) != 0 && err->class != ERR_BUSY)
		return -1;
	return 0;
}

static int act_retry_letter(struct acting *acting, struct dead_letter *letter,
			    struct err *err)
{
	AUTO_DESTINATION struct destination destination = { 0 };
	struct task *task = &letter->task;
	char uri_key[URI_KEY_SIZE];
	const struct goal goal = { task->remote, task->project, task->uri, uri_key,
				   acting->act->is_forced };
	int result;

	uri_key_of(task->uri, uri_key);
	if (destination_find(acting->act->settings, task->remote, task->project,
			     task->uri, &destination, err) != 0 &&
	    err->class == ERR_MISSING) {
		act_tell(acting, &goal,
			 &(struct push_acted){ .end = PUSH_ACT_ORPHAN,
					       .key = letter->key });
		return 0;
	}
	if (acting->act->is_forced)
		result = act_put_back_forced(acting, letter, &goal, err);
	else
		result = act_put_back(acting, letter, &goal, err);
	if (result != 0)
		/* Another did it meanwhile. */
		return err->class == ERR_MISSING
			       ? 0
			       : act_pass_over(acting, &goal, letter->key, err);
	act_tell(acting, &goal,
		 &(struct push_acted){ .end = PUSH_ACT_PUT_BACK, .key = letter->key });
	return act_hurry(acting, task, err);
}

/* A permission counts for what is deleted later, too: so one for all that waits is none
 * for where no deletion waits for it. */
static bool act_may_allow(const struct acting *acting, const struct queued_uri *uri)
{
	return acting->act->is_forced &&
	       (acting->act->key_count > 0 || uri->is_requested[REQUEST_DELETE] ||
		uri->is_requested[REQUEST_FORCE]);
}

static int act_retry_uri(struct acting *acting, const struct queued_uri *uri,
			 struct err *err)
{
	const struct goal goal = { uri->remote, uri->project, uri->uri, uri->uri_key,
				   act_may_allow(acting, uri) };
	struct push_acted acted = { .end = PUSH_ACT_DUE, .key = uri->uri_key };

	if (uri->is_orphan) {
		acted.end = PUSH_ACT_ORPHAN;
		act_tell(acting, &goal, &acted);
		return 0;
	}
	if (act_make_due(acting, &goal, err) != 0)
		return act_pass_over(acting, &goal, uri->uri_key, err);
	if (act_hurry_all(acting, uri, err) != 0)
		return -1;
	act_tell(acting, &goal, &acted);
	return 0;
}

typedef int (*act_discarding)(struct task_store *store, const char *key, struct err *err);

static int act_discard_key(struct acting *acting, const struct goal *goal,
			   const char *key, act_discarding discard, struct err *err)
{
	if (!acting->act->is_dry && discard(acting->act->tasks, key, err) != 0)
		/* Done or discarded meanwhile: gone is gone. */
		return err->class == ERR_MISSING ? 0
						 : act_pass_over(acting, goal, key, err);
	act_tell(acting, goal,
		 &(struct push_acted){ .end = PUSH_ACT_DISCARDED, .key = key });
	return 0;
}

static int act_discard_requests(struct acting *acting, const struct goal *goal,
				const struct queued_uri *uri, struct err *err)
{
	for (int i = 0; i < URI_REQUESTS; i++) {
		enum uri_request request = (enum uri_request)i;
		if (!uri->is_requested[i])
			continue;
		if (!acting->act->is_dry &&
		    uri_request_discard(acting->act->tasks, uri->uri_key, request, err) !=
			    0)
			return -1;
		act_tell(acting, goal,
			 &(struct push_acted){ .end = PUSH_ACT_UNREQUESTED,
					       .key = uri->uri_key,
					       .request = uri_request_word(request) });
	}
	return 0;
}

/* A key has no time in it: what was given up may have come again since, and waits under
 * the same one. Then the key names what was given up. */
static bool act_takes_task(struct acting *acting, const char *key, const char *remote)
{
	for (size_t i = 0; i < acting->letters->count; i++)
		if (strcmp(acting->letters->items[i].key, key) == 0)
			return false;
	return act_takes(acting, key, remote);
}

/* A task that is named goes alone; a destination with all that is for it. */
static int act_discard_uri(struct acting *acting, const struct queued_uri *uri,
			   struct err *err)
{
	const struct goal goal = { uri->remote, uri->project, uri->uri, uri->uri_key,
				   false };
	bool is_orphans = acting->act->is_orphans;
	bool whole =
		is_orphans ? uri->is_orphan && push_remote_is_named(acting->act->remotes,
								    uri->remote)
			   : act_takes(acting, uri->uri_key, uri->remote);
	int result = 0;

	for (size_t i = 0; result == 0 && i < uri->keys.count; i++) {
		const char *key = uri->keys.items[i];
		if (whole || (!is_orphans && act_takes_task(acting, key, uri->remote)))
			result = act_discard_key(acting, &goal, key, task_store_discard,
						 err);
	}
	return result == 0 && whole ? act_discard_requests(acting, &goal, uri, err)
				    : result;
}

static bool act_discards_letter(struct acting *acting, const struct dead_letter *letter)
{
	AUTO_DESTINATION struct destination destination = { 0 };
	const struct push_act *act = acting->act;
	struct err why;

	if (!act->is_orphans)
		return act_takes_letter(acting, letter);
	return push_remote_is_named(act->remotes, letter->task.remote) &&
	       destination_find(act->settings, letter->task.remote, letter->task.project,
				letter->task.uri, &destination, &why) != 0 &&
	       why.class == ERR_MISSING;
}

static int act_begin(struct acting *acting, const struct push_act *act,
		     const struct queue_view *view, struct push_act_result *result,
		     struct err *err)
{
	*result = (struct push_act_result){ 0 };
	*acting = (struct acting){ .act = act,
				   .result = result,
				   .wait_ms = HOLD_WAIT_ALL_MS };
	acting->named = xcalloc(act->key_count + 1, sizeof(*acting->named));
	return act_find_all_named(acting, view, err);
}

static void act_end(struct acting *acting)
{
	for (size_t i = 0; i < acting->act->key_count; i++)
		if (!acting->named[i].uri)
			vec_add(&acting->result->unknown, xstrdup(acting->act->keys[i]));
	listed_tasks_clear(&acting->tasks);
	free(acting->named);
}

int push_act_retry(const struct push_act *act, struct queue_view *view,
		   struct push_act_result *result, struct err *err)
{
	struct acting acting;
	int done = act_begin(&acting, act, view, result, err);

	if (done == 0)
		done = task_store_list(act->tasks, &acting.tasks, NULL, err);
	for (size_t i = 0; done == 0 && i < view->letters.count; i++) {
		struct dead_letter *letter = &view->letters.items[i];
		if (act_takes_letter(&acting, letter))
			done = act_retry_letter(&acting, letter, err);
	}
	for (size_t i = 0; done == 0 && i < view->uris.count; i++)
		if (act_takes_uri(&acting, &view->uris.items[i]))
			done = act_retry_uri(&acting, &view->uris.items[i], err);
	act_end(&acting);
	return done;
}

int push_act_discard(const struct push_act *act, const struct queue_view *view,
		     struct push_act_result *result, struct err *err)
{
	struct acting acting;
	int done = act_begin(&acting, act, view, result, err);

	acting.letters = &view->letters;
	for (size_t i = 0; done == 0 && i < view->letters.count; i++) {
		const struct dead_letter *letter = &view->letters.items[i];
		const struct task *task = &letter->task;
		char uri_key[URI_KEY_SIZE];
		const struct goal goal = { task->remote, task->project, task->uri,
					   uri_key, false };
		uri_key_of(task->uri, uri_key);
		if (act_discards_letter(&acting, letter))
			done = act_discard_key(&acting, &goal, letter->key,
					       task_store_discard_letter, err);
	}
	for (size_t i = 0; done == 0 && i < view->uris.count; i++)
		done = act_discard_uri(&acting, &view->uris.items[i], err);
	act_end(&acting);
	return done;
}
