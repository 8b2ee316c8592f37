/*
 * One row is brought: the lease, the sync, and what the registry is told of it; or its
 * copy is removed, if the primary deleted it. A sync does not wait for a lease that
 * another holds: held means later, and no retry is counted (seed 000).
 */
#include <sys/stat.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "git/checksum.h"
#include "git/fingerprint.h"
#include "git/object_files.h"
#include "git/repo.h"
#include "job/job.h"
#include "pull/copy_record.h"
#include "pull/copy_watch.h"
#include "pull/decisions.h"
#include "pull/hold.h"
#include "pull/mend.h"
#include "pull/pull_job.h"
#include "pull/rename.h"
#include "pull/sync_job.h"
#include "pull/sync_repository.h"
#include "replicable/name.h"
#include "upkeep/copies_root.h"
#include "upkeep/removal.h"
#include "upkeep/trash.h"
#include "verify/verify_objects.h"

static enum tidy_after manner_of(const struct job *job, const struct sync_call *call)
{
	if (job->is_after_crash)
		return TIDY_AFTER_CRASH;
	return call->request.mends ? TIDY_ALONE : TIDY_AFTER_SUCCESS;
}

/* Whoever held the lease before may have been killed in the middle of anything. */
static int tidy_before(const struct job *job, const struct sync_call *call,
		       const char *path, struct err *err)
{
	AUTO_REPO struct repo copy = REPO_INIT;
	struct stat st;

	if (lstat(path, &st) != 0)
		return 0;
	/* What is wrong with the copy is for the sync itself to say, and to mend. */
	if (repo_open(AT_FDCWD, path, &copy, err) != 0 ||
	    tidy_left_overs(&copy, manner_of(job, call), err) == 0)
		return 0;
	return call->request.mends && copy_is_at_fault(err) ? 0 : -1;
}

static int tidy_after(const struct job *job, const char *path, struct err *err)
{
	AUTO_REPO struct repo copy = REPO_INIT;
	AUTO_RECORD struct copy_record record = { 0 };
	AUTO_OBJECT_FILES object_files found = { 0 };

	if (repo_open(AT_FDCWD, path, &copy, err) != 0 ||
	    object_files_take(copy.fd, &found, err) != 0)
		return -1;
	copy_record_read(copy.fd, &record);
	bool was_ours = copy_record_look(&record, copy.fd) == COPY_STAMPS_SAME;
	if (tidy_packs(&job->work, &copy, err) != 0)
		return -1;
	failpoint("sync.tidied");
	if (was_ours && !object_files_changed(&found, copy.fd, true) &&
	    copy_record_look(&record, copy.fd) != COPY_STAMPS_SAME)
		copy_record_renew(copy.fd, &record);
	return 0;
}

/* Half a pack may be as large as a whole one, and the next try makes another. */
static void tidy_after_failure(const struct job *job, const char *path)
{
	AUTO_REPO struct repo copy = REPO_INIT;

	if (lease_check(job->lease, ERR_IGNORED) == 0 &&
	    repo_open(AT_FDCWD, path, &copy, ERR_IGNORED) == 0)
		tidy_left_overs(&copy, TIDY_AFTER_CRASH, ERR_IGNORED);
}

int sync_job(struct job *job, void *arg, struct err *err)
{
	struct sync_call *call = arg;
	AUTO_FREE char *below = name_to_path(call->request.name);
	AUTO_FREE char *path = xasprintf("%s/%s", call->request.root, below);

	free(TAKE(call->result.held_reason));
	if (tidy_before(job, call, path, err) != 0)
		return sync_failed_here(err);
	if (sync_repository(job, &call->request, &call->result, err) != 0) {
		tidy_after_failure(job, path);
		return -1;
	}
	if (call->result.outcome == SYNC_HELD || tidy_after(job, path, err) == 0)
		return 0;
	return sync_failed_here(err);
}

/*
 * One row is verified: the checksum is computed anew from the copy's own disk, under the
 * repository's lease, and compared with the primary's value for the very generation that
 * is here. The row is read again under the lease: whoever had it before may have brought
 * something newer. A reverification also looks through the objects, and then rests as
 * long as that took.
 */

#define TRIES 3

struct verification {
	struct pull_job *job;
	bool of_copy;    /* only the copy's own files are read */
	bool is_damaged; /* more than its refs */
	bool with_objects;
	bool is_superseded;  /* there is nothing to compare with any more */
	uint64_t generation; /* that was verified */
	char checksum[CHECKSUM_TEXT_SIZE];
};

