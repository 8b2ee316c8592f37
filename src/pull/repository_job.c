/*
 * The kind "repository", as the engine knows it (copy_kind.h). One row a job: it is
 * brought or verified under its lease, or its copy is removed, if the primary deleted it.
 * Nobody waits for a lease that another holds: held means later, and no retry is counted
 * (seed 000).
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "git/checksum.h"
#include "git/fence.h"
#include "git/fingerprint.h"
#include "git/objects.h"
#include "git/repo.h"
#include "job/job.h"
#include "pull/copy_kind.h"
#include "pull/copy_record.h"
#include "pull/copy_watch.h"
#include "pull/decisions.h"
#include "pull/leftovers.h"
#include "pull/maintainer.h"
#include "pull/mend.h"
#include "pull/mirror_job.h"
#include "pull/pull_parts.h"
#include "pull/repository_job.h"
#include "pull/repository_maintenance.h"
#include "pull/share.h"
#include "pull/sync_repository.h"
#include "replicable/name.h"
#include "upkeep/removal.h"
#include "upkeep/trash.h"
#include "verify/verify_objects.h"

/*
 * The sync of one repository as a job: left-overs of whoever died before are cleared
 * away, then the sync, then packs are folded if there are many.
 */

struct sync_call {
	struct sync_request request;
	size_t most_packs;         /* that maintenance is not waited for with */
	struct sync_result result; /* its held_reason is the caller's to free */
};

static bool sync_call_has_brought(const struct sync_call *call)
{
	return call->result.outcome != SYNC_HELD && call->result.outcome != SYNC_AWAITS;
}

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
	if (repo_open(AT_FDCWD, path, &copy, err) != 0)
		return 0;
	repository_forget_cut_off(copy.fd);
	if (tidy_left_overs(&copy, manner_of(job, call), err) == 0)
		return 0;
	return call->request.mends && err_is_of_data(err) ? 0 : -1;
}

/* What we do to a copy's objects is not to look like the work of others afterwards. */
struct own_work {
	object_files found;
	struct fingerprint refs;
	struct copy_record record;
	bool was_ours;
};

static void own_work_clear(struct own_work *own)
{
	object_files_clear(&own->found);
	copy_record_clear(&own->record);
}

static int own_work_begin(struct own_work *own, const struct repo *copy, struct err *err)
{
	*own = (struct own_work){ 0 };
	if (object_files_take(copy->fd, &own->found, err) != 0 ||
	    fingerprint_take(copy->fd, FINGERPRINT_REFS, &own->refs, err) != 0) {
		own_work_clear(own);
		return -1;
	}
	copy_record_read(copy->fd, &own->record);
	own->was_ours = copy_record_look(&own->record, copy->fd) == COPY_STAMPS_SAME;
	return 0;
}

/* Without the lease, a later holder may have recorded something newer. */
static void own_work_end(struct own_work *own, const struct job *job,
			 const struct repo *copy)
{
	struct fingerprint refs, all;

	if (own->was_ours && !object_files_changed(&own->found, copy->fd, true) &&
	    fingerprint_take(copy->fd, FINGERPRINT_REFS, &refs, ERR_IGNORED) == 0 &&
	    fingerprint_equal(&own->refs, &refs) &&
	    fingerprint_take(copy->fd, FINGERPRINT_COPY, &all, ERR_IGNORED) == 0 &&
	    (!copy_record_has_copy(&own->record, &all) ||
	     copy_record_look(&own->record, copy->fd) != COPY_STAMPS_SAME) &&
	    lease_check(job->lease, ERR_IGNORED) == 0)
		copy_record_renew(copy->fd, &own->record);
	own_work_clear(own);
}

/* Half a pack may be as large as a whole one, and the next try makes another. */
static void tidy_copy_after_failure(const struct job *job, const struct repo *copy)
{
	if (lease_check(job->lease, ERR_IGNORED) == 0)
		tidy_left_overs(copy, TIDY_AFTER_CRASH, ERR_IGNORED);
}

