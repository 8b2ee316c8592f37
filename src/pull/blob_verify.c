/*
 * Some blobs are verified: each is read from the disk, and its SHA-256 compared with the
 * primary's of the very generation that is here. No lease: should the file be replaced
 * meanwhile, the row is of another generation by then, or being brought, and what is said
 * here of the one before does not count. After a reverification the worker rests as long
 * as that took.
 */
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "pull/blob_work.h"
#include "pull/decisions.h"
#include "upkeep/copies_root.h"
#include "upkeep/removal.h"

/*
 * Blobs that the primary has no more: files into the trash, rows out, under the deletion
 * limit of their kind.
 */

static size_t count_gone(const struct blob_work *work)
{
	size_t count = 0;

	for (size_t i = 0; i < work->count; i++)
		count += work->items[i].end == BLOB_OPEN && work->items[i].row->is_gone;
	return count;
}

static void fail_gone(struct blob_work *work, const struct err *why)
{
	for (size_t i = 0; i < work->count; i++)
		if (work->items[i].end == BLOB_OPEN && work->items[i].row->is_gone)
			blob_item_fail_here(&work->items[i], why);
}

/* The brake holds those that nobody works on: ours are given back, then asked about. */
static void blob_remove_hold_back(struct blob_work *work, struct err *err)
{
	VEC(struct registry_move) moves = { 0 };
	enum registry_result *results;
	bool may;

	for (size_t i = 0; i < work->count; i++) {
		struct blob_item *item = &work->items[i];
		if (item->end != BLOB_OPEN || !item->row->is_gone)
			continue;
		vec_add(&moves,
			((struct registry_move){ .id = item->row->id,
						 .event = REGISTRY_DEFERRED,
						 .timeout_ms = PULL_LIMIT_AGAIN_MS }));
		item->end = BLOB_HELD; /* there is nothing more to say of it */
	}
	results = xcalloc(moves.count, sizeof(*results));
	if (registry_move_many(work->pull->options.store, moves.items, moves.count,
			       results, err) != 0 ||
	    pull_may_remove(work->pull, work->kind->type, &may, err) != 0)
		log_error("registry.failed", LOG_ERR(err));
	free(results);
	vec_clear(&moves);
}

/* Since it was claimed it may be wanted again. arg: the item's work */
static int blob_remove_check_gone(struct store_tx *tx, void *arg, struct err *err)
{
	struct blob_work *work = arg;

	for (size_t i = 0; i < work->count; i++) {
		struct blob_item *item = &work->items[i];
		AUTO_REGISTRY_ROW struct registry_row row = { 0 };
		struct err why;
		if (item->end != BLOB_OPEN || !item->row->is_gone)
			continue;
		if (registry_get_in(tx, work->kind->type, item->row->name, &row, err) < 0)
			return -1;
		if (row.is_gone)
			continue;
		err_set(&why, ERR_LOST, "%s is wanted again", item->row->name);
		blob_item_fail(item, &why);
	}
	return 0;
}

static void blob_remove_discard_item(const struct blob_work *work, struct blob_item *item)
{
	struct err err;

	if (blob_item_lease(work, item, "remove") != 0)
		return;
	if (blob_discard(work->root, item->row->name, &err) == 0 ||
	    err.class == ERR_MISSING)
		item->end = BLOB_REMOVED;
	else
		blob_item_fail_here(item, &err);
}

/* A row that is wanted by now stays, as one of which nothing is here. */
static int remove_rows(struct store_tx *tx, void *arg, struct err *err)
{
	const struct blob_work *work = arg;
	int64_t removed = 0;

	for (size_t i = 0; i < work->count; i++) {
		if (work->items[i].end != BLOB_REMOVED)
			continue;
		int result = registry_remove_in(tx, work->items[i].row->id, err);
		if (result < 0)
			return -1;
		removed += result == 0;
	}
	return removed == 0 ? 0 : removal_note(tx, work->kind->type, removed, err);
}

