/*
 * One row is verified: the checksum is computed anew from the copy's own disk, under the
 * repository's lease, and compared with the primary's value for the very generation that
 * is here. The row is read again under the lease: whoever had it before may have brought
 * something newer. A reverification also looks through the objects, and then rests as
 * long as that took.
 */
#include <sys/stat.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "git/checksum.h"
#include "git/fingerprint.h"
#include "git/repo.h"
#include "job/job.h"
#include "pull/decisions.h"
#include "pull/mend.h"
#include "pull/pull_job.h"
#include "pull/sync_repository.h"
#include "replicable/name.h"
#include "upkeep/copies_root.h"
#include "verify/verify_derived.h"
#include "verify/verify_objects.h"

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
	pull_job_tell(job, &move);
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

	pull_job_tell(job, &(struct registry_move){ .id = job->row.id,
						    .event = REGISTRY_SUPERSEDED });
	pull_job_end(job, &job->pull->state.verifying);
}