static void tidy_after_failure(const struct job *job, const char *path)
{
	AUTO_REPO struct repo copy = REPO_INIT;

	if (repo_open(AT_FDCWD, path, &copy, ERR_IGNORED) == 0)
		tidy_copy_after_failure(job, &copy);
}

/* What the disk has no room for now is not tried at each sync. Two copies of one place
 * only lose the rest that they would have. */
#define TIDY_RESTS_MS ((int64_t)3600 * 1000)
static struct {
	_Atomic(uint64_t) id;
	_Atomic(int64_t) until; /* boot ms */
} tidy_rests[256];

static void tidy_rest(const char *name)
{
	const uint64_t id = replicable_id(KIND_REPOSITORY, name);
	const size_t at = id % ARRAY_SIZE(tidy_rests);

	atomic_store(&tidy_rests[at].until, clock_boot_ms() + TIDY_RESTS_MS);
	atomic_store(&tidy_rests[at].id, id);
}

static bool tidy_is_at_rest(const char *name)
{
	const uint64_t id = replicable_id(KIND_REPOSITORY, name);
	const size_t at = id % ARRAY_SIZE(tidy_rests);

	return atomic_load(&tidy_rests[at].id) == id &&
	       clock_boot_ms() < atomic_load(&tidy_rests[at].until);
}

static int tidy_after(const struct job *job, const char *path, size_t most_packs,
		      struct err *err)
{
	AUTO_REPO struct repo copy = REPO_INIT;
	struct own_work own;

	if (repo_open(AT_FDCWD, path, &copy, err) != 0)
		return -1;
	if (tidy_packs_are_few(&copy))
		return 0;
	if (own_work_begin(&own, &copy, err) != 0)
		return -1;
	int result = tidy_packs(&job->work, &copy, most_packs, err);
	failpoint("sync.tidied");
	if (result != 0)
		tidy_copy_after_failure(job, &copy);
	own_work_end(&own, job, &copy);
	return result;
}

/* The copy is as it should be, and proved so: that there was no room to fold its packs is
 * no failure of the sync. But it must be there, whole, and still ours. A fold reads what
 * the proof did not: where its disk may have failed, all of the copy is read next. */
static int sync_tidy(const struct job *job, const struct sync_call *call,
		     const char *path, struct err *err)
{
	if (tidy_is_at_rest(call->request.name) ||
	    tidy_after(job, path, call->most_packs, err) == 0)
		return 0;
	if (err->class == ERR_CORRUPT || err->class == ERR_MISSING ||
	    err_is_deferral(err->class))
		return sync_failed_here(err);
	tidy_rest(call->request.name);
	log_warn("tidy.failed", LOG_ERR(err), LOG_TEXT("remedy", err->remedy));
	if (!err_is_of_data(err))
		return 0;
	if (!call->request.mends) /* in one run there is no later */
		return sync_failed_here(err);
	call->request.doubt(call->request.arg, call->request.name, err);
	return 0;
}

/* It may be called again for another try. */
static int sync_job(struct job *job, void *arg, struct err *err)
{
	struct sync_call *call = arg;
	AUTO_FREE char *path = name_to_copy(call->request.root, call->request.name);

	free(TAKE(call->result.held_reason));
	if (tidy_before(job, call, path, err) != 0)
		return sync_failed_here(err);
	if (sync_repository(job, &call->request, &call->result, err) != 0) {
		tidy_after_failure(job, path);
		return -1;
	}
	return sync_call_has_brought(call) ? sync_tidy(job, call, path, err) : 0;
}

/*
 * One row is verified: the checksum is computed anew from the copy's own disk, under the
 * repository's lease, and compared with the primary's value for the very generation that
 * is here. The row is read again under the lease: whoever had it before may have brought
 * something newer. A reverification also looks through the objects, and then rests as
 * long as that took.
 */

