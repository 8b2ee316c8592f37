/*
 * One URI, from its lease to what became of its tasks.
 *
 * Every move of a task is made under the lease. Once that is lost, nothing is moved any
 * more: what is in running/ is the next holder's, who moves it back to waiting/ before it
 * claims (task_store_recover). A ref is read after its task was claimed, so that a change
 * that comes later makes a task of its own, and none is lost.
 */

#include "base/bell.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/map.h"
#include "base/retry.h"
#include "push/dead_letters.h"
#include "push/nodes.h"
#include "push/outcome.h"
#include "push/push_run.h"

/*
 * Tasks moved on by how their push went. What cannot be moved stays in running/, is said
 * in the log, and is found there by the next look (run->is_stuck).
 */

static void not_moved(struct push_run *run, const struct claimed_task *task,
		      const struct err *why)
{
	run->is_stuck = true;
	log_warn("push.not_moved", LOG_ERR(why), LOG_TEXT("task", task->name));
}

/* Its failure counts, and the next try waits for its time, which only a task that waits
 * keeps: else what it is stuck by would have it pushed again and again. */
static void push_settle_get_stuck(struct push_run *run, const struct push_group *group,
				  const struct claimed_task *task, const struct err *why,
				  const struct err *failure)
{
	not_moved(run, task, why);
	if (why->class == ERR_LOST) /* it is no more */
		return;
	fail_run(run, group, failure);
	if (task_store_give_back(run->push->options.tasks, task, ERR_IGNORED) == 0)
		run->has_given_back = true;
}

/* Asked before each move: there may be thousands, and another holder's are under the same
 * names. */
static bool keeps_lease(struct push_run *run)
{
	if (lease_check(run->lease, ERR_IGNORED) == 0)
		return true;
	run->is_stuck = true;
	return false;
}

typedef int (*task_move)(struct task_store *store, const struct claimed_task *task,
			 struct err *err);

static void move_all(struct push_run *run, const struct push_group *group, task_move move)
{
	struct err err;

	for (size_t i = 0; i < group->tasks.count && keeps_lease(run); i++)
		if (move(run->push->options.tasks, group->tasks.items[i], &err) != 0)
			not_moved(run, group->tasks.items[i], &err);
}

void push_settle_give_back(struct push_run *run, const struct push_group *group)
{
	move_all(run, group, task_store_give_back);
	run->has_given_back = true;
}

void push_settle_finish(struct push_run *run, const struct push_group *group)
{
	move_all(run, group, task_store_done);
}

void push_settle_give_up(struct push_run *run, const struct push_group *group,
			 const struct err *why)
{
	static const ref_failures none = { 0 };
	struct err err;

	if (group->tasks.count == 0 || !keeps_lease(run))
		return;
	report_gave_up(group, run->uri, why);
	for (size_t i = 0; i < group->tasks.count; i++)
		note_letter(run, group->tasks.items[i]);
	if (write_letters(run, &err) != 0) {
		push_settle_get_stuck(run, group, group->tasks.items[0], &err, why);
		push_settle_give_back(run, group);
		return;
	}
	for (size_t i = 0; i < group->tasks.count && keeps_lease(run); i++)
		if (task_store_fail(run->push->options.tasks, group->tasks.items[i], why,
				    &none, &err) != 0)
			push_settle_get_stuck(run, group, group->tasks.items[i], &err,
					      why);
}

void give_back_or_up(struct push_run *run, const struct push_group *group,
		     const struct err *why)
{
	struct err last = *why;

	if (patience_left(run->settings, group->destination.remote, &run->state)
		    .is_over) {
		err_remedy(&last,
			   "mend that; then retry the tasks (refrelay push retry), "
			   "or discard them");
		push_settle_give_up(run, group, &last);
		run->has_refused = true; /* HEAD's branch may not be there */
		return;
	}
	push_settle_give_back(run, group);
	fail_run(run, group, why);
}

