/*
 * A job on some rows of a kind of blobs, which are this worker's until their time is
 * over. Each blob ends by itself: what fails stops no other.
 *
 * What is newer is never replaced by what is older for long. While its claim holds, a
 * blob is one worker's, in whatever process or node; the claim's token is in the row, and
 * is looked at again when all has arrived (blob_fetch.c), so a worker whose time was over
 * places nothing. One that is paused for so long just between that look and the rename
 * has its last word refused, and then the row is doubted: the copy is read, and brought
 * again. Should it not live to say that, the file is another than the one that the row
 * is of, which blob_copy_watch.c finds.
 *
 * A command of a person (`blob remove`) is another process. It and we exclude each other
 * by a large blob's lease; small ones come by the thousand, and a lease would cost more
 * than they do. Of these one may be put in place just after its row was removed: then it
 * goes the same way (blob_fetch.c). An immutable one needs no lease either: whoever puts
 * it there puts the same bytes. A mutable one is only renamed into place while its row's
 * claim holds, and its lease, if it has one (blob_fetch.c).
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/flush.h"
#include "base/log.h"
#include "blob/incoming.h"
#include "blob/place.h"
#include "pull/blob_work.h"
#include "pull/decisions.h"
#include "pull/glance.h"
#include "pull/leftovers.h"
#include "pull/primary.h"
#include "replicable/name.h"
#include "upkeep/removal.h"

/*
 * A file, a link or a directory where something else must be: left by a damaged file
 * system, or by somebody who should write elsewhere. What has a row, or is a directory
 * with such, goes only in its turn, as the primary says.
 */

enum { OPEN_FOLDER = O_PATH | O_DIRECTORY };

static bool blob_way_has_row(const struct blob_work *work, const char *path)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct err err;

	return registry_get(work->job->pull->options.store, work->kind->type, path, &row,
			    &err) == 0 ||
	       err.class != ERR_MISSING;
}

static bool has_rows_below(const struct blob_work *work, const char *path)
{
	AUTO_FREE char *folder = xasprintf("%s/", path);
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	const struct registry_filter next = { .kind = work->kind->type,
					      .after = folder,
					      .limit = 1,
					      .state = REGISTRY_ANY };

	if (registry_list(work->job->pull->options.store, &next, &rows, ERR_IGNORED) != 0)
		return true;
	return rows.count > 0 && text_starts_with(rows.items[0].name, folder);
}

static void move_away(const struct blob_work *work, int dir, const char *path)
{
	AUTO_FREE char *place = blob_make_trash_path(work->root, place_name(path));
	struct err err;

	AUTO_CLOSE int trash = place_open_parent(work->root, place, &err);
	if (trash >= 0 && renameat(dir, place_name(path), trash, place_name(path)) == 0)
		log_warn("blob.moved_away", LOG_TEXT("kind", work->kind->type),
			 LOG_TEXT("path", path), LOG_TEXT("to", place));
}

/* One of the folders above it, or its own place. False: what is there stays. */
static bool blob_way_clear_one(const struct blob_work *work, const char *path,
			       bool is_folder)
{
	const char *name = place_name(path);
	AUTO_FREE char *above =
		xstrndup(path, name > path ? (size_t)(name - path - 1) : 0);
	AUTO_CLOSE int dir = path_open_beneath(work->root, above, OPEN_FOLDER);
	struct stat st;

	if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	if (is_folder && S_ISDIR(st.st_mode))
		return (st.st_mode & S_IRWXU) == S_IRWXU ||
		       fchmodat(dir, name, (st.st_mode & 07777) | S_IRWXU, 0) == 0;
	if (!is_folder && S_ISREG(st.st_mode))
		return true;
	if (is_folder ? blob_way_has_row(work, path) : has_rows_below(work, path))
		return false;
	move_away(work, dir, path);
	return false;
}

/* Makes room for what is brought. At a secondary nobody else puts anything there.
 * Whatever cannot be moved is found when the file is. */
static void blob_clear_way(const struct blob_work *work, const struct pull_item *item)
{
	const char *id = item->row->name;

	for (const char *at = strchr(id, '/'); at; at = strchr(at + 1, '/')) {
		AUTO_FREE char *path = xstrndup(id, (size_t)(at - id));
		if (!blob_way_clear_one(work, path, true))
			return;
	}
	blob_way_clear_one(work, id, false);
}

/*
 * A file that is there already, and has the content that is wanted, is not transferred:
 * after a restore from a backup, a copy by other means, or when only the row was lost.
 * Whoever put it there may not have waited until it was on disk, or was killed before: so
 * we do.
 */