#define TRIES 3

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
static void verify_row_ask_primary(const struct pull_job *job)
{
	struct err err;

	if (source_doubt(job->pull->source, job->kind.type, job->rows.items[0].name, 0,
			 &err) != 0 &&
	    err.class != ERR_BUSY)
		log_warn("verify.not_asked", LOG_ERR(&err));
}

/* The row is brought: its upstream is asked, and nothing need be fetched. */
static int verify_row_ask_again(const struct pull_job *job, struct err *err)
{
	const struct registry_move asked = { .id = job->items[0].row->id,
					     .event = REGISTRY_ASKED,
					     .changed_at = clock_wall_ms() };

	if (registry_move(job->pull->options.store, &asked, err) != 0)
		return -1;
	pull_signal(job->pull);
	return err_set(err, ERR_BUSY, "it was brought since, and not for this row");
}

/* Another node that works on this tree has brought the mirror since, and proved it, or
 * this one, as a secondary: that is no damage. */
static int verify_row_take_other(struct pull_job *job, const struct repo *copy,
				 struct err *err)
{
	AUTO_RECORD struct copy_record record = { 0 };
	struct pull_item *item = &job->items[0];
	char sum[CHECKSUM_TEXT_SIZE];

	if (!job->pull->options.mirrors)
		return 0;
	copy_record_read(copy->fd, &record);
	checksum_format(&record.sum, sum);
	if (!copy_record_is_latest(&record, copy->fd) || strcmp(sum, item->checksum) != 0)
		return 0;
	item->of_copy = false;
	return verify_row_ask_again(job, err);
}

static int verify_row_compare_checksum(struct pull_job *job, const struct repo *copy,
				       const char *expected, struct err *err)
{
	const struct pull_item *item = &job->items[0];

	if (strcmp(item->checksum, expected) == 0)
		return 0;
	if (verify_row_take_other(job, copy, err) != 0)
		return -1;
	log_error("verify.mismatch", LOG_NUMBER("generation", item->generation),
		  LOG_TEXT("checksum", item->checksum),
		  LOG_TEXT("primary_checksum", expected));
	verify_row_ask_primary(job);
	err_set(err, ERR_CORRUPT,
		"the copy's checksum is %s, the primary's %s for generation %" PRIu64,
		item->checksum, expected, item->generation);
	return err_remedy(err, "it is fetched again automatically; if this recurs, find "
			       "out what else writes to the copy");
}

/* More than its refs: the primary's disk has nothing to do with it, and nobody has to
 * mend anything. */
static int verify_row_fail_damaged(struct pull_item *item, struct err *err)
{
	if (err->class == ERR_CORRUPT)
		item->wishes = REGISTRY_WISH_REBUILD;
	if (err_is_of_data(err))
		err_remedy(err, "the copy is replaced at the next try; if this recurs, "
				"check for a failing disk");
	return -1;
}

/* It may remove files, seconds before it ends, and the row says nothing of that. Without
 * room for the mark it is done all the same. */
static int verify_row_check_derived(const struct job *leased, const struct repo *copy,
				    struct err *err)
{
	struct repository_mark mark;
	struct own_work own;

	if (own_work_begin(&own, copy, err) != 0)
		return -1;
	const bool is_marked =
		own.was_ours && repository_mark(copy->fd, &mark, ERR_IGNORED) == 0;
	int result = verify_derived(&leased->work, copy, err);
	own_work_end(&own, leased, copy);
	if (is_marked)
		repository_unmark(&mark);
	return result;
}