/* Refs and checksum of one moment, whatever others do on this disk. */
static int read_copy(const struct repo *copy, struct ref_snapshot *refs,
		     char checksum[CHECKSUM_TEXT_SIZE], struct err *err)
{
	struct fingerprint before, after;
	struct checksum sum;

	for (int tries = 0; tries < TRIES; tries++) {
		ref_snapshot_clear(refs);
		if (fingerprint_take(copy->fd, FINGERPRINT_REFS, &before, err) != 0 ||
		    ref_snapshot_read(copy->fd, copy->oid_len, refs, err) != 0 ||
		    fingerprint_take(copy->fd, FINGERPRINT_REFS, &after, err) != 0)
			return -1;
		if (fingerprint_equal(&before, &after)) {
			checksum_of(refs, &sum);
			checksum_format(&sum, checksum);
			return 0;
		}
	}
	return err_set(err, ERR_CONFLICT, "the copy changes while it is verified");
}

/* The primary looks again, too: then the one who was wrong is known. */
static void verify_row_ask_primary(struct verification *verification)
{
	struct pull *pull = verification->job->pull;
	struct primary_line *line = NULL;
	struct err err;

	if (primary_line_open(pull->options.primary, &pull->kill, &line, &err) != 0 ||
	    primary_reverify(line, verification->job->row.name, &err) != 0)
		log_warn("verify.not_asked", LOG_ERR(&err));
	primary_line_close(line);
}

static int verify_row_compare_checksum(struct verification *verification,
				       const char *expected, struct err *err)
{
	if (strcmp(verification->checksum, expected) == 0)
		return 0;
	log_error("verify.mismatch", LOG_NUMBER("generation", verification->generation),
		  LOG_TEXT("checksum", verification->checksum),
		  LOG_TEXT("primary_checksum", expected));
	verify_row_ask_primary(verification);
	err_set(err, ERR_CORRUPT,
		"the copy's checksum is %s, the primary's %s for generation %" PRIu64,
		verification->checksum, expected, verification->generation);
	return err_remedy(err, "it is brought again by itself; if this comes back, see "
			       "who else writes to the copy");
}

/* The primary's disk has nothing to do with it, and nobody has to mend anything. */
static int verify_row_fail_damaged(struct err *err)
{
	if (copy_is_at_fault(err))
		err_remedy(err, "the copy is made anew at the next try; if this comes "
				"back, see whether this machine's disk fails");
	return -1;
}

static int verify_row_check_copy(struct verification *verification, const struct job *job,
				 const char *expected, struct err *err)
{
	AUTO_REPO struct repo copy = REPO_INIT;
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	AUTO_FREE char *below = name_to_path(verification->job->row.name);
	AUTO_FREE char *path =
		xasprintf("%s/%s", verification->job->pull->options.root, below);

	verification->of_copy = true;
	verification->is_damaged = true; /* unless it is only the refs */
	if (repo_open(AT_FDCWD, path, &copy, err) != 0)
		return verify_row_fail_damaged(err);
	if (repo_check_diversions(copy.fd, err) != 0) {
		verification->is_damaged = false;
		return -1;
	}
	if (repo_check_files(&copy, err) != 0 || mend_check_config(&copy, err) != 0 ||
	    mend_check_refs(copy.fd, err) != 0 ||
	    read_copy(&copy, &refs, verification->checksum, err) != 0)
		return verify_row_fail_damaged(err);
	failpoint("verify.read");
	if (verify_row_compare_checksum(verification, expected, err) != 0) {
		verification->is_damaged = false;
		return -1;
	}
	if (!verification->with_objects)
		return 0;
	return verify_derived(&job->work, &copy, err) == 0 &&
			       verify_objects(&job->work, &copy, &refs, err) == 0
		       ? 0
		       : verify_row_fail_damaged(err);
}

/* What is known of the generation that is here. */
static const char *verify_row_expected_checksum(const struct registry_row *row)
{
	if (row->state != REGISTRY_SYNCED || row->is_gone ||
	    row->generation != row->generation_wanted)
		return NULL;
	return row->primary_checksum ? row->primary_checksum : row->checksum;
}