/* A primary that has just come by its files has read few of them yet. Who copied the tree
 * by other means waits for its checksums rather than bring all of it again; the longer it
 * takes, the more seldom it is asked. */
#define WAIT_LEAST_MS 1000
#define WAIT_MOST_MS ((int64_t)60 * 1000)
#define WAIT_IN_ALL_MS ((int64_t)3600 * 1000)

/* One that cannot be read in time is brought: that goes on where it was left. */
static bool is_candidate(const struct pull_item *item)
{
	const struct registry_row *row = item->row;

	return row->timeline[0] && row->generation_wanted > 0 &&
	       !(row->wishes & REGISTRY_WISH_REBUILD) &&
	       !(row->failure_class &&
		 strcmp(row->failure_class, err_class_name(ERR_TIMEOUT)) == 0);
}

/* 1: it is; 0: not, or it cannot be told; -1: stop. */
static int has_content(const struct blob_work *work, struct pull_item *item,
		       char digest[BLOB_DIGEST_SIZE], struct err *err)
{
	char expected[BLOB_DIGEST_SIZE];
	AUTO_CLOSE int fd = -1;
	struct stat st;

	blob_item_expect(work, item, expected);
	if (!expected[0] || blob_open(work->root, item->row->name, &fd, &st, err) != 0 ||
	    (item->row->size > 0 && (uint64_t)st.st_size != item->row->size))
		return 0;
	blob_of(item)->was_read = true;
	if (blob_work_digest(work, item, fd, digest, err) != 0)
		return err->class == ERR_CANCELED || pull_job_ran_out(work->job, err) ? -1
										      : 0;
	item->size = blob_of(item)->fingerprint.size;
	return strcmp(digest, expected) == 0;
}

/* Nothing was ever brought, and something of that size is here. */
static bool may_be_here(const struct blob_work *work, const struct pull_item *item)
{
	char expected[BLOB_DIGEST_SIZE];
	AUTO_CLOSE int fd = -1;
	struct stat st;

	blob_item_expect(work, item, expected);
	return !expected[0] && item->row->generation == 0 &&
	       blob_open(work->root, item->row->name, &fd, &st, ERR_IGNORED) == 0 &&
	       (uint64_t)st.st_size == item->row->size;
}

/* Since the first one was waited for: this site may have lacked a change for long before
 * it was pointed at this primary. */
static int64_t blob_waited_ms(struct pull *pull)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	if (pull->waits_since == 0)
		pull->waits_since = clock_boot_ms();
	return clock_boot_ms() - pull->waits_since;
}

static void wait_for_checksum(const struct blob_work *work, struct pull_item *item)
{
	struct pull *pull = work->job->pull;
	int64_t waited;

	if (item->row->behind_since == 0)
		return;
	waited = int64_min(pull_now_ms(pull) - item->row->behind_since,
			   blob_waited_ms(pull));
	if (waited >= WAIT_IN_ALL_MS)
		return;
	item->wait_ms = waited < WAIT_LEAST_MS  ? WAIT_LEAST_MS
			: waited > WAIT_MOST_MS ? WAIT_MOST_MS
						: waited;
	item->end = PULL_WAITS;
}

static void adopt(struct pull_item *item, const char *digest)
{
	item->end = PULL_UNCHANGED;
	item->is_proved = true;
	memcpy(item->timeline, item->row->timeline, sizeof(item->timeline));
	item->generation = item->row->generation_wanted;
	memcpy(blob_of(item)->digest, digest, BLOB_DIGEST_SIZE);
	memcpy(item->checksum, digest, BLOB_DIGEST_SIZE);
}

static void blob_present_make_durable(struct blob_work *work)
{
	AUTO_FREE const char **ids = xcalloc(work->job->rows.count + 1, sizeof(*ids));
	const struct pull_item *item;
	size_t count = 0;
	struct err err;

	for (size_t at = 0; (item = pull_job_next(work->job, &at, PULL_UNCHANGED));)
		ids[count++] = item->row->name;
	if (flush_present(work->root, ids, count, &err) != 0)
		pull_job_fail_here(work->job, PULL_UNCHANGED, &err);
}

static void blob_present_look(struct blob_work *work, struct pull_item *item)
{
	char digest[BLOB_DIGEST_SIZE];
	struct err err;
	int has = has_content(work, item, digest, &err);

	if (has < 0)
		pull_item_fail(item, &err);
	else if (has > 0)
		adopt(item, digest);
	else if (blob_work_can_check(work) && may_be_here(work, item))
		wait_for_checksum(work, item);
}

