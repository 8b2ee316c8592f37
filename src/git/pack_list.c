#include "git/pack_list.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "git/oid.h"
#include "git/pack_index.h"

#define FOLDER "objects/pack"

static bool pack_list_has(int folder, const char *name)
{
	return faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* 0: it is none that git would read; it may be about to become one. */
static int pack_list_look(int folder, const struct repo *repo, const char *index_name,
			  struct pack_item *item)
{
	size_t len = strlen(index_name) - strlen(".idx");
	AUTO_FREE char *pack = xasprintf("%.*s.pack", (int)len, index_name);
	AUTO_FREE char *keep = xasprintf("%.*s.keep", (int)len, index_name);
	AUTO_FREE char *cruft = xasprintf("%.*s.mtimes", (int)len, index_name);
	struct pack_index index;
	struct stat st, index_st;

	if (fstatat(folder, pack, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
	    !S_ISREG(st.st_mode) ||
	    fstatat(folder, index_name, &index_st, AT_SYMLINK_NOFOLLOW) != 0 ||
	    pack_index_open(folder, index_name, repo->oid_len, &index, ERR_IGNORED) != 0)
		return 0;
	*item = (struct pack_item){ .name = xstrndup(index_name, len),
				    .objects = index.count,
				    .bytes = (uint64_t)st.st_size,
				    .changed_ns = clock_ns(&st.st_mtim),
				    .inode = st.st_ino,
				    .index_inode = index_st.st_ino,
				    .is_kept = pack_list_has(folder, keep) ||
					       pack_list_has(folder, cruft) };
	pack_index_close(&index);
	return 1;
}

static int pack_list_compare(const void *a, const void *b)
{
	const struct pack_item *one = a, *other = b;

	if (one->objects != other->objects)
		return one->objects < other->objects ? -1 : 1;
	return strcmp(one->name, other->name);
}

int pack_list_read(const struct repo *repo, pack_list *list, struct err *err)
{
	struct dirent *entry;
	struct pack_item item;
	AUTO_CLOSEDIR DIR *folder = dir_list(repo->fd, FOLDER);

	*list = (pack_list){ 0 };
	if (!folder)
		return errno == ENOENT ? 0 : err_errno(err, "cannot list " FOLDER);
	while (errno = 0, (entry = readdir(folder)) != NULL)
		if (text_starts_with(entry->d_name, "pack-") &&
		    text_ends_with(entry->d_name, ".idx") &&
		    pack_list_look(dirfd(folder), repo, entry->d_name, &item) > 0)
			vec_add(list, item);
	if (errno != 0)
		return err_errno(err, "cannot list " FOLDER);
	vec_sort(list, pack_list_compare);
	return 0;
}

void pack_list_clear(pack_list *list)
{
	vec_clear_members(list, name);
}

const struct pack_item *pack_list_find(const pack_list *list, const char *name)
{
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->items[i].name, name) == 0)
			return &list->items[i];
	return NULL;
}

/* git's split_pack_geometry(): from the largest down, as long as each has twice the
 * objects of the next; then up again, as long as the sum of what is folded is too much
 * beside the next. */
size_t pack_list_count_folds(const pack_list *list)
{
	VEC(uint64_t) sizes = { 0 };
	uint64_t sum = 0;
	size_t split;

	for (size_t i = 0; i < list->count; i++)
		if (!list->items[i].is_kept)
			vec_add(&sizes, list->items[i].objects);
	split = sizes.count > 0 ? sizes.count - 1 : 0;
	while (split > 0 && sizes.items[split] >= 2 * sizes.items[split - 1])
		split--;
	if (split > 0)
		split++;
	for (size_t i = 0; i < split; i++)
		sum += sizes.items[i];
	while (split > 0 && split < sizes.count && sizes.items[split] < 2 * sum)
		sum += sizes.items[split++];
	vec_clear(&sizes);
	return split;
}

