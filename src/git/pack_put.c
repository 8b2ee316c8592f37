/*
 * Pack and index get their content, then their names, the index last: from then on git
 * sees a pack. Source of the form of both: gitformat-pack(5).
 */
#include "git/pack_put.h"

#include <endian.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/flush.h"
#include "base/hash.h"
#include "git/pack_index.h"

#define FOLDER "objects/pack"
#define PACK_VERSION 2
#define INDEX_MAGIC 0xff744f63u
#define INDEX_VERSION 2
#define INDEX_BUCKETS 256

static void add_number(struct str *out, uint32_t number)
{
	const uint32_t value = htobe32(number);

	str_add_bytes(out, &value, sizeof(value));
}

static void pack_digest(const void *data, size_t len,
			unsigned char digest[PACK_PUT_TRAILER])
{
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA1);
	hash_add(&hash, data, len);
	hash_end(&hash, digest);
}

void pack_put_head(uint32_t count, struct str *pack)
{
	str_add(pack, "PACK");
	add_number(pack, PACK_VERSION);
	add_number(pack, count);
}

void pack_put_trailer(struct str *pack, size_t begin)
{
	unsigned char digest[PACK_PUT_TRAILER];

	pack_digest(pack->data + begin, pack->len - begin, digest);
	str_add_bytes(pack, digest, sizeof(digest));
}

bool pack_put_is_pack(const void *pack, size_t len, uint32_t *count)
{
	const unsigned char *at = pack;

	if (len < PACK_PUT_HEAD + PACK_PUT_TRAILER || memcmp(at, "PACK", 4) != 0 ||
	    pack_index_number(at + 4) != PACK_VERSION)
		return false;
	*count = pack_index_number(at + 8);
	return true;
}

bool pack_put_is_whole(const void *pack, size_t len)
{
	unsigned char digest[PACK_PUT_TRAILER];
	size_t end = len - PACK_PUT_TRAILER;

	pack_digest(pack, end, digest);
	return memcmp(digest, (const char *)pack + end, PACK_PUT_TRAILER) == 0;
}

struct putter {
	const struct pack_put *put;
	int folder;
	struct str index;
	char temporary[2][40]; /* of pack and index; "": none */
	struct err *err;
};

static const unsigned char *pack_end(const struct pack_put *put)
{
	return (const unsigned char *)put->pack + put->len - PACK_PUT_TRAILER;
}

/* Magic and version; of how many objects the name begins with at most each byte; names;
 * a CRC each; an offset each; two digests. */
static void make_index(struct putter *putter)
{
	struct str *index = &putter->index;
	size_t below = 0, count = putter->put->count;
	const struct pack_put_entry *entries = putter->put->entries;

	add_number(index, INDEX_MAGIC);
	add_number(index, INDEX_VERSION);
	for (unsigned bucket = 0; bucket < INDEX_BUCKETS; bucket++) {
		while (below < count && entries[below].oid.bytes[0] <= bucket)
			below++;
		add_number(index, (uint32_t)below);
	}
	for (size_t i = 0; i < count; i++)
		str_add_bytes(index, entries[i].oid.bytes, PACK_PUT_TRAILER);
	for (size_t i = 0; i < count; i++)
		add_number(index, entries[i].crc);
	for (size_t i = 0; i < count; i++)
		add_number(index, entries[i].offset);
	str_add_bytes(index, pack_end(putter->put), PACK_PUT_TRAILER);
	pack_put_trailer(index, 0);
}

