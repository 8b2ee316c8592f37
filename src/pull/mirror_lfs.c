/*
 * A try: the absent objects, 100 at a time, each hundred by some threads with a
 * connection of their own. Small ones of a batch come into place together, with few
 * flushes and one transaction; a large one at once. What is absent afterwards is asked of
 * the database, not counted on the way: who uploaded, deleted or brought the same
 * meanwhile is seen.
 *
 * No lease is held: whoever puts an object puts the same bytes.
 */
#include "pull/mirror_lfs.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/retry.h"
#include "change/origin_kind.h"
#include "mirror/lfs_ask.h"
#include "mirror/lfs_lack.h"
#include "mirror/upstream.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"

#define LANES 4
#define SLICE_MS 60000
#define MARGIN_MS 5000 /* before the job's time is over; a tenth of it at most */
#define LATER "LFS objects are still to be copied"
#define SMALL_MOST ((uint64_t)4 << 20)
#define FAILURES_MOST 10               /* then the try has ended */
#define ID_SIZE (BLOB_DIGEST_SIZE + 6) /* "aa/bb/" and all digits */

/* One that arrived, and is not in its place. */
struct mirror_lfs_piece {
	char id[ID_SIZE];
	struct lfs_row row;
	struct blob_incoming *incoming; /* owned */
};
typedef VEC(struct mirror_lfs_piece) mirror_lfs_pieces;

struct mirror_lfs_run {
	struct pull_job *job;
	const struct mirror_lfs_parts *parts;
	const struct mirror *mirror;
	uint64_t repository;
	struct lfs_upstream upstream;
	char stamp[CREDENTIAL_STAMP_SIZE];
	char *header;  /* owned; secret */
	bool is_asked; /* by a person */
	int64_t until; /* boot ms: nothing more is begun */
	lfs_rows absent;
	int64_t counted;      /* so many were absent when they were counted last */
	struct lfs_lack lack; /* as it was, then as it is written */

	pthread_mutex_t mutex;          /* guards all below while lanes run */
	struct lfs_asker askers[LANES]; /* each its lane's */
	lfs_offers offers;
	int64_t offered_at; /* boot ms */
	size_t next;
	mirror_lfs_pieces pieces;
	size_t brought, failures;
	int64_t missing;
	uint64_t bytes;
	struct err why;  /* the first failure but those that are missing */
	bool is_cut;     /* it ended for want of time, or by a stop */
	bool has_ended;  /* nothing more is begun */
	bool is_unknown; /* what the history names could not be found out */
};

struct mirror_lfs_lane {
	struct mirror_lfs_run *run;
	struct lfs_asker *asker;
};

static const struct pull_options *mirror_lfs_options(const struct mirror_lfs_run *run)
{
	return &run->job->pull->options;
}

/* store_work; arg: struct mirror_lfs_run */
static int mirror_lfs_list(struct store_tx *tx, void *arg, struct err *err)
{
	struct mirror_lfs_run *run = arg;
	AUTO_LFS_SCAN struct lfs_scan scan = { 0 };

	vec_clear(&run->absent);
	if (lfs_scan_get(tx, run->repository, &scan, err) < 0)
		return -1;
	run->counted = scan.absent;
	return lfs_rows_absent(tx, LFS_ORIGIN, run->parts->kind->type, run->repository,
			       &run->absent, err);
}

/* Whether there is a file; under either id (blob/kinds.h). One that is not has the first.
 */
static bool mirror_lfs_is_there(const struct mirror_lfs_run *run, const char *oid,
				char id[ID_SIZE])
{
	AUTO_CLOSE int fd = -1;
	struct stat stat;

	blob_lfs_id(oid, id);
	if (blob_open(run->upstream.root, id, &fd, &stat, ERR_IGNORED) == 0)
		return true;
	snprintf(id, ID_SIZE, "%.2s/%.2s/%s", oid, oid + 2, oid);
	if (blob_open(run->upstream.root, id, &fd, &stat, ERR_IGNORED) == 0)
		return true;
	blob_lfs_id(oid, id);
	return false;
}

/*
 * What comes into place.
 */

