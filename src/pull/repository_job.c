/*
 * The kind "repository", as the engine knows it (kind_ops.h). One row a job: it is
 * brought or verified under its lease, or its copy is removed, if the primary deleted it.
 * Nobody waits for a lease that another holds: held means later, and no retry is counted
 * (seed 000).
 */
#include <sys/stat.h>

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
#include "pull/kind_ops.h"
#include "pull/leftovers.h"
#include "pull/mend.h"
#include "pull/pull_parts.h"
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

/* Of the job's only row, which is the one item. */
struct verification {
	struct pull_job *job;
	struct pull_item *item;
	bool is_damaged;    /* more than its refs */
	bool is_superseded; /* there is nothing to compare with any more */
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
	    primary_reverify(line, verification->item->row->name, &err) != 0)
		log_warn("verify.not_asked", LOG_ERR(&err));
	primary_line_close(line);
}

static int verify_row_compare_checksum(struct verification *verification,
				       const char *expected, struct err *err)
{
	if (strcmp(verification->item->checksum, expected) == 0)
		return 0;
	log_error("verify.mismatch",
		  LOG_NUMBER("generation", verification->item->generation),
		  LOG_TEXT("checksum", verification->item->checksum),
		  LOG_TEXT("primary_checksum", expected));
	verify_row_ask_primary(verification);
	err_set(err, ERR_CORRUPT,
		"the copy's checksum is %s, the primary's %s for generation %" PRIu64,
		verification->item->checksum, expected, verification->item->generation);
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
	AUTO_FREE char *below = name_to_path(verification->item->row->name);
	AUTO_FREE char *path =
		xasprintf("%s/%s", verification->job->pull->options.root, below);

	verification->item->of_copy = true;
	verification->is_damaged = true; /* unless it is only the refs */
	if (repo_open(AT_FDCWD, path, &copy, err) != 0)
		return verify_row_fail_damaged(err);
	if (repo_check_diversions(copy.fd, err) != 0) {
		verification->is_damaged = false;
		return -1;
	}
	if (repo_check_files(&copy, err) != 0 || mend_check_config(&copy, err) != 0 ||
	    mend_check_refs(copy.fd, err) != 0 ||
	    read_copy(&copy, &refs, verification->item->checksum, err) != 0)
		return verify_row_fail_damaged(err);
	failpoint("verify.read");
	if (verify_row_compare_checksum(verification, expected, err) != 0) {
		verification->is_damaged = false;
		return -1;
	}
	if (!verification->job->rests)
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
			 verification->item->row->name, &row, err) != 0 &&
	    err->class != ERR_MISSING)
		return -1;
	verification->item->generation = row.generation;
	expected = row.name ? verify_row_expected_checksum(&row) : NULL;
	verification->is_superseded = !expected;
	if (!expected)
		return 0;
	if (copies_root_check(pull->options.store, pull->options.root, err) != 0)
		return -1;
	return verify_row_check_copy(verification, job, expected, err);
}

/* What else may have been wrong with git, a sync finds out. */
static void repository_verify(struct pull_job *job)
{
	struct pull *pull = job->pull;
	struct pull_item *item = &job->items[0];
	struct verification verification = { .job = job, .item = item };
	struct job_request request = {
		.leases = pull->options.leases,
		.kind = KIND_REPOSITORY,
		.name = item->row->name,
		.operation = "verify",
		.fence_floor = sync_fence_floor(pull->options.root, item->row->name),
		.timeout_ms = pull_settings_now(pull).timeout_ms,
		.stop = &pull->kill,
		.run = verify_job,
		.arg = &verification,
	};

	job->rests = item->row->verified_at != 0 || item->row->wishes != 0;
	if (job_run(&request, &item->why) == 0)
		item->why.class = verification.is_superseded ? ERR_CONFLICT : ERR_NONE;
	if (verification.is_damaged && item->why.class == ERR_CORRUPT)
		item->wishes = REGISTRY_WISH_REBUILD;
	item->wait_ms = rebuild_wait_ms(pull, item->row->id);
	job->rests = job->rests && item->why.class != ERR_BUSY;
}

/* Also if nothing had to be done: a node that ended before this may have done it. */
static void report_published(const struct pull_job *job)
{
	const struct pull_options *options = &job->pull->options;

	if (options->published)
		options->published(options->arg, job->rows.items[0].name);
}

static void hold_item(struct pull_item *item, char *reason)
{
	item->end = PULL_HELD;
	item->held_reason = reason;
	item->remedy = xasprintf("save what matters, then refrelay repository "
				 "sync --force %s",
				 item->row->name);
	log_warn("sync.held", LOG_TEXT("reason", reason),
		 LOG_TEXT("remedy", item->remedy));
}

static void take_result(struct pull_job *job, struct sync_result *result)
{
	static const enum pull_end ends[] = { [SYNC_UNCHANGED] = PULL_UNCHANGED,
					      [SYNC_CREATED] = PULL_CREATED,
					      [SYNC_UPDATED] = PULL_UPDATED };
	struct pull_item *item = &job->items[0];

	job->bytes = result->bytes;
	if (result->outcome == SYNC_HELD) {
		hold_item(item, TAKE(result->held_reason));
		return;
	}
	item->end = ends[result->outcome];
	item->is_proved = true;
	item->generation = result->generation;
	memcpy(item->timeline, result->timeline, sizeof(item->timeline));
	checksum_format(&result->sum, item->checksum);
	report_published(job);
	failpoint("sync.done");
}

