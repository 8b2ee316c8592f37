/*
 * What is done for the tasks of one repository at one destination, and which errors are
 * whose: the local repository's, the destination's, or its host's.
 */
#include <fcntl.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "git/cuts.h"
#include "git/refs.h"
#include "git/repo.h"
#include "push/destination.h"
#include "push/nodes.h"
#include "push/outcome.h"
#include "push/push_parts.h"
#include "push/push_run.h"
#include "push/target.h"
#include "replicable/discover.h"
#include "replicable/locate.h"
#include "replicable/name.h"

/*
 * replicateOnStartup is once a cluster: who comes while no other node lives makes tasks
 * for all repositories. The lease push:startup is held meanwhile, so that of nodes that
 * start together only one does; the others find its presence.
 */

#define WAIT_MS 60000
#define RETRY_MS 10000

static int startup_acquire_lease(struct push *push, const char *key, int64_t wait_ms,
				 struct lease **lease, struct err *err)
{
	struct lease_request request = {
		.key = key, .operation = "push", .wait_ms = wait_ms, .stop = &push->ending
	};

	return lease_acquire(push->options.leases, &request, lease, err);
}

static int take_presence(struct push *push, int64_t wait_ms, struct err *err)
{
	AUTO_FREE char *key = push_node_lease(push->options.node);
	struct lease *presence = NULL;

	if (push_nodes_note(push->options.tasks, push->options.node, err) != 0 ||
	    startup_acquire_lease(push, key, wait_ms, &presence, err) != 0)
		return -1;
	lock(&push->mutex);
	push->presence = presence;
	unlock(&push->mutex);
	return 0;
}

/* Once startup is over, only the distributor changes it. */
void presence_keep(struct push *push)
{
	struct lease *presence = NULL;
	bool is_present;

	lock(&push->mutex);
	is_present = push->is_present;
	presence = push->presence;
	unlock(&push->mutex);
	if (!is_present || (presence && lease_check(presence, ERR_IGNORED) == 0))
		return;
	lock(&push->mutex);
	push->presence = NULL;
	unlock(&push->mutex);
	lease_release(presence);
	take_presence(push, 0, ERR_IGNORED);
}

/* 1: another node lives; 0: none. */
static int is_other_alive(struct push *push, struct err *err)
{
	text_list nodes = { 0 };
	int result =
		push_nodes_living(push->options.tasks, push->options.leases, &nodes, err);
	bool is_alive = false;

	for (size_t i = 0; i < nodes.count; i++)
		is_alive |= strcmp(nodes.items[i], push->options.node) != 0;
	text_list_clear(&nodes);
	return result == 0 ? is_alive : -1;
}

static int make_tasks(struct push *push, const text_list *names,
		      const struct push_settings *settings, text_list *keys,
		      struct err *err)
{
	const struct push_start_filter all = { 0 };

	if (push_start_repositories(push->options.tasks, settings, names, &all, keys,
				    err) != 0)
		return err_prefix(err, "replicateOnStartup");
	log_info("push.startup", LOG_NUMBER("repositories", names->count),
		 LOG_NUMBER("tasks", keys->count));
	return 0;
}

static int replicate_all(struct push *push, const struct push_settings *settings,
			 struct err *err)
{
	text_list names = { 0 }, keys = { 0 };
	int result = push->options.names(push->options.arg, &names, err);

	if (result == 0)
		result = make_tasks(push, &names, settings, &keys, err);
	text_list_clear(&names);
	text_list_clear(&keys);
	return result;
}

/* Names its likely cause: presence is kept as long as a node lives. */
static int startup_fail_presence(const struct push *push, struct err *err)
{
	if (err->class == ERR_LOCK_TIMEOUT)
		err_remedy(err,
			   "is another node called %s? Each needs a site.node of its own",
			   push->options.node);
	return -1;
}

/* Under the lease push:startup. *replicates: not done yet; a later try does not do it
 * again. */