/* Under git's own kind of temporary name, which housekeeping knows. Returns it, open. */
static int write_temporary(struct putter *putter, int which, const void *data, size_t len)
{
	char *name = putter->temporary[which];
	char random[17];

	random_hex(random, 8);
	snprintf(name, sizeof(putter->temporary[which]), "tmp_%s_%s",
		 which == 0 ? "pack" : "idx", random);
	AUTO_CLOSE int fd = openat(putter->folder, name,
				   O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	if (fd < 0)
		return err_errno(putter->err, "cannot create " FOLDER "/%s", name);
	if (file_write_all(fd, data, len, name, putter->err) != 0)
		return -1;
	return TAKE_FD(fd);
}

/* What was written is what is read now. */
static int read_back(const struct putter *putter, int which, const void *data, size_t len)
{
	const char *name = putter->temporary[which];
	AUTO_STR struct str text = STR_INIT;

	if (file_read(putter->folder, name, len, &text, putter->err) != 0)
		return -1;
	if (text.len == len && memcmp(text.data, data, len) == 0)
		return 0;
	err_set(putter->err, ERR_DISK, FOLDER "/%s is read otherwise than it was written",
		name);
	return err_remedy(putter->err, "check the disk and its file system");
}

/* Both, before either has a name that counts. */
static int write_both(struct putter *putter)
{
	const struct pack_put *put = putter->put;
	AUTO_CLOSE int pack = write_temporary(putter, 0, put->pack, put->len);
	AUTO_CLOSE int index = pack < 0 ? -1
					: write_temporary(putter, 1, putter->index.data,
							  putter->index.len);
	const int files[] = { pack, index };

	if (index < 0 || flush_before_names(files, 2, putter->err) != 0 ||
	    read_back(putter, 0, put->pack, put->len) != 0)
		return -1;
	return read_back(putter, 1, putter->index.data, putter->index.len);
}

static int give_name(struct putter *putter, int which, const char *name)
{
	if (renameat(putter->folder, putter->temporary[which], putter->folder, name) != 0)
		return err_errno(putter->err, "cannot rename " FOLDER "/%s",
				 putter->temporary[which]);
	putter->temporary[which][0] = '\0';
	return 0;
}

/* What has its name stays, also after a failure: if this thread has lost its lease
 * meanwhile, somebody else may have made and published the very pack. Without an index it
 * is none, and is swept. */
static int give_names(struct putter *putter, const char *pack, const char *index)
{
	if (give_name(putter, 0, pack) != 0)
		return -1;
	failpoint("small_pack.packed");
	if (give_name(putter, 1, index) != 0)
		return -1;
	return fsync(putter->folder) == 0
		       ? 0
		       : err_errno(putter->err, "cannot sync directory " FOLDER);
}

static bool is_same_file(const struct putter *putter, const char *name, const void *data,
			 size_t len)
{
	AUTO_STR struct str text = STR_INIT;

	return file_read(putter->folder, name, len, &text, ERR_IGNORED) == 0 &&
	       text.len == len && memcmp(text.data, data, len) == 0;
}

/* The same pack may be there already, of a change that was not published, or that was
 * undone and has come again: whoever has it open keeps it, and nobody wonders who has
 * written there. 1: it is not there, or not the same. */
static int keep_present(const struct putter *putter, const char *pack, const char *index)
{
	const struct pack_put *put = putter->put;

	if (!is_same_file(putter, pack, put->pack, put->len) ||
	    !is_same_file(putter, index, putter->index.data, putter->index.len))
		return 1;
	return file_flush(putter->folder, pack, putter->err) == 0 &&
			       file_flush(putter->folder, index, putter->err) == 0 &&
			       dir_sync(putter->folder, ".", putter->err) == 0
		       ? 0
		       : -1;
}

static void putter_clear(struct putter *putter)
{
	for (int which = 0; putter->folder >= 0 && which < 2; which++)
		if (putter->temporary[which][0])
			unlinkat(putter->folder, putter->temporary[which], 0);
	str_clear(&putter->index);
}

int pack_put(const struct repo *repo, const struct pack_put *put, struct err *err)
{
	AUTO_CLOSE int folder = dir_open(repo->fd, FOLDER, err);
	struct putter putter = {
		.put = put, .folder = folder, .index = STR_INIT, .err = err
	};
	AUTO_STR struct str text = STR_INIT;
	int result;

	if (folder < 0)
		return -1;
	make_index(&putter);
	str_add_hex(&text, pack_end(put), PACK_PUT_TRAILER);
	AUTO_FREE char *pack = xasprintf("pack-%s.pack", text.data);
	AUTO_FREE char *index = xasprintf("pack-%s.idx", text.data);
	result = keep_present(&putter, pack, index);
	if (result > 0 && (result = write_both(&putter)) == 0) {
		failpoint("small_pack.indexed");
		result = give_names(&putter, pack, index);
	}
	putter_clear(&putter);
	return result;
}
