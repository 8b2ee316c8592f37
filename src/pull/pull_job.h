/*
 * A job: rows that were claimed, on their way through a pool. For the files of pull.h
 * only; a job is one thread's at a time.
 */
#ifndef PULL_PULL_JOB_H
#define PULL_PULL_JOB_H

#include "pull/pull_parts.h"
#include "replicable/registry_move.h"

/* One row, or with a kind of blobs some rows of it. Freed by its work, or by forget,
 * which gives the rows back. */
struct pull_job {
	struct pull *pull;
	pool_work work, forget;       /* arg is the job */
	const struct blob_kind *kind; /* NULL: a repository */
	struct registry_row row;
	registry_rows rows;
	int64_t claimed_at; /* of these, boot ms */
};

/* As a pool knows it; arg is the job. */
void pull_job_run(void *arg);
void pull_job_forget(void *arg);

/* Pool work; arg is the struct pull_job. */
void sync_row_work(void *arg);
void sync_row_forget(void *arg);
void verify_row_work(void *arg);
void verify_row_forget(void *arg);
void blob_job_work(void *arg);
void blob_job_forget(void *arg);
void blob_verify_work(void *arg);
void blob_verify_forget(void *arg);

/* What the registry is to hear of an attempt that failed, and what metrics call it. */
struct registry_move pull_failed_move(const struct pull *pull, uint64_t id,
				      const struct err *err);
const char *pull_failed_word(const struct err *err);

/* In one run: the row has come to its end. */
void pull_report_outcome(const struct pull *pull, const struct pull_outcome *outcome);

/* For the metrics: how a sync or a verification of one replicable ended, what a job took,
 * and how long after its change a copy is verified. */
void pull_count_sync(const char *kind, const char *state);
void pull_count_verification(const char *kind, enum registry_event event);
void pull_measure_job(const char *kind, int64_t took_ms, uint64_t bytes);
void pull_measure_lag(const char *kind, int64_t lag_ms);

/* The brake of deletions: whether those of this kind that are gone may go. */
#define PULL_LIMIT_AGAIN_MS ((int64_t)10 * 60 * 1000)
int pull_may_remove(struct pull *pull, const char *kind, bool *may, struct err *err);

/* The registry hears how it went. What cannot be written is logged, and the row is given
 * back later. */
void pull_job_report(struct pull_job *job, const struct registry_move *move);

/* A row is a worker's whose last word could not be written, as on a full disk: it is
 * given back as soon as that can be; what could not be said is forgotten. `said`: what it
 * was. */
void pull_give_back_later(struct pull *pull, uint64_t id, enum registry_event said);

/* By the scheduler; -1: that still cannot be written. */
int pull_give_back_now(struct pull *pull, struct err *err);

/* The same word about each of a job's rows. */
void pull_rows_report(struct pull_job *job, enum registry_event event);

/* Frees the job; one of *running (guarded by the mutex) is no more. */
void pull_job_end(struct pull_job *job, size_t *running);

/* One of *running is no more: the scheduler looks. */
void pull_worker_end(struct pull *pull, size_t *running);

#endif
