/*
 * libFuzzer: any body of a batch is answered or refused; who may is decided by the
 * operation that is then carried out; and any answer of a primary is taken or refused.
 */
#include <assert.h>

#include "git/lfs_pointer.h"
#include "web/lfs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_items(const struct lfs_batch *batch)
{
	for (size_t i = 0; i < batch->items.count; i++) {
		const struct lfs_item *item = &batch->items.items[i];
		assert(item->code ? item->message != NULL : lfs_oid_is_valid(item->oid));
		assert(item->size <= INT64_MAX);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_LFS_BATCH struct lfs_batch batch;
	const char *text = (const char *)data;
	struct lfs_item own = { .oid = xstrdup("x") };
	struct lfs_item *const items[] = { &own };
	struct err err;
	int status;

	if (lfs_batch_read(text, len, &batch, &status, &err) == 0) {
		assert(lfs_batch_operation(text, len) == batch.operation);
		assert(batch.items.count <= LFS_BATCH_MAX);
		check_items(&batch);
		json_decref(lfs_batch_answer(&batch, "http://x"));
	} else {
		assert(status >= 400);
	}
	if (lfs_batch_take_answer(text, len, items, 1, &err) == 0)
		assert(!own.is_offered || !own.code);
	lfs_item_clear(&own);
	return 0;
}
