#include "push/outcome.h"

#include "base/map.h"

#define RETRY_LEAST_MS 1000

static int64_t cap_of(int64_t retry_ms)
{
	return retry_ms > BACKOFF_CAP_MS ? retry_ms : BACKOFF_CAP_MS;
}

int64_t push_backoff_ms(int64_t retry_ms, uint64_t failures, unsigned roll)
{
	int64_t delay = retry_ms < RETRY_LEAST_MS ? RETRY_LEAST_MS : retry_ms;
	int64_t cap = cap_of(retry_ms);

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
	int64_t longest = push_backoff_ms(remote ? remote->retry_ms : 0, UINT64_MAX,
					  BACKOFF_ROLLS - 1);

	return state->retry_at - now <= longest ? state->retry_at : 0;
}

struct patience patience_left(const struct push_settings *settings,
			      const struct push_remote *remote,
			      const struct uri_state *state)
{
	bool locks_apart = settings->lock_max_retries >= 0;
	uint64_t others = state->failures;

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

enum ref_fate { REF_GOOD, REF_AGAIN, REF_FINAL };

static enum ref_fate fate_of(const struct ref_result *result, struct patience patience)
{
	if (result->status == REF_OK || result->status == REF_UP_TO_DATE ||
	    result->status == REF_NON_EXISTING)
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
		sum->good += fate == REF_GOOD;
		sum->final += fate == REF_FINAL;
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
	ref_names_clear(&outcome->left);
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
	       why->reason != REASON_LOCAL_REPOSITORY;
}
