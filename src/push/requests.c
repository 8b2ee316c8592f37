/*
 * What is asked of a destination besides refs. A deletion's request stays until it was
 * done. A HEAD's request gets another name first, and HEAD is read then: so a change that
 * comes meanwhile asks again, and whoever follows a node that died finds the request.
 */
#include <fcntl.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "git/refs.h"
#include "git/repo.h"
#include "push/nodes.h"
#include "push/outcome.h"
#include "push/push.h"
#include "push/push_run.h"
#include "push/select.h"
#include "push/store_file.h"
#include "push/task_list.h"

static int check_nodes(struct task_store *store, struct lease_manager *leases,
		       struct err *err)
{
	text_list nodes = { 0 };
	int result = push_nodes_living(store, leases, &nodes, err);

	if (result == 0 && nodes.count > 0) {
		result = err_set(err, ERR_BUSY, "node %s works on this store",
				 nodes.items[0]);
		err_remedy(err, "stop all nodes of the cluster first");
	}
	text_list_clear(&nodes);
	return result;
}

static void add_running(void *arg, const char *uri_key)
{
	text_list *keys = arg;

	vec_add(keys, xstrdup(uri_key));
}

static void hand_back_ignore_waiting(void *arg, const struct waiting_uri *waiting)
{
	(void)arg;
	(void)waiting;
}

static int hand_back_recover_uri(struct task_store *store, struct lease_manager *leases,
				 const char *uri_key, size_t *moved, struct err *err)
{
	AUTO_FREE char *key = xasprintf(PUSH_URI_LEASE "%s", uri_key);
	struct lease_request request = { .key = key, .operation = "hand back" };
	struct lease *lease = NULL;
	size_t recovered = 0;
	int result;

	if (lease_acquire(leases, &request, &lease, err) != 0)
		return -1;
	result = task_store_recover(store, uri_key, &recovered, err);
	if (result == 0)
		task_store_tidy(store, uri_key);
	lease_release(lease);
	*moved += recovered;
	return result;
}

static int hand_back_recover_all(struct task_store *store, struct lease_manager *leases,
				 size_t *moved, struct err *err)
{
	AUTO_TEXT_LIST text_list keys = { 0 };
	int result = task_store_refresh(store, hand_back_ignore_waiting, add_running,
					&keys, err);

	for (size_t i = 0; i < keys.count && result == 0; i++)
		result = hand_back_recover_uri(store, leases, keys.items[i], moved, err);
	return result;
}

static bool is_key_with_json(const char *name, const char *key)
{
	size_t len = strlen(key);

	return strncmp(name, key, len) == 0 && strcmp(name + len, ".json") == 0;
}

/* The right one is there before the other goes. That of its key and ".json" counts as the
 * right one wherever tasks are added, so it is renamed. */
static int rename_one(struct task_store *store, struct listed_task *listed,
		      size_t *renamed, struct err *err)
{
	char key[TASK_KEY_SIZE];
	bool is_new;

	task_order(&listed->task);
	task_key(&listed->task, key);
	if (strcmp(key, listed->name) == 0)
		return 0;
	++*renamed;
	if (is_key_with_json(listed->name, key))
		return store_rename(store, WAITING, listed->name, key, err);
	if (task_store_add(store, &listed->task, listed->since, &is_new, err) != 0)
		return -1;
	return store_remove(store, WAITING, listed->name, err);
}

int push_hand_back(struct task_store *store, struct lease_manager *leases,
		   struct handed_back *done, struct err *err)
{
	listed_tasks tasks = { 0 };
	int result;

	*done = (struct handed_back){ 0 };
	if (check_nodes(store, leases, err) != 0 ||
	    hand_back_recover_all(store, leases, &done->moved, err) != 0)
		return -1;
	result = task_store_list(store, &tasks, NULL, err);
	for (size_t i = 0; i < tasks.count && result == 0; i++)
		if (!tasks.items[i].is_running)
			result = rename_one(store, &tasks.items[i], &done->renamed, err);
	listed_tasks_clear(&tasks);
	return result;
}

static void note_not_moved(enum uri_request request, const struct err *err)
{
	log_warn("push.not_moved", LOG_ERR(err),
		 LOG_TEXT("task", uri_request_word(request)));
}

static void push_requests_drop_request(struct push_run *run, enum uri_request request)
{
	struct err err;

	if (uri_request_remove(run->push->options.tasks, run->uri_key, request, &err) !=
	    0)
		note_not_moved(request, &err);
}

bool push_was_interrupted(const struct err *why)
{
	return why->class == ERR_CANCELED || why->class == ERR_LOST;
}

static bool has_styles(const struct push_settings *settings)
{
	for (size_t i = 0; i < settings->remotes.count; i++)
		if (settings->remotes.items[i].style != NAME_SLASH)
			return true;
	return false;
}

/* Whether another repository has its copy there: "a/b" and "a-b" have one place in a
 * remoteNameStyle. */
