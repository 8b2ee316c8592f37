/*
 * A HashSet has 16 buckets, doubled whenever more than 3/4 as many texts are in it.
 * String.hashCode(), over UTF-16 units, says which bucket; texts of one bucket stand in
 * the order in which they came, which doubling keeps. (Nine texts in one bucket would
 * become a tree, in yet another order: that costs a second task for the same work, and no
 * real refs do it.)
 */
#include "push/java_order.h"

#include "base/map.h"

struct placed {
	char *name;
	size_t bucket, number;
};

/* The code point at *text, which moves behind it. Only well-formed names come into a
 * task; what others give does not matter, but must end. */
static uint32_t next_code_point(const char **text)
{
	const unsigned char *at = (const unsigned char *)*text;
	size_t more = *at < 0xc0 ? 0 : *at < 0xe0 ? 1 : *at < 0xf0 ? 2 : 3;
	uint32_t code = more ? *at & (0x3fU >> more) : *at;

	for (at++; more > 0 && (*at & 0xc0) == 0x80; more--)
		code = code << 6 | (*at++ & 0x3fU);
	*text = (const char *)at;
	return code;
}

static uint32_t java_hash(const char *text)
{
	uint32_t hash = 0;

	while (*text) {
		uint32_t code = next_code_point(&text);
		if (code >= 0x10000) {
			hash = 31 * hash + 0xd800 + ((code - 0x10000) >> 10);
			code = 0xdc00 + ((code - 0x10000) & 0x3ff);
		}
		hash = 31 * hash + code;
	}
	return hash ^ hash >> 16;
}

static void drop_repeated(ref_names *names)
{
	struct map met = { 0 };
	size_t kept = 0;

	for (size_t i = 0; i < names->count; i++) {
		if (map_put(&met, names->items[i], names))
			free(names->items[i]);
		else
			names->items[kept++] = names->items[i];
	}
	names->count = kept;
	map_clear(&met);
}

static int by_bucket(const void *a, const void *b)
{
	const struct placed *one = a, *other = b;

	if (one->bucket != other->bucket)
		return one->bucket < other->bucket ? -1 : 1;
	return one->number < other->number ? -1 : 1;
}

void java_order(ref_names *names)
{
	VEC(struct placed) places = { 0 };
	size_t buckets = 16;

	drop_repeated(names);
	while (names->count > buckets - buckets / 4)
		buckets *= 2;
	for (size_t i = 0; i < names->count; i++) {
		struct placed one = { names->items[i],
				      java_hash(names->items[i]) & (buckets - 1), i };
		vec_add(&places, one);
	}
	vec_sort(&places, by_bucket);
	for (size_t i = 0; i < names->count; i++)
		names->items[i] = places.items[i].name;
	vec_clear(&places);
}
