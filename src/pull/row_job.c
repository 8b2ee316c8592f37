/*
 * What syncs and verifications have in common: a row that was claimed is given back with
 * one word about it, whatever happened.
 */
#include "base/log.h"
#include "pull/pull_parts.h"

void pull_job_tell(struct pull_job *job, const struct registry_move *move)
{
	struct err err;

	if (registry_move(job->pull->options.store, move, &err) == 0 ||
	    err.class == ERR_CONFLICT || err.class == ERR_MISSING)
		return; /* asked for anew meanwhile, or removed: that counts more */
	log_error("registry.failed", LOG_ERR(&err));
}

void pull_job_end(struct pull_job *job, size_t *running)
{
	struct pull *pull = job->pull;

	lock(&pull->mutex);
	(*running)--;
	pull->finished++;
	pull->woken = true;
	pthread_cond_broadcast(&pull->changed);
	unlock(&pull->mutex);
	registry_row_clear(&job->row);
	free(job);
}
