/*
 * Tasks moved on by how their push went. What cannot be moved stays in running/, is said
 * in the log, and is found there by the next look (run->is_stuck).
 */
#include "base/log.h"
#include "push/dead_letters.h"
#include "push/outcome.h"
#include "push/push_metrics.h"

static void not_moved(struct push_run *run, const struct claimed_task *task,
		      const struct err *why)
{
	run->is_stuck = true;
	log_warn("push.not_moved", LOG_ERR(why), LOG_TEXT("task", task->name));
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

	if (group->tasks.count > 0)
		report_gave_up(group, run->uri, why);
	for (size_t i = 0; i < group->tasks.count && keeps_lease(run); i++) {
		note_letter(run, group->tasks.items[i]);
		if (task_store_fail(run->push->options.tasks, group->tasks.items[i], why,
				    &none, &err) != 0)
			not_moved(run, group->tasks.items[i], &err);
	}
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
	if (outcome->fate == TASK_SPLIT
		    ? push_settle_split_task(run, task, outcome, &why, err) != 0
		    : task_store_fail(tasks, task, &why, &outcome->failures, err) != 0)
		return -1;
	return task_is_all(&task->task) ? task_store_drop_letters(tasks, &task->task,
								  &outcome->failures, err)
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
			not_moved(run, task, &err);
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
	settle_letters(run, group, judge);
	settle_tasks(run, &(struct refusal){ run, group, result }, judge);
	judge_free(judge);
	results_sum(&result->refs, patience, &sum);
	if (sum.again == 0)
		return;
	why_again(run, group, &sum, &err);
	run->is_lock = sum.locked == sum.again;
	fail_run(run, group, &err);
}
