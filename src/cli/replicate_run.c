#include "cli/replicate_run.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "blob/incoming.h"
#include "blob/walk.h"
#include "job/job.h"
#include "job/pool.h"
#include "pull/hold.h"
#include "pull/sync_job.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "upkeep/trash.h"

/*
 * A file counts as equal if size and time of change are: a copy gets those of its source,
 * but only once it has been read from disk and found equal. So a second run reads
 * nothing, and what was killed in between is copied or compared again.
 */

#define BLOCK ((size_t)256 << 10)
#define GROUP_FILES 256
#define GROUP_BYTES ((uint64_t)256 << 20)

struct source_file {
	char *id; /* owned */
	uint64_t size;
};

/* One that was written, and is not in place yet. */
struct written {
	const char *id; /* borrowed */
	struct timespec mtime;
	uint64_t size;
	bool was_there;
	char digest[BLOB_DIGEST_SIZE];
};

struct copying {
	struct replicate_blobs *blobs;
	struct blob_kind from_kind, to_kind;
	int from, to;                  /* the directories, open */
	VEC(struct source_file) files; /* in byte order */
	VEC(struct source_file) surplus;
	size_t copies; /* that are in TO */
	bool hides_names;
	blob_arrivals arrivals;
	VEC(struct written) written; /* beside them */
	uint64_t waiting;            /* bytes of them */
	char *buffer;
	struct progress progress;
};

static void replicate_blobs_report_problem(const char *id, const char *what,
					   const struct err *why)
{
	AUTO_STR struct str line = STR_INIT;

	str_add_printable(&line, id);
	str_addf(&line, ": %s: ", what);
	str_add_printable(&line, why->text);
	fprintf(stderr, "%s\n", line.data);
	if (why->remedy[0])
		fprintf(stderr, "  what to do: %s\n", why->remedy);
}

static void complain_failed(struct copying *copying, const char *id, const char *what,
			    const struct err *why)
{
	replicate_blobs_report_problem(id, what, why);
	copying->blobs->failed++;
}

static int take_file(void *arg, const char *id,
		     const struct blob_fingerprint *fingerprint, struct err *err)
{
	struct copying *copying = arg;
	struct source_file file = { xstrdup(id), fingerprint->size };

	(void)err;
	vec_add(&copying->files, file);
	return 0;
}

static void take_finding(void *arg, const struct blob_finding *finding)
{
	struct copying *copying = arg;

	copying->hides_names |= finding->hides_names;
	complain_failed(copying, finding->path, "left out", finding->why);
}

/* 1: the copy is there, and is as its source. */
static int replicate_blobs_is_current(struct copying *copying, const char *id, int from,
				      const struct stat *source, struct written *written,
				      struct err *err)
{
	const struct stop *stop = copying->blobs->stop;
	char here[BLOB_DIGEST_SIZE], there[BLOB_DIGEST_SIZE];
	struct blob_fingerprint fingerprint;
	struct stat copy;
	AUTO_CLOSE int to = -1;

	written->was_there = blob_open(copying->to, id, &to, &copy, err) == 0;
	if (!written->was_there || copy.st_size != source->st_size)
		return 0;
	if (copy.st_mtim.tv_sec == source->st_mtim.tv_sec &&
	    copy.st_mtim.tv_nsec == source->st_mtim.tv_nsec)
		return 1;
	if (blob_digest(from, &fingerprint, there, stop, err) != 0 ||
	    blob_digest(to, &fingerprint, here, stop, err) != 0)
		return -1;
	if (strcmp(here, there) != 0)
		return lseek(from, 0, SEEK_SET) == 0 ? 0 : err_errno(err, "%s", id);
	futimens(to, (struct timespec[]){ { .tv_nsec = UTIME_OMIT }, source->st_mtim });
	return 1;
}

static int write_all(struct copying *copying, int from, struct blob_incoming *incoming,
		     struct err *err)
{
	ssize_t count;

	while ((count = read(from, copying->buffer, BLOCK)) > 0) {
		if (stop_is_requested(copying->blobs->stop))
			return err_set(err, ERR_CANCELED, "interrupted");
		if (blob_incoming_write(incoming, copying->buffer, (size_t)count, err) !=
		    0)
			return -1;
		atomic_fetch_add(&copying->progress.bytes, (uint64_t)count);
	}
	return count == 0 ? 0 : err_errno(err, "cannot read it");
}

