/*
 * A pack: "PACK", its version and how many objects, 4 bytes each; the objects; SHA-1 of
 * all that. An object: its kind and size (7 bits a byte, after the first with 4), then
 * its content by zlib. Source: gitformat-pack(5).
 *
 * What comes is taken apart in memory, whose size is bounded by what the objects say of
 * themselves before any of it is used, and put on disk as it came; with deltas, as a pack
 * of whole objects, if that is small enough to be merged, which copies objects
 * (git/pack_merge.c). Objects get their names from libgit2, which knows contents that
 * were made to have another's SHA-1.
 */
#include "git/small_pack.h"

#include <zlib.h>

#include "base/vec.h"
#include "git/new_objects.h"
#include "git/pack_delta.h"
#include "git/pack_merge.h"
#include "git/pack_put.h"

#define HEAD_SIZE PACK_PUT_HEAD
#define TRAILER PACK_PUT_TRAILER
#define OID_SIZE 20
#define PACK_LIMIT INT32_MAX /* what offsets of 31 bits reach */

static void add_head(struct str *out, enum object_kind kind, uint64_t size)
{
	unsigned char byte = (unsigned char)(kind << 4 | (size & 15));

	for (size >>= 4; size > 0; size >>= 7) {
		str_add_char(out, (char)(byte | 0x80));
		byte = size & 0x7f;
	}
	str_add_char(out, (char)byte);
}

/* The stream is used again and again: its memory takes longer than a small object. */
static int add_content(z_stream *stream, const void *data, size_t len, struct str *out,
		       struct err *err)
{
	const uLong bound = deflateBound(stream, len);

	str_reserve(out, bound);
	stream->next_in = (Bytef *)(uintptr_t)data; /* only read */
	stream->avail_in = (uInt)len;
	stream->next_out = (Bytef *)out->data + out->len;
	stream->avail_out = (uInt)bound;
	if (deflate(stream, Z_FINISH) != Z_STREAM_END || deflateReset(stream) != Z_OK)
		return err_set(err, ERR_INTERNAL, "zlib cannot deflate");
	out->len = (size_t)((char *)stream->next_out - out->data);
	out->data[out->len] = '\0';
	return 0;
}

/* 1, 0: it is too large, -1. */
static int add_object(struct object_store *store, const struct oid *oid, uint64_t *left,
		      z_stream *stream, struct str *pack, struct err *err)
{
	AUTO_OBJECT struct object object = { 0 };
	enum object_kind kind;
	uint64_t size;

	if (object_store_look(store, oid, &kind, &size, err) != 0)
		return -1;
	if (size > *left)
		return 0;
	if (object_store_read(store, oid, &object, err) != 0)
		return -1;
	*left -= size;
	add_head(pack, object.kind, object.len);
	return add_content(stream, object.data, object.len, pack, err) == 0 ? 1 : -1;
}

static int add_objects(struct object_store *store, const oid_list *list, uint64_t most,
		       struct str *pack, struct err *err)
{
	z_stream stream = { 0 };
	uint64_t left = most < PACK_LIMIT / 2 ? most : PACK_LIMIT / 2;
	int result = 1;

	if (deflateInit(&stream, Z_BEST_SPEED) != Z_OK)
		return err_set(err, ERR_INTERNAL, "zlib cannot deflate");
	for (size_t i = 0; result == 1 && i < list->count; i++)
		result = add_object(store, &list->items[i], &left, &stream, pack, err);
	deflateEnd(&stream);
	return result;
}

int small_pack_make(struct object_store *store, const oid_list *list, uint64_t most_bytes,
		    struct str *pack, struct err *err)
{
	const size_t begin = pack->len;
	int result;

	pack_put_head((uint32_t)list->count, pack);
	result = add_objects(store, list, most_bytes, pack, err);
	if (result == 1)
		pack_put_trailer(pack, begin);
	else
		str_truncate(pack, begin);
	return result;
}

/* One of a pack that is taken apart. */
struct pack_entry {
	struct object_lent object; /* its data is owned */
	uint32_t offset, crc;
};

struct taker {
	const struct small_pack_request *request;
	const unsigned char *data, *at, *end; /* up to the trailer */
	z_stream stream;
	uint64_t left; /* of most_bytes */
	bool has_deltas;
	VEC(struct pack_entry) entries;
	VEC(struct object_lent) lent;
	VEC(struct pack_put_entry) placed;
	struct err *err;
};

static int wrong_pack(struct taker *taker, const char *what)
{
	return err_set(taker->err, ERR_CORRUPT, "the pack that came %s", what);
}

/* 1, 0: more objects than are wanted here, -1. */
static int check_pack(struct taker *taker, uint32_t *count)
{
	const struct small_pack_request *request = taker->request;

	if (request->len > PACK_LIMIT)
		return 0;
	if (!pack_put_is_pack(taker->data, request->len, count))
		return wrong_pack(taker, "is none, or was cut");
	if (!pack_put_is_whole(taker->data, request->len))
		return wrong_pack(taker, "does not match its own digest");
	return *count <= request->most;
}

