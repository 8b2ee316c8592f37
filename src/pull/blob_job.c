/*
 * A job on some rows of a kind of blobs, which are this worker's until their time is
 * over. Each blob ends by itself: what fails stops no other.
 *
 * What is newer is never replaced by what is older: from before the primary is asked
 * until file and row are written, a blob is one worker's. A data directory has one node
 * (store/data_lock.h), and in that `at_work` says which blobs are had. So a worker that
 * was paused, even between its last check and its rename, is still the only one; another,
 * should the claim run out meanwhile, finds the blob taken and comes back later, and what
 * it is given then is not older.
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
#include "base/log.h"
#include "blob/flush.h"
#include "blob/place.h"
#include "pull/blob_work.h"
#include "pull/decisions.h"
#include "pull/glance.h"
#include "pull/lane.h"
#include "pull/primary.h"
#include "replicable/name.h"
#include "upkeep/copies_root.h"

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

	return registry_get(work->pull->options.store, work->kind->type, path, &row,
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

	if (registry_list(work->pull->options.store, &next, &rows, ERR_IGNORED) != 0)
		return true;
	return rows.count > 0 && text_starts_with(rows.items[0].name, folder);
}

static void move_away(const struct blob_work *work, int dir, const char *path)
{
	char random[17];
	struct err err;

	random_hex(random, 8);
	AUTO_FREE char *place = xasprintf(PLACE_TRASH "/%" PRId64 "-%s/%s",
					  clock_wall_ms(), random, place_name(path));
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

void blob_clear_way(struct blob_work *work, const struct blob_item *item)
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

static bool is_candidate(const struct blob_item *item)
{
	return item->end == BLOB_OPEN && item->row->timeline[0] &&
	       item->row->generation_wanted > 0 &&
	       !(item->row->wishes & REGISTRY_WISH_REBUILD);
}

/* 1: it is; 0: not, or it cannot be told; -1: stop. */
static int has_content(const struct blob_work *work, struct blob_item *item,
		       char digest[BLOB_DIGEST_SIZE], struct err *err)
{
	char expected[BLOB_DIGEST_SIZE];
	AUTO_CLOSE int fd = -1;
	struct stat st;

	blob_item_expect(work, item, expected);
	if (!expected[0] || blob_open(work->root, item->row->name, &fd, &st, err) != 0 ||
	    (item->row->size > 0 && (uint64_t)st.st_size != item->row->size))
		return 0;
	if (blob_digest(fd, &item->fingerprint, digest, &work->pull->kill, err) != 0)
		return err->class == ERR_CANCELED ? -1 : 0;
	item->size = item->fingerprint.size;
	return strcmp(digest, expected) == 0;
}

/* Nothing was ever brought, and something of that size is here. */
static bool may_be_here(const struct blob_work *work, const struct blob_item *item)
{
	char expected[BLOB_DIGEST_SIZE];
	AUTO_CLOSE int fd = -1;
	struct stat st;

	blob_item_expect(work, item, expected);
	return !expected[0] && item->row->generation == 0 &&
	       blob_open(work->root, item->row->name, &fd, &st, ERR_IGNORED) == 0 &&
	       (uint64_t)st.st_size == item->row->size;
}

static void wait_for_checksum(const struct blob_work *work, struct blob_item *item)
{
	int64_t since = item->row->behind_since;
	int64_t waited = primary_now_ms(work->pull->options.primary) - since;

	if (since == 0 || waited >= WAIT_IN_ALL_MS)
		return;
	item->wait_ms = waited < WAIT_LEAST_MS  ? WAIT_LEAST_MS
			: waited > WAIT_MOST_MS ? WAIT_MOST_MS
						: waited;
	item->end = BLOB_WAITS;
}

static void adopt(struct blob_item *item, const char *digest)
{
	item->end = BLOB_ADOPTED;
	item->is_proved = true;
	memcpy(item->timeline, item->row->timeline, sizeof(item->timeline));
	item->generation = item->row->generation_wanted;
	memcpy(item->digest, digest, BLOB_DIGEST_SIZE);
	memcpy(item->expected, digest, BLOB_DIGEST_SIZE);
}

