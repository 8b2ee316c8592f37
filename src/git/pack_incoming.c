#include "git/pack_incoming.h"

#include "base/file.h"
#include "base/hash.h"

#define FOLDER "objects/pack"

struct pack_incoming {
	int folder, fd;
	char *name, *temporary;
	uint64_t size, here;
	size_t oid_len;
	struct hash hash;
	unsigned char trailer[HASH_MAX_SIZE];
	bool is_finished;
};

static int pack_incoming_fail_corrupt(const char *name, struct err *err)
{
	err_set(err, ERR_CORRUPT,
		FOLDER "/%s is corrupt: its bytes do not match its "
		       "own digest",
		name);
	return err_remedy(err,
			  "run git fsck in that repository and restore what it names");
}

static int pack_incoming_create(struct pack_incoming *incoming, const struct repo *to,
				struct err *err)
{
	incoming->folder = dir_open(to->fd, FOLDER, err);
	if (incoming->folder < 0)
		return -1;
	incoming->fd = openat(incoming->folder, incoming->temporary,
			      O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444);
	return incoming->fd >= 0 ? 0
				 : err_errno(err, "cannot create " FOLDER "/%s",
					     incoming->temporary);
}

int pack_incoming_open(const struct repo *to, const char *name, uint64_t size,
		       struct pack_incoming **incoming, struct err *err)
{
	struct pack_incoming *made;

	if (size < 2 * to->oid_len)
		return pack_incoming_fail_corrupt(name, err);
	made = xcalloc(1, sizeof(*made));
	made->folder = made->fd = -1;
	made->name = xstrdup(name);
	made->temporary = xasprintf("tmp_copy_%s", name);
	made->size = size;
	made->oid_len = to->oid_len;
	hash_init(&made->hash, to->oid_len == 32 ? HASH_SHA256 : HASH_SHA1);
	if (pack_incoming_create(made, to, err) != 0) {
		pack_incoming_close(made);
		return -1;
	}
	*incoming = made;
	return 0;
}

uint64_t pack_incoming_here(const struct pack_incoming *incoming)
{
	return incoming->here;
}

int pack_incoming_write(struct pack_incoming *incoming, const void *bytes, size_t len,
			struct err *err)
{
	const uint64_t body = incoming->size - incoming->oid_len;
	const uint64_t left = incoming->here < body ? body - incoming->here : 0;
	const size_t hashed = left < len ? (size_t)left : len;

	if (len > incoming->size - incoming->here)
		return pack_incoming_fail_corrupt(incoming->name, err);
	if (file_write_all(incoming->fd, bytes, len, incoming->name, err) != 0)
		return -1;
	hash_add(&incoming->hash, bytes, hashed);
	if (hashed < len)
		memcpy(incoming->trailer + (incoming->here + hashed - body),
		       (const char *)bytes + hashed, len - hashed);
	incoming->here += len;
	return 0;
}

int pack_incoming_finish(struct pack_incoming *incoming, struct err *err)
{
	unsigned char digest[HASH_MAX_SIZE];

	hash_end(&incoming->hash, digest);
	if (incoming->here != incoming->size ||
	    memcmp(digest, incoming->trailer, incoming->oid_len) != 0)
		return pack_incoming_fail_corrupt(incoming->name, err);
	if (fsync(incoming->fd) != 0)
		return err_errno(err, "cannot sync " FOLDER "/%s", incoming->name);
	if (renameat(incoming->folder, incoming->temporary, incoming->folder,
		     incoming->name) != 0)
		return err_errno(err, "cannot rename " FOLDER "/%s", incoming->temporary);
	incoming->is_finished = true;
	return 0;
}

void pack_incoming_close(struct pack_incoming *incoming)
{
	if (!incoming)
		return;
	if (incoming->fd >= 0) {
		close(incoming->fd);
		if (!incoming->is_finished)
			unlinkat(incoming->folder, incoming->temporary, 0);
	}
	if (incoming->folder >= 0)
		close(incoming->folder);
	hash_clear(&incoming->hash);
	free(incoming->name);
	free(incoming->temporary);
	free(incoming);
}
