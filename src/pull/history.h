/*
 * What pull does now and has done lately, for people: jobs that run, with the bytes that
 * came so far; how the last syncs and verifications of repositories ended; and how much
 * came within the last hour. In memory, since the node's start, and bounded. Any thread.
 */
#ifndef PULL_HISTORY_H
#define PULL_HISTORY_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/json.h"
#include "pull/pull.h"

struct history;
struct pull_job;

/* A job that runs. */
struct history_job {
	atomic_uint_fast64_t bytes; /* that came so far, where that is counted */
};

/* `kept`: how many ends; the oldest go first. */
struct history *history_new(size_t kept);
void history_free(struct history *history);

/* The job begins; what it is shown as is the history's until history_end(), which takes
 * over how each of its rows ended. NULL for a history that is NULL. */
struct history_job *history_begin(struct history *history, const struct pull_job *job);
void history_end(struct history *history, struct history_job *shown,
		 const struct pull_job *job);

/* By which id it is shown, if it is. */
void history_set_id(struct history *history, struct history_job *shown, const char *id);

/* Of one replicable, newest first, at most `most`: an array. The caller owns it. */
json_t *history_of_json(struct history *history, const char *kind, const char *name,
			size_t most);

/* What runs, oldest first: an array of at most `most`. */
json_t *history_running_json(struct history *history, size_t most);

/* How many jobs ended, and how many bytes came, within the last five minutes and the last
 * hour. */
json_t *history_rates_json(struct history *history);

/* That of a node; NULL: it keeps none. */
struct history *pull_history(struct pull *pull);

#endif
