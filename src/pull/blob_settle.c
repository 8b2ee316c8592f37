/*
 * What arrived gets its place: all of a job's blobs with as few flushes as one needs. A
 * worker that was paused for long finds its lease or its rows gone, and places nothing.
 * Small ones are then read again from the disk at once, and so are proved; large ones
 * are verified later, when their pages have left memory.
 */
#include "base/failpoint.h"
#include "pull/blob_work.h"

/* Whether the rows are still as this worker claimed them. */
static int check_claims(struct store_tx *tx, void *arg, struct err *err)
{
	struct blob_work *work = arg;

	for (size_t i = 0; i < work->count; i++) {
		struct blob_item *item = &work->items[i];
		AUTO_REGISTRY_ROW struct registry_row row = { 0 };
		struct err lost;
		if (item->end != BLOB_ARRIVED)
			continue;
		int found =
			registry_get_in(tx, work->kind->type, item->row->name, &row, err);
		if (found < 0)
			return -1;
		if (found > 0 && row.state == REGISTRY_STARTED &&
		    row.last_attempt_at == item->row->last_attempt_at)
			continue;
		err_set(&lost, ERR_LOST, "the row of %s is no longer this worker's",
			item->row->name);
		blob_item_fail(item, &lost);
	}
	return 0;
}

static void fail_arrived(struct blob_work *work, const struct err *why)
{
	for (size_t i = 0; i < work->count; i++)
		if (work->items[i].end == BLOB_ARRIVED)
			blob_item_fail_here(&work->items[i], why);
}

static void check_leases(struct blob_work *work)
{
	struct err err;

	if (work->kind->layout == BLOB_LFS)
		return;
	if (store_read(work->pull->options.store, check_claims, work, &err) != 0)
		fail_arrived(work, &err);
	for (size_t i = 0; i < work->count; i++) {
		struct blob_item *item = &work->items[i];
		if (item->end == BLOB_ARRIVED && item->lease &&
		    lease_check(item->lease, &err) != 0)
			blob_item_fail(item, &err);
	}
}

/* Of `placed`, which are the arrived ones in their order. */
static void take_results(struct blob_item **placed, const blob_arrivals *arrivals)
{
	for (size_t i = 0; i < arrivals->count; i++) {
		if (arrivals->items[i].failed)
			blob_item_fail_here(placed[i], &arrivals->items[i].why);
		else {
			placed[i]->end = BLOB_PLACED;
			placed[i]->print = arrivals->items[i].print;
		}
	}
}

static void blob_settle_place_arrived(struct blob_work *work)
{
	struct blob_item **placed = xcalloc(work->count, sizeof(struct blob_item *));
	blob_arrivals arrivals = { 0 };
	struct err err;

	for (size_t i = 0; i < work->count; i++) {
		struct blob_item *item = &work->items[i];
		if (item->end != BLOB_ARRIVED)
			continue;
		placed[arrivals.count] = item;
		vec_add(&arrivals,
			((struct blob_arrival){ .incoming = TAKE(item->incoming) }));
	}
	if (arrivals.count > 0) {
		failpoint("blob.received");
		if (blob_arrivals_commit(work->root, &arrivals, &err) == 0)
			take_results(placed, &arrivals);
		else
			fail_arrived(work, &err);
	}
	vec_clear(&arrivals);
	free(placed);
}

static int blob_settle_read_again(const struct blob_work *work,
				  const struct blob_item *item, struct err *err)
{
	char digest[BLOB_DIGEST_SIZE];
	struct blob_print print;
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (blob_open(work->root, item->row->name, &fd, &st, err) != 0 ||
	    blob_digest(fd, &print, digest, &work->pull->kill, err) != 0)
		return -1;
	if (strcmp(digest, item->digest) == 0)
		return 0;
	err_set(err, ERR_CORRUPT, "%s: what is on the disk is not what was written",
		item->row->name);
	return err_remedy(err,
			  "see whether this machine's disk fails, or who else writes "
			  "there");
}

static void prove_small(struct blob_work *work)
{
	for (size_t i = 0; i < work->count; i++) {
		struct blob_item *item = &work->items[i];
		struct err err;
		if (item->end != BLOB_PLACED || item->is_large || !item->expected[0])
			continue;
		item->is_proved = blob_settle_read_again(work, item, &err) == 0;
		if (!item->is_proved && err.class != ERR_CANCELED)
			blob_item_fail_here(item, &err);
	}
}

void blob_settle(struct blob_work *work)
{
	check_leases(work);
	blob_settle_place_arrived(work);
	prove_small(work);
}