/* What was read is one state of the file. */
static int check_unchanged(int from, const struct stat *before, struct err *err)
{
	struct blob_fingerprint was, is;
	struct stat after;

	if (fstat(from, &after) != 0)
		return err_errno(err, "cannot look at it");
	blob_fingerprint_of(before, &was);
	blob_fingerprint_of(&after, &is);
	if (blob_fingerprint_same(&was, &is))
		return 0;
	err_set(err, ERR_CONFLICT, "it changed while it was copied");
	return err_remedy(err, "repeat");
}

static int replicate_blobs_receive_file(struct copying *copying, const char *id, int from,
					struct written *written,
					const struct stat *source, struct err *err)
{
	struct blob_arrival arrival = { 0 };
	const struct blob_incoming_request request = {
		.root = copying->to,
		.kind = &copying->to_kind,
		.id = id,
		.size = (uint64_t)source->st_size
	};

	if (blob_incoming_open(&request, &arrival.incoming, err) != 0)
		return -1;
	if (write_all(copying, from, arrival.incoming, err) != 0 ||
	    check_unchanged(from, source, err) != 0 ||
	    blob_incoming_digest(arrival.incoming, written->digest, err) != 0) {
		blob_incoming_close(arrival.incoming, true);
		return -1;
	}
	written->id = id;
	written->mtime = source->st_mtim;
	written->size = (uint64_t)source->st_size;
	vec_add(&copying->arrivals, arrival);
	vec_add(&copying->written, *written);
	copying->waiting += written->size;
	return 0;
}

/* Equal on disk: from now on its time says so. */
static int replicate_blobs_prove_copy(struct copying *copying,
				      const struct written *written, struct err *err)
{
	const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, written->mtime };
	char digest[BLOB_DIGEST_SIZE];
	struct blob_fingerprint fingerprint;
	struct stat st;
	AUTO_CLOSE int fd = -1;

	if (blob_open(copying->to, written->id, &fd, &st, err) != 0 ||
	    blob_digest(fd, &fingerprint, digest, copying->blobs->stop, err) != 0)
		return -1;
	if (strcmp(digest, written->digest) != 0)
		return err_set(err, ERR_CORRUPT, "what was written is not what is read");
	return futimens(fd, times) == 0 ? 0 : err_errno(err, "cannot set its time");
}

static int replicate_blobs_commit_arrivals(struct copying *copying, struct err *err)
{
	struct replicate_blobs *blobs = copying->blobs;
	size_t count = copying->written.count;
	int result = 0;

	if (count > 0)
		result = blob_arrivals_commit(copying->to, &copying->arrivals, err);
	for (size_t i = 0; i < count && result == 0; i++) {
		const struct written *one = &copying->written.items[i];
		struct err why = copying->arrivals.items[i].why;
		if (copying->arrivals.items[i].failed ||
		    replicate_blobs_prove_copy(copying, one, &why) != 0) {
			complain_failed(copying, one->id, "failed", &why);
			continue;
		}
		blobs->updated += one->was_there;
		blobs->created += !one->was_there;
		blobs->bytes += one->size;
	}
	vec_clear(&copying->arrivals);
	vec_clear(&copying->written);
	copying->waiting = 0;
	return result;
}

static int copy_one(struct copying *copying, const struct source_file *file,
		    struct err *err)
{
	struct written written = { 0 };
	struct stat source;
	AUTO_CLOSE int from = -1;
	int current;

	if (blob_open(copying->from, file->id, &from, &source, err) != 0)
		return -1;
	current = replicate_blobs_is_current(copying, file->id, from, &source, &written,
					     err);
	if (current < 0)
		return -1;
	if (current == 0)
		return replicate_blobs_receive_file(copying, file->id, from, &written,
						    &source, err);
	copying->blobs->unchanged++;
	atomic_fetch_add(&copying->progress.bytes, file->size);
	return 0;
}

static int replicate_blobs_copy_all(struct copying *copying, struct err *err)
{
	for (size_t i = 0; i < copying->files.count; i++) {
		const struct source_file *file = &copying->files.items[i];
		if (copy_one(copying, file, err) != 0) {
			if (err->class == ERR_CANCELED)
				return -1;
			complain_failed(copying, file->id, "failed", err);
		}
		if ((copying->written.count >= GROUP_FILES ||
		     copying->waiting >= GROUP_BYTES) &&
		    replicate_blobs_commit_arrivals(copying, err) != 0)
			return -1;
	}
	return replicate_blobs_commit_arrivals(copying, err);
}

