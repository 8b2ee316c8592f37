/*
 * One row is brought: the lease, the sync, and what the registry is told of it; or its
 * copy is removed, if the primary deleted it. A sync does not wait for a lease that
 * another holds: held means later, and no retry is counted (seed 000).
 */
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "pull/copy_watch.h"
#include "pull/decisions.h"
#include "pull/hold.h"
#include "pull/pull_job.h"
#include "pull/rename.h"
#include "pull/sync_job.h"
#include "replicable/name.h"
#include "upkeep/copies_root.h"
#include "upkeep/removal.h"

static void sync_row_measure_job(const char *result, int64_t took_ms, uint64_t bytes)
{
	pull_count_sync(KIND_REPOSITORY, result);
	pull_measure_job(KIND_REPOSITORY, took_ms, bytes);
}

static void tell_error(struct pull_job *job, const struct err *err)
{
	const struct registry_move move = pull_failed_move(job->row.id, err);

	pull_job_tell(job, &move);
}

static void tell_held(struct pull_job *job, const char *reason)
{
	AUTO_FREE char *remedy = xasprintf("save what matters, then refrelay repository "
					   "sync --force %s",
					   job->row.name);

	log_warn("sync.held", LOG_TEXT("reason", reason), LOG_TEXT("remedy", remedy));
	pull_job_tell(job, &(struct registry_move){ .id = job->row.id,
						    .event = REGISTRY_HELD,
						    .held_reason = reason,
						    .remedy = remedy });
}

/* Whether it is now of the generation that is wanted, and proved. */
static bool tell_complete(struct pull_job *job, const struct sync_result *result)
{
	struct pull *pull = job->pull;
	char checksum[CHECKSUM_TEXT_SIZE];
	struct err err;
	struct registry_move move = {
		.id = job->row.id,
		.event = REGISTRY_BROUGHT,
		.generation = result->generation,
		.timeline = result->timeline,
		.checksum = checksum,
		.delay_ms = pace_delay_ms(pull, job->row.id),
		.timeout_ms = next_reverify_ms(pull_settings_now(pull).reverify_ms,
					       random_roll()),
	};

	checksum_format(&result->sum, checksum);
	failpoint("sync.done");
	if (registry_complete(pull->options.store, &move, &err) == 0)
		return true;
	if (err.class != ERR_CONFLICT && err.class != ERR_MISSING) {
		log_error("registry.failed", LOG_ERR(&err));
		pull_give_back_later(pull, job->row.id, REGISTRY_BROUGHT);
	}
	return false;
}

/* Also if nothing had to be done: a node that ended before this may have done it. */
static void tell_published(const struct pull_job *job)
{
	const struct pull_options *options = &job->pull->options;

	if (options->published)
		options->published(options->arg, job->row.name);
}

static void sync_row_report_done(struct pull_job *job, const struct sync_result *result,
				 int64_t took_ms)
{
	static const char *const words[] = { [SYNC_UNCHANGED] = "unchanged",
					     [SYNC_CREATED] = "created",
					     [SYNC_UPDATED] = "updated",
					     [SYNC_HELD] = "held" };
	struct primary *primary = job->pull->options.primary;
	const char *word = words[result->outcome];
	int64_t lag_ms = 0;

	sync_row_measure_job(word, took_ms, result->bytes);
	if (result->outcome == SYNC_HELD) {
		tell_held(job, result->held_reason);
		return;
	}
	tell_published(job);
	bool is_complete = tell_complete(job, result);
	copy_watch_tell(job->pull->copy_watch, job->row.name);
	if (job->row.behind_since > 0)
		lag_ms = primary_now_ms(primary) - job->row.behind_since;
	if (lag_ms < 0)
		lag_ms = 0; /* clocks are read to some milliseconds */
	if (is_complete && job->row.behind_since > 0)
		pull_measure_lag(KIND_REPOSITORY, lag_ms);
	log_info("sync.done", LOG_NUMBER("dur_ms", took_ms),
		 LOG_NUMBER("bytes", result->bytes), LOG_TEXT("result", word),
		 LOG_NUMBER("refs", result->refs_changed),
		 LOG_NUMBER("generation", result->generation),
		 LOG_NUMBER("lag_ms", lag_ms));
}

struct bringing {
	const struct pull *pull;
	struct sync_call call;
};

/* Never into a mount point whose file system is away. */
static int bring_job(struct job *job, void *arg, struct err *err)
{
	struct bringing *bringing = arg;
	const struct pull_options *options = &bringing->pull->options;

	if (copies_root_check(options->store, options->root, err) != 0)
		return -1;
	return sync_job(job, &bringing->call, err);
}

