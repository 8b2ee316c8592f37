/*
 * libFuzzer: any page of an inventory is refused and nothing is left of it, or read; then
 * its names rise from the one that was asked for on, are valid and not too many, and
 * where it goes on is its last. The first byte says what was asked: of which kind, and
 * from where on.
 */
#include <assert.h>

#include "replicable/name.h"
#include "wire/wire_inventory.h"

static char files[] = "files", lfs[] = "lfs";
static const struct blob_kind kinds[] = {
	{ .type = files, .layout = BLOB_PLAIN },
	{ .type = lfs, .layout = BLOB_LFS },
};

static void check_item(const struct inventory_item *item, const struct blob_kind *kind)
{
	assert((kind ? blob_id_check(kind, item->name, ERR_IGNORED)
		     : name_check(item->name, ERR_IGNORED)) == 0);
	assert(wire_is_id(item->timeline) && item->generation > 0);
	assert(!item->is_unreadable || !item->checksum);
	assert(kind || item->checksum || item->is_unreadable);
	assert(!kind || !item->checksum || wire_is_digest(item->checksum));
}

static void check(const struct inventory_page *page, const struct blob_kind *kind,
		  const struct page_question *question)
{
	const char *before = question->after;

	assert(page->items.count <= question->limit && wire_is_id(page->timeline));
	for (size_t i = 0; i < page->items.count; i++) {
		check_item(&page->items.items[i], kind);
		assert(!before || strcmp(page->items.items[i].name, before) > 0);
		before = page->items.items[i].name;
	}
	assert(!page->next || strcmp(page->next, page->last) == 0);
	assert((page->skipped > 0) == (page->skipped_example != NULL));
	assert(page->last_event == 0 || wire_is_id(page->last_mark));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_STR struct str body = STR_INIT;
	struct inventory_page page;
	struct err err = { 0 };

	if (len < 1)
		return 0;
	unsigned which = data[0] % 3;
	const struct blob_kind *kind = which > 0 ? &kinds[which - 1] : NULL;
	struct page_question question = { .after = data[0] & 4 ? "b" : NULL, .limit = 3 };
	str_add_bytes(&body, data + 1, len - 1);
	const struct kind of = kind ? kind_of_blobs(kind) : kind_of_repositories(NULL);
	if (wire_inventory_parse(&body, &of, &question, &page, &err) != 0) {
		assert(err.class == ERR_CORRUPT && err.text[0]);
		assert(page.items.count == 0 && !page.next);
		return 0;
	}
	check(&page, kind, &question);
	inventory_page_clear(&page);
	return 0;
}