static int startup_begin_leased(struct push *push, const struct push_settings *settings,
				bool *replicates, struct err *err)
{
	int alive = is_other_alive(push, err);

	if (alive < 0 || (alive == 0 && *replicates && push->options.names &&
			  replicate_all(push, settings, err) != 0))
		return -1;
	*replicates = false;
	return take_presence(push, WAIT_MS, err) == 0 ? 0
						      : startup_fail_presence(push, err);
}

static int try(struct push *push, const struct push_settings *settings, bool *replicates,
	       struct err *err)
{
	struct lease *lease = NULL;

	if (startup_acquire_lease(push, PUSH_STARTUP_LEASE, WAIT_MS, &lease, err) != 0)
		return -1;
	int result = startup_begin_leased(push, settings, replicates, err);
	lease_release(lease);
	return result;
}

void *startup_run(void *arg)
{
	struct push *push = arg;
	struct push_settings *settings = push_settings_of(push);
	bool replicates = settings->replicates_on_startup;
	struct err err;

	while (try(push, settings, &replicates, &err) != 0) {
		if (stop_is_requested(&push->ending))
			break;
		log_error("push.startup_failed", LOG_ERR(&err),
			  LOG_TEXT("remedy", err.remedy));
		if (stop_wait(&push->ending, RETRY_MS))
			break;
	}
	push_settings_unref(settings);
	lock(&push->mutex);
	push->is_present = true;
	unlock(&push->mutex);
	return NULL;
}

static int root_is_there(const char *root, struct err *err)
{
	int is_empty = discover_is_empty(root, err);

	if (is_empty > 0) {
		err_set(err, ERR_DISK, "site.repositories (%s) is empty", root);
		return err_remedy(err, "is its file system not mounted?");
	}
	return is_empty;
}

int local_repository(const struct push *push, const char *project, char **path,
		     struct err *err)
{
	AUTO_CLOSE int root = -1;
	AUTO_FREE char *below = NULL;
	int found;

	root = dir_open(AT_FDCWD, push->options.root, err);
	found = root < 0 ? -1 : locate_repository(root, project, &below, err);
	if (found > 0)
		*path = xasprintf("%s/%s", push->options.root, below);
	if (found == 0)
		found = root_is_there(push->options.root, err);
	if (found < 0 && err->class == ERR_MISSING)
		err->class = ERR_DISK; /* nothing can be said of what is in there */
	return found;
}

static void push_group_replace_text(char **text, const char *value)
{
	free(*text);
	*text = xstrdup(value);
}

void fail_run(struct push_run *run, const struct push_group *group, const struct err *why)
{
	if (run->is_failed && !run->is_head)
		return;
	run->is_failed = true;
	run->is_head = false;
	run->why = *why;
	run->retry_ms = group->destination.remote->retry_ms;
	push_group_replace_text(&run->state.uri, run->uri);
	push_group_replace_text(&run->state.remote, group->destination.remote->name);
	push_group_replace_text(&run->state.project, group->project);
}

/* Why there is no repository to push from. */
static void no_repository(const struct push_run *run, const struct push_group *group,
			  struct err *why)
{
	err_set(why, ERR_MISSING, "local repository is missing: %s, to be pushed to %s",
		group->project, run->uri);
	err_because(why, REASON_LOCAL_REPOSITORY);
	err_remedy(why, "if it was deleted on purpose, discard the task; else bring it "
			"back and retry the task");
}

static void orphan(struct push_run *run, const struct push_group *group,
		   const struct err *why)
{
	log_warn("push.orphan", LOG_ERR(why), LOG_TEXT("remote", group->remote),
		 LOG_TEXT("uri", run->uri));
	run->has_orphans = true;
	push_settle_give_back(run, group);
}

/* Only what passes by itself. Not what stays until a person mends it, as a program that
 * is missing, nor want of memory, for a repository that needs more than there is: each
 * would be tried every minute, and nobody told. */
bool push_is_this_nodes_fault(const struct err *why)
{
	return (why->reason == REASON_HERE && why->class == ERR_DISK) ||
	       why->sys_errno == EMFILE || why->sys_errno == ENFILE ||
	       why->sys_errno == EAGAIN;
}