/* The part that is to be tried again becomes a task of its own, before the whole is put
 * away: a crash in between costs a second try, and no ref. */
static int push_settle_split_task(struct push_run *run, const struct claimed_task *task,
				  struct task_outcome *outcome, const struct err *why,
				  struct err *err)
{
	struct task left = { .project = task->task.project,
			     .uri = task->task.uri,
			     .remote = task->task.remote,
			     .refs = outcome->left };
	bool is_new;
	int added = task_store_add(run->push->options.tasks, &left, task->since, &is_new,
				   err);

	outcome->left = left.refs; /* in another order */
	if (added != 0)
		return -1;
	return task_store_fail(run->push->options.tasks, task, why, &outcome->failures,
			       err);
}

/* Why refs are given up. */
struct refusal {
	const struct push_run *run;
	const struct push_group *group;
	const struct transfer_result *result;
};

static const struct ref_result *result_of(const struct refusal *refusal, const char *ref)
{
	const ref_results *refs = &refusal->result->refs;

	for (size_t i = 0; i < refs->count; i++)
		if (strcmp(refs->items[i].ref, ref) == 0)
			return &refs->items[i];
	return NULL;
}

static void why_held(const struct refusal *refusal, struct err *why)
{
	err_set(why, ERR_CONFLICT,
		"pushing %s to %s: would delete %zu of %zu refs there, which is held",
		refusal->group->project, refusal->run->uri, refusal->result->deletions,
		refusal->result->remote_refs);
	err_remedy(why, "if that is right: refrelay push retry --force %.10s",
		   refusal->run->uri_key);
}

static void why_refused(const struct refusal *refusal, const struct task_outcome *outcome,
			struct err *why)
{
	const struct ref_failure *example = &outcome->failures.items[0];
	const struct ref_result *result = result_of(refusal, example->ref);

	if (result && result->is_held) {
		why_held(refusal, why);
		return;
	}
	err_set(why, ERR_CONFLICT, "pushing %s to %s: %s was refused: %.200s",
		refusal->group->project, refusal->run->uri, example->ref, example->text);
	if (result && result->status == REF_REJECTED_NONFASTFORWARD &&
	    !result->needs_force)
		err_remedy(why,
			   "the destination refuses it, as receive.denyNonFastForwards "
			   "or a right there says: change that there, then retry the "
			   "task, or discard it");
	else if (result && result->needs_force)
		err_remedy(
			why,
			"if what is there may be overwritten, put a \"+\" before that "
			"spec in push of the remote, or set "
			"gerrit.defaultForceUpdate; then retry the task, or discard it");
	else
		err_remedy(why,
			   "see why the destination refuses it; then retry the task, "
			   "or discard it");
}

static int give_up_refs(struct push_run *run, const struct refusal *refusal,
			const struct claimed_task *task, struct task_outcome *outcome,
			struct err *err)
{
	struct task_store *tasks = run->push->options.tasks;
	struct err why;

	why_refused(refusal, outcome, &why);
	report_gave_up(refusal->group, run->uri, &why);
	note_letter(run, task);
	if (write_letters(run, err) != 0)
		return -1;
	if (outcome->fate == TASK_SPLIT
		    ? push_settle_split_task(run, task, outcome, &why, err) != 0
		    : task_store_fail(tasks, task, &why, &outcome->failures, err) != 0)
		return -1;
	return task_is_all(&task->task)
		       ? drop_repeated_letters(run, &task->task, &outcome->failures, err)
		       : 0;
}

static int move_on(struct push_run *run, const struct refusal *refusal,
		   const struct claimed_task *task, struct task_outcome *outcome,
		   struct err *err)
{
	struct task_store *store = run->push->options.tasks;

	switch (outcome->fate) {
	case TASK_DONE:
		return task_store_done(store, task, err);
	case TASK_AGAIN:
		run->has_given_back = true;
		return task_store_give_back(store, task, err);
	case TASK_FEWER:
		return task_store_shrink(store, task, &outcome->left, err);
	case TASK_FAILED:
	case TASK_SPLIT:
		return give_up_refs(run, refusal, task, outcome, err);
	}
	return 0;
}

