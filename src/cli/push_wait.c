/*
 * A task has an end when its file is in neither waiting/ nor running/, and no other task
 * of the URI stands for what is left of it: after a push that not all refs came through,
 * those that are tried again are a task of their own, which is followed from there on.
 * Such a push leaves a failure in the state of the URI, with which all its tasks wait; so
 * only where there is one the store is listed.
 *
 * What end it was is known once whoever worked on the URI has let go of its lease, since
 * what is recorded of a failure is written before that, and taken away by a success: a
 * dead letter that is younger than the start, or a state that tells of a failure.
 */
#include "cli/push_wait.h"

#include "base/clock.h"
#include "push/dead_letters.h"
#include "push/push.h"
#include "push/task_list.h"

enum {
	LOOK_FIRST_MS = 20,
	LOOK_LAST_MS = 500,
	LOOK_MAX_MS = 5000, /* where looking itself takes long */
};

void started_list_clear(started_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->items[i].project);
		free(list->items[i].uri);
		free(list->items[i].host);
		free(list->items[i].ref);
	}
	vec_clear(list);
}

int waiting_begin(struct waiting *waiting, struct err *err)
{
	struct task_store *tasks = waiting->call->push.tasks;

	if (task_store_now(tasks, &waiting->started_at, err) != 0)
		return -1;
	return uri_state_list(tasks, &waiting->before, err);
}

void waiting_clear(struct waiting *waiting)
{
	uri_states_clear(&waiting->before);
}

static const struct uri_state *state_before(const struct waiting *waiting,
					    const struct started *one)
{
	for (size_t i = 0; i < waiting->before.count; i++)
		if (strcmp(waiting->before.items[i].uri, one->uri) == 0)
			return &waiting->before.items[i];
	return NULL;
}

static void push_wait_report_task(struct started *one, const char *failure,
				  const char *how)
{
	one->is_ended = true;
	one->has_failed = failure != NULL;
	push_print("Replicate %s refs %s to %s, %s! (%s)", one->project,
		   one->ref ? one->ref : TASK_ALL_REFS, one->host,
		   failure ? "FAILED" : "Succeeded", failure ? failure : how);
	fflush(stdout);
}

static bool covers(const struct task *task, const char *ref)
{
	return !ref || task_is_all(task) || ref_names_have(&task->refs, ref);
}

/* What was given up of a whole push may be other refs. */
static bool is_about(const struct dead_letter *letter, const struct started *one)
{
	if (strcmp(letter->task.uri, one->uri) != 0)
		return false;
	for (size_t i = 0; one->ref && i < letter->refs.count; i++)
		if (strcmp(letter->refs.items[i].ref, one->ref) == 0)
			return true;
	return !one->ref || (letter->refs.count == 0 && covers(&letter->task, one->ref));
}

static const struct dead_letter *find_letter(const struct waiting *waiting,
					     const struct started *one,
					     const dead_letters *letters)
{
	for (size_t i = 0; i < letters->count; i++) {
		const struct dead_letter *letter = &letters->items[i];
		if (letter->failed_at >= waiting->started_at && is_about(letter, one))
			return letter;
	}
	return NULL;
}

/* A success leaves no failure behind. So one that stands as it was before says that the
 * task went without having been tried. */
static const char *failure_of(const struct waiting *waiting, const struct started *one,
			      const struct uri_state *state)
{
	const struct uri_state *before;

	if (state->failures == 0)
		return state->failure.class == ERR_CANCELED ? state->failure.text : NULL;
	before = state_before(waiting, one);
	if (before && before->failures == state->failures &&
	    before->failing_since == state->failing_since)
		return "discarded";
	return state->failure.text;
}

enum rest { REST_NONE, REST_OTHERS, REST_OURS };

/* A task that stands for it is followed from here on. */
static enum rest find_rest(struct started *one, const listed_tasks *tasks)
{
	enum rest rest = REST_NONE;

	for (size_t i = 0; i < tasks->count; i++) {
		const struct listed_task *task = &tasks->items[i];
		if (strcmp(task->task.uri, one->uri) != 0)
			continue;
		rest = REST_OTHERS;
		if (!covers(&task->task, one->ref))
			continue;
		snprintf(one->key, sizeof(one->key), "%s", task->name);
		one->is_gone = one->is_settled = false;
		return REST_OURS;
	}
	return rest;
}

/* It is looked for twice: one that goes from running/ back to waiting/ may be missed, but
 * not again when it has a time to wait for. */
static int look_for_rest(struct waiting *waiting, struct started *one, enum rest *rest,
			 struct err *err)
{
	*rest = REST_NONE;
	for (int i = 0; i < 2 && *rest != REST_OURS; i++) {
		listed_tasks tasks = { 0 };
		if (task_store_list(waiting->call->push.tasks, &tasks, NULL, err) != 0)
			return -1;
		*rest = find_rest(one, &tasks);
		listed_tasks_clear(&tasks);
	}
	return 0;
}

static int push_wait_check_outcome(struct waiting *waiting, struct started *one,
				   const dead_letters *letters, struct err *err)
{
	AUTO_URI_STATE struct uri_state state = { 0 };
	struct task_store *tasks = waiting->call->push.tasks;
	const struct dead_letter *letter = find_letter(waiting, one, letters);
	int found = uri_state_read(tasks, one->uri_key, &state, err);

	enum rest rest = REST_NONE;

	if (found > 0 && state.failures > 0) {
		if (look_for_rest(waiting, one, &rest, err) != 0)
			return -1;
		if (rest == REST_OURS)
			return 0;
		/* It may have been done since the state was read. */
		uri_state_clear(&state);
		found = uri_state_read(tasks, one->uri_key, &state, err);
	}
	if (found < 0)
		return -1;
	if (letter)
		push_wait_report_task(one, letter->why.text, NULL);
	else if (one->ref && rest == REST_OTHERS) /* which fail without it */
		push_wait_report_task(one, NULL, "OK");
	else
		push_wait_report_task(
			one, found > 0 ? failure_of(waiting, one, &state) : NULL, "OK");
	return 0;
}

