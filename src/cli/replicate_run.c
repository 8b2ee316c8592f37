#include "cli/replicate_run.h"

#include "base/clock.h"
#include "base/file.h"
#include "job/job.h"
#include "job/pool.h"
#include "pull/sync_job.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "upkeep/trash.h"

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
	const struct sync_told told = { .checksum =
						item->checksum[0] ? item->checksum : NULL,
					.timeline = item->timeline,
					.generation = item->generation };

	return item->run->primary ? sync_is_recorded(&request, &told)
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
	    store_open("sqlite::memory:", &run->registry, err) != 0)
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