/* This node, not the destination, is at fault, and other nodes may reach the repository:
 * so nothing is written that would keep them from it. */
void push_note_put_off(struct push_run *run, const struct err *why)
{
	log_warn("push.put_off", LOG_ERR(why), LOG_TEXT("uri", run->uri),
		 LOG_TEXT("remedy", why->remedy));
	run->is_away = true;
}

void push_group_put_off(struct push_run *run, const struct push_group *group,
			const struct err *why)
{
	push_note_put_off(run, why);
	push_settle_give_back(run, group);
}

/* found: what local_repository() said. */
static bool push_group_is_away(const struct push_run *run, const struct push_group *group,
			       int found, struct err *why)
{
	const struct push_options *options = &run->push->options;

	if (found < 0)
		return !err_is_of_data(why);
	return found == 0 && options->is_deleted &&
	       !options->is_deleted(options->arg, group->project, why);
}

int push_group_look_again(const struct push_run *run, const struct push_group *group,
			  struct err *why)
{
	AUTO_FREE char *path = NULL;
	int found = local_repository(run->push, group->project, &path, why);

	return found < 0 || push_group_is_away(run, group, found, why) ? -1 : found > 0;
}

int push_group_read_refs(const struct push_group *group, struct ref_snapshot *refs,
			 size_t *oid_len, struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;

	if (repo_open(AT_FDCWD, group->repository, &repo, err) != 0 ||
	    ref_snapshot_read(repo.fd, repo.oid_len, refs, err) != 0)
		return outcome_is_local(err, NULL);
	*oid_len = repo.oid_len;
	return 0;
}

struct target_call push_group_call(const struct push_run *run,
				   const struct push_group *group)
{
	return (struct target_call){ .settings = run->settings,
				     .destination = &group->destination,
				     .directory = run->push->directory,
				     .work = &run->work,
				     .data = run->push->options.data };
}

/* By a time that was set to be ahead, it came just now. */
static int64_t oldest(const struct push_run *run, const struct push_group *group)
{
	int64_t since = run->now;

	for (size_t i = 0; i < group->tasks.count; i++)
		if (group->tasks.items[i]->since < since)
			since = group->tasks.items[i]->since;
	return since;
}

/* A new repository lacks the other refs as well, and no task asks for them. The group
 * takes it, so that one push does all; a change that comes meanwhile makes another. */
static int add_task_for_all(const struct push_run *run, struct push_group *group,
			    struct err *err)
{
	struct task_store *tasks = run->push->options.tasks;
	AUTO_TASK struct task task = { 0 };
	bool is_new;

	for (size_t i = 0; i < group->tasks.count; i++)
		if (task_is_all(&group->tasks.items[i]->task))
			return 0;
	task = (struct task){ .project = xstrdup(group->project),
			      .uri = xstrdup(run->uri),
			      .remote = xstrdup(group->destination.remote->name) };
	vec_add(&task.refs, xstrdup(TASK_ALL_REFS));
	if (task_store_add(tasks, &task, oldest(run, group), &is_new, err) != 0 ||
	    task_store_claim_one(tasks, &task, &group->added, err) != 0)
		return -1;
	for (size_t i = 0; i < group->added.count; i++)
		vec_add(&group->tasks, &group->added.items[i]);
	return 0;
}

static int make_missing(struct push_run *run, const struct push_group *group,
			struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	struct target_call call = push_group_call(run, group);
	size_t oid_len = 0;

	if (push_group_read_refs(group, &refs, &oid_len, err) != 0)
		return -1;
	const char *head = refs.head_target ? refs.head_target : "refs/heads/main";
	if (target_create(&call, head, oid_len, err) != 0)
		return -1;
	log_info("push.created", LOG_TEXT("uri", run->uri), LOG_TEXT("head", head));
	return 0;
}

