/*
 * An index: 8 bytes of magic and version; 256 numbers, of objects whose first byte is at
 * most so much; their names, sorted; a CRC each; an offset each, of 4 bytes, or if its
 * highest bit is set the place of one of 8 bytes behind them; two digests.
 *
 * An entry of the pack begins with its kind in bits 4 to 6 and its size, 7 bits a byte
 * while the highest bit is set. That of a delta has the kind of its base, which is so far
 * before it, or has this name. Whatever is not as it should be is PACK_NONE.
 */
#include "git/pack_kind.h"

#include <endian.h>
#include <sys/mman.h>

#include "base/file.h"
#include "base/str.h"

#define FOLDER "objects/pack"
#define NAMES (8 + 256 * 4) /* where names begin */
#define CHAIN_LIMIT 4096    /* of deltas; git's own have at most 4095 */
#define OFS_DELTA 6
#define REF_DELTA 7

struct index {
	const unsigned char *data; /* mapped; NULL: none */
	size_t size;
	size_t count;
	size_t oid_len;
};

static uint32_t number_at(const unsigned char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return be32toh(value);
}

static bool pack_kind_is_sound(const struct index *index)
{
	static const unsigned char magic[8] = { 0xff, 't', 'O', 'c', 0, 0, 0, 2 };

	return memcmp(index->data, magic, sizeof(magic)) == 0 &&
	       (index->size - NAMES - 2 * index->oid_len) / (index->oid_len + 8) >=
		       index->count;
}

static bool index_open(int folder, const char *name, size_t oid_len, struct index *index)
{
	struct stat st;
	AUTO_CLOSE int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) != 0 || (size_t)st.st_size < NAMES + 2 * oid_len)
		return false;
	void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return false;
	*index = (struct index){ .data = data,
				 .size = (size_t)st.st_size,
				 .oid_len = oid_len };
	index->count = number_at(index->data + NAMES - 4);
	if (pack_kind_is_sound(index))
		return true;
	munmap(data, index->size);
	return false;
}

static bool pack_kind_read_offset(const struct index *index, size_t place,
				  uint64_t *offset)
{
	const unsigned char *small =
		index->data + NAMES + index->count * (index->oid_len + 4);
	const unsigned char *large = small + index->count * 4;
	const unsigned char *end = index->data + index->size - 2 * index->oid_len;
	uint32_t value = number_at(small + place * 4);
	uint64_t wide;

	*offset = value;
	if (!(value & 0x80000000))
		return true;
	value &= 0x7fffffff;
	if (value >= (size_t)(end - large) / 8)
		return false;
	memcpy(&wide, large + (size_t)value * 8, sizeof(wide));
	*offset = be64toh(wide);
	return true;
}

static bool pack_kind_find_object(const struct index *index, const unsigned char *oid,
				  uint64_t *offset)
{
	size_t low = oid[0] > 0 ? number_at(index->data + 8 + (oid[0] - 1) * 4) : 0;
	size_t high = number_at(index->data + 8 + oid[0] * 4);

	if (high > index->count)
		return false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = memcmp(oid, index->data + NAMES + middle * index->oid_len,
				   index->oid_len);
		if (order == 0)
			return pack_kind_read_offset(index, middle, offset);
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return false;
}

/* Moves *offset to the base. `at` is behind the entry's kind and size, in `bytes`. */
static bool to_base(const struct index *index, const unsigned char *at,
		    const unsigned char *end, unsigned kind, uint64_t *offset)
{
	uint64_t back;

	if (kind == REF_DELTA)
		return (size_t)(end - at) >= index->oid_len &&
		       pack_kind_find_object(index, at, offset);
	if (at == end)
		return false;
	for (back = *at & 0x7f; *at++ & 0x80;) {
		if (at == end || back > UINT64_MAX >> 8)
			return false;
		back = ((back + 1) << 7) | (*at & 0x7f);
	}
	if (back == 0 || back >= *offset)
		return false;
	*offset -= back;
	return true;
}

static enum pack_kind kind_at(const struct index *index, int pack, uint64_t offset)
{
	unsigned char bytes[64];

	for (int steps = 0; steps < CHAIN_LIMIT; steps++) {
		ssize_t got = offset > INT64_MAX
				      ? -1
				      : pread(pack, bytes, sizeof(bytes), (off_t)offset);
		const unsigned char *at = bytes, *end = bytes + (got > 0 ? got : 0);
		unsigned kind = (bytes[0] >> 4) & 7;
		if (got <= 0)
			return PACK_NONE;
		if (kind >= PACK_COMMIT && kind <= PACK_TAG)
			return (enum pack_kind)kind;
		while (at < end && (*at & 0x80))
			at++;
		if (at == end || (kind != OFS_DELTA && kind != REF_DELTA) ||
		    !to_base(index, at + 1, end, kind, &offset))
			return PACK_NONE;
	}
	return PACK_NONE;
}

static enum pack_kind pack_kind_inspect(int folder, const char *name,
					const struct oid *oid)
{
	struct index index;
	uint64_t offset;
	enum pack_kind kind = PACK_NONE;

	if (!index_open(folder, name, oid->len, &index))
		return PACK_NONE;
	if (pack_kind_find_object(&index, oid->bytes, &offset)) {
		AUTO_FREE char *path =
			xasprintf("%.*s.pack", (int)(strlen(name) - 4), name);
		AUTO_CLOSE int pack = openat(folder, path, O_RDONLY | O_CLOEXEC);
		if (pack >= 0)
			kind = kind_at(&index, pack, offset);
	}
	munmap((void *)(uintptr_t)index.data, index.size);
	return kind;
}

enum pack_kind pack_kind_of(int dir, const struct oid *oid)
{
	enum pack_kind kind = PACK_NONE;
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(dir, FOLDER);

	while (list && kind == PACK_NONE && (entry = readdir(list)) != NULL)
		if (text_starts_with(entry->d_name, "pack-") &&
		    text_ends_with(entry->d_name, ".idx"))
			kind = pack_kind_inspect(dirfd(list), entry->d_name, oid);
	return kind;
}