static void why_again(const struct push_run *run, const struct push_group *group,
		      const struct results_sum *sum, struct err *why)
{
	const struct ref_result *example = sum->example;

	err_set(why, ERR_CONFLICT, "pushing %s to %s: %zu ref%s not taken, as %s: %.200s",
		group->project, run->uri, sum->again, sum->again == 1 ? "" : "s",
		example->ref,
		example->text ? example->text : ref_status_name(example->status));
	if (sum->locked > 0)
		err_remedy(why,
			   "if no git works there any more, remove the file %s.lock "
			   "in that repository",
			   example->dst);
}

static void settle_tasks(struct push_run *run, const struct refusal *refusal,
			 const struct judge *judge)
{
	const struct push_group *group = refusal->group;
	struct err err;

	for (size_t i = 0; i < group->tasks.count && keeps_lease(run); i++) {
		const struct claimed_task *task = group->tasks.items[i];
		struct task_outcome outcome;
		judge_task(judge, &task->task, &outcome);
		if (move_on(run, refusal, task, &outcome, &err) != 0)
			push_settle_get_stuck(run, group, task, &err, &err);
		task_outcome_clear(&outcome);
	}
}

void push_settle_group(struct push_run *run, const struct push_group *group,
		       const struct transfer_result *result)
{
	struct patience patience =
		patience_left(run->settings, group->destination.remote, &run->state);
	struct results_sum sum;
	struct err err;

	if (lease_check(run->lease, &err) != 0) {
		run->is_stuck = true;
		return;
	}
	if (has_request(run, REQUEST_FORCE))
		uri_request_remove(run->push->options.tasks, run->uri_key, REQUEST_FORCE,
				   ERR_IGNORED);
	struct judge *judge = judge_new(&result->refs, patience);
	settle_dead_letters(run, group, judge);
	settle_tasks(run, &(struct refusal){ run, group, result }, judge);
	judge_free(judge);
	results_sum(&result->refs, patience, &sum);
	if (sum.again == 0)
		return;
	why_again(run, group, &sum, &err);
	run->is_lock = sum.locked == sum.again;
	fail_run(run, group, &err);
}

#define RETRY_LEAST_MS 1000

int64_t push_backoff_ms(int64_t retry_ms, uint64_t failures, unsigned roll)
{
	int64_t delay = retry_ms < RETRY_LEAST_MS ? RETRY_LEAST_MS : retry_ms;
	int64_t cap = retry_ms > BACKOFF_CAP_MS ? retry_ms : BACKOFF_CAP_MS;

	for (uint64_t i = 1; i < failures && delay < cap; i++)
		delay *= 2;
	if (delay > cap)
		delay = cap;
	return delay / 1000 * (800 + roll) + delay % 1000 * (800 + roll) / 1000;
}

int64_t retry_at_of(const struct push_settings *settings, const struct uri_state *state,
		    int64_t now)
{
	const struct push_remote *remote =
		state->remote ? push_remote_find(settings, state->remote) : NULL;
	const uint64_t failures =
		remote && state->held_since == 0 ? state->failures : UINT64_MAX;
	int64_t longest = push_backoff_ms(remote ? remote->retry_ms : 0, failures,
					  BACKOFF_ROLLS - 1);

	return state->retry_at - now <= longest ? state->retry_at : 0;
}

struct patience patience_left(const struct push_settings *settings,
			      const struct push_remote *remote,
			      const struct uri_state *state)
{
	bool locks_apart = settings->lock_max_retries >= 0;
	uint64_t others = state->is_head ? 0 : state->failures;

	if (locks_apart)
		others -= state->lock_failures < others ? state->lock_failures : others;
	bool is_over = remote->max_retries > 0 && others >= remote->max_retries;
	return (struct patience){
		.is_over = is_over,
		.is_over_for_locks =
			locks_apart ? state->lock_failures >=
					      (uint64_t)settings->lock_max_retries
				    : is_over,
	};
}