static void mirror_lfs_fail_locked(struct mirror_lfs_run *run, const struct err *why)
{
	if (why->class == ERR_CANCELED) {
		run->is_cut = run->has_ended = true;
		return;
	}
	if (why->class == ERR_MISSING) {
		run->missing++;
		return;
	}
	if (run->why.class == ERR_NONE)
		run->why = *why;
	if (why->reason == REASON_TOO_LARGE) /* it alone will not do */
		return;
	run->failures++;
	run->has_ended |= why->class == ERR_DISK || why->reason == REASON_RATE_LIMITED ||
			  run->failures == FAILURES_MOST;
}

static void mirror_lfs_fail(struct mirror_lfs_run *run, const struct err *why)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&run->mutex);

	mirror_lfs_fail_locked(run, why);
}

/* Not of one object: the try has ended. */
static void mirror_lfs_end(struct mirror_lfs_run *run, const struct err *why)
{
	run->has_ended = true;
	if (why->class == ERR_CANCELED)
		run->is_cut = true;
	else if (run->why.class == ERR_NONE)
		run->why = *why;
}

static void mirror_lfs_count(struct mirror_lfs_run *run, const struct lfs_row *row)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&run->mutex);

	run->brought++;
	run->bytes += row->size;
}

/* They are on disk: rows and events. */
static void mirror_lfs_notice(struct mirror_lfs_run *run, const mirror_lfs_pieces *pieces,
			      const struct blob_arrival *arrivals)
{
	AUTO_FREE struct noticed *noticed = xcalloc(pieces->count, sizeof(*noticed));
	AUTO_FREE struct blob_known *known = xcalloc(pieces->count, sizeof(*known));
	size_t count = 0;
	struct err err;

	for (size_t i = 0; i < pieces->count; i++) {
		const struct mirror_lfs_piece *piece = &pieces->items[i];
		if (arrivals[i].failed) {
			mirror_lfs_fail(run, &arrivals[i].why);
			continue;
		}
		known[count].fingerprint = arrivals[i].fingerprint;
		memcpy(known[count].digest, piece->row.oid, BLOB_DIGEST_SIZE);
		noticed[count] =
			(struct noticed){ .name = piece->id, .known = &known[count] };
		mirror_lfs_count(run, &piece->row);
		count++;
	}
	if (count > 0 && notice_compare_these(run->parts->notice, run->parts->kind,
					      noticed, count, &err) != 0)
		mirror_lfs_fail(run, &err);
	for (size_t i = 0; i < count; i++)
		noticed_clear(&noticed[i]);
}

static void mirror_lfs_place(struct mirror_lfs_run *run, mirror_lfs_pieces *pieces)
{
	blob_arrivals arrivals = { 0 };
	struct err err;

	for (size_t i = 0; i < pieces->count; i++) {
		struct blob_arrival arrival = {
			.incoming = TAKE(pieces->items[i].incoming),
			.keeps_old = true, /* what is damaged; for who wants to see it */
		};
		vec_add(&arrivals, arrival);
	}
	failpoint("mirror_lfs.arrived");
	if (blob_arrivals_commit(run->upstream.root, &arrivals, &err) == 0) {
		failpoint("mirror_lfs.placed");
		mirror_lfs_notice(run, pieces, arrivals.items);
	} else {
		mirror_lfs_fail(run, &err);
	}
	vec_clear(&arrivals);
	pieces->count = 0;
}

/*
 * An object that came with more than maxSize is not begun again for a day unless somebody
 * asks, else each try would cut off all of these. Only what came counts: pointers may be
 * wrong, and a batch may repeat the size that it was asked with, as GitLab's does.
 */

#define TOO_LARGE_MS ((int64_t)24 * 3600 * 1000)
#define TOO_LARGE_MOST 100000

static char *mirror_lfs_size_key(const struct mirror_lfs_run *run, const char *oid)
{
	return xasprintf("%s %s %" PRIu64, oid, run->mirror->name, run->mirror->max_size);
}

static void mirror_lfs_note_size(struct mirror_lfs_run *run, const char *oid)
{
	AUTO_FREE char *key = mirror_lfs_size_key(run, oid);
	struct pull *pull = run->job->pull;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	if (pull->too_large.count < TOO_LARGE_MOST)
		map_put(&pull->too_large, key, pull);
}