static void bring_row(struct pull_job *job)
{
	struct pull *pull = job->pull;
	struct sync_manner manner = sync_manner_of(&job->row);
	struct bringing bringing = {
		.pull = pull,
		.call = { .request = { .source = pull->source,
				       .root = pull->options.root,
				       .name = job->row.name,
				       .is_forced = manner.is_forced,
				       .is_suspect = manner.is_suspect,
				       .is_rebuild = manner.is_rebuild,
				       .hooks = pull->options.hooks,
				       .mends = true,
				       .checksum = job->row.checksum,
				       .may_rebuild = rebuild_wait_ms(
							      pull, job->row.id) == 0 } },
	};
	struct sync_result *result = &bringing.call.result;
	struct job_request request = {
		.leases = pull->options.leases,
		.kind = KIND_REPOSITORY,
		.name = job->row.name,
		.operation = "sync",
		.fence_floor = sync_fence_floor(pull->options.root, job->row.name),
		.timeout_ms = pull_settings_now(pull).timeout_ms,
		.stop = &pull->kill,
		.run = bring_job,
		.arg = &bringing,
	};
	int64_t started = clock_boot_ms();
	struct err err;

	pace_take(pull, job->row.id);
	int done = job_run(&request, &err);
	if (result->was_rebuilt)
		rebuild_take(pull, job->row.id);
	if (done == 0) {
		sync_row_report_done(job, result, clock_boot_ms() - started);
	} else {
		tell_error(job, &err);
		sync_row_measure_job(pull_failed_word(&err), clock_boot_ms() - started,
				     0);
	}
	free(result->held_reason);
}

int pull_may_remove(struct pull *pull, const char *kind, bool *may, struct err *err)
{
	const struct removal_brake brake = {
		.kind = kind,
		.share = pull_settings_now(pull).delete_brake,
		.more_than = HOLD_REPLICABLES.more_than,
	};

	return removal_may(pull->options.store, &brake, may, err);
}

/* The brake holds those that nobody works on: ours is given back, then asked about. */
static void sync_row_hold_back(struct pull_job *job)
{
	bool may;
	struct err err;

	pull_job_tell(job, &(struct registry_move){ .id = job->row.id,
						    .event = REGISTRY_DEFERRED,
						    .timeout_ms = PULL_BRAKE_AGAIN_MS });
	if (pull_may_remove(job->pull, KIND_REPOSITORY, &may, &err) != 0)
		log_error("registry.failed", LOG_ERR(&err));
}

#define RENAME_AGAIN_MS 500

static void sync_row_put_off(struct pull_job *job)
{
	pull_job_tell(job, &(struct registry_move){ .id = job->row.id,
						    .event = REGISTRY_DEFERRED,
						    .timeout_ms = RENAME_AGAIN_MS });
}

static void sync_row_remove_copy(struct pull_job *job)
{
	struct pull *pull = job->pull;
	struct removal_request request = { .store = pull->options.store,
					   .leases = pull->options.leases,
					   .root = pull->options.root,
					   .kind = KIND_REPOSITORY,
					   .name = job->row.name,
					   .stop = &pull->kill };
	bool may = false;
	struct err err;

	if (rename_is_expected(job)) {
		sync_row_put_off(job);
		return;
	}
	if (pull_may_remove(pull, KIND_REPOSITORY, &may, &err) != 0) {
		log_error("registry.failed", LOG_ERR(&err));
		tell_error(job, &err);
	} else if (!may) {
		sync_row_hold_back(job);
	} else if (removal_run(&request, &err) != 0) {
		if (err.class == ERR_CONFLICT)
			err.class = ERR_LOST; /* it is wanted again: at once */
		tell_error(job, &err);
	} else {
		tell_published(job);
	}
}

void sync_row_work(void *arg)
{
	struct pull_job *job = arg;

	if (stop_is_requested(&job->pull->stop)) {
		sync_row_forget(job);
		return;
	}
	struct log_context before = log_set_context(
		(struct log_context){ .repo = job->row.name, .job = "sync" });
	if (job->row.is_gone)
		sync_row_remove_copy(job);
	else if (rename_puts_off(job))
		sync_row_put_off(job);
	else
		bring_row(job);
	log_set_context(before);
	pull_job_end(job, &job->pull->state.syncing);
}

void sync_row_forget(void *arg)
{
	struct pull_job *job = arg;

	pull_job_tell(job, &(struct registry_move){ .id = job->row.id,
						    .event = REGISTRY_DEFERRED });
	pull_job_end(job, &job->pull->state.syncing);
}