/* There is room for one byte more than there may be, which must stay unused. */
static int take_content(struct taker *taker, unsigned char *data, uint64_t size)
{
	z_stream *stream = &taker->stream;
	int result;

	if (inflateReset(stream) != Z_OK)
		return err_set(taker->err, ERR_INTERNAL, "zlib cannot inflate");
	stream->next_in = (Bytef *)(uintptr_t)taker->at; /* only read */
	stream->avail_in = (uInt)(taker->end - taker->at);
	stream->next_out = data;
	stream->avail_out = (uInt)size + 1;
	result = inflate(stream, Z_FINISH);
	if (result != Z_STREAM_END || stream->avail_out != 1)
		return wrong_pack(taker, "has an object of another size than it says");
	taker->at = stream->next_in;
	return 1;
}

static int compare_offsets(const void *key, const void *item)
{
	const uint64_t *offset = key;
	const struct pack_entry *entry = item;

	return *offset < entry->offset ? -1 : *offset > entry->offset;
}

/* What the delta is on. Those before it alone: git writes a base first. */
static const struct object_lent *find_base(const struct taker *taker,
					   const struct pack_head *head)
{
	const struct pack_entry *found = NULL;

	if (taker->entries.count == 0)
		return NULL;
	if (head->kind == PACK_OFS_DELTA)
		found = bsearch(&head->base, taker->entries.items, taker->entries.count,
				sizeof(*found), compare_offsets);
	for (size_t i = 0;
	     head->kind == PACK_REF_DELTA && !found && i < taker->entries.count; i++)
		if (memcmp(taker->entries.items[i].object.oid.bytes, head->oid,
			   OID_SIZE) == 0)
			found = &taker->entries.items[i];
	return found ? &found->object : NULL;
}

/* Takes the place of the delta. 1, 0: it is too large, -1. */
static int apply_delta(struct taker *taker, const struct object_lent *base,
		       struct object_lent *object)
{
	const struct pack_bytes delta = { object->data, object->len };
	unsigned char *data = NULL;
	int result = pack_delta_make((struct pack_bytes){ base->data, base->len }, delta,
				     taker->left, &data, &object->len);

	free((void *)(uintptr_t)object->data);
	object->data = data;
	object->kind = base->kind;
	if (result < 0)
		return wrong_pack(taker, "has a delta that is none");
	taker->left -= result > 0 ? object->len : 0;
	return result;
}

/* 1, 0: its base is none of those before it, or it is too large, -1. */
static int take_object(struct taker *taker, const struct pack_head *head,
		       struct object_lent *object)
{
	const struct object_lent *base = NULL;
	unsigned char *data;
	int result;

	if (head->size > taker->left || head->size >= PACK_LIMIT)
		return 0;
	if (head->kind >= PACK_OFS_DELTA && !(base = find_base(taker, head)))
		return 0;
	taker->left -= head->size;
	taker->at += head->len;
	object->data = data = xmalloc(head->size + 1);
	object->len = head->size;
	object->kind = (enum object_kind)head->kind;
	result = take_content(taker, data, head->size);
	if (result != 1 || !base)
		return result;
	taker->has_deltas = true;
	return apply_delta(taker, base, object);
}

/* As take_object(). */
static int take_entry(struct taker *taker)
{
	const unsigned char *begin = taker->at;
	struct pack_entry entry = { .offset = (uint32_t)(begin - taker->data) };
	struct object_lent *object = &entry.object;
	struct pack_head head;
	int result;

	if (!pack_head_read(begin, (size_t)(taker->end - begin), entry.offset, OID_SIZE,
			    &head))
		return wrong_pack(taker, "has an object of no known kind, or was cut");
	result = take_object(taker, &head, object);
	entry.crc = (uint32_t)crc32_z(0, begin, (size_t)(taker->at - begin));
	if (result == 1 && object_name(object->kind, object->data, object->len,
				       &object->oid, taker->err) != 0)
		result = -1;
	if (result == 1)
		vec_add(&taker->entries, entry);
	else
		free((void *)(uintptr_t)object->data);
	return result;
}

static int compare_entries(const void *a, const void *b)
{
	const struct pack_entry *left = a, *right = b;

	return oid_compare(&left->object.oid, &right->object.oid);
}

static int sort_entries(struct taker *taker)
{
	vec_sort(&taker->entries, compare_entries);
	for (size_t i = 0; i < taker->entries.count; i++) {
		struct pack_entry *entry = &taker->entries.items[i];
		if (i > 0 && compare_entries(entry - 1, entry) == 0)
			return wrong_pack(taker, "has an object twice");
		vec_add(&taker->lent, entry->object);
	}
	return 1;
}

static int take_entries(struct taker *taker)
{
	uint32_t count = 0;
	int result = check_pack(taker, &count);

	taker->at = taker->data + HEAD_SIZE;
	for (uint32_t i = 0; result == 1 && i < count; i++)
		result = take_entry(taker);
	if (result == 1 && taker->at != taker->end)
		return wrong_pack(taker, "has more than the objects it tells of");
	return result == 1 ? sort_entries(taker) : result;
}

