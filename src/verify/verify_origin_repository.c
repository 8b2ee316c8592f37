/*
 * A result belongs to the refs that were read. When the repository changes meanwhile,
 * the row's checksum is the comparison's that noticed it, and what was found of the
 * packs and of the older history still stands: so the result goes to the newer row. But
 * objects that were found missing may have been dropped by that change: then they are
 * looked for anew.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/retry.h"
#include "change/notice.h"
#include "replicable/name.h"
#include "verify/verify_objects.h"
#include "verify/verify_origin_parts.h"

/* How often a row may change while its result is being written. */
#define TRIES 5
/* How often a repository may change while its objects are looked for. */
#define LOOKS 5
/* After what was no fault of the repository. */
#define DEFERRED_MS 30000

/* What the looks at one repository have found. */
struct findings {
	bool has_places;     /* those from which it borrows are read */
	struct err unjudged; /* why one of them was not; ERR_NONE: all were */
	bool is_deferred;    /* the failure says nothing of the repository, */
	bool is_own_whole;   /* ... whose own objects are whole */
};

/* The places first: many may wait for one, and need not read their own objects before
 * they know that. */
static int check_objects(const struct verify_batch *batch, const struct noticed *noticed,
			 struct findings *findings, struct err *err)
{
	AUTO_REPO struct repo repo = REPO_INIT;
	AUTO_FREE char *path =
		xasprintf("%s/%s", batch->kind->of.path, noticed->row.path);
	struct git_work work = { .stop = batch->stop, .guard_fd = -1 };

	if (repo_open(AT_FDCWD, path, &repo, err) != 0 ||
	    repo_check_files(&repo, err) != 0)
		return -1;
	if (!findings->has_places)
		findings->has_places = verify_places_read(batch, &noticed->row, &repo,
							  &findings->unjudged, err) == 0;
	work.until = clock_boot_ms() + verify_origin_timeout_ms(batch->verify);
	if (findings->has_places &&
	    verify_objects(&work, &repo, &noticed->refs, err) == 0) {
		findings->is_own_whole = true;
		return 0;
	}
	if (err->class == ERR_CONFLICT) /* of its packs: not again at once */
		err->class = ERR_BUSY;
	if (err->class == ERR_MISSING) { /* a part of it; it is there itself */
		err->class = ERR_CORRUPT;
		err_remedy(err, "restore what is missing there");
	}
	return -1;
}

struct result {
	const char *name, *claim_token;
	const struct err *failure; /* NULL: whole */
	struct findings findings;
	int64_t reverify_ms, timeout_ms;
};

static int64_t shortest_wait_ms(const struct result *result)
{
	const struct findings *findings = &result->findings;
	int64_t wait_ms = 0;

	if (findings->is_deferred)
		wait_ms = findings->is_own_whole ? result->reverify_ms : DEFERRED_MS;
	if (result->failure && result->failure->class == ERR_TIMEOUT)
		wait_ms = int64_max(wait_ms, VERIFY_OVERRUN_FACTOR * result->timeout_ms);
	return wait_ms;
}

static void put_result(struct origin_row *row, const struct result *result)
{
	const struct findings *findings = &result->findings;
	int64_t now = clock_wall_ms(), wait_ms = shortest_wait_ms(result);

	if (findings->is_deferred) {
		origin_row_defer(row, wait_ms, result->reverify_ms);
		return;
	}
	row->verification_retry_count =
		result->failure ? row->verification_retry_count + 1 : 0;
	if (result->failure) {
		row->verification = VERIFICATION_FAILED;
		row->verification_due_at =
			now + int64_max(wait_ms,
					retry_random_delay_ms(
						(uint64_t)row->verification_retry_count,
						RETRY_CAP));
	} else {
		row->verification = VERIFICATION_SUCCEEDED;
		row->verified_at = now;
		row->verification_due_at = notice_next_verification(result->reverify_ms);
	}
	origin_row_set_failure(row, result->failure);
}

static int write_result(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	const struct result *result = arg;
	int found = origin_row_get(tx, KIND_REPOSITORY, result->name, &row, err);

	if (found <= 0)
		return found;
	if (!origin_row_end_claim(&row, result->claim_token))
		return 0; /* another reads it by now */
	/* Else it cannot be read by now, and says why: it stays due. */
	if (result->failure || row.checksum)
		put_result(&row, result);
	return origin_row_update(tx, &row, row.generation, err);
}

static int verify_origin_repository_record(const struct verify_batch *batch,
					   struct result *result, struct err *err)
{
	struct verify_origin *verify = batch->verify;

