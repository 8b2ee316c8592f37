/*
 * Small blobs, all in one request. When the connection breaks, what came whole is kept,
 * and the rest is asked for again. A blob that cannot be written fails by itself: its
 * bytes are read and forgotten, because the next one stands behind them.
 */
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "pull/blob_work.h"
#include "pull/decisions.h"
#include "pull/primary.h"

/*
 * What arrived gets its place: all of a job's blobs with as few flushes as one needs. A
 * worker that was paused for long finds its lease or its rows gone, and places nothing.
 * Small ones are then read again from the disk at once, and so are proved; large ones
 * are verified later, when their pages have left memory, or in one run at once, too.
 */

/* Whether the rows are still as this worker claimed them. */
static int check_claims(struct store_tx *tx, void *arg, struct err *err)
{
	struct blob_work *work = arg;
	struct pull_item *item;

	for (size_t at = 0; (item = pull_job_next(work->job, &at, PULL_ARRIVED));) {
		AUTO_REGISTRY_ROW struct registry_row row = { 0 };
		struct err lost;
		int found =
			registry_get_in(tx, work->kind->type, item->row->name, &row, err);
		if (found < 0)
			return -1;
		if (found > 0 && row.state == REGISTRY_STARTED &&
		    strcmp(row.claim_token, item->row->claim_token) == 0)
			continue;
		err_set(&lost, ERR_LOST, "the row of %s is no longer this worker's",
			item->row->name);
		pull_item_fail(item, &lost);
	}
	return 0;
}

static void check_leases(struct blob_work *work)
{
	struct pull_item *item;
	struct err err;

	if (work->kind->layout == BLOB_LFS || work->job->pull->options.once)
		return; /* nobody else can have it */
	if (store_read(work->job->pull->options.store, check_claims, work, &err) != 0)
		pull_job_fail_here(work->job, PULL_ARRIVED, &err);
	for (size_t at = 0; (item = pull_job_next(work->job, &at, PULL_ARRIVED));)
		if (blob_of(item)->lease && lease_check(blob_of(item)->lease, &err) != 0)
			pull_item_fail(item, &err);
}

/* Of `placed`, which are the arrived ones in their order. */
static void take_results(struct pull_item **placed, const blob_arrivals *arrivals)
{
	for (size_t i = 0; i < arrivals->count; i++) {
		if (arrivals->items[i].failed)
			pull_item_fail_here(placed[i], &arrivals->items[i].why);
		else {
			placed[i]->end = placed[i]->row->generation > 0 ? PULL_UPDATED
									: PULL_CREATED;
			placed[i]->bytes = placed[i]->size;
			blob_of(placed[i])->fingerprint = arrivals->items[i].fingerprint;
		}
	}
}

/* What is there was never brought: somebody else's, and perhaps newer, as where this site
 * was the primary. Or it was brought of another history: the primary is another one, or
 * was restored, and may have less than this site; so its row says, or what came. One that
 * was deleted and created anew counts the same: what is deleted goes to the trash in any
 * case. Not what is the same, as most is after a promotion: an object by its id, and
 * what came with the content that was proved here last. */
static bool is_to_be_kept(const struct blob_work *work, const struct pull_item *item)
{
	const struct registry_row *row = item->row;

	if (work->kind->layout == BLOB_LFS || work->job->pull->options.once)
		return false;
	if (row->last_success_at == 0)
		return true;
	if (row->checksum && strcmp(row->checksum, blob_of(item)->digest) == 0)
		return false;
	return row->generation == 0 || item->generation < row->generation ||
	       strcmp(item->timeline, row->timeline) != 0;
}

static void blob_settle_place_arrived(struct blob_work *work)
{
	struct pull_item **placed =
		xcalloc(work->job->rows.count, sizeof(struct pull_item *));
	blob_arrivals arrivals = { 0 };
	struct pull_item *item;
	struct err err;

	for (size_t at = 0; (item = pull_job_next(work->job, &at, PULL_ARRIVED));) {
		placed[arrivals.count] = item;
		vec_add(&arrivals, ((struct blob_arrival){
					   .incoming = TAKE(blob_of(item)->incoming),
					   .keeps_old = is_to_be_kept(work, item) }));
	}
	if (arrivals.count > 0) {
		failpoint("blob.received");
		if (blob_arrivals_commit(work->root, &arrivals, &err) == 0)
			take_results(placed, &arrivals);
		else
			pull_job_fail_here(work->job, PULL_ARRIVED, &err);
	}
	vec_clear(&arrivals);
	free(placed);
}