static bool mirror_lfs_was_too_large(const struct mirror_lfs_run *run, const char *oid)
{
	AUTO_FREE char *key = mirror_lfs_size_key(run, oid);
	struct pull *pull = run->job->pull;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	const int64_t now = clock_boot_ms();

	if (now - pull->too_large_at >= TOO_LARGE_MS) {
		map_clear(&pull->too_large);
		pull->too_large_at = now;
	}
	return map_get(&pull->too_large, key) != NULL;
}

/*
 * A lane.
 */

static int mirror_lfs_refuse_offer(const struct lfs_offer *offer, struct err *err)
{
	const bool is_missing = offer->code == 404 || offer->code == 410;
	const bool is_auth = offer->code == 401 || offer->code == 403;

	err_set(err,
		is_missing ? ERR_MISSING
		: is_auth  ? ERR_AUTH
			   : ERR_NETWORK,
		"%s: its upstream says: %s (%d)", offer->row.oid, offer->message,
		offer->code);
	if (offer->code == 429 || offer->code == 509)
		err_because(err, REASON_RATE_LIMITED);
	return err_remedy(err, "see whether that object can be downloaded from its "
			       "upstream");
}

static void mirror_lfs_bring_one(struct mirror_lfs_lane *lane,
				 const struct lfs_offer *offer)
{
	struct mirror_lfs_run *run = lane->run;
	struct mirror_lfs_piece piece = { .row = offer->row };
	mirror_lfs_pieces alone = { 0 };
	struct err err;

	(void)mirror_lfs_is_there(run, offer->row.oid, piece.id);
	if ((offer->code ? mirror_lfs_refuse_offer(offer, &err)
			 : lfs_ask_object(lane->asker, offer, piece.id, &piece.incoming,
					  &err)) != 0) {
		if (err.reason == REASON_TOO_LARGE && err.class == ERR_CONFIG)
			mirror_lfs_note_size(run, offer->row.oid);
		mirror_lfs_fail(run, &err);
		return;
	}
	piece.row.size = blob_incoming_size(piece.incoming);
	if (piece.row.size > SMALL_MOST) {
		vec_add(&alone, piece);
		mirror_lfs_place(run, &alone);
		vec_clear(&alone);
		return;
	}
	AUTO_UNLOCK pthread_mutex_t *held = lock(&run->mutex);
	vec_add(&run->pieces, piece);
}

/* NULL: no more. One whose URL is good no longer is for the next try. */
static const struct lfs_offer *mirror_lfs_take(struct mirror_lfs_run *run)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&run->mutex);
	const int64_t now = clock_boot_ms();

	if (now >= run->until || stop_is_requested(&run->job->pull->stop))
		run->is_cut = run->has_ended = true;
	while (!run->has_ended && run->next < run->offers.count) {
		const struct lfs_offer *offer = &run->offers.items[run->next++];
		if (offer->lasts_ms == 0 || now < run->offered_at + offer->lasts_ms)
			return offer;
		run->is_cut = true;
	}
	return NULL;
}

static void *mirror_lfs_run_lane(void *arg)
{
	struct mirror_lfs_lane *lane = arg;
	const struct lfs_offer *offer;

	while ((offer = mirror_lfs_take(lane->run)) != NULL)
		mirror_lfs_bring_one(lane, offer);
	return NULL;
}

/* The caller's thread is one of them. */
static void mirror_lfs_run_lanes(struct mirror_lfs_run *run)
{
	struct mirror_lfs_lane lanes[LANES];
	pthread_t threads[LANES];
	size_t count = run->offers.count < LANES ? run->offers.count : LANES;

	for (size_t i = 0; i < count; i++)
		lanes[i] = (struct mirror_lfs_lane){ run, &run->askers[i] };
	for (size_t i = 1; i < count; i++)
		thread_start(&threads[i], "mirror-lfs", mirror_lfs_run_lane, &lanes[i]);
	if (count > 0)
		mirror_lfs_run_lane(&lanes[0]);
	for (size_t i = 1; i < count; i++)
		thread_join(threads[i]);
}

/*
 * A batch.
 */

/* Not what only has no row, or was put right since it was found damaged. */
static bool mirror_lfs_is_good(struct mirror_lfs_run *run, const char *id)
{
	AUTO_NOTICED struct noticed noticed = { .name = id };
	struct err err;

	if (notice_compare_this(run->parts->notice, run->parts->kind, &noticed, &err) !=
	    0) {
		mirror_lfs_fail(run, &err);
		return true;
	}
	return noticed.row.verification != VERIFICATION_FAILED;
}