/* On what the copy has and what came. A copy that cannot be read here is git's. */
static int prove(struct taker *taker)
{
	const struct small_pack_request *request = taker->request;
	AUTO_OBJECT_STORE struct object_store *store = NULL;
	struct new_objects_request walk = { .tips = request->tips,
					    .known = request->known,
					    .most = request->most,
					    .most_bytes = request->most_bytes };
	oid_list list = { 0 };
	int result;

	if (object_store_open(request->copy, &store, taker->err) != 0)
		return taker->err->class == ERR_CONFIG ? 0 : -1;
	object_store_obey(store, request->work);
	object_store_lend(store, taker->lent.items, taker->lent.count);
	walk.store = store;
	result = new_objects_list(&walk, &list, taker->err);
	vec_clear(&list);
	return result;
}

static int compare_lent_name(const void *key, const void *item)
{
	return oid_compare(key, &((const struct object_lent *)item)->oid);
}

/* Else each index of the copy would be searched for it. */
static void tell_peels(const struct taker *taker)
{
	struct ref_snapshot *refs = taker->request->refs;

	for (size_t i = 0; refs && i < refs->refs.count; i++) {
		struct ref *ref = &refs->refs.items[i];
		if (ref->target || ref->peel != REF_PEEL_UNKNOWN)
			continue;
		const struct object_lent *found =
			bsearch(&ref->oid, taker->lent.items, taker->lent.count,
				sizeof(*found), compare_lent_name);
		if (found && found->kind != OBJECT_TAG)
			ref->peel = REF_PEEL_SELF;
	}
}

static void place(struct taker *taker, const struct oid *oid, uint32_t offset,
		  uint32_t crc)
{
	vec_add(&taker->placed, ((struct pack_put_entry){ *oid, offset, crc }));
}

/* A pack of the same objects without deltas, in the order of their names. 1, 0: it would
 * be too large to be merged, -1. */
static int make_whole(struct taker *taker, struct str *pack)
{
	z_stream stream = { 0 };
	int result = 0;

	if (deflateInit(&stream, Z_BEST_SPEED) != Z_OK)
		return err_set(taker->err, ERR_INTERNAL, "zlib cannot deflate");
	pack_put_head((uint32_t)taker->lent.count, pack);
	for (size_t i = 0;
	     result == 0 && i < taker->lent.count && pack->len <= PACK_MERGE_SMALL; i++) {
		const struct object_lent *object = &taker->lent.items[i];
		const size_t offset = pack->len;
		add_head(pack, object->kind, object->len);
		result =
			add_content(&stream, object->data, object->len, pack, taker->err);
		place(taker, &object->oid, (uint32_t)offset,
		      (uint32_t)crc32_z(0, (const Bytef *)pack->data + offset,
					pack->len - offset));
	}
	deflateEnd(&stream);
	pack_put_trailer(pack, 0);
	return result < 0 ? -1 : pack->len <= PACK_MERGE_SMALL;
}

/* As it came. */
static void place_all(struct taker *taker)
{
	taker->placed.count = 0;
	for (size_t i = 0; i < taker->entries.count; i++) {
		const struct pack_entry *entry = &taker->entries.items[i];
		place(taker, &entry->object.oid, entry->offset, entry->crc);
	}
}

static int keep(struct taker *taker)
{
	const struct small_pack_request *request = taker->request;
	struct pack_put put = { .pack = request->pack, .len = request->len };
	AUTO_STR struct str whole = STR_INIT;
	int result = taker->has_deltas ? make_whole(taker, &whole) : 0;

	if (result < 0)
		return -1;
	if (result > 0) {
		put.pack = whole.data;
		put.len = whole.len;
	} else {
		place_all(taker);
	}
	put.entries = taker->placed.items;
	put.count = taker->placed.count;
	return pack_put(request->copy, &put, taker->err) == 0 ? 1 : -1;
}

static void taker_clear(struct taker *taker)
{
	for (size_t i = 0; i < taker->entries.count; i++)
		free((void *)(uintptr_t)taker->entries.items[i].object.data);
	vec_clear(&taker->entries);
	vec_clear(&taker->lent);
	vec_clear(&taker->placed);
	inflateEnd(&taker->stream);
}

int small_pack_take(const struct small_pack_request *request, struct err *err)
{
	struct taker taker = { .request = request,
			       .data = request->pack,
			       .left = request->most_bytes,
			       .err = err };
	int result;

	taker.end = taker.data + (request->len < TRAILER ? 0 : request->len - TRAILER);
	if (inflateInit(&taker.stream) != Z_OK)
		return err_set(err, ERR_INTERNAL, "zlib cannot inflate");
	result = take_entries(&taker);
	if (result == 1)
		result = prove(&taker);
	if (result == 1 && taker.entries.count > 0)
		result = keep(&taker);
	if (result == 1 && taker.entries.count > 0)
		tell_peels(&taker);
	taker_clear(&taker);
	return result;
}