typedef VEC(struct pack_index) index_list;

static void pack_list_close_indexes(index_list *indexes)
{
	vec_clear_each(indexes, pack_index_close);
}

static int pack_list_open_index(const struct repo *repo, int folder, const char *pack,
				struct pack_index *index, struct err *err)
{
	AUTO_FREE char *name = xasprintf("%s.idx", pack);

	return pack_index_open(folder, name, repo->oid_len, index, err);
}

static int pack_list_open_indexes(const struct repo *repo, int folder,
				  const pack_list *list, index_list *indexes,
				  struct err *err)
{
	struct pack_index index;

	for (size_t i = 0; i < list->count; i++) {
		if (pack_list_open_index(repo, folder, list->items[i].name, &index,
					 err) != 0)
			return -1;
		vec_add(indexes, index);
	}
	return 0;
}

static bool pack_list_is_in_one(const index_list *indexes, const unsigned char *oid)
{
	size_t place;

	for (size_t i = 0; i < indexes->count; i++)
		if (pack_index_find(&indexes->items[i], oid, &place))
			return true;
	return false;
}

static int pack_list_find_lacking(const struct pack_index *index,
				  const index_list *others, char lacks[65])
{
	for (size_t i = 0; i < index->count; i++) {
		const unsigned char *name = pack_index_oid(index, i);
		if (pack_list_is_in_one(others, name))
			continue;
		for (size_t at = 0; at < index->oid_len; at++)
			snprintf(lacks + 2 * at, 3, "%02x", name[at]);
		return 0;
	}
	return 1;
}

int pack_list_covers(const struct repo *repo, const pack_list *others, const char *pack,
		     char lacks[65], struct err *err)
{
	AUTO_CLOSE int folder = dir_open(repo->fd, FOLDER, err);
	index_list indexes = { 0 };
	struct pack_index index;
	int result = -1;

	if (folder < 0 || pack_list_open_index(repo, folder, pack, &index, err) != 0)
		return -1;
	if (pack_list_open_indexes(repo, folder, others, &indexes, err) == 0)
		result = pack_list_find_lacking(&index, &indexes, lacks);
	pack_list_close_indexes(&indexes);
	pack_index_close(&index);
	return result;
}

int pack_list_check_index(const struct repo *repo, const char *pack, struct err *err)
{
	AUTO_CLOSE int folder = dir_open(repo->fd, FOLDER, err);
	AUTO_FREE char *name = xasprintf("%s.pack", pack);
	AUTO_CLOSE int fd = folder < 0 ? -1 : openat(folder, name, O_RDONLY | O_CLOEXEC);
	unsigned char digest[HASH_MAX_SIZE];
	struct pack_index index;
	struct stat st;

	if (folder < 0)
		return -1;
	if (fd < 0 || fstat(fd, &st) != 0)
		return err_errno(err, "cannot open " FOLDER "/%s", name);
	if (pack_list_open_index(repo, folder, pack, &index, err) != 0)
		return -1;
	bool is_of_it =
		pread(fd, digest, repo->oid_len, st.st_size - (off_t)repo->oid_len) ==
			(ssize_t)repo->oid_len &&
		memcmp(digest, pack_index_pack_digest(&index), repo->oid_len) == 0;
	pack_index_close(&index);
	return is_of_it ? 0
			: err_set(err, ERR_CORRUPT,
				  "the index of " FOLDER "/%s is of another", name);
}

int pack_list_remove(const struct repo *repo, const char *pack, struct err *err)
{
	static const char *const ends[] = { "idx",  "rev",      "bitmap",
					    "pack", "promisor", "mtimes" };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		AUTO_FREE char *path = xasprintf(FOLDER "/%s.%s", pack, ends[i]);
		if (unlinkat(repo->fd, path, 0) != 0 && errno != ENOENT)
			return err_errno(err, "cannot remove %s", path);
	}
	return 0;
}