bool patience_is_over_for_head(const struct push_remote *remote,
			       const struct uri_state *state)
{
	uint64_t failures = state->is_head ? state->failures : 0;

	return remote->max_retries > 0 && failures >= remote->max_retries;
}

enum ref_fate { REF_GOOD, REF_AGAIN, REF_FINAL };

static enum ref_fate fate_of(const struct ref_result *result, struct patience patience)
{
	if (ref_status_is_good(result->status))
		return REF_GOOD;
	/* It is a person who has to do something. */
	if (result->is_held)
		return REF_FINAL;
	/* What was not tried has not failed. */
	if (result->status == REF_NOT_ATTEMPTED || result->is_transient)
		return (result->is_lock ? patience.is_over_for_locks : patience.is_over)
			       ? REF_FINAL
			       : REF_AGAIN;
	return REF_FINAL;
}

void results_sum(const ref_results *results, struct patience patience,
		 struct results_sum *sum)
{
	*sum = (struct results_sum){ 0 };
	for (size_t i = 0; i < results->count; i++) {
		const struct ref_result *result = &results->items[i];
		enum ref_fate fate = fate_of(result, patience);
		sum->again += fate == REF_AGAIN;
		sum->locked += fate == REF_AGAIN && result->is_lock;
		if ((fate == REF_AGAIN && sum->again == 1) ||
		    (fate == REF_FINAL && !sum->example))
			sum->example = result;
	}
}

struct judge {
	const ref_results *results;
	struct patience patience;
	struct map by_ref; /* struct ref_result */
};

struct judge *judge_new(const ref_results *results, struct patience patience)
{
	struct judge *judge = xcalloc(1, sizeof(*judge));

	judge->results = results;
	judge->patience = patience;
	for (size_t i = 0; i < results->count; i++)
		map_put(&judge->by_ref, results->items[i].ref, &results->items[i]);
	return judge;
}

void judge_free(struct judge *judge)
{
	map_clear(&judge->by_ref);
	free(judge);
}

static void outcome_add_ref(const struct judge *judge, const struct ref_result *result,
			    struct task_outcome *outcome)
{
	struct ref_failure failure;

	switch (fate_of(result, judge->patience)) {
	case REF_GOOD:
		return;
	case REF_AGAIN:
		vec_add(&outcome->left, xstrdup(result->ref));
		return;
	case REF_FINAL:
		failure.ref = xstrdup(result->ref);
		failure.text = xasprintf("%s%s%s", ref_status_name(result->status),
					 result->text ? ": " : "",
					 result->text ? result->text : "");
		vec_add(&outcome->failures, failure);
	}
}

void judge_task(const struct judge *judge, const struct task *task,
		struct task_outcome *outcome)
{
	*outcome = (struct task_outcome){ 0 };
	if (task_is_all(task)) {
		for (size_t i = 0; i < judge->results->count; i++)
			outcome_add_ref(judge, &judge->results->items[i], outcome);
	} else {
		for (size_t i = 0; i < task->refs.count; i++) {
			const struct ref_result *result =
				map_get(&judge->by_ref, task->refs.items[i]);
			if (result) /* else no spec maps it: there is nothing to do */
				outcome_add_ref(judge, result, outcome);
		}
	}
	if (outcome->failures.count > 0)
		outcome->fate = outcome->left.count > 0 ? TASK_SPLIT : TASK_FAILED;
	else if (outcome->left.count == 0)
		outcome->fate = TASK_DONE;
	else if (!task_is_all(task) && outcome->left.count == task->refs.count)
		outcome->fate = TASK_AGAIN;
	else
		outcome->fate = TASK_FEWER;
}

void task_outcome_clear(struct task_outcome *outcome)
{
	text_list_clear(&outcome->left);
	ref_failures_clear(&outcome->failures);
}