static void blob_present_make_durable(struct blob_work *work)
{
	AUTO_FREE const char **ids = xcalloc(work->count + 1, sizeof(*ids));
	size_t count = 0;
	struct err err;

	for (size_t i = 0; i < work->count; i++)
		if (work->items[i].end == BLOB_ADOPTED)
			ids[count++] = work->items[i].row->name;
	if (flush_present(work->root, ids, count, &err) == 0)
		return;
	for (size_t i = 0; i < work->count; i++)
		if (work->items[i].end == BLOB_ADOPTED)
			blob_item_fail_here(&work->items[i], &err);
}

void blob_find_present(struct blob_work *work)
{
	for (size_t i = 0; i < work->count; i++) {
		struct blob_item *item = &work->items[i];
		char digest[BLOB_DIGEST_SIZE];
		struct err err;
		if (!is_candidate(item))
			continue;
		int has = has_content(work, item, digest, &err);
		if (has < 0)
			blob_item_fail(item, &err);
		else if (has > 0)
			adopt(item, digest);
		else if (work->pull->source->ops->tells_checksums &&
			 may_be_here(work, item))
			wait_for_checksum(work, item);
	}
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

void blob_doubt(struct pull *pull, const struct blob_kind *kind, const char *id)
{
	AUTO_FREE char *key = xasprintf("%s:%s", kind->type, id);
	struct err err;

	if (!is_due(pull, key) ||
	    source_doubt_blob(pull->source, kind, id, BLOB_STALL_MS, &err) == 0)
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
	if (copy_is_at_fault(&why))
		pull_doubt(pull, kind->type, id, &why);
}

int blob_item_fail(struct blob_item *item, const struct err *why)
{
	blob_incoming_close(TAKE(item->incoming), false);
	item->end = BLOB_FAILED;
	item->why = *why;
	return -1;
}

int blob_item_fail_here(struct blob_item *item, const struct err *why)
{
	blob_item_fail(item, why);
	if (item->why.class == ERR_MISSING)
		item->why.class = ERR_DISK;
	return -1;
}

int blob_work_time(const struct blob_work *work, int64_t *left_ms, struct err *err)
{
	*left_ms = work->until - clock_boot_ms();
	return *left_ms > 0 ? 0
			    : err_set(err, ERR_TIMEOUT, "the time of this job is over");
}

void blob_item_expect(const struct blob_work *work, const struct blob_item *item,
		      char digest[BLOB_DIGEST_SIZE])
{
	const char *reported = item->row->primary_checksum;

	digest[0] = '\0';
	if (!blob_id_digest(work->kind, item->row->name, digest) && reported &&
	    strlen(reported) == BLOB_DIGEST_SIZE - 1)
		memcpy(digest, reported, BLOB_DIGEST_SIZE);
}

/* That of the event or the inventory that the row is from. */
static bool is_wanted_version(const struct blob_item *item)
{
	return item->generation == item->row->generation_wanted &&
	       strcmp(item->timeline, item->row->timeline) == 0;
}

int blob_item_check_size(const struct blob_item *item, struct err *err)
{
	const struct registry_row *row = item->row;

	if (!is_wanted_version(item) || row->size == 0 || row->size == item->size)
		return 0;
	return wire_lied(err,
			 "%s has %" PRIu64 " bytes, and %" PRIu64
			 " by what it said of generation %" PRIu64,
			 row->name, item->size, row->size, item->generation);
}

static int blob_job_report_mismatch(const struct blob_item *item, const char *expected,
				    struct err *err)
{
	err_set(err, ERR_CORRUPT,
		"%s: what came has the SHA-256 %s, and not %s as the primary says of "
		"generation %" PRIu64,
		item->row->name, item->digest, expected, item->generation);
	return err_remedy(err, "it is brought again by itself; if this comes back, see "
			       "whether the primary's disk or the network damages data");
}

/* What the log or the inventory told of this generation holds, if who sent the bytes did
 * not say it: a server between may leave headers out. */
static bool is_of_row(const struct blob_item *item)
{
	return item->generation == item->row->generation_wanted &&
	       strcmp(item->timeline, item->row->timeline) == 0;
}

static int blob_job_check_digest(struct blob_work *work, struct blob_item *item,
				 struct err *err)
{
	char named[BLOB_DIGEST_SIZE];

	if (blob_incoming_digest(item->incoming, item->digest, err) != 0)
		return -1;
	if (blob_id_digest(work->kind, item->row->name, named)) {
		if (strcmp(named, item->digest) != 0)
			return blob_job_report_mismatch(item, named, err);
		memcpy(item->expected, named, sizeof(named));
	}
	if (!item->expected[0] && is_of_row(item))
		blob_item_expect(work, item, item->expected);
	if (item->expected[0] && strcmp(item->expected, item->digest) != 0)
		return blob_job_report_mismatch(item, item->expected, err);
	if (!is_wanted_version(item))
		return 0;
	blob_item_expect(work, item, named);
	if (named[0] && strcmp(named, item->digest) != 0)
		return blob_job_report_mismatch(item, named, err);
	if (named[0])
		memcpy(item->expected, named, sizeof(named));
	return 0;
}

/* A person's wish to try again sets the count back, but not the reason. */
static bool was_wrong_before(const struct registry_row *row)
{
	return row->retry_count > 0 ||
	       (row->failure_class &&
		strcmp(row->failure_class, err_class_name(ERR_CORRUPT)) == 0);
}

void blob_item_judge(struct blob_work *work, struct blob_item *item)
{
	struct err err;

	if (blob_job_check_digest(work, item, &err) == 0) {
		if (!work->pull->source->ops->tells_checksums)
			memcpy(item->expected, item->digest, sizeof(item->expected));
		item->end = BLOB_ARRIVED;
		return;
	}
	if (err.class == ERR_CORRUPT) {
		log_error("blob.wrong", LOG_ERR(&err));
		blob_incoming_close(TAKE(item->incoming), true);
		item->is_doubtful = was_wrong_before(item->row); /* not by chance */
	}
	blob_item_fail_here(item, &err);
}

/* Held means later: no worker waits. */
int blob_item_lease(const struct blob_work *work, struct blob_item *item,
		    const char *operation)
{
	const char *type = work->kind->type, *name = item->row->name;
	char key[LEASE_KEY_SIZE];
	struct err err;

	if (work->kind->layout == BLOB_LFS || !item->is_large ||
	    !work->pull->options.leases)
		return 0;
	lease_key_for(type, replicable_id(type, name), key);
	if (lease_acquire(work->pull->options.leases,
			  &(struct lease_request){ .key = key,
						   .operation = operation,
						   .job = name,
						   .stop = &work->pull->kill },
			  &item->lease, &err) != 0)
		return blob_item_fail(item, &err);
	return 0;
}

static void take_leases(struct blob_work *work)
{
	for (size_t i = 0; i < work->count; i++)
		if (work->items[i].end == BLOB_OPEN)
			blob_item_lease(work, &work->items[i], "sync");
}

static void clear_ways(struct blob_work *work)
{
	if (work->pull->options.once)
		return;
	for (size_t i = 0; i < work->count; i++)
		if (work->items[i].end == BLOB_OPEN)
			blob_clear_way(work, &work->items[i]);
}

static void blob_job_fetch_items(struct blob_work *work)
{
	blob_fetch_small(work); /* finds out who is large after all */
	for (size_t i = 0; i < work->count; i++)
		if (work->items[i].end == BLOB_OPEN)
			blob_fetch_large(work, &work->items[i]);
	for (size_t i = 0; i < work->count; i++)
		if (work->items[i].is_doubtful)
			blob_doubt(work->pull, work->kind, work->items[i].row->name);
}

static void blob_job_fail_all(struct blob_work *work, const struct err *why)
{
	for (size_t i = 0; i < work->count; i++)
		blob_item_fail_here(&work->items[i], why);
}

/* Never into a mount point whose file system is away. */
static int blob_job_open_root(struct blob_work *work, struct err *err)
{
	if (copies_root_check_blobs(work->pull->options.store, work->kind, err) != 0)
		return -1;
	work->root = blob_root_open(work->kind, err);
	return work->root < 0 ? -1 : 0;
}

static void blob_job_run_work(struct blob_work *work)
{
	struct err err;

	if (blob_job_open_root(work, &err) != 0) {
		blob_job_fail_all(work, &err);
		return;
	}
	blob_remove_gone(work);
	blob_find_present(work);
	take_leases(work);
	clear_ways(work);
	blob_job_fetch_items(work);
	blob_settle(work);
}

#define WORK_KEY_SIZE 17

static void work_key(const struct blob_item *item, char key[WORK_KEY_SIZE])
{
	snprintf(key, WORK_KEY_SIZE, "%016" PRIx64, item->row->id);
}

/* Taken means later, as with a lease. */
static int take_item(struct pull *pull, struct blob_item *item, struct err *err)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	char key[WORK_KEY_SIZE];

	work_key(item, key);
	if (map_get(&pull->at_work, key))
		return err_set(err, ERR_BUSY, "another worker still has %s",
			       item->row->name);
	map_put(&pull->at_work, key, pull);
	item->is_taken = true;
	return 0;
}

