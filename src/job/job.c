#include "job/job.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "git/fence.h"
#include "replicable/kind.h"
#include "replicable/name.h"

static void job_log_outcome(const struct job_request *request, int64_t started,
			    bool was_leased, int result, const struct err *err)
{
	int64_t took = clock_boot_ms() - started;

	if (result == 0)
		log_debug("job.done", LOG_NUMBER("dur_ms", took),
			  LOG_TEXT("op", request->operation));
	else if (err_is_deferral(err->class) && err->class != ERR_LOST)
		/* Whoever has the lease was told of once, by lease.denied. */
		log_at(err->class == ERR_BUSY && !was_leased ? LOG_LEVEL_DEBUG
							     : LOG_LEVEL_INFO,
		       "job.deferred", LOG_NUMBER("dur_ms", took), LOG_ERR(err),
		       LOG_TEXT("op", request->operation));
	else if (err_is_transient(err->class))
		log_warn("job.failed", LOG_NUMBER("dur_ms", took), LOG_ERR(err),
			 LOG_TEXT("op", request->operation));
	else
		log_error("job.failed", LOG_NUMBER("dur_ms", took), LOG_ERR(err),
			  LOG_TEXT("op", request->operation));
}

/* A result that was reached without the lease is none. */
static int run_leased(const struct job_request *request, struct lease *lease,
		      struct err *err)
{
	enum lease_predecessor before = lease_predecessor(lease);
	struct job job = {
		.lease = lease,
		.fence = lease_fence(lease),
		.is_after_crash = before == LEASE_AFTER_DEATH ||
				  before == LEASE_AFTER_LAPSE ||
				  before == LEASE_AFTER_FORCE,
		.work = { .deadline = lease_deadline(lease),
			  .stop = request->stop,
			  .leaving = request->leaving,
			  .guard_fd = lease_guard_fd(lease),
			  .bytes = request->bytes,
			  .bytes_at_end = request->bytes_at_end,
			  .until = request->timeout_ms
					   ? clock_boot_ms() + request->timeout_ms
					   : 0 },
	};

	if (request->run(&job, request->arg, err) == 0 && lease_check(lease, err) == 0)
		return 0;
	return lease_blame(lease, err);
}

int job_run(const struct job_request *request, struct err *err)
{
	struct lease *lease = NULL;
	const char *kind =
		kind_is_repository(request->kind) ? KIND_REPOSITORY : request->kind;
	char key[LEASE_KEY_SIZE], id[LEASE_JOB_SIZE];
	const struct stop *stop = request->leaving ? request->leaving : request->stop;
	int64_t started = clock_boot_ms();
	int result;

	if (request->id)
		snprintf(id, sizeof(id), "%s", request->id);
	else
		lease_job_new(id);
	struct log_context before = log_set_context((struct log_context){
		.repo = request->name, .job = request->operation, .job_id = id });
	lease_key_for(request->leases, kind, replicable_id(kind, request->name),
		      request->name, key);
	result = lease_acquire(request->leases,
			       &(struct lease_request){
				       .key = key,
				       .operation = request->operation,
				       .job = id,
				       .name = request->name,
				       .fence_floor = request->fence_floor,
				       .wait_ms = request->wait_ms,
				       .stop = stop,
			       },
			       &lease, err);
	if (result == 0) {
		result = run_leased(request, lease, err);
		lease_release(lease);
	}
	job_log_outcome(request, started, lease != NULL, result, err);
	log_set_context(before);
	return result;
}

uint64_t job_fence_floor(const char *root, const char *name)
{
	uint64_t fence = 0;
	AUTO_FREE char *path = name_to_copy(root, name);
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, path, ERR_IGNORED);

	if (fd >= 0)
		fence_read(fd, &fence, ERR_IGNORED);
	return fence;
}