static int replicate_blobs_compare_ids(const void *a, const void *b)
{
	const struct source_file *one = a, *other = b;

	return strcmp(one->id, other->id);
}

static int take_copy(void *arg, const char *id,
		     const struct blob_fingerprint *fingerprint, struct err *err)
{
	struct copying *copying = arg;
	char *own = xstrdup(id);
	struct source_file file = { own, fingerprint->size };

	(void)err;
	copying->copies++;
	if (copying->files.count > 0 &&
	    bsearch(&file, copying->files.items, copying->files.count, sizeof(file),
		    replicate_blobs_compare_ids))
		free(own);
	else
		vec_add(&copying->surplus, file);
	return 0;
}

/* Absence proves nothing when not all of FROM could be seen. */
static const char *replicate_blobs_refuse_deletion(const struct copying *copying)
{
	if (copying->hides_names || copying->blobs->failed > 0)
		return "not all of FROM could be read, so that absence proves nothing";
	if (copying->blobs->is_forced)
		return NULL;
	if (copying->files.count == 0)
		return "FROM has no file at all: is its disk mounted?";
	if (hold_limit_stops(HOLD_REPLICABLES, copying->surplus.count, copying->copies))
		return "very many files would be deleted at once";
	return NULL;
}

static void delete_surplus(struct copying *copying)
{
	struct replicate_blobs *blobs = copying->blobs;
	const char *why = replicate_blobs_refuse_deletion(copying);
	struct err err;

	for (size_t i = 0; i < copying->surplus.count; i++) {
		const char *id = copying->surplus.items[i].id;
		if (why) {
			err_set(&err, ERR_CONFLICT, "not deleted: %s", why);
			err_remedy(&err, "look at it; repeat with --force to delete them "
					 "all the same");
			blobs->held++;
			replicate_blobs_report_problem(id, "held", &err);
		} else if (stop_is_requested(blobs->stop)) {
			return;
		} else if (blob_discard(copying->to, id, &err) == 0 ||
			   err.class == ERR_MISSING) {
			blobs->deleted++;
		} else {
			complain_failed(copying, id, "failed", &err);
		}
	}
}

static int compare_absence(struct copying *copying, struct err *err)
{
	const struct blob_visitor visitor = { .file = take_copy, .arg = copying };

	if (blob_walk(&copying->to_kind, &visitor, copying->blobs->stop, err) != 0)
		return -1;
	if (copying->blobs->deletes)
		delete_surplus(copying);
	else
		copying->blobs->only_in_to = copying->surplus.count;
	return 0;
}

static int replicate_blobs_run_copying(struct copying *copying, struct err *err)
{
	const struct blob_visitor visitor = { .file = take_file,
					      .finding = take_finding,
					      .arg = copying };
	uint64_t bytes = 0;
	int result;

	copying->from = blob_root_open(&copying->from_kind, err);
	if (copying->from < 0)
		return -1;
	copying->to = blob_root_open(&copying->to_kind, err);
	if (copying->to < 0)
		return -1;
	blob_incoming_expire(&copying->to_kind, BLOB_INCOMING_KEEP_MS);
	if (blob_walk(&copying->from_kind, &visitor, copying->blobs->stop, err) != 0)
		return -1;
	copying->blobs->all = copying->files.count;
	for (size_t i = 0; i < copying->files.count; i++)
		bytes += copying->files.items[i].size;
	progress_start_bytes(&copying->progress, bytes, copying->blobs->progress);
	result = replicate_blobs_copy_all(copying, err);
	progress_stop(&copying->progress);
	return result == 0 ? compare_absence(copying, err) : -1;
}

static void replicate_blobs_clear_copying(struct copying *copying)
{
	for (size_t i = 0; i < copying->arrivals.count; i++)
		blob_incoming_close(copying->arrivals.items[i].incoming, true);
	vec_clear(&copying->arrivals);
	vec_clear(&copying->written);
	for (size_t i = 0; i < copying->files.count; i++)
		free(copying->files.items[i].id);
	vec_clear(&copying->files);
	for (size_t i = 0; i < copying->surplus.count; i++)
		free(copying->surplus.items[i].id);
	vec_clear(&copying->surplus);
	free(copying->buffer);
	if (copying->from >= 0)
		close(copying->from);
	if (copying->to >= 0)
		close(copying->to);
}

