/*
 * One URI, from its lease to what became of its tasks.
 *
 * Every move of a task is made under the lease. Once that is lost, nothing is moved any
 * more: what is in running/ is the next holder's, who moves it back to waiting/ before it
 * claims (task_store_recover). A ref is read after its task was claimed, so that a change
 * that comes later makes a task of its own, and none is lost.
 */
#include <sys/random.h>

#include "base/failpoint.h"
#include "base/log.h"
#include "push/nodes.h"
#include "push/outcome.h"
#include "push/push_metrics.h"

typedef VEC(struct push_group) push_groups;

bool has_request(const struct push_run *run, enum uri_request request)
{
	for (size_t i = 0; i < run->requests.count; i++)
		if (run->requests.items[i].request == request)
			return true;
	return false;
}

/* The store or the lease cannot be used now. */
static void push_worker_put_off(struct push_run *run, const struct err *why)
{
	const int64_t store_retry_ms = 10000;

	if (why->class != ERR_CANCELED)
		log_warn("push.put_off", LOG_ERR(why), LOG_TEXT("uri", run->uri),
			 LOG_TEXT("remedy", why->remedy));
	run->result =
		(struct schedule_result){ .end = RUN_BUSY, .wait_ms = store_retry_ms };
	run->is_stuck = true;
}

/* Who has it is asked first: to be denied a lease is worth a line in the log elsewhere,
 * but here it is how nodes share the work. 1: it is ours; 0: another's; -1. */
static int take_lease(struct push_run *run, struct err *err)
{
	struct push *push = run->push;
	AUTO_FREE char *key = xasprintf(PUSH_URI_LEASE "%s", run->uri_key);
	struct lease_holder holder;
	struct lease_request request = {
		.key = key, .operation = "push", .job = run->uri, .stop = &push->kill
	};

	if (lease_inspect(push->options.leases, key, &holder, err) == 0 &&
	    push_holder_lives(&holder))
		return 0;
	if (lease_acquire(push->options.leases, &request, &run->lease, err) == 0)
		return 1;
	return err->class == ERR_BUSY ? 0 : -1;
}

/* Because of a failure that another node wrote down since we read it. */
static bool is_too_early(const struct push_run *run)
{
	if (run->is_released &&
	    (has_request(run, REQUEST_FORCE) || is_host_failure(&run->state.failure)))
		return false;
	if (run->state.held_since > 0 && !has_request(run, REQUEST_DELETE))
		return false; /* it has come back */
	return retry_at_of(run->settings, &run->state, run->now) > run->now;
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
	struct log_context before = log_set_context((struct log_context){
		.repo = group->project, .job = "push", .peer = group->remote });

	push_group_work(run, group);
	log_set_context(before);
	destination_clear(&group->destination);
	free(group->repository);
	vec_clear(&group->tasks);
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
	for (size_t i = 0; i < groups.count; i++)
		work_group(run, &groups.items[i]);
	vec_clear(&groups);
}

static unsigned push_worker_roll_backoff(void)
{
	unsigned random;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		abort();
	return random % BACKOFF_ROLLS;
}

static int write_failure(struct push_run *run, struct err *err)
{
	struct uri_state *state = &run->state;
	int64_t now = run->now, wait;

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
			       push_worker_roll_backoff());
	state->retry_at = now + wait;
	run->result.end = RUN_LATER;
	run->result.retry_at = state->retry_at;
	run->result.is_host_failure = is_host_failure(&run->why);
	report_failed(run, wait);
	return uri_state_write(run->push->options.tasks, run->uri_key, state, err);
}

static void push_worker_forget_failure(struct uri_state *state)
{
	state->retry_at = state->failing_since = 0;
	state->failures = state->lock_failures = 0;
	state->held_since = 0;
	state->failure = (struct err){ 0 };
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
	const int64_t orphan_retry_ms = 60000;

	if (run->is_failed)
		return write_failure(run, err);
	if (run->has_orphans) {
		run->result.end = RUN_BUSY;
		run->result.wait_ms = orphan_retry_ms;
	}
	if (run->is_empty || run->is_interrupted)
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

	if (work_uri(run, &err) != 0)
		push_worker_put_off(run, &err);
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
