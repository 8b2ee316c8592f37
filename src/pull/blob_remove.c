/*
 * Blobs that the primary has no more: files into the trash, rows out, under the brake of
 * their kind.
 */
#include "base/failpoint.h"
#include "base/log.h"
#include "pull/blob_work.h"
#include "upkeep/removal.h"

static size_t count_gone(const struct blob_work *work)
{
	size_t count = 0;

	for (size_t i = 0; i < work->count; i++)
		count += work->items[i].end == BLOB_OPEN && work->items[i].row->is_gone;
	return count;
}

static void fail_gone(struct blob_work *work, const struct err *why)
{
	for (size_t i = 0; i < work->count; i++)
		if (work->items[i].end == BLOB_OPEN && work->items[i].row->is_gone)
			blob_item_fail_here(&work->items[i], why);
}

/* The brake holds those that nobody works on: ours are given back, then asked about. */
static void blob_remove_hold_back(struct blob_work *work, struct err *err)
{
	VEC(struct registry_move) moves = { 0 };
	enum registry_result *results;
	bool may;

	for (size_t i = 0; i < work->count; i++) {
		struct blob_item *item = &work->items[i];
		if (item->end != BLOB_OPEN || !item->row->is_gone)
			continue;
		vec_add(&moves,
			((struct registry_move){ .id = item->row->id,
						 .event = REGISTRY_DEFERRED,
						 .timeout_ms = PULL_BRAKE_AGAIN_MS }));
		item->end = BLOB_HELD; /* there is nothing more to say of it */
	}
	results = xcalloc(moves.count, sizeof(*results));
	if (registry_move_many(work->pull->options.store, moves.items, moves.count,
			       results, err) != 0 ||
	    pull_may_remove(work->pull, work->kind->type, &may, err) != 0)
		log_error("registry.failed", LOG_ERR(err));
	free(results);
	vec_clear(&moves);
}

/* Since it was claimed it may be wanted again. arg: the item's work */
static int blob_remove_check_gone(struct store_tx *tx, void *arg, struct err *err)
{
	struct blob_work *work = arg;

	for (size_t i = 0; i < work->count; i++) {
		struct blob_item *item = &work->items[i];
		AUTO_REGISTRY_ROW struct registry_row row = { 0 };
		struct err why;
		if (item->end != BLOB_OPEN || !item->row->is_gone)
			continue;
		if (registry_get_in(tx, work->kind->type, item->row->name, &row, err) < 0)
			return -1;
		if (row.is_gone)
			continue;
		err_set(&why, ERR_LOST, "%s is wanted again", item->row->name);
		blob_item_fail(item, &why);
	}
	return 0;
}

static void blob_remove_discard_item(const struct blob_work *work, struct blob_item *item)
{
	struct err err;

	if (blob_item_lease(work, item, "remove") != 0)
		return;
	if (blob_discard(work->root, item->row->name, &err) == 0 ||
	    err.class == ERR_MISSING)
		item->end = BLOB_REMOVED;
	else
		blob_item_fail_here(item, &err);
}

/* A row that is wanted by now stays, as one of which nothing is here. */
static int remove_rows(struct store_tx *tx, void *arg, struct err *err)
{
	const struct blob_work *work = arg;
	int64_t removed = 0;

	for (size_t i = 0; i < work->count; i++) {
		if (work->items[i].end != BLOB_REMOVED)
			continue;
		int result = registry_remove_in(tx, work->items[i].row->id, err);
		if (result < 0)
			return -1;
		removed += result == 0;
	}
	return removed == 0 ? 0 : removal_note(tx, work->kind->type, removed, err);
}

/* The files are away, but the rows are not: soon again. */
static void fail_removed(struct blob_work *work, const struct err *why)
{
	for (size_t i = 0; i < work->count; i++)
		if (work->items[i].end == BLOB_REMOVED)
			blob_item_fail_here(&work->items[i], why);
}

static void blob_remove_all(struct blob_work *work)
{
	struct store *store = work->pull->options.store;
	size_t removed = 0;
	struct err err;

	if (store_read(store, blob_remove_check_gone, work, &err) != 0) {
		fail_gone(work, &err);
		return;
	}
	for (size_t i = 0; i < work->count; i++) {
		struct blob_item *item = &work->items[i];
		if (item->end == BLOB_OPEN && item->row->is_gone)
			blob_remove_discard_item(work, item);
		removed += item->end == BLOB_REMOVED;
	}
	failpoint("removal.trashed");
	if (store_write(store, remove_rows, work, &err) != 0)
		fail_removed(work, &err);
	else if (removed > 0)
		log_info("blob.removed", LOG_TEXT("kind", work->kind->type),
			 LOG_NUMBER("count", removed));
}

void blob_remove_gone(struct blob_work *work)
{
	bool may = false;
	struct err err;

	if (count_gone(work) == 0)
		return;
	if (pull_may_remove(work->pull, work->kind->type, &may, &err) != 0)
		fail_gone(work, &err);
	else if (may)
		blob_remove_all(work);
	else
		blob_remove_hold_back(work, &err);
}