/* Of all tasks together. */
static void push_group_add_refs(const struct push_group *group, text_list *refs)
{
	struct map seen = { 0 };

	for (size_t i = 0; i < group->tasks.count; i++) {
		const struct task *task = &group->tasks.items[i]->task;
		if (task_is_all(task)) {
			text_list_clear(refs);
			vec_add(refs, xstrdup(TASK_ALL_REFS));
			break;
		}
		for (size_t j = 0; j < task->refs.count; j++)
			if (!map_put(&seen, task->refs.items[j], &seen))
				vec_add(refs, xstrdup(task->refs.items[j]));
	}
	map_clear(&seen);
}

static bool is_local_failure(const struct err *err)
{
	return err->reason == REASON_LOCAL_REPOSITORY;
}

/* Whether there could be a way to make it, by what the URL is. */
static bool has_way(const struct destination *destination)
{
	return destination->remote->admin_urls.count > 0 ||
	       (destination->kind != URL_HTTP && destination->kind != URL_GIT &&
		destination->kind != URL_OTHER);
}

static void say_how_to_make(const struct destination *destination, struct err *err)
{
	const char *remote = destination->remote->name;

	if (has_way(destination))
		err_remedy(err,
			   "make it there, or set "
			   "remote.%.80s.createMissingRepositories",
			   remote);
	else
		err_remedy(err,
			   "make it there; or give remote.%.80s.adminUrl a way by ssh, "
			   "gerrit+ssh or gerrit+https, and set "
			   "createMissingRepositories",
			   remote);
}

/* Whoever may not push there may not see either that there is nothing. */
static void judge_refusal(const struct push_run *run, const struct push_group *group,
			  struct err *err)
{
	struct target_call call = push_group_call(run, group);

	if (err->class == ERR_AUTH && group->destination.kind == URL_HTTP &&
	    target_lacks(&call))
		err_set(err, ERR_MISSING, "there is no such project");
}

/* What is pushed in the same way as the tasks' refs. */
static struct transfer_request push_group_request(const struct push_run *run,
						  const struct push_group *group,
						  const text_list *refs)
{
	return (struct transfer_request){
		.settings = run->settings,
		.destination = &group->destination,
		.repository = group->repository,
		.directory = run->push->directory,
		.work = &run->work,
		.refs = refs,
		.allows_deletions = has_request(run, REQUEST_FORCE),
		.delete_brake = run->push->options.delete_brake,
		.is_retry = run->has_recovered || run->state.failures > 0,
	};
}

/* 1: it is there, perhaps with what is not here; 0: it is not, *may_pass: for a reason
 * that may pass. */
static int judge_branch(const ref_results *results, const char *branch, bool *may_pass)
{
	for (size_t i = 0; i < results->count; i++) {
		const struct ref_result *result = &results->items[i];
		if (strcmp(result->ref, branch) != 0)
			continue;
		*may_pass = result->is_transient;
		return !result->is_deletion &&
		       (ref_status_is_good(result->status) ||
			result->status == REF_REJECTED_NONFASTFORWARD);
	}
	return -1;
}

int push_group_has_branch(const struct push_run *run, const struct push_group *group,
			  const char *branch, bool *may_pass, struct err *err)
{
	AUTO_TEXT_LIST text_list refs = { 0 };
	struct transfer_request request = push_group_request(run, group, &refs);
	struct transfer_result answer = { 0 };

	vec_add(&refs, xstrdup(branch));
	int done = transfer_run(&request, &answer, err);
	if (done == 0)
		done = judge_branch(&answer.refs, branch, may_pass) > 0;
	transfer_result_clear(&answer);
	return done;
}

static void merge_results(struct transfer_result *result, struct transfer_result *again)
{
	ref_results all = { 0 };

	for (size_t i = 0; i < result->refs.count; i++)
		if (!result->refs.items[i].deletes_head) {
			vec_add(&all, result->refs.items[i]);
			result->refs.items[i] = (struct ref_result){ 0 };
		}
	for (size_t i = 0; i < again->refs.count; i++) {
		vec_add(&all, again->refs.items[i]);
		again->refs.items[i] = (struct ref_result){ 0 };
	}
	ref_results_clear(&result->refs);
	result->refs = all;
	result->sent_bytes += again->sent_bytes;
	result->pushes += again->pushes;
	result->used_git |= again->used_git;
}