	result->name = batch->names[0];
	result->claim_token = batch->claim_token;
	lock(&verify->mutex);
	result->reverify_ms = verify->options.reverify_ms;
	result->timeout_ms = verify->options.timeout_ms;
	unlock(&verify->mutex);
	for (int tries = 1;; tries++) {
		if (store_write(verify->options.store, write_result, result, err) == 0)
			return 0;
		if (err->class != ERR_CONFLICT || tries == TRIES)
			return -1;
	}
}

/* Whether an error of its own files says something of it. One that cannot be read in time
 * is told of, too. */
static bool is_verdict(const struct err *err)
{
	return err_is_of_data(err) || err->class == ERR_TIMEOUT;
}

/* Its own objects are whole; what it borrows decides. */
static int take_unjudged(struct findings *findings, struct err *err)
{
	if (findings->unjudged.class == ERR_NONE)
		return 0;
	findings->is_deferred = true;
	*err = findings->unjudged;
	return -1;
}

static int verify_origin_repository_check(const struct verify_batch *batch,
					  struct findings *findings, struct err *err)
{
	struct err failure = { 0 };
	uint64_t failed_at = 0; /* generation */

	for (int looks = 0; looks < LOOKS; looks++) {
		AUTO_NOTICED struct noticed noticed = { 0 };
		if (notice_compare_claimed(batch->kind->notice, batch->names[0],
					   batch->claim_token, &noticed, err) != 0) {
			findings->is_deferred =
				noticed.why.class == ERR_NONE || !is_verdict(err);
			return -1;
		}
		if (noticed.row.generation == failed_at)
			break;
		if (check_objects(batch, &noticed, findings, err) == 0)
			return take_unjudged(findings, err);
		findings->is_deferred = !is_verdict(err);
		if (findings->is_deferred)
			return -1;
		failure = *err;
		failed_at = noticed.row.generation;
	}
	*err = failure;
	return -1;
}

static void report_failure(const struct err *failure, bool is_deferred, int64_t took_ms)
{
	if (failure->class == ERR_BUSY) /* others read or replace some of it */
		log_info("verify.deferred", LOG_ERR(failure));
	else if (is_deferred)
		log_warn("verify.deferred", LOG_NUMBER("dur_ms", took_ms),
			 LOG_ERR(failure), LOG_TEXT("remedy", failure->remedy));
	else if (failure->class != ERR_MISSING)
		log_error("verify.failed", LOG_NUMBER("dur_ms", took_ms),
			  LOG_ERR(failure), LOG_TEXT("remedy", failure->remedy));
}

static bool verify_origin_repository(const struct verify_batch *batch)
{
	int64_t started = clock_boot_ms();
	struct err failure, err;
	struct result result = { 0 };

	if (verify_origin_repository_check(batch, &result.findings, &failure) == 0) {
		log_debug("verify.done", LOG_NUMBER("dur_ms", clock_boot_ms() - started));
	} else if (failure.class == ERR_CANCELED) {
		return false;
	} else if (failure.class == ERR_CONFLICT) { /* it changes faster than is read */
		log_info("verify.deferred", LOG_ERR(&failure));
		return false;
	} else {
		report_failure(&failure, result.findings.is_deferred,
			       clock_boot_ms() - started);
		result.failure = &failure;
		if (!result.findings.is_deferred)
			verify_doubt_proved(batch->verify, batch->names[0]);
	}
	if (verify_origin_repository_record(batch, &result, &err) == 0)
		return true;
	log_warn("verify.not_recorded", LOG_ERR(&err));
	return false;
}

const struct verify_kind_ops repository_verify_ops = {
	.most = 1,
	.verify = verify_origin_repository,
};

struct asking {
	const char *kind, *name;
	int64_t at_least_ms;
};

static int verify_origin_ask_row(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	const struct asking *asking = arg;
	int64_t now = clock_wall_ms();
	int found = origin_row_get(tx, asking->kind, asking->name, &row, err);

	if (found == 0)
		return err_set(err, ERR_MISSING, "%s: there is no such %s", asking->name,
			       kind_noun(asking->kind));
	if (found < 0)
		return -1;
	if (row.verified_at <= now && now - row.verified_at < asking->at_least_ms)
		return err_set(err, ERR_BUSY, "%s was verified %" PRId64 " s ago",
			       asking->name, (now - row.verified_at) / 1000);
	if (row.verification != VERIFICATION_FAILED) /* until it is found whole */
		row.verification = VERIFICATION_PENDING;
	row.verification_due_at = now;
	return origin_row_update(tx, &row, row.generation, err);
}

int verify_origin_ask_kind(struct store *store, const char *kind, const char *name,
			   int64_t at_least_ms, struct err *err)
{
	struct asking asking = { kind, name, at_least_ms };

	return store_write(store, verify_origin_ask_row, &asking, err);
}