/* The files are away, but the rows are not: soon again. */
static void fail_removed(struct blob_work *work, const struct err *why)
{
	for (size_t i = 0; i < work->count; i++)
		if (work->items[i].end == BLOB_REMOVED)
			blob_item_fail_here(&work->items[i], why);
}

static void blob_remove_all(struct blob_work *work)
{
	struct store *store = work->pull->options.store;
	size_t removed = 0;
	struct err err;

	if (store_read(store, blob_remove_check_gone, work, &err) != 0) {
		fail_gone(work, &err);
		return;
	}
	for (size_t i = 0; i < work->count; i++) {
		struct blob_item *item = &work->items[i];
		if (item->end == BLOB_OPEN && item->row->is_gone)
			blob_remove_discard_item(work, item);
		removed += item->end == BLOB_REMOVED;
	}
	failpoint("removal.trashed");
	if (store_write(store, remove_rows, work, &err) != 0)
		fail_removed(work, &err);
	else if (removed > 0)
		log_info("blob.removed", LOG_TEXT("kind", work->kind->type),
			 LOG_NUMBER("count", removed));
}

void blob_remove_gone(struct blob_work *work)
{
	bool may = false;
	struct err err;

	if (count_gone(work) == 0)
		return;
	if (pull_may_remove(work->pull, work->kind->type, &may, &err) != 0)
		fail_gone(work, &err);
	else if (may)
		blob_remove_all(work);
	else
		blob_remove_hold_back(work, &err);
}

struct check {
	const struct registry_row *row;
	char digest[BLOB_DIGEST_SIZE];
	struct blob_fingerprint fingerprint; /* of the file that was read */
	bool of_copy;                        /* only the file was read */
	struct err err;
};

static int blob_verify_open_root(struct pull_job *job, int *root, struct err *err)
{
	if (copies_root_check_blobs(job->pull->options.store, job->kind, err) != 0)
		return -1;
	*root = blob_root_open(job->kind, err);
	return *root < 0 ? -1 : 0;
}

static const char *blob_verify_expected_digest(const struct registry_row *row)
{
	if (row->generation != row->generation_wanted)
		return NULL;
	return row->primary_checksum ? row->primary_checksum : row->checksum;
}

/* Whether nobody has begun to replace it since it was claimed: its row would say so
 * before the file is another. */
static bool is_as_claimed(const struct pull_job *job, const struct registry_row *row)
{
	AUTO_REGISTRY_ROW struct registry_row now = { 0 };

	return registry_get(job->pull->options.store, job->kind->type, row->name, &now,
			    ERR_IGNORED) != 0 ||
	       (now.state == REGISTRY_SYNCED && now.generation == row->generation &&
		strcmp(now.timeline, row->timeline) == 0);
}

/* When the copy is as it was found last, it may be the primary that is wrong. */
static int blob_verify_report_mismatch(struct pull_job *job, const struct check *check,
				       const char *expected, struct err *err)
{
	const struct registry_row *row = check->row;

	if (!is_as_claimed(job, row))
		return err_set(err, ERR_CONFLICT, "%s is being replaced", row->name);
	log_error("verify.mismatch", LOG_TEXT("kind", job->kind->type),
		  LOG_TEXT("name", row->name), LOG_NUMBER("generation", row->generation),
		  LOG_TEXT("checksum", check->digest),
		  LOG_TEXT("primary_checksum", expected));
	if (!row->checksum || strcmp(row->checksum, check->digest) == 0)
		blob_doubt(job->pull, job->kind, row->name);
	err_set(err, ERR_CORRUPT,
		"it has the SHA-256 %s, the primary's is %s for generation %" PRIu64,
		check->digest, expected, row->generation);
	return err_remedy(err, "it is brought again by itself; if this comes back, see "
			       "whether this machine's disk fails, or who else writes "
			       "there");
}

static int check_one(struct pull_job *job, int root, struct check *check, struct err *err)
{
	const char *expected = blob_verify_expected_digest(check->row);
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (!expected)
		return err_set(err, ERR_INTERNAL, "%s: nothing to compare with",
			       check->row->name);
	if (blob_id_check(job->kind, check->row->name, err) != 0)
		return -1;
	check->of_copy = true;
	if (blob_open(root, check->row->name, &fd, &st, err) != 0 ||
	    blob_digest(fd, &check->fingerprint, check->digest, &job->pull->kill, err) !=
		    0)
		return -1;
	failpoint("verify.read");
	return strcmp(check->digest, expected) == 0
		       ? 0
		       : blob_verify_report_mismatch(job, check, expected, err);
}