/* The deletions that were refused since HEAD named the branch, once more. */
static int push_without_head(const struct push_run *run, const struct push_group *group,
			     struct transfer_result *result, struct err *err)
{
	AUTO_TEXT_LIST text_list refs = { 0 };
	struct transfer_request request = push_group_request(run, group, &refs);
	struct transfer_result again = { 0 };

	for (size_t i = 0; i < result->refs.count; i++)
		if (result->refs.items[i].deletes_head)
			vec_add(&refs, xstrdup(result->refs.items[i].ref));
	int done = transfer_run(&request, &again, err);
	if (done == 0)
		merge_results(result, &again);
	transfer_result_clear(&again);
	return done;
}

/* HEAD of the destination goes first to what HEAD here names, if that branch is there: a
 * HEAD that names nothing is worse than a branch too many. 1: it was set; 0: not. */
static int leave_branch(struct push_run *run, const struct push_group *group,
			const struct transfer_result *result, bool *may_pass,
			struct err *err)
{
	AUTO_FREE char *head = NULL;
	int is_there;

	if (push_requests_pushed_head(group, &head, err) != 0)
		return -1;
	if (!head)
		return 0;
	is_there = judge_branch(&result->refs, head, may_pass);
	if (is_there < 0)
		is_there = push_group_has_branch(run, group, head, may_pass, err);
	if (is_there <= 0)
		return is_there;
	return push_requests_set_head(run, group, head, err) == 0 ? 1 : -1;
}

/* What was pushed stays pushed, whatever becomes of this: only what ended it from outside
 * is an error. */
static int push_past_head(struct push_run *run, const struct push_group *group,
			  struct transfer_result *result, struct err *err)
{
	bool is_refused = false, may_pass = false;

	for (size_t i = 0; i < result->refs.count; i++)
		is_refused |= result->refs.items[i].deletes_head;
	if (!is_refused)
		return 0;
	int done = leave_branch(run, group, result, &may_pass, err);
	if (done > 0)
		done = push_without_head(run, group, result, err);
	if (done < 0 && push_was_interrupted(err))
		return -1;
	if (done < 0) {
		may_pass = push_requests_may_set_head_later(group, err);
		log_warn("push.head_kept", LOG_ERR(err), LOG_TEXT("uri", run->uri),
			 LOG_TEXT("remedy", err->remedy));
	}
	for (size_t i = 0; i < result->refs.count && may_pass; i++)
		result->refs.items[i].is_transient |= result->refs.items[i].deletes_head;
	return 0;
}

/* With several adminUrl it may have been made where the URL leads nevertheless. If not,
 * why it was not made is what counts; and the host of the URL has answered. */
static int push_unmade(const struct push_run *run, const struct push_group *group,
		       const struct transfer_request *request,
		       struct transfer_result *result, struct err *err)
{
	const size_t admins = request->destination->remote->admin_urls.count;
	struct err unmade = *err;

	if (is_local_failure(err) || push_was_interrupted(err) || admins == 0)
		return -1;
	if (admins > 1 && transfer_run(request, result, err) == 0) {
		log_warn("push.not_created", LOG_ERR(&unmade), LOG_TEXT("uri", run->uri),
			 LOG_TEXT("remedy", unmade.remedy));
		return 0;
	}
	if (admins > 1) {
		judge_refusal(run, group, err);
		if (err->class != ERR_MISSING || is_local_failure(err))
			return -1;
	}
	*err = unmade;
	if (is_host_failure(err))
		err_because(err, REASON_ELSEWHERE);
	return -1;
}

static int transfer(struct push_run *run, struct push_group *group,
		    struct transfer_result *result, struct err *err)
{
	AUTO_TEXT_LIST text_list refs = { 0 };
	struct transfer_request request = push_group_request(run, group, &refs);

