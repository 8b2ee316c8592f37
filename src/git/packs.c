/*
 * The index of a pack holds the pack's digest right before its own. A pack counts for git
 * from the moment its index is there, so that comes last.
 */
#include "git/packs.h"

#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/vec.h"
#include "git/pack_delta.h"
#include "git/pack_incoming.h"
#include "git/pack_index.h"
#include "git/pack_list.h"

/*
 * A delta has the kind of its base. Whatever is not as it should be is OBJECT_NONE.
 */

#define FOLDER "objects/pack"
#define CHAIN_LIMIT 4096 /* of deltas; git's own have at most 4095 */

static bool pack_kind_find_object(const struct pack_index *index,
				  const unsigned char *oid, uint64_t *offset)
{
	size_t place;

	return pack_index_find(index, oid, &place) &&
	       pack_index_offset(index, place, offset);
}

static enum object_kind kind_at(const struct pack_index *index, int pack, uint64_t offset)
{
	unsigned char bytes[64];
	struct pack_head head;

	for (int steps = 0; steps < CHAIN_LIMIT; steps++) {
		ssize_t got = offset > INT64_MAX
				      ? -1
				      : pread(pack, bytes, sizeof(bytes), (off_t)offset);
		if (got <= 0 ||
		    !pack_head_read(bytes, (size_t)got, offset, index->oid_len, &head))
			return OBJECT_NONE;
		if (head.kind <= OBJECT_TAG)
			return (enum object_kind)head.kind;
		if (head.kind == PACK_OFS_DELTA)
			offset = head.base;
		else if (!pack_kind_find_object(index, head.oid, &offset))
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

	if (pack_index_open(folder, name, oid->len, &index, ERR_IGNORED) != 0)
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

/* How many objects of each pack are looked at: the newest commits stand first there. */
#define NEWEST 16

struct pack_place {
	uint64_t offset;
	size_t place;
};

/* The first places by their offsets; how many there are. */
static size_t packs_find_first(const struct pack_index *index,
			       struct pack_place first[NEWEST])
{
	size_t count = 0;
	struct pack_place one;

	for (one.place = 0; one.place < index->count; one.place++) {
		if (!pack_index_offset(index, one.place, &one.offset) ||
		    (count == NEWEST && one.offset >= first[count - 1].offset))
			continue;
		size_t at = count < NEWEST ? count++ : count - 1;
		for (; at > 0 && first[at - 1].offset > one.offset; at--)
			first[at] = first[at - 1];
		first[at] = one;
	}
	return count;
}

static void packs_add_newest(int folder, const char *name, size_t oid_len,
			     oid_list *commits)
{
	struct pack_place first[NEWEST];
	struct pack_index index;
	AUTO_FREE char *path = xasprintf("%.*s.pack", (int)(strlen(name) - 4), name);
	AUTO_CLOSE int pack = openat(folder, path, O_RDONLY | O_CLOEXEC);

	if (pack < 0 || pack_index_open(folder, name, oid_len, &index, ERR_IGNORED) != 0)
		return;
	size_t count = packs_find_first(&index, first);
	for (size_t i = 0; i < count; i++) {
		struct oid oid = { .len = (uint8_t)oid_len };
		if (kind_at(&index, pack, first[i].offset) != OBJECT_COMMIT)
			continue;
		memcpy(oid.bytes, pack_index_oid(&index, first[i].place), oid_len);
		vec_add(commits, oid);
	}
	pack_index_close(&index);
}

void packs_list_newest(const struct repo *repo, oid_list *commits)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(repo->fd, FOLDER);

	while (list && (entry = readdir(list)) != NULL)
		if (text_starts_with(entry->d_name, "pack-") &&
		    text_ends_with(entry->d_name, ".idx"))
			packs_add_newest(dirfd(list), entry->d_name, repo->oid_len,
					 commits);
}

#define CHUNK ((size_t)1 << 20)

struct copier {
	const struct git_work *work;
	int from; /* the folder */
	const struct repo *to;
	char *buffer; /* CHUNK bytes */
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

/* Until its end, or the size that it had. */
static int packs_copy_bytes(struct copier *copier, int in, struct pack_incoming *out,
			    const char *name, struct err *err)
{
	ssize_t got = 1;

	while (got > 0) {
		got = read(in, copier->buffer, CHUNK);
		if (got < 0 && errno == EINTR) {
			got = 1;
			continue;
		}
		if (got < 0)
			return err_errno(err, "cannot read " FOLDER "/%s", name);
		if (git_work_check(copier->work, err) != 0 ||
		    pack_incoming_write(out, copier->buffer, (size_t)got, err) != 0)
			return -1;
		if (copier->work->bytes && text_ends_with(name, ".pack"))
			atomic_fetch_add(copier->work->bytes, (size_t)got);
	}
	return pack_incoming_finish(out, err);
}

/* 1: no plain file is there. */
static int copy_file(struct copier *copier, const char *name, struct err *err)
{
	struct stat st;
	struct pack_incoming *out;
	AUTO_CLOSE int in = openat(copier->from, name,
				   O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (in < 0 && (errno == ENOENT || errno == ELOOP))
		return 1;
	if (in < 0 || fstat(in, &st) != 0)
		return err_errno(err, "cannot open " FOLDER "/%s", name);
	if (!S_ISREG(st.st_mode))
		return 1;
	if (pack_incoming_open(copier->to, name, (uint64_t)st.st_size, &out, err) != 0)
		return -1;
	int result = packs_copy_bytes(copier, in, out, name, err);
	pack_incoming_close(out);
	return result;
}

/* The index must be this pack's: a repack in between may have replaced one of them; and
 * of the version that is read here. Else a fetch brings what is in it. */
static int copy_pack(struct copier *copier, const char *file, struct err *err)
{
	AUTO_FREE char *pack = xstrndup(file, strlen(file) - strlen(".pack"));
	AUTO_FREE char *index = xasprintf("%s.idx", pack);
	int result = copy_file(copier, file, err);

	if (result != 0)
		return result < 0 ? -1 : 0;
	failpoint("packs.copied");
	result = copy_file(copier, index, err);
	if (result == 0)
		result = pack_list_check_index(copier->to, pack, err);
	if (result != 0) /* a pack without index is none */
		pack_list_remove(copier->to, pack, ERR_IGNORED);
	return result < 0 && err->class != ERR_CORRUPT ? -1 : 0;
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
	AUTO_FREE char *buffer = xmalloc(CHUNK);
	struct copier copier = {
		.work = work, .from = from_fd, .to = to, .buffer = buffer
	};

	if (from_fd < 0 || packs_copy_all(&copier, err) != 0)
		return -1;
	return dir_sync(to->fd, FOLDER, err);
}

static bool packs_is_of_fetch(const char *name)
{
	static const char *const begins[] = { "tmp_pack_", "tmp_idx_", "tmp_rev_" };

	for (size_t i = 0; i < ARRAY_SIZE(begins); i++)
		if (text_starts_with(name, begins[i]))
			return true;
	return false;
}

void packs_remove_passing(int dir)
{
	AUTO_CLOSEDIR DIR *list = dir_list(dir, FOLDER);
	struct dirent *entry;

	while (list && (entry = readdir(list)) != NULL)
		if (packs_is_of_fetch(entry->d_name))
			unlinkat(dirfd(list), entry->d_name, 0);
}