static void mirror_lfs_choose(struct mirror_lfs_run *run, const struct lfs_row *rows,
			      size_t count, lfs_rows *wanted)
{
	for (size_t i = 0; i < count; i++) {
		char id[ID_SIZE];
		struct err err;
		if (!run->is_asked && mirror_lfs_was_too_large(run, rows[i].oid)) {
			lfs_ask_refuse_size(&run->upstream, rows[i].oid, &err);
			mirror_lfs_fail(run, &err);
			continue;
		}
		if (!mirror_lfs_is_there(run, rows[i].oid, id) ||
		    !mirror_lfs_is_good(run, id))
			vec_add(wanted, rows[i]);
	}
}

/* Refused for LFS it may do for refs, as when a quota is used up: its mark stands under
 * another name, which the caller frees. NULL: nothing is marked. */
static char *mirror_lfs_alias(const struct mirror_lfs_run *run, struct watcher *alias)
{
	const struct watcher *watcher = run->upstream.watcher;

	if (!watcher || !mirror_lfs_options(run)->marks)
		return NULL;
	*alias = *watcher;
	alias->name = xasprintf("%s (LFS)", watcher->name);
	return alias->name;
}

static void mirror_lfs_mark(const struct mirror_lfs_run *run, const struct err *why)
{
	struct watcher alias;
	AUTO_FREE char *name = mirror_lfs_alias(run, &alias);

	if (name)
		credential_mark(mirror_lfs_options(run)->marks, run->mirror, &alias,
				run->stamp, why);
}

static bool mirror_lfs_is_refused(const struct mirror_lfs_run *run, struct err *err)
{
	struct watcher alias;
	AUTO_FREE char *name = mirror_lfs_alias(run, &alias);

	return name && credential_is_refused(mirror_lfs_options(run)->marks, run->mirror,
					     &alias, err);
}

static void mirror_lfs_run_batch(struct mirror_lfs_run *run, const struct lfs_row *rows,
				 size_t count)
{
	lfs_rows wanted = { 0 };
	struct err err;

	mirror_lfs_choose(run, rows, count, &wanted);
	run->offered_at = clock_boot_ms();
	run->next = 0;
	if (wanted.count > 0 && lfs_ask_batch(&run->askers[0], wanted.items, wanted.count,
					      &run->offers, &err) != 0) {
		if (err.class == ERR_AUTH)
			mirror_lfs_mark(run, &err);
		mirror_lfs_end(run, &err);
	} else if (wanted.count > 0) {
		mirror_lfs_mark(run, NULL);
		mirror_lfs_run_lanes(run);
		mirror_lfs_place(run, &run->pieces);
	}
	lfs_offers_clear(&run->offers);
	vec_clear(&wanted);
}

/* From elsewhere after each try that failed: objects that always fail keep no others
 * back. */
static void mirror_lfs_run_batches(struct mirror_lfs_run *run)
{
	const size_t batches =
		(run->absent.count + LFS_OFFER_BATCH - 1) / LFS_OFFER_BATCH;
	const size_t first = (size_t)run->lack.attempts % batches;

	for (size_t i = 0; !run->has_ended && i < batches; i++) {
		size_t at = (first + i) % batches * LFS_OFFER_BATCH;
		size_t left = run->absent.count - at;
		mirror_lfs_run_batch(run, run->absent.items + at,
				     left < LFS_OFFER_BATCH ? left : LFS_OFFER_BATCH);
		if (!run->has_ended && i + 1 < batches && clock_boot_ms() >= run->until)
			run->is_cut = run->has_ended = true;
	}
}

/*
 * A try.
 */

static int mirror_lfs_open(struct mirror_lfs_run *run, struct err *err)
{
	const struct origin_kind origin = { .of = *run->parts->kind };
	const struct mirror *mirror = run->mirror;

	if (!run->is_asked && mirror_lfs_is_refused(run, err))
		return -1;
	run->upstream.root = run->parts->kind->origin->open_root(&origin, err);
	if (run->upstream.root < 0)
		return -1;
	if (mirror->uri.kind == URL_LOCAL) {
		run->upstream.local = lfs_upstream_open_path(mirror->uri.path, err);
		return run->upstream.local < 0 ? -1 : 0;
	}
	credential_take_stamp(mirror, run->upstream.watcher, run->stamp);
	if (upstream_make_header(run->upstream.watcher, &run->header, err) != 0)
		return -1;
	run->upstream.header = run->header;
	return 0;
}