static int blob_settle_read_again(const struct blob_work *work,
				  const struct pull_item *item, struct err *err)
{
	char digest[BLOB_DIGEST_SIZE];
	struct blob_fingerprint fingerprint;
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (blob_open(work->root, item->row->name, &fd, &st, err) != 0 ||
	    blob_digest(fd, &fingerprint, digest, &work->job->pull->kill, err) != 0)
		return -1;
	if (strcmp(digest, blob_of(item)->digest) == 0)
		return 0;
	err_set(err, ERR_CORRUPT, "%s: what is on the disk is not what was written",
		item->row->name);
	return err_remedy(err,
			  "see whether this machine's disk fails, or who else writes "
			  "there");
}

static void prove_small(struct blob_work *work)
{
	for (size_t i = 0; i < work->job->rows.count; i++) {
		struct pull_item *item = &work->job->items[i];
		struct err err;
		if (!pull_item_is_placed(item) || !item->checksum[0] ||
		    (blob_of(item)->is_large && !work->job->pull->options.once))
			continue;
		item->is_proved = blob_settle_read_again(work, item, &err) == 0;
		/* Who is interrupted here verifies it later; in one run there is no
		 * later, and what was not read again has not arrived. */
		if (!item->is_proved &&
		    (err.class != ERR_CANCELED || work->job->pull->options.once))
			pull_item_fail_here(item, &err);
	}
}

void blob_settle(struct blob_work *work)
{
	check_leases(work);
	blob_settle_place_arrived(work);
	prove_small(work);
}

/*
 * How a job on blobs ended: one line of the log for all.
 */

/* A person removed its row before it was put in place: what nobody wants is taken away
 * again. */
static void discard_unwanted(const struct blob_work *work, const struct pull_item *item)
{
	struct err err;

	if (blob_discard(work->root, item->row->name, &err) != 0 &&
	    err.class != ERR_MISSING)
		log_error("blob.not_removed", LOG_ERR(&err),
			  LOG_TEXT("kind", work->kind->type),
			  LOG_TEXT("name", item->row->name));
}

/* The worker was paused between its last look at the row and the rename, and its time
 * passed: what it put there may be older than what another brought by then. Whoever has
 * the row now looks once more. */
static void doubt_late(const struct blob_work *work, const struct pull_item *item)
{
	struct err why;

	err_set(&why, ERR_LOST, "a worker put its file in place after its time was over");
	pull_doubt(work->job->pull, work->kind->type, item->row->name, &why);
}

static void look_after_recording(const struct blob_work *work)
{
	for (size_t i = 0; i < work->job->rows.count; i++) {
		const struct pull_item *item = &work->job->items[i];
		bool is_placed = pull_item_is_placed(item);
		if (!item->is_recorded)
			continue;
		if (item->result == REGISTRY_NO_ROW && is_placed)
			discard_unwanted(work, item);
		if (item->result == REGISTRY_LOST && is_placed &&
		    work->kind->layout != BLOB_LFS)
			doubt_late(work, item);
		if (item->result == REGISTRY_MOVED &&
		    (is_placed || item->end == PULL_UNCHANGED))
			blob_look_again(work->job->pull, work->kind, work->root,
					item->row->name, &blob_of(item)->fingerprint);
	}
}

/* Many fail for one reason: it is told once, by an example. */
static void report_blob_failures(const struct blob_work *work)
{
	const struct pull_item *item, *example = NULL;
	size_t failed = 0;

	for (size_t at = 0; (item = pull_job_next(work->job, &at, PULL_FAILED));) {
		if (err_is_deferral(item->why.class))
			continue;
		failed++;
		if (!example || !err_is_transient(item->why.class))
			example = item;
	}
	if (failed > 0)
		log_at(err_is_transient(example->why.class) ? LOG_LEVEL_WARN
							    : LOG_LEVEL_ERROR,
		       "blob.failed", LOG_TEXT("kind", work->kind->type),
		       LOG_NUMBER("failed", failed), LOG_TEXT("name", example->row->name),
		       LOG_ERR(&example->why));
}

void blob_report_ended(const struct blob_work *work)
{
	const struct pull_job *job = work->job;
	size_t placed =
		pull_job_count(job, PULL_CREATED) + pull_job_count(job, PULL_UPDATED);
	size_t adopted = pull_job_count(job, PULL_UNCHANGED);

	look_after_recording(work);
	failpoint("blob.recorded");
	if (placed + adopted > 0)
		log_info("blob.done", LOG_NUMBER("dur_ms", job->took_ms),
			 LOG_NUMBER("bytes", job->bytes),
			 LOG_TEXT("kind", work->kind->type), LOG_NUMBER("count", placed),
			 LOG_NUMBER("unchanged", adopted));
	report_blob_failures(work);
}

