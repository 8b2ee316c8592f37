#include "git/pack_index.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

uint32_t pack_index_number(const unsigned char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return be32toh(value);
}

static bool pack_index_is_sound(const struct pack_index *index)
{
	static const unsigned char magic[8] = { 0xff, 't', 'O', 'c', 0, 0, 0, 2 };

	return memcmp(index->data, magic, sizeof(magic)) == 0 &&
	       (index->size - PACK_INDEX_NAMES - 2 * index->oid_len) /
			       (index->oid_len + 8) >=
		       index->count;
}

int pack_index_open(int folder, const char *name, size_t oid_len,
		    struct pack_index *index, struct err *err)
{
	struct stat st;
	AUTO_CLOSE int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_errno(err, "cannot open %s", name);
	if ((size_t)st.st_size < PACK_INDEX_NAMES + 2 * oid_len)
		return err_set(err, ERR_CORRUPT, "%s is too short", name);
	void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return err_errno(err, "cannot map %s", name);
	*index = (struct pack_index){ .data = data,
				      .size = (size_t)st.st_size,
				      .oid_len = oid_len };
	index->count = pack_index_number(index->data + PACK_INDEX_NAMES - 4);
	if (pack_index_is_sound(index))
		return 0;
	pack_index_close(index);
	return err_set(err, ERR_CORRUPT, "%s is not an index of version 2", name);
}

void pack_index_close(struct pack_index *index)
{
	munmap((void *)(uintptr_t)index->data, index->size);
	*index = (struct pack_index){ 0 };
}

const unsigned char *pack_index_oid(const struct pack_index *index, size_t place)
{
	return index->data + PACK_INDEX_NAMES + place * index->oid_len;
}

bool pack_index_find(const struct pack_index *index, const unsigned char *oid,
		     size_t *place)
{
	size_t low =
		oid[0] > 0 ? pack_index_number(index->data + 8 + (oid[0] - 1) * 4) : 0;
	size_t high = pack_index_number(index->data + 8 + oid[0] * 4);

	if (high > index->count)
		return false;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = memcmp(oid, pack_index_oid(index, middle), index->oid_len);
		if (order == 0) {
			*place = middle;
			return true;
		}
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return false;
}

const unsigned char *pack_index_pack_digest(const struct pack_index *index)
{
	return index->data + index->size - 2 * index->oid_len;
}

/* Behind the names: a CRC each; an offset each, of 4 bytes, or if its highest bit is set
 * the place of one of 8 bytes behind them; two digests. */
uint32_t pack_index_crc(const struct pack_index *index, size_t place)
{
	return pack_index_number(index->data + PACK_INDEX_NAMES +
				 index->count * index->oid_len + place * 4);
}

bool pack_index_offset(const struct pack_index *index, size_t place, uint64_t *offset)
{
	const unsigned char *small =
		index->data + PACK_INDEX_NAMES + index->count * (index->oid_len + 4);
	const unsigned char *large = small + index->count * 4;
	const unsigned char *end = index->data + index->size - 2 * index->oid_len;
	uint32_t value = pack_index_number(small + place * 4);
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