/* Reading others took the time of all. Those that were read fail by it, and so are not
 * read the next time. */
static void blob_present_defer(struct blob_work *work)
{
	struct pull_item *item;
	struct err err;

	err_set(&err, ERR_CANCELED, "others took long");
	for (size_t at = 0; (item = pull_job_next(work->job, &at, PULL_OPEN));)
		if (!blob_of(item)->was_read)
			pull_item_fail(item, &err);
}

static void blob_find_present(struct blob_work *work)
{
	bool has_read = false;
	struct pull_item *item;
	int64_t left_ms;

	for (size_t at = 0; (item = pull_job_next(work->job, &at, PULL_OPEN));) {
		if (has_read && blob_work_time(work, &left_ms, ERR_IGNORED) != 0)
			break;
		if (is_candidate(item))
			blob_present_look(work, item);
		has_read |= blob_of(item)->was_read;
	}
	if (has_read && blob_work_time(work, &left_ms, ERR_IGNORED) != 0)
		blob_present_defer(work);
	blob_present_make_durable(work);
}

/*
 * A primary's checksum may be stale: a file that was changed under the same time and
 * size. Which side is wrong is known when it has read its file again. Asked often, that
 * would read a large file over and over.
 */

#define AGAIN_MS ((int64_t)3600 * 1000)
#define REMEMBERED_MOST 10000

/* Whether it was not asked about this one for an hour; if so it counts as asked. */
static bool is_due(struct pull *pull, const char *key)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	int64_t now = clock_boot_ms();

	if (now - pull->reverified_at >= AGAIN_MS) {
		map_clear(&pull->reverified);
		pull->reverified_at = now;
	}
	return pull->reverified.count < REMEMBERED_MOST &&
	       !map_put(&pull->reverified, key, pull);
}

/* The next time that they disagree it is asked again. */
static void blob_doubt_forget(struct pull *pull, const char *key)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);

	map_remove(&pull->reverified, key);
}

void blob_doubt(const struct blob_work *work, const char *id)
{
	AUTO_FREE char *key = xasprintf("%s:%s", work->kind->type, id);
	struct pull *pull = work->job->pull;
	struct err err;

	if (!is_due(pull, key) ||
	    source_doubt(pull->source, work->kind->type, id, BLOB_STALL_MS, &err) == 0)
		return;
	blob_doubt_forget(pull, key);
	log_warn("verify.not_asked", LOG_ERR(&err), LOG_TEXT("name", id));
}

void blob_look_again(struct pull *pull, const struct blob_kind *kind, int root,
		     const char *id, const struct blob_fingerprint *fingerprint)
{
	AUTO_CLOSE int fd = -1;
	struct stat st;
	struct err why;

	if (blob_open(root, id, &fd, &st, &why) == 0 &&
	    glance_blob_fingerprint(fingerprint, fd, &st, &why) == 0)
		return;
	if (err_is_of_data(&why))
		pull_doubt(pull, kind->type, id, &why);
}

int blob_work_time(const struct blob_work *work, int64_t *left_ms, struct err *err)
{
	*left_ms = work->job->until - clock_boot_ms();
	return *left_ms > 0 ? 0
			    : err_set(err, ERR_TIMEOUT, "the time of this job is over");
}

int blob_work_digest(const struct blob_work *work, const struct pull_item *item, int fd,
		     char digest[BLOB_DIGEST_SIZE], struct err *err)
{
	const struct blob_patience patience = { .stop = &work->job->pull->kill,
						.until = work->job->until };

	if (blob_digest_until(fd, &blob_of(item)->fingerprint, digest, &patience, err) ==
	    0)
		return 0;
	if (pull_job_ran_out(work->job, err))
		err_remedy(err, "raise sync.timeout, or see why the disk is slow");
	return -1;
}

void blob_work_count(const struct blob_work *work, uint64_t bytes)
{
	const struct pull_once *once = work->job->pull->options.once;

	work->job->bytes += bytes;
	if (work->job->shown)
		atomic_fetch_add(&work->job->shown->bytes, bytes);
	if (once)
		atomic_fetch_add(once->bytes, bytes);
}

void blob_item_expect(const struct blob_work *work, const struct pull_item *item,
		      char digest[BLOB_DIGEST_SIZE])
{
	const char *reported = item->row->primary_checksum;

	digest[0] = '\0';
	if (!blob_id_digest(work->kind, item->row->name, digest) && reported &&
	    strlen(reported) == BLOB_DIGEST_SIZE - 1)
		memcpy(digest, reported, BLOB_DIGEST_SIZE);
}