static int verify_job(struct job *job, void *arg, struct err *err)
{
	struct verification *verification = arg;
	struct pull *pull = verification->job->pull;
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	const char *expected;

	if (registry_get(pull->options.store, KIND_REPOSITORY,
			 verification->job->row.name, &row, err) != 0 &&
	    err->class != ERR_MISSING)
		return -1;
	verification->generation = row.generation;
	expected = row.name ? verify_row_expected_checksum(&row) : NULL;
	verification->is_superseded = !expected;
	if (!expected)
		return 0;
	if (copies_root_check(pull->options.store, pull->options.root, err) != 0)
		return -1;
	return verify_row_check_copy(verification, job, expected, err);
}

static void verify_row_report_result(struct pull_job *job,
				     const struct verification *verification,
				     const struct err *err)
{
	struct registry_move move = {
		.id = job->row.id,
		.event = verification_end(err, verification->of_copy),
		.generation = verification->generation,
		.checksum = verification->checksum,
		.err = err,
		/* What else may have been wrong with git, a sync finds out. */
		.wishes = verification->is_damaged && err->class == ERR_CORRUPT
				  ? REGISTRY_WISH_REBUILD
				  : 0,
		.delay_ms = rebuild_wait_ms(job->pull, job->row.id),
		.timeout_ms = verification_again_ms(err->class)
	};

	if (move.event == REGISTRY_PROVED)
		move.timeout_ms = next_reverify_ms(
			pull_settings_now(job->pull).reverify_ms, random_roll());
	failpoint("verify.done");
	pull_count_verification(KIND_REPOSITORY, move.event);
	pull_job_report(job, &move);
}

static void verify(struct pull_job *job)
{
	struct pull *pull = job->pull;
	struct verification verification = {
		.job = job,
		.with_objects = job->row.verified_at != 0 || job->row.wishes != 0,
	};
	struct job_request request = {
		.leases = pull->options.leases,
		.kind = KIND_REPOSITORY,
		.name = job->row.name,
		.operation = "verify",
		.fence_floor = sync_fence_floor(pull->options.root, job->row.name),
		.timeout_ms = pull_settings_now(pull).timeout_ms,
		.stop = &pull->kill,
		.run = verify_job,
		.arg = &verification,
	};
	int64_t started = clock_boot_ms();
	struct err err = { 0 };

	if (job_run(&request, &err) == 0)
		err.class = verification.is_superseded ? ERR_CONFLICT : ERR_NONE;
	verify_row_report_result(job, &verification, &err);
	if (verification.with_objects && err.class != ERR_BUSY)
		stop_wait(&pull->stop, clock_boot_ms() - started);
}

void verify_row_work(void *arg)
{
	struct pull_job *job = arg;

	if (stop_is_requested(&job->pull->stop)) {
		verify_row_forget(job);
		return;
	}
	verify(job);
	pull_job_end(job, &job->pull->state.verifying);
}

void verify_row_forget(void *arg)
{
	struct pull_job *job = arg;

	pull_job_report(job, &(struct registry_move){ .id = job->row.id,
						      .event = REGISTRY_SUPERSEDED });
	pull_job_end(job, &job->pull->state.verifying);
}

static void sync_row_measure_job(const char *result, int64_t took_ms, uint64_t bytes)
{
	pull_count_sync(KIND_REPOSITORY, result);
	pull_measure_job(KIND_REPOSITORY, took_ms, bytes);
}

static void report_error(struct pull_job *job, const struct err *err)
{
	const struct registry_move move = pull_failed_move(job->pull, job->row.id, err);

	pull_job_report(job, &move);
}

static void report_held(struct pull_job *job, const char *reason)
{
	AUTO_FREE char *remedy = xasprintf("save what matters, then refrelay repository "
					   "sync --force %s",
					   job->row.name);

	log_warn("sync.held", LOG_TEXT("reason", reason), LOG_TEXT("remedy", remedy));
	pull_job_report(job, &(struct registry_move){ .id = job->row.id,
						      .event = REGISTRY_HELD,
						      .held_reason = reason,
						      .remedy = remedy });
}

/* Whether it is now of the generation that is wanted, and proved. */
static bool report_complete(struct pull_job *job, const struct sync_result *result)
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
static void report_published(const struct pull_job *job)
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
		report_held(job, result->held_reason);
		return;
	}
	report_published(job);
	bool is_complete = report_complete(job, result);
	copy_watch_report(job->pull->copy_watch, job->row.name);
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

