/*
 * What syncs and verifications have in common: a row that was claimed is given back with
 * one word about it, whatever happened.
 */
#include "pull/pull_job.h"
#include "base/log.h"

#define BUSY_AGAIN_MS 1000

void pull_job_run(void *arg)
{
	struct pull_job *job = arg;

	job->work(job);
}

void pull_job_forget(void *arg)
{
	struct pull_job *job = arg;

	job->forget(job);
}

struct registry_move pull_failed_move(uint64_t id, const struct err *err)
{
	struct registry_move move = { .id = id, .event = REGISTRY_ERRED, .err = err };

	switch (err->class) {
	case ERR_BUSY:
		move.event = REGISTRY_DEFERRED;
		move.timeout_ms = BUSY_AGAIN_MS;
		break;
	case ERR_CANCELED:
	case ERR_LOST:
		move.event = REGISTRY_DEFERRED;
		break;
	case ERR_MISSING:
		move.event = REGISTRY_ABSENT;
		break;
	default:
		break;
	}
	return move;
}

const char *pull_failed_word(const struct err *err)
{
	switch (err->class) {
	case ERR_BUSY:
	case ERR_CANCELED:
	case ERR_LOST:
		return "deferred";
	case ERR_MISSING:
		return "missing";
	default:
		return "failed";
	}
}

void pull_job_tell(struct pull_job *job, const struct registry_move *move)
{
	struct err err;

	if (registry_move(job->pull->options.store, move, &err) == 0 ||
	    err.class == ERR_CONFLICT || err.class == ERR_MISSING)
		return; /* asked for anew meanwhile, or removed: that counts more */
	log_error("registry.failed", LOG_ERR(&err));
	pull_give_back_later(job->pull, move->id, move->event);
}

void pull_give_back_later(struct pull *pull, uint64_t id, enum registry_event said)
{
	bool is_check = said == REGISTRY_PROVED || said == REGISTRY_DISPROVED ||
			said == REGISTRY_SUPERSEDED;
	const struct given_back one = { id, is_check ? REGISTRY_SUPERSEDED
						     : REGISTRY_DEFERRED };
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	vec_add(&pull->given_back, one);
	pull->woken = true;
	pthread_cond_broadcast(&pull->changed);
}

static bool take_given_back(struct pull *pull, struct given_back *one)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	if (pull->given_back.count == 0)
		return false;
	*one = pull->given_back.items[--pull->given_back.count];
	return true;
}

int pull_give_back_now(struct pull *pull, struct err *err)
{
	struct given_back one;

	while (take_given_back(pull, &one)) {
		const struct registry_move move = {
			.id = one.id, .event = (enum registry_event)one.event
		};
		if (registry_move(pull->options.store, &move, err) == 0 ||
		    err->class == ERR_CONFLICT || err->class == ERR_MISSING)
			continue;
		AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
		vec_add(&pull->given_back, one);
		return -1;
	}
	return 0;
}

void pull_rows_tell(struct pull_job *job, enum registry_event event)
{
	for (size_t i = 0; i < job->rows.count; i++)
		pull_job_tell(job, &(struct registry_move){ .id = job->rows.items[i].id,
							    .event = event });
}

void pull_worker_end(struct pull *pull, size_t *running)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	(*running)--;
	pull->finished++;
	pull->woken = true;
	pthread_cond_broadcast(&pull->changed);
}

void pull_job_end(struct pull_job *job, size_t *running)
{
	pull_worker_end(job->pull, running);
	registry_row_clear(&job->row);
	registry_rows_clear(&job->rows);
	free(job);
}
