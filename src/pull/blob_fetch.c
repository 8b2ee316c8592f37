/*
 * Small blobs, all in one request. When the connection breaks, what came whole is kept,
 * and the rest is asked for again. A blob that cannot be written fails by itself: its
 * bytes are read and forgotten, because the next one stands behind them.
 */
#include "pull/blob_work.h"
#include "pull/lane.h"
#include "pull/primary.h"

struct fetch {
	struct blob_work *work;
	struct blob_item **asked; /* in the order of the answer */
	const char **ids;
	size_t count, next;
	struct blob_item *now; /* NULL: its bytes are forgotten */
};

/* What the primary says of one blob in place of its bytes. */
static void blob_fetch_refuse(struct blob_item *item, const struct wire_frame *frame)
{
	struct err err;

	if (strcmp(frame->code, WIRE_TOO_LARGE) == 0) {
		item->is_large = true;
		return;
	}
	err_set(&err, wire_frame_class(frame->code), "the primary: %s",
		frame->message ? frame->message : frame->code);
	blob_item_fail(item, &err);
}

static int blob_fetch_open_incoming(const struct blob_work *work, struct blob_item *item)
{
	struct err err;

	if (blob_incoming_open(&(struct blob_incoming_request){ .root = work->root,
								.kind = work->kind,
								.id = item->row->name,
								.size = item->size },
			       &item->incoming, &err) == 0)
		return 0;
	return blob_item_fail_here(item, &err);
}

static int blob_fetch_begin_blob(void *arg, const struct wire_frame *frame,
				 struct err *err)
{
	struct fetch *fetch = arg;
	struct blob_item *item;

	fetch->now = NULL;
	if (fetch->next == fetch->count ||
	    strcmp(frame->name, fetch->ids[fetch->next]) != 0)
		return wire_lied(err, "%s is not the blob whose turn it is", frame->name);
	item = fetch->asked[fetch->next++];
	if (frame->code) {
		blob_fetch_refuse(item, frame);
		return 0;
	}
	if (frame->size > BLOB_SMALL_MOST)
		return wire_lied(err,
				 "%s has %" PRIu64 " bytes in an answer of small "
				 "ones",
				 frame->name, frame->size);
	memcpy(item->timeline, frame->timeline, sizeof(item->timeline));
	memcpy(item->expected, frame->checksum, sizeof(item->expected));
	item->generation = frame->generation;
	item->size = frame->size;
	struct err why;
	if (blob_item_check_size(item, &why) != 0)
		blob_item_fail(item, &why);
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
	    blob_incoming_write(fetch->now->incoming, bytes, len, &why) != 0) {
		blob_item_fail_here(fetch->now, &why);
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
	fetch->work->bytes += fetch->now->size;
	blob_item_judge(fetch->work, fetch->now);
	fetch->now = NULL;
	return 0;
}

static void list_open(struct fetch *fetch)
{
	struct blob_work *work = fetch->work;

	fetch->count = fetch->next = 0;
	for (size_t i = 0; i < work->count; i++) {
		struct blob_item *item = &work->items[i];
		if (item->end != BLOB_OPEN || item->is_large ||
		    fetch->count == WIRE_FRAMES_MOST)
			continue;
		fetch->asked[fetch->count] = item;
		fetch->ids[fetch->count++] = item->row->name;
	}
}

static int blob_fetch_ask_primary(struct fetch *fetch, struct err *err)
{
	const struct blob_many many = { .kind = fetch->work->kind,
					.ids = fetch->ids,
					.count = fetch->count,
					.stall_ms = BLOB_STALL_MS };
	const struct wire_frame_sink sink = { blob_fetch_begin_blob, take_bytes,
					      blob_fetch_end_blob, fetch };
	int result;

	fetch->now = NULL;
	if (blob_work_line(fetch->work, err) != 0)
		return -1;
	result = primary_blob_read_many(fetch->work->line, &many, &sink, err);
	if (fetch->now) /* half of it */
		blob_incoming_close(TAKE(fetch->now->incoming), true);
	if (result == 0 && fetch->next < fetch->count)
		return wire_lied(err, "it says nothing of %s", fetch->ids[fetch->next]);
	return result;
}

static void fail_rest(struct fetch *fetch, const struct err *why)
{
	list_open(fetch);
	for (size_t i = 0; i < fetch->count; i++)
		blob_item_fail(fetch->asked[i], why);
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

	fetch.asked = xcalloc(work->count, sizeof(*fetch.asked));
	fetch.ids = xcalloc(work->count, sizeof(*fetch.ids));
	blob_fetch_all(&fetch);
	free(fetch.asked);
	free(fetch.ids);
}