static int verify_row_check_copy(struct pull_job *job, const struct job *leased,
				 const char *expected, struct err *err)
{
	AUTO_REPO struct repo copy = REPO_INIT;
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;
	struct pull_item *item = &job->items[0];
	AUTO_FREE char *path =
		name_to_copy(job->pull->options.here->root, item->row->name);

	item->of_copy = true;
	if (repo_open(AT_FDCWD, path, &copy, err) != 0)
		return verify_row_fail_damaged(item, err);
	if (repo_check_diversions(copy.fd, err) != 0)
		return -1;
	if (repo_check_files(&copy, err) != 0 || mend_check_config(&copy, err) != 0 ||
	    mend_check_refs(copy.fd, err) != 0 ||
	    read_copy(&copy, &refs, item->checksum, err) != 0)
		return verify_row_fail_damaged(item, err);
	failpoint("verify.read");
	if (verify_row_compare_checksum(job, &copy, expected, err) != 0)
		return -1;
	return !job->rests || (verify_row_check_derived(leased, &copy, err) == 0 &&
			       verify_objects(&leased->work, &copy, &refs, err) == 0)
		       ? 0
		       : verify_row_fail_damaged(item, err);
}

/* What is known of the generation that is here. */
static const char *verify_row_expected_checksum(const struct registry_row *row)
{
	if (row->state != REGISTRY_SYNCED || row->is_gone ||
	    row->generation != row->generation_wanted)
		return NULL;
	return row->primary_checksum ? row->primary_checksum : row->checksum;
}

/* Without a look at the copy there is nothing to compare with any more. */
static int verify_row_leased(struct job *leased, void *arg, struct err *err)
{
	struct pull_job *job = arg;
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	const char *expected;

	if (registry_get(job->pull->options.store, job->kind.type,
			 job->rows.items[0].name, &row, err) != 0 &&
	    err->class != ERR_MISSING)
		return -1;
	job->items[0].generation = row.generation;
	expected = row.name ? verify_row_expected_checksum(&row) : NULL;
	if (!expected)
		return 0;
	if (pull_check_root(job->pull, job->kind.type, err) != 0)
		return -1;
	return verify_row_check_copy(job, leased, expected, err);
}

/* Under the lease of that name. */
static int repository_run_leased(const struct pull_job *job, const char *name,
				 const char *operation, job_work run, void *arg,
				 struct err *err)
{
	struct pull *pull = job->pull;
	const struct pull_once *once = pull->options.once;

	maintainer_make_way(pull->maintainer, name);
	return job_run(
		&(struct job_request){
			.leases = pull->options.leases,
			.kind = job->kind.type,
			.name = name,
			.id = job->id,
			.operation = operation,
			.fence_floor = job_fence_floor(pull->options.here->root, name),
			.wait_ms = once ? once->lease_wait_ms : job->lease_wait_ms,
			.bytes = once         ? once->bytes
				 : job->shown ? &job->shown->bytes
					      : NULL,
			.bytes_at_end =
				!once && job->shown ? &job->shown->bytes_at_end : NULL,
			.timeout_ms = pull_settings_now(pull).timeout_ms,
			.stop = &pull->kill,
			.leaving = once ? NULL : &pull->stop,
			.run = run,
			.arg = arg,
		},
		err);
}

/* What else may have been wrong with git, a sync finds out. */
void repository_verify(struct pull_job *job)
{
	struct pull *pull = job->pull;
	struct pull_item *item = &job->items[0];

	if (item->end != PULL_OPEN)
		return;
	job->rests = item->row->verified_at != 0 || item->row->wishes != 0;
	if (repository_run_leased(job, item->row->name, "verify", verify_row_leased, job,
				  &item->why) == 0)
		item->why.class = item->of_copy ? ERR_NONE : ERR_CONFLICT;
	item->wait_ms = rebuild_wait_ms(pull, item->row->id);
	job->rests = job->rests && !err_is_deferral(item->why.class);
}

/* Also if nothing had to be done: a node that ended before this may have done it. */
static void report_published(const struct pull_job *job)
{
	const struct pull_options *options = &job->pull->options;

	if (options->published)
		options->published(options->arg, job->rows.items[0].name);
}