static void blob_verify_check_all(struct pull_job *job, struct check *checks)
{
	AUTO_CLOSE int root = -1;
	struct err err;
	bool has_root = blob_verify_open_root(job, &root, &err) == 0;

	for (size_t i = 0; i < job->rows.count; i++) {
		checks[i].row = &job->rows.items[i];
		if (!has_root)
			checks[i].err = err;
		else if (check_one(job, root, &checks[i], &checks[i].err) == 0)
			checks[i].err.class = ERR_NONE;
	}
}

static struct registry_move blob_verify_make_move(const struct pull_job *job,
						  const struct check *check)
{
	struct registry_move move = {
		.id = check->row->id,
		.event = verification_end(&check->err, check->of_copy),
		.generation = check->row->generation,
		.timeline = check->row->timeline,
		.checksum = check->digest,
		.err = &check->err,
		.timeout_ms = verification_again_ms(check->err.class),
	};

	if (move.event == REGISTRY_PROVED)
		move.timeout_ms = next_reverify_ms(
			pull_settings_now(job->pull).reverify_ms, random_roll());
	return move;
}

static void blob_verify_give_back(const struct pull_job *job,
				  const struct registry_move *moves,
				  const struct err *err)
{
	log_error("registry.failed", LOG_ERR(err));
	for (size_t i = 0; i < job->rows.count; i++)
		pull_give_back_later(job->pull, moves[i].id, moves[i].event);
}

/* A file that is being replaced is another one by right. */
static void blob_verify_look_again(const struct pull_job *job, const struct check *checks)
{
	AUTO_CLOSE int root = blob_root_open(job->kind, ERR_IGNORED);

	for (size_t i = 0; root >= 0 && i < job->rows.count; i++)
		if (checks[i].err.class == ERR_NONE && is_as_claimed(job, checks[i].row))
			blob_look_again(job->pull, job->kind, root, checks[i].row->name,
					&checks[i].fingerprint);
}

static void blob_verify_record_results(const struct pull_job *job,
				       const struct check *checks)
{
	const size_t count = job->rows.count;
	struct registry_move *moves = xcalloc(count, sizeof(*moves));
	enum registry_result *results = xcalloc(count, sizeof(*results));
	struct err err;

	for (size_t i = 0; i < count; i++) {
		moves[i] = blob_verify_make_move(job, &checks[i]);
		pull_count_verification(job->kind->type, moves[i].event);
	}
	failpoint("verify.done");
	if (registry_move_many(job->pull->options.store, moves, count, results, &err) !=
	    0)
		blob_verify_give_back(job, moves, &err);
	else
		blob_verify_look_again(job, checks);
	free(results);
	free(moves);
}

static bool is_reverification(const struct pull_job *job)
{
	return job->rows.count > 0 && job->rows.items[0].verified_at != 0;
}

void blob_verify_work(void *arg)
{
	struct pull_job *job = arg;
	int64_t started = clock_boot_ms();
	struct check *checks;

	if (stop_is_requested(&job->pull->stop)) {
		blob_verify_forget(job);
		return;
	}
	struct log_context before =
		log_set_context((struct log_context){ .job = "verify" });
	checks = xcalloc(job->rows.count, sizeof(*checks));
	blob_verify_check_all(job, checks);
	blob_verify_record_results(job, checks);
	free(checks);
	log_set_context(before);
	if (is_reverification(job))
		stop_wait(&job->pull->stop, clock_boot_ms() - started);
	pull_job_end(job, &job->pull->state.verifying);
}

void blob_verify_forget(void *arg)
{
	struct pull_job *job = arg;

	pull_rows_report(job, REGISTRY_SUPERSEDED);
	pull_job_end(job, &job->pull->state.verifying);
}