int outcome_is_local(struct err *err, const char *repository)
{
	if (repository)
		err_prefix(err, "local repository %s", repository);
	else
		err_prefix(err, "local repository");
	return err_because(err, REASON_LOCAL_REPOSITORY);
}

bool is_host_failure(const struct err *why)
{
	return (why->class == ERR_NETWORK || why->class == ERR_TIMEOUT) &&
	       why->reason != REASON_LOCAL_REPOSITORY && why->reason != REASON_ELSEWHERE;
}

typedef VEC(struct push_group) push_groups;

/* A repository's deletion is what it was, however long it takes; its refs may be others.
 */
static bool is_outdated(const struct push_run *run, const struct requested *requested)
{
	return uri_request_is_outdated(requested, run->now) &&
	       !has_request(run, REQUEST_DELETE);
}

bool has_request(const struct push_run *run, enum uri_request request)
{
	for (size_t i = 0; i < run->requests.count; i++)
		if (run->requests.items[i].request == request &&
		    !is_outdated(run, &run->requests.items[i]))
			return true;
	return false;
}

/* The store or the lease cannot be used now. The time of a failure that could not be
 * written stands, and so does what the host did. */
static void push_worker_put_off(struct push_run *run, const struct err *why)
{
	const int64_t store_retry_ms = 10000;

	if (why->class != ERR_CANCELED)
		log_warn("push.put_off", LOG_ERR(why), LOG_TEXT("uri", run->uri),
			 LOG_TEXT("remedy", why->remedy));
	if (run->result.end != RUN_LATER || run->result.retry_at <= run->now) {
		run->result.end = RUN_BUSY;
		run->result.wait_ms = store_retry_ms;
	}
	run->is_stuck = true;
}

/* Who has it is asked first: to be denied a lease is worth a line in the log elsewhere,
 * but here it is how nodes share the work. 1: it is ours; 0: another's; -1. */
static int take_lease(struct push_run *run, struct err *err)
{
	struct push *push = run->push;
	AUTO_FREE char *key = xasprintf(PUSH_URI_LEASE "%s", run->uri_key);
	struct lease_holder holder;
	struct lease_request request = { .key = key,
					 .operation = "push",
					 .job = run->job_id,
					 .name = run->uri,
					 .stop = &push->kill };

	if (lease_inspect(push->options.leases, key, &holder, err) == 0 &&
	    push_holder_lives(&holder))
		return 0;
	if (lease_acquire(push->options.leases, &request, &run->lease, err) == 0)
		return 1;
	return err->class == ERR_BUSY ? 0 : -1;
}

bool has_to_wait(const struct push_run *run)
{
	if (run->is_released &&
	    (has_request(run, REQUEST_FORCE) || is_host_failure(&run->state.failure)))
		return false;
	return retry_at_of(run->settings, &run->state, run->now) > run->now;
}

/* Because of a failure that another node wrote down since we read it. */
static bool is_too_early(const struct push_run *run)
{
	if (run->state.is_head)
		return false; /* that is HEAD's: see serve_head() */
	if (run->state.held_since > 0 && !has_request(run, REQUEST_DELETE))
		return false; /* it has come back */
	return has_to_wait(run);
}

static int push_worker_read_requests(struct push_run *run, struct err *err)
{
	for (int i = 0; i < URI_REQUESTS; i++) {
		struct requested requested = { 0 };
		int found = uri_request_get(run->push->options.tasks, run->uri_key,
					    (enum uri_request)i, &requested, err);
		if (found < 0)
			return -1;
		if (found > 0)
			vec_add(&run->requests, requested);
		if (found > 0 && is_outdated(run, &requested)) {
			uri_request_remove(run->push->options.tasks, run->uri_key,
					   REQUEST_FORCE, ERR_IGNORED);
			log_info("push.permission_expired", LOG_TEXT("uri", run->uri));
		}
	}
	return 0;
}