static int check_alone(const struct push_run *run, const struct push_group *group,
		       struct err *err)
{
	const struct push_options *options = &run->push->options;
	text_list names = { 0 };
	int result = 0;

	if (!has_styles(run->settings) || !options->names)
		return 0;
	if (options->names(options->arg, &names, err) != 0) {
		err->class = ERR_DISK; /* whatever is missing, it is not the copy */
		result = outcome_is_local(err, group->project);
	}
	for (size_t i = 0; i < names.count && result == 0; i++) {
		if (strcmp(names.items[i], group->project) == 0 ||
		    !destinations_have(run->settings, names.items[i], run->uri))
			continue;
		result = err_set(err, ERR_CONFIG,
				 "it is the copy of %.300s, too: it stays",
				 names.items[i]);
		err_because(err, REASON_NO_WAY);
		err_remedy(err, "give each repository a place of its own");
	}
	text_list_clear(&names);
	return result;
}

/* What another host answers, where adminUrl leads to one, says nothing of the URI's. */
static bool asks_own_host(const struct push_group *group)
{
	AUTO_DESTINATIONS destination_list admins = { 0 };

	if (destination_admin(&group->destination, &admins, ERR_IGNORED) != 0)
		return false;
	for (size_t i = 0; i < admins.count; i++)
		if (strcmp(admins.items[i].breaker, group->destination.breaker) != 0)
			return false;
	return true;
}

static void push_requests_note_host(struct push_run *run, const struct push_group *group,
				    enum host_end end)
{
	if (asks_own_host(group))
		run->result.host = end;
}

static bool delete_now(struct push_run *run, const struct push_group *group)
{
	struct target_call call = push_group_call(run, group);
	struct err why;
	int result = check_alone(run, group, &why);

	if (result == 0)
		result = target_delete(&call, &why);
	if (result == 0 || why.class == ERR_MISSING) {
		push_requests_note_host(run, group, HOST_ANSWERED);
		log_info("push.deleted", LOG_TEXT("uri", run->uri));
		push_settle_finish(run, group); /* tasks of what is no more are done */
		forget_dead_letters(run);
		push_requests_drop_request(run, REQUEST_DELETE);
		if (has_request(run, REQUEST_FORCE))
			push_requests_drop_request(run, REQUEST_FORCE);
		return true;
	}
	if (push_was_interrupted(&why)) {
		run->is_stuck = why.class == ERR_LOST;
		run->is_interrupted = true;
		if (!run->is_stuck)
			push_settle_give_back(run, group);
		return true;
	}
	err_prefix(&why, "deleting %s", run->uri);
	if (push_is_this_nodes_fault(&why)) {
		push_group_put_off(run, group, &why);
		return true;
	}
	if (why.reason == REASON_NO_WAY) {
		log_error("push.not_deleted", LOG_ERR(&why), LOG_TEXT("uri", run->uri),
			  LOG_TEXT("remedy", why.remedy));
		push_requests_drop_request(run, REQUEST_DELETE);
		return false;
	}
	if (is_host_failure(&why))
		push_requests_note_host(run, group, HOST_FAILED);
	fail_run(run, group, &why);
	push_settle_give_back(run, group);
	return true;
}

static void push_requests_put_off(struct push_run *run, const struct push_group *group,
				  int64_t at)
{
	push_settle_give_back(run, group);
	run->is_interrupted = true;
	run->result.end = RUN_LATER;
	run->result.retry_at = at;
}

/* True: nothing else is to be done, whether it was deleted or not. */
static bool try_deletion(struct push_run *run, const struct push_group *group)
{
	struct err why;
	int64_t at = 0;

	switch (deletion_judge(run, group, &at, &why)) {
	case DELETION_DUE:
		return delete_now(run, group);
	case DELETION_LATER:
		push_requests_put_off(run, group, at);
		return true;
	case DELETION_HELD:
		run->is_held = true;
		break;
	case DELETION_UNKNOWN:
		if (push_is_this_nodes_fault(&why)) {
			push_group_put_off(run, group, &why);
			return true;
		}
		break;
	}
	push_settle_give_back(run, group);
	fail_run(run, group, &why);
	return true;
}

bool serve_deletion(struct push_run *run, const struct push_group *group)
{
	if (!has_request(run, REQUEST_DELETE))
		return false;
	if (!group->repository && group->destination.remote->replicates_deletions)
		return try_deletion(run, group);
	/* It has come back, or deletions are not replicated any more. */
	log_info("push.deletion_dropped", LOG_TEXT("uri", run->uri));
	push_requests_drop_request(run, REQUEST_DELETE);
	return false;
}

int push_requests_set_head(struct push_run *run, const struct push_group *group,
			   const char *head, struct err *err)
{
	struct target_call call = push_group_call(run, group);

	if (target_set_head(&call, head, err) != 0)
		return err_prefix(err, "setting HEAD of %s to %s", run->uri, head);
	push_requests_note_host(run, group, HOST_ANSWERED);
	log_info("push.head", LOG_TEXT("uri", run->uri), LOG_TEXT("head", head));
	return 0;
}