int replicate_blobs_run(struct replicate_blobs *blobs, struct err *err)
{
	char type[] = "blobs";
	struct copying copying = { .blobs = blobs,
				   .from_kind = { .type = type, .path = blobs->from },
				   .to_kind = { .type = type, .path = blobs->to },
				   .from = -1,
				   .to = -1,
				   .buffer = xmalloc(BLOCK) };
	int64_t started = clock_boot_ms();
	int result;

	trash_expire(blobs->to);
	result = replicate_blobs_run_copying(&copying, err);
	replicate_blobs_clear_copying(&copying);
	blobs->took_ms = clock_boot_ms() - started;
	return result;
}

static int replicate_blobs_resolve_path(const char *path, char **absolute,
					struct err *err)
{
	*absolute = realpath(path, NULL);
	return *absolute ? 0 : err_errno(err, "--blobs: cannot find %s", path);
}

static int check_pair(const char *from, const char *to, struct err *err)
{
	if (!path_is_below(from, to) && !path_is_below(to, from))
		return 0;
	err_set(err, ERR_CONFIG, "--blobs: FROM and TO lie inside each other: %s, %s",
		from, to);
	return err_remedy(err, "choose directories of which none is above the other");
}

int replicate_blobs_open(struct replicate_blobs *blobs, struct err *err)
{
	const char *equals = strchr(blobs->pair, '=');
	AUTO_FREE char *from = NULL;

	if (!equals || equals == blobs->pair || !equals[1]) {
		err_set(err, ERR_CONFIG, "--blobs takes FROM=TO, not \"%s\"",
			blobs->pair);
		return err_remedy(err, "name two directories");
	}
	from = xstrndup(blobs->pair, (size_t)(equals - blobs->pair));
	if (replicate_blobs_resolve_path(from, &blobs->from, err) != 0)
		return -1;
	AUTO_FREE char *to = path_resolve(equals + 1);
	/* before anything is made in FROM; a relative TO is known only when it is there
	 */
	if (check_pair(blobs->from, to, err) != 0 ||
	    dir_make(AT_FDCWD, equals + 1, err) != 0 ||
	    replicate_blobs_resolve_path(equals + 1, &blobs->to, err) != 0)
		return -1;
	return check_pair(blobs->from, blobs->to, err);
}

static int replicate_blobs_check_apart(const char *to, const char *other, struct err *err)
{
	if (!path_is_below(to, other) && !path_is_below(other, to))
		return 0;
	err_set(err, ERR_CONFIG,
		"--blobs: TO lies inside another directory of this run, "
		"or that in it: %s, %s",
		to, other);
	return err_remedy(err, "choose a directory of its own for each TO");
}

/* --delete takes away what it does not know: the other directory's files would be that.
 */
int replicate_blobs_check(const struct replicate_blobs *all, size_t count,
			  const char *directory, struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		if (directory &&
		    replicate_blobs_check_apart(all[i].to, directory, err) != 0)
			return -1;
		for (size_t k = 0; k < count; k++)
			if (k != i &&
			    (replicate_blobs_check_apart(all[i].to, all[k].from, err) !=
				     0 ||
			     replicate_blobs_check_apart(all[i].to, all[k].to, err) != 0))
				return -1;
	}
	return 0;
}

void replicate_blobs_clear(struct replicate_blobs *blobs)
{
	free(blobs->from);
	free(blobs->to);
}

#define TRIES 3
/* For how long a ref that moved is worth another try; a lock that others hold has been
 * waited for by then. */
#define PATIENCE_MS 5000
#define SYNC_TIMEOUT_MS ((int64_t)3 * 3600 * 1000)

static int replicate_run_move_row(struct item *item, enum registry_event event,
				  const char *text, struct err *err)
{
	struct registry_move move = {
		.id = replicable_id(KIND_REPOSITORY, item->name),
		.event = event,
		.generation = 1,
		.timeout_ms = SYNC_TIMEOUT_MS,
		.checksum = text,
		.held_reason = text,
		.err = &item->err,
	};

	return registry_move(item->run->registry, &move, err);
}

/* The way of a row whose copy is equal: brought, then proved. */
static int record_equal(struct item *item, const struct checksum *sum, struct err *err)
{
	char text[CHECKSUM_TEXT_SIZE];

	if (replicate_run_move_row(item, REGISTRY_BROUGHT, NULL, err) != 0)
		return -1;
	if (!sum)
		return 0; /* proved in an earlier run */
	checksum_format(sum, text);
	return replicate_run_move_row(item, REGISTRY_PROVED, text, err);
}