/* The group of that remote and repository, made if missing. */
static struct push_group *group_of(push_groups *groups, const char *remote,
				   const char *project)
{
	for (size_t i = 0; i < groups->count; i++) {
		struct push_group *group = &groups->items[i];
		if (strcmp(group->remote, remote) == 0 &&
		    strcmp(group->project, project) == 0)
			return group;
	}
	vec_add(groups, ((struct push_group){ .remote = remote, .project = project }));
	return &groups->items[groups->count - 1];
}

/* What is asked for without tasks. An allowance for a push that is not there is void. */
static void group_requests(struct push_run *run, push_groups *groups)
{
	for (size_t i = 0; i < run->requests.count && groups->count == 0; i++) {
		const struct requested *requested = &run->requests.items[i];
		if (requested->request != REQUEST_FORCE)
			group_of(groups, requested->remote, requested->project);
		else if (run->requests.count == 1)
			uri_request_remove(run->push->options.tasks, run->uri_key,
					   REQUEST_FORCE, ERR_IGNORED);
	}
}

static void work_group(struct push_run *run, struct push_group *group)
{
	struct log_context before =
		log_set_context((struct log_context){ .repo = group->project,
						      .job = "push",
						      .job_id = run->job_id,
						      .peer = group->remote });

	push_group_work(run, group);
	log_set_context(before);
	destination_clear(&group->destination);
	free(group->repository);
	vec_clear(&group->tasks);
	claimed_tasks_clear(&group->added);
}

static void work_groups(struct push_run *run, const claimed_tasks *tasks)
{
	push_groups groups = { 0 };

	for (size_t i = 0; i < tasks->count; i++) {
		const struct claimed_task *task = &tasks->items[i];
		struct push_group *group =
			group_of(&groups, task->task.remote, task->task.project);
		vec_add(&group->tasks, task);
	}
	group_requests(run, &groups);
	run->is_empty = groups.count == 0;
	run->has_no_tasks = tasks->count == 0;
	for (size_t i = 0; i < groups.count; i++)
		work_group(run, &groups.items[i]);
	vec_clear(&groups);
}

static void push_worker_forget_failure(struct uri_state *state)
{
	state->retry_at = state->failing_since = 0;
	state->failures = state->lock_failures = 0;
	state->held_since = 0;
	state->is_head = false;
	state->failure = (struct err){ 0 };
}

static int write_failure(struct push_run *run, struct err *err)
{
	struct uri_state *state = &run->state;
	int64_t now = run->now, wait;

	if (state->is_head != run->is_head)
		push_worker_forget_failure(state); /* the refs', or HEAD's, are over */
	state->is_head = run->is_head;
	state->failures++;
	state->lock_failures += run->is_lock;
	state->failure = run->why;
	snprintf(state->node, sizeof(state->node), "%s", run->push->options.node);
	if (task_store_now(run->push->options.tasks, &now, err) != 0)
		return -1;
	if (state->failing_since == 0)
		state->failing_since = now;
	state->held_since = run->is_held ? now : 0;
	wait = push_backoff_ms(run->retry_ms, run->is_held ? UINT64_MAX : state->failures,
			       random_roll() % BACKOFF_ROLLS);
	state->retry_at = now + wait;
	run->result.end = RUN_LATER;
	run->result.retry_at = state->retry_at;
	run->result.is_host_failure = is_host_failure(&run->why);
	push_report_failed(run, wait);
	return uri_state_write(run->push->options.tasks, run->uri_key, state, err);
}

/* None is better than one that says nothing. */
static int write_state(struct push_run *run, struct err *err)
{
	struct task_store *store = run->push->options.tasks;

	if (run->state.letters.count == 0 && run->state.failures == 0)
		return uri_state_remove(store, run->uri_key, err);
	return uri_state_write(store, run->uri_key, &run->state, err);
}