static bool push_requests_is_pushed(const struct push_group *group,
				    const struct ref_snapshot *refs)
{
	AUTO_FREE char *dst = NULL;
	bool forces;

	return refs->head_target && ref_snapshot_find(refs, refs->head_target) &&
	       push_remote_maps(group->destination.remote, refs->head_target, &dst,
				&forces) &&
	       strcmp(dst, refs->head_target) == 0;
}

int push_requests_pushed_head(const struct push_group *group, char **head,
			      struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	size_t oid_len;

	*head = NULL;
	if (push_group_read_refs(group, &refs, &oid_len, err) != 0)
		return -1;
	if (push_requests_is_pushed(group, &refs))
		*head = xstrdup(refs.head_target);
	return 0;
}

bool push_requests_may_set_head_later(const struct push_group *group,
				      const struct err *why)
{
	return err_is_transient(why->class) && asks_own_host(group);
}

/* A HEAD that names nothing is worse than the former one: where a branch was refused, by
 * this push or one before, it is seen first whether HEAD's is there. One that is not
 * born, or not pushed, may come to the destination in another way. */
static bool push_requests_is_doubted(const struct push_run *run)
{
	return run->has_refused || run->state.letters.count > 0 ||
	       (run->state.is_head && run->state.failure.class == ERR_CONFLICT);
}

static int push_requests_follow_head(struct push_run *run, const struct push_group *group,
				     struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	bool may_pass = false;
	int is_there = 1;
	size_t oid_len;

	if (push_group_read_refs(group, &refs, &oid_len, err) != 0)
		return -1;
	if (!refs.head_target) /* detached: nothing that a destination could follow */
		return 0;
	if (push_remote_leaves_out_permissions(group->destination.remote,
					       refs.head_target))
		return 0;
	if (push_requests_is_doubted(run) && push_requests_is_pushed(group, &refs))
		is_there = push_group_has_branch(run, group, refs.head_target, &may_pass,
						 err);
	if (is_there > 0)
		return push_requests_set_head(run, group, refs.head_target, err);
	if (is_there == 0)
		err_set(err, ERR_CONFLICT, "HEAD of %s is not set to %s: it refuses that",
			run->uri, refs.head_target);
	return -1;
}

/* What is gone has no HEAD; if it comes back, that is a change that asks anew. */
void forget_head(struct push_run *run)
{
	if (has_request(run, REQUEST_HEAD))
		push_requests_drop_request(run, REQUEST_HEAD);
}

static void end_head(const struct push_run *run)
{
	struct err err;

	if (uri_request_end(run->push->options.tasks, run->uri_key, REQUEST_HEAD, &err) !=
	    0)
		note_not_moved(REQUEST_HEAD, &err);
}

static void put_back_head(const struct push_run *run)
{
	struct err err;

	if (uri_request_put_back(run->push->options.tasks, run->uri_key, REQUEST_HEAD,
				 &err) != 0)
		note_not_moved(REQUEST_HEAD, &err);
}

/* It was not set, because of `why`: the request stays or, if no try will help, ends. */
static void fail_head(struct push_run *run, const struct push_group *group,
		      const struct err *why)
{
	if (push_was_interrupted(why)) {
		put_back_head(run);
		run->is_interrupted = true;
		return;
	}
	if (push_is_this_nodes_fault(why)) {
		put_back_head(run);
		push_note_put_off(run, why);
		return;
	}
	if (why->reason == REASON_NO_WAY ||
	    patience_is_over_for_head(group->destination.remote, &run->state)) {
		log_error("push.head_not_set", LOG_ERR(why), LOG_TEXT("uri", run->uri),
			  LOG_TEXT("remedy", why->remedy));
		end_head(run);
		return;
	}
	put_back_head(run);
	if (is_host_failure(why))
		push_requests_note_host(run, group, HOST_FAILED);
	fail_run(run, group, why);
	run->is_head = true;
}

void serve_head(struct push_run *run, const struct push_group *group)
{
	struct err why, away;

	if (!has_request(run, REQUEST_HEAD))
		return;
	if (run->state.is_head && has_to_wait(run)) {
		run->is_head = true;
		return;
	}
	if (uri_request_begin(run->push->options.tasks, run->uri_key, REQUEST_HEAD,
			      &why) != 0)
		note_not_moved(REQUEST_HEAD, &why);
	failpoint("push.head");
	int result = push_requests_follow_head(run, group, &why);
	failpoint("push.head_set");
	if (lease_check(run->lease, ERR_IGNORED) != 0)
		run->is_stuck = true; /* the request is the next holder's */
	else if (result == 0 ||
		 (why.class == ERR_MISSING && why.reason == REASON_LOCAL_REPOSITORY &&
		  push_group_look_again(run, group, &away) == 0))
		end_head(run);
	else
		fail_head(run, group, &why);
}
