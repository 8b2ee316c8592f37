/*
 * A large blob, in ranges over one connection. Each range names the version that the
 * first one was of (If-Match), so that what is put together is of one version; what an
 * earlier try left of that very version is continued.
 */
#include "base/failpoint.h"
#include "base/log.h"
#include "pull/blob_work.h"
#include "pull/primary.h"

#define RANGE ((uint64_t)64 << 20)
/* Changed at the primary while it was brought: begun anew so often. */
#define VERSIONS_MOST 3
#define VERSION_SIZE 48

struct large {
	struct blob_work *work;
	struct blob_item *item;
	char version[VERSION_SIZE]; /* "": not known yet */
	bool is_to_resume;          /* more is here than the request knew */
	unsigned breaks, versions;
};

static void set_version(struct large *large, const char *timeline, uint64_t generation)
{
	snprintf(large->version, sizeof(large->version), "%s-%" PRIu64, timeline,
		 generation);
}

static int blob_large_open_incoming(struct large *large, uint64_t size, struct err *err)
{
	const struct blob_incoming_request request = { .root = large->work->root,
						       .kind = large->work->kind,
						       .id = large->item->row->name,
						       .size = size > 0 ? size
									: UINT64_MAX,
						       .resume = large->version };

	return blob_incoming_open(&request, &large->item->incoming, err);
}

static uint64_t here(const struct large *large)
{
	return large->item->incoming ? blob_incoming_size(large->item->incoming) : 0;
}

static void blob_large_keep_head(struct blob_item *item, const struct blob_head *head)
{
	memcpy(item->timeline, head->timeline, sizeof(item->timeline));
	memcpy(item->expected, head->checksum, sizeof(item->expected));
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
	if (large->item->incoming)
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
	if (blob_incoming_write(large->item->incoming, bytes, len, err) != 0)
		return not_missing(err);
	large->work->bytes += len;
	return 0;
}

static int blob_large_ask_range(struct large *large, struct err *err)
{
	const struct blob_part part = { .kind = large->work->kind,
					.id = large->item->row->name,
					.offset = here(large),
					.length = RANGE,
					.version =
						large->version[0] ? large->version : NULL,
					.stall_ms = BLOB_STALL_MS };
	const struct blob_part_sink sink = { blob_large_take_bytes, large };

	large->item->timeline[0] = '\0'; /* the head of this answer counts */
	if (blob_work_line(large->work, err) != 0)
		return -1;
	return primary_blob_read(large->work->line, &part, &sink, err);
}

/* It is another version by now: what is here is of no use. */
static void blob_large_begin_anew(struct large *large)
{
	blob_incoming_close(TAKE(large->item->incoming), true);
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
	return large->item->timeline[0] && large->item->incoming &&
	       here(large) == large->item->size;
}

static int blob_large_fetch_ranges(struct large *large, struct err *err)
{
	while (!is_whole(large)) {
		const uint64_t before = here(large);
		int result = blob_large_ask_range(large, err);
		if (result == 0 && here(large) <= before)
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
	struct blob_item *item = large->item;

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
		blob_item_expect(large->work, item, item->expected);
	}
	return 0;
}

void blob_fetch_large(struct blob_work *work, struct blob_item *item)
{
	struct large large = { .work = work, .item = item };
	struct err err;

	if (blob_large_resume_version(&large, &err) != 0) {
		blob_item_fail_here(item, &err);
		return;
	}
	if (blob_large_fetch_ranges(&large, &err) != 0) {
		/* Who does not know ranges can send all of it, if it is begun anew. */
		if (err.class == ERR_CORRUPT)
			blob_incoming_close(TAKE(item->incoming), true);
		blob_item_fail(item, &err);
		return;
	}
	blob_item_judge(work, item);
}