/*
 * A large blob, in ranges over one connection. Each range names the version that the
 * first one was of (If-Match), so that what is put together is of one version; what an
 * earlier try left of that very version is continued.
 */

#define RANGE ((uint64_t)64 << 20)
/* Changed at the primary while it was brought: begun anew so often. */
#define VERSIONS_MOST 3
#define VERSION_SIZE 48

struct large {
	struct blob_work *work;
	struct pull_item *item;
	char version[VERSION_SIZE]; /* "": not known yet */
	bool is_to_resume;          /* more is here than the request knew */
	unsigned breaks, versions;
};

static void set_version(struct large *large, const char *timeline, uint64_t generation)
{
	snprintf(large->version, sizeof(large->version), "%s-%" PRIu64, timeline,
		 generation);
}

/* Of a source that tells no checksum what is here would be believed: a part of which the
 * disk lost some begins anew. */
static int blob_large_open_incoming(struct large *large, uint64_t size, struct err *err)
{
	const bool can_resume = blob_work_can_check(large->work);
	const struct blob_incoming_request request = {
		.root = large->work->root,
		.type = large->work->kind->type,
		.id = large->item->row->name,
		.size = size > 0 ? size : UINT64_MAX,
		.resume = can_resume ? large->version : NULL
	};

	return blob_incoming_open(&request, &blob_of(large->item)->incoming, err);
}

static uint64_t here(const struct large *large)
{
	return blob_of(large->item)->incoming
		       ? blob_incoming_size(blob_of(large->item)->incoming)
		       : 0;
}

static void blob_large_keep_head(struct pull_item *item, const struct blob_head *head)
{
	memcpy(item->timeline, head->timeline, sizeof(item->timeline));
	memcpy(item->checksum, head->checksum, sizeof(head->checksum));
	item->generation = head->generation;
	item->size = head->size;
}

/* The version is known only now; perhaps a part of it is here. */
static int blob_large_begin_version(struct large *large, const struct blob_head *head,
				    struct err *err)
{
	char before[VERSION_SIZE];

	blob_large_keep_head(large->item, head);
	memcpy(before, large->version, sizeof(before));
	set_version(large, head->timeline, head->generation);
	/* Who is in between may not know the condition. */
	if (before[0] && strcmp(before, large->version) != 0)
		return err_set(err, ERR_CONFLICT, "%s: another version came",
			       large->item->row->name);
	if (blob_item_check_size(large->item, err) != 0)
		return -1;
	if (blob_of(large->item)->incoming)
		return 0;
	if (blob_large_open_incoming(large, head->size, err) != 0)
		return -1;
	large->is_to_resume = here(large) > head->offset;
	if (large->is_to_resume)
		return err_set(err, ERR_CANCELED, "a part of it is here");
	return 0;
}

/* What this machine lacks is never taken for missing at the primary. */
static int not_missing(struct err *err)
{
	if (err->class == ERR_MISSING)
		err->class = ERR_DISK;
	return -1;
}

static int blob_large_take_bytes(void *arg, const struct blob_head *head,
				 const void *bytes, size_t len, struct err *err)
{
	struct large *large = arg;

	if (!large->item->timeline[0] && blob_large_begin_version(large, head, err) != 0)
		return not_missing(err);
	if (here(large) + len > head->size)
		return wire_lied(err, "%s is longer than it says",
				 large->item->row->name);
	if (blob_incoming_write(blob_of(large->item)->incoming, bytes, len, err) != 0)
		return not_missing(err);
	blob_work_count(large->work, len);
	return 0;
}

static int blob_large_ask_range(struct large *large, struct err *err)
{
	const struct blob_part part = { .type = large->work->kind->type,
					.id = large->item->row->name,
					.offset = here(large),
					.length = RANGE,
					.version =
						large->version[0] ? large->version : NULL,
					.stall_ms = BLOB_STALL_MS };
	const struct blob_part_sink sink = { blob_large_take_bytes, large };
	int64_t left_ms;

	large->item->timeline[0] = '\0'; /* the head of this answer counts */
	if (blob_work_time(large->work, &left_ms, err) != 0)
		return -1;
	return source_read_blob(large->work->job->pull->source, &part, left_ms, &sink,
				err);
}

/* It is another version by now: what is here is of no use. */
static void blob_large_begin_anew(struct large *large)
{
	blob_incoming_close(TAKE(blob_of(large->item)->incoming), true);
	large->version[0] = '\0';
	large->versions++;
}

