/*
 * Decides what happens to tasks after a push, and when it is tried again. Pure; any
 * thread.
 */
#ifndef PUSH_OUTCOME_H
#define PUSH_OUTCOME_H

#include "base/base.h"
#include "push/dead_letters.h"
#include "push/settings.h"
#include "push/transfer.h"
#include "push/uri_state.h"

#define BACKOFF_CAP_MS ((int64_t)3600 * 1000)
#define BACKOFF_ROLLS 401 /* rolls are 0 .. BACKOFF_ROLLS - 1 */

/* The wait after `failures` (>= 1) in a row: retry_ms, doubled each time up to the cap,
 * varied by up to a fifth by the roll. */
int64_t push_backoff_ms(int64_t retry_ms, uint64_t failures, unsigned roll);

/* When a URI is tried again. A time further ahead than any that is recorded after so many
 * failures, e.g. after the server's clock was set back, counts as 0. */
int64_t retry_at_of(const struct push_settings *settings, const struct uri_state *state,
		    int64_t now);

/* Whether one failure more than those in `state` is the last, so that the tasks are given
 * up. Locked refs have a separate limit, if it is set. */
struct patience {
	bool is_over;           /* for failures that may pass by themselves */
	bool is_over_for_locks; /* for refs that are locked at the destination */
};
struct patience patience_left(const struct push_settings *settings,
			      const struct push_remote *remote,
			      const struct uri_state *state);
/* The same of HEAD, whose failures and those of refs are counted apart. */
bool patience_is_over_for_head(const struct push_remote *remote,
			       const struct uri_state *state);

struct results_sum {
	size_t again;                     /* refs that may pass by themselves */
	size_t locked;                    /* of them */
	const struct ref_result *example; /* of them, else of those refused, or NULL */
};
void results_sum(const ref_results *results, struct patience patience,
		 struct results_sum *sum);

enum task_fate {
	TASK_DONE,
	TASK_AGAIN, /* all of it */
	TASK_FEWER, /* only the refs in `left` */
	TASK_FAILED,
	TASK_SPLIT, /* `left` again; the refs in `failures` failed */
};
struct task_outcome {
	enum task_fate fate;
	text_list left;
	ref_failures failures;
};
void task_outcome_clear(struct task_outcome *outcome);

/* Judges tasks by the results that their push had for each ref. */
struct judge;
struct judge *judge_new(const ref_results *results, struct patience patience);
void judge_free(struct judge *judge);
void judge_task(const struct judge *judge, const struct task *task,
		struct task_outcome *outcome);

/* Marks the local repository of that name (NULL: named in the text before) as the reason,
 * not the destination. Returns -1. */
int outcome_is_local(struct err *err, const char *repository);

/* Whether the failure of a whole push means that its host cannot be reached. */
bool is_host_failure(const struct err *why);

#endif