static void replicate_run_remember_result(struct item *item,
					  const struct sync_result *result)
{
	checksum_format(&result->sum, item->checksum);
	memcpy(item->timeline, result->timeline, sizeof(item->timeline));
	item->generation = result->generation;
}

static int record_result(struct item *item, struct sync_result *result, struct err *err)
{
	static const enum item_end ends[] = {
		[SYNC_UNCHANGED] = ITEM_UNCHANGED,
		[SYNC_CREATED] = ITEM_CREATED,
		[SYNC_UPDATED] = ITEM_UPDATED,
		[SYNC_HELD] = ITEM_HELD,
	};

	item->end = ends[result->outcome];
	item->refs_changed = result->refs_changed;
	item->bytes = result->bytes;
	if (result->outcome != SYNC_HELD) {
		replicate_run_remember_result(item, result);
		return record_equal(item, &result->sum, err);
	}
	item->reason = TAKE(result->held_reason);
	return replicate_run_move_row(item, REGISTRY_HELD, item->reason, err);
}

/* A lost lease or a ref that moved is worth another try at once; other failures are
 * for the next run. */
static int run_job(struct item *item, struct sync_call *call, struct err *err)
{
	struct replicate_run *run = item->run;
	struct job_request request = {
		.leases = run->data.leases,
		.kind = KIND_REPOSITORY,
		.name = item->name,
		.operation = "sync",
		.fence_floor = sync_fence_floor(run->dest_root, item->name),
		.wait_ms = LEASE_WAIT_MS,
		.timeout_ms = SYNC_TIMEOUT_MS,
		.stop = &run->stop,
		.bytes = &run->progress.bytes,
		.run = sync_job,
		.arg = call,
	};

	int64_t until = clock_boot_ms() + PATIENCE_MS;
	for (int tries = 1;; tries++) {
		if (job_run(&request, err) == 0)
			return 0;
		bool again = err->class == ERR_LOST ||
			     (err->class == ERR_CONFLICT && clock_boot_ms() < until);
		if (!again || tries == TRIES)
			return -1;
	}
}

static bool replicate_run_is_current(const struct item *item)
{
	const struct sync_request request = { .source = item->run->source,
					      .root = item->run->dest_root,
					      .name = item->name };
	const struct sync_reported reported = { .checksum = item->checksum[0]
								    ? item->checksum
								    : NULL,
						.timeline = item->timeline,
						.generation = item->generation };

	return item->run->primary ? sync_is_recorded(&request, &reported)
				  : sync_is_current(&request);
}

static int replicate_run_sync_item(struct item *item, struct err *err)
{
	struct replicate_run *run = item->run;
	struct sync_call call = { .request = { .source = run->source,
					       .root = run->dest_root,
					       .name = item->name,
					       .is_forced = run->options.is_forced } };
	int result;

	if (replicate_run_move_row(item, REGISTRY_BEGUN, NULL, err) != 0)
		return -1;
	if (replicate_run_is_current(item)) {
		item->end = ITEM_UNCHANGED;
		return record_equal(item, NULL, err);
	}
	result = run_job(item, &call, err);
	if (result == 0)
		result = record_result(item, &call.result, err);
	free(call.result.held_reason);
	return result;
}

static void replicate_run_sync_task(void *arg)
{
	struct item *item = arg;

	if (stop_is_requested(&item->run->stop))
		return;
	if (replicate_run_sync_item(item, &item->err) != 0) {
		if (item->err.class == ERR_CANCELED)
			return;
		item->end = ITEM_FAILED;
		replicate_run_move_row(item, REGISTRY_ERRED, NULL, ERR_IGNORED);
	}
	progress_add(&item->run->progress);
}

/* A copy that was written a moment ago has stamps too young to prove anything. By now
 * they are older: reading both sides once more makes the next run cheap. */
static void replicate_run_settle_task(void *arg)
{
	struct item *item = arg;

	if (!stop_is_requested(&item->run->stop))
		replicate_run_is_current(item);
}