	push_group_add_refs(group, &refs);
	int done = transfer_run(&request, result, err);
	if (done == 0)
		return push_past_head(run, group, result, err);
	judge_refusal(run, group, err);
	if (err->class != ERR_MISSING || is_local_failure(err))
		return -1;
	if (!group->destination.remote->creates_missing) {
		say_how_to_make(&group->destination, err);
		return -1;
	}
	transfer_result_clear(result);
	*result = (struct transfer_result){ 0 };
	if (add_task_for_all(run, group, err) != 0)
		return -1;
	text_list_clear(&refs);
	push_group_add_refs(group, &refs);
	if (make_missing(run, group, err) != 0)
		return push_unmade(run, group, &request, result, err);
	return transfer_run(&request, result, err);
}

static void push_group_note_place(const struct push_run *run,
				  const struct push_group *group)
{
	struct target_call call = push_group_call(run, group);

	target_note_pushed(&call);
}

static void push_group_note_host(struct push_run *run, const struct err *why)
{
	if (!why || !(is_local_failure(why) || is_host_failure(why) ||
		      why->class == ERR_CANCELED || why->class == ERR_LOST ||
		      why->class == ERR_DISK || why->class == ERR_INTERNAL))
		run->result.host = HOST_ANSWERED;
	else if (is_host_failure(why))
		run->result.host = HOST_FAILED;
}

static void push_group_report_broken(const struct push_run *run,
				     const struct push_group *group,
				     const struct err *why)
{
	const struct push_options *options = &run->push->options;

	if (is_local_failure(why) && options->broken)
		options->broken(options->arg, group->project, why);
}

/* While it was pushed its repository went. false: it was put off. */
static bool push_group_lose(struct push_run *run, const struct push_group *group,
			    const struct err *why)
{
	struct err away;
	int found = push_group_look_again(run, group, &away);

	if (found < 0)
		push_group_put_off(run, group, &away);
	else if (found > 0)
		give_back_or_up(run, group, why);
	else
		push_settle_give_up(run, group, why);
	return found >= 0;
}

/* false: it did not fail, but was interrupted or put off. */
static bool fail_group(struct push_run *run, const struct push_group *group,
		       struct err *why)
{
	if (why->class == ERR_LOST) {
		run->is_stuck = true;
		return false;
	}
	if (why->class == ERR_CANCELED) {
		run->is_interrupted = true;
		push_settle_give_back(run, group);
		return false;
	}
	report_class(group->destination.remote->name, why->class);
	if (push_is_this_nodes_fault(why)) {
		push_group_put_off(run, group, why);
		return false;
	}
	push_group_note_host(run, why);
	push_group_report_broken(run, group, why);
	if (is_local_failure(why) && why->class == ERR_MISSING)
		return push_group_lose(run, group, why);
	if (!is_local_failure(why))
		err_prefix(why, "pushing %s to %s", group->project, run->uri);
	give_back_or_up(run, group, why);
	return true;
}

static void push_group_push_refs(struct push_run *run, struct push_group *group)
{
	struct transfer_result result = { 0 };
	int64_t began = clock_boot_ms();
	struct err why;

	if (group->tasks.count == 0)
		return;
	if (transfer(run, group, &result, &why) != 0) {
		if (fail_group(run, group, &why))
			ref_events_add(run, group, NULL);
	} else {
		failpoint("push.pushed");
		for (size_t i = 0; i < result.refs.count; i++)
			run->has_refused |=
				!result.refs.items[i].is_deletion &&
				!ref_status_is_good(result.refs.items[i].status);
		push_group_note_place(run, group);
		push_group_note_host(run, NULL);
		push_settle_group(run, group, &result);
		failpoint("push.done");
		ref_events_add(run, group, &result);
		report_done(&(struct push_account){
			.group = group,
			.uri = run->uri,
			.result = &result,
			.took_ms = clock_boot_ms() - began,
			.delay_ms = run->now - oldest(run, group),
			.retries = run->state.is_head ? 0 : run->state.failures,
			.max_refs = run->settings->max_refs_to_log,
		});
	}
	transfer_result_clear(&result);
}

