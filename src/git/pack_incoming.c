#include "git/pack_incoming.h"

#include <sys/file.h>

#include "base/file.h"
#include "base/hash.h"

#define FOLDER "objects/pack"
#define BLOCK ((size_t)1 << 20)

struct pack_incoming {
	int folder, fd;
	int from; /* where it is until it is whole; borrowed: the parts, or the folder */
	char *name, *temporary;
	uint64_t size, here;
	size_t oid_len;
	struct hash hash;
	unsigned char trailer[HASH_MAX_SIZE];
	bool is_kept, is_wrong, is_finished;
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

/* Not one that somebody still writes to, as a process that was paused for long and lost
 * the lease may. One that is not whole is written to: it must have no other name, as one
 * that a copy has. */
static bool pack_incoming_take_up(struct pack_incoming *incoming)
{
	struct stat st;

	if (fstatat(incoming->from, incoming->temporary, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	const bool is_whole = (uint64_t)st.st_size == incoming->size;
	incoming->fd = openat(incoming->from, incoming->temporary,
			      (is_whole ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_NONBLOCK |
				      O_CLOEXEC);
	return incoming->fd >= 0 &&
	       flock(incoming->fd, (is_whole ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0 &&
	       fstat(incoming->fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       (is_whole ? (uint64_t)st.st_size == incoming->size
			 : (uint64_t)st.st_size < incoming->size && st.st_nlink == 1);
}

static int pack_incoming_create(struct pack_incoming *incoming, struct err *err)
{
	if (incoming->is_kept && pack_incoming_take_up(incoming))
		return 0;
	if (incoming->fd >= 0)
		close(incoming->fd);
	unlinkat(incoming->from, incoming->temporary, 0);
	incoming->fd = openat(incoming->from, incoming->temporary,
			      O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (incoming->fd < 0)
		return err_errno(err, "cannot create %s", incoming->temporary);
	if (flock(incoming->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
		return err_set(err, ERR_LOST, "another process took %s",
			       incoming->temporary);
	return 0;
}

static void pack_incoming_count(struct pack_incoming *incoming, const void *bytes,
				size_t len)
{
	const uint64_t body = incoming->size - incoming->oid_len;
	const uint64_t left = incoming->here < body ? body - incoming->here : 0;
	const size_t hashed = left < len ? (size_t)left : len;

	hash_add(&incoming->hash, bytes, hashed);
	if (hashed < len)
		memcpy(incoming->trailer + (incoming->here + hashed - body),
		       (const char *)bytes + hashed, len - hashed);
	incoming->here += len;
}

/* A crash of the machine may have damaged it: the digest at the end tells. */
int pack_incoming_read(struct pack_incoming *incoming, const struct git_work *work,
		       struct err *err)
{
	AUTO_FREE char *block = xmalloc(BLOCK);
	ssize_t got = 1;

	while (got > 0 && incoming->here < incoming->size) {
		const uint64_t left = incoming->size - incoming->here;
		got = read(incoming->fd, block, left < BLOCK ? (size_t)left : BLOCK);
		incoming->is_wrong = got < 0;
		if (got < 0)
			return err_errno(err, "cannot read %s", incoming->temporary);
		pack_incoming_count(incoming, block, (size_t)got);
		if (git_work_check(work, err) != 0)
			return -1;
	}
	return 0;
}

int pack_incoming_open(const struct repo *to, int parts, const char *name, uint64_t size,
		       struct pack_incoming **incoming, struct err *err)
{
	struct pack_incoming *made;

	if (size < 2 * to->oid_len)
		return pack_incoming_fail_corrupt(name, err);
	made = xcalloc(1, sizeof(*made));
	made->fd = -1;
	made->folder = dir_open(to->fd, FOLDER, err);
	made->is_kept = parts >= 0;
	made->from = parts >= 0 ? parts : made->folder;
	made->name = xstrdup(name);
	made->temporary = xasprintf("%s%s", parts >= 0 ? "" : "tmp_copy_", name);
	made->size = size;
	made->oid_len = to->oid_len;
	hash_init(&made->hash, to->oid_len == 32 ? HASH_SHA256 : HASH_SHA1);
	if (made->folder < 0 || pack_incoming_create(made, err) != 0) {
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
	incoming->is_wrong = len > incoming->size - incoming->here;
	if (incoming->is_wrong)
		return pack_incoming_fail_corrupt(incoming->name, err);
	if (file_write_all(incoming->fd, bytes, len, incoming->name, err) != 0)
		return -1;
	pack_incoming_count(incoming, bytes, len);
	return 0;
}

/* What is kept gets a second name, as long as somebody else has not taken it; not on all
 * file systems. */
static int pack_incoming_name(const struct pack_incoming *incoming, struct err *err)
{
	if (!file_is_named(incoming->from, incoming->temporary, incoming->fd))
		return err_set(err, ERR_LOST, "another process took %s",
			       incoming->temporary);
	if (incoming->is_kept && linkat(incoming->from, incoming->temporary,
					incoming->folder, incoming->name, 0) == 0)
		return 0;
	return renameat(incoming->from, incoming->temporary, incoming->folder,
			incoming->name) == 0
		       ? 0
		       : err_errno(err, "cannot rename %s", incoming->temporary);
}

int pack_incoming_finish(struct pack_incoming *incoming, struct err *err)
{
	unsigned char digest[HASH_MAX_SIZE];
	struct stat st;

	hash_end(&incoming->hash, digest);
	incoming->is_wrong = incoming->here != incoming->size ||
			     memcmp(digest, incoming->trailer, incoming->oid_len) != 0;
	if (incoming->is_wrong)
		return pack_incoming_fail_corrupt(incoming->name, err);
	if (fstat(incoming->fd, &st) != 0 ||
	    fchmod(incoming->fd, st.st_mode & 0444) != 0 || fsync(incoming->fd) != 0)
		return err_errno(err, "cannot sync %s", incoming->temporary);
	if (pack_incoming_name(incoming, err) != 0)
		return -1;
	incoming->is_finished = true;
	return 0;
}

static bool pack_incoming_may_stay(const struct pack_incoming *incoming)
{
	return incoming->is_finished ||
	       (incoming->is_kept && !incoming->is_wrong && incoming->here > 0);
}

void pack_incoming_close(struct pack_incoming *incoming)
{
	if (!incoming)
		return;
	if (incoming->fd >= 0) {
		if (!pack_incoming_may_stay(incoming) &&
		    file_is_named(incoming->from, incoming->temporary, incoming->fd))
			unlinkat(incoming->from, incoming->temporary, 0);
		close(incoming->fd);
	}
	if (incoming->folder >= 0)
		close(incoming->folder);
	hash_clear(&incoming->hash);
	free(incoming->name);
	free(incoming->temporary);
	free(incoming);
}
