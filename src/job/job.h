/*
 * The job runner: one piece of work on one replicable, under its lease, within its time,
 * with its outcome classified. All changes of replicables run through here.
 */
#ifndef JOB_JOB_H
#define JOB_JOB_H

#include "base/base.h"
#include "base/thread.h"
#include "git/git_child.h"
#include "lease/lease.h"

/* The input of the work. Borrowed for the call. */
struct job {
	struct lease *lease;
	uint64_t fence;
	bool is_after_crash;  /* the previous holder did not end properly */
	struct git_work work; /* limits for its children */
};

typedef int (*job_work)(struct job *job, void *arg, struct err *err);

struct job_request {
	struct lease_manager *leases;
	const char *kind;      /* as in rows: "repository"; a mirror uses the lease of its
				  repository */
	const char *name;      /* for logs and errors */
	const char *id;        /* lease_job_new(); NULL: a new one */
	const char *operation; /* "sync", "remove", ... */
	uint64_t fence_floor;  /* of the replicable itself (git/fence.h) */
	int64_t wait_ms;       /* for the lease; 0: do not wait */
	int64_t timeout_ms;    /* for the work; 0: none */
	const struct stop *stop;    /* may be NULL */
	const struct stop *leaving; /* ends the wait for the lease, and the work's own for
				       others, not other work; NULL: as stop */
	atomic_uint_fast64_t *bytes; /* grows by the bytes that arrive; may be NULL */
	atomic_uint_fast64_t *bytes_at_end; /* as in struct git_work */
	job_work run;
	void *arg;
};

/* Takes the lease, runs the work, gives the lease up. The error is the work's; besides:
 *  ERR_BUSY: the lease is held by another: later, without counting a retry;
 *  ERR_LOST: the lease was lost meanwhile, so that the work's result does not count;
 *  ERR_TIMEOUT: timeout_ms has passed or, with REASON_LOCK_LOST, the lease, never
 *  renewed, has expired; ERR_CANCELED: stop.
 * Errors are logged here (event job.failed), with the time it took. */
int job_run(const struct job_request *request, struct err *err);

/* The fence of a repository or its copy below the root, as a floor for the lease's; 0
 * without one. */
uint64_t job_fence_floor(const char *root, const char *name);

#endif
