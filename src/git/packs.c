/*
 * A pack and its index each end in a digest of all that stands before it; the index
 * holds the pack's digest right before its own. A pack counts for git from the moment
 * its index is there, so that comes last.
 */
#include "git/packs.h"

#include <endian.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "base/vec.h"
#include "git/pack_index.h"

/*
 * Behind the names of an index (git/pack_index.h): a CRC each; an offset each, of 4
 * bytes, or if its highest bit is set the place of one of 8 bytes behind them; two
 * digests.
 *
 * An entry of the pack begins with its kind in bits 4 to 6 and its size, 7 bits a byte
 * while the highest bit is set. That of a delta has the kind of its base, which is so far
 * before it, or has this name. Whatever is not as it should be is OBJECT_NONE.
 */

#define FOLDER "objects/pack"
#define CHAIN_LIMIT 4096 /* of deltas; git's own have at most 4095 */
#define OFS_DELTA 6
#define REF_DELTA 7

static bool pack_kind_read_offset(const struct pack_index *index, size_t place,
				  uint64_t *offset)
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

static bool pack_kind_find_object(const struct pack_index *index,
				  const unsigned char *oid, uint64_t *offset)
{
	size_t place;

	return pack_index_find(index, oid, &place) &&
	       pack_kind_read_offset(index, place, offset);
}