/* That of the event or the inventory that the row is from: what it told of it holds, also
 * if who sent the bytes did not say it; a server between may leave headers out. */
static bool is_wanted_version(const struct pull_item *item)
{
	return item->generation == item->row->generation_wanted &&
	       strcmp(item->timeline, item->row->timeline) == 0;
}

int blob_item_check_size(const struct pull_item *item, struct err *err)
{
	const struct registry_row *row = item->row;

	if (!is_wanted_version(item) || row->size == 0 || row->size == item->size)
		return 0;
	return wire_lied(err,
			 "%s has %" PRIu64 " bytes, and %" PRIu64
			 " by what it said of generation %" PRIu64,
			 row->name, item->size, row->size, item->generation);
}

static int blob_job_report_mismatch(const struct pull_item *item, const char *expected,
				    struct err *err)
{
	err_set(err, ERR_CORRUPT,
		"%s: what came has the SHA-256 %s, and not %s as the primary says of "
		"generation %" PRIu64,
		item->row->name, blob_of(item)->digest, expected, item->generation);
	return err_remedy(err, "it is brought again by itself; if this comes back, see "
			       "whether the primary's disk or the network damages data");
}

static int blob_job_check_digest(struct blob_work *work, struct pull_item *item,
				 struct err *err)
{
	char named[BLOB_DIGEST_SIZE];

	if (blob_incoming_digest(blob_of(item)->incoming, blob_of(item)->digest, err) !=
	    0)
		return -1;
	if (blob_id_digest(work->kind, item->row->name, named)) {
		if (strcmp(named, blob_of(item)->digest) != 0)
			return blob_job_report_mismatch(item, named, err);
		memcpy(item->checksum, named, sizeof(named));
	}
	if (!item->checksum[0] && is_wanted_version(item))
		blob_item_expect(work, item, item->checksum);
	if (item->checksum[0] && strcmp(item->checksum, blob_of(item)->digest) != 0)
		return blob_job_report_mismatch(item, item->checksum, err);
	if (!is_wanted_version(item))
		return 0;
	blob_item_expect(work, item, named);
	if (named[0] && strcmp(named, blob_of(item)->digest) != 0)
		return blob_job_report_mismatch(item, named, err);
	if (named[0])
		memcpy(item->checksum, named, sizeof(named));
	return 0;
}

/* A person's wish to try again sets the count back, but not the reason. */
static bool was_wrong_before(const struct registry_row *row)
{
	return row->retry_count > 0 ||
	       (row->failure_class &&
		strcmp(row->failure_class, err_class_name(ERR_CORRUPT)) == 0);
}

void blob_item_judge(struct blob_work *work, struct pull_item *item)
{
	struct err err;

	if (blob_job_check_digest(work, item, &err) == 0) {
		if (!blob_work_can_check(work))
			memcpy(item->checksum, blob_of(item)->digest, BLOB_DIGEST_SIZE);
		item->end = PULL_ARRIVED;
		return;
	}
	if (err.class == ERR_CORRUPT) {
		log_error("blob.wrong", LOG_ERR(&err));
		blob_incoming_close(TAKE(blob_of(item)->incoming), true);
		blob_of(item)->is_doubtful =
			was_wrong_before(item->row); /* not by chance */
	}
	pull_item_fail_here(item, &err);
}

/* Held means later: no worker waits. */
static int blob_item_lease(const struct blob_work *work, const struct pull_item *item,
			   const char *operation, struct err *err)
{
	struct lease_manager *leases = work->job->pull->options.leases;
	const char *type = work->kind->type, *name = item->row->name;
	char key[LEASE_KEY_SIZE];

	if (work->kind->layout == BLOB_LFS || !blob_of(item)->is_large || !leases)
		return 0;
	lease_key_for(leases, type, replicable_id(type, name), name, key);
	return lease_acquire(leases,
			     &(struct lease_request){ .key = key,
						      .operation = operation,
						      .job = work->job->id,
						      .name = name,
						      .stop = &work->job->pull->kill },
			     &blob_of(item)->lease, err);
}

static void take_leases(struct blob_work *work)
{
	struct pull_item *item;
	struct err err;

	for (size_t at = 0; (item = pull_job_next(work->job, &at, PULL_OPEN));)
		if (blob_item_lease(work, item, "sync", &err) != 0)
			pull_item_fail(item, &err);
}

static void clear_ways(struct blob_work *work)
{
	const struct pull_item *item;

	if (work->job->pull->options.once)
		return;
	for (size_t at = 0; (item = pull_job_next(work->job, &at, PULL_OPEN));)
		blob_clear_way(work, item);
}

