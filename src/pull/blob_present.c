/*
 * A file that is there already, and has the content that is wanted, is not transferred:
 * after a restore from a backup, a copy by other means, or when only the row was lost.
 * Whoever put it there may not have waited until it was on disk, or was killed before: so
 * we do.
 */
#include "blob/flush.h"
#include "pull/blob_work.h"
#include "pull/decisions.h"

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
	if (blob_digest(fd, &item->print, digest, &work->pull->kill, err) != 0)
		return err->class == ERR_CANCELED ? -1 : 0;
	item->size = item->print.size;
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
		else if (may_be_here(work, item))
			wait_for_checksum(work, item);
	}
	blob_present_make_durable(work);
}