static void mirror_lfs_close(struct mirror_lfs_run *run)
{
	for (size_t i = 0; i < LANES; i++)
		http_line_close(&run->askers[i].line);
	text_wipe(run->header);
	if (run->upstream.root >= 0)
		close(run->upstream.root);
	if (run->upstream.local >= 0)
		close(run->upstream.local);
	vec_clear(&run->pieces);
	vec_clear(&run->absent);
	lfs_lack_clear(&run->lack);
	pthread_mutex_destroy(&run->mutex);
}

static int64_t mirror_lfs_rest_ms(const struct mirror_lfs_run *run)
{
	int64_t rest_ms = 0;

	for (size_t i = 0; i < LANES; i++)
		if (run->askers[i].rest_ms > rest_ms)
			rest_ms = run->askers[i].rest_ms;
	return rest_ms;
}

static void mirror_lfs_judge_failure(struct mirror_lfs_run *run, struct err *err)
{
	struct lfs_lack *lack = &run->lack;
	int64_t wait_ms, rest_ms = mirror_lfs_rest_ms(run);

	if (run->why.class == ERR_NONE && run->missing > 0) {
		err_set(&run->why, ERR_MISSING, "its upstream does not have %" PRId64,
			run->missing);
		err_remedy(&run->why, "who has them pushes them there: git lfs push "
				      "--all");
	} else if (run->why.class == ERR_NONE) {
		err_set(&run->why, ERR_TIMEOUT, "they did not come in time");
		err_remedy(&run->why, "it goes on by itself");
	}
	*err = run->why;
	if (!run->is_unknown)
		err_prefix(err,
			   "%" PRId64 " LFS object%s that its history names %s not here",
			   lack->absent, lack->absent == 1 ? "" : "s",
			   lack->absent == 1 ? "is" : "are");
	lack->attempts = run->brought > 0 ? 1 : lack->attempts + 1;
	wait_ms = retry_random_delay_ms((uint64_t)lack->attempts, RETRY_CAP);
	lack->next_at = clock_wall_ms() + (rest_ms > wait_ms ? rest_ms : wait_ms);
	lfs_lack_set_failure(lack, err);
	log_warn("mirror.lfs_lacking", LOG_ERR(err), LOG_NUMBER("absent", lack->absent),
		 LOG_NUMBER("missing", lack->missing),
		 LOG_NUMBER("wait_ms", lack->next_at - clock_wall_ms()));
}

/* As it is now, whoever did it. */
static int mirror_lfs_judge(struct mirror_lfs_run *run, struct err *err)
{
	struct store *store = mirror_lfs_options(run)->store;
	struct lfs_lack *lack = &run->lack;
	const int64_t attempts = lack->attempts;
	struct err why = { 0 };
	bool is_lacking;

	if (store_read(store, mirror_lfs_list, run, err) != 0)
		return -1;
	is_lacking = run->absent.count > 0 || run->is_unknown;
	lfs_lack_clear(lack);
	*lack = (struct lfs_lack){ .next_at = -1,
				   .absent = (int64_t)run->absent.count,
				   .missing = run->missing };
	lfs_lack_mark(&run->absent, lack->left_over);
	if (is_lacking && run->is_cut && run->why.class == ERR_NONE &&
	    (run->brought > 0 || stop_is_requested(&run->job->pull->stop))) {
		lack->next_at = clock_wall_ms();
		err_set(&why, ERR_CANCELED, LATER);
	} else if (is_lacking) {
		lack->attempts = attempts;
		mirror_lfs_judge_failure(run, &why);
	}
	if (lfs_lack_put(store, run->mirror->name, run->repository, lack, err) != 0)
		return -1;
	*err = why;
	return is_lacking ? -1 : 0;
}