/* 1: nobody works on the URI any more who did when the task was first seen gone. */
static int push_wait_is_settled(struct waiting *waiting, struct started *one,
				struct err *err)
{
	struct lease_holder holder = { 0 };
	AUTO_FREE char *key = xasprintf(PUSH_URI_LEASE "%s", one->uri_key);
	bool was_gone = one->is_gone;

	one->is_gone = true;
	if (lease_inspect(waiting->call->push.leases, key, &holder, err) != 0)
		return err->class == ERR_MISSING ? 1 : -1;
	if (!holder.held || holder.is_dead)
		return 1;
	if (!was_gone)
		one->gone_fence = holder.fence;
	return holder.fence != one->gone_fence;
}

static int push_wait_observe_task(struct waiting *waiting, struct started *one,
				  struct err *err)
{
	bool is_there = false;
	int settled;

	if (!one->is_gone &&
	    task_store_has(waiting->call->push.tasks, one->key, &is_there, err) != 0)
		return -1;
	settled = is_there ? 0 : push_wait_is_settled(waiting, one, err);
	one->is_settled = settled > 0;
	return settled < 0 ? -1 : 0;
}

/* Letters are read after their tasks were seen gone: they are written before that. */
static int judge_settled(struct waiting *waiting, struct err *err)
{
	dead_letters letters = { 0 };
	int result = task_store_letters(waiting->call->push.tasks, &letters, err);

	for (size_t i = 0; result == 0 && i < waiting->list->count; i++) {
		struct started *one = &waiting->list->items[i];
		if (one->is_settled && !one->is_ended)
			result = push_wait_check_outcome(waiting, one, &letters, err);
	}
	dead_letters_clear(&letters);
	return result;
}

/* *left: how many have not ended. */
static int push_wait_observe_all(struct waiting *waiting, size_t *left, struct err *err)
{
	size_t settled = 0;

	for (size_t i = 0; i < waiting->list->count; i++) {
		struct started *one = &waiting->list->items[i];
		if (one->is_ended)
			continue;
		if (push_wait_observe_task(waiting, one, err) != 0)
			return -1;
		settled += one->is_settled;
	}
	if (settled > 0 && judge_settled(waiting, err) != 0)
		return -1;
	*left = 0;
	for (size_t i = 0; i < waiting->list->count; i++)
		*left += !waiting->list->items[i].is_ended;
	return 0;
}

static void tell_why_it_waits(struct waiting *waiting, struct started *one)
{
	AUTO_URI_STATE struct uri_state state = { 0 };
	AUTO_FREE char *why = NULL;

	if (uri_state_read(waiting->call->push.tasks, one->uri_key, &state, ERR_IGNORED) >
		    0 &&
	    state.failures > 0)
		why = xasprintf("not done in time, it is tried again: %s",
				state.failure.text);
	else
		why = xstrdup("not done in time, it still waits or runs: see refrelay "
			      "push queue");
	push_wait_report_task(one, why, NULL);
}

static int push_wait_print_summary(struct waiting *waiting)
{
	size_t failed = 0;

	for (size_t i = 0; i < waiting->list->count; i++)
		failed += waiting->list->items[i].has_failed;
	if (failed == 0) {
		puts("Replication completed successfully!");
		return EXIT_DONE;
	}
	printf("Replication completed with errors: %zu of %zu failed\n", failed,
	       waiting->list->count);
	return failed < waiting->list->count ? EXIT_PARTLY : EXIT_FAILED;
}

/* Looking at many tasks on a slow file system takes a fifth of the time at most. */
static int64_t next_pause(int64_t pause, int64_t looked_ms)
{
	pause = pause * 3 / 2 < LOOK_LAST_MS ? pause * 3 / 2 : LOOK_LAST_MS;
	if (pause < looked_ms * 4)
		pause = looked_ms * 4 < LOOK_MAX_MS ? looked_ms * 4 : LOOK_MAX_MS;
	return pause;
}

static int push_wait_for_all(struct waiting *waiting, const struct stop *stop,
			     struct err *err)
{
	int64_t timeout_ms = waiting->call->timeout_ms;
	int64_t until = clock_boot_ms() + timeout_ms;
	int64_t pause = LOOK_FIRST_MS;
	size_t left;

	for (;;) {
		int64_t from = clock_boot_ms();
		if (push_wait_observe_all(waiting, &left, err) != 0)
			return -1;
		int64_t now = clock_boot_ms();
		if (left == 0 || (timeout_ms > 0 && now >= until))
			break;
		if (timeout_ms > 0 && pause > until - now)
			pause = until - now;
		if (stop_wait(stop, pause)) {
			err_set(err, ERR_CANCELED, "interrupted");
			return err_remedy(err, "the tasks stay: see refrelay push queue");
		}
		pause = next_pause(pause, now - from);
	}
	for (size_t i = 0; left > 0 && i < waiting->list->count; i++)
		if (!waiting->list->items[i].is_ended)
			tell_why_it_waits(waiting, &waiting->list->items[i]);
	return push_wait_print_summary(waiting);
}

int waiting_run(struct waiting *waiting, struct err *err)
{
	struct stop stop;
	int status;

	stop_init(&stop);
	cli_catch_signals(&stop);
	status = push_wait_for_all(waiting, &stop, err);
	cli_end_signals();
	stop_clear(&stop);
	return status;
}