/* What to do about it one run says itself. */
static void hold_item(const struct pull *pull, struct pull_item *item, char *reason)
{
	item->end = PULL_HELD;
	item->held_reason = reason;
	if (pull->options.once)
		return;
	AUTO_FREE char *operand = name_to_operand(item->row->name);
	item->remedy = xasprintf("save what matters, then refrelay %s sync --force %s",
				 item->row->kind, operand);
	log_warn("sync.held", LOG_TEXT("reason", reason),
		 LOG_TEXT("remedy", item->remedy));
}

#define RENAME_AGAIN_MS 500
#define LENDER_AGAIN_MS 2000
#define AGAIN_MOST_MS 60000

static void put_off(struct pull_item *item, int64_t wait_ms)
{
	item->end = PULL_WAITS;
	item->wait_ms = wait_ms;
	item->is_uncounted = true;
}

/* The longer it has waited, the less it matters. */
static void put_off_longer(const struct pull_job *job, int64_t least_ms)
{
	struct pull_item *item = &job->items[0];
	const int64_t since = item->row->behind_since;
	const int64_t part = since > 0 ? (pull_now_ms(job->pull) - since) / 8 : 0;

	put_off(item, part < least_ms        ? least_ms
		      : part < AGAIN_MOST_MS ? part
					     : AGAIN_MOST_MS);
}

