/*
 * The sync of one repository as a job: left-overs of whoever died before are cleared
 * away, then the sync, then packs are folded if there are many. Both for a secondary's
 * scheduler and for `replicate`.
 */
#ifndef PULL_SYNC_JOB_H
#define PULL_SYNC_JOB_H

#include "base/base.h"
#include "job/job.h"
#include "pull/sync_repository.h"

struct sync_call {
	struct sync_request request;
	struct sync_result result; /* its held_reason is the caller's to free */
};

/* A job_work; `arg` is a struct sync_call, which may be used for several tries. */
int sync_job(struct job *job, void *arg, struct err *err);

#endif