/* Moves *offset to the base. `at` is behind the entry's kind and size, in `bytes`. */
static bool to_base(const struct pack_index *index, const unsigned char *at,
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

static enum object_kind kind_at(const struct pack_index *index, int pack, uint64_t offset)
{
	unsigned char bytes[64];

	for (int steps = 0; steps < CHAIN_LIMIT; steps++) {
		ssize_t got = offset > INT64_MAX
				      ? -1
				      : pread(pack, bytes, sizeof(bytes), (off_t)offset);
		const unsigned char *at = bytes, *end = bytes + (got > 0 ? got : 0);
		unsigned kind = (bytes[0] >> 4) & 7;
		if (got <= 0)
			return OBJECT_NONE;
		if (kind >= OBJECT_COMMIT && kind <= OBJECT_TAG)
			return (enum object_kind)kind;
		while (at < end && (*at & 0x80))
			at++;
		if (at == end || (kind != OFS_DELTA && kind != REF_DELTA) ||
		    !to_base(index, at + 1, end, kind, &offset))
			return OBJECT_NONE;
	}
	return OBJECT_NONE;
}

static enum object_kind pack_kind_inspect(int folder, const char *name,
					  const struct oid *oid)
{
	struct pack_index index;
	uint64_t offset;
	enum object_kind kind = OBJECT_NONE;

	if (!pack_index_open(folder, name, oid->len, &index))
		return OBJECT_NONE;
	if (pack_kind_find_object(&index, oid->bytes, &offset)) {
		AUTO_FREE char *path =
			xasprintf("%.*s.pack", (int)(strlen(name) - 4), name);
		AUTO_CLOSE int pack = openat(folder, path, O_RDONLY | O_CLOEXEC);
		if (pack >= 0)
			kind = kind_at(&index, pack, offset);
	}
	pack_index_close(&index);
	return kind;
}

enum object_kind pack_kind_of(int dir, const struct oid *oid)
{
	enum object_kind kind = OBJECT_NONE;
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(dir, FOLDER);

	while (list && kind == OBJECT_NONE && (entry = readdir(list)) != NULL)
		if (text_starts_with(entry->d_name, "pack-") &&
		    text_ends_with(entry->d_name, ".idx"))
			kind = pack_kind_inspect(dirfd(list), entry->d_name, oid);
	return kind;
}

#define CHUNK ((size_t)1 << 20)

struct copier {
	const struct git_work *work;
	int from, to; /* the folders */
	size_t oid_len;
	char *buffer;                         /* CHUNK bytes */
	unsigned char trailer[HASH_MAX_SIZE]; /* of the file that was copied last */
};

uint64_t packs_size(int dir)
{
	uint64_t sum = 0;
	struct dirent *entry;
	struct stat st;
	AUTO_CLOSEDIR DIR *list = dir_list(dir, FOLDER);

	while (list && (entry = readdir(list)) != NULL)
		if (text_ends_with(entry->d_name, ".pack") &&
		    fstatat(dirfd(list), entry->d_name, &st, 0) == 0)
			sum += (uint64_t)st.st_size;
	return sum;
}

static int packs_check_limits(const struct git_work *work, struct err *err)
{
	if (work->stop && stop_is_requested(work->stop))
		return err_set(err, ERR_CANCELED, "interrupted");
	if (work->deadline && deadline_at(work->deadline) == 0)
		return err_set(err, ERR_LOST, "the lease was lost");
	return 0;
}

static int wrong_trailer(const char *name, struct err *err)
{
	err_set(err, ERR_CORRUPT,
		FOLDER "/%s is corrupt: its bytes do not match its "
		       "own digest",
		name);
	return err_remedy(err,
			  "run git fsck in that repository and restore what it names");
}

/* Reads up to a chunk; 0 at the end. */
static ssize_t read_chunk(struct copier *copier, int fd, const char *name,
			  struct err *err)
{
	size_t len = 0;

	while (len < CHUNK) {
		ssize_t got = read(fd, copier->buffer + len, CHUNK - len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(err, "cannot read " FOLDER "/%s", name);
		if (got == 0)
			break;
		len += (size_t)got;
	}
	return (ssize_t)len;
}

/* All but the last oid_len bytes of the file go into the digest. */
static int copy_bytes(struct copier *copier, int in, int out, uint64_t size,
		      const char *name, struct err *err)
{
	AUTO_HASH struct hash hash;
	unsigned char digest[HASH_MAX_SIZE];
	uint64_t done = 0, body = size - copier->oid_len;
	ssize_t got;

	hash_init(&hash, copier->oid_len == 32 ? HASH_SHA256 : HASH_SHA1);
	while ((got = read_chunk(copier, in, name, err)) > 0) {
		size_t len = (size_t)got;
		size_t hashed = done >= body ? 0 : body - done < len ? body - done : len;
		if (packs_check_limits(copier->work, err) != 0 ||
		    file_write_all(out, copier->buffer, len, name, err) != 0)
			return -1;
		hash_add(&hash, copier->buffer, hashed);
		done += len;
		if (copier->work->bytes && text_ends_with(name, ".pack"))
			atomic_fetch_add(copier->work->bytes, len);
	}
	if (got < 0)
		return -1;
	hash_end(&hash, digest);
	if (done != size ||
	    pread(out, copier->trailer, copier->oid_len, (off_t)body) !=
		    (ssize_t)copier->oid_len ||
	    memcmp(digest, copier->trailer, copier->oid_len) != 0)
		return wrong_trailer(name, err);
	return fsync(out) == 0 ? 0 : err_errno(err, "cannot sync " FOLDER "/%s", name);
}

/* Under git's own kind of temporary name, which housekeeping knows; renamed when it is
 * whole. 1: no plain file is there. */
static int copy_file(struct copier *copier, const char *name, struct err *err)
{
	struct stat st;
	AUTO_FREE char *temporary = xasprintf("tmp_copy_%s", name);
	AUTO_CLOSE int in = openat(copier->from, name,
				   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	AUTO_CLOSE int out = -1;

	if (in < 0 && (errno == ENOENT || errno == ELOOP))
		return 1;
	if (in < 0 || fstat(in, &st) != 0)
		return err_errno(err, "cannot open " FOLDER "/%s", name);
	if (!S_ISREG(st.st_mode))
		return 1;
	if ((uint64_t)st.st_size < 2 * copier->oid_len)
		return wrong_trailer(name, err);
	out = openat(copier->to, temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
	if (out < 0)
		return err_errno(err, "cannot create " FOLDER "/%s", temporary);
	if (copy_bytes(copier, in, out, (uint64_t)st.st_size, name, err) != 0)
		return -1;
	if (renameat(copier->to, temporary, copier->to, name) != 0)
		return err_errno(err, "cannot rename " FOLDER "/%s", temporary);
	return 0;
}

/* The index must be this pack's: a repack in between may have replaced one of them. */
static int check_index(struct copier *copier, const char *name,
		       const unsigned char *pack_trailer, struct err *err)
{
	struct stat st;
	unsigned char named[HASH_MAX_SIZE];
	AUTO_CLOSE int fd = openat(copier->to, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_errno(err, "cannot open " FOLDER "/%s", name);
	if (pread(fd, named, copier->oid_len, st.st_size - 2 * (off_t)copier->oid_len) !=
		    (ssize_t)copier->oid_len ||
	    memcmp(named, pack_trailer, copier->oid_len) != 0)
		return wrong_trailer(name, err);
	return 0;
}

static int copy_pack(struct copier *copier, const char *pack, struct err *err)
{
	unsigned char pack_trailer[HASH_MAX_SIZE];
	AUTO_FREE char *index =
		xasprintf("%.*s.idx", (int)(strlen(pack) - strlen(".pack")), pack);
	int result = copy_file(copier, pack, err);

	if (result != 0)
		return result < 0 ? -1 : 0;
	failpoint("packs.copied");
	memcpy(pack_trailer, copier->trailer, sizeof(pack_trailer));
	result = copy_file(copier, index, err);
	if (result == 0 && check_index(copier, index, pack_trailer, err) != 0) {
		unlinkat(copier->to, index, 0);
		result = -1;
	}
	if (result > 0) /* a pack without index is none */
		unlinkat(copier->to, pack, 0);
	return result < 0 ? -1 : 0;
}

static int packs_copy_all(struct copier *copier, struct err *err)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(copier->from, ".");

	if (!list)
		return err_errno(err, "cannot list " FOLDER);
	while (errno = 0, (entry = readdir(list)) != NULL)
		if (text_starts_with(entry->d_name, "pack-") &&
		    text_ends_with(entry->d_name, ".pack") &&
		    copy_pack(copier, entry->d_name, err) != 0)
			return -1;
	return errno == 0 ? 0 : err_errno(err, "cannot list " FOLDER);
}

int packs_copy(const struct git_work *work, int source, const struct repo *to,
	       struct err *err)
{
	AUTO_CLOSE int from_fd = dir_open(source, FOLDER, err);
	AUTO_CLOSE int to_fd = from_fd < 0 ? -1 : dir_open(to->fd, FOLDER, err);
	AUTO_FREE char *buffer = xmalloc(CHUNK);
	struct copier copier = { .work = work,
				 .from = from_fd,
				 .to = to_fd,
				 .oid_len = to->oid_len,
				 .buffer = buffer };

	if (from_fd < 0 || to_fd < 0 || packs_copy_all(&copier, err) != 0)
		return -1;
	return dir_sync(to->fd, FOLDER, err);
}