static void take_result(struct pull_job *job, struct sync_result *result)
{
	static const enum pull_end ends[] = { [SYNC_UNCHANGED] = PULL_UNCHANGED,
					      [SYNC_CREATED] = PULL_CREATED,
					      [SYNC_UPDATED] = PULL_UPDATED };
	struct pull_item *item = &job->items[0];

	job->bytes = item->bytes = result->bytes;
	item->refs_changed = result->refs_changed;
	if (result->outcome == SYNC_AWAITS) {
		put_off_longer(job, LENDER_AGAIN_MS);
		return;
	}
	if (result->outcome == SYNC_HELD) {
		hold_item(job->pull, item, TAKE(result->held_reason));
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

/* Never into a mount point whose file system is away. */
static int bring_leased(struct job *leased, void *arg, struct err *err)
{
	struct pull_job *job = arg;
	const struct sync_call *call = job->own;
	const char *name = job->items[0].row->name;

	job->leased_at = clock_wall_ms();
	if (pull_check_place(job->pull, job->kind.type, name, err) != 0 ||
	    sync_job(leased, job->own, err) != 0)
		return -1;
	if (!job->brought || !sync_call_has_brought(call))
		return 0;
	if (call->result.outcome != SYNC_UNCHANGED)
		report_published(job); /* what comes now may take long */
	job->brought(job, leased);
	return 0;
}

/* How often one run tries, and for how long a ref that moved is worth another try; a lock
 * that others hold has been waited for by then. */
#define ONCE_TRIES 3
#define ONCE_PATIENCE_MS 5000

/* In one run a lost lease or a ref that moved is worth another try at once: there is no
 * later. */
static int bring_with_patience(struct pull_job *job, const char *name, struct err *err)
{
	const int64_t until = clock_boot_ms() + ONCE_PATIENCE_MS;

	for (int tries = 1;; tries++) {
		if (repository_run_leased(job, name, "sync", bring_leased, job, err) == 0)
			return 0;
		bool again = err->class == ERR_LOST ||
			     (err->class == ERR_CONFLICT && clock_boot_ms() < until);
		if (!job->pull->options.once || !again || tries == ONCE_TRIES)
			return -1;
	}
}

static void bring_copy(struct pull_job *job, struct sync_result *result)
{
	struct pull *pull = job->pull;
	const struct registry_row *row = job->items[0].row;
	struct err err;

	pace_take(pull, row->id);
	int done = bring_with_patience(job, row->name, &err);
	if (result->was_rebuilt)
		rebuild_take(pull, row->id);
	if (done == 0)
		take_result(job, result);
	else
		pull_item_fail(&job->items[0], &err);
	free(TAKE(result->held_reason));
}

/*
 * A repository that was renamed at the primary keeps its timeline there. Its copy is
 * moved to the new name, under the leases of both names, and nothing is fetched.
 *
 * The primary notices the new name first, and tells the deletion of the former one right
 * after it. So a new row whose repository is still recorded under another name waits for
 * that; not for ever, since the deletion may never come.
 *
 * The copy's fence is raised by the former name's lease before it is moved: a worker that
 * was paused with it is too late. The sync that follows begins with the fence that it
 * finds at the new place. A crash between the move and the row leaves a gone row without
 * a copy, which its removal drops.
 */
#define PATIENCE_MS 15000

struct renaming {
	const struct pull_job *job;
	const struct registry_row *row; /* the new name */
	struct registry_row former;     /* the other; no name: there is none */
	bool is_moved;
};

static int rename_read_former(struct store_tx *tx, void *arg, struct err *err)
{
	struct renaming *renaming = arg;

	registry_row_clear(&renaming->former);
	return registry_twin_in(tx, renaming->row, &renaming->former, err) < 0 ? -1 : 0;
}

static int move_folder(const struct renaming *renaming, int root, struct err *err)
{
	AUTO_FREE char *from = name_to_path(renaming->former.name);
	AUTO_FREE char *to = name_to_path(renaming->row->name);

	if (dir_make_parents(root, to, err) != 0)
		return -1;
	if (renameat2(root, from, root, to, RENAME_NOREPLACE) != 0)
		return err_errno(err, "cannot move %s to %s", from, to);
	failpoint("rename.moved");
	dir_remove_above(root, from, NULL);
	if (file_sync_parents(root, to, err) != 0)
		return -1;
	return dir_sync(root, ".", err);
}

/* Under its lease: since it was read, the name may be wanted again. */
static int check_former(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row now = { 0 };
	const struct renaming *renaming = arg;
	int found =
		registry_get_in(tx, KIND_REPOSITORY, renaming->former.name, &now, err);

	if (found > 0 && now.is_gone)
		return 0;
	return found < 0 ? -1
			 : err_set(err, ERR_BUSY, "%s is wanted again, or is removed",
				   renaming->former.name);
}

static int drop_former(struct store_tx *tx, void *arg, struct err *err)
{
	const struct renaming *renaming = arg;

	return registry_remove_in(tx, renaming->former.id, err) < 0 ? -1 : 0;
}

/* Under both leases; the job is the former name's. */
static int move_copy(struct job *job, void *arg, struct err *err)
{
	struct renaming *renaming = arg;
	const struct pull_options *options = &renaming->job->pull->options;
	AUTO_CLOSE int root = dir_open(AT_FDCWD, options->here->root, err);
	AUTO_FREE char *from = name_to_path(renaming->former.name);
	AUTO_CLOSE int copy = root < 0 ? -1 : dir_open(root, from, err);

	if (copy < 0 || store_read(options->store, check_former, renaming, err) != 0)
		return -1;
	if (fence_raise(copy, job->fence, err) != 0 ||
	    lease_check(job->lease, err) != 0 || move_folder(renaming, root, err) != 0)
		return -1;
	renaming->is_moved = true;
	return store_write(options->store, drop_former, renaming, err);
}

static int lock_former(struct job *job, void *arg, struct err *err)
{
	struct renaming *renaming = arg;

	(void)job;
	if (pull_check_place(renaming->job->pull, KIND_REPOSITORY, renaming->row->name,
			     err) != 0)
		return -1;
	return repository_run_leased(renaming->job, renaming->former.name, "rename",
				     move_copy, renaming, err);
}

static bool is_recent(const struct renaming *renaming)
{
	int64_t since = renaming->row->behind_since;

	return since > 0 && pull_now_ms(renaming->job->pull) - since < PATIENCE_MS;
}

static bool is_here(const struct renaming *renaming, const char *name)
{
	AUTO_FREE char *path =
		name_to_copy(renaming->job->pull->options.here->root, name);

	return access(path, F_OK) == 0;
}

/* What cannot be moved is fetched. */
static bool move_or_wait(struct renaming *renaming)
{
	const struct pull_options *options = &renaming->job->pull->options;
	struct err err;
	int result;

	if (!renaming->former.is_gone)
		return is_recent(renaming);
	if (!is_here(renaming, renaming->former.name))
		return false;
	result = repository_run_leased(renaming->job, renaming->row->name, "rename",
				       lock_former, renaming, &err);
	if (renaming->is_moved) {
		log_info("sync.renamed", LOG_TEXT("from", renaming->former.name));
		if (options->published)
			options->published(options->arg, renaming->former.name);
	}
	return result != 0 && err_is_deferral(err.class);
}

/* Before the first sync of a row of which nothing is here. True: the row waits a moment,
 * since the same repository is still recorded under its former name, or another has one
 * of the leases. False: the sync can begin; perhaps on a copy that was moved there. */
static bool rename_puts_off(const struct pull_job *job, const struct registry_row *row)
{
	struct renaming renaming = { .job = job, .row = row };
	struct store *store = job->pull->options.store;
	bool is_put_off;

	if (row->last_success_at > 0 || row->wishes != 0 ||
	    store_read(store, rename_read_former, &renaming, ERR_IGNORED) != 0)
		return false;
	is_put_off = renaming.former.name && !is_here(&renaming, row->name) &&
		     move_or_wait(&renaming);
	registry_row_clear(&renaming.former);
	return is_put_off;
}

/* Whether the copy of a row that is gone will be moved, so that it is not removed now. */
static bool rename_is_expected(const struct pull_job *job, const struct registry_row *row)
{
	struct renaming renaming = { .job = job, .row = row };
	struct store *store = job->pull->options.store;
	bool is_expected;

	if (store_read(store, rename_read_former, &renaming, ERR_IGNORED) != 0)
		return false;
	is_expected = renaming.former.name && row->is_gone && !renaming.former.is_gone &&
		      renaming.former.last_success_at == 0;
	registry_row_clear(&renaming.former);
	return is_expected;
}

static bool repository_is_about_to_come(const struct pull_job *job, const char *name)
{
	AUTO_FREE char *path = name_to_copy(job->pull->options.here->root, name);
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	return access(path, F_OK) != 0 &&
	       registry_get(job->pull->options.store, KIND_REPOSITORY, name, &row,
			    ERR_IGNORED) == 0 &&
	       !row.is_gone && row.retry_count == 0 &&
	       (row.state == REGISTRY_STARTED || row.state == REGISTRY_PENDING);
}

/* Forks that are noticed before the repository that they share objects with wait for its
 * first copy. */
static bool repository_awaits_lender(void *arg, const char *name)
{
	const struct pull_job *job = arg;

	return repository_is_about_to_come(job, name) &&
	       share_await(job->items[0].row->name, name);
}

static void repository_doubt(void *arg, const char *name, const struct err *why)
{
	const struct pull_job *job = arg;

	pull_doubt(job->pull, job->kind.type, name, why);
}

/* One that is known to wait asks nobody, neither for a lease nor the primary. */
static bool repository_still_awaits(const struct pull_job *job)
{
	const char *name = job->items[0].row->name;
	AUTO_FREE char *lender = share_awaited(name);

	return lender && pull_settings_now(job->pull).shares_objects &&
	       repository_is_about_to_come(job, lender) && share_await(name, lender);
}

void repository_bring_from(struct pull_job *job, struct source *source)
{
	struct pull *pull = job->pull;
	struct pull_item *item = &job->items[0];
	struct sync_manner manner = sync_manner_of(item->row);
	struct sync_call *call = job->own ? job->own : xcalloc(1, sizeof(*call));

	job->own = call;
	call->request = (struct sync_request){
		.source = source,
		.root = pull->options.here->root,
		.name = item->row->name,
		.is_forced = manner.is_forced,
		.is_suspect = manner.is_suspect,
		.is_rebuild = manner.is_rebuild,
		.hooks = pull->options.hooks,
		.mends = !pull->options.once,
		.takes_deltas = pull_settings_now(pull).takes_deltas,
		.checksum = item->row->checksum,
		.delete_share = pull_settings_now(pull).delete_brake,
		.awaits_lender =
			!pull->options.once && pull_settings_now(pull).shares_objects
				? repository_awaits_lender
				: NULL,
		.doubt = repository_doubt,
		.arg = job,
		.may_rebuild = rebuild_wait_ms(pull, item->row->id) == 0
	};
	call->most_packs = pull->maintainer && pull_settings_now(pull).is_maintained
				   ? TIDY_PACK_LIMIT_MAINTAINED
				   : TIDY_PACK_LIMIT;
	bring_copy(job, &call->result);
}

static void repository_bring(struct pull_job *job)
{
	struct pull_item *item = &job->items[0];

	if (item->end != PULL_OPEN)
		return;
	if (rename_puts_off(job, item->row))
		put_off(item, RENAME_AGAIN_MS);
	else if (repository_still_awaits(job))
		put_off_longer(job, LENDER_AGAIN_MS);
	else
		repository_bring_from(job, job->pull->source);
}

/* A removal is no sync. */
static int repository_open(struct pull_job *job, struct err *err)
{
	struct pull_item *item = &job->items[0];

	(void)err;
	item->is_uncounted = item->row->is_gone;
	if (item->row->is_gone && rename_is_expected(job, item->row))
		put_off_longer(job, RENAME_AGAIN_MS);
	return 0;
}

void repository_remove(struct pull_job *job)
{
	struct pull *pull = job->pull;
	const struct removal_request request = { .store = pull->options.store,
						 .leases = pull->options.leases,
						 .root = pull->options.here->root,
						 .kind = job->kind.type,
						 .name = job->rows.items[0].name,
						 .job = job->id,
						 .stop = &pull->kill,
						 .is_from_elsewhere =
							 mirror_job_is_from_elsewhere,
						 .row = job->items[0].row };
	struct err err = { 0 };

	maintainer_make_way(pull->maintainer, request.name);
	if (removal_run(&request, &err) == 0)
		err.class = ERR_NONE;
	if (pull_item_end_removed(&job->items[0], &err) == 0)
		report_published(job);
}

void repository_end(struct pull_job *job)
{
	const struct pull_item *item = &job->items[0];
	struct sync_call *call = job->own;

	if (call && (pull_item_is_placed(item) || item->end == PULL_UNCHANGED)) {
		log_info("sync.done", LOG_NUMBER("dur_ms", job->took_ms),
			 LOG_NUMBER("bytes", job->bytes),
			 LOG_TEXT("way", call->result.is_by_pack ? "delta"
					 : job->bytes > 0        ? "git"
								 : "none"),
			 LOG_TEXT("result", pull_item_word(item)),
			 LOG_NUMBER("refs", call->result.refs_changed),
			 LOG_NUMBER("generation", item->generation),
			 LOG_NUMBER("lag_ms", item->lag_ms));
		copy_watch_report(job->pull->copy_watch, item->row->name);
		maintainer_report(job->pull->maintainer, job->kind.type, item->row->name);
		share_await(item->row->name, NULL);
	}
	free(call);
}

/* One run has done so. */
void repository_begin(const struct pull_options *options, const struct kind *kind)
{
	if (!options->once)
		staging_clear(options->leases, kind->path);
}

const struct copy_kind_ops repository_copy_ops = {
	.workers = PULL_SYNC_WORKERS,
	.is_needed = true,
	.bring_most = 1,
	.verify_most = 1,
	.begin = repository_begin,
	.look = glance_look_at_repository,
	.open = repository_open,
	.remove = repository_remove,
	.bring = repository_bring,
	.verify = repository_verify,
	.end = repository_end,
	.maintain = repository_maintain,
	.count_leftovers = leftovers_count_repositories,
	.take_leftovers = leftovers_take_repositories,
};