/* Whether to ask again after an error. */
static bool blob_large_may_continue(struct large *large, uint64_t before,
				    const struct err *err)
{
	if (large->is_to_resume) {
		large->is_to_resume = false;
		return true;
	}
	if (err->class == ERR_CONFLICT && large->versions < VERSIONS_MOST) {
		blob_large_begin_anew(large);
		return true;
	}
	if ((err->class != ERR_NETWORK && err->class != ERR_TIMEOUT) ||
	    here(large) <= before || ++large->breaks >= BLOB_BREAKS_MOST)
		return false;
	log_info("blob.resumed", LOG_TEXT("name", large->item->row->name),
		 LOG_NUMBER("bytes", here(large)), LOG_ERR(err));
	return true;
}

static bool is_whole(const struct large *large)
{
	return large->item->timeline[0] && blob_of(large->item)->incoming &&
	       here(large) == large->item->size;
}

static int blob_large_fetch_ranges(struct large *large, struct err *err)
{
	while (!is_whole(large)) {
		const uint64_t before = here(large);
		int result = blob_large_ask_range(large, err);
		if (result == 0 && here(large) <= before && !is_whole(large))
			return wire_lied(err, "it sends nothing of %s",
					 large->item->row->name);
		if (result != 0 && !blob_large_may_continue(large, before, err))
			return -1;
	}
	return 0;
}

/* Of the row's version, if that is known: then a part may be here, or all of it, which is
 * judged by what the row says. */
static int blob_large_resume_version(struct large *large, struct err *err)
{
	const struct registry_row *row = large->item->row;
	struct pull_item *item = large->item;

	if (!row->timeline[0] || row->generation_wanted == 0 || row->size == 0)
		return 0;
	set_version(large, row->timeline, row->generation_wanted);
	if (blob_large_open_incoming(large, row->size, err) != 0)
		return -1;
	if (here(large) > row->size) {
		blob_large_begin_anew(large);
	} else if (here(large) == row->size) {
		memcpy(item->timeline, row->timeline, sizeof(item->timeline));
		item->generation = row->generation_wanted;
		item->size = row->size;
		blob_item_expect(large->work, item, item->checksum);
	}
	return 0;
}

void blob_fetch_large(struct blob_work *work, struct pull_item *item)
{
	struct large large = { .work = work, .item = item };
	struct err err;

	if (blob_large_resume_version(&large, &err) != 0) {
		pull_item_fail_here(item, &err);
		return;
	}
	if (blob_large_fetch_ranges(&large, &err) != 0) {
		/* Who does not know ranges can send all of it, if it is begun anew. */
		if (err.class == ERR_CORRUPT)
			blob_incoming_close(TAKE(blob_of(item)->incoming), true);
		pull_item_fail(item, &err);
		return;
	}
	blob_item_judge(work, item);
}

struct fetch {
	struct blob_work *work;
	struct pull_item **asked; /* in the order of the answer */
	const char **ids;
	size_t count, next;
	struct pull_item *now; /* NULL: its bytes are forgotten */
};

static int blob_fetch_open_incoming(const struct blob_work *work, struct pull_item *item)
{
	struct err err;

	if (blob_incoming_open(&(struct blob_incoming_request){ .root = work->root,
								.type = work->kind->type,
								.id = item->row->name,
								.size = item->size },
			       &blob_of(item)->incoming, &err) == 0)
		return 0;
	return pull_item_fail_here(item, &err);
}

/* NULL: it is not this one's turn. */
static struct pull_item *blob_fetch_next(struct fetch *fetch, const char *id,
					 struct err *err)
{
	fetch->now = NULL;
	if (fetch->next < fetch->count && strcmp(id, fetch->ids[fetch->next]) == 0)
		return fetch->asked[fetch->next++];
	wire_lied(err, "%s is not the blob whose turn it is", id);
	return NULL;
}

static int blob_fetch_refuse(void *arg, const char *id, const struct err *why,
			     struct err *err)
{
	struct pull_item *item = blob_fetch_next(arg, id, err);

	if (!item)
		return -1;
	if (why)
		pull_item_fail(item, why);
	else
		blob_of(item)->is_large = true;
	return 0;
}

/* What the primary says of one blob in place of its bytes. */
static int blob_fetch_refuse_frame(void *arg, const struct wire_frame *frame,
				   struct err *err)
{
	struct err why;

	if (strcmp(frame->code, WIRE_TOO_LARGE) == 0)
		return blob_fetch_refuse(arg, frame->name, NULL, err);
	err_set(&why, wire_frame_class(frame->code), "the primary: %s",
		frame->message ? frame->message : frame->code);
	return blob_fetch_refuse(arg, frame->name, &why, err);
}

