/*
 * What pull does now and did lately, for people: running jobs, with the bytes that have
 * arrived; how the last syncs and verifications of repositories ended; and how much
 * arrived within the last hour. In memory, since the node's start, and bounded. Any
 * thread.
 */
#ifndef PULL_HISTORY_H
#define PULL_HISTORY_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/json.h"
#include "pull/pull.h"

struct history;
struct pull_job;

/* A running job. */
struct history_job {
	atomic_uint_fast64_t bytes; /* that have arrived, where that is counted */
	/* What these will be, of a repository copied by its pack files; 0: unknown, as
	 * with a fetch by Git. */
	atomic_uint_fast64_t bytes_at_end;
};

/* `kept`: how many ended jobs are kept; the oldest are dropped first. */
struct history *history_new(size_t kept);
void history_free(struct history *history);

/* The job begins; the returned entry belongs to the history until history_end(), which
 * records how each of the job's rows ended. NULL for a history that is NULL. */
struct history_job *history_begin(struct history *history, const struct pull_job *job);
void history_end(struct history *history, struct history_job *shown,
		 const struct pull_job *job);

/* Sets the id under which it is shown, if it is shown. */
void history_set_id(struct history *history, struct history_job *shown, const char *id);

/* Of one replicable, newest first, at most `most`: an array. The caller owns it. */
json_t *history_of_json(struct history *history, const char *kind, const char *name,
			size_t most);

/* Running jobs, oldest first: an array of at most `most`. */
json_t *history_running_json(struct history *history, size_t most);

void history_look(struct history *history, struct pull_copies *copies);

/* How many jobs ended, and how many bytes arrived, within the last five minutes and the
 * last hour. */
json_t *history_rates_json(struct history *history);

/* The history of a node; NULL: it keeps none. */
struct history *pull_history(struct pull *pull);

#endif