/* How often one run tries, and for how long a ref that moved is worth another try; a lock
 * that others hold has been waited for by then. */
#define ONCE_TRIES 3
#define ONCE_PATIENCE_MS 5000

/* In one run a lost lease or a ref that moved is worth another try at once: there is no
 * later. */
static int sync_row_try(const struct pull *pull, const struct job_request *request,
			struct err *err)
{
	const int64_t until = clock_boot_ms() + ONCE_PATIENCE_MS;

	for (int tries = 1;; tries++) {
		if (job_run(request, err) == 0)
			return 0;
		bool again = err->class == ERR_LOST ||
			     (err->class == ERR_CONFLICT && clock_boot_ms() < until);
		if (!pull->options.once || !again || tries == ONCE_TRIES)
			return -1;
	}
}

static void sync_row_report_outcome(const struct pull_job *job,
				    const struct sync_result *result,
				    const struct err *err)
{
	static const int ends[] = { [SYNC_UNCHANGED] = PULL_UNCHANGED,
				    [SYNC_CREATED] = PULL_CREATED,
				    [SYNC_UPDATED] = PULL_UPDATED,
				    [SYNC_HELD] = PULL_HELD };
	char checksum[CHECKSUM_TEXT_SIZE];

	checksum_format(&result->sum, checksum);
	pull_report_outcome(
		job->pull,
		&(struct pull_outcome){ .name = job->row.name,
					.end = err ? PULL_FAILED : ends[result->outcome],
					.refs_changed = err ? 0 : result->refs_changed,
					.bytes = err ? 0 : result->bytes,
					.reason = result->held_reason,
					.err = err,
					.checksum = checksum,
					.timeline = result->timeline,
					.generation = result->generation });
}

static void bring_row(struct pull_job *job)
{
	struct pull *pull = job->pull;
	const struct pull_once *once = pull->options.once;
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
				       .mends = !once,
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
		.wait_ms = once ? once->lease_wait_ms : 0,
		.timeout_ms = pull_settings_now(pull).timeout_ms,
		.stop = &pull->kill,
		.bytes = once ? once->bytes : NULL,
		.run = bring_job,
		.arg = &bringing,
	};
	int64_t started = clock_boot_ms();
	struct err err;

	pace_take(pull, job->row.id);
	int done = sync_row_try(pull, &request, &err);
	if (result->was_rebuilt)
		rebuild_take(pull, job->row.id);
	if (done == 0) {
		sync_row_report_done(job, result, clock_boot_ms() - started);
	} else {
		report_error(job, &err);
		sync_row_measure_job(pull_failed_word(&err), clock_boot_ms() - started,
				     0);
	}
	sync_row_report_outcome(job, result, done == 0 ? NULL : &err);
	free(result->held_reason);
}

int pull_may_remove(struct pull *pull, const char *kind, bool *may, struct err *err)
{
	const struct removal_limit deletion_limit = {
		.kind = kind,
		.share = pull_settings_now(pull).delete_brake,
		.more_than = HOLD_REPLICABLES.more_than,
	};

	return removal_may(pull->options.store, &deletion_limit, may, err);
}

/* The brake holds those that nobody works on: ours is given back, then asked about. */
static void sync_row_hold_back(struct pull_job *job)
{
	bool may;
	struct err err;

	pull_job_report(job,
			&(struct registry_move){ .id = job->row.id,
						 .event = REGISTRY_DEFERRED,
						 .timeout_ms = PULL_LIMIT_AGAIN_MS });
	if (pull_may_remove(job->pull, KIND_REPOSITORY, &may, &err) != 0)
		log_error("registry.failed", LOG_ERR(&err));
}

#define RENAME_AGAIN_MS 500

static void sync_row_put_off(struct pull_job *job)
{
	pull_job_report(job, &(struct registry_move){ .id = job->row.id,
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
		report_error(job, &err);
	} else if (!may) {
		sync_row_hold_back(job);
	} else if (removal_run(&request, &err) != 0) {
		if (err.class == ERR_CONFLICT)
			err.class = ERR_LOST; /* it is wanted again: at once */
		report_error(job, &err);
	} else {
		report_published(job);
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

	pull_job_report(job, &(struct registry_move){ .id = job->row.id,
						      .event = REGISTRY_DEFERRED });
	pull_job_end(job, &job->pull->state.syncing);
}
