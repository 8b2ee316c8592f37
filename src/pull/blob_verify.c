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

#define SPELL_MOST_MS 60000

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

	return registry_get(job->pull->options.store, job->kind.type, row->name, &now,
			    ERR_IGNORED) != 0 ||
	       (now.state == REGISTRY_SYNCED && now.generation == row->generation &&
		strcmp(now.timeline, row->timeline) == 0);
}

/* When the copy is as it was found last, it may be the primary that is wrong. */
static int blob_verify_report_mismatch(struct blob_work *work,
				       const struct pull_item *item, const char *expected,
				       struct err *err)
{
	const struct registry_row *row = item->row;

	if (!is_as_claimed(work->job, row))
		return err_set(err, ERR_CONFLICT, "%s is being replaced", row->name);
	log_error("verify.mismatch", LOG_TEXT("kind", work->kind->type),
		  LOG_TEXT("name", row->name), LOG_NUMBER("generation", row->generation),
		  LOG_TEXT("checksum", item->checksum),
		  LOG_TEXT("primary_checksum", expected));
	if (!row->checksum || strcmp(row->checksum, item->checksum) == 0)
		blob_doubt(work, row->name);
	err_set(err, ERR_CORRUPT,
		"it has the SHA-256 %s, the primary's is %s for generation %" PRIu64,
		item->checksum, expected, row->generation);
	return err_remedy(err,
			  "it is fetched again automatically; if this recurs, check for "
			  "a failing disk, or for another program that writes there");
}

static int check_one(struct blob_work *work, struct pull_item *item, struct err *err)
{
	const char *expected = blob_verify_expected_digest(item->row);
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (!expected)
		return err_set(err, ERR_INTERNAL, "%s: nothing to compare with",
			       item->row->name);
	item->of_copy = true;
	if (blob_open(work->root, item->row->name, &fd, &st, err) != 0 ||
	    blob_work_digest(work, item, fd, item->checksum, err) != 0)
		return -1;
	failpoint("verify.read");
	return strcmp(item->checksum, expected) == 0
		       ? 0
		       : blob_verify_report_mismatch(work, item, expected, err);
}

/* Large ones are not kept unrecorded until all are read, nor beyond their claims: those
 * that are not read by then are due again at once. Only the first is known to have had at
 * least half of the job's time (pull_job_run()). */
void blob_verify_job(struct pull_job *job)
{
	const int64_t spell_ms = pull_settings_now(job->pull).timeout_ms / 4;
	const int64_t until =
		clock_boot_ms() + (spell_ms < SPELL_MOST_MS ? spell_ms : SPELL_MOST_MS);
	struct pull_item *item;

	for (size_t at = 0, read = 0; (item = pull_job_next(job, &at, PULL_OPEN));) {
		if (read++ > 0 && clock_boot_ms() >= until) {
			err_set(&item->why, ERR_CANCELED, "others took long");
			continue;
		}
		item->generation = item->row->generation;
		memcpy(item->timeline, item->row->timeline, sizeof(item->timeline));
		if (check_one(job->own, item, &item->why) == 0)
			item->why.class = ERR_NONE;
		else if (pull_job_ran_out(job, &item->why) && read > 1)
			err_set(&item->why, ERR_CANCELED, "others took long");
	}
	job->rests = job->rows.items[0].verified_at != 0;
}

/* A file that is being replaced is another one by right. */
void blob_verify_look_again(const struct blob_work *work)
{
	for (size_t i = 0; work->root >= 0 && i < work->job->rows.count; i++) {
		const struct pull_item *item = &work->job->items[i];
		if (item->is_recorded && item->why.class == ERR_NONE &&
		    is_as_claimed(work->job, item->row))
			blob_look_again(work->job->pull, work->kind, work->root,
					item->row->name, &blob_of(item)->fingerprint);
	}
}
