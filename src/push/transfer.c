#include "push/transfer.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "push/outcome.h"
#include "push/transfer_run.h"

#define LOOKS 4            /* the first, and three more when it changes meanwhile */
#define LEASES 1000        /* in one push: they are arguments */
#define LEASE_BYTES 500000 /* of 2 MiB that Linux allows with the usual stack */
#define LEASE_OVERHEAD 128 /* of an argument: option, value, the deletion, pointers */

int transfer_read(struct transfer *transfer, struct err *err)
{
	const char *path = transfer->request->repository;

	ref_reading_clear(&transfer->local);
	if (ref_reading_take_refs(AT_FDCWD, path, &transfer->local, err) == 0)
		return 0;
	return outcome_is_local(err, path);
}

/* Children obey by themselves; this is for the time between two. */
static int transfer_check_limits(const struct transfer *transfer, struct err *err)
{
	const struct git_work *work = transfer->request->work;

	if (work->stop && stop_is_requested(work->stop))
		return err_set(err, ERR_CANCELED, "the push was stopped");
	if (work->deadline && deadline_at(work->deadline) <= clock_boot_ms())
		return err_set(err, ERR_LOST, "the lease was lost");
	return 0;
}

/* How many of the items from `from` on go into one push. */
static size_t batch_of(const struct transfer *transfer, const push_items *items,
		       size_t from)
{
	bool has_leases = items->items[from]->state == ITEM_LEASED;
	size_t limit = transfer->remote->batch_size, count = 0, bytes = 0;

	if (limit == 0)
		limit = SIZE_MAX;
	if (has_leases && limit > LEASES)
		limit = LEASES;
	while (count < limit && from + count < items->count) {
		bytes += 2 * strlen(items->items[from + count]->result.dst) +
			 LEASE_OVERHEAD;
		if (has_leases && count > 0 && bytes > LEASE_BYTES)
			break;
		count++;
	}
	return count;
}

static int push_in_batches(struct transfer *transfer, const push_items *items,
			   struct err *err)
{
	push_items batch;

	for (size_t from = 0; from < items->count; from += batch.count) {
		batch = (push_items){ .items = items->items + from };
		batch.count = batch_of(transfer, items, from);
		if (transfer_check_limits(transfer, err) != 0 ||
		    transfer_push(transfer, &batch, err) != 0)
			return -1;
	}
	return 0;
}

static void transfer_collect_items(const struct transfer *transfer, enum item_state state,
				   bool is_deletion, push_items *items)
{
	for (size_t i = 0; i < transfer->items.count; i++) {
		struct push_item *item = &transfer->items.items[i];
		if (item->state == state && item->result.is_deletion == is_deletion)
			vec_add(items, item);
	}
}

static int push_state(struct transfer *transfer, enum item_state state, struct err *err)
{
	push_items items = { 0 };
	int status;

	transfer_collect_items(transfer, state, true, &items); /* they make room */
	transfer_collect_items(transfer, state, false, &items);
	status = push_in_batches(transfer, &items, err);
	vec_clear(&items);
	return status;
}

static bool is_any_leased(const struct transfer *transfer)
{
	for (size_t i = 0; i < transfer->items.count; i++)
		if (transfer->items.items[i].state == ITEM_LEASED)
			return true;
	return false;
}

/* The look comes before the reading: whatever the destination has got from us by then was
 * read earlier still, so what we push now is as new at least. */
static int look_and_read(struct transfer *transfer, struct err *err)
{
	if (transfer_check_limits(transfer, err) != 0 ||
	    transfer_look(transfer, err) != 0 || transfer_read(transfer, err) != 0)
		return -1;
	transfer_renew(transfer);
	return 0;
}

static int push_leased(struct transfer *transfer, struct err *err)
{
	for (int looks = 0; looks < LOOKS && is_any_leased(transfer); looks++) {
		if ((!transfer->is_seen || transfer->is_stale) &&
		    look_and_read(transfer, err) != 0)
			return -1;
		transfer->is_stale = false;
		transfer_compare(transfer);
		failpoint("transfer.compared");
		if (push_state(transfer, ITEM_LEASED, err) != 0)
			return -1;
	}
	return 0;
}

/* A full one looks before all else, and pushes only what differs. */
static int transfer_prepare(struct transfer *transfer, struct err *err)
{
	const struct transfer_request *request = transfer->request;

	if (transfer_read(transfer, err) != 0)
		return -1;
	if (view_create(request->directory, request->repository, transfer->local.oid_len,
			&transfer->view, err) != 0)
		return -1;
	if (transfer->is_all &&
	    (transfer_look(transfer, err) != 0 || transfer_read(transfer, err) != 0))
		return -1;
	transfer_plan(transfer);
	return 0;
}

static int transfer_prepare_and_push(struct transfer *transfer, struct err *err)
{
	if (transfer_prepare(transfer, err) != 0 ||
	    push_state(transfer, ITEM_PLAIN, err) != 0)
		return -1;
	return push_leased(transfer, err);
}

static void give_result(struct push_item *item, struct transfer_result *result)
{
	if (item->state == ITEM_DROPPED)
		return;
	if (item->state != ITEM_DONE && !item->result.text) {
		item->result.status = REF_NOT_ATTEMPTED;
		item->result.is_transient = true;
	}
	vec_add(&result->refs, item->result);
	item->result = (struct ref_result){ 0 };
}

/* Whether nothing but broken objects here stood against it. */
static bool is_all_local_fault(const struct transfer *transfer)
{
	for (size_t i = 0; i < transfer->items.count; i++)
		if (!transfer->items.items[i].is_unreadable)
			return false;
	return transfer->local_fault.class != ERR_NONE;
}

int transfer_run(const struct transfer_request *request, struct transfer_result *result,
		 struct err *err)
{
	struct transfer transfer = {
		.request = request,
		.result = result,
		.remote = request->destination->remote,
		.view = VIEW_INIT,
		.is_all = request->refs->count == 1 &&
			  strcmp(request->refs->items[0], TASK_ALL_REFS) == 0,
	};
	int status;

	*result = (struct transfer_result){ 0 };
	transfer_open(&transfer);
	status = transfer_prepare_and_push(&transfer, err);
	if (status == 0 && is_all_local_fault(&transfer)) {
		*err = transfer.local_fault;
		status = -1;
	}
	for (size_t i = 0; i < transfer.items.count; i++)
		give_result(&transfer.items.items[i], result);
	transfer_close(&transfer);
	return status;
}

void ref_results_clear(ref_results *results)
{
	for (size_t i = 0; i < results->count; i++) {
		free(results->items[i].ref);
		free(results->items[i].dst);
		free(results->items[i].text);
	}
	vec_clear(results);
}

void transfer_result_clear(struct transfer_result *result)
{
	ref_results_clear(&result->refs);
	*result = (struct transfer_result){ 0 };
}
