/*
 * objects/ab/cdef... is the zlib stream of "<type> <size>", a NUL and the content; the
 * object's name is the digest of what was deflated. Git reads a blob only when somebody
 * wants it, and checks no digest then; no walk over the history reads one. So they are
 * read here, without Git. A file is renamed or linked into its place when it is whole, so
 * a bad one is not one that is just being written.
 */
#include "verify/verify_loose.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <zlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "git/oid.h"

#define BLOCK ((size_t)64 << 10)

struct loose {
	const struct git_work *work;
	const struct repo *repo;
	char path[sizeof("objects/ab/") + OID_MAX_TEXT]; /* of the one that is read */
	struct hash hash;
	z_stream inflater;
	unsigned char from[BLOCK], to[BLOCK];
};

static int may_go_on(const struct git_work *work, struct err *err)
{
	int64_t now = clock_boot_ms();

	if (work->stop && stop_is_requested(work->stop))
		return err_set(err, ERR_CANCELED, "the verification was stopped");
	if (work->deadline && now >= deadline_at(work->deadline))
		return err_set(err, ERR_LOST, "the lease ended before the verification");
	if (work->until != 0 && now >= work->until)
		return err_set(err, ERR_TIMEOUT, "the verification took too long");
	return 0;
}

static int verify_loose_fail_damaged(const struct loose *loose, const char *how,
				     struct err *err)
{
	err_set(err, ERR_CORRUPT, "%s %s", loose->path, how);
	return err_remedy(err,
			  "run git fsck in that repository and restore what it names");
}

/* 1: the stream has ended; 0: more is to be read. */
static int inflate_block(struct loose *loose, size_t len, struct err *err)
{
	z_stream *inflater = &loose->inflater;
	int result = Z_OK;

	inflater->next_in = loose->from;
	inflater->avail_in = (unsigned)len;
	do {
		inflater->next_out = loose->to;
		inflater->avail_out = BLOCK;
		result = inflate(inflater, Z_NO_FLUSH);
		if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
			return verify_loose_fail_damaged(loose, "cannot be inflated",
							 err);
		hash_add(&loose->hash, loose->to, BLOCK - inflater->avail_out);
	} while (result == Z_OK && (inflater->avail_in > 0 || inflater->avail_out == 0));
	if (result == Z_STREAM_END && inflater->avail_in > 0)
		return verify_loose_fail_damaged(loose, "has more behind its end", err);
	return result == Z_STREAM_END;
}

static int read_stream(struct loose *loose, int fd, struct err *err)
{
	int ended = 0;
	ssize_t got;

	while ((got = read(fd, loose->from, BLOCK)) > 0) {
		if (may_go_on(loose->work, err) != 0)
			return -1;
		if (ended)
			return verify_loose_fail_damaged(loose, "has more behind its end",
							 err);
		ended = inflate_block(loose, (size_t)got, err);
		if (ended < 0)
			return -1;
	}
	if (got < 0 && errno == EIO) /* the disk itself says that it is lost */
		return verify_loose_fail_damaged(
			loose, "cannot be read: input/output error", err);
	if (got < 0)
		return err_errno(err, "cannot read %s", loose->path);
	return ended ? 0 : verify_loose_fail_damaged(loose, "ends too early", err);
}

static int check_object(struct loose *loose, const struct oid *oid, struct err *err)
{
	unsigned char digest[HASH_MAX_SIZE];
	AUTO_CLOSE int fd = openat(loose->repo->fd, loose->path,
				   O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int result;

	if (fd < 0 && errno == ENOENT)
		return 0; /* packed, or pruned, since it was listed */
	if (fd < 0)
		return err_errno(err, "cannot open %s", loose->path);
	if (inflateReset(&loose->inflater) != Z_OK)
		return err_set(err, ERR_INTERNAL, "zlib cannot begin anew");
	result = read_stream(loose, fd, err);
	hash_end(&loose->hash, digest);
	if (result != 0)
		return -1;
	if (memcmp(digest, oid->bytes, oid->len) != 0)
		return verify_loose_fail_damaged(
			loose, "is another object than its name says", err);
	return 0;
}

/* Other files, as those that are just being written, are nobody's objects. */
static bool is_object(const struct loose *loose, const char *folder, const char *name,
		      struct oid *oid)
{
	char text[OID_MAX_TEXT];

	if (strlen(folder) != 2 || strlen(name) != 2 * loose->repo->oid_len - 2)
		return false;
	snprintf(text, sizeof(text), "%s%s", folder, name);
	return oid_parse(text, loose->repo->oid_len, oid);
}

static int verify_loose_check_folder(struct loose *loose, const char *folder,
				     struct err *err)
{
	AUTO_FREE char *path = xasprintf("objects/%s", folder);
	AUTO_CLOSEDIR DIR *dir = dir_list(loose->repo->fd, path);
	const struct dirent *entry;
	struct oid oid;

	if (!dir && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (!dir)
		return err_errno(err, "cannot list %s", path);
	while (errno = 0, (entry = readdir(dir)) != NULL) {
		if (!is_object(loose, folder, entry->d_name, &oid))
			continue;
		if (may_go_on(loose->work, err) != 0)
			return -1;
		snprintf(loose->path, sizeof(loose->path), "%s/%.*s", path,
			 2 * OID_MAX_SIZE, entry->d_name);
		if (check_object(loose, &oid, err) != 0)
			return -1;
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", path);
}

int verify_loose(const struct git_work *work, const struct repo *repo, struct err *err)
{
	struct loose *loose = xcalloc(1, sizeof(*loose));
	char folder[3];
	int result = 0;

	loose->work = work;
	loose->repo = repo;
	if (inflateInit(&loose->inflater) != Z_OK) {
		free(loose);
		return err_set(err, ERR_INTERNAL, "zlib cannot inflate");
	}
	hash_init(&loose->hash, repo->oid_len == 20 ? HASH_SHA1 : HASH_SHA256);
	for (unsigned i = 0; i < 256 && result == 0; i++) {
		snprintf(folder, sizeof(folder), "%02x", i);
		result = verify_loose_check_folder(loose, folder, err);
	}
	hash_clear(&loose->hash);
	inflateEnd(&loose->inflater);
	free(loose);
	return result;
}