static void mirror_lfs_tell(struct mirror_lfs_run *run)
{
	struct pull_item *item = &run->job->items[0];

	for (size_t i = 0; i < LANES; i++)
		item->bytes += run->askers[i].bytes;
	run->job->bytes = item->bytes;
	if (run->brought > 0)
		log_info("mirror.lfs_brought", LOG_NUMBER("bytes", run->bytes),
			 LOG_NUMBER("brought", run->brought),
			 LOG_NUMBER("absent", run->lack.absent));
}

static int mirror_lfs_try(struct mirror_lfs_run *run, struct err *err)
{
	if (mirror_lfs_open(run, err) == 0)
		mirror_lfs_run_batches(run);
	else
		mirror_lfs_end(run, err);
	int result = mirror_lfs_judge(run, err);
	mirror_lfs_tell(run);
	return result;
}

/* Whether there is nothing to do now. */
static bool mirror_lfs_may_rest(struct mirror_lfs_run *run)
{
	char mark[sizeof(run->lack.left_over)];

	lfs_lack_mark(&run->absent, mark);
	return run->absent.count > 0 && !run->is_asked && run->lack.message &&
	       strcmp(mark, run->lack.left_over) == 0 &&
	       run->lack.next_at > clock_wall_ms();
}

static int mirror_lfs_look(struct mirror_lfs_run *run, struct err *err)
{
	struct store *store = mirror_lfs_options(run)->store;
	const char *name = run->mirror->name;

	if (lfs_names_look(run->parts->names, name, run->upstream.until, err) != 0 ||
	    store_read(store, mirror_lfs_list, run, err) != 0)
		return err_prefix(err, "what LFS objects its history names");
	return 0;
}

/* The refs took all of the job's time: the next job is for it. */
static int mirror_lfs_put_off(struct mirror_lfs_run *run, struct err *err)
{
	run->lack.next_at = clock_wall_ms();
	if (lfs_lack_put(mirror_lfs_options(run)->store, run->mirror->name,
			 run->repository, &run->lack, err) != 0)
		return -1;
	return err_set(err, ERR_CANCELED, LATER);
}

static int mirror_lfs_run_all(struct mirror_lfs_run *run, struct err *err)
{
	struct store *store = mirror_lfs_options(run)->store;
	int found = lfs_lack_get(store, run->mirror->name, &run->lack, err);

	if (found < 0)
		return -1;
	if (clock_boot_ms() >= run->until)
		return mirror_lfs_put_off(run, err);
	if (mirror_lfs_look(run, err) != 0) {
		run->is_unknown = true;
		mirror_lfs_end(run, err);
		return mirror_lfs_judge(run, err);
	}
	if (run->absent.count == 0)
		return run->lack.next_at < 0 && run->counted == 0 && found > 0
			       ? 0
			       : mirror_lfs_judge(run, err);
	return mirror_lfs_may_rest(run) ? 0 : mirror_lfs_try(run, err);
}

int mirror_lfs_bring(struct pull_job *job, const struct watcher *watcher, bool is_asked,
		     struct err *err)
{
	const struct pull_options *options = &job->pull->options;
	const char *name = job->items[0].row->name;
	const struct mirror *mirror = mirrors_find(options->mirrors, name);
	const int64_t tenth = (job->until - job->claimed_at) / 10;
	const int64_t until = job->until - (tenth < MARGIN_MS ? tenth : MARGIN_MS);
	struct mirror_lfs_run run = {
		.job = job,
		.parts = options->lfs,
		.mirror = mirror,
		.repository = replicable_id(KIND_REPOSITORY, name),
		.is_asked = is_asked,
		.upstream = { .mirror = mirror,
			      .watcher = watcher,
			      .local = -1,
			      .root = -1,
			      .stop = &job->pull->stop,
			      .until = until },
		.until = until,
	};

	if (!options->lfs || !mirror || !mirror->has_lfs)
		return 0;
	run.upstream.type = options->lfs->kind->type;
	if (!is_asked && clock_boot_ms() + SLICE_MS < run.until)
		run.until = clock_boot_ms() + SLICE_MS;
	failpoint("mirror.lfs_begins");
	mutex_init(&run.mutex);
	for (size_t i = 0; i < LANES; i++)
		run.askers[i] = (struct lfs_asker){ .upstream = &run.upstream,
						    .line = http_line_open() };
	int result = mirror_lfs_run_all(&run, err);
	mirror_lfs_close(&run);
	return result;
}