#define REASON_CUT "its history is cut short by the depth of a mirror"
#define REASON_PERMISSIONS                                                               \
	"its HEAD is refs/meta/config, and the remote has replicatePermissions = false"

/* What it lacks, a destination would lack as well, or refuse. */
static bool push_group_is_cut(const char *repository)
{
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, repository, ERR_IGNORED);

	return dir >= 0 && cuts_are_ours(dir);
}

/* No try would end otherwise. Once its history is whole, that is a change of all its
 * refs. */
static void push_group_skip_cut(struct push_run *run, const struct push_group *group)
{
	log_warn("push.skipped", LOG_TEXT("repo", group->project),
		 LOG_TEXT("remote", group->remote), LOG_TEXT("uri", run->uri),
		 LOG_TEXT("reason", REASON_CUT),
		 LOG_TEXT("remedy", "leave it out of the remote's projects, or set the "
				    "mirror's depth to 0"));
	push_settle_finish(run, group);
	forget_head(run);
}

static bool push_group_is_left_out(const char *repository,
				   const struct push_remote *remote)
{
	AUTO_SNAPSHOT struct ref_snapshot head = REF_SNAPSHOT_INIT;
	AUTO_REPO struct repo repo = REPO_INIT;

	return !remote->replicates_permissions &&
	       repo_open(AT_FDCWD, repository, &repo, ERR_IGNORED) == 0 &&
	       ref_snapshot_read_head(repo.fd, repo.oid_len, &head, ERR_IGNORED) == 0 &&
	       push_remote_leaves_out_permissions(remote, head.head_target);
}

const char *push_cut_reason(const char *repository)
{
	return push_group_is_cut(repository) ? REASON_CUT : NULL;
}

const char *push_left_out_reason(const char *repository, const struct push_remote *remote)
{
	return push_group_is_left_out(repository, remote) ? REASON_PERMISSIONS : NULL;
}

/* Once its HEAD names another ref, that is a change of all its refs, too (push/sink.c).
 */
static void push_group_leave_out(struct push_run *run, const struct push_group *group)
{
	log_info("push.skipped", LOG_TEXT("repo", group->project),
		 LOG_TEXT("remote", group->remote), LOG_TEXT("uri", run->uri),
		 LOG_TEXT("reason", REASON_PERMISSIONS));
	push_settle_finish(run, group);
}

void push_group_work(struct push_run *run, struct push_group *group)
{
	struct err why;
	int found;

	if (destination_find(run->settings, group->remote, group->project, run->uri,
			     &group->destination, &why) != 0) {
		orphan(run, group, &why);
		return;
	}
	if (name_check(group->project, &why) != 0) {
		push_settle_give_up(run, group, &why);
		return;
	}
	if (destination_check_loop(run->settings, run->push->options.root,
				   &group->destination, &why) != 0) {
		fail_group(run, group, &why);
		return;
	}
	found = local_repository(run->push, group->project, &group->repository, &why);
	if (found >= 0 && serve_deletion(run, group))
		return;
	if (push_group_is_away(run, group, found, &why)) {
		push_group_put_off(run, group, &why);
		return;
	}
	if (found < 0) {
		outcome_is_local(&why, group->project);
		fail_group(run, group, &why);
		return;
	}
	if (found == 0) {
		no_repository(run, group, &why);
		push_settle_give_up(run, group, &why);
		forget_head(run);
		return;
	}
	if (push_group_is_cut(group->repository)) {
		push_group_skip_cut(run, group);
		return;
	}
	if (push_group_is_left_out(group->repository, group->destination.remote))
		push_group_leave_out(run, group);
	else
		push_group_push_refs(run, group);
	if (!run->is_failed && !run->is_stuck && !run->is_interrupted && !run->is_away)
		serve_head(run, group);
}
