/*
 * Entries are copied as they stand. That is right for whole objects alone: a delta may
 * name its base by how far it is away.
 *
 * Whoever was paused under a former lease may still do the second half of this: it
 * removes packs all of whose objects it has put into another one, which is removed in
 * turn only by who has put these into a third one. So no object is ever without a pack.
 */
#include "git/pack_merge.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/str.h"
#include "base/vec.h"
#include "git/pack_index.h"
#include "git/pack_list.h"
#include "git/pack_put.h"

#define FOLDER "objects/pack"
#define MIDX FOLDER "/multi-pack-index"
#define MOST_BYTES ((size_t)64 << 20)
#define OID_LEN 20

/* An object of one of the packs. */
struct merge_entry {
	struct oid oid;
	uint32_t crc;
	const unsigned char *data; /* in merge_source.text */
	size_t len;
};

struct merge_source {
	const char *name; /* borrowed */
	struct str text;  /* all of the pack */
};

struct merge {
	const struct repo *repo;
	VEC(struct merge_source) sources;
	VEC(struct merge_entry) entries;
	size_t bytes;
};

size_t pack_merge_count(const struct repo *repo)
{
	size_t count = 0;
	struct dirent *entry;
	struct stat st;
	AUTO_CLOSEDIR DIR *dir = dir_list(repo->fd, FOLDER);

	while (dir && (entry = readdir(dir)) != NULL)
		if (text_ends_with(entry->d_name, ".pack") &&
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			count += (uint64_t)st.st_size <= PACK_MERGE_SMALL;
	return count;
}

static bool merge_has_beside(const struct repo *repo, const struct pack_item *item)
{
	static const char *const ends[] = { "rev", "bitmap", "promisor", "keep",
					    "mtimes" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		AUTO_FREE char *path = xasprintf(FOLDER "/%s.%s", item->name, ends[i]);
		if (faccessat(repo->fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	}
	return false;
}

/* A multi-pack-index names only packs that were there before it. */
static bool merge_may_be_named(const struct repo *repo, const struct pack_item *item)
{
	struct stat st;

	return fstatat(repo->fd, MIDX, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       item->changed_ns <= clock_ns(&st.st_mtim);
}

struct merge_place {
	uint64_t offset;
	size_t place;
};

static int merge_compare_places(const void *a, const void *b)
{
	const struct merge_place *one = a, *other = b;

	return one->offset < other->offset ? -1 : one->offset > other->offset;
}

/* Its place ends where the next one's begins. False: it is a delta, or not what the index
 * says. */
static bool merge_add_entry(struct merge *merge, const struct pack_index *index,
			    const struct str *text, const struct merge_place *at,
			    uint64_t end)
{
	struct merge_entry entry = { .oid = { .len = OID_LEN } };
	unsigned kind;

	if (at->offset < PACK_PUT_HEAD || at->offset >= end)
		return false;
	entry.data = (const unsigned char *)text->data + at->offset;
	entry.len = end - at->offset;
	entry.crc = pack_index_crc(index, at->place);
	memcpy(entry.oid.bytes, pack_index_oid(index, at->place), OID_LEN);
	kind = entry.data[0] >> 4 & 7;
	if (kind < OBJECT_COMMIT || kind > OBJECT_TAG ||
	    crc32_z(0, entry.data, entry.len) != entry.crc)
		return false;
	vec_add(&merge->entries, entry);
	return true;
}

static bool merge_add_entries(struct merge *merge, const struct pack_index *index,
			      const struct str *text)
{
	AUTO_FREE struct merge_place *places = xcalloc(index->count + 1, sizeof(*places));
	const size_t before = merge->entries.count;
	bool is_whole = true;

	for (size_t i = 0; i < index->count; i++) {
		places[i].place = i;
		if (!pack_index_offset(index, i, &places[i].offset))
			return false;
	}
	qsort(places, index->count, sizeof(*places), merge_compare_places);
	places[index->count].offset = text->len - PACK_PUT_TRAILER;
	for (size_t i = 0; is_whole && i < index->count; i++)
		is_whole = merge_add_entry(merge, index, text, &places[i],
					   places[i + 1].offset);
	if (!is_whole)
		merge->entries.count = before;
	return is_whole;
}

static bool merge_read(struct merge *merge, const struct pack_item *item,
		       struct str *text)
{
	AUTO_FREE char *path = xasprintf(FOLDER "/%s.pack", item->name);
	AUTO_FREE char *index_path = xasprintf(FOLDER "/%s.idx", item->name);
	struct pack_index index;
	uint32_t count;

	if (file_read(merge->repo->fd, path, PACK_MERGE_SMALL, text, ERR_IGNORED) != 0 ||
	    !pack_put_is_pack(text->data, text->len, &count) ||
	    !pack_put_is_whole(text->data, text->len) ||
	    pack_index_open(merge->repo->fd, index_path, OID_LEN, &index, ERR_IGNORED) !=
		    0)
		return false;
	bool is_read = count == index.count &&
		       pack_put_is_whole(index.data, index.size) &&
		       memcmp(pack_index_pack_digest(&index),
			      text->data + text->len - OID_LEN, OID_LEN) == 0 &&
		       merge_add_entries(merge, &index, text);
	pack_index_close(&index);
	return is_read;
}

static void merge_add_pack(struct merge *merge, const struct pack_item *item)
{
	AUTO_STR struct str text = STR_INIT;

	if (item->bytes > PACK_MERGE_SMALL || item->is_kept ||
	    merge->bytes + item->bytes > MOST_BYTES ||
	    merge_has_beside(merge->repo, item) ||
	    merge_may_be_named(merge->repo, item) || !merge_read(merge, item, &text))
		return;
	merge->bytes += item->bytes;
	vec_add(&merge->sources, ((struct merge_source){ item->name, text }));
	text = (struct str)STR_INIT;
}

static int merge_compare_entries(const void *a, const void *b)
{
	const struct merge_entry *one = a, *other = b;

	return oid_compare(&one->oid, &other->oid);
}

/* What several have stands there once. */
static void merge_drop_doubles(struct merge *merge)
{
	size_t kept = 0;

	vec_sort(&merge->entries, merge_compare_entries);
	for (size_t i = 0; i < merge->entries.count; i++)
		if (kept == 0 || merge_compare_entries(&merge->entries.items[kept - 1],
						       &merge->entries.items[i]) != 0)
			merge->entries.items[kept++] = merge->entries.items[i];
	merge->entries.count = kept;
}

static int merge_put(struct merge *merge, struct str *pack, struct err *err)
{
	const size_t count = merge->entries.count;
	AUTO_FREE struct pack_put_entry *entries = xcalloc(count + 1, sizeof(*entries));

	pack_put_head((uint32_t)count, pack);
	for (size_t i = 0; i < count; i++) {
		const struct merge_entry *entry = &merge->entries.items[i];
		entries[i] = (struct pack_put_entry){ entry->oid, (uint32_t)pack->len,
						      entry->crc };
		str_add_bytes(pack, entry->data, entry->len);
	}
	pack_put_trailer(pack, 0);
	return pack_put(merge->repo,
			&(struct pack_put){ pack->data, pack->len, entries, count }, err);
}

/* One that has all the objects of the others is the new one, under the same name. */
static int merge_remove(const struct merge *merge, const struct str *pack,
			struct err *err)
{
	AUTO_STR struct str name = STR_INIT;

	str_add(&name, "pack-");
	str_add_hex(&name, (const unsigned char *)pack->data + pack->len - OID_LEN,
		    OID_LEN);
	for (size_t i = 0; i < merge->sources.count; i++)
		if (strcmp(merge->sources.items[i].name, name.data) != 0 &&
		    pack_list_remove(merge->repo, merge->sources.items[i].name, err) != 0)
			return -1;
	return 0;
}

static int merge_all(struct merge *merge, struct err *err)
{
	AUTO_STR struct str pack = STR_INIT;

	if (merge->sources.count < 2)
		return 0;
	merge_drop_doubles(merge);
	if (merge_put(merge, &pack, err) != 0)
		return -1;
	failpoint("pack_merge.put");
	return merge_remove(merge, &pack, err) == 0 ? (int)merge->sources.count : -1;
}

static void merge_clear(struct merge *merge)
{
	for (size_t i = 0; i < merge->sources.count; i++)
		str_clear(&merge->sources.items[i].text);
	vec_clear(&merge->sources);
	vec_clear(&merge->entries);
}

int pack_merge(const struct repo *repo, struct err *err)
{
	struct merge merge = { .repo = repo };
	pack_list list = { 0 };
	int result = -1;

	if (repo->oid_len != OID_LEN)
		return 0;
	if (pack_list_read(repo, &list, err) == 0) {
		for (size_t i = 0; i < list.count; i++)
			merge_add_pack(&merge, &list.items[i]);
		result = merge_all(&merge, err);
	}
	merge_clear(&merge);
	pack_list_clear(&list);
	return result;
}