static void replicate_run_sync_all(struct replicate_run *run)
{
	struct pool *pool = pool_start("sync", run->options.jobs);

	progress_start(&run->progress, run->items.count, run->options.progress);
	for (size_t i = 0; i < run->items.count; i++)
		pool_submit(pool, replicate_run_sync_task, &run->items.items[i]);
	pool_drain(pool);
	for (size_t i = 0; i < run->items.count; i++)
		if (run->items.items[i].end == ITEM_CREATED ||
		    run->items.items[i].end == ITEM_UPDATED)
			pool_submit(pool, replicate_run_settle_task,
				    &run->items.items[i]);
	pool_drain(pool);
	pool_stop(pool, NULL);
	progress_stop(&run->progress);
}

/* The repositories below a directory. */
static int replicate_run_list_directory(struct replicate_run *run, struct err *err)
{
	if (discover(run->source_root, &run->there, err) != 0)
		return -1;
	for (size_t i = 0; i < run->there.found.count; i++) {
		struct item item = { .run = run, .name = run->there.found.items[i].name };
		vec_add(&run->items, item);
	}
	run->source = source_new_directory(run->source_root, &run->there);
	return 0;
}

static int list_primary(struct replicate_run *run, struct err *err)
{
	if (replicate_open_primary(run, err) != 0)
		return -1;
	run->source = source_new_primary(run->primary, SYNC_TIMEOUT_MS, &run->stop);
	return 0;
}

/* A row for each repository of the source. */
static int replicate_run_add_rows(struct replicate_run *run, struct err *err)
{
	VEC(const char *) names = { 0 };
	int result;

	for (size_t i = 0; i < run->items.count; i++)
		vec_add(&names, run->items.items[i].name);
	result = registry_add(run->registry, KIND_REPOSITORY, names.items, names.count,
			      err);
	vec_clear(&names);
	return result;
}

static int replicate_run_open_all(struct replicate_run *run, struct err *err)
{
	AUTO_FREE char *own = NULL;

	bool is_url = replicate_is_url(run->options.source);
	if (replicate_open_roots(run, err) != 0 ||
	    (is_url ? list_primary(run, err) : replicate_run_list_directory(run, err)) !=
		    0 ||
	    discover(run->dest_root, &run->here, err) != 0)
		return -1;
	own = xasprintf("%s/" OWN_FOLDER, run->dest_root);
	if (site_data_open(own, &run->data, err) != 0 ||
	    site_store_open(NULL, &run->registry, err) != 0)
		return -1;
	staging_clear(run->data.leases, run->dest_root);
	trash_expire(run->dest_root);
	return 0;
}

static int open_blobs(struct replicate_run *run, struct err *err)
{
	for (size_t i = 0; i < run->blobs.count; i++) {
		struct replicate_blobs *blobs = &run->blobs.items[i];
		blobs->deletes = run->options.deletes;
		blobs->is_forced = run->options.is_forced;
		blobs->progress = run->options.progress;
		blobs->stop = &run->stop;
		if (replicate_blobs_open(blobs, err) != 0)
			return -1;
	}
	return 0;
}

static int replicate_run_check_blobs(const struct replicate_run *run, struct err *err)
{
	const struct replicate_blobs *all = run->blobs.items;
	size_t count = run->blobs.count;

	if (replicate_blobs_check(all, count, run->source_root, err) != 0)
		return -1;
	return replicate_blobs_check(all, count, run->dest_root, err);
}

int replicate_run(struct replicate_run *run, struct err *err)
{
	int64_t started = clock_boot_ms();

	if (open_blobs(run, err) != 0 || replicate_run_open_all(run, err) != 0 ||
	    replicate_run_check_blobs(run, err) != 0 ||
	    replicate_run_add_rows(run, err) != 0)
		return -1;
	replicate_run_sync_all(run);
	if (!stop_is_requested(&run->stop))
		replicate_delete(run);
	for (size_t i = 0; i < run->blobs.count; i++)
		if (replicate_blobs_run(&run->blobs.items[i], err) != 0 &&
		    !stop_is_requested(&run->stop))
			return -1;
	run->took_ms = clock_boot_ms() - started;
	return 0;
}

void replicate_run_clear(struct replicate_run *run)
{
	for (size_t i = 0; i < run->items.count; i++)
		free(run->items.items[i].reason);
	vec_clear(&run->items);
	for (size_t i = 0; i < run->blobs.count; i++)
		replicate_blobs_clear(&run->blobs.items[i]);
	vec_clear(&run->blobs);
	source_free(run->source);
	primary_close(run->primary);
	store_close(run->registry);
	site_data_close(&run->data);
	discovery_clear(&run->there);
	discovery_clear(&run->here);
	free(run->source_root);
	free(run->dest_root);
}