/* What is left to do after the last group. */
static int push_worker_conclude(struct push_run *run, bool had_state, struct err *err)
{
	const int64_t put_off_ms = 60000;

	if (run->is_failed)
		return write_failure(run, err);
	if (run->is_head) {
		run->result.end = RUN_LATER;
		run->result.retry_at = run->state.retry_at;
		run->result.is_host_failure = is_host_failure(&run->state.failure);
	}
	if (run->is_head && !run->has_no_tasks && !run->has_orphans && !run->is_away) {
		run->state.last_success_at = run->now; /* HEAD still fails */
		run->has_changed = true;
	}
	if (run->has_orphans || run->is_away) {
		run->result.end = RUN_BUSY;
		run->result.wait_ms = put_off_ms;
	}
	if (run->is_empty || run->is_interrupted || run->is_head || run->is_away)
		return run->has_changed ? write_state(run, err) : 0;
	if (!had_state && !run->has_changed)
		return 0;
	push_worker_forget_failure(&run->state);
	return write_state(run, err);
}

static int work_claimed(struct push_run *run, bool had_state, struct err *err)
{
	AUTO_CLAIMED claimed_tasks tasks = { 0 };
	struct task_store *store = run->push->options.tasks;
	size_t recovered = 0;

	if (task_store_recover(store, run->uri_key, &recovered, err) != 0)
		return -1;
	if (recovered > 0) {
		run->has_recovered = true;
		log_info("push.recovered", LOG_NUMBER("tasks", recovered),
			 LOG_TEXT("uri", run->uri));
		failpoint("push.recovered");
	}
	if (task_store_claim(store, run->uri, &tasks, err) != 0)
		return -1;
	failpoint("push.claimed");
	work_groups(run, &tasks);
	if (lease_check(run->lease, err) != 0)
		return -1;
	return push_worker_conclude(run, had_state, err);
}

static int work_leased(struct push_run *run, struct err *err)
{
	struct task_store *store = run->push->options.tasks;
	int found = uri_state_read(store, run->uri_key, &run->state, err);

	if (found < 0 || push_worker_read_requests(run, err) != 0)
		return -1;
	if (is_too_early(run)) {
		run->result.end = RUN_LATER;
		run->result.retry_at = run->state.retry_at;
		run->result.is_host_failure = is_host_failure(&run->state.failure);
		run->is_held = run->state.held_since > 0;
		return 0;
	}
	return work_claimed(run, found > 0, err);
}

static int work_uri(struct push_run *run, struct err *err)
{
	struct push *push = run->push;
	int ours;

	if (task_store_now(push->options.tasks, &run->now, err) != 0)
		return -1;
	ours = take_lease(run, err);
	if (ours < 0)
		return -1;
	if (ours == 0) {
		run->result.end = RUN_BUSY;
		return 0;
	}
	run->work = (struct git_work){ .deadline = lease_deadline(run->lease),
				       .stop = &push->kill,
				       .guard_fd = lease_guard_fd(run->lease) };
	int result = work_leased(run, err);
	if (run->has_given_back &&
	    task_store_sync_waiting(push->options.tasks,
				    result == 0 ? err : ERR_IGNORED) != 0)
		result = -1;
	if (lease_check(run->lease, ERR_IGNORED) == 0)
		task_store_tidy(push->options.tasks, run->uri_key);
	lease_release(TAKE(run->lease));
	return result;
}

void push_run_work(void *arg)
{
	struct push_run *run = arg;
	struct push *push = run->push;
	struct err err;

	bell_ring();
	lease_job_new(run->job_id);
	struct log_context before = log_set_context(
		(struct log_context){ .job = "push", .job_id = run->job_id });
	if (work_uri(run, &err) != 0)
		push_worker_put_off(run, &err);
	log_set_context(before);
	bell_ring();
	lock(&push->mutex);
	TAILQ_INSERT_TAIL(&push->finished, run, link);
	unlock(&push->mutex);
	push_poke(push);
}

void push_run_free(struct push_run *run)
{
	uri_state_clear(&run->state);
	requested_list_clear(&run->requests);
	push_settings_unref(run->settings);
	free(run->uri);
	free(run);
}