struct bringing {
	const struct pull *pull;
	struct sync_call call;
};

/* Never into a mount point whose file system is away. */
static int bring_leased(struct job *job, void *arg, struct err *err)
{
	struct bringing *bringing = arg;
	const struct pull_options *options = &bringing->pull->options;

	if (copies_root_check(options->store, options->root, err) != 0)
		return -1;
	return sync_job(job, &bringing->call, err);
}

static void bring_copy(struct pull_job *job, struct bringing *bringing)
{
	struct pull *pull = job->pull;
	const struct registry_row *row = job->items[0].row;
	struct sync_result *result = &bringing->call.result;
	struct job_request request = {
		.leases = pull->options.leases,
		.kind = KIND_REPOSITORY,
		.name = row->name,
		.operation = "sync",
		.fence_floor = sync_fence_floor(pull->options.root, row->name),
		.timeout_ms = pull_settings_now(pull).timeout_ms,
		.stop = &pull->kill,
		.run = bring_leased,
		.arg = bringing,
	};
	struct err err;

	pace_take(pull, row->id);
	int done = job_run(&request, &err);
	if (result->was_rebuilt)
		rebuild_take(pull, row->id);
	if (done == 0)
		take_result(job, result);
	else
		pull_item_fail(&job->items[0], &err);
	free(TAKE(result->held_reason));
}

#define RENAME_AGAIN_MS 500

static void put_off(struct pull_item *item)
{
	item->end = PULL_WAITS;
	item->wait_ms = RENAME_AGAIN_MS;
	item->is_uncounted = true;
}

static void repository_bring(struct pull_job *job)
{
	struct pull *pull = job->pull;
	struct pull_item *item = &job->items[0];
	struct sync_manner manner = sync_manner_of(item->row);
	struct bringing *bringing;

	if (item->end != PULL_OPEN)
		return;
	if (rename_puts_off(pull, item->row)) {
		put_off(item);
		return;
	}
	bringing = xcalloc(1, sizeof(*bringing));
	bringing->pull = pull;
	bringing->call.request = (struct sync_request){
		.source = pull->source,
		.root = pull->options.root,
		.name = item->row->name,
		.is_forced = manner.is_forced,
		.is_suspect = manner.is_suspect,
		.is_rebuild = manner.is_rebuild,
		.hooks = pull->options.hooks,
		.mends = true,
		.checksum = item->row->checksum,
		.may_rebuild = rebuild_wait_ms(pull, item->row->id) == 0
	};
	job->own = bringing;
	bring_copy(job, bringing);
}

/* A removal is no sync. */
static int repository_open(struct pull_job *job, struct err *err)
{
	struct pull_item *item = &job->items[0];

	(void)err;
	item->is_uncounted = item->row->is_gone;
	if (item->row->is_gone && rename_is_expected(job->pull, item->row))
		put_off(item);
	return 0;
}

static void repository_remove(struct pull_job *job)
{
	struct pull *pull = job->pull;
	const struct removal_request request = { .store = pull->options.store,
						 .leases = pull->options.leases,
						 .root = pull->options.root,
						 .kind = KIND_REPOSITORY,
						 .name = job->rows.items[0].name,
						 .stop = &pull->kill };
	struct err err = { 0 };

	if (removal_run(&request, &err) == 0)
		err.class = ERR_NONE;
	if (pull_item_end_removed(&job->items[0], &err) == 0)
		report_published(job);
}

static void repository_end(struct pull_job *job)
{
	const struct pull_item *item = &job->items[0];
	struct bringing *bringing = job->own;

	if (bringing && (pull_item_is_placed(item) || item->end == PULL_UNCHANGED)) {
		copy_watch_report(job->pull->copy_watch, item->row->name);
		log_info("sync.done", LOG_NUMBER("dur_ms", job->took_ms),
			 LOG_NUMBER("bytes", job->bytes),
			 LOG_TEXT("result", pull_item_word(item)),
			 LOG_NUMBER("refs", bringing->call.result.refs_changed),
			 LOG_NUMBER("generation", item->generation),
			 LOG_NUMBER("lag_ms", item->lag_ms));
	}
	free(bringing);
}

static const char *repository_type(const struct pull_options *options, size_t at)
{
	(void)options;
	return at == 0 ? KIND_REPOSITORY : NULL;
}

static int repository_check_name(const struct pull *pull, const char *type,
				 const char *name, struct err *err)
{
	(void)pull;
	(void)type;
	return name_check(name, err);
}

static void repository_tidy(const struct pull *pull, const char *type)
{
	(void)type;
	trash_expire(pull->options.root);
}

const struct kind_ops repository_ops = { .type = repository_type,
					 .check_name = repository_check_name,
					 .bring_most = 1,
					 .verify_most = 1,
					 .open = repository_open,
					 .remove = repository_remove,
					 .bring = repository_bring,
					 .verify = repository_verify,
					 .end = repository_end,
					 .tidy = repository_tidy,
					 .take_leftovers = leftovers_take_repositories };
