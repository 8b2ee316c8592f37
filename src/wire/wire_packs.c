#include "wire/wire_packs.h"

#define PACKS "packs"
#define NAME "name"
#define BYTES "bytes"
#define INDEX_BYTES "index_bytes"
#define OBJECTS "objects"

#define PREFIX "pack-"

static const struct json_limits wire_packs_limits = { 1 << 20, 8 * WIRE_PACKS_MOST };

void wire_packs_clear(wire_packs *packs)
{
	vec_clear(packs);
}

static bool wire_pack_is_name(const char *text, size_t len)
{
	const size_t digits = len - strlen(PREFIX);

	return text_starts_with(text, PREFIX) && (digits == 40 || digits == 64) &&
	       strspn(text + strlen(PREFIX), "0123456789abcdef") == digits;
}

bool wire_pack_is_file(const char *file)
{
	const char *dot = strchr(file, '.');

	return dot && (strcmp(dot, ".pack") == 0 || strcmp(dot, ".idx") == 0) &&
	       wire_pack_is_name(file, (size_t)(dot - file));
}

json_t *wire_packs_json(const wire_packs *packs)
{
	json_t *object = json_object(), *list = json_array();

	for (size_t i = 0; i < packs->count; i++) {
		const struct wire_pack *pack = &packs->items[i];
		json_t *one = json_object();
		json_put_text(one, NAME, pack->name);
		json_put_number(one, BYTES, (int64_t)pack->bytes);
		json_put_number(one, INDEX_BYTES, (int64_t)pack->index_bytes);
		json_put_number(one, OBJECTS, (int64_t)pack->objects);
		json_array_append_new(list, one);
	}
	json_put(object, PACKS, list);
	return object;
}

static bool wire_packs_read_one(const json_t *said, struct wire_pack *pack)
{
	const char *name = json_string_value(json_object_get(said, NAME));

	if (!name || !wire_pack_is_name(name, strlen(name)))
		return false;
	memcpy(pack->name, name, strlen(name) + 1);
	return wire_get_number(said, BYTES, &pack->bytes) &&
	       wire_get_number(said, INDEX_BYTES, &pack->index_bytes) &&
	       wire_get_number(said, OBJECTS, &pack->objects);
}

static int wire_packs_add(const json_t *said, wire_packs *packs, struct err *err)
{
	struct wire_pack pack = { 0 };

	if (!wire_packs_read_one(said, &pack))
		return wire_lied(err, "a pack has no right name or size");
	if (packs->count > 0 &&
	    strcmp(packs->items[packs->count - 1].name, pack.name) >= 0)
		return wire_lied(err, "%s is not in the order of packs", pack.name);
	vec_add(packs, pack);
	return 0;
}

int wire_packs_parse(const struct str *body, wire_packs *packs, struct err *err)
{
	json_auto_t *said =
		json_parse_foreign(body->data, body->len, &wire_packs_limits, err);
	const json_t *list = json_object_get(said, PACKS);

	*packs = (wire_packs){ 0 };
	if (!json_is_array(list) || json_array_size(list) > WIRE_PACKS_MOST)
		return wire_lied(err, "it names no packs, or too many");
	for (size_t i = 0; i < json_array_size(list); i++)
		if (wire_packs_add(json_array_get(list, i), packs, err) != 0)
			return -1;
	return 0;
}
