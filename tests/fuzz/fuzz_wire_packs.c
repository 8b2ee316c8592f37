/*
 * libFuzzer: any list of packs is refused, or read; what was read names files that are in
 * no other folder, and is the same after it was rendered.
 */
#include <assert.h>

#include "wire/wire_packs.h"

static void assert_same(const wire_packs *one, const wire_packs *other)
{
	assert(one->count == other->count);
	for (size_t i = 0; i < one->count; i++) {
		AUTO_FREE char *file = xasprintf("%s.idx", one->items[i].name);
		assert(wire_pack_is_file(file));
		assert(strcmp(one->items[i].name, other->items[i].name) == 0);
		assert(one->items[i].bytes == other->items[i].bytes);
		assert(one->items[i].index_bytes == other->items[i].index_bytes);
		assert(one->items[i].objects == other->items[i].objects);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_WIRE_PACKS wire_packs packs = { 0 }, again = { 0 };
	AUTO_STR struct str body = STR_INIT, rendered = STR_INIT;
	AUTO_FREE char *file = xstrndup((const char *)data, len);
	struct err err = { 0 };

	assert(!wire_pack_is_file(file) || !strchr(file, '/'));
	str_add_bytes(&body, (const char *)data, len);
	if (wire_packs_parse(&body, &packs, &err) != 0) {
		assert(err.class == ERR_CORRUPT && err.text[0]);
		return 0;
	}
	json_auto_t *object = wire_packs_json(&packs);
	json_render(object, &rendered);
	int result = wire_packs_parse(&rendered, &again, &err);
	assert(result == 0);
	assert_same(&packs, &again);
	return 0;
}
