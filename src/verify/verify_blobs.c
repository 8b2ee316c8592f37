/*
 * The primary's blobs, read to compute their checksums.
 *
 * Looked at first, so that a result belongs to a row that is as the disk was before it
 * was read; and if the file is another after, there is no result.
 */
#include "verify/verify_origin.h"

#include "base/clock.h"
#include "base/log.h"

/* Results are not held back for longer. */
#define HOLD_MS 1000
/* After a change another one may not show (blob_fingerprint_is_settled()) for less, or,
 * where files have the time of full seconds only, for so long. */
#define SETTLE_MS 25
#define SETTLE_MOST_MS 2100

struct verifying {
	const struct verify_batch *batch;
	int root;
	struct noticed looks[VERIFY_MOST];
	struct blob_result results[VERIFY_MOST];
	size_t count; /* of results that are not recorded yet */
	size_t judged;
	int64_t recorded_at; /* boot ms */
};

static bool verify_blobs_is_settled(const struct noticed *look)
{
	struct blob_fingerprint fingerprint;

	return look->row.fingerprint &&
	       blob_fingerprint_parse(look->row.fingerprint, &fingerprint) &&
	       blob_fingerprint_is_settled(&fingerprint, clock_wall_ns());
}

/* A time in the future is not waited for. */
static bool is_settling(const struct noticed *look)
{
	struct blob_fingerprint fingerprint;

	return look->why.class == ERR_NONE && look->row.fingerprint &&
	       !verify_blobs_is_settled(look) &&
	       blob_fingerprint_parse(look->row.fingerprint, &fingerprint) &&
	       fingerprint.ctime_ns <= clock_wall_ns();
}

static bool are_settling(const struct verifying *verifying)
{
	for (size_t i = 0; i < verifying->batch->count; i++)
		if (is_settling(&verifying->looks[i]))
			return true;
	return false;
}

/* Or what is written while they are read might not show, and a checksum be of two
 * contents. */
static void let_settle(const struct verifying *verifying)
{
	int64_t until = clock_boot_ms() + SETTLE_MOST_MS;

	while (are_settling(verifying) && clock_boot_ms() < until)
		if (stop_wait(verifying->batch->stop, SETTLE_MS))
			return;
}

static int verify_blobs_compute_digest(const struct verifying *verifying,
				       const struct noticed *look,
				       struct blob_result *result, struct err *err)
{
	char text[BLOB_FINGERPRINT_SIZE];
	struct stat st;
	AUTO_CLOSE int fd = -1;

	result->is_settled = verify_blobs_is_settled(look);
	if (blob_open(verifying->root, look->name, &fd, &st, err) != 0 ||
	    blob_digest(fd, &result->fingerprint, result->digest, verifying->batch->stop,
			err) != 0)
		return -1;
	blob_fingerprint_format(&result->fingerprint, text);
	if (strcmp(text, look->row.fingerprint) == 0)
		return 0;
	return err_set(err, ERR_CONFLICT, "it changed before it was read");
}

/* What a failure of the look says of the blob itself. */
static bool verify_blobs_is_fault(const struct err *why)
{
	return why->class == ERR_CORRUPT || why->class == ERR_CONFIG;
}

/* -1: stop. */
static int verify_blobs_read_one(struct verifying *verifying, const struct noticed *look)
{
	struct blob_result *result = &verifying->results[verifying->count];

	if (!look->row.name ||
	    strcmp(look->row.claim_token, verifying->batch->claim_token) != 0)
		return 0; /* gone, or another's by now */
	*result = (struct blob_result){ .row = &look->row, .why = look->why };
	if (look->why.class != ERR_NONE) {
		result->is_deferred = !verify_blobs_is_fault(&look->why);
	} else if (verify_blobs_compute_digest(verifying, look, result, &result->why) !=
		   0) {
		if (result->why.class == ERR_CANCELED)
			return -1;
		result->is_deferred =
			result->why.class == ERR_MISSING || !err_is_of_data(&result->why);
	}
	verifying->count++;
	return 0;
}

static void verify_blobs_report(const struct verifying *verifying,
				const struct blob_result *result)
{
	if (result->is_deferred)
		log_info("verify.deferred", LOG_ERR(&result->why),
			 LOG_TEXT("kind", verifying->batch->kind->of.type),
			 LOG_TEXT("name", result->row->name));
	else if (result->verdict.class != ERR_NONE)
		log_error("verify.failed", LOG_ERR(&result->verdict),
			  LOG_TEXT("kind", verifying->batch->kind->of.type),
			  LOG_TEXT("name", result->row->name),
			  LOG_TEXT("remedy", result->verdict.remedy));
}

static int verify_blobs_record_results(struct verifying *verifying)
{
	const struct verify_batch *batch = verifying->batch;
	size_t count = verifying->count;
	struct err err;

	verifying->count = 0;
	verifying->recorded_at = clock_boot_ms();
	if (blob_notice_record(batch->kind->notice, batch->kind->of.blobs,
			       verifying->results, count, &err) != 0) {
		log_warn("verify.not_recorded", LOG_ERR(&err),
			 LOG_TEXT("kind", batch->kind->of.type));
		return -1;
	}
	for (size_t i = 0; i < count; i++) {
		verify_blobs_report(verifying, &verifying->results[i]);
		verifying->judged += !verifying->results[i].is_deferred;
	}
	return 0;
}

static void verify_blobs_read_all(struct verifying *verifying)
{
	const struct verify_batch *batch = verifying->batch;

	let_settle(verifying);
	verifying->recorded_at = clock_boot_ms();
	for (size_t i = 0; i < batch->count; i++) {
		if (verify_blobs_read_one(verifying, &verifying->looks[i]) != 0)
			break;
		if (clock_boot_ms() - verifying->recorded_at >= HOLD_MS &&
		    verify_blobs_record_results(verifying) != 0)
			return;
	}
	verify_blobs_record_results(verifying);
}

static int verify_blobs_observe_all(struct verifying *verifying, struct err *err)
{
	const struct verify_batch *batch = verifying->batch;

	for (size_t i = 0; i < batch->count; i++)
		verifying->looks[i].name = batch->names[i];
	if (notice_compare_these(batch->kind->notice, &batch->kind->of, verifying->looks,
				 batch->count, err) != 0)
		return -1;
	verifying->root = blob_root_open(batch->kind->of.blobs, err);
	return verifying->root < 0 ? -1 : 0;
}

static bool verify_blobs(const struct verify_batch *batch)
{
	struct verifying verifying = { .batch = batch, .root = -1 };
	int64_t started = clock_boot_ms();
	size_t gone = 0;
	struct err err;

	if (verify_blobs_observe_all(&verifying, &err) != 0)
		log_warn("verify.deferred", LOG_ERR(&err),
			 LOG_TEXT("kind", batch->kind->of.type));
	else
		verify_blobs_read_all(&verifying);
	for (size_t i = 0; i < batch->count; i++) {
		gone += verifying.looks[i].why.class == ERR_MISSING;
		noticed_clear(&verifying.looks[i]);
	}
	if (verifying.root >= 0)
		close(verifying.root);
	log_debug("verify.batch", LOG_NUMBER("dur_ms", clock_boot_ms() - started),
		  LOG_TEXT("kind", batch->kind->of.type),
		  LOG_NUMBER("blobs", verifying.judged));
	return verifying.judged + gone > 0;
}

const struct verify_kind_ops blob_verify_ops = {
	.most = VERIFY_MOST,
	.new_most = 200,
	.verify = verify_blobs,
};