static void blob_job_fetch_items(struct blob_work *work)
{
	struct pull_item *item;

	blob_fetch_small(work); /* finds out who is large after all */
	for (size_t at = 0; (item = pull_job_next(work->job, &at, PULL_OPEN));)
		blob_fetch_large(work, item);
	for (size_t i = 0; i < work->job->rows.count; i++)
		if (work->items[i].is_doubtful)
			blob_doubt(work, work->job->rows.items[i].name);
}

/* Never into a mount point whose file system is away. */
static int blob_job_open_root(struct blob_work *work, struct err *err)
{
	if (pull_check_root(work->job->pull, work->kind->type, err) != 0)
		return -1;
	work->root = blob_root_open(work->kind, err);
	return work->root < 0 ? -1 : 0;
}

static int blob_open_job(struct pull_job *job, struct err *err)
{
	struct blob_work *work = xcalloc(1, sizeof(*work));

	*work = (struct blob_work){ .job = job,
				    .kind = job->kind.blobs,
				    .root = -1,
				    .items = xcalloc(job->rows.count,
						     sizeof(*work->items)) };
	job->own = work;
	for (size_t i = 0; i < job->rows.count; i++) {
		job->items[i].own = &work->items[i];
		work->items[i].is_large = job->rows.items[i].size > BLOB_SMALL_MOST;
		if (!job->is_verification)
			pace_take(job->pull, job->rows.items[i].id);
	}
	return blob_job_open_root(work, err);
}

static int blob_discard_copy(void *arg, const struct removal_copy *copy, struct err *err)
{
	struct blob_work *work = arg;

	return blob_item_lease(work, copy->own, "remove", err) != 0
		       ? -1
		       : blob_discard(work->root, copy->name, err);
}

static void blob_remove_job(struct pull_job *job)
{
	VEC(struct removal_copy) gone = { 0 };
	struct pull_item *item;
	size_t removed = 0;
	struct err err;

	for (size_t at = 0; (item = pull_job_next(job, &at, PULL_OPEN));)
		if (item->row->is_gone)
			vec_add(&gone, ((struct removal_copy){
					       .name = item->row->name,
					       .claim_token = item->row->claim_token,
					       .own = item }));
	const struct removal_batch removal = { .store = job->pull->options.store,
					       .kind = job->kind.type,
					       .copies = gone.items,
					       .count = gone.count,
					       .discard = blob_discard_copy,
					       .arg = job->own };
	int result = removal_run_batch(&removal, &err);
	for (size_t i = 0; i < gone.count; i++) {
		const struct err *why = result == 0 ? &gone.items[i].why : &err;
		removed += pull_item_end_removed(gone.items[i].own, why) == 0;
	}
	vec_clear(&gone);
	if (removed > 0)
		log_info("blob.removed", LOG_TEXT("kind", job->kind.type),
			 LOG_NUMBER("count", removed));
}

static void blob_bring_job(struct pull_job *job)
{
	struct blob_work *work = job->own;

	blob_find_present(work);
	take_leases(work);
	clear_ways(work);
	blob_job_fetch_items(work);
	blob_settle(work);
}

static void blob_end_job(struct pull_job *job)
{
	struct blob_work *work = job->own;

	if (job->is_verification)
		blob_verify_look_again(work);
	else
		blob_report_ended(work);
	for (size_t i = 0; i < job->rows.count; i++) {
		blob_incoming_close(work->items[i].incoming, false);
		lease_release(work->items[i].lease);
	}
	if (work->root >= 0)
		close(work->root);
	free(work->items);
	free(work);
}

static int blob_discard_one(const struct kind *kind, const char *id, struct err *err)
{
	AUTO_CLOSE int root = blob_root_open(kind->blobs, err);

	return root < 0 ? -1 : blob_discard(root, id, err);
}

static void blob_tidy(const struct kind *kind)
{
	blob_incoming_expire(kind->blobs, BLOB_INCOMING_KEEP_MS);
}

const struct copy_kind_ops blob_copy_ops = {
	.workers = PULL_BLOB_WORKERS,
	.bring_most = 128,
	.verify_most = 10,
	.small_most = BLOB_SMALL_MOST,
	.has_late_checksums = true,
	.is_watched = true,
	.look = glance_look_at_blob,
	.open = blob_open_job,
	.remove = blob_remove_job,
	.bring = blob_bring_job,
	.verify = blob_verify_job,
	.end = blob_end_job,
	.discard = blob_discard_one,
	.tidy = blob_tidy,
	.count_leftovers = leftovers_count_blobs,
	.take_leftovers = leftovers_take_blobs,
};