static void give_item(struct pull *pull, struct blob_item *item)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&pull->mutex);
	char key[WORK_KEY_SIZE];

	if (!item->is_taken)
		return;
	work_key(item, key);
	map_remove(&pull->at_work, key);
}

static void open_items(struct blob_work *work, registry_rows *rows)
{
	work->count = rows->count;
	work->items = xcalloc(rows->count, sizeof(*work->items));
	for (size_t i = 0; i < rows->count; i++) {
		struct blob_item *item = &work->items[i];
		struct err err;
		item->row = &rows->items[i];
		item->is_large = item->row->size > BLOB_SMALL_MOST;
		pace_take(work->pull, item->row->id);
		/* It becomes a path here, wherever it came from. */
		if (blob_id_check(work->kind, item->row->name, &err) != 0 ||
		    take_item(work->pull, item, &err) != 0)
			blob_item_fail(item, &err);
	}
}

static void close_items(struct blob_work *work)
{
	for (size_t i = 0; i < work->count; i++) {
		blob_incoming_close(work->items[i].incoming, false);
		lease_release(work->items[i].lease);
		give_item(work->pull, &work->items[i]);
	}
	free(work->items);
	if (work->root >= 0)
		close(work->root);
}

void blob_job_work(void *arg)
{
	struct pull_job *job = arg;
	int64_t started = clock_boot_ms();
	int64_t timeout_ms = pull_settings_now(job->pull).timeout_ms;
	struct blob_work work = {
		.pull = job->pull,
		.kind = job->kind,
		.root = -1,
		.until = job->claimed_at + timeout_ms,
	};

	/* It may have waited for long behind other large ones: before the rest of its
	 * time is too short, it is claimed anew. */
	if (stop_is_requested(&job->pull->stop) ||
	    started - job->claimed_at > timeout_ms / 2) {
		blob_job_forget(job);
		return;
	}
	struct log_context before =
		log_set_context((struct log_context){ .job = "sync" });
	open_items(&work, &job->rows);
	blob_job_run_work(&work);
	blob_record(&work, clock_boot_ms() - started);
	close_items(&work);
	log_set_context(before);
	pull_job_end(job, &job->pull->state.blobbing);
}

void blob_job_forget(void *arg)
{
	struct pull_job *job = arg;

	pull_rows_report(job, REGISTRY_DEFERRED);
	pull_job_end(job, &job->pull->state.blobbing);
}