static int blob_fetch_begin_blob(void *arg, const struct wire_frame *frame,
				 struct err *err)
{
	struct fetch *fetch = arg;
	struct pull_item *item;

	if (frame->code)
		return blob_fetch_refuse_frame(fetch, frame, err);
	item = blob_fetch_next(fetch, frame->name, err);
	if (!item)
		return -1;
	if (frame->size > BLOB_SMALL_MOST)
		return wire_lied(err,
				 "%s has %" PRIu64 " bytes in an answer of small "
				 "ones",
				 frame->name, frame->size);
	memcpy(item->timeline, frame->timeline, sizeof(item->timeline));
	memcpy(item->checksum, frame->checksum, sizeof(frame->checksum));
	item->generation = frame->generation;
	item->size = frame->size;
	struct err why;
	if (blob_item_check_size(item, &why) != 0)
		pull_item_fail(item, &why);
	else if (blob_fetch_open_incoming(fetch->work, item) == 0)
		fetch->now = item;
	return 0;
}

static int take_bytes(void *arg, const void *bytes, size_t len, struct err *err)
{
	struct fetch *fetch = arg;
	struct err why;

	(void)err;
	if (fetch->now &&
	    blob_incoming_write(blob_of(fetch->now)->incoming, bytes, len, &why) != 0) {
		pull_item_fail_here(fetch->now, &why);
		fetch->now = NULL;
	}
	return 0;
}

static int blob_fetch_end_blob(void *arg, struct err *err)
{
	struct fetch *fetch = arg;

	(void)err;
	if (!fetch->now)
		return 0;
	blob_work_count(fetch->work, fetch->now->size);
	blob_item_judge(fetch->work, fetch->now);
	fetch->now = NULL;
	return 0;
}

static void list_open(struct fetch *fetch)
{
	struct blob_work *work = fetch->work;
	struct pull_item *item;

	fetch->count = fetch->next = 0;
	for (size_t at = 0; (item = pull_job_next(work->job, &at, PULL_OPEN));) {
		if (blob_of(item)->is_large || fetch->count == WIRE_FRAMES_MOST)
			continue;
		fetch->asked[fetch->count] = item;
		fetch->ids[fetch->count++] = item->row->name;
	}
}

static int blob_fetch_ask_primary(struct fetch *fetch, struct err *err)
{
	const struct blob_many many = { .type = fetch->work->kind->type,
					.ids = fetch->ids,
					.count = fetch->count,
					.stall_ms = BLOB_STALL_MS };
	const struct source_blobs_sink sink = { { blob_fetch_begin_blob, take_bytes,
						  blob_fetch_end_blob, fetch },
						blob_fetch_refuse };
	int64_t left_ms;
	int result;

	fetch->now = NULL;
	if (blob_work_time(fetch->work, &left_ms, err) != 0)
		return -1;
	result = source_read_blobs(fetch->work->job->pull->source, &many, left_ms, &sink,
				   err);
	if (fetch->now) /* half of it */
		blob_incoming_close(TAKE(blob_of(fetch->now)->incoming), true);
	if (result == 0 && fetch->next < fetch->count)
		return wire_lied(err, "it says nothing of %s", fetch->ids[fetch->next]);
	return result;
}

static void fail_rest(struct fetch *fetch, const struct err *why)
{
	list_open(fetch);
	for (size_t i = 0; i < fetch->count; i++)
		pull_item_fail(fetch->asked[i], why);
}

/* Only its own word about one blob makes that one missing. */
static bool is_worth_another(struct err *err, size_t before, size_t now, unsigned *breaks)
{
	if (err->class == ERR_MISSING)
		err->class = ERR_CONFLICT;
	return (err->class == ERR_NETWORK || err->class == ERR_TIMEOUT) && now < before &&
	       ++*breaks < BLOB_BREAKS_MOST;
}

static void blob_fetch_all(struct fetch *fetch)
{
	unsigned breaks = 0;
	struct err err;

	for (list_open(fetch); fetch->count > 0;) {
		const size_t before = fetch->count;
		int result = blob_fetch_ask_primary(fetch, &err);
		list_open(fetch);
		if (result != 0 &&
		    !is_worth_another(&err, before, fetch->count, &breaks)) {
			fail_rest(fetch, &err);
			return;
		}
	}
}

void blob_fetch_small(struct blob_work *work)
{
	struct fetch fetch = { .work = work };

	fetch.asked = xcalloc(work->job->rows.count, sizeof(*fetch.asked));
	fetch.ids = xcalloc(work->job->rows.count, sizeof(*fetch.ids));
	blob_fetch_all(&fetch);
	free(fetch.asked);
	free(fetch.ids);
}
